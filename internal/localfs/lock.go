package localfs

import (
	"cmp"
	"os"
)

// RemoveLocked removes a file that was locked with TryLock, ends the lock and closes the file.
func RemoveLocked(f *os.File) error {
	removed := os.Remove(f.Name())
	closed := CloseLocked(f)
	if removed != nil { // Windows refuses that while the file is open
		removed = os.Remove(f.Name())
	}
	return cmp.Or(removed, closed)
}
