// Package machine measures how busy this machine is.
package machine

import (
	"runtime"
	"time"
)

// A load is how busy this machine is. The other end may run on this very machine and use more than
// we do, so where the system reports it the whole machine's load counts.
type load struct {
	at      time.Time
	own     time.Duration // processor time used by this process
	machine machineTime
}

// machineTime is the processors' time since the system started, in any unit.
type machineTime struct{ busy, total uint64 }

const (
	idleProcess = 0.25 // of one processor: a transfer that waits for a host elsewhere uses no more
	busyProcess = 0.75 // of the processors that this process may use: it limits the rate itself
	spareLeast  = 0.5  // of one processor: with less, further connections share what there is

	// nearBy is the round trip below which the other end may be this machine.
	nearBy = time.Millisecond
)

func readLoad() load { return load{time.Now(), ProcessorTime(), readMachineTime()} }

// NewSpare returns a function that reports whether there was processor time to spare since the last
// call, for a transfer with a host that is a round trip away.
func NewSpare(trip time.Duration) func() bool {
	last := readLoad()
	return func() bool {
		now := readLoad()
		defer func() { last = now }()
		return last.spare(now, trip, runtime.NumCPU(), runtime.GOMAXPROCS(0))
	}
}

// spare reports whether there was processor time to spare between l and now. processors is how many
// the machine has, and usable how many of them this process may use. If both ends run on this
// machine and it is busy, this process uses little, because it waits for the other end to get a
// processor. That must not look like a host elsewhere that holds the transfer down.
func (l load) spare(now load, trip time.Duration, processors, usable int) bool {
	own := (now.own - l.own).Seconds() / now.at.Sub(l.at).Seconds()
	total := now.machine.total - l.machine.total
	switch {
	case own >= busyProcess*float64(usable):
		return false
	case now.machine.total == 0 || total == 0, own < idleProcess && trip >= nearBy:
		return true
	}
	busy := float64(now.machine.busy-l.machine.busy) / float64(total)
	return (1-busy)*float64(processors) >= spareLeast
}
