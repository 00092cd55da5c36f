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
			if err := w.begin(ctx, "first"); err != nil {
				t.Fatal(err)
			}
		}
		got := make(chan string, 100)
		ask := func(user string, times int) {
			for range times {
				go func() {
					if w.begin(ctx, user) == nil {
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

// TestWorkGivenUp: a waiter that gives up loses no turn, not even one that comes at that moment.
func TestWorkGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Work
		slots := max(1, runtime.GOMAXPROCS(0)-1)
		for range slots {
			w.begin(t.Context(), "a")
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- w.begin(ctx, "b") }()
		synctest.Wait()
		began := make(chan error, 1)
		go func() { began <- w.begin(t.Context(), "c") }()
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
