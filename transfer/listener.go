package transfer

import (
	"context"
	"errors"
	"sync"
)

// errListener ends a run whose listener has panicked.
var errListener = errors.New("the function that is told of events has panicked")

// listener is the user's function that is told of events, from many goroutines and one at a time. Where it panics the run ends, as it does when
// its context ends but for that nothing is kept, and the panic goes on where the run was called: on a goroutine of ours nobody could recover
// from it, and everything under way would stay as it is.
type listener struct {
	f      func(Event)
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	panicked bool
	value    any
}

// listen has a run's events told to the user's function. Done is for the end of the run.
func listen(ctx context.Context, options *Options) (context.Context, func()) {
	if options.Events == nil {
		return ctx, func() {}
	}
	l := &listener{f: options.Events}
	options.Events = l.tell
	ctx, l.cancel = context.WithCancelCause(ctx)
	return ctx, l.done
}

func (l *listener) tell(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.panicked {
		return
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		l.panicked, l.value = true, recover()
		l.cancel(errListener)
	}()
	l.f(e)
	returned = true
}

// done lets a panic go on.
func (l *listener) done() {
	l.cancel(nil)
	l.mu.Lock()
	panicked, value := l.panicked, l.value
	l.mu.Unlock()
	if panicked && value != nil {
		panic(value)
	}
}

// worthless tells whether what a run has written is of no use to a later one.
func (r *run) worthless(err error) bool {
	return errors.Is(err, ErrSourceChanged) || context.Cause(r.ctx) == errListener
}
