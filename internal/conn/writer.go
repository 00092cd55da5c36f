package conn

import (
	"io"
	"time"

	"github.com/usftp/usftp/wire"
)

const (
	// batchSize is how many bytes of small requests go out in one Write.
	batchSize = 32 << 10

	// smallRequest is the longest request that is copied into a batch; a longer one is written from
	// its own memory. A Write of its own is an SSH packet of its own, and sshd moves its whole
	// queue for a channel with each packet: the contents of small files go together.
	smallRequest = 16 << 10

	// burst is how many bytes of WRITEs go out before the queue of short requests is checked again.
	burst = 256 << 10

	// slowPiece is the size of the pieces of a Write when the stream takes seconds for a burst, so
	// that each piece that got through shows that the peer is alive. Buffers may hide for a while
	// how slow it is: see mostAtOnce.
	slowPiece = 4 << 10
)

// mostAtOnce returns the size of one Write while the stream has not been slow. The first Write that
// blocks has the stall timeout to finish, at 4 KiB a second: with the default timeout that is a
// whole request, with a shorter one a part.
func (c *Conn) mostAtOnce() int {
	timeout := c.config.StallTimeout
	if timeout < 0 || timeout >= DefaultStallTimeout {
		return wire.MaxPacket
	}
	return max(slowPiece, int(burst*timeout/DefaultStallTimeout))
}

// writeLoop writes the stream, except for writes by writeAtOnce. Requests queued during one write
// go out with the next, short ones first.
func (c *Conn) writeLoop() {
	if err := c.write(wire.Init{Version: wire.Version}.Append(nil)); err != nil {
		c.writeFailed(err)
		return
	}
	var batch []byte
	var large []outgoing
	for {
		batch, large = c.nextBatch(batch[:0], large[:0])
		if len(batch) == 0 && len(large) == 0 {
			return
		}
		err := c.write(batch)
		for _, o := range large {
			if err == nil {
				err = c.write(o.request)
			}
			c.mu.Lock()
			if !c.sent(o.call) {
				return
			}
		}
		clear(large)
		if err != nil {
			c.writeFailed(err)
			return
		}
		if cap(batch) > 2*batchSize {
			batch = nil
		}
	}
}

// nextBatch waits until something is queued and takes it: short requests, copied together, and then
// large ones. Both are empty if the connection has ended.
func (c *Conn) nextBatch(batch []byte, large []outgoing) ([]byte, []outgoing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	c.wake.Broadcast() // for flush
	for c.err == nil && (c.busy || !c.waits()) {
		c.wake.Wait()
	}
	if c.err != nil {
		return nil, nil
	}
	c.busy = true
	if c.left.call != nil {
		large = append(large, c.left)
		c.left = outgoing{}
		return batch, large
	}
	for c.urgent.head != nil && len(batch) < batchSize {
		call := c.urgent.pop()
		if len(call.Request) > smallRequest && len(batch) > 0 {
			large = append(large, c.takeLarge(call))
			return batch, large
		}
		batch = c.copyTo(batch, call)
	}
	for total := 0; c.bulk.head != nil && total < burst; {
		call := c.bulk.head
		if call.Payload == nil && (len(large) > 0 || len(batch) >= batchSize) {
			// it lies in the call itself, which must be copied while it is ours: in the next batch
			break
		}
		c.bulk.pop()
		c.queued -= len(call.Request)
		total += len(call.Request)
		if len(large) == 0 && len(call.Request) <= smallRequest && len(batch) < batchSize {
			batch = c.copyTo(batch, call)
			call.freePayload()
			if call.Sent != nil {
				call.Sent.Wake()
			}
			continue
		}
		large = append(large, c.takeLarge(call))
	}
	return batch, large
}

// flush waits until the queued short requests have been written, at most for flushGrace: nothing
// else waits for the CLOSE of a file that was read, and servers take a file that is still open at
// the end for a transfer that failed (SFTPGo), or even refuse it from then on (pkg/sftp's files in
// memory).
func (c *Conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := false
	timer := time.AfterFunc(flushGrace, func() {
		c.mu.Lock()
		late = true
		c.mu.Unlock()
		c.wake.Broadcast()
	})
	defer timer.Stop()
	for c.err == nil && !late && (c.busy || c.urgent.head != nil) {
		c.wake.Wait()
	}
}

// waits reports whether a request waits to be written. The caller holds mu.
func (c *Conn) waits() bool {
	return c.urgent.head != nil || c.bulk.head != nil || c.left.call != nil
}

// copyTo appends a request to a batch, so that its memory is free. The caller holds mu.
func (c *Conn) copyTo(batch []byte, call *Call) []byte {
	call.sent = true
	c.handles.stamp(call)
	c.stats.requests.Add(1)
	return append(batch, call.Request...)
}

// outgoing is a request that is written from its own memory. The connection may end during the
// write, and the call go back to its owner, so the writer keeps the request here.
type outgoing struct {
	call    *Call
	request []byte
}

// takeLarge marks a call whose request the writer is about to read without the lock.
func (c *Conn) takeLarge(call *Call) outgoing {
	call.writing = true
	c.handles.stamp(call)
	return outgoing{call, call.Request}
}

// sent ends the writer's part in a call, whose memory its owner may be waiting for. It returns
// false if the connection has ended. The caller holds mu; sent unlocks it.
func (c *Conn) sent(call *Call) bool {
	c.stats.requests.Add(1)
	if c.err != nil { // the call is complete, its payload forgotten
		c.mu.Unlock()
		return false
	}
	call.writing, call.sent = false, true
	call.freePayload()
	done, wake := call.replied, call.Sent
	if done {
		c.retire(call)
	}
	c.mu.Unlock()
	if wake != nil {
		wake.Wake()
	}
	if done {
		call.Done.Complete(call)
	}
	return true
}

// freePayload gives back the memory of a request that was sent, if it is not the call's own.
func (call *Call) freePayload() {
	if call.Payload != nil {
		call.Payload.Release()
		call.Payload, call.Request = nil, nil
	}
}

// write writes all of p, in pieces if the last Write was slow.
func (c *Conn) write(p []byte) error {
	for len(p) > 0 {
		most := c.mostAtOnce()
		if c.slow {
			most = slowPiece
		}
		piece := p[:min(len(p), most)]
		began := time.Now()
		n, err := c.out.Write(piece)
		if err == nil && n != len(piece) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return err
		}
		c.stats.bytesWritten.Add(int64(n))
		if len(p) > slowPiece {
			c.stall.moved.Add(1)
		}
		if took := time.Since(began); c.config.StallTimeout > 0 && len(piece) > 0 {
			c.slow = took > c.config.StallTimeout/16*time.Duration(len(piece))/time.Duration(burst)
		}
		p = p[n:]
	}
	return nil
}

// writeFailed ends a connection after a failed write. The write's error says only that the peer is
// gone ("broken pipe"). Only the reader can find out the peer's last answers, or its text instead
// of VERSION, and how it ended. So the reader gets a moment to end the connection itself.
func (c *Conn) writeFailed(err error) {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-c.life.Done():
	case <-timer.C:
		c.end(&LostError{Cause: err})
	}
}
