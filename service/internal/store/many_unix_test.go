//go:build unix

package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/usftp/usftp/server/sshd"
)

// testManyUsers: what a node does about all its users at once takes few statements, however many
// there are: a transaction of thousands would not end in time, and the node would never come back
// after an outage.
func testManyUsers(t *testing.T, name string) {
	const users, few = 600, 12
	s, ctx := silentNode(t, name), t.Context()
	costs := func(what string, do func()) {
		t.Helper()
		before := s.Statements()
		if do(); s.Statements()-before > few {
			t.Errorf("%s takes %d statements for %d users", what, s.Statements()-before, users)
		}
	}
	for i := range users {
		_, err := s.Sessions(fmt.Sprint("u", i), 1).Begin(ctx)
		must(t, err)
		must(t, s.Account(ctx, fmt.Sprint("/", i), 0, 0).Reserve(ctx, 1, 1))
	}
	leases := `SELECT count(*) FROM leases`
	costs("a burial", func() { must(t, s.do(ctx, func(t tx) error { return forget(t, s.node) })) })
	if n := s.count(t, leases); n != 0 || s.used(t, "u0") != 0 {
		t.Errorf("after a burial there are %d leases, and %d sessions", n, s.used(t, "u0"))
	}
	back := func() {
		must(t, s.do(ctx, func(t tx) error {
			return t.run(`DELETE FROM nodes`)
		}))
		costs("a return", func() { must(t, s.live(ctx, s.do)) })
	}
	back()
	if n := s.count(t, leases); n != users || s.used(t, "u0") != 1 {
		t.Errorf("after a return there are %d leases, and %d sessions", n, s.used(t, "u0"))
	}
	s.quotas.flush(ctx, true)
	must(t, s.do(ctx, func(t tx) error { return forget(t, s.node) }))
	if back(); s.count(t, leases) != 0 {
		t.Error("there are leases of what the node has given back")
	}
	for i := range users {
		must(t, s.Bandwidth(fmt.Sprint("u", i), sshd.Rates{Send: 1 << 20}).Send(ctx, 1))
	}
	costs("sharing bandwidth", func() { s.movers.share(ctx) })
	costs("an end", func() { must(t, s.do(ctx, s.quotas.end)) })
}

// testManyMissed: thousands of events that a node has kept in an outage are written afterwards.
func testManyMissed(t *testing.T, name string) {
	s, ctx := silentNode(t, name), t.Context()
	s.fell(errors.New("an outage"))
	messages := make([]Message, mostUnsent)
	for i := range messages {
		messages[i] = Message{Hook: "h", Event: fmt.Sprint(i)}
	}
	must(t, s.Post(ctx, messages...))
	s.up()
	statements, transactions := s.Statements(), s.db.transactions.Load()
	s.outbox.flush(ctx, s)
	transactions = s.db.transactions.Load() - transactions
	if each := (s.Statements() - statements) / transactions; each > 10 {
		t.Errorf("a transaction has %d statements", each)
	}
	if n := s.count(t, `SELECT count(*) FROM outbox`); n != mostUnsent || s.Down() {
		t.Errorf("%d of %d events are there; the store is down: %t", n, mostUnsent, s.Down())
	}
}
