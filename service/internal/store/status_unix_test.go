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
		there      bool
	}{{two.Node(), "a", true}, {"", "b", false}, {"nobody", "c", false}, {one.Node(), "d", true}} {
		if there, err := one.Order(t.Context(), c.node, c.what); err != nil || there != c.there {
			t.Errorf("%q: there is a node: %v, %v", c.what, there, err)
		}
	}
	done := map[string]int{}
	for range 2 {
		done[<-got]++
	}
	if fmt.Sprint(done) != "map[one: d:1 two: a:1]" || len(got) > 0 {
		t.Errorf("done: %v", done)
	}
	must(t, two.Close())
	if all, err := one.Statuses(t.Context()); err != nil || len(all) != 1 ||
		all[0].Node != one.Node() || all[0].Text != "one\uFFFD" {
		t.Errorf("of the one that is left: %v, %v", all, err)
	}
}

// testChangesAreKnown: the node on which a user is disabled knows it at once, even if whoever has
// asked for it does not wait.
func testChangesAreKnown(t *testing.T, name string) {
	s := still(t, name)
	must(t, s.PutUser(t.Context(), User{Name: "ann"}, false))
	gone, leave := context.WithCancel(t.Context())
	s.OnUsers(leave)
	must(t, s.DisableUser(gone, "ann", false))
	if !s.Gone("ann") || !s.Gone("bob") {
		t.Error("the node that has disabled the user does not know it")
	}
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
