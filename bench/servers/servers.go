// Package servers runs the servers that are compared: OpenSSH's, SFTPGo's, usftp's, and two of
// usftp's behind HAProxy. All serve one directory to one user, with the same keys, on loopback.
package servers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/usftp/usftp/bench/measure"
	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/sshd"
)

// Config describes a server.
type Config struct {
	// Dir is the directory.
	Dir string
	// Usftpd is the usftpd program; without it there are no servers of ours.
	Usftpd string
}

// Rig starts servers. It owns their keys, which OpenSSH's server made, so that this one always
// runs.
type Rig struct {
	config  Config
	openssh *sshd.Server
	dir     string
}

// Server is a running server.
type Server struct {
	sshd.Access
	// Name is one of package rows' names.
	Name string
	// Root is what the path of a served file begins with: nothing where the directory is all that
	// clients see.
	Root string
	// Metrics is the address of usftp's metrics, for a server of ours that is alone.
	Metrics string

	processes []*os.Process
	openssh   bool   // its process is the rig's
	remove    string // a directory of its own
}

const loopback = "127.0.0.1"

// NewRig makes the keys.
func NewRig(config Config) (*Rig, error) {
	openssh, err := sshd.Start(sshd.Config{})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "usftp-servers-")
	if err != nil {
		return nil, errors.Join(err, openssh.Close())
	}
	return &Rig{config: config, openssh: openssh, dir: dir}, nil
}

// Close ends the rig. Its servers must have been closed.
func (r *Rig) Close() error { return errors.Join(r.openssh.Close(), os.RemoveAll(r.dir)) }

// ErrAbsent is the kind of error that says that a server is not on this machine.
var ErrAbsent = errors.New("not on this machine")

func absent(text string) error { return fmt.Errorf("%w: %s", ErrAbsent, text) }

// Present returns an error that names the missing program if a server cannot be started.
func (r *Rig) Present(name string) error {
	switch name {
	case rows.SFTPGo:
		if _, err := exec.LookPath("sftpgo"); err != nil {
			return absent("no sftpgo on the PATH")
		}
	case rows.Usftp, rows.Balanced:
		if _, err := os.Stat(r.config.Usftpd); err != nil {
			return absent("no usftpd beside what -usftp names")
		}
		if _, err := exec.LookPath("haproxy"); err != nil && name == rows.Balanced {
			return absent("no haproxy on the PATH")
		}
	}
	return nil
}

// Start runs a server.
func (r *Rig) Start(name string) (s *Server, err error) {
	if err := r.Present(name); err != nil {
		return nil, err
	}
	if name == rows.OpenSSH {
		return &Server{Access: r.openssh.Access, Name: name, Root: r.config.Dir, openssh: true,
			processes: []*os.Process{r.openssh.Process()}}, nil
	}
	return r.start(name, func(s *Server, address string) error {
		switch name {
		case rows.SFTPGo:
			return r.startSFTPGo(s, address)
		case rows.Usftp:
			return r.startUsftp(s, address)
		case rows.Balanced:
			return r.startBalanced(s, address)
		}
		return fmt.Errorf("there is no server %q", name)
	})
}

// start runs a server's programs at an address of its own.
func (r *Rig) start(name string, programs func(s *Server, address string) error) (s *Server,
	err error) {
	if err := r.Present(name); err != nil {
		return nil, err
	}
	port, err := sshd.FreePort(loopback)
	if err != nil {
		return nil, err
	}
	s = &Server{Name: name}
	if err = programs(s, net.JoinHostPort(loopback, port)); err == nil {
		s.Access, err = r.openssh.Via(loopback, port)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// run starts a program of a server, and waits until it is ready.
func (r *Rig) run(s *Server, ready func() error, program string, arguments ...string) error {
	log, err := os.CreateTemp(r.dir, filepath.Base(program)+"-*.log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, arguments...)
	cmd.Dir = r.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.processes = append(s.processes, cmd.Process)
	if err := await(ready); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s did not start: %w\n%s", program, err, said)
	}
	return nil
}

// await asks again and again until a server is ready.
func await(ready func() error) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		err := ready()
		if err == nil {
			return nil
		}
		if now := <-ticker.C; now.After(deadline) {
			return err
		}
	}
}

// banner is ready when a server sends the beginning of SSH's banner.
func banner(address string) func() error {
	return func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetReadDeadline(time.Now().Add(time.Second))
		heard := make([]byte, 4)
		if _, err := io.ReadFull(conn, heard); err != nil {
			return err
		}
		if !bytes.Equal(heard, []byte("SSH-")) {
			return fmt.Errorf("it says %q", heard)
		}
		return nil
	}
}

// accepts is ready when a server accepts connections.
func accepts(address string) func() error {
	return func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// Processor returns the processor time of all that has been served, once the server has come to
// rest.
func (s *Server) Processor() (time.Duration, error) {
	const patience = 2 * time.Minute
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	last := time.Duration(-1)
	for deadline := time.Now().Add(patience); ; {
		var sum time.Duration
		for _, p := range s.processes {
			spent, err := measure.SettledProcessor(p.Pid, patience)
			if err != nil {
				return 0, err
			}
			sum += spent
		}
		if sum == last {
			return sum, nil
		}
		last = sum
		if now := <-ticker.C; now.After(deadline) {
			return 0, fmt.Errorf("the server %s does not come to rest", s.Name)
		}
	}
}

// Memory returns, in KiB, what the server's processes and their children have resident, and the sum
// of what each has had at most.
func (s *Server) Memory() (resident, peak int64) {
	for _, p := range s.processes {
		now, most := measure.Memory(p.Pid)
		resident, peak = resident+now, peak+most
	}
	return resident, peak
}

// Goroutines returns how many the server has, once that does not change any more; 0 of a server
// that does not tell.
func (s *Server) Goroutines() (int, error) {
	if s.Metrics == "" {
		return 0, nil
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	last := -1
	for deadline := time.Now().Add(2 * time.Minute); ; {
		now, err := s.metric("go_goroutines")
		if err != nil || now == last {
			return now, err
		}
		last = now
		if t := <-ticker.C; t.After(deadline) {
			return now, fmt.Errorf("the goroutines of the server %s come and go", s.Name)
		}
	}
}

func (s *Server) metric(name string) (int, error) {
	// Each on a connection of its own, which has left no goroutine behind when the next comes.
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get("http://" +
		s.Metrics + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("the server %s has no metric %s", s.Name, name))
}

// Close ends the server.
func (s *Server) Close() error {
	if s.openssh {
		return nil
	}
	for _, p := range s.processes {
		p.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { p.Kill() })
		p.Wait()
		timer.Stop()
	}
	s.processes = nil
	if s.remove == "" {
		return nil
	}
	return os.RemoveAll(s.remove)
}
