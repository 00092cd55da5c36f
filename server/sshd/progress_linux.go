package sshd

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// acknowledged returns the bytes that the client's system has acknowledged, and whether more are
// waiting. A Write returns once its last byte is in the system's buffer; over a slow link that can
// be minutes after the previous Write, and minutes before the data arrives. Only the system sees
// the progress of such a transfer.
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
