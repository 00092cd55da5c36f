//go:build unix

package cutproxy

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// socketError returns what has become of a socket, nil if it is well.
func socketError(fd uintptr) error {
	code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	return err
}
