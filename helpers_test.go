package usftp_test

import (
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
)

// rig is a client of a scripted server over a link, inside a bubble of testing/synctest.
type rig struct {
	*usftp.Client
	server *sftptest.Scripted
	count  *sftptest.Counter
}

// openSSH is a version line that says the server works in order.
const openSSH = "SSH-2.0-OpenSSH_9.2p1 Debian-2"

// newRig starts a client whose server is rtt away. It must be called within a bubble where rtt is
// not 0.
func newRig(t testing.TB, script sftptest.Script, rtt time.Duration,
	opts ...usftp.ClientOption) *rig {
	t.Helper()
	server := sftptest.NewScripted(script)
	count := sftptest.NewCounter(server.Dial(sftptest.LinkConfig{ToServer: rtt / 2,
		ToClient: rtt / 2}))
	client, err := usftp.NewClientPipe(count, count, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
		if t.Failed() {
			t.Logf("script: %v", script)
		}
	})
	return &rig{client, server, count}
}

// clientOf returns a client of the server at the other end of a stream.
func clientOf(t testing.TB, stream io.ReadWriteCloser,
	opts ...usftp.ClientOption) *usftp.Client {
	t.Helper()
	client, err := usftp.NewClientPipe(stream, stream, opts...)
	ok(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// bubble runs a test in a bubble of testing/synctest.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// trips runs f and returns how many round trips it took, by the clock of the bubble.
func trips(rtt time.Duration, f func()) float64 {
	began := time.Now()
	f()
	return float64(time.Since(began)) / float64(rtt)
}

func names(files []*usftp.File) []string {
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	slices.Sort(names)
	return names
}

func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const sftpServer = "/usr/lib/openssh/sftp-server"

// startServer runs OpenSSH's sftp-server on pipes.
func startServer(t testing.TB, opts ...usftp.ClientOption) *usftp.Client {
	t.Helper()
	if _, err := os.Stat(sftpServer); err != nil {
		testenv.Unavailable(t, err)
	}
	cmd := exec.Command(sftpServer, "-e")
	w, r := testenv.Pipes(t, cmd)
	client, err := usftp.NewClientPipe(r, w, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		cmd.Wait()
	})
	return client
}

func randomFile(t testing.TB, dir string, size int) (name string, data []byte) {
	t.Helper()
	data = make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(data)
	name = filepath.Join(dir, "source")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name, data
}
