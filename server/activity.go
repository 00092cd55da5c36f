package server

import (
	"sync/atomic"
	"time"
)

// Activity tells what the backend is at on behalf of some sessions. Whoever ends idle connections
// looks there for what takes long and moves nothing, such as copying a large file. The zero
// Activity is ready for use; it is safe for concurrent use.
type Activity struct {
	running atomic.Int64
	last    atomic.Int64
}

// Running returns how many requests the backend is at.
func (a *Activity) Running() int { return int(a.running.Load()) }

// Last returns when a request last ended.
func (a *Activity) Last() time.Time { return time.Unix(0, a.last.Load()) }

// begin and end do nothing for a nil Activity.

func (a *Activity) begin() {
	if a != nil {
		a.running.Add(1)
	}
}

func (a *Activity) end() {
	if a != nil {
		a.last.Store(time.Now().UnixNano())
		a.running.Add(-1)
	}
}
