package cp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/usftp/usftp/internal/scpclient"
	"github.com/usftp/usftp/transfer"
)

// An oldListener is the [scpclient.Listener] that reports a copy with the usual events.
type oldListener struct {
	*oldCopy
	ctx    context.Context
	halt   context.CancelCauseFunc // ends ctx, once there is a conversation
	route  transfer.Route          // as typed
	file   transfer.Route          // of the file in progress
	totals *transfer.Totals
	began  time.Time // the whole
	start  time.Time // the file in progress; zero if there is none
	told   time.Time // progress
	size   int64
	bytes  int64 // of the file in progress
	alive  atomic.Int64
	limit  *rate.Limiter
	failed error // the first failure
}

func newOldListener(c *oldCopy, route transfer.Route) *oldListener {
	l := &oldListener{oldCopy: c, ctx: c.Ctx, route: route, began: time.Now()}
	if c.flags.Limit > 0 {
		l.limit = rate.NewLimiter(rate.Limit(c.flags.Limit), mostMoved)
	}
	if c.flags.recursive {
		l.totals = new(transfer.Totals)
		l.tell(transfer.Event{Kind: transfer.Started, Route: route, Size: -1, Totals: l.total()})
	}
	return l
}

// mostMoved is the largest number passed to Moved at once.
const mostMoved = 128 << 10

// total returns the totals so far, for an event.
func (l *oldListener) total() *transfer.Totals {
	if l.totals == nil {
		return nil
	}
	now := *l.totals
	return &now
}

func (l *oldListener) tell(e transfer.Event) {
	e.Time, e.Tree = time.Now(), l.totals != nil
	l.Event(e)
}

func (l *oldListener) routeOf(source, target string) transfer.Route {
	return transfer.Route{SourceHost: l.route.SourceHost, Source: source,
		TargetHost: l.route.TargetHost, Target: target}
}

func (l *oldListener) Began(source, target string, size int64) {
	l.file, l.start, l.size, l.bytes = l.routeOf(source, target), time.Now(), size, 0
	if l.totals != nil {
		l.totals.PlannedFiles++
		l.totals.PlannedBytes += size
	}
	l.tell(transfer.Event{Kind: transfer.Started, Route: l.file, Size: size})
}

// progressInterval is how often progress is reported.
const progressInterval = 100 * time.Millisecond

func (l *oldListener) Moved(n int) error {
	l.bytes += int64(n)
	l.alive.Add(int64(n))
	e := transfer.Event{Kind: transfer.Progress, Route: l.file, Size: l.size}
	e.Bytes, e.Elapsed = l.bytes, time.Since(l.start)
	if l.totals != nil {
		l.totals.Bytes += int64(n)
		e.Route, e.Size, e.Totals = l.route, -1, l.total()
		e.Bytes, e.Elapsed = l.totals.Bytes, time.Since(l.began)
	}
	if time.Since(l.told) > progressInterval {
		l.told = time.Now()
		l.tell(e)
	}
	if l.limit != nil {
		return l.limit.WaitN(l.ctx, n)
	}
	return l.ctx.Err()
}

func (l *oldListener) Ended(err error) {
	e := transfer.Event{Kind: transfer.Done, Route: l.file, Size: l.size}
	e.Bytes, e.Elapsed = l.bytes, time.Since(l.start)
	if l.start = (time.Time{}); err != nil {
		if l.totals != nil {
			l.totals.Bytes -= l.bytes // none of it is kept
		}
		if l.route.TargetHost != "" { // scp -t writes in place
			err = fmt.Errorf("%w; what the host has of it is not complete", err)
		}
		l.fail(e, err)
		return
	}
	if l.totals != nil {
		l.totals.Files++
	}
	l.tell(e)
}

// fail reports a failure.
func (l *oldListener) fail(e transfer.Event, err error) {
	e.Kind, e.Err = transfer.Failed, &transfer.Error{Route: e.Route, Err: err}
	e.Message = e.Err.Error()
	if l.failed == nil {
		l.failed = e.Err
	}
	if l.totals != nil {
		l.totals.Failed++
	}
	l.tell(e)
	l.Note(e.Err)
	if l.flags.StopOnError && l.halt != nil {
		l.halt(errStopped)
	}
}

// errStopped ends a conversation after a failure that has been reported.
var errStopped = errors.New("stopped at the first error")

func (l *oldListener) Failed(source string, err error) {
	if l.route.TargetHost != "" && errors.Is(err, fs.ErrNotExist) {
		err = errors.New("no such file or directory") // it is the source, not the target's directory
	}
	l.fail(transfer.Event{Route: l.routeOf(source, l.route.Target), Size: -1}, err)
}

func (l *oldListener) Made(string) { l.totals.Directories++ }

func (l *oldListener) Skipped(source, why string) {
	l.totals.Skipped++
	l.tell(transfer.Event{Kind: transfer.Skipped, Route: l.routeOf(source, ""), Message: why})
}

// end reports the end of a conversation. err says why it broke off, unless it is ErrFailed or
// errStopped.
func (l *oldListener) end(err error) {
	stopped := err == errStopped
	broken := err != nil && !errors.Is(err, scpclient.ErrFailed) && !stopped
	switch {
	case broken && l.start.IsZero():
		l.fail(transfer.Event{Route: l.route, Size: -1}, err)
	case broken:
		l.Ended(err)
	}
	if l.totals == nil {
		return
	}
	l.totals.Complete = !broken && !stopped
	e := transfer.Event{Kind: transfer.Ended, Route: l.route, Size: -1, Totals: l.total(),
		Err: l.failed}
	e.Bytes, e.Elapsed = l.totals.Bytes, time.Since(l.began)
	if l.failed != nil {
		e.Message = l.failed.Error()
	}
	l.tell(e)
}
