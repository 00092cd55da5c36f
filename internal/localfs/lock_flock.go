//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localfs

import (
	"errors"
	"os"
	"syscall"
)

// TryLock locks a file until it is closed or the process ends, and reports whether it could: false
// means that another process has the lock. On a file system without locks it always succeeds.
func TryLock(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB),
		syscall.EWOULDBLOCK)
}
