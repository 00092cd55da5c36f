//go:build darwin || freebsd

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
			// SOL_LOCAL, which unix(4) of both systems defines as 0
			if cred, err := unix.GetsockoptXucred(int(fd), 0, unix.LOCAL_PEERCRED); err == nil {
				uid = int(cred.Uid)
			}
		})
	}
	return uid
}
