package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/wire"
)

// inputSize holds many small replies. Only data that came along with its header passes through it.
const inputSize = 16 << 10

// input reads a stream through a buffer, or around it.
type input struct {
	source     io.Reader
	buf        []byte
	start, end int           // the part of buf that has been read but not used
	empty      int           // consecutive reads that brought nothing
	count      *atomic.Int64 // bytes read
	heard      *atomic.Int64 // counts reads that brought something
	// counts reads that brought part of a packet: one that bypasses the buffer, or arrives in small
	// pieces
	moved *atomic.Int64
}

func (in *input) read(p []byte) (int, error) {
	n, err := in.source.Read(p)
	switch {
	case n < 0 || n > len(p):
		return 0, errors.New("the stream's Read returned an impossible count")
	case n > 0:
		in.count.Add(int64(n))
		in.heard.Add(1)
		in.empty = 0
		return n, nil // an error comes again
	case err == nil:
		if in.empty++; in.empty == 100 {
			err = io.ErrNoProgress
		}
	}
	return 0, err
}

// need makes n bytes, at most inputSize, available in the buffer and returns all available bytes.
func (in *input) need(n int) ([]byte, error) {
	if in.end-in.start < n && in.start > 0 {
		in.end = copy(in.buf, in.buf[in.start:in.end])
		in.start = 0
	}
	for in.end-in.start < n {
		partial := in.end > in.start
		got, err := in.read(in.buf[in.end:])
		in.end += got
		if err != nil {
			if partial {
				err = unexpected(err)
			}
			return in.buf[in.start:in.end], err
		}
		if got > 0 && (partial || got < wire.HeaderSize) {
			in.moved.Add(1)
		}
	}
	return in.buf[in.start:in.end], nil
}

// use takes n bytes that need has made available.
func (in *input) use(n int) []byte {
	p := in.buf[in.start : in.start+n]
	in.start += n
	if in.start == in.end {
		in.start, in.end = 0, 0
	}
	return p
}

// spare is how much is read beyond a body: the next packet's header, so that a packet costs one
// read and not two. It is small because these bytes must be copied.
const spare = 64

// full fills p, from the buffer and then straight from the stream. If p has more capacity than
// length, the bytes after it may pass through the rest on their way into the buffer.
func (in *input) full(p []byte) error {
	n := copy(p, in.buf[in.start:in.end])
	in.use(n)
	room := p[:min(cap(p), len(p)+spare)]
	for n < len(p) {
		got, err := in.read(room[n:])
		n += got
		if err != nil {
			return unexpected(err)
		}
		if got > 0 {
			in.moved.Add(1)
		}
	}
	if n > len(p) {
		in.end = copy(in.buf, room[len(p):n]) // the buffer is empty: all of it has gone into p
	}
	return nil
}

// skip discards n bytes.
func (in *input) skip(n int) error {
	for n > 0 {
		have, err := in.need(1)
		if err != nil {
			return unexpected(err)
		}
		n -= len(in.use(min(n, len(have))))
	}
	return nil
}

const (
	// maxHeld limits the memory of an unusually long NAME or EXTENDED_REPLY together with all other
	// lent blocks. OpenSSH's client accepts 256 KiB, but some servers send NAME packets of 7 MB. A
	// packet for which there is no room is skipped, and fails the operation that it answers.
	maxHeld = 96 << 20

	// maxReply is the longest packet accepted; no server sends a longer one.
	maxReply = 1 << 30
)

// maxSmall limits HANDLE and ATTRS, of which thousands may be in flight, and STATUS, whose message
// is not worth more.
const maxSmall = 64 << 10

// readLoop alone reads the stream. Its stack is small: the memory for each reply is leased.
func (c *Conn) readLoop() {
	err := c.readVersion()
	for err == nil {
		err = c.readReply()
	}
	if !errors.As(err, new(*ProtocolError)) && !errors.As(err, new(*NotSFTPError)) {
		lost := &LostError{Cause: err}
		if err == io.EOF {
			lost.Listing = c.atListing()
		}
		err = lost
	}
	c.end(err)
}

// atListing blames the oldest request without an answer, and returns the directory of a READDIR, or
// "". Some servers do not survive a name that they cannot encode, as Erlang/OTP's one above U+00FF.
// The caller may be listing another directory at that moment, and must know which one to leave out.
func (c *Conn) atListing() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := c.oldest((*Call).owed)
	if oldest == nil {
		return ""
	}
	c.blame(oldest)
	if oldest.kind != wire.TypeReaddir || oldest.Handle == nil {
		return ""
	}
	return oldest.Handle.Dir
}

// oldest returns the oldest request for which is returns true, or nil. The caller holds mu.
func (c *Conn) oldest(is func(*Call) bool) (oldest *Call) {
	age := uint16(0)
	for _, call := range c.slots {
		if call == nil || !is(call) {
			continue
		}
		if since := c.uses - uint16(call.id>>slotBits); oldest == nil || since > age {
			oldest, age = call, since
		}
	}
	return oldest
}

// owed reports whether the peer owes a reply: the request was sent, or is on its way out.
func (call *Call) owed() bool { return !call.replied && (call.sent || call.writing) }

// reply is the content read for a call.
type reply struct {
	kind   wire.Type
	status wire.Status
	block  *buffer.Block
	body   []byte
	short  bool  // body lies in the input buffer, and fits the call
	err    error // in place of everything else
}

// readReply reads one reply and completes its call. The function that reads the body may return a
// block along with an error.
func (c *Conn) readReply() error {
	head, err := c.in.need(wire.HeaderSize)
	if err != nil {
		return err
	}
	length := int64(binary.BigEndian.Uint32(head))
	kind := wire.Type(head[wire.LengthSize])
	id := binary.BigEndian.Uint32(head[wire.LengthSize+1:])
	size := length - (wire.HeaderSize - wire.LengthSize)
	if size < 0 {
		return protocolErrorf("a packet of %d bytes", length)
	}

	c.mu.Lock()
	call := c.find(id)
	expect, limit := wire.Type(0), 0
	if call != nil {
		expect, limit = call.Expect, call.Bytes
		if kind != expect && kind != wire.TypeStatus {
			err = protocolErrorf("%v in reply to %v", kind, call.kind)
		}
	}
	c.mu.Unlock()
	if call == nil {
		return protocolErrorf("%v for a request (id %#x) that is not in flight", kind, id)
	}
	if err != nil {
		return err
	}
	c.in.use(wire.HeaderSize)

	var r reply
	switch {
	case kind == wire.TypeStatus:
		r, err = c.readStatus(size)
	case kind == wire.TypeData:
		r, err = c.readData(size, limit)
	case c.tooLarge(kind, size):
		r.err = c.public(&ProtocolError{What: fmt.Sprintf(
			"%v of %d bytes, for which there is no room", kind, size)})
		c.deliver(call, r)
		return c.in.skip(int(size))
	case (kind == wire.TypeHandle || kind == wire.TypeAttrs) && size <= scratchSize:
		r.short = true
		_, err = c.in.need(int(size))
		if err = unexpected(err); err == nil {
			r.body = c.in.use(int(size))
		}
	default:
		r, err = c.readBody(kind, size)
	}
	if err != nil {
		r.block.Release()
		return err
	}
	r.kind = kind
	c.deliver(call, r)
	return nil
}

// readStatus reads a STATUS of size bytes. The common one, success, costs no allocation.
func (c *Conn) readStatus(size int64) (r reply, err error) {
	if size > maxSmall {
		return r, protocolErrorf("a STATUS of %d bytes", size)
	}
	if size > inputSize {
		block := c.pool.Get(int(size))
		defer block.Release()
		body := block.Bytes()[:size]
		if err = c.in.full(body); err == nil {
			err = parseStatus(&r.status, body)
		}
		return r, err
	}
	if _, err = c.in.need(int(size)); err != nil {
		return r, unexpected(err)
	}
	return r, parseStatus(&r.status, c.in.use(int(size)))
}

func parseStatus(status *wire.Status, body []byte) error {
	if len(body) >= 4 && wire.Code(binary.BigEndian.Uint32(body)) == wire.OK {
		*status = wire.Status{} // nobody asks for the message of a success
		return nil
	}
	if err := status.Parse(body); err != nil {
		return protocolErrorf("STATUS: %v", err)
	}
	return nil
}

// readData reads a DATA of size bytes, which may hold at most limit bytes of data, straight into a
// block.
func (c *Conn) readData(size int64, limit int) (r reply, err error) {
	if size < 4 {
		return r, protocolErrorf("DATA of %d bytes", size)
	}
	head, err := c.in.need(4)
	if err != nil {
		return r, unexpected(err)
	}
	n := int64(binary.BigEndian.Uint32(head))
	c.in.use(4)
	switch {
	case n > size-4:
		return r, protocolErrorf("DATA says %d bytes and holds %d", n, size-4)
	case n > int64(limit):
		return r, protocolErrorf("DATA of %d bytes where %d were asked for", n, limit)
	case size-4-n > maxSmall:
		return r, protocolErrorf("DATA with %d bytes after its data", size-4-n)
	}
	r.block = c.pool.Get(int(n))
	r.body = r.block.Bytes()[:n]
	if err := c.in.full(r.body); err != nil {
		return r, err
	}
	return r, c.in.skip(int(size - 4 - n))
}

// tooLarge reports whether a reply is larger than allowed.
func (c *Conn) tooLarge(kind wire.Type, size int64) bool {
	return kind != wire.TypeHandle && kind != wire.TypeAttrs && size > wire.MaxPacket &&
		size <= maxReply && c.pool.Out()+size > maxHeld
}

// readBody reads any other reply into a block. Memory for a large one grows as it arrives, whatever
// its length field claims.
func (c *Conn) readBody(kind wire.Type, size int64) (r reply, err error) {
	limit := int64(maxReply)
	if kind == wire.TypeHandle || kind == wire.TypeAttrs {
		limit = maxSmall
	}
	if size > limit {
		return r, protocolErrorf("%v of %d bytes", kind, size)
	}
	r.block = c.pool.Get(int(min(size, wire.MaxPacket)))
	r.body = r.block.Bytes()[:min(size, wire.MaxPacket)]
	if err := c.in.full(r.body); err != nil || size <= wire.MaxPacket {
		return r, err
	}
	for have := int64(len(r.body)); have < size; {
		next := min(size, 2*have)
		grown := c.pool.Get(int(next))
		copy(grown.Bytes(), r.body)
		r.block.Release()
		r.block = grown
		r.body = grown.Bytes()[:next]
		if err := c.in.full(r.body[have:]); err != nil {
			return r, err
		}
		have = int64(len(r.body))
	}
	return r, nil
}

// unexpected returns the error for a stream that ends inside a packet.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// deliver hands a reply to its call, or leaves that to the writer if it is still sending the
// request.
func (c *Conn) deliver(call *Call, r reply) {
	c.stats.replies.Add(1)
	c.mu.Lock()
	if c.err != nil { // the connection ended while the reply was read; its calls are complete
		c.mu.Unlock()
		r.block.Release()
		return
	}
	call.replied = true
	var dropped []*Call
	if call.lost {
		c.handles.owed--
	}
	if r.kind == wire.TypeHandle && r.err == nil {
		dropped = c.takeHandle(call, &r)
	}
	if call.lost {
		r.block.Release()
		r = reply{kind: r.kind, err: c.public(ErrSharedHandle)}
	}
	if r.short { // thousands may be here before anybody looks: a block for each would be megabytes
		r.body, r.block = call.hold(r.body, &c.pool)
	}
	call.Type, call.Status, call.Body, call.Reply, call.Err = r.kind, r.status, r.body, r.block,
		r.err
	if call.depth > c.stats.roundTrips.Load() {
		c.stats.roundTrips.Store(call.depth)
	}
	done := call.sent
	if done {
		c.retire(call)
	}
	c.settle()
	c.mu.Unlock()
	complete(dropped)
	if done {
		call.Done.Complete(call)
	}
}
