//go:build unix

package store

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// TestBackup: what docs/service.md says of copies of the store, which are made while a node uses it.
// A node that starts with one has what was there then, and gets what a node held that is no more.
func TestBackup(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		restored := filepath.Join(dir, "restored.db")
		testBackup(t, filepath.Join(dir, "usftpd.db"), func(name string) {
			command(t, "sqlite3", name, ".backup '"+restored+"'")
		}, func() string { return restored })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		server, dump := storetest.Postgres(t), filepath.Join(t.TempDir(), "usftpd.dump")
		at, err := url.Parse(server)
		must(t, err)
		database := func(name string) string {
			command(t, "psql", "-d", server, "-c", "CREATE DATABASE "+name)
			at.Path = "/" + name
			return at.String()
		}
		testBackup(t, database("usftpd"), func(name string) {
			command(t, "pg_dump", "-d", name, "-Fc", "-f", dump)
		}, func() string {
			to := database("restored")
			command(t, "pg_restore", "--no-owner", "-d", to, dump)
			return to
		})
	})
}

func command(t *testing.T, name string, words ...string) {
	t.Helper()
	if out, err := exec.Command(testenv.Program(t, name), words...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func testBackup(t *testing.T, name string, back func(name string), restore func() string) {
	ctx := t.Context()
	old := still(t, name)
	must(t, old.PutUser(ctx, User{Name: "ann", Root: "/srv"}, false))
	_, err := old.Sessions("ann", 1).Begin(ctx)
	must(t, err)
	account := old.Account(ctx, "/srv", 1000, 0)
	must(t, account.Reserve(ctx, 10, 0))
	u := lock(t, old.Objects("b"), "f")
	u.ID, u.Target, u.Begun = "id", "f", time.Now()
	must(t, old.Objects("b").Update(ctx, u))
	back(name)
	must(t, old.PutUser(ctx, User{Name: "bob", Root: "/srv"}, false))

	s := node(t, restore())
	if users := s.Users(); len(users) != 1 || users[0].Name != "ann" {
		t.Errorf("users: %+v", users)
	}
	testenv.Until(t, "the session of then is free", func() bool {
		_, err := s.Sessions("ann", 1).Begin(ctx)
		return err == nil
	})
	u = lock(t, s.Objects("b"), "f")
	if u.ID != "id" {
		t.Errorf("the upload of then: %+v", u)
	}
	again := s.Account(ctx, "/srv", 1000, 0)
	if counted, err := again.Counted(ctx); err != nil || counted {
		t.Errorf("the directory need not be counted: %v, %v", counted, err)
	}
	end, err := again.BeginCount(ctx)
	must(t, err)
	must(t, end(500, 5))
	if now := again.Usage(); now.Bytes != 500 || now.Files != 5 {
		t.Errorf("it counts %+v", now)
	}
	if info, err := os.Stat(name); err == nil && info.Mode().Perm() != 0o600 {
		t.Errorf("the store has the mode %v", info.Mode())
	}
}
