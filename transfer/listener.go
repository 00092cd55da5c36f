package transfer

import (
	"context"
	"errors"
	"sync"
)

// errListener ends a run whose listener has panicked.
var errListener = errors.New("the function that is told of events has panicked")

// listener is the user's function that is told of events, from many goroutines and one at a time.
// It runs on a goroutine of its own, while who tells waits: how deep it goes is its own affair, and
// not that of the stack of each of thousands of files in flight. Where it panics the run ends, as
// it does when its context ends but for that nothing is kept, and the panic goes on where the run
// was called: on a goroutine of ours nobody could recover from it, and everything under way would
// stay as it is.
type listener struct {
	f      func(Event)
	cancel context.CancelCauseFunc

	mu    sync.Mutex // held by who tells
	event Event
	next  chan struct{} // there is an event
	heard chan struct{} // f has returned
	gone  chan struct{} // closed when there is nobody to tell: f has panicked, or the run is over
	value any           // that of the panic; for who has seen gone closed
}

// listen has a run's events told to the user's function. Done is for the end of the run.
func listen(ctx context.Context, options *Options) (context.Context, func()) {
	if options.Events == nil {
		return ctx, func() {}
	}
	l := &listener{f: options.Events, next: make(chan struct{}), heard: make(chan struct{}),
		gone: make(chan struct{})}
	options.Events = l.tell
	ctx, l.cancel = context.WithCancelCause(ctx)
	go l.listen()
	return ctx, l.done
}

func (l *listener) listen() {
	over := false
	defer func() {
		if !over {
			l.value = recover()
			l.cancel(errListener)
		}
		close(l.gone)
	}()
	for range l.next {
		l.f(l.event)
		l.heard <- struct{}{}
	}
	over = true
}

func (l *listener) tell(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.gone:
		return
	default:
	}
	l.event = e
	l.next <- struct{}{}
	select {
	case <-l.heard:
	case <-l.gone:
	}
	l.event = Event{}
}

// done lets a panic go on.
func (l *listener) done() {
	l.cancel(nil)
	l.mu.Lock()
	close(l.next)
	<-l.gone
	l.mu.Unlock()
	if l.value != nil {
		panic(l.value)
	}
}

// worthless tells whether what a run has written is of no use to a later one.
func (r *run) worthless(err error) bool {
	return errors.Is(err, ErrSourceChanged) || context.Cause(r.ctx) == errListener
}
