package conn

import (
	"context"
	"sync/atomic"
	"time"
)

// KeepaliveFunc asks the transport under a connection whether its peer lives.
type KeepaliveFunc func(context.Context) error

// looks is how many times the clock looks within the stall timeout, and so how late it may be.
const looks = 8

// stall finds a peer that owes something for too long. Data that READs asked for and
// acknowledgements of WRITEs must keep coming; any other request may take its time as long as the
// transport lives.
//
// Nothing is done for each packet but to count: a timer runs while calls are in flight and looks
// whether the counts have moved. All but the counts is guarded by Conn.mu.
type stall struct {
	// counts what shows that data moves: pieces of DATA and of WRITEs, acknowledgements
	moved atomic.Int64
	heard atomic.Int64 // counts reads of the stream that brought anything

	timer   *time.Timer
	armed   bool
	asking  bool      // a keepalive is on its way
	askedAt time.Time // since when
	calls   int
	data    int // of them READs and WRITEs

	movedSeen, heardSeen int64
	movedAt, heardAt     time.Time
}

// started counts a call in. The caller holds Conn.mu.
func (s *stall) started(c *Conn, call *Call) {
	if c.config.StallTimeout < 0 {
		return
	}
	s.calls++
	if call.size > 0 {
		s.data++
	}
	first, firstData := s.calls == 1, s.data == 1 && call.size > 0
	if !first && !firstData {
		return
	}
	now := time.Now()
	if first {
		s.heardAt = now
	}
	if firstData {
		s.movedAt = now
	}
	if s.armed {
		return
	}
	s.armed = true
	if s.timer == nil {
		s.timer = time.AfterFunc(c.config.StallTimeout/looks, c.checkStall)
	} else {
		s.timer.Reset(c.config.StallTimeout / looks)
	}
}

// finished counts a call out. The caller holds Conn.mu.
func (s *stall) finished(call *Call) {
	s.calls--
	if call.size > 0 {
		s.data--
		s.moved.Add(1)
	}
}

func (s *stall) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// checkStall looks at the counts, and comes again while calls are in flight.
func (c *Conn) checkStall() {
	s, timeout := &c.stall, c.config.StallTimeout
	c.mu.Lock()
	s.armed = false
	if c.err != nil || s.calls <= 0 {
		c.mu.Unlock()
		return
	}
	now := time.Now()
	if moved := s.moved.Load(); moved != s.movedSeen || s.data == 0 {
		s.movedSeen, s.movedAt = moved, now
	}
	heard := s.heard.Load()
	if heard != s.heardSeen {
		s.heardSeen, s.heardAt = heard, now
	}
	silent := s.asking && s.calls > s.data && now.Sub(s.askedAt) >= timeout &&
		now.Sub(s.heardAt) >= timeout
	overdue := s.data > 0 && now.Sub(s.movedAt) >= timeout
	ask := s.calls > s.data && now.Sub(s.heardAt) >= timeout && c.config.Keepalive != nil &&
		!s.asking
	if ask {
		s.asking, s.askedAt = true, now
		c.idle.Add(1)
	}
	s.armed = true
	s.timer.Reset(timeout / looks)
	c.mu.Unlock()
	switch {
	case overdue:
		c.end(&StallError{After: timeout, Data: true})
	case silent:
		c.end(&StallError{After: timeout})
	}
	if ask {
		go c.askKeepalive(heard)
	}
}

// askKeepalive ends the connection unless the transport says, within the stall timeout, that the
// peer lives, or the stream does: heard is what had been heard of it before. A Keepalive that does
// not listen to its context is left to checkStall.
func (c *Conn) askKeepalive(heard int64) {
	defer c.idle.Done()
	ctx, cancel := context.WithTimeout(c.life, c.config.StallTimeout)
	defer cancel()
	err := c.config.Keepalive(ctx)
	s := &c.stall
	c.mu.Lock()
	s.asking = false
	lives := err == nil || s.heard.Load() != heard
	if lives {
		s.heardAt = time.Now()
	}
	owes := s.calls > s.data
	c.mu.Unlock()
	if !lives && owes {
		c.end(&StallError{After: c.config.StallTimeout})
	}
}
