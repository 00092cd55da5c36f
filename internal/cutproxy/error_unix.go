//go:build unix

package cutproxy

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// socketError returns a socket's pending error, or nil.
func socketError(fd uintptr) error {
	code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	return err
}
