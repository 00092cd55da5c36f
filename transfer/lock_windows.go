package transfer

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks a file for this process until it is closed, or the process ends in whatever way;
// false where another has it. What is locked is a byte far behind its end: others can read it.
func lockFile(f *os.File) bool {
	at := windows.Overlapped{OffsetHigh: math.MaxInt32}
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	return !errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}
