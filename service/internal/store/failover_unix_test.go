//go:build unix

package store

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// TestFailover: a node leaves a server that takes no more changes, whose connections go on, for one
// that does; a new one finds it at once. They hear notices from there.
func TestFailover(t *testing.T) {
	t.Parallel()
	old, next := storetest.Postgres(t), storetest.Postgres(t)
	_, host, _ := strings.Cut(next, "host=")
	both := old + "," + host
	s := patient(t, both)
	must(t, s.PutUser(t.Context(), User{Name: "first"}, true))
	admin, err := pgx.Connect(t.Context(), old)
	must(t, err)
	defer admin.Close(context.Background())
	for _, statement := range []string{`ALTER SYSTEM SET default_transaction_read_only = on`,
		`SELECT pg_reload_conf()`} {
		_, err := admin.Exec(t.Context(), statement)
		must(t, err)
	}
	nodes := []*Store{s, patient(t, both), patient(t, next)}
	for _, name := range []string{"second", "third"} {
		testenv.Until(t, "the other server takes changes", func() bool {
			return nodes[0].PutUser(t.Context(), User{Name: name}, true) == nil
		})
	}
	testenv.Until(t, "all listen to the other server", func() bool {
		return nodes[2].count(t, `SELECT count(*) FROM pg_stat_activity
			WHERE query LIKE 'LISTEN%'`) == int64(len(nodes))
	})
	for _, s := range nodes {
		if n := s.count(t, `SELECT count(*) FROM users WHERE name = 'third'`); n != 1 {
			t.Errorf("a node finds %d users of this name", n)
		}
	}
}

// TestUsersOfAnOlderServer: after a failover to a server that lacks the last change of the users,
// a node has that server's users, also if as many changes have been made there since.
func TestUsersOfAnOlderServer(t *testing.T) {
	t.Parallel()
	name := storetest.Postgres(t)
	s, other := patient(t, name), patient(t, name)
	must(t, s.PutUser(t.Context(), User{Name: "first"}, true))
	must(t, other.do(t.Context(), func(t tx) error {
		err := t.run(`DELETE FROM users`)
		if err == nil {
			err = t.run(`UPDATE changes SET n = 0 WHERE topic = 'users'`) // as before
		}
		return err
	}))
	must(t, other.PutUser(t.Context(), User{Name: "second"}, true))
	testenv.Until(t, "a node has the users of the other server", func() bool {
		_, first := s.User("first")
		_, second := s.User("second")
		return second && !first
	})
}
