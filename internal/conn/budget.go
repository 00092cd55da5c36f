package conn

// maxRequests bounds the requests in flight, whatever they carry. It is half of the ids that there
// are, and what makes Start wait when a program starts operations faster than a server answers
// them. The other half is for what cannot wait: see overdraw.
const maxRequests = maxSlots / 2

// budget counts the bytes and the requests in flight. Those who wait for bytes are served in the
// order in which they came; who wants none waits only for a request. It is guarded by Conn.mu.
type budget struct {
	free     int64 // bytes; below 0 when overdrawn
	requests int
	most     int64   // free, when nothing is in flight
	shared   *Shared // nil where there is none
	waiters  []*turn
}

// turn is one who waits.
type turn struct {
	bytes   int64
	granted chan struct{} // closed when the bytes and the request have been taken for this one
	done    bool
}

// fits tells whether bytes may be taken. The budget may be overdrawn as long as anything is left of
// it, so that a request larger than the whole of it can travel, alone.
func (b *budget) fits(bytes int64) bool { return b.requests > 0 && (bytes == 0 || b.free > 0) }

// take takes bytes and a request if they are free and nobody has waited longer for the same.
func (b *budget) take(bytes int64) bool {
	if !b.fits(bytes) || (bytes > 0 && len(b.waiters) > 0) {
		return false
	}
	b.move(bytes)
	b.requests--
	return true
}

// overdraw takes bytes and a request that are not free: a handle must be closed, and the rest of a
// short answer asked for, however many others wait. Only a lack of ids makes it fail.
func (b *budget) overdraw(bytes int64) bool {
	if b.requests <= maxRequests-maxSlots {
		return false
	}
	b.move(bytes)
	b.requests--
	return true
}

func (b *budget) wait(bytes int64) *turn {
	t := &turn{bytes: bytes, granted: make(chan struct{})}
	b.waiters = append(b.waiters, t)
	return t
}

// leave ends a wait. What was granted in the meantime is given back.
func (b *budget) leave(t *turn) {
	if t.done {
		b.give(t.bytes)
		return
	}
	for i, w := range b.waiters {
		if w == t {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			break
		}
	}
	b.serve()
}

// give gives bytes and a request back.
func (b *budget) give(bytes int64) {
	b.move(-bytes)
	b.requests++
	b.serve()
}

func (b *budget) serve() {
	if len(b.waiters) == 0 {
		return
	}
	rest := b.waiters[:0]
	blocked := false
	for _, t := range b.waiters {
		if !b.fits(t.bytes) || (blocked && t.bytes > 0) {
			blocked = blocked || t.bytes > 0
			rest = append(rest, t)
			continue
		}
		b.move(t.bytes)
		b.requests--
		t.done = true
		close(t.granted)
	}
	clear(b.waiters[len(rest):])
	b.waiters = rest
}

// endAll forgets those who wait; they watch the connection's end themselves.
func (b *budget) endAll() {
	b.waiters = nil
	b.endShared()
}
