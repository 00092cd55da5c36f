//go:build unix

package daemon

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
)

// TestRetention: a file that has been in a folder for long is removed, by one of two nodes, which
// the trail says; a copy that came with an old time stays for as long, and quotas follow.
func TestRetention(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, `
[audit]
[store]
file = "store.db"
[[retention]]
users = ["alice"]
path = "/out"
age = "10s"
[[retention]]
users = ["nobody"]
path = "/"
age = "1h"
`)
	writeFile(t, filepath.Join(home, "f"), randomData(600_000))
	if err := os.Chtimes(filepath.Join(home, "f"), time.Unix(0, 0), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	one := servetest.Start(t, home, "usftpd", "--config", file)
	two := servetest.Start(t, home, "usftpd", "--config", file)
	if out, err := one.SFTP("alice", key, "mkdir out\nput -p f out/f\nls -l out\n"); err != nil ||
		!strings.Contains(out, "out/f") {
		t.Fatalf("%v\n%s", err, out)
	}
	testenv.Until(t, "the file is gone", func() bool {
		_, err := os.Stat(filepath.Join(alice, "out/f"))
		return os.IsNotExist(err)
	})
	testenv.Until(t, "there is room for another one", func() bool { // of 1 MB
		_, err := two.SFTP("alice", key, "put f kept\n")
		return err == nil
	})
	testenv.Until(t, "a node misses the user", func() bool {
		return strings.Contains(one.Log.String()+two.Log.String(),
			"there is no user whose old files could be looked for")
	})
	for _, s := range []*servetest.Server{one, two} {
		s.End(15, 0)
	}
	trail := do(t, home, file, "", "audit", "--json", "--path", "/out/f", "--only", "changes")
	if strings.Count(trail, "\n") != 2 || // "put -p" sets times and permissions
		strings.Count(trail, `"protocol":"retention","request":"remove","path":"/out/f"`) != 1 {
		t.Errorf("the trail:\n%s", trail)
	}
}

// TestNothingIsOldAfterAJump: files do not count as old, for rules and for sweeps, while the clock
// may be wrong, since it has jumped by days.
func TestNothingIsOldAfterAJump(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, `log_level = "quiet"
host_keys = ["host_key"]
[store]
file = "store.db"
[[retention]]
users = ["alice"]
path = "/"
age = "1h"
`)
	writeFile(t, filepath.Join(alice, "f"), nil)
	s := inProcess(t, file, false)
	s.started.rules[0].Age = -time.Minute // everything is old
	db, err := sql.Open("sqlite", filepath.Join(home, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, c := range []struct {
		clock, steady string
		removed       bool
	}{{"-3 days", "-4 days", false}, {"-1 minutes", "+1 hours", false},
		{"-1 minutes", "-1 minutes", true}} {
		for topic, at := range map[string]string{"clock": c.clock, "clock steady": c.steady} {
			if _, err := db.Exec(`REPLACE INTO changes (topic, n) VALUES (?,
				unixepoch('now', ?) * 1000)`, topic, at); err != nil {
				t.Fatal(err)
			}
		}
		tried := s.applyRule(t.Context(), s.started.rules[0]) // without a clock, no turn is used up
		_, err := os.Stat(filepath.Join(alice, "f"))
		if tried != c.removed {
			t.Errorf("%+v: counts as applied: %t", c, tried)
		}
		if _, sweeps := s.clock(t.Context()); os.IsNotExist(err) != c.removed ||
			sweeps != c.removed {
			t.Errorf("%+v: %v; sweeps: %t", c, err, sweeps)
		}
	}
}
