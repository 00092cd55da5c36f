// Package lograte bounds the lines that a client can have written about itself: none may fill a
// disk with them.
package lograte

import (
	"sync"
	"time"
)

const (
	// Burst is how many lines come one after another, after which there is one every Pause.
	Burst = 100
	Pause = time.Second
)

// Limit bounds the lines about one client. The zero Limit is ready for use; it is safe for
// concurrent use.
type Limit struct {
	mu      sync.Mutex
	left    int       // lines that may be written at once
	since   time.Time // of the first line, or of the last Pause that was made up for
	omitted int
}

// Take tells whether another line may be written, and how many were omitted since the last one.
func (l *Limit) Take() (ok bool, omitted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.since.IsZero() {
		l.left, l.since = Burst, now
	}
	if pauses := int(now.Sub(l.since) / Pause); pauses > 0 {
		l.left = min(l.left+pauses, Burst)
		l.since = now
	}
	if l.left == 0 {
		l.omitted++
		return false, 0
	}
	l.left--
	omitted, l.omitted = l.omitted, 0
	return true, omitted
}

// Omitted returns how many lines were omitted since the last one.
func (l *Limit) Omitted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.omitted
}
