package sshd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
)

// Sessions limits the number of concurrent sessions. It is safe for concurrent use.
type Sessions interface {
	// Begin takes a place for a session, and end returns it. The client is told the error. If the
	// connection ends, ctx does.
	Begin(ctx context.Context) (end func(), err error)

	// Most returns the number of places: a user may have a connection for each, and 100 in any
	// case.
	Most() int
}

// SessionLimit is a Sessions in the memory of one server.
type SessionLimit struct {
	most int
	used atomic.Int64 // no mutex, at which a thousand sessions would queue up
}

// NewSessionLimit returns a limit of most sessions, at least 1.
func NewSessionLimit(most int) *SessionLimit { return &SessionLimit{most: max(most, 1)} }

// Most implements [Sessions].
func (l *SessionLimit) Most() int { return l.most }

var errSessions = errors.New("too many sessions of the user")

// Begin implements [Sessions].
func (l *SessionLimit) Begin(context.Context) (end func(), err error) {
	for {
		used := l.used.Load()
		if used >= int64(l.most) {
			return nil, errSessions
		}
		if l.used.CompareAndSwap(used, used+1) {
			return l.end, nil
		}
	}
}

func (l *SessionLimit) end() { l.used.Add(-1) }

// mostConnections returns the number of connections that the user may have: one for each session,
// and at least userMost.
func (a *Access) mostConnections() int {
	if a.Sessions == nil {
		return userMost
	}
	return max(userMost, a.Sessions.Most())
}

// Bandwidth limits the bytes per second sent and received, separately. It is safe for concurrent
// use.
type Bandwidth interface {
	// Send and Receive wait until n more bytes may pass, or ctx ends, whose error they return.
	Send(ctx context.Context, n int) error
	Receive(ctx context.Context, n int) error
}

// Rates are bytes per second sent to a client and received from it. 0 means no limit.
type Rates struct{ Send, Receive int64 }

// EachWay returns the same rate for both directions.
func EachWay(rate int64) Rates { return Rates{Send: rate, Receive: rate} }

// RateLimit is a Bandwidth in the memory of one server.
type RateLimit struct{ sent, received bucket }

// NewRateLimit returns a limit of rates, each at least 1 KiB.
func NewRateLimit(rates Rates) *RateLimit {
	l := &RateLimit{}
	l.Set(rates)
	return l
}

// Set changes the limit. Callers that are waiting finish that wait first.
func (l *RateLimit) Set(rates Rates) {
	l.sent.set(rates.Send)
	l.received.set(rates.Receive)
}

// Send implements [Bandwidth].
func (l *RateLimit) Send(ctx context.Context, n int) error { return l.sent.wait(ctx, n) }

// Receive implements [Bandwidth].
func (l *RateLimit) Receive(ctx context.Context, n int) error { return l.received.wait(ctx, n) }

// bucket lets bytes through at a rate. Callers wait for their own bytes and for those of earlier
// callers.
type bucket struct {
	mu   sync.Mutex
	rate int64     // 0 means no limit
	free time.Time // when all waits for bytes let through will be over
}

func (b *bucket) set(rate int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate = rate; rate != 0 {
		b.rate = max(rate, 1<<10)
	}
}

// burst is the time by which a bucket may run ahead.
const burst = 100 * time.Millisecond

// wait waits until n more bytes may pass.
func (b *bucket) wait(ctx context.Context, n int) error {
	b.mu.Lock()
	if b.rate == 0 {
		b.mu.Unlock()
		return nil
	}
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

// throttled is a channel with a Bandwidth. Its connection is not idle while it waits for that: a
// client that has used up its window sends nothing meanwhile.
type throttled struct {
	ssh.Channel
	connected context.Context
	b         Bandwidth
	busy      *server.Activity
}

func (t *throttled) Read(p []byte) (int, error) {
	n, err := t.Channel.Read(p)
	if n > 0 {
		t.busy.Begin()
		t.b.Receive(t.connected, n) // if the connection ends, the next read fails
		t.busy.End()
	}
	return n, err
}

// throttledPiece is the maximum let through at once: small enough to avoid bursts at a slow rate.
const throttledPiece = 32 << 10

func (t *throttled) Write(p []byte) (done int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), throttledPiece)]
		t.busy.Begin()
		err := t.b.Send(t.connected, len(piece))
		t.busy.End()
		if err != nil {
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
