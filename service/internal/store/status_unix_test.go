//go:build unix

package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// testStatuses: each node tells the others about itself until it ends, and does what it is told to
// do, once.
func testStatuses(t *testing.T, name string) {
	one, two := patient(t, name), patient(t, name)
	got := make(chan string, 10)
	one.Tell(func() string { return "one\x00" }, func(what string) { got <- "one: " + what })
	two.Tell(func() string { return "two" }, func(what string) { got <- "two: " + what })
	patient(t, name) // which tells nothing, as commands do
	testenv.Until(t, "both have told", func() bool {
		all, err := one.Statuses(t.Context())
		return err == nil && len(all) == 2 && all[0].Text+all[1].Text != "" &&
			all[0].Seen < time.Minute
	})
	for _, c := range []struct {
		node, what string
		n          int64
	}{{two.Node(), "a", 1}, {"", "b", 1}, {"nobody", "c", 0}, {one.Node(), "d", 1}} {
		if n, err := one.Order(t.Context(), c.node, c.what); err != nil || n != c.n {
			t.Errorf("%q: %d nodes, %v", c.what, n, err)
		}
	}
	done := map[string]int{}
	for range 3 {
		done[<-got]++
	}
	if fmt.Sprint(done) != "map[one: d:1 two: a:1 two: b:1]" || len(got) > 0 {
		t.Errorf("done: %v", done)
	}
	must(t, two.Close())
	if all, err := one.Statuses(t.Context()); err != nil || len(all) != 1 ||
		all[0].Node != one.Node() || all[0].Text != "one\uFFFD" {
		t.Errorf("of the one that is left: %v, %v", all, err)
	}
}

// testOrdersAfterChanges: who is told to end a user's sessions knows already that the user was
// disabled, and so does the node that has disabled the user.
func testOrdersAfterChanges(t *testing.T, name string) {
	one, two := still(t, name), still(t, name)
	known := make(chan bool, 1)
	two.Tell(func() string { return "two" }, func(string) {
		u, there := two.User("ann")
		known <- there && u.Disabled
	})
	two.told.tell(t.Context(), two)
	must(t, one.PutUser(t.Context(), User{Name: "ann"}, false))
	gone, leave := context.WithCancel(t.Context())
	one.OnUsers(leave) // the client of the page
	must(t, one.DisableUser(gone, "ann", true))
	if u, there := one.User("ann"); !there || !u.Disabled {
		t.Error("the node that has disabled the user does not know it")
	}
	_, err := one.Order(t.Context(), two.Node(), "end")
	must(t, err)
	two.told.obey(t.Context(), two) // perhaps before the notice comes
	if !<-known {
		t.Error("a node is told to end the sessions of a user who may come back")
	}
}

// testOrdersWait: while a node cannot read the users it carries no order out, and later it does.
func testOrdersWait(t *testing.T, name string) {
	one, two := still(t, name), still(t, name)
	done := make(chan string, 1)
	two.Tell(func() string { return "two" }, func(what string) { done <- what })
	two.told.tell(t.Context(), two)
	do := func(what func(t tx) error) { // though a node that looks for changes now is down
		t.Helper()
		must(t, one.db.do(t.Context(), what))
	}
	rename := func(from, to string) {
		t.Helper()
		do(func(t tx) error {
			_, err := t.exec("ALTER TABLE " + from + " RENAME TO " + to)
			return err
		})
	}
	rename("changes", "away")
	do(func(t tx) error {
		_, err := one.order(t, two.Node(), "end")
		return err
	})
	two.told.obey(t.Context(), two)
	select {
	case <-done:
		t.Fatal("the sessions are ended of a user who may come back")
	default:
	}
	rename("away", "changes")
	testenv.Until(t, "the order is carried out", func() bool {
		if two.Down() {
			two.join(t.Context())
		}
		two.told.obey(t.Context(), two)
		return len(done) > 0
	})
}

func testLatestDead(t *testing.T, name string) {
	s := patient(t, name)
	for i := range 5 {
		must(t, s.Post(t.Context(), Message{Hook: fmt.Sprint("h", i%2), Event: "{}"}))
	}
	for _, hook := range []string{"h0", "h1"} {
		taken, err := s.Take(t.Context(), hook, 10, time.Minute)
		must(t, err)
		for _, m := range taken {
			fail(t, s, m, -time.Hour, "why")
		}
	}
	latest, count, err := s.LatestDead(t.Context(), 2)
	must(t, err)
	if len(latest) != 2 || latest[0].Error != "why" || latest[0].Died.IsZero() ||
		count["h0"] != 3 || count["h1"] != 2 {
		t.Errorf("%+v, %v", latest, count)
	}
}
