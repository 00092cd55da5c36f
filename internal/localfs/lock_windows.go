package localfs

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks a file until CloseLocked or the process's end, and reports whether it could: false
// means that another process has the lock. It locks a byte far beyond the end, so that others can
// read the file.
func TryLock(f *os.File) bool {
	at := windows.Overlapped{OffsetHigh: math.MaxInt32}
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	return !errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}

// CloseLocked ends the lock of a file and closes it.
func CloseLocked(f *os.File) error { return f.Close() }
