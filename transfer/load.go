package transfer

import (
	"runtime"
	"time"
)

// A load tells whether this machine has processor time to spare for further connections. What one
// connection of ours uses of it may be less than what the other end does, which may be on this very
// machine; so where the system tells, the whole machine counts.
type load struct {
	at      time.Time
	own     time.Duration // that this process has used
	machine machineTime
}

// machineTime is what the processors have done since the system started, in any unit.
type machineTime struct{ busy, total uint64 }

const (
	idleProcess = 0.25 // of one processor: such a process has time to spare wherever it runs
	busyMachine = 0.75 // of all: what is left would not raise the rate enough to be worth a trial
)

func readLoad() load { return load{time.Now(), processorTime(), readMachineTime()} }

// newSpare returns a function that reports whether there was processor time to spare since it was
// last called. Tests replace it.
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
