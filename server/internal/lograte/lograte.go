// Package lograte limits the log lines that clients can cause, so that none can fill a disk.
package lograte

import (
	"sync"
	"time"
)

// Rate allows a burst, and a steady amount per second.
type Rate struct{ Burst, PerSecond float64 }

// Lines is the rate of a zero Limit.
var Lines = Rate{Burst: 100, PerSecond: 1}

// Limit limits the log about one client, in lines or in bytes. The zero Limit is ready for use and
// limits lines; it is safe for concurrent use.
type Limit struct {
	mu      sync.Mutex
	rate    Rate
	left    float64
	since   time.Time
	omitted int
}

// New returns a limit with the given rate.
func New(rate Rate) *Limit { return &Limit{rate: rate} }

// Take reports whether another line may be written, and the number omitted since the last one.
func (l *Limit) Take() (ok bool, omitted int) { return l.TakeN(1) }

// TakeN works like Take, for a line that counts as n.
func (l *Limit) TakeN(n float64) (ok bool, omitted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate == (Rate{}) {
		l.rate = Lines
	}
	now := time.Now()
	if l.since.IsZero() {
		l.left = l.rate.Burst
	} else {
		l.left = min(l.left+now.Sub(l.since).Seconds()*l.rate.PerSecond, l.rate.Burst)
	}
	l.since = now
	if l.left < n {
		l.omitted++
		return false, 0
	}
	l.left -= n
	omitted, l.omitted = l.omitted, 0
	return true, omitted
}

// Omitted returns the number of lines omitted since the last one.
func (l *Limit) Omitted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.omitted
}

// Table has a limit for each client. It is safe for concurrent use.
type Table[K comparable] struct {
	rate Rate
	most int

	mu     sync.Mutex
	limits map[K]*Limit
}

// NewTable returns a table that remembers at most most clients.
func NewTable[K comparable](rate Rate, most int) *Table[K] {
	return &Table[K]{rate: rate, most: most, limits: map[K]*Limit{}}
}

// Of returns a client's limit. Beyond the table's maximum, an arbitrary client is forgotten and
// starts over when it returns.
func (t *Table[K]) Of(client K) *Limit {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.limits[client]
	if l == nil {
		for other := range t.limits {
			if len(t.limits) < t.most {
				break
			}
			delete(t.limits, other)
		}
		l = New(t.rate)
		t.limits[client] = l
	}
	return l
}
