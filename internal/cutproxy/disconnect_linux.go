package cutproxy

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// disconnect resets a TCP connection at once. Closing it does not while a child that this process
// is starting still has it open too, before it executes its program.
func disconnect(fd uintptr) {
	none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	unix.Syscall(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
}
