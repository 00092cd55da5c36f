package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/private/pools"
)

// Retry configures how a lost connection is replaced. The zero Retry never replaces one.
type Retry struct {
	// Retries is how many attempts in a row may fail to make progress, if the Host can redial. A
	// file in progress continues after the contiguous part that has arrived; finished files of a
	// tree are not copied again. A host whose key has changed is tried no more, except with
	// math.MaxInt.
	Retries int

	// RetryFor limits the time without progress. 0 means 15 minutes.
	RetryFor time.Duration

	// Backoff returns the wait before an attempt, counted from 1. Nil means a second, doubled for
	// each further attempt up to 30 s, less up to half at random so that clients cut off together
	// do not return together.
	Backoff func(attempt int) time.Duration
}

const (
	firstDelay      = time.Second
	longestDelay    = 30 * time.Second
	defaultRetryFor = 15 * time.Minute
)

// An Attempt describes how a lost connection is about to be replaced, or reports that it has been.
type Attempt struct {
	Err     error         // why it was lost, or the last attempt failed; nil once it is replaced
	Wait    time.Duration // before the attempt; 0 if another connection of the Pool takes over
	Message string        // one line that names the host, for people
}

// A Conn is a shared connection to a host that is replaced when it is lost. Everyone who finds it
// lost calls Renew; one of them reconnects while the others wait, and operations in progress
// continue. It is safe for concurrent use.
type Conn struct {
	ctx   context.Context
	retry Retry

	mu       sync.Mutex
	host     Host          // its Client ends with ctx
	renewing chan struct{} // closed when the reconnect under way ends; nil if none is
	attempts int           // since the last progress
	hopeless int64         // arrived, plus one, when the server last did what it would do again
	arrived  int64         // counts everything that need not be done again
	reached  int64         // arrived at the first of the attempts
	since    time.Time     // when the first of the attempts began
	gaveUp   error
	files    map[*pools.Progress]func() int64 // large files in progress
	silent   silences
	slow     slowStart
	rate     float64
}

// privateConn has the methods for package transfer; package pools documents them.
type privateConn struct{ *Conn }

// NewConn returns a Conn that uses host's connection first. Once ctx has ended, its requests fail
// and nothing is replaced.
func NewConn(ctx context.Context, host Host, retry Retry) *Conn {
	host.Client = host.Client.WithContext(ctx)
	if host.Quirks == nil {
		host.Quirks = new(Quirks)
	}
	c := &Conn{ctx: ctx, retry: retry, host: host}
	c.slow.wider.L = &c.mu
	return c
}

// Host returns the host with its current connection.
func (c *Conn) Host() Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.host
}

// NoteRate implements pools.Conn.
func (c privateConn) NoteRate(rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rate = max(rate, c.rate/2) // something else may have slowed one file
}

// Rate implements pools.Conn.
func (c privateConn) Rate() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rate
}

// Lost reports whether a client's connection has ended.
func Lost(client *usftp.Client) bool {
	select {
	case <-client.Done():
		return true
	default:
		return false
	}
}

// Renews implements pools.Conn.
func (c privateConn) Renews() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renews()
}

// renews implements Renews. The caller holds the lock.
func (c *Conn) renews() bool { return c.host.Redial != nil && c.retry.Retries > 0 }

// Ended implements pools.Conn.
func (c privateConn) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gaveUp != nil || Lost(c.host.Client) && !c.renews()
}

// Arrived records progress: something is done that a new connection need not repeat. The limits of
// Retry apply to the time and the attempts since then.
func (c *Conn) Arrived() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress()
}

// progress implements Arrived. The caller holds the lock.
func (c *Conn) progress() {
	c.arrived++
	c.slow.widen()
}

// Follow implements pools.Conn.
func (c privateConn) Follow(p *pools.Progress, position func() int64) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = make(map[*pools.Progress]func() int64)
	}
	c.files[p] = position
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count(p, position())
		delete(c.files, p)
	}
}

// count records progress beyond any earlier connection's. The caller holds the lock.
func (c *Conn) count(p *pools.Progress, reached int64) {
	if reached > p.Reached {
		p.Reached = reached
		c.progress()
	}
}

// Do calls do, and calls it again over a new connection if the connection was lost, or if the host
// gave one handle to several open files. again is then true, since the request may have been
// executed although its reply was lost. tell is as for [Conn.Renew].
func (c *Conn) Do(tell func(Attempt), do func(client *usftp.Client, again bool) error) error {
	c.begin()
	defer c.end()
	for shared, again := 0, false; ; again = true {
		client := c.Host().Client
		err := do(client, again)
		if errors.Is(err, usftp.ErrSharedHandle) && shared < pools.MostShared {
			shared++
			continue
		}
		if err == nil || !c.Renew(client, err, tell) {
			return err
		}
	}
}

// Renew reports whether an operation that failed with err on client should be tried again: whether
// the connection was lost and has been replaced. What the host left without an answer on two
// connections, or a file's data on as many as may be tried without progress, is not tried again: all
// else may be answered. If several goroutines call it, the one that reconnects calls tell before
// each attempt, and when one has succeeded. tell must not be nil.
func (c *Conn) Renew(client *usftp.Client, err error, tell func(Attempt)) bool {
	if !Lost(client) || c.givesUp(client, err) {
		return false
	}
	for {
		c.mu.Lock()
		switch {
		case c.host.Client.Done() != client.Done(): // a view has the same
			c.mu.Unlock()
			return c.ctx.Err() == nil
		case c.gaveUp != nil || c.ctx.Err() != nil || !c.renews():
			c.mu.Unlock()
			return false
		case c.renewing == nil:
			c.renewing = make(chan struct{})
			c.mu.Unlock()
			return c.reconnect(tell)
		}
		renewing := c.renewing
		c.mu.Unlock()
		<-renewing
	}
}

// silences are the questions that have had no answer.
type silences struct {
	questions map[string]silence
	failed    int64 // Conn.arrived, plus one, when one of them had last failed alone
	again     bool  // one has failed alone, so the count of attempts starts again
}

// silence is a question that has had no answer, or a file whose data has not come.
type silence struct {
	connections int
	last        <-chan struct{} // closed when the last of them had ended
}

// givesUp reports whether err says that a question was left without an answer on two connections, or
// a file's data did not come on as many as may be tried without progress.
func (c *Conn) givesUp(client *usftp.Client, err error) bool {
	if _, own := errors.AsType[conn.Unanswered](err); !own {
		return false
	}
	var stall *usftp.StallError
	var file *fs.PathError
	errors.As(err, &stall)
	errors.As(err, &file)
	if stall == nil || stall.Data && file == nil {
		return false
	}
	question, most := stall.Request, 2
	if file != nil { // an extended request's name does not say what was asked
		question = file.Path + " " + question
	}
	if stall.Data { // if some of it has come since, it is not the same question
		most = max(2, c.retry.Retries)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent.questions == nil {
		c.silent.questions = make(map[string]silence)
	}
	s := c.silent.questions[question]
	if s.last != client.Done() {
		s = silence{s.connections + 1, client.Done()}
		c.silent.questions[question] = s
		// All else has all its retries, but not again and again on a host that answers nothing.
		if s.connections == most && c.silent.failed != c.arrived+1 {
			c.silent.failed, c.silent.again = c.arrived+1, true
		}
	}
	return s.connections >= most
}

// reconnect replaces the connection for everyone who waits.
func (c *Conn) reconnect(tell func(Attempt)) bool {
	host, err := c.redial(tell)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.renewing)
	c.renewing = nil
	if err != nil {
		c.gaveUp = err
		c.slow.wider.Broadcast()
		return false
	}
	c.host = host
	return true
}

// redial makes a new connection, with back-off. Attempts are counted since the last progress, so
// that over a link that keeps breaking everything gets through in the end.
func (c *Conn) redial(tell func(Attempt)) (Host, error) {
	c.mu.Lock()
	host := c.host
	for p, position := range c.files {
		c.count(p, position())
	}
	if c.arrived > c.reached || c.attempts == 0 || c.silent.again {
		c.silent.again = false
		c.reached, c.attempts, c.since = c.arrived, 0, time.Now()
	} else {
		c.slow.width = 1
	}
	lost := host.Client.Wait() // returns at once, since the connection has ended
	why := lost
	what := "connection lost"
	if stall, ok := errors.AsType[*usftp.StallError](why); ok && !stall.Data && stall.Request != "" {
		what = fmt.Sprintf("no reply to %s for %v", stall.Request, stall.After)
		c.since = time.Now() // the host was there meanwhile
	}
	// A server that breaks the protocol twice, with nothing done in between, would go on: a reply
	// of 2 GiB is not shorter the third time.
	if _, broke := errors.AsType[*usftp.ProtocolError](why); broke {
		if c.hopeless == c.arrived+1 {
			c.mu.Unlock()
			return host, &brokeError{why}
		}
		c.hopeless = c.arrived + 1
	}
	c.mu.Unlock()
	if other := host.Pool.survivor(); other != nil {
		tell(Attempt{Err: why,
			Message: host.Name + ": " + what + "; continuing over another one"})
		host.Client = other.WithContext(c.ctx)
		host.first = nil // its answer came over the lost one
		return host, nil
	}
	limit := c.retry.RetryFor
	if limit <= 0 {
		limit = defaultRetryFor
	}
	ctx, cancel := context.WithDeadline(c.ctx, c.since.Add(limit))
	defer cancel()
	err := lost
	for c.attempts < c.retry.Retries && ctx.Err() == nil {
		c.attempts++
		wait := c.backoff(c.attempts)
		tell(Attempt{Err: why, Wait: wait,
			Message: fmt.Sprintf("%s: %s; reconnecting in %.1f s (%d of %d)", host.Name, what,
				wait.Seconds(), c.attempts, c.retry.Retries)})
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		fresh, dialErr := host.Redial(ctx)
		if dialErr == nil {
			fresh.Client = fresh.Client.WithContext(c.ctx)
			fresh.Quirks = host.Quirks
			if fresh.Redial == nil {
				fresh.Redial = host.Redial
			}
			tell(Attempt{Message: host.Name + ": connected again"})
			return fresh, nil
		}
		err, why = dialErr, dialErr
		if c.hasAnotherKey(dialErr) {
			break
		}
		what = strings.TrimPrefix(err.Error(), host.Name+": ")
	}
	if c.ctx.Err() != nil {
		return host, context.Cause(c.ctx)
	}
	return host, &gaveUpError{lost: lost, last: err, attempts: c.attempts,
		within: time.Since(c.since)}
}

// hasAnotherKey reports whether the host did not prove to be the same, which takes a person to mend.
// Who tries for ever, as a mount does, finds out when that is done.
func (c *Conn) hasAnotherKey(err error) bool {
	key, ok := errors.AsType[*dial.HostKeyError](err)
	return ok && (key.Problem == dial.HostKeyChanged || key.Problem == dial.HostKeyRevoked) &&
		c.retry.Retries < math.MaxInt
}

func (c *Conn) backoff(attempt int) time.Duration {
	if c.retry.Backoff != nil {
		return c.retry.Backoff(attempt)
	}
	delay := min(firstDelay<<min(attempt-1, 10), longestDelay)
	return delay/2 + rand.N(delay/2)
}

// Why returns the error to report for err: the reason why the connection was given up, or err
// itself if it was not.
func (c *Conn) Why(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// a tree's context ends together with its connection
	if c.gaveUp != nil && (c.ctx.Err() == nil || errors.Is(err, net.ErrClosed)) {
		return c.gaveUp
	}
	return err
}

// gaveUpError reports a lost connection that could not be replaced.
type gaveUpError struct {
	lost, last error
	attempts   int
	within     time.Duration
}

func (e *gaveUpError) Error() string {
	if e.last == e.lost {
		return fmt.Sprintf("%v (gave up after %d new connections without progress)", e.lost,
			e.attempts)
	}
	if e.attempts == 1 {
		return fmt.Sprintf("%v; reconnecting failed: %v", e.lost, e.last)
	}
	return fmt.Sprintf("%v; %d attempts to reconnect failed within %v, the last one: %v", e.lost,
		e.attempts, e.within.Round(time.Second), e.last)
}

func (e *gaveUpError) Unwrap() []error { return []error{e.lost, e.last} }

// brokeError reports a connection that was not replaced, since the server had broken the protocol
// on the previous one, too.
type brokeError struct{ error }

func (e *brokeError) Error() string {
	return fmt.Sprintf("%v (as on the connection before; gave up)", e.error)
}

func (e *brokeError) Unwrap() error { return e.error }

// slowStart limits how many files are in progress after a connection that brought no progress. The
// data that many files have in flight together may be more than the link carries before it breaks,
// and then none would ever get through. One at a time each gets its chance, and each bit of
// progress doubles the number. Large files are counted apart from small ones, so that a small one
// need not wait for gigabytes. Conn's lock guards it.
type slowStart struct {
	wider sync.Cond
	width int // 0 means no limit
	under [2]int
	uses  uses
}

// unlimited is the width above which the limit is lifted: more files are never in progress.
const unlimited = 4096

func (s *slowStart) widen() {
	if s.width == 0 {
		return
	}
	if s.width *= 2; s.width > unlimited {
		s.width = 0
	}
	s.wider.Broadcast()
}

// AcquireSlot implements pools.Conn.
func (c privateConn) AcquireSlot(large bool, p *pools.Progress) (leave func()) {
	kind := 0
	if large {
		kind = 1
	}
	s := &c.slow
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.Losses.All < 2 { // what was done before a loss may be counted after it, but not so late
		p.Losses.Arrived = c.arrived
	}
	if s.width > 0 {
		defer context.AfterFunc(c.ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			s.wider.Broadcast()
		})()
	}
	for s.width > 0 && s.under[kind] >= s.width && c.gaveUp == nil && c.ctx.Err() == nil {
		s.wider.Wait()
	}
	s.under[kind]++
	ended := c.isAlone(p)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		ended()
		s.under[kind]--
		s.wider.Broadcast()
	}
}
