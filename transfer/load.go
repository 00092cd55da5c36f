package transfer

import (
	"runtime"
	"time"
)

// A load measures whether this machine has processor time to spare for further connections. The
// other end may run on this very machine and use more than we do, so where the system reports it
// the whole machine's load counts.
type load struct {
	at      time.Time
	own     time.Duration // processor time used by this process
	machine machineTime
}

// machineTime is the processors' time since the system started, in any unit.
type machineTime struct{ busy, total uint64 }

const (
	idleProcess = 0.25 // of one processor: below it, there is time to spare anywhere
	busyMachine = 0.75 // of all processors: above it, a trial would not pay
)

func readLoad() load { return load{time.Now(), processorTime(), readMachineTime()} }

// newSpare returns a function that reports whether there was processor time to spare since the last
// call. Tests replace it.
var newSpare = func() func() bool {
	l := readLoad()
	return l.spare
}

func (l *load) spare() bool {
	now := readLoad()
	took := now.at.Sub(l.at).Seconds()
	own := (now.own - l.own).Seconds() / took
	machine := own / float64(runtime.NumCPU())
	if total := now.machine.total - l.machine.total; now.machine.total > 0 && total > 0 {
		machine = float64(now.machine.busy-l.machine.busy) / float64(total)
	}
	*l = now
	return own < idleProcess ||
		machine < busyMachine && own < busyMachine*float64(runtime.GOMAXPROCS(0))
}
