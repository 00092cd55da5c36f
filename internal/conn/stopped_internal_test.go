package conn

import (
	"testing"
	"time"
)

// A process that was stopped for longer than the stall timeout gives its peer as much time as was
// left before.
func TestStoppedProcess(t *testing.T) {
	const timeout = 60 * time.Second
	began := time.Now()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	s := stall{due: at(20), movedAt: at(5), heardAt: at(15), askedAt: at(16)}
	s.stopped(at(22), timeout) // a busy machine
	if s.movedAt != at(5) || s.heardAt != at(15) || s.askedAt != at(16) {
		t.Errorf("a check that is a little late changes %+v", &s)
	}
	s.stopped(at(140), timeout)
	if s.movedAt != at(125) || s.heardAt != at(135) || s.askedAt != at(136) {
		t.Errorf("after 120 s: moved at %v, heard at %v, asked at %v", s.movedAt.Sub(began),
			s.heardAt.Sub(began), s.askedAt.Sub(began))
	}
	s = stall{due: at(20), movedAt: at(5), heardAt: at(5)}
	if s.stopped(at(140), timeout); !s.askedAt.IsZero() {
		t.Error("it was never asked")
	}
}
