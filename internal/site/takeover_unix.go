//go:build unix

package site

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A restart starts the program again, as it is on the disk now and with the same arguments. It
// takes over the listening sockets, where waiting connections go on waiting until either accepts.
// Only once it accepts does the old one stop accepting, and ends with its last session.

const (
	// inheritVariable has the addresses of the sockets that a new process inherits, from descriptor
	// firstInherited on. Descriptors of the name toBefore are pipes to the processes before it,
	// which may have sessions still. It writes a byte to each when it accepts, and for each reload.
	inheritVariable = "USFTPD_SOCKETS"
	firstInherited  = 3
	toBefore        = "before"

	// takeoverPatience is how long the new process may take to start.
	takeoverPatience = time.Minute
)

// sockets are the listening sockets, by the address in the settings.
type sockets struct {
	inherited map[string][]net.Listener
	own       []socket
	before    []*os.File // pipes to the processes before this one
}

type socket struct {
	address  string
	listener *net.TCPListener
}

// inherit takes the sockets that the process before this one left.
func (s *sockets) inherit() error {
	text, left := os.LookupEnv(inheritVariable)
	os.Unsetenv(inheritVariable)
	if !left {
		return nil
	}
	s.inherited = map[string][]net.Listener{}
	for i, address := range strings.Fields(text) {
		f := os.NewFile(uintptr(firstInherited+i), address)
		if address == toBefore {
			syscall.CloseOnExec(firstInherited + i)
			s.before = append(s.before, f)
			continue
		}
		l, err := net.FileListener(f) // f is duplicated
		f.Close()
		if err != nil {
			return fmt.Errorf("cannot take over the socket of %s: %w", address, causeOf(err))
		}
		s.inherited[address] = append(s.inherited[address], l)
	}
	return nil
}

// listen listens on an address, or takes over its socket.
func (s *sockets) listen(address string) (l net.Listener, err error) {
	if there := s.inherited[address]; len(there) > 0 {
		l, s.inherited[address] = there[0], there[1:]
	} else if l, err = listenOn(address); err != nil {
		return nil, err
	}
	if tcp, ok := l.(*net.TCPListener); ok {
		s.own = append(s.own, socket{address, tcp})
	}
	return l, nil
}

// accepting tells the processes before this one, if any, that it accepts, and closes the inherited
// sockets that the settings no longer name.
func (s *sockets) accepting() {
	for _, all := range s.inherited {
		closeAll(all)
	}
	s.inherited = nil
	s.tellBefore()
}

// tellBefore tells the processes before this one that this one accepts, or has reloaded. Those that
// have ended are forgotten.
func (s *sockets) tellBefore() {
	s.before = slices.DeleteFunc(s.before, func(f *os.File) bool {
		_, err := f.Write([]byte{1})
		if err != nil {
			f.Close()
		}
		return err != nil
	})
}

// duplicate returns a descriptor of a socket for another process. The File method's would make the
// socket block for both, and then Close would wait for the next client.
func duplicate(l *net.TCPListener) (f *os.File, err error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	wrong := raw.Control(func(fd uintptr) {
		var own int
		if own, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			f = os.NewFile(uintptr(own), "socket")
		}
	})
	return f, errors.Join(wrong, err)
}

// handOver starts the new process, and returns it once it accepts and this one no longer does. From
// then on reloaded is called for each reload of it or of one that follows: each tells all processes
// before it, since one in between may end first.
func (s *sockets) handOver(ctx context.Context, reloaded func()) (*os.Process, error) {
	if os.Getpid() == 1 {
		return nil, errors.New("process 1 of a container cannot be replaced: restart the container")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	ready, signals, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	accepts := false
	defer func() {
		if !accepts {
			ready.Close()
		}
	}()
	names := slices.Repeat([]string{toBefore}, 1+len(s.before))
	own := []*os.File{signals}
	defer func() {
		for _, f := range own {
			f.Close()
		}
	}()
	for _, one := range s.own {
		f, err := duplicate(one.listener)
		if err != nil {
			return nil, fmt.Errorf("cannot hand over the socket of %s: %w", one.address,
				causeOf(err))
		}
		own, names = append(own, f), append(names, one.address)
	}
	cmd.ExtraFiles = slices.Concat(s.before, own)
	cmd.Env = append(os.Environ(), inheritVariable+"="+strings.Join(names, " "))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	signals.Close() // so that the read ends if the new process does
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ready.SetReadDeadline(time.Now().Add(takeoverPatience))
	stop := context.AfterFunc(ctx, func() { ready.SetReadDeadline(time.Now()) })
	n, err := ready.Read(make([]byte, 1))
	stop()
	if accepts = n == 1; accepts {
		for _, one := range s.own {
			one.listener.Close()
		}
		for _, f := range s.before {
			f.Close()
		}
		s.before = nil
		ready.SetReadDeadline(time.Time{})
		go func() {
			defer ready.Close()
			for told := make([]byte, 1); ; reloaded() {
				if _, err := ready.Read(told); err != nil {
					return
				}
			}
		}()
		return cmd.Process, nil
	}
	cmd.Process.Kill()
	if why := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("the new process has ended (%w): it says why", why)
	}
	return nil, fmt.Errorf("the new process did not accept connections in %s", takeoverPatience)
}

// restartSignals returns a channel of the signals that ask for a restart.
func restartSignals() (asked <-chan os.Signal, stop func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR2)
	return caught, func() { signal.Stop(caught) }
}

// tellSystemd tells systemd which process is the service from now on (sd_notify(3)), where the unit
// has NotifyAccess.
func tellSystemd(pid int) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", name)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "MAINPID=%d", pid)
	return err
}
