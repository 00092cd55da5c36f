package conn

import (
	"errors"
	"io/fs"
	"time"

	"github.com/usftp/usftp/wire"
)

// A client tells its open files apart by their handles alone. Erlang/OTP's ssh_sftpd (new_handle in
// ssh_sftpd.erl) gives a third open file the handle of the second, and requests on that handle go
// to the newest file: contents end up in the wrong file, and every reply reports success. So a
// connection knows which handles are open. If the server gives one of them again, nothing more is
// sent on any of them, every request on them fails with [ErrSharedHandle], and they are closed.
// From then on one handle is open at a time, as with clients that never have more: an OPEN or
// OPENDIR waits until the handle before it is closed.

// ErrSharedHandle means that the server has given one handle to several open files, so data written
// to a file that was open then may be in another one, and data read may be another's. The
// connection goes on with one open file at a time: a caller that starts over gets it right.
var ErrSharedHandle = errors.New("the host gave one handle to several open files, so their " +
	"contents may have been mixed up; start over, since only one is opened at a time from now on")

// ErrOneHandle means that a file or directory cannot be opened while another one is open, since the
// server gives one handle to several open files, and that the other one was not used for the stall
// timeout.
var ErrOneHandle = errors.New("the host gives one handle to several open files, so only one can " +
	"be open at a time")

// A Handle is an open file or directory.
type Handle struct {
	Name []byte // as the server gave it
	Dir  string // the directory that is listed, for LostError; set before the first READDIR

	short  [16]byte // holds Name, if it fits
	closed uint64   // when its CLOSE was sent, by handles.sent; 0 before

	// Guarded by Conn.mu:
	closing bool // its CLOSE is queued or sent
	lost    bool // it was open when the server gave one handle twice
}

func newHandle(name []byte) *Handle {
	h := new(Handle)
	h.Name = append(h.short[:0], name...)
	return h
}

// handles are the open handles. It is guarded by Conn.mu.
type handles struct {
	open map[string]*Handle // until CLOSE is answered
	sent uint64             // counts OPENs, OPENDIRs and CLOSEs that were sent
	used int64              // counts requests on handles

	settling bool      // lost handles are being closed
	owed     int       // requests on lost handles that are not answered
	unclosed []*Handle // lost handles, to be closed when nothing is owed
}

// opens reports whether a call asks for a handle.
func (call *Call) opens() bool { return call.Expect == wire.TypeHandle }

// closes reports whether a call closes its handle.
func (call *Call) closes() bool {
	return call.Handle != nil && (call.kind == wire.TypeClose || call.Closes)
}

// unusable returns the error of a call about a handle that was given up, or nil. After CLOSE the
// server may give the handle to another file: a request that comes later would reach that one. The
// caller holds mu.
func (c *Conn) unusable(call *Call) error {
	switch {
	case call.Handle == nil:
		return nil
	case call.Handle.lost:
		return c.public(ErrSharedHandle)
	case call.Handle.closing:
		return fs.ErrClosed
	}
	return nil
}

// outdated reports whether a handle may no longer be opened, since the call's turn came before the
// limit of one open handle. The caller holds mu.
func (c *Conn) outdated(t *turn) bool {
	return t.done && t.opens && !t.held && c.budget.oneHandle
}

// Handle returns the open handle of this name, or nil if there is none.
func (c *Conn) Handle(name []byte) *Handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.handles.open[string(name)]; h != nil && !h.closing {
		return h
	}
	return nil
}

// IsLost reports whether nothing is sent on a handle any more.
func (c *Conn) IsLost(h *Handle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.lost
}

// OneHandle reports whether one handle is open at a time.
func (c *Conn) OneHandle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.budget.oneHandle
}

// stamp records when a request that opens or closes a handle is sent: a server may give a handle
// again after CLOSE, whichever of the two it answers first. The caller holds mu.
func (h *handles) stamp(call *Call) {
	switch {
	case call.opens():
		h.sent++
		call.order = h.sent
	case call.closes():
		h.sent++
		call.Handle.closed = h.sent
	}
}

// takeHandle takes the handle in the reply to a call. If it is another file's, it returns the
// dropped calls, to be completed without the lock. The caller holds mu.
func (c *Conn) takeHandle(call *Call, r *reply) (dropped []*Call) {
	var message wire.Handle
	if err := message.Parse(r.body); err != nil {
		r.err = c.public(&ProtocolError{What: "HANDLE: " + err.Error()})
		return nil
	}
	h := newHandle(message.Handle)
	other := c.handles.open[string(h.Name)]
	twice := other != nil && (other.closed == 0 || call.order < other.closed)
	if !call.lost && !twice {
		if c.handles.open == nil {
			c.handles.open = make(map[string]*Handle)
		}
		c.handles.open[string(h.Name)] = h
		call.Handle = h
		return nil
	}
	c.handles.unclosed = append(c.handles.unclosed, h)
	if twice {
		call.lost = true
		dropped = c.loseHandles()
	}
	return dropped
}

// loseHandles gives up all handles. Files whose handles are their own are among them: a listing may
// be held open by a caller that waits for another file. Queued calls on them are dropped, and
// returned; sent ones fail when they are answered. The caller holds mu.
func (c *Conn) loseHandles() (dropped []*Call) {
	h := &c.handles
	h.settling = true
	c.budget.oneHandle, c.budget.held = true, 1 // until all are closed
	dropped = append(c.dropFrom(&c.urgent), c.dropFrom(&c.bulk)...)
	for _, open := range h.open {
		open.lost = true
		if open.closed == 0 {
			h.unclosed = append(h.unclosed, open)
		}
	}
	clear(h.open)
	for _, call := range c.slots {
		switch {
		case call == nil || call.Handle == nil && !call.opens() || call.lost:
		case call.replied: // but not completely sent yet
			call.lost = true
			call.Err = c.public(ErrSharedHandle)
			call.Discard()
		default:
			call.lost = true
			h.owed++
		}
	}
	if c.config.OneHandle.CompareAndSwap(false, true) && c.config.SharedHandle != nil {
		go c.config.SharedHandle()
	}
	return dropped
}

// dropFrom removes calls on handles, and calls that ask for one, from a queue. The caller holds mu.
func (c *Conn) dropFrom(list *callList) (dropped []*Call) {
	var rest callList
	for call := list.pop(); call != nil; call = list.pop() {
		if call.Handle == nil && !call.opens() {
			rest.push(call)
			continue
		}
		if list == &c.bulk {
			c.queued -= len(call.Request)
		}
		call.Payload.Release()
		call.Payload, call.Request = nil, nil
		call.lost = true
		call.Err = c.public(ErrSharedHandle)
		c.retire(call)
		dropped = append(dropped, call)
	}
	*list = rest
	return dropped
}

// settle closes the lost handles when every request sent on them has been answered, each as often
// as it was opened, and then lets the next OPEN go. Before that its handle could be mistaken for
// theirs. The caller holds mu.
func (c *Conn) settle() {
	h := &c.handles
	if !h.settling || h.owed > 0 {
		return
	}
	for _, lost := range h.unclosed {
		if !c.budget.overdraw(0) {
			break // no ids: the handle stays open until the connection ends
		}
		call := &Call{Expect: wire.TypeStatus, Done: forget{c}, lost: true}
		call.Request = wire.HandleRequest{Type: wire.TypeClose, Handle: lost.Name}.Append(
			call.Scratch(), 0)
		c.enqueue(call)
		h.owed++
	}
	h.unclosed = nil
	if h.owed == 0 {
		h.settling = false
		c.budget.giveHandle()
	}
}

// forget is the Completer of a call that nobody waits for.
type forget struct{ c *Conn }

func (f forget) Complete(call *Call) { f.c.Recycle(call) }

// handleRetired counts a handle that is closed, or was not opened. The caller holds mu.
func (c *Conn) handleRetired(call *Call) {
	h := call.Handle
	switch {
	case call.lost:
		return
	case call.closes():
		if c.handles.open[string(h.Name)] != h {
			return // the server has given it again
		}
		delete(c.handles.open, string(h.Name))
	case !call.opens() || h != nil:
		return
	}
	if c.budget.oneHandle {
		c.budget.giveHandle()
	}
}

// follow limits the connection to one open handle at a time once another one to the same host has
// found that it must.
func (c *Conn) follow() {
	if !c.config.OneHandle.Load() {
		return
	}
	c.mu.Lock()
	var dropped []*Call
	if !c.budget.oneHandle && c.err == nil {
		dropped = c.loseHandles()
		c.settle()
	}
	c.mu.Unlock()
	complete(dropped)
}

func complete(calls []*Call) {
	for _, call := range calls {
		call.Done.Complete(call)
	}
}

// OpenHandles returns how many handles are open, or are not known to be closed.
func (c *Conn) OpenHandles() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.handles.open)
}

// handleTime returns how long an OPEN waits for a handle that nobody uses: its holder may be the
// one waiting.
func (c *Conn) handleTime() time.Duration {
	if c.config.StallTimeout > 0 {
		return c.config.StallTimeout
	}
	return DefaultStallTimeout
}

// handleInUse reports whether any request was sent on a handle since used was returned, or is in
// flight on one. It also returns true if an OPEN waits for room, and not for a handle.
func (c *Conn) handleInUse(before int64) (used int64, inUse bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used = c.handles.used
	if inUse = used != before || !c.budget.oneHandle || c.budget.held == 0; inUse {
		return used, true
	}
	for _, call := range c.slots {
		if call != nil && (call.Handle != nil || call.opens() || call.lost) {
			return used, true
		}
	}
	return used, false
}
