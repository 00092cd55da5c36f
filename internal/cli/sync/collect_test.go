package sync

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The heap stays below the bound as long as what lives leaves room for that, and never grows by less
// than the least.
func TestGrowth(t *testing.T) {
	for live := uint64(0); live < 200<<20; live += 1 << 18 {
		percent := growth(live)
		if percent < leastGrowth || percent > mostGrowth {
			t.Fatalf("with %d bytes it may grow by %d %%", live, percent)
		}
		if most := live + live*uint64(percent)/100; percent > leastGrowth && most > collectBelow {
			t.Errorf("with %d bytes it may grow to %d", live, most)
		}
	}
}

// The growth is set again after each collection.
func TestCollectLazily(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	collectLazily()
	held := make([]byte, 60<<20)
	percent := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); { // the cleanup runs some time after
		runtime.GC()
		if percent = debug.SetGCPercent(leastGrowth + 1); percent == leastGrowth {
			break
		}
		runtime.Gosched()
	}
	if percent != leastGrowth {
		t.Errorf("with %d bytes it may grow by %d %%", len(held), percent)
	}
	runtime.KeepAlive(held)
}
