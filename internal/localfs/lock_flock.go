//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localfs

import (
	"errors"
	"os"
	"syscall"
)

// TryLock locks a file until CloseLocked or the process's end, and reports whether it could: false
// means that another process has the lock. On a file system without locks it always succeeds.
func TryLock(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB),
		syscall.EWOULDBLOCK)
}

// CloseLocked ends the lock of a file and closes it. Closing alone does not end it at once: a child
// that this process is starting has the file open too, until it executes its program.
func CloseLocked(f *os.File) error {
	syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	return f.Close()
}
