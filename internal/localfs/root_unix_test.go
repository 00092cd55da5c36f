//go:build unix

package localfs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRootFollowsNoLinkOut is CVE-2026-39822, which Go 1.26.5 fixed: os.Root, through which
// everything below a target is written, followed a link out of its directory if the path ended in a
// slash.
func TestRootFollowsNoLinkOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"inside", "outside"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside", filepath.Join(dir, "inside", "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "inside"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"link", "link/", "link//", "link/.", "link/./"} {
		if f, err := root.Open(name); err == nil {
			f.Close()
			t.Errorf("Open(%q) led out", name)
		}
		if r, err := root.OpenRoot(name); err == nil {
			r.Close()
			t.Errorf("OpenRoot(%q) led out", name)
		}
	}
}
