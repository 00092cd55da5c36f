package site

import (
	"os"
	"testing"
)

// Reading the configuration again keeps directories and quotas, for sessions that run and for new
// ones.
func TestServeKeepsWhatIsShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &Site{}
	first, err := s.tree(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.tree(dir)
	if err != nil || again != first || s.quota(again, dir, [2]int64{1, 2}) !=
		s.quota(first, dir, [2]int64{1, 2}) ||
		s.quota(first, dir, [2]int64{1, 3}) == s.quota(first, dir, [2]int64{1, 2}) {
		t.Errorf("%p and %p, %v", first, again, err)
	}
	if err := os.Rename(dir, dir+"-old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if other, err := s.tree(dir); err != nil || other == first {
		t.Errorf("another directory of the same name is taken for the old one, %v", err)
	}
}
