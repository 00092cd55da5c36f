//go:build unix

package store

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// testTurns: of several nodes that want to do the same work one does it, and another one once its
// time is over.
func testTurns(t *testing.T, name string) {
	nodes := []*Store{patient(t, name), patient(t, name), patient(t, name)}
	var mine, lost atomic.Int64
	var asking sync.WaitGroup
	for _, n := range nodes {
		asking.Go(func() {
			if ok, err := n.Turn(t.Context(), "a", time.Hour); err != nil {
				lost.Add(1) // the answer, perhaps, on a machine that has too much to do
			} else if ok {
				mine.Add(1)
			}
		})
	}
	asking.Wait()
	if n := mine.Load(); n > 1 || n+lost.Load() == 0 {
		t.Errorf("%d nodes do it", n)
	}
	for _, n := range nodes[:2] {
		testenv.Until(t, "other work, and a turn after another node's", func() bool {
			ok, err := n.Turn(t.Context(), "b", 200*time.Millisecond)
			return err == nil && ok
		})
	}
}
