package cutproxy

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// disconnect resets a TCP connection at once. Closing it would not while a child that this process
// is starting has it open too, until it executes its program.
func disconnect(fd uintptr) {
	none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	unix.Syscall(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
}
