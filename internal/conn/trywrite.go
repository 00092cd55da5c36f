//go:build linux || darwin

package conn

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryWriter writes to a stream what it takes at once, and never waits.
type tryWriter struct {
	raw     syscall.RawConn
	attempt func(fd uintptr) bool
	parts   [2][]byte
	n       int
	err     error
}

// newTryWriter returns nil for a stream that cannot be asked. Only the types themselves can be:
// what embeds one of them may write otherwise.
func newTryWriter(w io.Writer) *tryWriter {
	var stream syscall.Conn
	switch w := w.(type) {
	case *os.File:
		stream = w
	case *net.TCPConn:
		stream = w
	case *net.UnixConn:
		stream = w
	default:
		return nil
	}
	raw, err := stream.SyscallConn()
	if err != nil {
		return nil
	}
	nonblocking := false
	err = raw.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		nonblocking = err == nil && flags&unix.O_NONBLOCK != 0
	})
	if err != nil || !nonblocking {
		return nil
	}
	t := &tryWriter{raw: raw}
	t.attempt = func(fd uintptr) bool {
		t.all(int(fd))
		return true
	}
	return t
}

// headFirst is the length of a body from which on its head goes by itself. Who reads a pipe is
// woken when a write has ended: so it wakes up while the body is being copied, and not after. A
// shorter body is copied sooner than anybody wakes up.
const headFirst = 64 << 10

// all writes both parts, as far as the stream takes them.
func (t *tryWriter) all(fd int) {
	head, body := t.parts[0], t.parts[1]
	if len(body) >= headFirst {
		if t.part(fd, t.parts[:1]); t.n < len(head) {
			return
		}
		t.parts[0] = nil
	}
	t.part(fd, t.parts[:])
}

func (t *tryWriter) part(fd int, parts [][]byte) {
	n, err := unix.Writev(fd, parts)
	for err == unix.EINTR {
		n, err = unix.Writev(fd, parts)
	}
	if err != nil && err != unix.EAGAIN {
		t.err = err
	}
	t.n += max(n, 0)
}

// write writes head and behind it body, as far as the stream takes them. That it takes nothing is
// no error.
func (t *tryWriter) write(head, body []byte) (int, error) {
	t.parts = [2][]byte{head, body}
	t.n, t.err = 0, nil
	err := t.raw.Write(t.attempt) // its own error is that of a stream that was closed
	t.parts = [2][]byte{}
	switch {
	case err != nil:
		return 0, err
	case t.err != nil:
		return 0, os.NewSyscallError("writev", t.err)
	}
	return t.n, nil
}
