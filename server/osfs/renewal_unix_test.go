//go:build linux || darwin || freebsd

package osfs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRenewedMeanwhile: a request that has taken the served directory, and finds it closed because
// another one has opened its successor, begins again there.
func TestRenewedMeanwhile(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := New(top)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	old := f.tree.root.file.Load()
	if err := os.Remove(top); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Stat(t.Context(), "/"); err != nil { // which opens it again
		t.Fatal(err)
	}
	err = control(old, func(int) error { return nil })
	if !f.tree.root.renewed(old, err) {
		t.Errorf("the request fails: %v", err)
	}
}
