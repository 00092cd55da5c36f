package bigpipe

import (
	"os"

	"golang.org/x/sys/unix"
)

// defaultSize is the size of a new pipe.
const defaultSize = 64 << 10

// Widen makes a pipe as large as allowed. It leaves other files and pipes that are large enough
// alone. For users who have too many pipes (pipe-user-pages-soft) it fails, which costs only speed.
func Widen(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		now, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		for size := Size; err == nil && size > max(now, defaultSize); size /= 2 {
			if _, refused := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size); refused == nil {
				return
			}
		}
	})
}
