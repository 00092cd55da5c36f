//go:build unix

package store

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// testTurns: of several nodes that want to do the same work one does it, and another one once its
// time is over.
func testTurns(t *testing.T, name string) {
	nodes := []*Store{node(t, name), node(t, name), node(t, name)}
	var mine atomic.Int64
	var asking sync.WaitGroup
	for _, n := range nodes {
		asking.Go(func() {
			if ok, err := n.Turn(t.Context(), "a", time.Hour); err != nil {
				t.Error(err)
			} else if ok {
				mine.Add(1)
			}
		})
	}
	asking.Wait()
	if mine.Load() != 1 {
		t.Errorf("%d nodes do it", mine.Load())
	}
	first, err := nodes[0].Turn(t.Context(), "b", 200*time.Millisecond)
	if must(t, err); !first {
		t.Fatal("other work waits for the first")
	}
	eventually(t, "the turn of another node", func() bool {
		ok, err := nodes[1].Turn(t.Context(), "b", time.Hour)
		must(t, err)
		return ok
	})
}
