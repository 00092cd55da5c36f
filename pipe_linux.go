package usftp

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is what an unprivileged process may ask for (/proc/sys/fs/pipe-max-size). With the kernel's 64 KiB a packet of 255 KiB
// takes four turns of reader and writer; with this one it passes at once, which more than doubles the rate.
const pipeSize = 1 << 20

// enlargePipe makes a pipe of the operating system's larger. Whatever else the stream is stays as it is.
func enlargePipe(stream any) {
	f, ok := stream.(*os.File)
	if !ok {
		return
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		if size, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil && size < pipeSize {
			unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) // refused where the user has too many: then it stays small
		}
	})
}
