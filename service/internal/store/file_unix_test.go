//go:build unix

package store

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// TestFileAfterAnOutage: once the store was down, other programs still see what the node writes to
// the file. (Whoever closes a file ends all locks that the process has on it; another program would
// have taken itself for the last one then, and removed the write-ahead log that the node writes.)
func TestFileAfterAnOutage(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "store.db")
	s := still(t, name)
	s.fell(errors.New("a disk that is full, say"))
	must(t, s.join(t.Context()))
	command(t, "sqlite3", name, "SELECT * FROM users")
	must(t, s.PutUser(t.Context(), User{Name: "ann"}, false))
	out := filepath.Join(t.TempDir(), "users")
	command(t, "sqlite3", name, ".output "+out, "SELECT name FROM users")
	if users, err := os.ReadFile(out); err != nil || string(users) != "ann\n" {
		t.Errorf("another program finds the users %q, %v", users, err)
	}
}

// TestFileIsMoved: a node whose file is moved away makes no other one, and says what to do; it goes
// on once the file is back. If another file takes its place, it says so.
func TestFileIsMoved(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "store.db")
	var log lines
	s, err := open(t.Context(), name, slog.New(slog.NewTextHandler(&log, nil)), quick)
	must(t, err)
	defer s.Close()
	says := func(what string) {
		t.Helper()
		testenv.Until(t, "the log says "+what, func() bool {
			return strings.Contains(log.String(), what)
		})
	}
	must(t, s.PutUser(t.Context(), User{Name: "ann"}, false))
	must(t, os.Rename(name, name+".old"))
	says("put it back")
	must(t, os.Rename(name+".old", name))
	testenv.Until(t, "the store answers", func() bool { return !s.Down() })
	must(t, s.PutUser(t.Context(), User{Name: "ann"}, true))
	must(t, os.WriteFile(name+".copy", nil, 0o600))
	must(t, os.Rename(name+".copy", name))
	says("until this server is started again")
}

// TestFileIsLocked: the log says that another program has locked the file, and not only that it took
// too long.
func TestFileIsLocked(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "store.db")
	s := still(t, name)
	var ms int64
	must(t, s.db.QueryRow(`PRAGMA busy_timeout`).Scan(&ms))
	if waits := time.Duration(ms) * time.Millisecond; waits < filePatience/2 || waits >= filePatience {
		t.Errorf("SQLite waits %s for another program, and a transaction has %s", waits, filePatience)
	}
	_, err := s.db.Exec(`PRAGMA busy_timeout = 10`)
	must(t, err)
	other := still(t, name)
	must(t, other.db.do(t.Context(), func(tx) error {
		s.PutUser(t.Context(), User{Name: "ann"}, false)
		return nil
	}))
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "another program has locked it") {
		t.Errorf("of a locked file: %v", err)
	}
}

// TestBusyDisk: the log says that a transaction took too long, and what that may be due to.
func TestBusyDisk(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		filepath.Join(t.TempDir(), "store.db"): "its disk or this machine is too busy",
		storetest.Postgres(t):                  "see to its machine, and the way there",
	} {
		s := still(t, name)
		s.db.patience = 50 * time.Millisecond
		if err := s.do(t.Context(), func(t tx) error {
			<-t.ctx.Done()
			return t.run(`UPDATE nodes SET seen = 0`)
		}); !errors.Is(err, ErrDown) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRootGivesNoOtherFileAway: whoever owns the directory of the store must not get a file elsewhere
// by a link with the store's name, when root runs a command.
func TestRootGivesNoOtherFileAway(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testenv.Unavailable(t, "only root gives files away")
	}
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "file")
	must(t, os.Chown(dir, 65534, 65534))
	owner := func(name string) int {
		info, err := os.Stat(name)
		must(t, err)
		return localfs.OwnerOf(info).UID
	}
	for _, name := range []string{"store.db", "link.db"} {
		name = filepath.Join(dir, name)
		if filepath.Base(name) == "link.db" {
			must(t, os.Symlink(elsewhere, name))
		}
		d, err := openFile(name)
		must(t, err)
		must(t, d.create())
		must(t, d.Close())
	}
	if is := owner(filepath.Join(dir, "store.db")); is != 65534 {
		t.Errorf("the store belongs to %d", is)
	}
	if is := owner(elsewhere); is != 0 {
		t.Errorf("a file elsewhere belongs to %d", is)
	}
}
