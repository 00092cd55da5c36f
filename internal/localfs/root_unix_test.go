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

// TestLinkUpFromALinkedDirectory: a link that leads up does so from the directory that it is in,
// also if that was reached through a link.
func TestLinkUpFromALinkedDirectory(t *testing.T) {
	dir := t.TempDir()
	far := filepath.Join(dir, "far", "away")
	if err := os.MkdirAll(far, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"near": "far/away", "far/away/link": "../file",
		"far/away/twice": "link", "far/up": "../near/../other"} {
		if err := os.Symlink(text, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"near/link": "far/file", "near/twice": "far/file",
		"far/up": "far/other"} {
		if to, err := FollowLinks(filepath.Join(dir, name)); err != nil ||
			to != filepath.Join(dir, want) {
			t.Errorf("%s leads to %s, %v", name, to, err)
		}
	}
}
