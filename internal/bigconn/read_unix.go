//go:build unix

package bigconn

import (
	"io"
	"net"
	"os"
	"syscall"
)

// filler makes the function that waits in the runtime's poller, which needs no buffer, and takes
// one when there is something to read.
func (c *Conn) filler(file syscall.Conn) func() error {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	var failed error
	try := func(fd uintptr) (done bool) {
		buf := c.pool.get()
		n, err := syscall.Read(int(fd), *buf)
		for err == syscall.EINTR {
			n, err = syscall.Read(int(fd), *buf)
		}
		switch {
		case n > 0:
			c.buf, c.start, c.end, failed = buf, 0, n, nil
			return true
		case err == nil:
			failed = io.EOF
		case err == syscall.EAGAIN:
			c.pool.put(buf)
			return false
		default:
			failed = &net.OpError{Op: "read", Net: c.LocalAddr().Network(), Source: c.LocalAddr(),
				Addr: c.RemoteAddr(),
				Err:  os.NewSyscallError("read", err)}
		}
		c.pool.put(buf)
		return true
	}
	return func() error {
		// The error of a closed connection or of a deadline comes from the poller.
		if err := raw.Read(try); err != nil {
			return err
		}
		return failed
	}
}
