package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// TestFullDisk: a node whose disk is full runs without the store, whether it has started before or
// starts now, with a store or without one. It says what to do, and has the store as soon as there
// is room.
func TestFullDisk(t *testing.T) {
	testenv.Mounted(t, "size=8m", fullDisk)
}

func fullDisk(t *testing.T, dir string) {
	fill := func(t *testing.T) {
		f, err := os.Create(filepath.Join(dir, "fill"))
		must(t, err)
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
	}
	name := filepath.Join(dir, "store.db")
	first := patient(t, name)
	must(t, first.PutUser(t.Context(), User{Name: "u"}, false))
	must(t, first.Close())
	for what, name := range map[string]string{"a store": name,
		"a new store": filepath.Join(dir, "new.db")} {
		fill(t)
		s := patient(t, name)
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "see to its disk") {
			t.Errorf("%s at the start: %v", what, err)
		}
		if s.KnowsUsers() {
			t.Errorf("%s: the users are known", what)
		}
		must(t, os.Remove(filepath.Join(dir, "fill")))
		testenv.Until(t, "it answers", func() bool { return !s.Down() })
		if _, there := s.User("u"); there != (what == "a store") {
			t.Errorf("%s: the user is there: %t", what, there)
		}
		fill(t)
		if s.PutUser(t.Context(), User{Name: "w", Root: strings.Repeat("w", 1<<20)}, true) == nil {
			t.Errorf("%s has room on a full disk", what)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "see to its disk") {
			t.Errorf("%s later: %v", what, err)
		}
		must(t, os.Remove(filepath.Join(dir, "fill")))
		testenv.Until(t, "it answers again", func() bool { return !s.Down() })
		must(t, s.PutUser(t.Context(), User{Name: "v"}, true))
	}
}
