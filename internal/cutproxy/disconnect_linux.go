package cutproxy

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// disconnect resets a TCP connection at once. Closing it does not as long as a child process has it
// open too: one that is being started and has not yet executed its program.
func disconnect(fd uintptr) {
	none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	unix.Syscall(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
}
