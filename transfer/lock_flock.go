//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package transfer

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file for this process until it is closed, or the process ends in whatever way;
// false where another has it. Where the file system knows no locks nobody has.
func lockFile(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB),
		syscall.EWOULDBLOCK)
}
