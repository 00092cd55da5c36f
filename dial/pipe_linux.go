package dial

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is the largest that an ordinary user gets (/proc/sys/fs/pipe-max-size). The
// kernel's own 64 KiB cost more than half of the speed.
const pipeSize = 1 << 20

// growPipe makes a pipe larger where the system lets it: past a user's total
// (pipe-user-pages-soft) it does not, and the pipe is just slower.
func growPipe(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			for size := pipeSize; size > 64<<10; size /= 2 {
				if _, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size); err == nil {
					return
				}
			}
		})
	}
}
