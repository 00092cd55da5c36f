package pool

import (
	"errors"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private/pools"
)

// Some requests end the connection each time: a server crashes on a name, or a middlebox cuts on
// content. Everything in progress is lost along with such a request, and nothing tells which one it
// was. So what was in progress at several losses in a row, without any progress of its own, is
// suspected, and tried with nothing else in progress: files wait until no other is, and requests that
// Do repeats get the new connection before everyone else. What is lost alone again and again has
// failed, and the rest goes on.

// company returns how many losses in a row something may share with others until it is suspected.
func (r Retry) company() int { return min(3, max(2, r.Retries-1)) }

// alone returns how often it may then be lost alone. It must have failed before Retries attempts have
// been made without progress, since that ends everything.
func (r Retry) alone() int { return max(1, r.Retries-r.company()) }

// suspects knows what has failed since it got no answer or ended connections, and lets one request
// after the other that may do so have a new connection. Conn's lock guards it.
type suspects struct {
	answered bool            // the host has answered a request
	failed   int             // in a row, with nothing done in between
	arrived  int64           // Conn.arrived, when the last one had failed
	lost     <-chan struct{} // closed when the connection ended over which a request was lost last
	waiting  []*trial
	running  *trial // on the connection that is not everyone's yet
	silent   silences
}

// A trial is a request that gets a new connection before everyone else.
type trial struct {
	turn  chan struct{} // closed when it has the connection
	over  chan struct{} // closed when it has ended, or made progress
	ended bool
	alone bool
}

// lose counts a loss of something that was in progress, and reports whether it has failed. The
// caller holds the lock.
func (c *Conn) lose(l *pools.Losses, alone bool) (failed bool) {
	if !c.renews() {
		return false
	}
	if l.Shared++; l.Shared >= c.retry.company() {
		l.Suspicion++
	}
	if !alone {
		return false
	}
	// A host that has answered nothing at all ends every connection.
	if l.Alone++; l.Alone < c.retry.alone() || !c.suspects.answered {
		return false
	}
	s := &c.suspects
	if s.arrived != c.arrived {
		s.failed, s.arrived = 0, c.arrived
	}
	// All else has all its retries, but not forever on a host that ends every connection by now.
	if s.failed++; s.failed > c.retry.Retries {
		return false
	}
	c.suspects.silent.again = true
	return true
}

// Lose implements pools.Conn.
func (c privateConn) Lose(p *pools.Progress, client *usftp.Client, reached int64) (failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &p.Losses
	if reached > l.Reached {
		*l = pools.Losses{Reached: reached, WasAlone: l.WasAlone}
	}
	if failed = c.lose(l, l.WasAlone && c.suspects.lost != client.Done()); !failed {
		c.slow.comes(p)
	}
	return failed
}

// Forget implements pools.Conn.
func (c privateConn) Forget(p *pools.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow.arrives(p)
}

// Do calls do, and calls it again over a new connection if the connection was lost, or if the host
// gave one handle to several open files. again is then true, since the request may have been
// executed although its reply was lost. tell is as for [Conn.Renew].
func (c *Conn) Do(tell func(Attempt), do func(client *usftp.Client, again bool) error) error {
	var losses pools.Losses
	var t *trial // nil if the connection is everyone's
	answered := false
	defer func() { c.done(t, answered) }()
	for shared, again := 0, false; ; again = true {
		client := c.Host().Client
		was := Lost(client)
		err := do(client, again)
		if errors.Is(err, usftp.ErrSharedHandle) && shared < pools.MostShared {
			shared++
			continue
		}
		if err == nil || !Lost(client) {
			answered = true
			return err
		}
		if c.givesUp(client, err) {
			return err
		}
		if errors.As(err, new(pools.Advanced)) {
			losses = pools.Losses{}
		}
		if !was && c.loses(&losses, t, client) {
			return &pools.DeadlyError{Err: err}
		}
		ok := false
		if t, ok = c.again(client, err, losses, tell); !ok {
			return err
		}
	}
}

// loses counts a loss of a request, as lose does, and ends its trial, if it had one.
func (c *Conn) loses(l *pools.Losses, t *trial, client *usftp.Client) (failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed = c.lose(l, t != nil && t.alone && c.suspects.lost != client.Done())
	c.suspects.lost = client.Done()
	t.end()
	return failed
}

// done ends a request and its trial, if it had one.
func (c *Conn) done(t *trial, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.end()
	c.suspects.answered = c.suspects.answered || answered
}

// end ends a trial. The caller holds Conn's lock.
func (t *trial) end() {
	if t != nil && !t.ended {
		t.ended = true
		close(t.over)
	}
}

// spoil ends the trial of a request that is not alone any more, or is not what ends the connection.
// The caller holds Conn's lock.
func (t *trial) spoil() {
	if t != nil {
		t.alone = false
		t.end()
	}
}

// again waits until a request that was lost can be tried again, in a trial if it is suspected. ok is
// false if it cannot.
func (c *Conn) again(client *usftp.Client, err error, l pools.Losses, tell func(Attempt)) (t *trial,
	ok bool) {
	c.mu.Lock()
	switch replaced := c.host.Client.Done() != client.Done(); {
	case !c.renews() || c.gaveUp != nil || c.ctx.Err() != nil:
		c.mu.Unlock()
		return nil, false
	case l.Suspicion == 0, c.renewing == nil && replaced: // it comes too late
		c.mu.Unlock()
		return nil, c.Renew(client, err, tell)
	case !replaced:
		c.suspects.running.spoil() // it uses the connection, too
	}
	t = &trial{turn: make(chan struct{}), over: make(chan struct{}), alone: true}
	c.suspects.waiting = append(c.suspects.waiting, t)
	if c.renewing == nil {
		c.renewing = make(chan struct{})
		go c.reconnect(tell)
	}
	renewing := c.renewing
	c.mu.Unlock()
	select {
	case <-t.turn:
	case <-renewing:
	}
	select {
	case <-t.turn:
		return t, true
	default:
		return nil, false
	}
}

// next makes a new connection the one that is used, and returns the request that has it alone, if any
// waits for that. Otherwise it is everyone's.
func (c *Conn) next(host Host) *trial {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = host
	s := &c.suspects
	s.running = nil
	if n := len(s.waiting); n > 0 { // the last one that was lost first, until it is lost no more
		s.running, s.waiting = s.waiting[n-1], s.waiting[:n-1]
		close(s.running.turn)
		return s.running
	}
	c.renewed()
	return nil
}

// renewed lets everyone who waits for a connection go on. The caller holds the lock.
func (c *Conn) renewed() {
	c.suspects.waiting, c.suspects.running = nil, nil
	close(c.renewing)
	c.renewing = nil
	c.slow.wider.Broadcast()
}
