package serve

import (
	"math"
	"runtime"
	"runtime/debug"

	"github.com/usftp/usftp/internal/cli/tune"
)

// The collector runs when there is a quarter as much garbage as is alive, and takes the ballast for
// alive, which is allocated and never touched, so that it takes no memory. With few sessions little
// else is alive, and what x/crypto/ssh drops would have the collector run all the time: so it runs
// every 32 MiB. With many, their buffers count, which cost it nothing to look at since there are no
// pointers in them, and memory stays close to what is alive.
const (
	serveGCPercent = 25
	serveBallast   = 128 << 20
)

// tuneForServing undoes what is good for one copy: as many processors as there are are for the
// sessions, and a limit that their buffers alone exceed would have the collector run without end.
// It gives what must be kept alive.
func tuneForServing() (ballast []byte, p *processors) {
	if useAllProcessors() {
		p = newProcessors(runtime.GOMAXPROCS(0))
	}
	if !tune.InEnvironment("GOMEMLIMIT") {
		debug.SetMemoryLimit(math.MaxInt64)
	}
	if tune.InEnvironment("GOGC") {
		return nil, p
	}
	debug.SetGCPercent(serveGCPercent)
	return make([]byte, serveBallast), p
}

// useAllProcessors undoes tuneProcessors. One session over pipes wants two: it reads a packet while
// it writes the one before, and with one processor it would be hardly ahead of sftp-server in that.
// It reports whether the environment left it to us.
func useAllProcessors() bool {
	if tune.InEnvironment("GOMAXPROCS") {
		return false
	}
	runtime.SetDefaultGOMAXPROCS()
	return true
}
