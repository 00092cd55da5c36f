//go:build linux || darwin

package sftpfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// link is the connection to the host. For as long as the file system is mounted, a lost connection
// is replaced in the background.
type link struct {
	conn    *pool.Conn
	timeout time.Duration
	log     *slog.Logger
	onUp    func() // called on its own goroutine after each reconnect
	brief   int    // sessions in a row that the host ended soon; of keep alone

	mu      sync.Mutex
	client  *usftp.Client
	up      time.Time     // when the connection was made
	down    time.Time     // the last sign of life of a lost connection; zero while there is one
	dead    error         // why the connection cannot be replaced
	changed chan struct{} // closed and replaced when any of this changes
}

var (
	errTimeout     = errors.New("the host has not been reachable for too long")
	errInterrupted = errors.New("interrupted")
	errFatal       = errors.New("the host has ended each session in which it was asked this")
)

// mostFatal is how many sessions a host may end for one request.
const mostFatal = 3

// steadyAfter is how long a session lasts if it may be replaced at once: a host that ends one after
// the other is not asked for a new one without pause.
const steadyAfter = 5 * time.Second

// dialTimeout limits one attempt to reconnect: a TCP connection started while the link was down may
// notice late that the link is back.
const dialTimeout = 15 * time.Second

const forever = 100 * 365 * 24 * time.Hour

// newLink takes over the host's connection until ctx ends.
func newLink(ctx context.Context, host pool.Host, timeout time.Duration, log *slog.Logger) *link {
	host.Redial = limitRedial(host.Redial)
	l := &link{timeout: timeout, log: log, changed: make(chan struct{})}
	l.conn = pool.NewConn(ctx, host, pool.Retry{Retries: math.MaxInt, RetryFor: forever,
		Backoff: func(attempt int) time.Duration { return backoff(attempt + l.brief) }})
	l.client, l.up = l.conn.Host().Client, time.Now()
	return l
}

func limitRedial(redial func(context.Context) (pool.Host, error)) func(context.Context) (pool.Host,
	error) {
	if redial == nil {
		return nil
	}
	return func(ctx context.Context) (pool.Host, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout,
			errors.New("the login took too long"))
		defer cancel()
		host, err := redial(ctx)
		host.Redial = limitRedial(redial)
		return host, err
	}
}

// backoff returns a short wait, because a program waits, at random, as others were cut off too.
func backoff(attempt int) time.Duration {
	delay := min(200*time.Millisecond<<min(attempt-1, 10), 5*time.Second)
	return delay/2 + rand.N(delay/2)
}

// keep replaces the connection whenever it is lost, until ctx ends or the connection cannot be
// replaced.
func (l *link) keep(ctx context.Context) {
	for {
		l.mu.Lock()
		client, up := l.client, l.up
		l.mu.Unlock()
		select {
		case <-client.Done():
		case <-ctx.Done():
			return
		}
		lost := client.Wait()
		down := time.Now()
		if l.brief++; !ended(lost) || down.Sub(up) > steadyAfter {
			l.brief = 0
		}
		if stalled(lost) {
			down = private.OfClient(client).Heard()
			if p := l.conn.Host().Pool; p != nil {
				p.Close() // its sessions are on the same connection, and cannot take over
			}
		}
		l.set(nil, down, nil)
		l.log.Warn("the connection was lost", "error", lost)
		if !l.conn.Renew(client, lost, l.attempt) {
			err := l.conn.Why(lost)
			if ctx.Err() == nil {
				l.log.Error("the connection cannot be replaced: unmount and mount again", "error",
					err)
			}
			l.set(nil, down, err)
			return
		}
		l.conn.Arrived()
		l.set(l.conn.Host().Client, time.Time{}, nil)
		l.log.Warn("the connection is back")
		go l.onUp()
	}
}

func (l *link) attempt(a pool.Attempt) {
	if a.Err != nil {
		l.log.Info("reconnecting", "error", a.Err, "in", a.Wait)
	}
}

func (l *link) set(client *usftp.Client, down time.Time, dead error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if client != nil {
		l.client, l.up = client, time.Now()
	}
	l.down, l.dead = down, dead
	close(l.changed)
	l.changed = make(chan struct{})
}

// latest returns the client of the present connection, or of the last one.
func (l *link) latest() *usftp.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// isUp reports whether there is a connection.
func (l *link) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down.IsZero() && !pool.Lost(l.client)
}

// heardSince returns when the host last gave a sign of life, and whether the present connection, or
// the last one if it was lost, already existed at the time from.
func (l *link) heardSince(from time.Time) (heard time.Time, same bool) {
	l.mu.Lock()
	same = !l.up.After(from)
	l.mu.Unlock()
	return l.heard(), same
}

// heard returns when the host last gave a sign of life.
func (l *link) heard() time.Time {
	l.mu.Lock()
	client, up, down := l.client, l.up, l.down
	l.mu.Unlock()
	if !down.IsZero() {
		return down
	}
	heard := latest(up, private.OfClient(client).Heard())
	if shared := l.conn.Host().Pool; shared != nil {
		sessions, _ := pools.OfPool(shared).Sessions() // see lanes
		for _, on := range sessions {
			heard = latest(heard, private.OfClient(on.Client()).Heard())
		}
	}
	return heard
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// patience ends a wait during which one connection after the other is made and lost again and no
// data arrives: over some links only small packets do.
type patience struct {
	link *link
	from time.Time // when data last arrived, or the wait began
}

func (l *link) patience() patience { return patience{l, time.Now()} }

// arrived notes that data has arrived.
func (p *patience) arrived() { p.from = time.Now() }

// over returns an error once that has gone on for too long. It waits for a single connection,
// however slow.
func (p *patience) over() error {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	if p.link.up.After(p.from) && time.Since(p.from) > p.link.timeout {
		return errTimeout
	}
	return nil
}

// get returns the connection. While there is none, get waits until the timeout has passed since
// from.
func (l *link) get(ctx context.Context, from time.Time) (*usftp.Client, error) {
	timer := time.NewTimer(time.Until(from.Add(l.timeout)))
	defer timer.Stop()
	for {
		l.mu.Lock()
		client, down, dead, changed := l.client, l.down, l.dead, l.changed
		l.mu.Unlock()
		switch {
		case dead != nil:
			return nil, dead
		case down.IsZero() && !pool.Lost(client):
			return client, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			return nil, errTimeout
		}
	}
}

// do makes a request, and repeats it over a new connection if the connection was lost, unless that
// seems to be the request's fault. In the repetition again is true: the server may have carried out
// the request although its reply was lost.
func (l *link) do(ctx context.Context, ask func(c *usftp.Client, again bool) error) error {
	from := time.Now() // when the call began, or its first connection last gave a sign of life
	for shared, fatal, again := 0, 0, false; ; again = true {
		client, err := l.get(ctx, from)
		if err != nil {
			return err
		}
		err = ask(client.WithContext(ctx), again)
		if errors.Is(err, usftp.ErrSharedHandle) && shared < pools.MostShared {
			shared++
			continue
		}
		if err == nil || !lost(err) || errors.Is(err, errFatal) || ctx.Err() != nil {
			return err
		}
		l.await(ctx, client)
		if fatal += endedBy(err); fatal == mostFatal {
			err = fmt.Errorf("%w: %w", errFatal, err)
			l.log.Error("a call fails", "error", err)
			return err
		}
		switch {
		case !again:
			from = latest(from, l.heard())
		case time.Since(from) > l.timeout:
			return fmt.Errorf("%w: %w", errTimeout, err) // the connection comes and goes
		}
	}
}

// await returns once keep knows that a client is lost.
func (l *link) await(ctx context.Context, client *usftp.Client) {
	for {
		l.mu.Lock()
		known, changed := l.client != client || !l.down.IsZero() || l.dead != nil, l.changed
		l.mu.Unlock()
		if known || !pool.Lost(client) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// endedBy returns 1 if the host has ended a session when it had to answer the request with this
// error first, else 0.
func endedBy(err error) int {
	if errors.As(err, new(conn.Unanswered)) && ended(err) {
		return 1
	}
	return 0
}

// ended reports whether the host has ended a session, although the connection was not lost.
func ended(err error) bool {
	lost, ok := errors.AsType[*usftp.LostError](err)
	return ok && lost.Cause == io.EOF
}

// lost reports whether an error says that the connection has ended.
func lost(err error) bool { return errors.Is(err, net.ErrClosed) }

// stalled reports whether a connection was given up because nothing arrived over it.
func stalled(err error) bool {
	_, ok := errors.AsType[*usftp.StallError](err)
	return ok
}
