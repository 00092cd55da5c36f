package sync

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The heap stays below the bound as long as its live part leaves room for that, and may always grow
// by leastGrowth.
func TestGrowth(t *testing.T) {
	for live := uint64(0); live < 200<<20; live += 1 << 18 {
		percent := growth(live)
		if percent < leastGrowth || percent > mostGrowth {
			t.Fatalf("with %d live bytes it may grow by %d %%", live, percent)
		}
		if most := live + live*uint64(percent)/100; percent > leastGrowth && most > collectBelow {
			t.Errorf("with %d live bytes it may grow to %d", live, most)
		}
	}
}

// Each collection adjusts the growth to what is live.
func TestCollectLazily(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	collectLazily()
	held := make([]byte, 60<<20)
	percent := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(
		end); { // the cleanup runs some time after
		runtime.GC()
		if percent = debug.SetGCPercent(leastGrowth + 1); percent == leastGrowth {
			break
		}
		runtime.Gosched()
	}
	if percent != leastGrowth {
		t.Errorf("with %d live bytes it may grow by %d %%", len(held), percent)
	}
	runtime.KeepAlive(held)
}
