package pace

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
)

// Pauses sums up the time in which a run could not move anything: while a host stalled, while a
// lost connection was replaced, and while the process was stopped, as by Ctrl-Z. Rates leave it
// out. With two hosts, time that both lack at once may count for the first one only.
type Pauses struct {
	mu    sync.Mutex
	total time.Duration // of the pauses that are over
	until time.Time     // when the last of them ended: no time before it is counted twice
	since time.Time     // when the connection became useless; zero if there is one
	seen  time.Time     // when the process last ran, to pauseTick

	// a stall that may end by itself, from its beginning to when it was last seen; zero if none
	stall, stallSeen time.Time
	stalledSince     func() time.Time // of the run, nil before it has connections
}

const (
	// pauseTick is how often a run notes that its process runs, and stoppedAfter how long a gap
	// means that it was stopped and not just busy.
	pauseTick    = 500 * time.Millisecond
	stoppedAfter = 2 * time.Second
)

// Watch notes that the process runs, and stalls, until stop is called.
func (p *Pauses) Watch() (stop func()) {
	p.seen = time.Now()
	return Every(pauseTick, func() {
		p.mu.Lock()
		stalledSince := p.stalledSince
		p.mu.Unlock()
		var since time.Time
		if stalledSince != nil {
			since = stalledSince() // it takes locks that are held when Attempt is called
		}
		p.tick(since)
	})
}

// Of sets whose stalls count: stalledSince returns when the present one began, or zero.
func (p *Pauses) Of(stalledSince func() time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalledSince = stalledSince
}

// tick notes a stall that began at since, or, if that is zero, that there is none.
func (p *Pauses) tick(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.run(now)
	none := since.IsZero() || !p.since.IsZero()
	if none || since.After(p.stallSeen) {
		p.endStall()
	}
	if none {
		return
	}
	if p.stall.IsZero() {
		p.stall = later(since, p.until)
	}
	p.stallSeen = now
}

// endStall counts a stall that has ended. The caller holds the lock.
func (p *Pauses) endStall() {
	if !p.stall.IsZero() {
		p.ended(p.stall, p.stallSeen)
		p.stall, p.stallSeen = time.Time{}, time.Time{}
	}
}

// ended counts a pause. The caller holds the lock.
func (p *Pauses) ended(since, until time.Time) {
	p.total += until.Sub(since)
	p.until = until
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Attempt notes an attempt to replace a lost connection, or its success.
func (p *Pauses) Attempt(a pool.Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.run(now)
	switch {
	case a.Err == nil && !p.since.IsZero():
		p.ended(p.since, now)
		p.since = time.Time{}
	case a.Wait > 0 && p.since.IsZero():
		p.endStall()
		p.since = now
		if stall, ok := errors.AsType[*usftp.StallError](a.Err); ok &&
			(stall.Data || stall.Request == "") { // others may have been answered
			p.since = later(now.Add(-stall.After), p.until)
		}
	}
}

// run counts the time since the process last ran, if it was stopped. The caller holds the lock.
func (p *Pauses) run(now time.Time) {
	if now.Sub(p.seen) > stoppedAfter && p.since.IsZero() {
		p.endStall()
		p.ended(p.seen, now)
	}
	p.seen = now
}

// Sum returns how long all pauses took so far.
func (p *Pauses) Sum() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run(time.Now())
	total := p.total + p.stallSeen.Sub(p.stall) // which may both be zero
	if !p.since.IsZero() {
		total += time.Since(p.since)
	}
	return total
}

// Sleep waits for d. If ctx ends first it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Every calls f at intervals until stop is called, which waits for f to return.
func Every(interval time.Duration, f func()) (stop func()) {
	ticker := time.NewTicker(interval)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				f()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(quit)
		<-ended
	}
}
