package ssh

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp/wire"
)

// Channel is a session or another channel: RFC 4254, section 5. Read, Write and the other methods
// may be called concurrently. It has the methods of x/crypto/ssh's Channel.
type Channel struct {
	mux  *mux
	id   uint32
	peer uint32 // valid once opened is closed without an error
	// flight is true if the channel was requested in one flight with the login, and so must get the
	// number to which its first request was sent.
	flight bool

	// Guarded by the output's lock.
	peerWindow int64
	peerMax    int
	sentEOF    bool
	sentClose  bool
	ended      error // why nothing more can be sent

	opened  chan struct{} // closed when the peer has answered CHANNEL_OPEN
	openErr error
	done    chan struct{} // closed when the peer has closed the channel, or the connection ended

	mu        sync.Mutex // taken after the output's lock, never before it
	change    sync.Cond
	data      queue
	stderr    queue
	window    window
	gotEOF    bool
	closed    bool // by us
	dirty     bool // readers must be woken; used by the reading goroutine only
	err       error
	replies   []chan bool
	requests  []*Request
	refuse    bool // the peer's requests are refused
	exit      ExitStatus
	abandoned bool // while being opened
}

// window is how much the peer may still send, and how that limit grows.
type window struct {
	size   int64 // the full window
	left   int64 // the bytes the peer may send
	credit int64 // read and not yet returned to the peer
	since  time.Time
}

const (
	// firstWindow is a channel's initial window, as large as OpenSSH's. A session that the peer has
	// opened gets it with its program, and none before, as from OpenSSH: nobody would read its
	// data.
	firstWindow = 2 << 20

	// maxCredit is the most that is read before window is returned to the peer.
	maxCredit = 1 << 20
)

// ExitStatus is how a remote program ended: RFC 4254, section 6.10.
type ExitStatus struct {
	Known  bool
	Status uint32
	Signal string // "" if no signal ended it
}

func newChannel(m *mux) *Channel {
	c := &Channel{mux: m, opened: make(chan struct{}), done: make(chan struct{})}
	c.change.L = &c.mu
	c.openWindow()
	return c
}

// openWindow gives the peer its first window, and returns how much that adds.
func (c *Channel) openWindow() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.window.size > 0 {
		return 0
	}
	c.window = window{size: firstWindow, left: firstWindow, since: time.Now()}
	return firstWindow
}

// Done returns a channel closed when the peer closes this one or the connection ends.
func (c *Channel) Done() <-chan struct{} { return c.done }

// ExitStatus returns the peer's report about its program's end. It is final once [Channel.Done] is
// closed.
func (c *Channel) ExitStatus() ExitStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// Window returns how many bytes the peer may have in flight to us. It grows with the link.
func (c *Channel) Window() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.window.size
}

// Read reads the peer's data. It returns io.EOF once the peer has ended its data; after the end of
// the connection or [Channel.Close] it returns other errors.
func (c *Channel) Read(p []byte) (int, error) { return c.read(&c.data, p) }

func (c *Channel) read(q *queue, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	for q.size == 0 && !c.gotEOF && c.err == nil && !c.closed {
		c.change.Wait()
	}
	if c.closed {
		c.mu.Unlock()
		return 0, ErrClosed
	}
	n := q.read(p)
	if n == 0 {
		err := c.err
		if c.gotEOF {
			err = io.EOF
		}
		c.mu.Unlock()
		return 0, err
	}
	grant := int64(0)
	if !c.gotEOF && c.err == nil { // otherwise nothing more will come
		grant = c.window.consumed(n, c.mux)
	}
	c.mu.Unlock()
	if grant > 0 {
		c.mux.adjust(c, grant)
	}
	return n, nil
}

// consumed records that n bytes have been read, and returns how much more the peer may send now.
func (w *window) consumed(n int, m *mux) (grant int64) {
	w.credit += int64(n)
	if w.credit < min(w.size/4, maxCredit) {
		return 0
	}
	now := time.Now()
	took := now.Sub(w.since)
	w.since = now
	grant = w.credit
	// A window that is used up in less than two round trips limits the rate, or soon will. But a
	// window larger than the link needs costs OpenSSH's programs dearly, since they move their
	// whole queue with every packet.
	if trip := time.Duration(m.t.roundTrip.Load()); trip > 0 && took < 2*trip*time.Duration(
		w.credit)/time.Duration(w.size) {
		more := m.growth.take(w.size)
		w.size += more
		grant += more
	}
	w.credit = 0
	w.left += grant
	return grant
}

// receive takes data from the reading goroutine. q is nil for a stream that nobody reads.
func (c *Channel) receive(q *queue, data []byte, block *block) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if int64(len(data)) > c.window.left {
		return &ProtocolError{"more data than the window allows"}
	}
	c.window.left -= int64(len(data))
	if q == nil {
		c.window.credit += int64(len(data))
		return nil
	}
	if c.gotEOF {
		return &ProtocolError{"data after EOF"}
	}
	if c.closed || len(data) == 0 {
		return nil
	}
	q.push(data, block)
	if !c.dirty {
		c.dirty = true
		c.mux.dirty = append(c.mux.dirty, c)
	}
	return nil
}

// wakeReaders wakes the goroutines that wait in Read.
func (c *Channel) wakeReaders() {
	c.mu.Lock()
	c.dirty = false
	c.change.Broadcast()
	c.mu.Unlock()
}

// Write sends p. It waits for the peer's window, and returns once everything has been copied into
// packets.
func (c *Channel) Write(p []byte) (int, error) {
	n, err := c.mux.t.out.data(c, false, [][]byte{p})
	return int(n), err
}

// WriteBuffers sends parts as one stream, like one Write of all of them: packets are filled across
// their boundaries. It does not retain them.
func (c *Channel) WriteBuffers(parts [][]byte) (int64, error) {
	return c.mux.t.out.data(c, false, parts)
}

// cannotSend returns why nothing can be sent. The caller holds the output's lock.
func (c *Channel) cannotSend() error {
	switch {
	case c.ended != nil:
		return c.ended
	case c.sentClose:
		return ErrClosed
	case c.sentEOF:
		return io.EOF
	}
	return nil
}

// Stderr returns the other data stream: RFC 4254, section 5.2. Its unread data takes up window of
// the first.
func (c *Channel) Stderr() io.ReadWriter { return stderr{c} }

type stderr struct{ c *Channel }

func (s stderr) Read(p []byte) (int, error) { return s.c.read(&s.c.stderr, p) }

func (s stderr) Write(p []byte) (int, error) {
	n, err := s.c.mux.t.out.data(s.c, true, [][]byte{p})
	return int(n), err
}

// CloseWrite announces that no more data follows. It does not wait for the peer.
func (c *Channel) CloseWrite() error {
	o := c.mux.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := c.cannotSend(); err != nil {
		return err
	}
	c.sentEOF = true
	return o.controlLocked(appendUint32([]byte{msgChannelEOF}, c.peer))
}

// control sends a message about the channel that cannot wait. It sends nothing once CLOSE has been
// sent, or the channel has ended: a peer that has answered CLOSE has forgotten the channel, and may
// end the connection over a message about an unknown channel.
func (c *Channel) control(message []byte) error {
	o := c.mux.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.sentClose || c.ended != nil {
		return nil
	}
	return o.controlLocked(message)
}

// sendClose sends CLOSE, once. The caller holds the output's lock.
func (c *Channel) sendClose() error {
	if c.sentClose {
		return nil
	}
	c.sentClose = true
	return c.mux.t.out.controlLocked(appendUint32([]byte{msgChannelClose}, c.peer))
}

// Close closes the channel without waiting for the peer. Data received but not read is discarded;
// Read and Write return at once.
func (c *Channel) Close() error {
	o := c.mux.t.out
	o.mu.Lock()
	var err error
	if c.ended == nil {
		err = c.sendClose()
	}
	o.change.Broadcast()
	o.mu.Unlock()
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.data.discard()
	c.stderr.discard()
	c.change.Broadcast()
	c.mu.Unlock()
	if again {
		return ErrClosed
	}
	return err
}

// SendRequest sends a request about the channel, and waits for the answer if one is wanted.
func (c *Channel) SendRequest(kind string, wantReply bool, payload []byte) (bool, error) {
	return c.Request(context.Background(), kind, wantReply, payload)
}

// Request does the same as [Channel.SendRequest], with a context that ends the wait, both for the
// turn to send and for the answer. A request that has been sent is not withdrawn.
func (c *Channel) Request(ctx context.Context, kind string, wantReply bool,
	payload []byte) (bool, error) {
	request := channelRequest{c.peer, kind, wantReply, payload}
	reply, err := c.send(ctx, request.append(nil), wantReply)
	if err != nil || !wantReply {
		return err == nil, err
	}
	return c.await(ctx, reply)
}

// send sends a request. Replies come in the order in which requests are staged.
func (c *Channel) send(ctx context.Context, message []byte, wantReply bool) (chan bool, error) {
	o := c.mux.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.awaitTurn(ctx, message, func() error {
		if c.ended == nil && c.sentClose {
			return ErrClosed
		}
		return c.ended
	})
	if err != nil {
		return nil, err
	}
	var reply chan bool
	if wantReply {
		reply = make(chan bool, 1)
		c.mu.Lock()
		c.replies = append(c.replies, reply)
		c.mu.Unlock()
	}
	o.put(message)
	return reply, o.flushLocked()
}

func (c *Channel) await(ctx context.Context, reply chan bool) (bool, error) {
	select {
	case ok := <-reply:
		return ok, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-c.done:
		select {
		case ok := <-reply:
			return ok, nil
		default:
		}
		return false, c.endReason()
	}
}

func (c *Channel) endReason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return ErrChannelClosed
}

// replied takes the answer to the oldest request.
func (c *Channel) replied(ok bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.replies) == 0 {
		return &ProtocolError{"a reply without a request"}
	}
	c.replies[0] <- ok
	c.replies = slices.Delete(c.replies, 0, 1)
	return nil
}

// A Request is a peer's request about a channel: RFC 4254, section 6.
type Request struct {
	Type      string
	Payload   []byte
	WantReply bool
	channel   *Channel
	replied   bool
}

// String reads the payload of "exec" and "subsystem": one string.
func (r *Request) String() (string, error) {
	payload := fields(r.Payload, msgChannelRequest)
	text := payload.String()
	return text, payload.parsed()
}

// Reply answers the request, once, if an answer is wanted. The peer may send data once a program
// has been granted to it.
func (r *Request) Reply(ok bool) error {
	if r.replied {
		return nil
	}
	r.replied = true
	c := r.channel
	// RFC 4254, section 6.5
	if ok && (r.Type == "shell" || r.Type == "exec" || r.Type == "subsystem") {
		if n := c.openWindow(); n > 0 {
			if err := c.control(appendAdjust(nil, c.peer, n)); err != nil {
				return err
			}
		}
	}
	if !r.WantReply {
		return nil
	}
	return c.answer(ok)
}

func (c *Channel) answer(ok bool) error {
	number := byte(msgChannelFailure)
	if ok {
		number = msgChannelSuccess
	}
	return c.control(appendUint32([]byte{number}, c.peer))
}

// maxRequests and maxRequestBytes limit the requests that wait for NextRequest. More are refused.
// A single request may be as long as a packet.
const (
	maxRequests     = 16
	maxRequestBytes = maxPacketLength
)

// requested takes a request from the reading goroutine.
func (c *Channel) requested(q *channelRequest) error {
	if c.taken(q) || !q.wantReply {
		return nil
	}
	return c.answer(false)
}

// taken handles a request, or keeps it for NextRequest. It returns false if the request must be
// refused.
func (c *Channel) taken(q *channelRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch q.kind {
	case "exit-status":
		if len(q.extra) >= 4 {
			c.exit = ExitStatus{Known: true, Status: length(q.extra)}
		}
	case "exit-signal":
		r := wire.NewReader(q.extra)
		c.exit = ExitStatus{Known: true, Signal: string(cut(r.Bytes(), 64))}
	default:
		bytes := len(q.extra)
		for _, r := range c.requests {
			bytes += len(r.Payload)
		}
		if !c.refuse && len(c.requests) < maxRequests && bytes <= maxRequestBytes {
			c.requests = append(c.requests, &Request{Type: q.kind, Payload: q.extra,
				WantReply: q.wantReply, channel: c})
			c.change.Broadcast()
			return true
		}
	}
	return c.closed
}

// NextRequest waits for the peer's next request. An error means that none will come. Exit statuses
// are not returned here: see [Channel.ExitStatus].
func (c *Channel) NextRequest() (*Request, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.requests) == 0 && c.err == nil && !c.closed {
		c.change.Wait()
	}
	switch {
	case len(c.requests) > 0:
		r := c.requests[0]
		c.requests = slices.Delete(c.requests, 0, 1)
		return r, nil
	case c.closed:
		return nil, ErrClosed
	}
	return nil, c.err
}

// RefuseRequests refuses all further requests of the peer, including the waiting ones.
func (c *Channel) RefuseRequests() {
	c.mu.Lock()
	waiting := c.requests
	c.requests, c.refuse = nil, true
	c.mu.Unlock()
	for _, r := range waiting {
		r.Reply(false)
	}
}

// finish ends the channel after the peer has closed it, or the connection has ended.
func (c *Channel) finish(err error) {
	o := c.mux.t.out
	o.mu.Lock()
	if c.ended == nil {
		c.ended = err
	}
	o.change.Broadcast()
	o.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if errors.Is(err, ErrChannelClosed) {
		c.gotEOF = true // some peers close without sending EOF
	}
	c.change.Broadcast()
	close(c.done)
}
