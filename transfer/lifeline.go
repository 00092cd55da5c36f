package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/usftp/usftp"
)

const (
	// firstDelay is how long is waited before a lost connection is made anew, and twice as long
	// before each further try; up to half of it is taken off at random, so that many who were cut
	// off together do not come back together.
	firstDelay = time.Second
	mostDelay  = 30 * time.Second

	// defaultRetryFor bounds the tries where nothing is said.
	defaultRetryFor = 15 * time.Minute
)

// lifeline is the connection to a host as all share it that is done in one run. Who finds it lost
// asks for another, and one of them makes it while the others wait; what was under way then goes
// on, each thing from where it had come to.
type lifeline struct {
	ctx      context.Context
	options  *Options
	mu       sync.Mutex
	host     Host          // its Client ends with ctx
	renewing chan struct{} // closed when the renewal under way has ended; nil where there is none
	tries    int           // without anything arriving in between
	arrived  int64         // grows with whatever need not be done again
	reached  int64         // arrived, at the first of the tries
	since    time.Time     // of the first of them
	gaveUp   error
	ways     map[*way]func() int64 // the progress of large files under way
	gate     gate
	habits   *habits
}

// arrive counts something that need not be done again.
func (l *lifeline) arrive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arriveLocked()
}

func (l *lifeline) arriveLocked() {
	l.arrived++
	l.gate.widen()
}

// way is how far a file has come over all connections, in bytes from its beginning.
type way struct{ reached int64 }

// follow counts what arrives of a file until the returned function is called.
func (l *lifeline) follow(w *way, progress func() int64) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ways == nil {
		l.ways = make(map[*way]func() int64)
	}
	l.ways[w] = progress
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count(w, progress())
		delete(l.ways, w)
	}
}

// count counts what of a file was not there before any loss. The caller holds the lock.
func (l *lifeline) count(w *way, reached int64) {
	if reached > w.reached {
		w.reached = reached
		l.arriveLocked()
	}
}

func newLifeline(ctx context.Context, host Host, options *Options) *lifeline {
	if host.Client != nil { // a copy on this machine has none
		host.Client = host.Client.WithContext(ctx)
	}
	l := &lifeline{ctx: ctx, options: options, host: host, habits: host.habits}
	if l.habits == nil {
		l.habits = new(habits)
	}
	l.gate.wider.L = &l.mu
	return l
}

// current returns the host with the connection that there is now.
func (l *lifeline) current() Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.host
}

func (l *lifeline) client() *usftp.Client { return l.current().Client }

// lost tells whether a client's connection has ended. One that there is not never does.
func lost(client *usftp.Client) bool {
	if client == nil {
		return false
	}
	select {
	case <-client.Done():
		return true
	default:
		return false
	}
}

// renews tells whether a lost connection is made anew.
func (h *Host) renews(o *Options) bool { return h.Redial != nil && o.Retries > 0 }

// ended tells whether there is no connection, and none will be.
func (l *lifeline) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gaveUp != nil || lost(l.host.Client) && !l.host.renews(l.options)
}

// over does something over the connection, and again over a new one where it was lost meanwhile;
// again is then true, since what was asked for may have been done though nobody heard of it. tell
// tells of the tries.
func (l *lifeline) over(tell func(Event), do func(client *usftp.Client, again bool) error) error {
	for again := false; ; again = true {
		client := l.client()
		err := do(client, again)
		if err == nil || !l.renew(client, err, tell) {
			return err
		}
	}
}

// renew tells whether what failed over a client is worth another try: whether its connection was
// lost, and there is another. err is how it failed.
func (l *lifeline) renew(client *usftp.Client, err error, tell func(Event)) bool {
	if !lost(client) {
		return false
	}
	for {
		l.mu.Lock()
		switch {
		case l.host.Client != client:
			l.mu.Unlock()
			return l.ctx.Err() == nil
		case l.gaveUp != nil || l.ctx.Err() != nil || !l.host.renews(l.options):
			l.mu.Unlock()
			return false
		case l.renewing == nil:
			l.renewing = make(chan struct{})
			l.mu.Unlock()
			return l.lead(err, tell)
		}
		renewing := l.renewing
		l.mu.Unlock()
		<-renewing
	}
}

// lead makes the connection anew, for all who wait.
func (l *lifeline) lead(err error, tell func(Event)) bool {
	host, err := l.redial(err, tell)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.renewing)
	l.renewing = nil
	if err != nil {
		l.gaveUp = err
		l.gate.wider.Broadcast()
		return false
	}
	l.host = host
	return true
}

// redial makes the connection anew, with back-off. Tries count since something last arrived: over a
// link that breaks again and again all gets through in the end. Only the one who leads calls it.
func (l *lifeline) redial(lost error, tell func(Event)) (Host, error) {
	l.mu.Lock()
	host := l.host
	for w, progress := range l.ways {
		l.count(w, progress())
	}
	if l.arrived > l.reached || l.tries == 0 {
		l.reached, l.tries, l.since = l.arrived, 0, time.Now()
	} else {
		l.gate.narrow()
	}
	l.mu.Unlock()
	if other := host.Pool.survivor(); other != nil {
		tell(Event{Kind: Retried, Err: lost,
			Message: fmt.Sprintf("%v; it goes on over another connection to %s", lost, host.Name)})
		host.Client = other.WithContext(l.ctx)
		return host, nil
	}
	limit := l.options.RetryFor
	if limit <= 0 {
		limit = defaultRetryFor
	}
	ctx, cancel := context.WithDeadline(l.ctx, l.since.Add(limit))
	defer cancel()
	err := lost
	for l.tries < l.options.Retries && ctx.Err() == nil {
		l.tries++
		wait := l.backoff(l.tries)
		tell(Event{Kind: Retried, Err: err, Wait: wait,
			Message: fmt.Sprintf("%v; %s is connected to again in %v (try %d of %d)",
				err, host.Name, wait.Round(100*time.Millisecond), l.tries, l.options.Retries)})
		if !pause(ctx, wait) {
			break
		}
		fresh, dialErr := host.Redial(ctx)
		if dialErr == nil {
			fresh.Client = fresh.Client.WithContext(l.ctx)
			if fresh.Redial == nil {
				fresh.Redial = host.Redial
			}
			return fresh, nil
		}
		err = dialErr
	}
	if l.ctx.Err() != nil {
		return host, context.Cause(l.ctx)
	}
	return host, &gaveUpError{lost: lost, last: err, tries: l.tries, within: time.Since(l.since)}
}

// backoff returns how long is waited before a try, from 1 on.
func (l *lifeline) backoff(try int) time.Duration {
	if l.options.Backoff != nil {
		return l.options.Backoff(try)
	}
	delay := min(firstDelay<<min(try-1, 10), mostDelay)
	return delay/2 + rand.N(delay/2)
}

// pause waits; false where the context ends first.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// why returns what is to be told of an error: where a connection was given up, that.
func (l *lifeline) why(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// a tree's context ends with its connection
	if l.gaveUp != nil && (l.ctx.Err() == nil || errors.Is(err, net.ErrClosed)) {
		return l.gaveUp
	}
	return err
}

// gaveUpError is a connection that was lost and could not be made anew.
type gaveUpError struct {
	lost, last error
	tries      int
	within     time.Duration
}

func (e *gaveUpError) Error() string {
	if e.last == e.lost {
		return fmt.Sprintf("%v (given up after %d new connections that brought nothing)", e.lost,
			e.tries)
	}
	return fmt.Sprintf("%v; connecting again has failed %d times within %v, at last: %v", e.lost,
		e.tries, e.within.Round(time.Second), e.last)
}

func (e *gaveUpError) Unwrap() []error { return []error{e.lost, e.last} }
