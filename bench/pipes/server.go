// Package pipes runs OpenSSH's sftp-server in a process of its own, joined to a client by two pipes
// and no SSH, and wraps such streams to count or to delay their data.
package pipes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoServer says that this machine has no sftp-server.
var ErrNoServer = errors.New("no sftp-server found (Debian package openssh-sftp-server)")

// LargePipe is the largest pipe that Linux gives an unprivileged process by default.
const LargePipe = 1 << 20

// Server is a running sftp-server.
type Server struct {
	// R carries its replies, W its requests.
	R, W *os.File
	cmd  *exec.Cmd
}

// FindServer returns the path of sftp-server.
func FindServer() (string, error) {
	for _, path := range []string{"/usr/lib/openssh/sftp-server",
		"/usr/libexec/openssh/sftp-server",
		"/usr/lib/ssh/sftp-server", "/usr/libexec/sftp-server"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", ErrNoServer
}

// Start runs sftp-server with pipes of pipeSize bytes; 0 leaves the kernel's default of 64 KiB.
func Start(pipeSize int) (*Server, error) {
	path, err := FindServer()
	if err != nil {
		return nil, err
	}
	return StartCommand(pipeSize, path)
}

// StartCommand runs another server in place of sftp-server.
func StartCommand(pipeSize int, path string, args ...string) (*Server, error) {
	requestsOut, requestsIn, err := pipe(pipeSize)
	if err != nil {
		return nil, err
	}
	repliesOut, repliesIn, err := pipe(pipeSize)
	if err != nil {
		requestsOut.Close()
		requestsIn.Close()
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = requestsOut, repliesIn, os.Stderr
	err = cmd.Start()
	requestsOut.Close()
	repliesIn.Close()
	if err != nil {
		requestsIn.Close()
		repliesOut.Close()
		return nil, err
	}
	return &Server{R: repliesOut, W: requestsIn, cmd: cmd}, nil
}

func pipe(size int) (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err != nil || size == 0 {
		return r, w, err
	}
	raw, err := w.SyscallConn()
	if err == nil {
		controlErr := raw.Control(func(fd uintptr) {
			_,
				err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size)
		})
		err = errors.Join(err, controlErr)
	}
	if err != nil {
		r.Close()
		w.Close()
		return nil, nil, fmt.Errorf("pipe of %d bytes: %w", size, err)
	}
	return r, w, nil
}

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Close ends the server, which leaves by itself at the end of its requests, and waits for it.
func (s *Server) Close() error {
	s.W.Close()
	s.R.Close()
	timer := time.AfterFunc(10*time.Second, func() { s.cmd.Process.Kill() })
	defer timer.Stop()
	err := s.cmd.Wait()
	// It writes to a closed pipe when replies were still on their way: no concern of a benchmark.
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
