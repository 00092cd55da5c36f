//go:build unix

package dial

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// filler makes the function that reads c in large pieces; nil where c is no file of
// the system's. A buffer is taken only when there is something to read, so that none
// is held by a connection that waits: the wait is the runtime poller's, in RawConn.
func filler(c net.Conn, pool *sync.Pool) func() (*[]byte, int, error) {
	var file syscall.Conn
	switch c := c.(type) {
	case *net.TCPConn:
		file = c
	case *proxyConn:
		file = c.out
	default:
		return nil
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	var buf *[]byte
	var n int
	var readErr error
	try := func(fd uintptr) bool {
		buf = pool.Get().(*[]byte)
		for {
			n, readErr = syscall.Read(int(fd), *buf)
			if readErr != syscall.EINTR {
				break
			}
		}
		if n > 0 {
			return true
		}
		pool.Put(buf)
		buf = nil
		return readErr != syscall.EAGAIN
	}
	return func() (*[]byte, int, error) {
		err := raw.Read(try)
		switch {
		case err != nil:
			return nil, 0, err
		case buf != nil:
			b := buf
			buf = nil
			return b, n, nil
		case readErr != nil:
			return nil, 0, os.NewSyscallError("read", readErr)
		}
		return nil, 0, io.EOF
	}
}
