package dial

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the user that the process at the other end of a socket runs as, -1 if unknown.
func peerUID(c *net.UnixConn) int {
	uid := -1
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
				unix.SO_PEERCRED); err == nil {
				uid = int(cred.Uid)
			}
		})
	}
	return uid
}
