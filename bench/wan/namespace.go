package wan

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Side is one end of a link: a network namespace of its own.
type Side struct {
	// Address is its address on the link.
	Address netip.Addr
	calls   chan func()
	done    chan struct{}
}

// newSide makes a network namespace. It lives as long as a thread or a process is in it, and has no
// name that could be left behind.
func newSide(address netip.Addr) (*Side, error) {
	s := &Side{Address: address, calls: make(chan func()), done: make(chan struct{})}
	made := make(chan error)
	go func() {
		defer close(s.done)
		// Never unlocked: the thread is spoilt for other goroutines and ends with this one.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- os.NewSyscallError("unshare", err)
			return
		}
		made <- nil
		for call := range s.calls {
			call()
		}
	}()
	return s, <-made
}

// Do calls f on a thread inside the namespace. Whatever f starts or opens there belongs to the
// namespace; goroutines that f starts do not run in it.
func (s *Side) Do(f func() error) error {
	result := make(chan error)
	s.calls <- func() { result <- f() }
	return <-result
}

// Start starts a command inside the namespace. It is killed when the link is closed.
func (s *Side) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return s.Do(cmd.Start)
}

// ErrNotListening is returned by AwaitListener after its timeout.
var ErrNotListening = errors.New("nothing listens")

// AwaitListener waits until a process of this side listens on a TCP port. It only looks, so a
// server that serves one connection still has it to serve.
func (s *Side) AwaitListener(port int, patience time.Duration) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; {
		var found bool
		err := s.Do(func() (err error) {
			found, err = listening(port)
			return err
		})
		if found || err != nil {
			return err
		}
		if now := <-ticker.C; now.After(deadline) {
			return ErrNotListening
		}
	}
}

// listening reads the calling thread's namespace: lines of "sl local_address rem_address st", with
// the port in hex after the local address's colon and state 0A for LISTEN.
func listening(port int) (bool, error) {
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile("/proc/thread-self/net/" + name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		for _, line := range strings.Split(string(table), "\n") {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != "0A" {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
				return true, nil
			}
		}
	}
	return false, nil
}

func (s *Side) close() {
	close(s.calls)
	<-s.done
}
