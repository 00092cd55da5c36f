//go:build darwin || freebsd || linux

package localfs_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/localfs"
)

// A child that is being started has the descriptors of this process for a moment, as a duplicate
// is. A lock that has been given back must not last as long as that.
func TestLockEndsAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	locked := func() (*os.File, bool) {
		f, err := localfs.OpenPrivate(name)
		if err != nil {
			t.Fatal(err)
		}
		return f, localfs.TryLock(f)
	}
	first, ok := locked()
	if !ok {
		t.Fatal("nobody else has the lock")
	}
	child, err := syscall.Dup(int(first.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	second, ok := locked()
	if ok {
		t.Fatal("two locks of one file")
	}
	second.Close()
	if err := localfs.CloseLocked(first); err != nil {
		t.Fatal(err)
	}
	third, ok := locked()
	if !ok {
		t.Error("the lock was given back, and is still there")
	}
	localfs.CloseLocked(third)
}
