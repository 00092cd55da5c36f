package wan

import (
	"math/rand/v2"
	"time"
)

// shaper is the arithmetic of one direction of the link: it says when a packet arrives, or that it
// is lost.
type shaper struct {
	delay  time.Duration
	rate   float64 // bits a second; 0 is without limit
	flow   float64 // bits a second of one connection; 0 is without limit
	queue  int     // bytes that may wait for their turn on the wire
	loss   float64
	random *rand.Rand
	idle   time.Time // when the wire has sent all that it was given
}

// admit puts bytes on the wire at now. flow is when the connection that they belong to has sent all
// that it was given.
func (s *shaper) admit(now time.Time, bytes int, flow *time.Time) (arrival time.Time, ok bool) {
	if s.loss > 0 && s.random.Float64() < s.loss {
		return time.Time{}, false
	}
	if s.full(now, s.idle, s.rate) || s.full(now, *flow, s.flow) {
		return time.Time{}, false
	}
	s.idle = send(now, s.idle, s.rate, bytes)
	*flow = send(now, *flow, s.flow, bytes)
	if flow.After(s.idle) {
		return flow.Add(s.delay), true
	}
	return s.idle.Add(s.delay), true
}

// full reports whether more waits for a wire than the queue holds.
func (s *shaper) full(now, idle time.Time, rate float64) bool {
	return int(idle.Sub(now).Seconds()*rate/8) > s.queue
}

// send returns when a wire has sent bytes more.
func send(now, idle time.Time, rate float64, bytes int) time.Time {
	if idle.Before(now) {
		idle = now
	}
	if rate > 0 {
		idle = idle.Add(time.Duration(float64(bytes) * 8 / rate * float64(time.Second)))
	}
	return idle
}
