package endpoint

import (
	"os"
	"path/filepath"
	"testing"
)

// A directory that is used is open with all those above it until it is left, and no longer.
func TestOpenDirs(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755); err != nil {
		t.Fatal(err)
	}
	place, err := Local{}.Below(dir)
	if err != nil {
		t.Fatal(err)
	}
	root := place.(*LocalRoot)
	defer root.Close()
	in, release, err := root.Open("a/b/c")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(root.dirs.open); n != 3 {
		t.Fatalf("%d directories are open in use", n)
	}
	root.Leave("a/b/c")
	if _, err := in.Stat("."); err != nil {
		t.Errorf("a directory in use was closed: %v", err)
	}
	release()
	if _, err := in.Stat("."); err == nil {
		t.Error("a directory that was left is still open")
	}
	// what is moved away is not taken for what gets its name
	if err := root.Rename("a", "z"); err != nil {
		t.Fatal(err)
	}
	if n := len(root.dirs.open); n != 0 {
		t.Errorf("%d directories are still open", n)
	}
	if err := root.WriteSmall("a/b/file", nil, Create); !os.IsNotExist(err) {
		t.Errorf("a file is written to a directory that has been renamed: %v", err)
	}
}
