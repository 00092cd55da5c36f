package ui

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// CleanupTime is how long an interrupted program may take to clean up: longer than package transfer
// ever takes.
const CleanupTime = 8 * time.Second

// signalPlan holds one command's changes to the usual signal handling.
type signalPlan struct {
	mu      sync.Mutex
	caught  chan os.Signal
	came    chan struct{} // closed when a signal has come that ends the program
	cleanup time.Duration // replaces CleanupTime

	// Called for these signals instead of ending the program. An interruption ends it if interrupt
	// returns false.
	hangup    func()
	interrupt func(*Interruption) bool
}

// catch has signals sent to a channel, except signals that were ignored when the program started:
// nohup and shells without job control ignore signals so that the program survives them.
func (p *signalPlan) catch(caught chan os.Signal, signals ...os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caught, p.came = caught, make(chan struct{})
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
}

// Set sets how long cleaning up may take, and the function that SIGHUP calls instead of ending the
// program, unless reload is nil. SIGHUP is then caught even under nohup.
func (p *signalPlan) Set(cleanup time.Duration, reload func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanup, p.hangup = cleanup, reload
	if p.caught != nil && reload != nil {
		signal.Notify(p.caught, syscall.SIGHUP)
	}
}

// OnInterrupt makes SIGINT call stop, and end the program only if stop returns false.
func (p *signalPlan) OnInterrupt(stop func(cause *Interruption) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interrupt = stop
}

// handled reports whether a signal was handled without ending the program.
func (p *signalPlan) handled(s os.Signal) bool {
	p.mu.Lock()
	hangup, interrupt := p.hangup, p.interrupt
	p.mu.Unlock()
	switch {
	case s == syscall.SIGHUP && hangup != nil:
		hangup()
		return true
	case s == os.Interrupt && interrupt != nil:
		return interrupt(&Interruption{s})
	}
	return false
}

func (p *signalPlan) patience() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.cleanup, CleanupTime)
}

// sameWish is how long signals that come after the first mean the same: timeout(1) sends its signal
// to the program, and then to the group that it is in, in which others may have ended by then.
const sameWish = 50 * time.Millisecond

// CatchSignals returns a context that ends with the first signal that asks us to end. A later one,
// or the end of CleanupTime, ends the program at once: a user who presses Ctrl-C wants the prompt
// back. Signals ignored when the program started stay ignored.
func (a *App) CatchSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 4)
	a.Signals.catch(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// With SIGPIPE caught, a write to a closed standard output fails, and the program can clean up.
	brokenPipes := make(chan os.Signal, 1)
	signal.Notify(brokenPipes, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		next := func(overdue <-chan time.Time) (s os.Signal, more bool) {
			for {
				select {
				case s = <-signals:
					if !a.Signals.handled(s) {
						return s, true
					}
				case <-overdue:
					return nil, true
				case <-done:
					return nil, false
				}
			}
		}
		first, more := next(nil)
		if !more {
			return
		}
		cause := &Interruption{first}
		close(a.Signals.came)
		a.restore()
		// Nothing is told before that time is over: whoever is told may send another one.
		same := time.After(sameWish)
		for s := first; s != nil; {
			if s, more = next(same); !more {
				return
			}
		}
		cancel(cause)
		overdue := time.NewTimer(a.Signals.patience())
		defer overdue.Stop()
		second, more := next(overdue.C)
		if !more {
			return
		}
		if second != nil {
			cause = &Interruption{second}
		}
		a.restore()
		os.Exit(cause.Code())
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	})
}

// AfterProgram returns the outcome of a program that we ran. A signal to both of us ends ours, and
// then the program's end means nothing. ctx is [App.CatchSignals]'s, or made of it.
func (a *App) AfterProgram(ctx context.Context, err error) error {
	wait := time.Duration(0)
	exit, failed := errors.AsType[*exec.ExitError](err)
	if failed && (ByCtrlC(exit) || slices.Contains(endings, exit.String())) {
		wait = time.Second // we may learn of it later, or it was sent to the program alone
	}
	return cmp.Or(a.ending(ctx, wait), err)
}

// ending returns the signal that ends us, if one comes within a time, or nil.
func (a *App) ending(ctx context.Context, wait time.Duration) error {
	settleSignals()
	select {
	case <-a.Signals.came:
	case <-ctx.Done():
	case <-time.After(wait):
	}
	select {
	case <-a.Signals.came:
		<-ctx.Done()
	default:
	}
	return context.Cause(ctx)
}

// endings are how programs end that do not handle the other signals that end us.
var endings = []string{"signal: terminated", "signal: hangup"}

// ByCtrlC reports whether a program has ended as those do that do not handle Ctrl-C.
func ByCtrlC(exit *exec.ExitError) bool {
	const onWindows = "exit status 0xc000013a" // STATUS_CONTROL_C_EXIT
	how := exit.String()
	return how == "signal: interrupt" || how == onWindows
}

// A restorer holds the function that undoes changes to the terminal.
type restorer struct {
	mu   sync.Mutex
	undo func()
}

// RestoreAtSignal has undo restore the terminal if a signal ends the program. The function that it
// returns does so now. undo is called only once.
func (r *restorer) RestoreAtSignal(undo func()) (now func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undo = undo
	return r.restore
}

func (r *restorer) restore() {
	r.mu.Lock()
	undo := r.undo
	r.undo = nil
	r.mu.Unlock()
	if undo != nil {
		undo()
	}
}
