package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// cleanupTime is how long an interrupted program may take to leave things in order: longer than
// package transfer takes at most.
const cleanupTime = 8 * time.Second

// signalPlan is what a command does about signals that differs from others.
type signalPlan struct {
	mu       sync.Mutex
	cleanup  time.Duration // instead of cleanupTime
	reloaded func()        // what SIGHUP asks for, instead of the end
}

func (p *signalPlan) set(cleanup time.Duration, reload func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanup, p.reloaded = cleanup, reload
}

// reload does what SIGHUP asks for; false where that is the end.
func (p *signalPlan) reload() bool {
	p.mu.Lock()
	reload := p.reloaded
	p.mu.Unlock()
	if reload == nil {
		return false
	}
	reload()
	return true
}

func (p *signalPlan) patience() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.cleanup, cleanupTime)
}

// catchSignals gives a context that ends with the first signal that asks us to. A second one ends
// the program at once, and so does the end of cleanupTime: a person who presses Ctrl-C wants the
// prompt back.
func (a *app) catchSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// With SIGPIPE caught, a write to a closed standard output fails, and what has been begun can
	// be put in order.
	brokenPipes := make(chan os.Signal, 1)
	signal.Notify(brokenPipes, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		next := func(overdue <-chan time.Time) (s os.Signal, goOn bool) {
			for {
				select {
				case s = <-signals:
					if s != syscall.SIGHUP || !a.signals.reload() {
						return s, true
					}
				case <-overdue:
					return nil, true
				case <-done:
					return nil, false
				}
			}
		}
		first, goOn := next(nil)
		if !goOn {
			return
		}
		cause := &interruption{first}
		a.restore.now()
		cancel(cause)
		overdue := time.NewTimer(a.signals.patience())
		defer overdue.Stop()
		second, goOn := next(overdue.C)
		if !goOn {
			return
		}
		if second != nil {
			cause = &interruption{second}
		}
		a.restore.now()
		os.Exit(cause.code())
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	})
}

// A restorer holds how to undo what was done to the terminal.
type restorer struct {
	mu   sync.Mutex
	undo func()
}

// set keeps undo for a signal; the function it gives undoes now, once.
func (r *restorer) set(undo func()) (now func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undo = undo
	return r.now
}

func (r *restorer) now() {
	r.mu.Lock()
	undo := r.undo
	r.undo = nil
	r.mu.Unlock()
	if undo != nil {
		undo()
	}
}
