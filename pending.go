package usftp

import (
	"context"
	"errors"
	"sync"

	"github.com/usftp/usftp/internal/conn"
)

// Pending is the result of an operation that has been started and may not be complete yet. It costs
// no goroutine. Its methods may be called from any number of goroutines, in any combination.
//
// A Pending ends when its operation does, when the context of the view by which it was started is
// done, and at the latest with the connection. Buffers that were given to the operation are the
// caller's again then, and not before.
type Pending[T any] struct {
	session *session
	done    chan struct{}

	mu      sync.Mutex
	op      operation[T]
	ended   bool
	value   T
	err     error
	then    []func(T, error)
	hooks   []func() // the package's own, which do not block
	forgot  bool
	unwatch []func() bool // each stops watching a context
}

// start sends the operation without waiting for its result. It waits only where the budget of bytes
// or requests is full.
func start[T any](ctx context.Context, s *session, op operation[T]) *Pending[T] {
	p := &Pending[T]{session: s, op: op, done: make(chan struct{})}
	if op.err != nil {
		p.end(p.value, op.wrap(op.err))
		return p
	}
	op.call.Done = (*completion[T])(p)
	if err := s.conn.Start(ctx, op.call); err != nil {
		p.end(p.value, op.wrap(err))
		return p
	}
	p.watch(ctx, op)
	return p
}

// watch has the pending operation end with a context. That costs no goroutine as long as nothing is
// cancelled.
func (p *Pending[T]) watch(ctx context.Context, op operation[T]) {
	if ctx.Done() == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		var none T
		p.end(none, op.wrap(context.Cause(ctx)))
	})
	p.mu.Lock()
	p.unwatch = append(p.unwatch, stop)
	ended := p.ended
	p.mu.Unlock()
	if ended {
		stop()
	}
}

// complete takes the reply of the call under way.
func (p *Pending[T]) complete(call *conn.Call) {
	p.mu.Lock()
	if p.ended { // cancelled: nobody wants the reply, and no buffer may be touched
		p.mu.Unlock()
		if call.Orphan != nil && call.Err == nil {
			call.Orphan(call)
		}
		p.session.conn.Recycle(call)
		return
	}
	value, next, err := p.op.finish()
	if next != nil && next.err == nil {
		p.op = *next
		next.call.Done = (*completion[T])(p)
		ok, failed := p.session.conn.TryStart(next.call, true)
		if ok {
			p.mu.Unlock()
			return
		}
		if failed != nil {
			err = next.wrap(failed)
		}
	}
	p.mu.Unlock()
	p.end(value, err)
}

// completion is a Pending as its call's Completer.
type completion[T any] Pending[T]

func (c *completion[T]) Complete(call *conn.Call) { (*Pending[T])(c).complete(call) }

// end ends the pending operation, once.
func (p *Pending[T]) end(value T, err error) {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended, p.value, p.err = true, value, err
	then, hooks, unwatch, forgot := p.then, p.hooks, p.unwatch, p.forgot
	p.then, p.hooks, p.unwatch = nil, nil, nil
	close(p.done)
	p.mu.Unlock()
	for _, stop := range unwatch {
		stop()
	}
	for _, f := range then {
		p.session.dispatcher.run(func() { f(value, err) })
	}
	for _, hook := range hooks {
		hook()
	}
	if forgot && err != nil {
		p.session.report(err)
	}
}

// whenEnded has a function of the package called when the operation is complete, now if it is.
func (p *Pending[T]) whenEnded(hook func()) {
	p.mu.Lock()
	if !p.ended {
		p.hooks = append(p.hooks, hook)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	hook()
}

// Done returns a channel that is closed when the operation is complete.
func (p *Pending[T]) Done() <-chan struct{} { return p.done }

// Wait waits until the operation is complete and returns its result. It may be called again.
func (p *Pending[T]) Wait() (T, error) {
	<-p.done
	return p.value, p.err
}

// WaitContext is Wait that gives up when ctx is done, with ctx's cause. The operation goes on: to
// end it, start it through [Client.WithContext].
func (p *Pending[T]) WaitContext(ctx context.Context) (T, error) {
	select {
	case <-p.done:
		return p.value, p.err
	case <-ctx.Done():
		var none T
		p.mu.Lock()
		defer p.mu.Unlock()
		return none, p.op.wrap(context.Cause(ctx))
	}
}

// Then has f called with the result when the operation is complete, or soon if it is. Functions of
// one client are called one at a time, in the order in which their operations completed, on a
// goroutine that exists only while there are any to call; never on one of the connection's. So a
// slow one delays other functions, and no transfer. A function may start further operations and
// wait for them, but not for another function.
func (p *Pending[T]) Then(f func(T, error)) {
	p.mu.Lock()
	if !p.ended {
		p.then = append(p.then, f)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.session.dispatcher.run(func() { f(p.value, p.err) })
}

// Forget says that nobody will wait: an error goes to the client's [WithErrorFunc], called as
// functions of Then are.
func (p *Pending[T]) Forget() {
	p.mu.Lock()
	first := !p.forgot
	p.forgot = true
	failed := first && p.ended && p.err != nil
	p.mu.Unlock()
	if failed {
		p.session.report(p.err)
	}
}

// dispatcher calls users' functions, one at a time, on a goroutine that exists only while there are
// any to call.
type dispatcher struct {
	mu      sync.Mutex
	queue   []func()
	running bool
}

func (d *dispatcher) run(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append(d.queue, f)
	if !d.running {
		d.running = true
		go d.work()
	}
}

func (d *dispatcher) work() {
	for {
		d.mu.Lock()
		queue := d.queue
		d.queue = nil
		d.running = len(queue) > 0
		d.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, f := range queue {
			f()
		}
	}
}

// report hands an error that nobody waits for to the function of WithErrorFunc.
func (s *session) report(err error) {
	if f := s.options.errorFunc; f != nil {
		s.dispatcher.run(func() { f(err) })
	} else if logger := s.options.conn.Logger; logger != nil && !errors.Is(err, ErrClosed) {
		s.dispatcher.run(func() { logger.Info("an error that nobody waits for", "error", err) })
	}
}
