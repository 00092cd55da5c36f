package server

import (
	"os"

	"golang.org/x/sys/unix"
)

// widen gives a pipe a large buffer. It fails for what is no pipe, and where the user has too many already: nothing is
// lost then but speed.
func widen(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
}
