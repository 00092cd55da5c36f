package dial

import (
	"net"

	"golang.org/x/sys/unix"
)

// acknowledge returns a function that has the kernel acknowledge what has arrived at once, or nil.
func acknowledge(c *net.TCPConn) func() {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	set := func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	}
	return func() { raw.Control(set) }
}
