package machine

import (
	"testing"
	"time"
)

func TestSpareProcessorTime(t *testing.T) {
	const (
		took = 80 * time.Millisecond
		near = 100 * time.Microsecond
		far  = 2 * time.Millisecond
	)
	for _, test := range []struct {
		name               string
		trip               time.Duration
		own                float64 // of one processor
		busy, total        uint64
		processors, usable int
		spare              bool
	}{
		{"everything is idle", near, 0.1, 2, 16, 2, 2, true},
		{"the other end uses one of two processors", near, 0.2, 10, 16, 2, 2, true},
		{"both ends use two of two", near, 0.7, 15, 16, 2, 2, false},
		{"others leave us nothing", near, 0.05, 16, 16, 2, 2, false},
		{"others leave us nothing, and the host is elsewhere", far, 0.05, 16, 16, 2, 2, true},
		{"others leave one of many", near, 0.05, 60, 64, 8, 8, true},
		{"we use all that we may", near, 0.9, 8, 64, 8, 1, false},
		{"only our own time is known", near, 0.2, 0, 0, 2, 2, true},
		{"only our own time is known, and it is much", near, 1.9, 0, 0, 2, 2, false},
		{"one processor, half idle", near, 0.3, 4, 8, 1, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			began := time.Now()
			before := load{at: began}
			if test.total > 0 {
				before.machine = machineTime{1000, 5000}
			}
			now := load{began.Add(took), time.Duration(test.own * float64(took)),
				machineTime{before.machine.busy + test.busy, before.machine.total + test.total}}
			if spare := before.spare(now, test.trip, test.processors,
				test.usable); spare != test.spare {
				t.Errorf("spare is %v", spare)
			}
		})
	}
}
