package conn

import "github.com/usftp/usftp/internal/buffer"

// A caller that waits for the answer to one request, as a Write or a Stat does, gains nothing from
// a separate writer: the hand-off costs more than the system call. So [Conn.Do] writes the request
// itself, on the caller's goroutine and from the caller's memory, if four things hold:
//
//   - the stream supports writes that do not block (see tryWriter), so that the call can be
//     cancelled at any moment, Close is bounded and no user's Write runs here;
//   - nobody else is writing;
//   - nothing is queued, so the order is kept;
//   - no request is partly written.
//
// Any rest that the stream does not take is copied and left to the writer, which sends it first.
// Requests that others start in the meantime are queued as usual.

// lockFor locks mu and reports whether the call may be written at once. If not, its data has been
// copied, so the caller may reuse its memory when Start returns.
func (c *Conn) lockFor(call *Call, atOnce bool) bool {
	for {
		c.mu.Lock()
		atOnce = atOnce && c.try != nil && !c.busy && !c.waits()
		if atOnce || call.Data == nil {
			return atOnce
		}
		c.mu.Unlock()
		c.gather(call)
	}
}

// gather copies a request and its data into a block.
func (c *Conn) gather(call *Call) {
	call.Payload = c.pool.Get(len(call.Request) + len(call.Data))
	call.Request = append(append(call.Payload.Bytes()[:0], call.Request...), call.Data...)
	call.Data = nil
}

// writeAtOnce writes as much of a registered call as the stream takes. The caller holds mu;
// writeAtOnce unlocks it.
func (c *Conn) writeAtOnce(call *Call) {
	request, data := call.Request, call.Data
	call.Data = nil
	call.writing = true
	c.handles.stamp(call)
	c.busy = true
	c.mu.Unlock()

	n, err := c.try.write(request, data)
	c.stats.bytesWritten.Add(int64(n))
	if err != nil {
		c.mu.Lock()
		if c.err == nil { // its end completes the call, and nobody writes until then
			c.idle.Go(func() { c.writeFailed(err) })
		}
		c.mu.Unlock()
		return
	}
	if n > slowPiece {
		c.stall.moved.Add(1)
	}
	var rest *buffer.Block
	restSize := len(request) + len(data) - n
	if restSize > 0 {
		rest = c.pool.Get(restSize)
		p := append(rest.Bytes()[:0], request[min(n, len(request)):]...)
		_ = append(p, data[max(n-len(request), 0):]...)
	}

	c.mu.Lock()
	c.busy = false
	if c.err != nil || rest == nil {
		rest.Release()
		if c.waits() {
			c.wake.Broadcast()
		}
		c.sent(call)
		return
	}
	call.Payload = rest
	c.left = outgoing{call, rest.Bytes()[:restSize]}
	c.wake.Broadcast()
	c.mu.Unlock()
}
