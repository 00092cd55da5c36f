package bigpipe

import (
	"os"

	"golang.org/x/sys/unix"
)

// least is what the kernel gives a new pipe.
const least = 64 << 10

// Widen makes a pipe as large as it may be. What is no pipe, or is large enough, stays as it is; so
// does a pipe of a user who has too many (pipe-user-pages-soft), and nothing is lost then but
// speed.
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
