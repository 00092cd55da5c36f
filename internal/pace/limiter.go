// Package pace keeps the time of a run: the limit to its rate, and the pauses that the rate leaves
// out.
package pace

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limitedPiece is the most that moves at once under a limit. At a slow rate it is less, since data
// would otherwise come in bursts seconds apart: a quarter of a second's bytes, but at least
// leastPiece.
const (
	limitedPiece = 32 << 10
	leastPiece   = 512
)

// A Limiter keeps to a rate by waiting after each piece for as long as the piece should have taken.
// A nil Limiter never waits.
type Limiter struct {
	ctx   context.Context
	rate  *rate.Limiter
	Piece int // the most that may move at once

	mu    sync.Mutex
	until time.Time     // the end of the latest wait
	held  time.Duration // how long callers have waited, up to then
}

// NewLimiter returns nil without a limit.
func NewLimiter(ctx context.Context, bytesPerSecond int64) *Limiter {
	if bytesPerSecond <= 0 {
		return nil
	}
	piece := int(max(leastPiece, min(bytesPerSecond/4, limitedPiece)))
	l := &Limiter{ctx: ctx, Piece: piece,
		rate: rate.NewLimiter(rate.Limit(bytesPerSecond), piece)}
	l.rate.ReserveN(time.Now(), piece) // no initial burst
	return l
}

// Wait counts n bytes and waits until they are due or the context ends.
func (l *Limiter) Wait(n int) error {
	if l == nil {
		return nil
	}
	var delay time.Duration
	for now := time.Now(); n > 0; n -= l.Piece {
		delay = l.rate.ReserveN(now, min(n, l.Piece)).DelayFrom(now)
	}
	if delay <= 0 {
		return nil
	}
	l.hold(time.Now(), delay)
	return Sleep(l.ctx, delay)
}

// hold counts a wait. Time in which several callers wait counts once.
func (l *Limiter) hold(now time.Time, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := now.Add(delay); until.After(l.until) {
		if l.until.After(now) {
			now = l.until
		}
		l.held += until.Sub(now)
		l.until = until
	}
}

// HeldFor returns how long the limit has made callers wait.
func (l *Limiter) HeldFor() time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Writer limits the rate of a sink.
func (l *Limiter) Writer(w io.Writer) io.Writer {
	if l == nil {
		return w
	}
	return limitedWriter{w, l}
}

type limitedWriter struct {
	io.Writer
	limit *Limiter
}

func (w limitedWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var wrote int
		piece := p[:min(len(p), w.limit.Piece)]
		wrote, err = w.Writer.Write(piece)
		if wrote < 0 || wrote > len(piece) || wrote < len(piece) && err == nil {
			return n, errors.Join(io.ErrShortWrite, err)
		}
		n += wrote
		p = p[wrote:]
		if waitErr := w.limit.Wait(wrote); waitErr != nil && err == nil {
			err = waitErr
		}
	}
	return n, err
}
