//go:build unix

package localfs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFollowLinksAbove: the directory above a link is that of the place where the link is, not of
// the name by which it was reached.
func TestFollowLinksAbove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.MkdirAll(at("real/deep/in"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"way": "real/deep/in", "real/deep/in/up": "../file",
		"real/deep/in/round": at("way") + "/../file", "real/deep/in/beside": "file",
		"real/deep/in/on": "../../way on", "real/way on": "../way/up"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"way/up": "real/deep/file",
		"way/round": "real/deep/file", "way/beside": "real/deep/in/file", "way/on": "real/deep/file",
		"way/none": "real/deep/in/none"} {
		followed, err := FollowLinks(at(name))
		if err == nil {
			err = os.WriteFile(followed, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(at(want)); err != nil || string(text) != name {
			t.Errorf("%s leads to %s, %v", name, followed, err)
		}
	}
}
