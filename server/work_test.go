package server

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

// TestWorkTakesTurns: if one user has much work and another little, each gets every second turn,
// and no more runs at once than may.
func TestWorkTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Work
		ctx := t.Context()
		slots := max(1, runtime.GOMAXPROCS(0)-1)
		for range slots {
			if err := w.begin(ctx, "first", nil); err != nil {
				t.Fatal(err)
			}
		}
		got := make(chan string, 100)
		ask := func(user string, times int) {
			for range times {
				go func() {
					if w.begin(ctx, user, nil) == nil {
						got <- user
					}
				}()
				synctest.Wait()
			}
		}
		ask("greedy", 6)
		ask("modest", 2)
		if len(got) != 0 {
			t.Fatalf("%d pieces of work began beside %d", len(got), slots)
		}
		var order []string
		for range 8 {
			w.end()
			synctest.Wait()
			if len(got) != 1 {
				t.Fatalf("one piece of work ended, and %d began", len(got))
			}
			order = append(order, <-got)
		}
		if want := []string{"greedy", "modest", "greedy", "modest", "greedy", "greedy", "greedy",
			"greedy"}; !slices.Equal(order, want) {
			t.Errorf("turns went to %v", order)
		}
		for range slots {
			w.end()
		}
		if w.running != 0 || len(w.turns) != 0 || len(w.waiting) != 0 {
			t.Errorf("left over: %d running, %v", w.running, w.turns)
		}
	})
}

// TestWorkInOrderOfOffsets: of the requests on one handle, the one that is nearest to the file's
// beginning comes first, and others keep their places.
func TestWorkInOrderOfOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Work
		slots := max(1, runtime.GOMAXPROCS(0)-1)
		for range slots {
			w.begin(t.Context(), "user", nil)
		}
		one, two := new(handle), new(handle)
		got := make(chan string, 1)
		for _, r := range []struct {
			name    string
			request *request
		}{
			{"one at 30", &request{handle: one, offset: 30}},
			{"two at 9", &request{handle: two, offset: 9}},
			{"none", nil},
			{"one at 20", &request{handle: one, offset: 20}},
			{"no handle", &request{offset: 1}},
			{"one at 40", &request{handle: one, offset: 40}},
			{"two at 8", &request{handle: two, offset: 8}},
			{"one at 10", &request{handle: one, offset: 10}},
		} {
			go func() {
				if w.begin(t.Context(), "user", r.request) == nil {
					got <- r.name
				}
			}()
			synctest.Wait()
		}
		var order []string
		for range 8 {
			w.end()
			order = append(order, <-got)
		}
		if want := []string{"one at 10", "two at 8", "none", "one at 20", "no handle", "one at 30",
			"two at 9", "one at 40"}; !slices.Equal(order, want) {
			t.Errorf("turns went to %q", order)
		}
		for range slots {
			w.end()
		}
	})
}

// TestWorkGivenUp: a waiter that gives up loses no turn, not even one that comes at that moment.
func TestWorkGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Work
		slots := max(1, runtime.GOMAXPROCS(0)-1)
		for range slots {
			w.begin(t.Context(), "a", nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- w.begin(ctx, "b", nil) }()
		synctest.Wait()
		began := make(chan error, 1)
		go func() { began <- w.begin(t.Context(), "c", nil) }()
		synctest.Wait()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		w.end()
		if err := <-began; err != nil {
			t.Error(err)
		}
		for range slots {
			w.end()
		}
		if w.running != 0 || len(w.turns) != 0 || len(w.waiting) != 0 {
			t.Errorf("left over: %d running, %v", w.running, w.turns)
		}
	})
}
