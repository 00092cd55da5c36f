package sshd

import (
	"context"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// SessionLimit bounds how many sessions there are at any time. It is safe for concurrent use; a nil
// one has no bound.
type SessionLimit struct {
	mu         sync.Mutex
	most, used int
}

// NewSessionLimit returns a limit of most sessions, which is at least 1.
func NewSessionLimit(most int) *SessionLimit { return &SessionLimit{most: max(most, 1)} }

func (l *SessionLimit) take() bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used >= l.most {
		return false
	}
	l.used++
	return true
}

func (l *SessionLimit) give() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
}

// Bandwidth bounds the bytes per second that are sent, and alike those that are received. It is
// safe for concurrent use.
type Bandwidth struct{ sent, received bucket }

// NewBandwidth returns a bound of rate bytes per second each way, which is at least 1 KiB.
func NewBandwidth(rate int64) *Bandwidth {
	b := &Bandwidth{}
	b.sent.rate, b.received.rate = max(rate, 1<<10), max(rate, 1<<10)
	return b
}

// bucket lets bytes through at a rate. Its debt is paid by waiting: whoever comes later waits for
// those before, too.
type bucket struct {
	mu   sync.Mutex
	rate int64
	free time.Time // when all that was let through will have been paid for
}

// burst is how far a bucket may run ahead.
const burst = 100 * time.Millisecond

// wait waits until n bytes more may pass.
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

// throttled is a channel under a Bandwidth.
type throttled struct {
	ssh.Channel
	ctx context.Context
	b   *Bandwidth
}

func (t *throttled) Read(p []byte) (int, error) {
	n, err := t.Channel.Read(p)
	if n > 0 {
		if waitErr := t.b.received.wait(t.ctx, n); waitErr != nil {
			return n, waitErr
		}
	}
	return n, err
}

// throttledPiece is what is let through at once: little enough that a slow rate is not a matter of
// bursts.
const throttledPiece = 32 << 10

func (t *throttled) Write(p []byte) (done int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), throttledPiece)]
		if err := t.b.sent.wait(t.ctx, len(piece)); err != nil {
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
