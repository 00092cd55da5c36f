package store

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
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

// TestNoRoomForFiles: so does one whose disk has no room for another file, for which SQLite has no
// error of its own. But one whose store cannot be made for another reason does not start.
func TestNoRoomForFiles(t *testing.T) {
	testenv.Mounted(t, "nr_inodes=6", noRoomForFiles)
}

func noRoomForFiles(t *testing.T, dir string) {
	name := filepath.Join(dir, "store.db")
	first := patient(t, name)
	must(t, first.PutUser(t.Context(), User{Name: "u"}, false))
	must(t, first.Close())
	for _, name := range []string{name, filepath.Join(dir, "new.db")} {
		var err error
		var fill []string
		for i := 0; err == nil; i++ {
			fill = append(fill, filepath.Join(dir, strconv.Itoa(i)))
			err = os.WriteFile(fill[i], nil, 0o600)
		}
		s := patient(t, name)
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "is full") {
			t.Errorf("%s at the start: %v", name, err)
		}
		for _, name := range fill[:len(fill)-1] {
			must(t, os.Remove(name))
		}
		testenv.Until(t, "it answers", func() bool { return !s.Down() })
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file: %v, %v", info, err)
		}
		must(t, s.Close())
		must(t, os.Remove(name))
		must(t, os.Mkdir(name+"-wal", 0o700))
		if s, err := open(t.Context(), name, slog.New(slog.DiscardHandler), quick); err == nil {
			t.Errorf("a directory is in the way, and it starts: %v", s.Err())
			must(t, s.Close())
		}
		must(t, os.Remove(name+"-wal"))
		must(t, os.Remove(name))
	}
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
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "is full") {
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
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "is full") {
			t.Errorf("%s later: %v", what, err)
		}
		must(t, os.Remove(filepath.Join(dir, "fill")))
		testenv.Until(t, "it answers again", func() bool { return !s.Down() })
		must(t, s.PutUser(t.Context(), User{Name: "v"}, true))
	}
}
