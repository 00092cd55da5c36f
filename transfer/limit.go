package transfer

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// limiter keeps a rate, by waiting after each piece for as long as it should have taken.
type limiter struct {
	ctx  context.Context
	rate int64 // bytes a second

	mu    sync.Mutex
	began time.Time
	moved int64
}

// piece bounds what moves at once under a limit, so that a slow rate does not come in bursts of
// seconds.
const limitedPiece = 32 << 10

// wait counts n bytes and waits until they are due, or the context is done.
func (l *limiter) wait(n int) error {
	delay := l.count(n)
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// count counts n bytes and returns how long it is until they are due.
func (l *limiter) count(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = time.Now()
	}
	l.moved += int64(n)
	due := l.began.Add(time.Duration(float64(l.moved) / float64(l.rate) * float64(time.Second)))
	delay := time.Until(due)
	if delay < -time.Second { // nobody may save up time that the link did not use
		l.began, l.moved = time.Now(), 0
	}
	return delay
}

type limitedReader struct {
	io.Reader
	*limiter
}

func (r limitedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p[:min(len(p), limitedPiece)])
	if waitErr := r.wait(n); waitErr != nil && err == nil {
		err = waitErr
	}
	return n, err
}

type limitedWriter struct {
	io.Writer
	*limiter
}

func (w limitedWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var wrote int
		piece := p[:min(len(p), limitedPiece)]
		wrote, err = w.Writer.Write(piece)
		if wrote < 0 || wrote > len(piece) || wrote < len(piece) && err == nil {
			return n, errors.Join(io.ErrShortWrite, err)
		}
		n += wrote
		p = p[wrote:]
		if waitErr := w.wait(wrote); waitErr != nil && err == nil {
			err = waitErr
		}
	}
	return n, err
}

// limitReader bounds the rate of a source where the job has a limit.
func (r *run) limitReader(source io.Reader) io.Reader {
	if r.limiter == nil {
		return source
	}
	return limitedReader{source, r.limiter}
}

// limitWriter bounds the rate of a sink where the job has a limit.
func (r *run) limitWriter(sink io.Writer) io.Writer {
	if r.limiter == nil {
		return sink
	}
	return limitedWriter{sink, r.limiter}
}
