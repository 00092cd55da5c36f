package conn

import "slices"

// maxRequests bounds the requests in flight, of any kind. Start waits at this bound when a program
// starts operations faster than the server answers them. It is half of all ids; the other half is
// for requests that cannot wait: see overdraw.
const maxRequests = maxSlots / 2

// budget counts the bytes and the requests in flight. Callers that wait for bytes are served in
// turn; a caller that needs no bytes waits only for a request. It is guarded by Conn.mu.
type budget struct {
	free     int64 // bytes; below 0 when overdrawn
	requests int
	most     int64   // free, when nothing is in flight
	shared   *Shared // or nil
	waiters  []*turn

	oneHandle bool // one may be open at a time
	held      int  // handles open or being opened, counted since then
}

// turn is one waiting caller.
type turn struct {
	bytes   int64
	opens   bool          // the caller needs a handle, too
	granted chan struct{} // closed when the bytes and the request have been taken for this caller
	done    bool
	held    bool // a handle was taken for this caller
}

// fits reports whether bytes may be taken. The last one to take may overdraw the budget, so that a
// request larger than the whole budget can still be sent, alone.
func (b *budget) fits(bytes int64, opens bool) bool {
	return b.requests > 0 && (bytes == 0 || b.free > 0) && !(opens && b.oneHandle && b.held > 0)
}

// take takes bytes and a request if they are free and nobody has waited longer for the same.
func (b *budget) take(bytes int64, opens bool) bool {
	hungry := func(t *turn) bool { return t.bytes > 0 }
	if !b.fits(bytes, opens) || (bytes > 0 && slices.ContainsFunc(b.waiters, hungry)) {
		return false
	}
	b.grant(bytes, opens)
	return true
}

func (b *budget) grant(bytes int64, opens bool) {
	b.move(bytes)
	b.requests--
	if opens && b.oneHandle {
		b.held++
	}
}

// giveHandle gives back a handle.
func (b *budget) giveHandle() {
	b.held--
	b.serve()
}

// overdraw takes bytes and a request even if none are free: a handle must be closed, and the rest
// of a short reply requested, however many others wait. It fails only if there are no ids.
func (b *budget) overdraw(bytes int64) bool {
	if b.requests <= maxRequests-maxSlots {
		return false
	}
	b.move(bytes)
	b.requests--
	return true
}

func (b *budget) wait(bytes int64, opens bool) *turn {
	t := &turn{bytes: bytes, opens: opens, granted: make(chan struct{})}
	b.waiters = append(b.waiters, t)
	return t
}

// leave ends a wait and gives back anything granted in the meantime.
func (b *budget) leave(t *turn) {
	if t.done {
		if t.held {
			b.held--
		}
		b.give(t.bytes)
		return
	}
	b.waiters = slices.DeleteFunc(b.waiters, func(w *turn) bool { return w == t })
	b.serve()
}

// give gives bytes and a request back.
func (b *budget) give(bytes int64) {
	b.move(-bytes)
	b.requests++
	b.serve()
}

// serve grants to waiting callers whatever fits.
func (b *budget) serve() {
	if len(b.waiters) == 0 {
		return
	}
	blocked := false // somebody waits for bytes, and later ones do not overtake
	b.waiters = slices.DeleteFunc(b.waiters, func(t *turn) bool {
		if !b.fits(t.bytes, t.opens) || (blocked && t.bytes > 0) {
			blocked = blocked || t.bytes > 0
			return false
		}
		b.grant(t.bytes, t.opens)
		t.held = t.opens && b.oneHandle
		t.done = true
		close(t.granted)
		return true
	})
}

// move takes bytes out of the budget, or gives them back if the number is negative.
func (b *budget) move(bytes int64) {
	b.free -= bytes
	if b.shared != nil {
		b.shared.taken.Add(bytes)
	}
}

// end gives the bytes in flight back to the shared budget when the connection ends, and forgets the
// waiting callers, which watch for that end themselves.
func (b *budget) end() {
	b.waiters = nil
	if b.shared != nil {
		b.shared.taken.Add(b.free - b.most)
		b.shared = nil
	}
}
