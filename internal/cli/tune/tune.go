// Package tune sets the Go runtime for a program that copies.
package tune

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/usftp/usftp/internal/cli/ui"
)

// mostProcessors is how many of a large machine's processors a copy may keep busy: with one it
// carries about 7 Gbit/s, and more connections share the others.
const mostProcessors = 4

// tuneProcessors has a program that copies run on one processor where there are but two, unless the
// environment says otherwise. With a second processor the runtime wakes a thread for each goroutine
// that hands data on, and looks for work in between, which costs a third as much again as the copy
// itself (2.0 instead of 1.5 processor seconds a GiB received), and takes it from whatever else must
// run: on a small machine that is often the other end. That goes for copies that are hashed
// too: the hash is 0.2 to 0.4 seconds a GiB, and a second processor costs 0.3 to 0.8 more.
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

// Trees leave more garbage than contents, some 10 KiB a file, and over a long link have thousands
// of files under way, whose stacks count as alive. So there the collector runs when there is a tenth
// as much garbage as is alive, counting a ballast that is never touched and takes no memory: after
// 9 MiB where little is alive, and 11 where much is. Whoever receives has 4 MiB more.
const (
	treeGCPercent      = 10
	treeBallast        = 88 << 20
	treeBallastReceive = 128 << 20

	memoryLimit = 64 << 20
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

// AllProcessors undoes [Processors]: sessions share all there are.
func AllProcessors() {
	if !InEnvironment("GOMAXPROCS") {
		runtime.SetDefaultGOMAXPROCS()
	}
}

// Many has a program that works on several hosts use all processors, unless there are so few that
// [Processors] chose one. Buffers and not garbage are what takes its memory, so the collector runs
// when there is a quarter as much garbage as is alive.
func Many() {
	if runtime.NumCPU() > 2 {
		AllProcessors()
	}
	if !InEnvironment("GOGC") {
		debug.SetGCPercent(25)
	}
}
