package journal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Old marks are removed, and nothing that only lies beside them.
func TestSweepRemovesNothingElse(t *testing.T) {
	dir := t.TempDir()
	others := []string{"package.json", "notes.file.json", "2024.tree.json", "0123456789abcdef.json"}
	mark := Name(dir, "file", "", "a", "", "b")
	tree := Name(dir, "tree", "", "a", "", "b")
	for _, name := range append(slices.Clone(others), filepath.Base(mark), filepath.Base(tree),
		filepath.Base(mark)[:32]+".0123456789.run.json") {
		name = filepath.Join(dir, name)
		old := time.Now().Add(-2 * markAge)
		if err := os.WriteFile(name, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	Sweep(dir)
	var left []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	slices.Sort(others)
	if !slices.Equal(left, others) {
		t.Errorf("%q are left, of which %q are others'", left, others)
	}
}
