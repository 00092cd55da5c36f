package sshd

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// acknowledged tells how many bytes the client's system has taken of what was written, and whether
// it has yet to take some. A write is done when the last of its bytes is in the system's buffer,
// which over a slow link is minutes after the first, and minutes before it has arrived: only the
// system sees such a transfer move.
func acknowledged(conn net.Conn) (bytes uint64, waiting bool) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, false
	}
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			bytes, waiting = info.Bytes_acked, info.Unacked > 0 || info.Notsent_bytes > 0
		}
	})
	return bytes, waiting
}
