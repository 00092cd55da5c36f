//go:build unix

package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// TestPasswordOfDatabase: a password that is replaced, in the database and in the file of passwords,
// holds for the next connection.
func TestPasswordOfDatabase(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	admin, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer admin.Close(context.Background())
	run := func(statement string) {
		t.Helper()
		_, err := admin.Exec(t.Context(), statement)
		must(t, err)
	}
	passwords := filepath.Join(t.TempDir(), "passwords")
	set := func(password string) {
		t.Helper()
		run("ALTER ROLE node PASSWORD '" + password + "'")
		must(t, os.WriteFile(passwords, []byte("*:*:*:node:"+password+"\n"), 0o600))
	}
	run("CREATE ROLE node LOGIN SUPERUSER")
	set("first")
	var access string
	must(t, admin.QueryRow(t.Context(), "SHOW hba_file").Scan(&access))
	rules, err := os.ReadFile(access)
	must(t, err)
	must(t, os.WriteFile(access, append([]byte("local all node scram-sha-256\n"), rules...), 0o600))
	run("SELECT pg_reload_conf()")
	s := patient(t, strings.Replace(url, "usftpd@", "node@", 1)+"&passfile="+passwords)
	must(t, s.Err())
	must(t, s.PutUser(t.Context(), User{Name: "u"}, true))
	set("second")
	run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'")
	testenv.Until(t, "it answers", func() bool {
		return s.PutUser(t.Context(), User{Name: "v"}, true) == nil
	})
	testenv.Until(t, "it listens", func() bool { return listeners(t, admin) == 1 })
}

// TestEndedConnections: nobody notices that an administrator ends a node's connections.
func TestEndedConnections(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	admin, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer admin.Close(context.Background())
	s := still(t, url)
	testenv.Until(t, "it listens", func() bool { return listeners(t, admin) == 1 })
	for range 20 {
		must(t, s.PutUser(t.Context(), User{Name: "u"}, true))
		_, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
		must(t, err)
	}
	must(t, s.PutUser(t.Context(), User{Name: "v"}, true))
}

// listeners counts the connections on which nodes wait for notices.
func listeners(t *testing.T, admin *pgx.Conn) (n int) {
	t.Helper()
	must(t, admin.QueryRow(t.Context(),
		`SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`).Scan(&n))
	return n
}
