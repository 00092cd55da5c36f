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
	queue  int     // bytes that may wait for their turn on the wire
	loss   float64
	random *rand.Rand
	idle   time.Time // when the wire has sent all that it was given
}

// admit puts bytes on the wire at now.
func (s *shaper) admit(now time.Time, bytes int) (arrival time.Time, ok bool) {
	if s.loss > 0 && s.random.Float64() < s.loss {
		return time.Time{}, false
	}
	if s.idle.Before(now) {
		s.idle = now
	}
	if s.rate > 0 {
		if waiting := s.idle.Sub(now).Seconds() * s.rate / 8; int(waiting) > s.queue {
			return time.Time{}, false
		}
		s.idle = s.idle.Add(time.Duration(float64(bytes) * 8 / s.rate * float64(time.Second)))
	}
	return s.idle.Add(s.delay), true
}
