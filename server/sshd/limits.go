package sshd

import (
	"context"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// SessionLimit limits how many sessions exist at once. It is safe for concurrent use.
type SessionLimit struct {
	mu         sync.Mutex
	most, used int
}

// NewSessionLimit returns a limit of most sessions, but at least 1.
func NewSessionLimit(most int) *SessionLimit { return &SessionLimit{most: max(most, 1)} }

func (l *SessionLimit) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used >= l.most {
		return false
	}
	l.used++
	return true
}

func (l *SessionLimit) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
}

// mostConnections returns how many connections the user may have: one for each session.
func (a *Access) mostConnections() int {
	if a.Sessions == nil {
		return userMost
	}
	return max(userMost, a.Sessions.most)
}

// Bandwidth limits the bytes per second sent, and separately those received. It is safe for
// concurrent use.
type Bandwidth struct{ sent, received bucket }

// NewBandwidth returns a limit of rate bytes per second in each direction, but at least 1 KiB.
func NewBandwidth(rate int64) *Bandwidth {
	b := &Bandwidth{}
	b.sent.rate, b.received.rate = max(rate, 1<<10), max(rate, 1<<10)
	return b
}

// bucket lets bytes through at a rate. Callers pay for their bytes by waiting, and for those of
// earlier callers, too.
type bucket struct {
	mu   sync.Mutex
	rate int64
	free time.Time // when everything let through will have been paid for
}

// burst is how far a bucket may run ahead.
const burst = 100 * time.Millisecond

// wait waits until n more bytes may pass.
func (b *bucket) wait(ctx context.Context, n int) error {
	b.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-burst); b.free.Before(earliest) {
		b.free = earliest
	}
	b.free = b.free.Add(time.Duration(float64(n) / float64(b.rate) * float64(time.Second)))
	delay := b.free.Sub(now)
	b.mu.Unlock()
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// throttled is a channel with a Bandwidth.
type throttled struct {
	ssh.Channel
	connected context.Context
	b         *Bandwidth
}

func (t *throttled) Read(p []byte) (int, error) {
	n, err := t.Channel.Read(p)
	if n > 0 {
		t.b.received.wait(t.connected, n) // if the connection ends, the next read says how
	}
	return n, err
}

// throttledPiece is the most that is let through at once: little enough to avoid bursts at a slow
// rate.
const throttledPiece = 32 << 10

func (t *throttled) Write(p []byte) (done int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), throttledPiece)]
		if err := t.b.sent.wait(t.connected, len(piece)); err != nil {
			return done, err
		}
		n, err := t.Channel.Write(piece)
		if done += n; err != nil {
			return done, err
		}
		p = p[len(piece):]
	}
	return done, nil
}
