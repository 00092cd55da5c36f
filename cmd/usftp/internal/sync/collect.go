package sync

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// collectBelow is the size up to which the heap may grow before it is collected. It leaves
	// enough for memory outside the heap to keep the process within 64 MiB.
	collectBelow = 40 << 20

	// The heap may grow by at least leastGrowth percent of its live part, which keeps a sync of a
	// million files in one directory within that bound, and by at most mostGrowth percent.
	leastGrowth = 30
	mostGrowth  = 300
)

// collectLazily makes the garbage collector run rarely while little of the heap is live, and often
// near the bound on memory: most syncs find little to do, and their lists are garbage at once.
func collectLazily() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(mostGrowth)
	afterEachCollection()
}

func afterEachCollection() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if live := sample[0].Value; live.Kind() == metrics.KindUint64 {
		debug.SetGCPercent(growth(live.Uint64()))
	}
	runtime.AddCleanup(new([64]byte), func(struct{}) { afterEachCollection() }, struct{}{})
}

// growth returns by how many percent a heap with this many live bytes may grow.
func growth(live uint64) int {
	if live >= collectBelow {
		return leastGrowth
	}
	if live == 0 {
		return mostGrowth
	}
	return int(min(max((collectBelow-live)*100/live, leastGrowth), mostGrowth))
}
