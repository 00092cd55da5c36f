//go:build unix

package store

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// used returns how many sessions of a user the store counts.
func (s *Store) used(t *testing.T, name string) (n int64) {
	t.Helper()
	must(t, s.do(t.Context(), func(t tx) error {
		_, err := t.one(`SELECT used FROM places WHERE name = $1`, []any{name}, &n)
		return err
	}))
	return n
}

// testBusyNode: a node gives signs of life however long what else it asks of the store takes, so
// that its sessions count.
func testBusyNode(t *testing.T, name string) {
	times := quick
	times.dead = 5 * time.Second // of which the machine may be too busy for one
	busy := timedNode(t, name, times)
	if busy.db.postgres == "" {
		return // a file has one node
	}
	times.tick, times.beat = time.Hour, time.Hour
	other := timedNode(t, name, times)
	_, err := busy.Sessions("u", 1).Begin(t.Context())
	must(t, err)
	held, err := other.db.Begin()
	must(t, err)
	defer held.Rollback()
	_, err = held.Exec(`SET LOCAL idle_in_transaction_session_timeout = 0`)
	must(t, err)
	_, err = held.Exec(`LOCK TABLE outbox IN EXCLUSIVE MODE`) // which each node looks into
	must(t, err)
	look := time.NewTicker(quick.beat)
	defer look.Stop()
	for began := time.Now(); time.Since(began) < times.dead*3/2; <-look.C {
		must(t, other.do(t.Context(), other.bury))
		if _, err := other.Sessions("u", 1).Begin(t.Context()); err == nil {
			t.Fatalf("after %s the session of the busy node does not count", time.Since(began))
		}
	}
}

// TestBusyFile: a file of SQLite that another program has locked for longer than PostgreSQL may take
// is waited for.
func TestBusyFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "store.db")
	usual := times{tick: time.Hour, beat: time.Hour, dead: time.Hour}
	s, other := timedNode(t, name, usual), still(t, name)
	held, err := other.db.BeginTx(t.Context(), nil)
	must(t, err)
	release := time.AfterFunc(patience+time.Second, func() { held.Rollback() })
	defer release.Stop()
	must(t, s.Account(t.Context(), "/tree", 1000, 0).Reserve(t.Context(), 10, 0))
}

// testSessionCosts: a session that begins or ends asks PostgreSQL once. Sessions of a user that do
// so at once on two nodes are all counted.
func testSessionCosts(t *testing.T, name string) {
	const users, times, most = 8, 50, 3
	one, other := silentNode(t, name), silentNode(t, name)
	statements, transactions := one.Statements(), one.db.transactions.Load()
	var group sync.WaitGroup
	for i := range users {
		for _, s := range []*Store{one, other} {
			sessions := s.Sessions(fmt.Sprint("u", i%2), users*most)
			group.Go(func() {
				for range times {
					end, err := sessions.Begin(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					end()
				}
			})
		}
	}
	group.Wait()
	statements, transactions = one.Statements()-statements, one.db.transactions.Load()-transactions
	if one.db.postgres != "" && (statements != 2*users*times || transactions != 0) {
		t.Errorf("%d statements and %d transactions for %d sessions", statements, transactions,
			users*times)
	}
	for _, user := range []string{"u0", "u1"} {
		if n := one.used(t, user); n != 0 {
			t.Errorf("%d sessions of %s are counted, and there is none", n, user)
		}
	}
}

// testSessionEndsAtBurial: a node that is buried alive ends a session at that moment, which is not
// taken off twice.
func testSessionEndsAtBurial(t *testing.T, name string) {
	alive, other := still(t, name), still(t, name)
	if alive.db.postgres == "" {
		return // transactions do not overlap
	}
	_, err := alive.Sessions("u", 1).Begin(t.Context())
	must(t, err)
	buried := make(chan error, 1)
	must(t, alive.do(t.Context(), func(ends tx) error {
		if _, err := ends.exec(`SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
			return err
		}
		if err := leave(ends, "u", alive.node); err != nil {
			return err
		}
		go func() {
			buried <- other.do(context.Background(), func(t tx) error {
				return forgetSessions(t, alive.node)
			})
		}()
		testenv.Until(t, "the burial waits for it", func() bool {
			waits := 0
			must(t, other.db.QueryRow(`SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits))
			return waits > 0
		})
		return nil
	}))
	must(t, <-buried)
	if n := other.used(t, "u"); n != 0 {
		t.Errorf("%d sessions are counted, and there is none", n)
	}
}

// testKilledAfterBurial: what a node takes after others have taken it for dead is free in the end,
// too, if it is killed before it hears of that.
func testKilledAfterBurial(t *testing.T, name string) {
	slow, other := still(t, name), still(t, name)
	testenv.Until(t, "the slow node is dead", func() bool {
		must(t, other.do(t.Context(), other.bury))
		return slow.gone(t)
	})
	slow.takesAndIsKilled(t, name, other)
}

// testKilledAfterForgotten: the same of a node that comes so late that the others have forgotten
// it.
func testKilledAfterForgotten(t *testing.T, name string) {
	slow, other := still(t, name), still(t, name)
	testenv.Until(t, "the slow node is forgotten", func() bool {
		must(t, other.do(t.Context(), other.bury))
		return other.count(t, `SELECT count(*) FROM nodes WHERE node = $1`, slow.node) == 0
	})
	slow.takesAndIsKilled(t, name, other)
}

// takesAndIsKilled has a buried node take something of each kind, and then ends it. Nothing of that
// may stay.
func (s *Store) takesAndIsKilled(t *testing.T, name string, other *Store) {
	t.Helper()
	_, err := s.Sessions("u", 1).Begin(t.Context())
	must(t, err)
	must(t, s.Account(t.Context(), "/tree", 1000, 0).Reserve(t.Context(), 10, 0))
	_, err = s.Objects("bucket").Lock(t.Context(), "name", "")
	must(t, err)
	if n := other.used(t, "u"); n != 1 {
		t.Errorf("%d sessions are counted", n)
	}
	s.kill()
	node(t, name) // buries it again
	testenv.Until(t, "its sessions, leases and rights end", func() bool {
		return other.used(t, "u") == 0 && other.count(t, `SELECT count(*) FROM leases`) == 0 &&
			other.count(t, `SELECT count(*) FROM uploads WHERE node <> ''`) == 0
	})
	testenv.Until(t, "nothing is left of it", func() bool {
		return other.count(t, `SELECT count(*) FROM nodes WHERE node = $1`, s.node) == 0
	})
}

// count asks the store how many there are of something.
func (s *Store) count(t *testing.T, statement string, args ...any) (n int64) {
	t.Helper()
	must(t, s.do(t.Context(), func(t tx) error {
		_, err := t.one(statement, args, &n)
		return err
	}))
	return n
}

// gone reports whether others have buried a node.
func (s *Store) gone(t *testing.T) bool {
	t.Helper()
	found := false
	must(t, s.do(t.Context(), func(t tx) (err error) {
		found, err = t.one(`SELECT node FROM nodes WHERE node = $1 AND seen > 0`, []any{s.node},
			new(string))
		return err
	}))
	return !found
}

// testLeasesOfTheRevived: a node that is buried alive has its leases again with its next sign of
// life, so that trees are counted again if it is killed later.
func testLeasesOfTheRevived(t *testing.T, name string) {
	slow, other := still(t, name), still(t, name)
	must(t, slow.Account(t.Context(), "/tree", 1000, 0).Reserve(t.Context(), 10, 0))
	testenv.Until(t, "the slow node is dead", func() bool {
		must(t, other.do(t.Context(), other.bury))
		return slow.gone(t)
	})
	must(t, slow.live(t.Context(), slow.do))
	account := other.Account(t.Context(), "/tree", 1000, 0)
	count(t, account, 10, 0)
	slow.kill()
	node(t, name) // buries it again
	testenv.Until(t, "the tree is to be counted again", func() bool {
		counted := int64(0)
		must(t, other.do(t.Context(), func(t tx) error {
			_, err := t.one(`SELECT counted FROM quotas WHERE tree = $1`, []any{"/tree"}, &counted)
			return err
		}))
		return counted == 0
	})
}

// testCountOfTheKilled: a node that begins before the one that was killed is taken for dead counts
// the tree again after that.
func testCountOfTheKilled(t *testing.T, name string) {
	killed := still(t, name)
	account := killed.Account(t.Context(), "/tree", 1000, 0)
	count(t, account, 0, 0)
	must(t, account.Reserve(t.Context(), 10, 0))
	killed.kill()
	other := still(t, name) // on a busy machine, one that works may bury it before it is asked
	next := other.Account(t.Context(), "/tree", 1000, 0)
	if counted, err := next.Counted(t.Context()); err != nil || !counted {
		t.Fatalf("at first: %t, %v", counted, err)
	}
	testenv.Until(t, "the tree is to be counted again", func() bool {
		must(t, other.do(t.Context(), other.bury))
		must(t, other.do(t.Context(), other.quotas.read))
		counted, err := next.Counted(t.Context())
		must(t, err)
		return !counted
	})
	count(t, next, 3, 1)
	if counted, err := next.Counted(t.Context()); err != nil || !counted ||
		next.Usage().Bytes != 3 {
		t.Errorf("at last: %t, %v, %+v", counted, err, next.Usage())
	}
}
