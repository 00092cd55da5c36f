//go:build unix

package daemon

import (
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
