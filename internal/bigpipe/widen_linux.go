package bigpipe

import (
	"os"

	"golang.org/x/sys/unix"
)

// least is the size of a new pipe.
const least = 64 << 10

// Widen makes a pipe as large as allowed. It leaves other files and large enough pipes alone. It
// also fails, at no cost but speed, for users who have too many pipes (pipe-user-pages-soft).
func Widen(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		now, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		for size := Size; err == nil && size > max(now, least); size /= 2 {
			if _, refused := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size); refused == nil {
				return
			}
		}
	})
}
