package localfs

import (
	"os"
	"path/filepath"
	"testing"
)

// A busyDir closes what another program has open once a rename was refused because of it.
type busyDir struct {
	*os.Root
	held    *os.File
	refused int
}

func (d *busyDir) Rename(from, to string) error {
	err := d.Root.Rename(from, to)
	if err != nil {
		d.refused++
		d.held.Close()
	}
	return err
}

// TestReplaceOpenFile: a file that another program has open for a moment is replaced afterwards.
func TestReplaceOpenFile(t *testing.T) {
	for _, name := range []string{"new", "old"} {
		dir := t.TempDir()
		for _, file := range []string{"new", "old"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		held, err := os.Open(filepath.Join(dir, name)) // Go does not share the right to remove it
		if err != nil {
			t.Fatal(err)
		}
		busy := &busyDir{root, held, 0}
		if err := Replace(busy, "new", "old"); err != nil || busy.refused != 1 {
			t.Errorf("while %s is open: %v, after %d refusals", name, err, busy.refused)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "old")); string(got) != "new" {
			t.Errorf("while %s is open: the file is %q, %v", name, got, err)
		}
	}
}
