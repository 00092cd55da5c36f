package dial

import (
	"net"

	"golang.org/x/sys/unix"
)

// deliveryRate returns the rate at which the kernel last saw data arrive at the other end, in bytes
// per second, 0 if unknown.
func deliveryRate(c *net.TCPConn) (rate float64) {
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			if i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP,
				unix.TCP_INFO); err == nil {
				rate = float64(i.Delivery_rate)
			}
		})
	}
	return rate
}
