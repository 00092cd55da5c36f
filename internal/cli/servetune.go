package cli

import (
	"math"
	"runtime"
	"runtime/debug"
)

// serveBallast is allocated and never touched, so that it takes no memory: the collector counts it as alive, and waits for as much garbage
// again before it runs. With few sessions, little is alive, and what x/crypto/ssh drops would have it run all the time; with
// many it hardly counts, and memory stays at twice what is alive, which a large GOGC would not keep to.
const serveBallast = 32 << 20

// tuneForServing undoes what is good for one copy: all the processors are for the sessions, and a limit that their buffers alone exceed
// would have the collector run without end. It gives what must be kept alive.
func tuneForServing() (ballast []byte) {
	if !inEnvironment("GOMAXPROCS") {
		runtime.GOMAXPROCS(runtime.NumCPU())
	}
	if !inEnvironment("GOMEMLIMIT") {
		debug.SetMemoryLimit(math.MaxInt64)
	}
	if inEnvironment("GOGC") {
		return nil
	}
	debug.SetGCPercent(100)
	return make([]byte, serveBallast)
}
