package conn

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/wire"
)

// stallChecks is how many times the counts are checked within the stall timeout. A stall is found
// late by at most the time between two checks.
const stallChecks = 8

// stall finds a peer whose replies are overdue for too long. Data that READs requested and
// acknowledgements of WRITEs must keep coming; any other request may take its time as long as the
// transport lives, and one that only looks something up many times the stall timeout. The transport
// is asked early, so that a silent peer is given up after the stall timeout whatever it owes.
//
// Packets are only counted: a timer runs while calls are in flight and checks whether the counts
// have moved. Conn.mu guards all but the counts.
type stall struct {
	// counts signs that data moves: pieces of DATA and of WRITEs, acknowledgements
	moved atomic.Int64
	heard atomic.Int64 // counts reads of the stream that brought anything

	timer   *time.Timer
	due     time.Time // when the timer runs next
	armed   bool
	asking  bool      // Keepalive is running
	askedAt time.Time // when it was called, since the last sign of life
	data    int       // READs and WRITEs in flight

	movedSeen, heardSeen int64
	movedAt, heardAt     time.Time

	first first
}

// first is the oldest request without an answer, as the checks have seen it.
type first struct {
	id   uint32
	at   time.Time // when it was seen first; zero if there is none
	told bool      // the logger was told
}

// started records that a call is in flight. The caller holds Conn.mu.
func (s *stall) started(c *Conn, call *Call) {
	if call.Bytes > 0 {
		s.data++
	}
	if c.config.StallTimeout < 0 {
		return
	}
	first, firstData := c.active == 1, s.data == 1 && call.Bytes > 0
	if !first && !firstData {
		return
	}
	now := time.Now()
	if first {
		s.heardSeen, s.heardAt = s.heard.Load(), now
		if !s.asking {
			s.askedAt = time.Time{}
		}
	}
	if firstData {
		s.movedAt = now
	}
	if s.armed {
		return
	}
	s.armed = true
	next := c.config.StallTimeout / stallChecks
	s.due = now.Add(next)
	if s.timer == nil {
		s.timer = time.AfterFunc(next, c.checkStall)
	} else {
		s.timer.Reset(next)
	}
}

// stopped makes up for the time in which this process was stopped, as by Ctrl-Z: the peer may have
// sent the data it owes, and nobody has read it. A check that comes much too late shows that. Times
// noted since then are not moved into the future: the peer would get that time once more.
func (s *stall) stopped(now time.Time, timeout time.Duration) {
	late := now.Sub(s.due)
	if late < timeout/stallChecks {
		return
	}
	s.due = now
	for _, at := range []*time.Time{&s.movedAt, &s.heardAt, &s.askedAt, &s.first.at} {
		if at.IsZero() {
			continue
		}
		if *at = at.Add(late); at.After(now) {
			*at = now
		}
	}
}

// finished records that a call has its reply. The caller holds Conn.mu.
func (s *stall) finished(call *Call) {
	if call.Bytes > 0 {
		s.data--
		s.moved.Add(1)
	}
}

// askAfter returns the length of silence after which the transport is asked. It has the rest of the
// stall timeout to answer.
func (c *Conn) askAfter() time.Duration { return c.config.StallTimeout / 4 }

// hears records whether anything has arrived since it was last called. The caller holds Conn.mu.
func (s *stall) hears(now time.Time) {
	heard := s.heard.Load()
	if heard == s.heardSeen {
		return
	}
	s.heardSeen, s.heardAt = heard, now
	if !s.asking {
		s.askedAt = time.Time{}
	}
}

// Heard returns when the peer last gave a sign of life, late by an eighth of the stall timeout at
// most. While nothing is in flight nobody checks, and the time may be too early; the start of the
// next call counts as a sign of life.
func (c *Conn) Heard() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active > 0 {
		c.stall.hears(time.Now())
	}
	return c.stall.heardAt
}

// Overdue returns since when the peer's replies have been overdue, and when the connection ends
// unless they come. Both are zero if nothing is: a peer that answers keepalives may take its time
// for anything but data.
func (c *Conn) Overdue() (since, end time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.active == 0 || c.config.StallTimeout < 0 {
		return since, end
	}
	now := time.Now()
	c.stall.stopped(now, c.config.StallTimeout)
	return c.overdue(now, c.look(now))
}

// overdue implements Overdue; behind is what look has returned. The caller holds Conn.mu.
func (c *Conn) overdue(now time.Time, behind bool) (since, end time.Time) {
	s, timeout := &c.stall, c.config.StallTimeout
	if s.data > 0 && !behind {
		return s.movedAt, s.movedAt.Add(timeout)
	}
	if s.askedAt.IsZero() || !behind && now.Sub(s.askedAt) < timeout/stallChecks {
		return since, end
	}
	end = s.askedAt.Add(timeout - c.askAfter())
	if heard := s.heardAt.Add(timeout); heard.After(end) {
		end = heard
	}
	return s.heardAt, end
}

// look records whether the counts have moved since it was last called, and reports whether data
// waits behind a lookup. No data is overdue while the peer lives and a lookup is the oldest request
// without an answer: a server that does one thing after the other has not come to the data, and the
// lookup has a limit of its own. The caller holds Conn.mu.
func (c *Conn) look(now time.Time) (behind bool) {
	s := &c.stall
	first := c.find(s.first.id)
	behind = s.data > 0 && first != nil && !s.first.at.IsZero() && first.missed() &&
		first.patience(1) > 0 && c.config.Keepalive != nil
	if moved := s.moved.Load(); moved != s.movedSeen || s.data == 0 || behind {
		s.movedSeen, s.movedAt = moved, now
	}
	s.hears(now)
	return behind
}

const (
	// lookupTimeouts is how many stall timeouts a request that only looks something up may take.
	// Even disks that have to start, and a service that waits for its database, answer sooner than
	// ten minutes; a dead network file system below the server, or a thread that waits for itself,
	// never does.
	lookupTimeouts = 10

	// longTimeouts is the same for OPENDIR, READDIR and FSTAT. A server may read all of a directory,
	// with each file's attributes, before its first answer (paramiko's does so in OPENDIR). The
	// largest tree has 20 million entries; object storage that lists a thousand in 150 ms needs less
	// than an hour for them. An FSTAT may have to wait for the file's data, since a server on NFS
	// writes it out first.
	longTimeouts = 60

	// tellAfter is how long a request must be the oldest without an answer for the logger to be
	// told: a person may know what the host waits for.
	tellAfter = time.Minute
)

// patience returns how long a request may be the oldest without an answer, or 0 for any time: on a
// tape, an OPEN or CLOSE does take hours, and nobody can tell how long a change takes.
func (call *Call) patience(timeout time.Duration) time.Duration {
	switch call.kind {
	case wire.TypeOpendir, wire.TypeReaddir, wire.TypeFstat:
		return longTimeouts * timeout
	case wire.TypeLstat, wire.TypeStat, wire.TypeRealpath, wire.TypeReadlink:
		return lookupTimeouts * timeout
	case wire.TypeExtended:
		if call.Request != nil {
			return extendedTimeouts(call.Request) * timeout
		}
	}
	return 0
}

// extendedTimeouts returns how many stall timeouts an extended request may take, or 0.
func extendedTimeouts(request []byte) time.Duration {
	r := wire.NewReader(request[wire.HeaderSize:])
	switch string(r.Bytes()) {
	case wire.ExtStatVFS, wire.ExtFstatVFS, wire.ExtExpandPath, wire.ExtHomeDirectory,
		wire.ExtUsersGroupsByID, wire.ExtLimits, wire.ExtUploads:
		return lookupTimeouts
	case wire.ExtBeneath:
		r.Uint32()
		call := Call{kind: wire.Type(r.Byte())}
		return call.patience(1)
	}
	return 0
}

// subject returns the request's path or the extension's name if that is at hand.
func (call *Call) subject() string {
	var m wire.PathRequest
	switch call.kind {
	case wire.TypeReaddir:
		if call.Handle != nil {
			m.Path = call.Handle.Dir
		}
	case wire.TypeClose, wire.TypeFstat, wire.TypeFsetstat, wire.TypeRead, wire.TypeWrite:
	default:
		if call.Request != nil {
			m.Parse(call.Request[wire.HeaderSize:])
		}
	}
	return m.Path
}

// quoted returns the request's type and subject.
func (call *Call) quoted() string {
	if subject := call.subject(); subject != "" {
		return fmt.Sprintf("%v %q", call.kind, subject)
	}
	return call.kind.String()
}

// about reports whether a request is about the same path or handle as another one.
func (call *Call) about(other *Call) bool {
	subject := call.subject()
	return call == other || call.Handle != nil && call.Handle == other.Handle ||
		subject != "" && subject == other.subject() &&
			call.kind != wire.TypeExtended && other.kind != wire.TypeExtended
}

// missed reports whether the peer owes a reply, and it matters: if the caller of a lookup no longer
// waits, it does not.
func (call *Call) missed() bool {
	return call.owed() && (call.state.Load() != abandoned || call.patience(1) == 0)
}

// unanswered returns the error if the peer should have answered a request that only looks something
// up, or nil. Only the oldest request counts, from when it is that: before, a server that does one
// thing after the other may not have come to it, and one that does several may have locked what it
// needs. The caller holds mu.
func (c *Conn) unanswered(now time.Time) *StallError {
	s := &c.stall
	call := c.find(s.first.id)
	if call == nil || s.first.at.IsZero() || !call.missed() {
		s.first = first{}
		if call = c.oldest((*Call).missed); call != nil {
			s.first = first{id: call.id, at: now}
		}
		return nil
	}
	if now.Sub(s.first.at) >= tellAfter && !s.first.told && call.Bytes == 0 &&
		call.state.Load() != abandoned {
		s.first.told = true
		go c.config.Logger.Warn(fmt.Sprintf("still waiting for the reply to %s (%v)",
			call.quoted(), tellAfter))
	}
	limit := call.patience(c.config.StallTimeout)
	if limit == 0 || now.Sub(s.first.at) < limit {
		return nil
	}
	c.blame(call)
	return &StallError{After: limit, Request: call.quoted()}
}

// unread returns the READ that is the oldest request without an answer, or "". The caller holds mu.
func (c *Conn) unread() string {
	call := c.find(c.stall.first.id)
	var m wire.Read
	if call == nil || call.kind != wire.TypeRead || call.Request == nil ||
		m.Parse(call.Request[wire.HeaderSize:]) != nil {
		return ""
	}
	c.blame(call)
	return fmt.Sprintf("%v at %d", call.kind, m.Offset)
}

// blame notes that the connection ends for want of the reply to call. Programs ask several things
// about a file at once, and each may be the one whose error they use.
func (c *Conn) blame(call *Call) {
	for _, other := range c.slots {
		if other != nil && other.about(call) {
			other.overdue = true
		}
	}
}

// checkStall checks the counts, and runs again while calls are in flight.
func (c *Conn) checkStall() {
	s, timeout := &c.stall, c.config.StallTimeout
	c.mu.Lock()
	s.armed = false
	if c.err != nil || c.active == 0 {
		s.first = first{}
		c.mu.Unlock()
		return
	}
	now := time.Now()
	s.stopped(now, timeout)
	lookup := c.unanswered(now)
	behind := c.look(now)
	quiet, owes := now.Sub(s.heardAt), c.active > s.data
	if !owes { // what is asked next has its whole time, also if data on the line delays a keepalive
		if s.askedAt = now; !s.asking {
			s.askedAt = time.Time{}
		}
	}
	asked := !s.askedAt.IsZero()
	silent := owes && asked && quiet >= timeout && now.Sub(s.askedAt) >= timeout-c.askAfter()
	overdue := s.data > 0 && now.Sub(s.movedAt) >= timeout
	data := &StallError{After: timeout, Data: true}
	if overdue && quiet < 2*c.askAfter() { // the peer lives
		data.Request = c.unread()
	}
	askAfter := c.askAfter()
	if behind { // whoever waits for the data was told of a stall by now: is it one?
		askAfter = timeout / stallChecks / 2
	}
	ask := !asked && quiet >= askAfter && c.config.Keepalive != nil
	if ask {
		s.asking, s.askedAt = true, now
		c.idle.Add(1)
	}
	s.armed = true
	next := timeout / stallChecks
	_, end := c.overdue(now, behind)
	for _, at := range []time.Time{end, s.heardAt.Add(c.askAfter())} {
		if at.After(now) { // it asks in time, and ends when Overdue says so
			next = min(next, at.Sub(now))
		}
	}
	s.due = now.Add(next)
	s.timer.Reset(next)
	c.mu.Unlock()
	switch {
	case overdue:
		c.end(data)
	case silent:
		c.end(&StallError{After: timeout})
	case lookup != nil:
		c.end(lookup)
	}
	if ask {
		go c.askKeepalive()
	}
}

// askKeepalive asks the transport whether the peer lives. If it shows no sign of life, checkStall
// ends the connection when the stall timeout is over.
func (c *Conn) askKeepalive() {
	defer c.idle.Done()
	ctx, cancel := context.WithTimeout(c.life, c.config.StallTimeout-c.askAfter())
	defer cancel()
	err := c.config.Keepalive(ctx)
	s := &c.stall
	c.mu.Lock()
	defer c.mu.Unlock()
	s.asking = false
	now := time.Now()
	s.hears(now)
	if err == nil {
		s.heardAt, s.askedAt = now, time.Time{}
	}
}
