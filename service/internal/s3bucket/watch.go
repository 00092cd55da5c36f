package s3bucket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// silent is how long the storage may be silent before a request counts as lost.
const silent = time.Minute

var errSilent = errors.New("nothing was taken or sent for too long")

// watcher gives up requests whose storage neither takes nor sends anything for long, although it
// keeps the connection: the timeouts of net/http are only for the time in between.
type watcher struct {
	http.RoundTripper
	longest time.Duration
}

func (w watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(w.longest, func() { cancel(errSilent) })
	moved := func() { timer.Reset(w.longest) }
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &sent{r.Body, moved}
	}
	answer, err := w.RoundTripper.RoundTrip(r)
	timer.Stop()
	if err != nil {
		if context.Cause(ctx) == errSilent {
			err = errSilent
		}
		cancel(nil)
		return nil, err
	}
	answer.Body = &received{ReadCloser: answer.Body, ctx: ctx, cancel: cancel, moved: moved,
		timer: timer}
	return answer, nil
}

// sent is the body of a request.
type sent struct {
	io.ReadCloser
	moved func()
}

func (s *sent) Read(p []byte) (int, error) {
	s.moved()
	return s.ReadCloser.Read(p)
}

// received is the body of an answer. It may be left alone between two Reads.
type received struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	moved  func()
	timer  *time.Timer
}

func (b *received) Read(p []byte) (int, error) {
	b.moved()
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && err != io.EOF {
		if context.Cause(b.ctx) == errSilent {
			err = errSilent
		}
		err = cutAnswer{err}
	}
	return n, err
}

// cutAnswer is the error of an answer that has begun, and whose rest does not come.
type cutAnswer struct{ error }

func (c cutAnswer) Unwrap() error { return c.error }

func (b *received) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
