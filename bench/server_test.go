package bench

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/bench/floor"
	"github.com/usftp/usftp/bench/pipes"
	"github.com/usftp/usftp/internal/testenv"
)

// servedSize is the number of bytes that a server moves at a time.
const servedSize = 256 << 20

// usftpEnv names the command that is measured as a server, by an absolute path; otherwise it is
// looked up on the PATH.
const usftpEnv = "USFTP"

// servers answer at the other end of two pipes.
var servers = []struct {
	name  string
	start func() (*pipes.Server, error)
}{
	{"sftp-server", func() (*pipes.Server, error) { return pipes.Start(pipes.LargePipe) }},
	{"usftp", func() (*pipes.Server, error) {
		program := os.Getenv(usftpEnv)
		if program == "" {
			found, err := exec.LookPath("usftp")
			if err != nil {
				return nil, errNoUsftp
			}
			program = found
		}
		return pipes.StartCommand(pipes.LargePipe, program, "serve", "--stdio")
	}},
}

var errNoUsftp = errors.New("no usftp on the PATH, nor in $" + usftpEnv)

// BenchmarkServer has the floor, which costs the client next to nothing, move files through servers
// over pipes. It also reports the processor seconds that the server takes for each GiB.
func BenchmarkServer(b *testing.B) {
	path, _ := randomFile(b, servedSize)
	for _, setting := range []floor.Setting{{Packet: 261120, InFlight: 16},
		{Packet: 32 << 10, InFlight: 64}} {
		for _, op := range []struct {
			name string
			move func(c *floor.Client) error
		}{
			{"get", func(c *floor.Client) error { return c.Download(path, servedSize, setting) }},
			{"put", func(c *floor.Client) error {
				return c.Upload(path+".up", servedSize,
					setting)
			}},
		} {
			for _, one := range servers {
				b.Run("op="+op.name+"/"+setting.String()+"/server="+one.name, func(b *testing.B) {
					benchmarkServer(b, one.start, op.move)
				})
			}
		}
	}
}

func benchmarkServer(b *testing.B, start func() (*pipes.Server, error),
	move func(*floor.Client) error) {
	server, err := start()
	if errors.Is(err, pipes.ErrNoServer) || errors.Is(err, errNoUsftp) {
		testenv.Unavailable(b, err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	client, err := floor.New(server.R, server.W)
	if err != nil {
		b.Fatal(err)
	}
	if err := move(client); err != nil {
		b.Fatal(err)
	}
	before := processor(b, server.PID())
	b.SetBytes(servedSize)
	for b.Loop() {
		if err := move(client); err != nil {
			b.Fatal(err)
		}
	}
	took := processor(b, server.PID()) - before
	b.ReportMetric(took.Seconds()/float64(b.N)/servedSize*(1<<30), "server-s/GiB")
}

// processor is the processor time of a process, all its threads together, to the nanosecond.
func processor(b *testing.B, pid int) time.Duration {
	b.Helper()
	// CPUCLOCK_SCHED of the process, as clock_getcpuclockid(3) makes it.
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}
