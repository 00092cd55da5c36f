package transfer

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

// A limiter keeps to a rate by waiting after each piece for as long as the piece should have taken.
// A nil limiter never waits.
type limiter struct {
	ctx context.Context
	*rate.Limiter
	piece int

	mu    sync.Mutex
	until time.Time     // the end of the latest wait
	held  time.Duration // for how long somebody has waited, up to then
}

func newLimiter(ctx context.Context, bytesPerSecond int64) *limiter {
	if bytesPerSecond <= 0 {
		return nil
	}
	piece := int(max(leastPiece, min(bytesPerSecond/4, limitedPiece)))
	l := &limiter{ctx: ctx, piece: piece,
		Limiter: rate.NewLimiter(rate.Limit(bytesPerSecond), piece)}
	l.ReserveN(time.Now(), piece) // no initial burst
	return l
}

// wait counts n bytes and waits until they are due or the context ends.
func (l *limiter) wait(n int) error {
	if l == nil {
		return nil
	}
	var delay time.Duration
	for now := time.Now(); n > 0; n -= l.piece {
		delay = l.ReserveN(now, min(n, l.piece)).DelayFrom(now)
	}
	if delay <= 0 {
		return nil
	}
	l.hold(time.Now(), delay)
	return sleep(l.ctx, delay)
}

// hold counts a wait. What several wait at the same time counts once.
func (l *limiter) hold(now time.Time, delay time.Duration) {
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

// heldFor returns for how long the limit has made somebody wait.
func (l *limiter) heldFor() time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// sleep waits for d. If ctx ends first it returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writer limits the rate of a sink.
func (l *limiter) writer(w io.Writer) io.Writer {
	if l == nil {
		return w
	}
	return limitedWriter{w, l}
}

type limitedWriter struct {
	io.Writer
	limit *limiter
}

func (w limitedWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var wrote int
		piece := p[:min(len(p), w.limit.piece)]
		wrote, err = w.Writer.Write(piece)
		if wrote < 0 || wrote > len(piece) || wrote < len(piece) && err == nil {
			return n, errors.Join(io.ErrShortWrite, err)
		}
		n += wrote
		p = p[wrote:]
		if waitErr := w.limit.wait(wrote); waitErr != nil && err == nil {
			err = waitErr
		}
	}
	return n, err
}
