//go:build unix

package transfer

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// TestSyncWhereTheDirectoryHasGone: a relative path in a directory that was removed is not taken
// for a stream.
func TestSyncWhereTheDirectoryHasGone(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Sync(t.Context(), Local(t.TempDir()), Local("."), SyncOptions{}); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}
