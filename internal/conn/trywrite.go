//go:build linux || darwin

package conn

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryWriter writes as much as the stream takes without blocking.
type tryWriter struct {
	raw     syscall.RawConn
	attempt func(fd uintptr) bool
	parts   [2][]byte
	n       int
	err     error
}

// newTryWriter returns nil for a stream that does not support it. Only the exact types do: a type
// that embeds one of them may have a Write of its own.
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

// headFirst is the body length from which the header is written by itself. The reader of a pipe is
// woken when a write ends, so this wakes it while the body is being copied. A shorter body is
// copied faster than the reader wakes up.
const headFirst = 64 << 10

// all writes as much of both parts as the stream takes.
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

// write writes as much of head and then body as the stream takes. Taking nothing is not an error.
func (t *tryWriter) write(head, body []byte) (int, error) {
	t.parts = [2][]byte{head, body}
	t.n, t.err = 0, nil
	err := t.raw.Write(t.attempt) // its own error means that the stream was closed
	t.parts = [2][]byte{}
	switch {
	case err != nil:
		return 0, err
	case t.err != nil:
		return 0, os.NewSyscallError("writev", t.err)
	}
	return t.n, nil
}
