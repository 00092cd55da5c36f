package transfer

import (
	"os"
	"path/filepath"
	"testing"
)

// A directory that is looked up by its path is closed with all those above it.
func TestPlacedDirectoriesAreClosed(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755); err != nil {
		t.Fatal(err)
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	j := &job{}
	j.src = &localSource{localEnd{j}}
	target := &localTarget{localEnd: localEnd{j}, top: top, base: ".", roots: roots{top: top}}
	j.dst = target
	s := &syncing{tree: &tree{job: j, root: &directory{rel: ".", target: dir}}}
	d := s.place("a/b/c")
	_, release, err := target.roots.use(d, target.within(d))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(target.roots.open); n != 3 {
		t.Fatalf("%d directories are open in use", n)
	}
	release()
	d.leave()
	if n := len(target.roots.open); n != 0 {
		t.Errorf("%d directories are still open", n)
	}
}
