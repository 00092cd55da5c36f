// Package tune sets the Go runtime for a program that copies.
package tune

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/usftp/usftp/internal/cli/ui"
)

// Package x/crypto/ssh makes a garbage copy of every packet that it receives. The collector alone
// would bound it softly: where the processors are busy a collection begins in time but ends late,
// and what is received meanwhile adds up. So whoever receives runs a collection every few MiB, and
// the collector's own triggers are far behind that. A tight memory limit instead would have the
// runtime give memory back to the system after each collection and fault it in again, at a sixth of
// the whole processor time.
const (
	gcPercent   = 400
	memoryLimit = 64 << 20
)

// mostProcessors is how many of a large machine's processors a copy may keep busy: with one it
// carries about 7 Gbit/s, and more connections share the others.
const mostProcessors = 4

// tuneProcessors has a program that copies run on one processor where there are but two, unless the
// environment says otherwise. A packet passes through half a dozen goroutines; with a second
// processor the runtime wakes a thread for each and looks for work in between, which costs half as
// much again as the copy itself (1.7 instead of 1.15 processor seconds a GiB received), and takes
// it from whatever else must run: on a small machine that is often the other end. That goes for
// copies that are hashed too: the hash is 0.2 to 0.4 seconds a GiB, and a second processor costs
// 0.3 to 0.8 more.
func Processors() {
	if InEnvironment("GOMAXPROCS") {
		return
	}
	if n := runtime.NumCPU(); n <= 2 {
		runtime.GOMAXPROCS(1)
	} else {
		runtime.GOMAXPROCS(min(n, mostProcessors))
	}
}

// tuneLocal has a copy that goes to no host run on two processors where there are as many: no
// packets pass through goroutines, and files are made while others are filled, or hashed.
func Local() {
	if !InEnvironment("GOMAXPROCS") {
		runtime.GOMAXPROCS(min(runtime.NumCPU(), mostProcessors))
	}
}

// tuneMemory sets the collector for a program that copies, unless the environment does.
func Memory() {
	if !InEnvironment("GOGC") {
		debug.SetGCPercent(gcPercent)
	}
	if !InEnvironment("GOMEMLIMIT") {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// Trees leave more garbage than contents, some 10 KiB a file, and over a long link have thousands
// of files under way, whose stacks count as alive: at 400 % that would be the whole of the limit.
// So there the collector runs when there is a tenth as much garbage as is alive, counting a ballast
// that is never touched and takes no memory: after 9 MiB where little is alive, and 11 where much
// is. Whoever receives has 4 MiB more, and a collection of its own is sooner, so that the collector
// does not do the same again in between.
const (
	treeGCPercent      = 10
	treeBallast        = 88 << 20
	treeBallastReceive = 128 << 20
)

// tuneTree sets the collector for a copy of trees, unless the environment does. It gives what must
// be kept alive.
func Tree(receives bool) (ballast []byte) {
	if InEnvironment("GOGC") {
		return nil
	}
	size := treeBallast
	if receives {
		size = treeBallastReceive
	}
	debug.SetGCPercent(treeGCPercent)
	if !InEnvironment("GOMEMLIMIT") {
		debug.SetMemoryLimit(memoryLimit + int64(size))
	}
	return make([]byte, size)
}

func InEnvironment(name string) bool {
	_, set := os.LookupEnv(name)
	return set
}

// PeakMemory is what the process has taken at most, where the system tells, else what Go has.
func PeakMemory() string {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				return strings.TrimSpace(value)
			}
		}
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return ui.Amount(float64(stats.Sys))
}

// Serving undoes what is good for one copy: sessions share all processors, and the collector has
// Go's own settings, since moving data makes no garbage.
func Serving() {
	AllProcessors()
	if !InEnvironment("GOMEMLIMIT") {
		debug.SetMemoryLimit(math.MaxInt64)
	}
	if !InEnvironment("GOGC") {
		debug.SetGCPercent(100)
	}
}

// AllProcessors undoes [Processors].
func AllProcessors() {
	if !InEnvironment("GOMAXPROCS") {
		runtime.SetDefaultGOMAXPROCS()
	}
}
