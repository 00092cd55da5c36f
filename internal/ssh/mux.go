package ssh

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	xssh "golang.org/x/crypto/ssh"
)

// mux implements RFC 4254: channels, and requests about the connection. Its run method is the
// reading goroutine.
type mux struct {
	t           *transport
	conn        *Conn
	growth      growth     // of windows
	accepts     bool       // the peer may open channels
	dirty       []*Channel // with data for which readers have not been woken
	maxChannels int        // channels at once

	mu       sync.Mutex // taken after the output's lock, never before it
	change   sync.Cond
	channels []*Channel // by our number; nil if free
	count    int
	incoming []*NewChannel
	replies  []globalReply
	proofs   int // of host keys; used by run only
	err      error
	first    *Channel  // of the short login
	reply    chan bool // to its subsystem request
}

type globalReply struct {
	seq    uint32
	answer chan globalAnswer
}

type globalAnswer struct {
	ok      bool
	payload []byte
}

const (
	// maxPacket is the most data that a peer may put in a packet, which RFC 4253, section 6.1,
	// requires everyone to support.
	maxPacket = 32 << 10

	// maxChannels limits a connection's channels by default.
	maxChannels = 64

	// maxIncoming limits the channels that wait for Accept. More are refused.
	maxIncoming = 16

	// maxOpenExtra limits a peer's description of a channel that it wants to open.
	maxOpenExtra = 4 << 10
)

func newMux(t *transport, conn *Conn, budget int64) *mux {
	m := &mux{t: t, conn: conn, maxChannels: maxChannels}
	m.growth.left = max(0, cmp.Or(budget, defaultWindow)-firstWindow)
	m.growth.kept = &t.in.maxKept
	m.change.L = &m.mu
	return m
}

// defaultWindow limits the growth of a connection's windows by default: 1 Gbit/s over 130 ms.
const defaultWindow = 16 << 20

// start starts reading.
func (m *mux) start() {
	t := m.t
	t.login = false
	t.in.inflater = t.inflater(t.negotiated)
	t.in.batch, t.in.limit = true, maxPacketLength
	m.growth.keep()
	t.in.idle = m.wakeReaders
	t.unimplemented, t.late = m.unimplemented, m.handle
	t.out.mu.Lock()
	t.out.flusher, t.out.deflater = true, t.deflater(t.negotiated)
	t.out.fail = func(err error) { t.end(err) }
	t.scheduleRekey()
	if keys := t.hostKeysMessage(); keys != nil {
		t.out.put(keys)
	}
	t.out.mu.Unlock()
	go t.out.flush()
	go m.run()
}

func (m *mux) run() {
	var err error
	for err == nil {
		var p []byte
		if p, err = m.t.read(); err == nil {
			err = m.handle(p)
		}
	}
	if protocol, ok := errors.AsType[*ProtocolError](err); ok {
		m.t.out.close(disconnectMessage(reasonProtocolError, protocol.Text), err)
	}
	m.t.end(err)
	m.t.in.close()
	m.finish(m.t.reason)
}

// finish ends all waits.
func (m *mux) finish(err error) {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // on a channel it would be a clean end
	}
	m.mu.Lock()
	m.err = err
	channels := m.channels
	m.channels = nil
	m.growth.end()
	replies := m.replies
	m.replies = nil
	m.change.Broadcast()
	m.mu.Unlock()
	for _, r := range replies {
		close(r.answer)
	}
	for _, c := range channels {
		if c != nil {
			c.finish(err)
		}
	}
	close(m.conn.done)
}

// wakeReaders wakes the readers for which data has arrived. It runs before the next read.
func (m *mux) wakeReaders() {
	for i, c := range m.dirty {
		c.wakeReaders()
		m.dirty[i] = nil
	}
	m.dirty = m.dirty[:0]
}

func (m *mux) adjust(c *Channel, n int64) {
	if err := c.control(appendAdjust(make([]byte, 0, 9), c.peer, n)); err != nil {
		m.t.end(err)
	}
}

func (m *mux) lookup(id uint32) (*Channel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uint64(id) >= uint64(len(m.channels)) || m.channels[id] == nil {
		return nil, &ProtocolError{"a message for a channel that does not exist"}
	}
	return m.channels[id], nil
}

// add gives a channel its number.
func (m *mux) add(c *Channel) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	i := slices.Index(m.channels, nil)
	if i < 0 {
		i = len(m.channels)
		m.channels = append(m.channels, nil)
	}
	c.id, m.channels[i] = uint32(i), c
	m.count++
	return nil
}

func (m *mux) remove(c *Channel) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uint64(c.id) < uint64(len(m.channels)) && m.channels[c.id] == c {
		m.channels[c.id] = nil
		m.count--
	}
}

// handle handles one message. Data comes first, since it is the most frequent.
func (m *mux) handle(p []byte) error {
	switch p[0] {
	case msgChannelData, msgChannelExtendedData:
		return m.handleData(p)
	case msgGlobalRequest:
		return m.handleGlobal(p)
	case msgRequestSuccess, msgRequestFailure:
		return m.handleGlobalReply(p)
	case msgChannelOpen:
		return m.handleOpen(p)
	}
	if p[0] == msgNewKeys || p[0] >= msgKexFirst && p[0] <= msgKexLast {
		return &ProtocolError{"a message of a key exchange that nobody has begun"}
	}
	if p[0] < msgChannelOpenConfirm || p[0] > msgChannelFailure {
		// RFC 4253, section 11.4
		return m.t.out.control(appendUint32([]byte{msgUnimplemented}, m.t.in.seqOfLast()))
	}
	id, rest, err := channelID(p)
	if err != nil {
		return err
	}
	c, err := m.lookup(id)
	if (err != nil || !c.isOpen()) && (p[0] == msgChannelWindowAdjust || p[0] >= msgChannelRequest) {
		// Some peers send these after CLOSE, such as the exit status. OpenSSH ignores them, too. By
		// now we may have asked for another channel of that number.
		return nil
	}
	if err != nil {
		return err
	}
	if p[0] == msgChannelOpenConfirm || p[0] == msgChannelOpenFailure {
		return m.handleOpened(c, p)
	}
	if !c.isOpen() {
		return &ProtocolError{"a message for a channel that is not open"}
	}
	switch p[0] {
	case msgChannelWindowAdjust:
		if len(rest) != 4 {
			return &ProtocolError{"WINDOW_ADJUST has the wrong length"}
		}
		o := m.t.out
		o.mu.Lock()
		defer o.mu.Unlock()
		c.peerWindow += int64(length(rest))
		if c.peerWindow > 1<<32-1 { // RFC 4254, section 5.2
			return &ProtocolError{"a window of more than 2^32-1 bytes"}
		}
		o.change.Broadcast()
	case msgChannelEOF:
		c.mu.Lock()
		c.gotEOF = true
		c.change.Broadcast()
		c.mu.Unlock()
	case msgChannelClose:
		m.remove(c)
		c.mu.Lock()
		c.gotEOF = true // its window grows no more
		m.growth.give(max(0, c.window.size-firstWindow))
		c.mu.Unlock()
		o := m.t.out
		o.mu.Lock()
		c.ended = ErrChannelClosed
		err := c.sendClose()
		o.mu.Unlock()
		c.finish(ErrChannelClosed)
		return err
	case msgChannelRequest:
		var q channelRequest
		if err := q.parse(p); err != nil {
			return err
		}
		return c.requested(&q)
	case msgChannelSuccess, msgChannelFailure:
		return c.replied(p[0] == msgChannelSuccess)
	}
	return nil
}

func (m *mux) handleData(p []byte) error {
	id, rest, err := channelID(p)
	if err != nil {
		return err
	}
	c, err := m.lookup(id)
	if err != nil {
		return err
	}
	if !c.isOpen() {
		return &ProtocolError{"data for a channel that is not open"}
	}
	q := &c.data
	if p[0] == msgChannelExtendedData {
		if len(rest) < 4 {
			return &ProtocolError{"a channel message is truncated"}
		}
		q = &c.stderr
		if length(rest) != 1 { // RFC 4254, section 5.2, defines only this type
			q = nil
		}
		rest = rest[4:]
	}
	data, err := channelData(rest)
	if err != nil {
		return err
	}
	if len(data) > maxPacket {
		return &ProtocolError{"more data in a packet than the channel allows"}
	}
	return c.receive(q, data, m.t.in.lend())
}

func (m *mux) handleGlobal(p []byte) error {
	var g globalRequest
	if err := g.parse(p); err != nil {
		return err
	}
	// hostkeys-00@openssh.com lists the server's other keys for known_hosts, which is of no use
	// here. keepalive@openssh.com accepts any answer.
	switch {
	case g.wantReply && g.kind == proveRequest && !m.t.client:
		return m.proveHostKeys(&g)
	case g.wantReply:
		return m.t.out.control([]byte{msgRequestFailure})
	}
	return nil
}

func (m *mux) handleGlobalReply(p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.replies) == 0 {
		return &ProtocolError{"a reply without a request"}
	}
	m.replies[0].answer <- globalAnswer{p[0] == msgRequestSuccess, slices.Clone(p[1:])}
	m.replies = slices.Delete(m.replies, 0, 1)
	return nil
}

// unimplemented handles UNIMPLEMENTED, which some peers answer to a request that they do not know.
func (m *mux) unimplemented(seq uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.replies) > 0 && m.replies[0].seq == seq {
		m.replies[0].answer <- globalAnswer{}
		m.replies = slices.Delete(m.replies, 0, 1)
	}
}

// ask sends a global request. Answers come in the order in which requests are staged.
func (m *mux) ask(ctx context.Context, request []byte, answer chan globalAnswer) error {
	o := m.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.awaitTurn(ctx, request, nil); err != nil {
		return err
	}
	m.mu.Lock()
	err := m.err
	if err == nil {
		m.replies = append(m.replies, globalReply{o.seq, answer})
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	o.put(request)
	return o.flushLocked()
}

// request sends a global request.
func (m *mux) request(ctx context.Context, kind string, wantReply bool,
	payload []byte) (bool, []byte, error) {
	g := globalRequest{kind, wantReply, payload}
	if !wantReply {
		err := m.t.out.message(ctx, g.append(nil))
		return err == nil, nil, err
	}
	answer := make(chan globalAnswer, 1)
	if err := m.ask(ctx, g.append(nil), answer); err != nil {
		return false, nil, err
	}
	select {
	case a, ok := <-answer:
		if !ok {
			return false, nil, m.conn.Err()
		}
		return a.ok, a.payload, nil
	case <-ctx.Done():
		return false, nil, context.Cause(ctx)
	}
}

// open requests a channel.
func (m *mux) open(ctx context.Context, kind string, extra []byte) (*Channel, error) {
	c := newChannel(m)
	if err := m.add(c); err != nil {
		return nil, err
	}
	o := channelOpen{kind, c.id, firstWindow, maxPacket, extra}
	if err := m.t.out.message(ctx, o.append(nil)); err != nil {
		m.remove(c)
		return nil, err
	}
	if err := m.awaitOpen(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

func (m *mux) awaitOpen(ctx context.Context, c *Channel) error {
	select {
	case <-c.opened:
		return c.openErr
	case <-c.done:
		select {
		case <-c.opened: // and closed at once
			return c.openErr
		default:
			return c.endReason()
		}
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.abandoned = true
	c.mu.Unlock()
	select {
	case <-c.opened: // it was opened in the meantime
		if c.openErr == nil {
			c.Close()
		}
	default:
	}
	return context.Cause(ctx)
}

func (c *Channel) isOpen() bool {
	select {
	case <-c.opened:
		return c.openErr == nil
	default:
		return false
	}
}

// maxPacketOf returns how much data to put in a packet for a peer that accepts n.
func maxPacketOf(n uint32) (int, error) {
	if n < 64 { // refuse absurdly small packets
		return 0, &ProtocolError{"the channel's maximum packet size is too small"}
	}
	return int(min(n, maxData)), nil
}

func (m *mux) handleOpened(c *Channel, p []byte) error {
	select {
	case <-c.opened:
		return &ProtocolError{"a channel was opened twice"}
	default:
	}
	if p[0] == msgChannelOpenFailure {
		failure, err := parseOpenFailure(p)
		if err != nil {
			return err
		}
		m.remove(c)
		c.openErr = failure
		close(c.opened)
		return nil
	}
	var confirm channelConfirm
	if err := confirm.parse(p); err != nil {
		return err
	}
	most, err := maxPacketOf(confirm.maxPacket)
	if err != nil {
		return err
	}
	if c.flight && confirm.sender != flightChannel {
		return &FlightError{errors.New("the server does not number its channels from 0"), true}
	}
	o := m.t.out
	o.mu.Lock()
	c.peer, c.peerWindow, c.peerMax = confirm.sender, int64(confirm.window), most
	o.mu.Unlock()
	c.mu.Lock()
	abandoned := c.abandoned
	close(c.opened)
	c.mu.Unlock()
	if abandoned {
		c.Close()
	}
	return nil
}

// flightChannel is the number that a server gives its first channel, as OpenSSH does.
const flightChannel = 0

// flight returns the messages that request a subsystem in one flight with the login.
func (m *mux) flight(subsystem string) [][]byte {
	c := newChannel(m)
	c.flight = true
	if m.add(c) != nil {
		return nil
	}
	reply := make(chan bool, 1)
	c.replies = append(c.replies, reply)
	m.mu.Lock()
	m.first, m.reply = c, reply
	m.mu.Unlock()
	open := channelOpen{session, c.id, firstWindow, maxPacket, nil}
	request := channelRequest{flightChannel, "subsystem", true, appendString(nil, subsystem)}
	return [][]byte{open.append(nil), request.append(nil)}
}

// forgetFlight forgets the flight's channel after a login that did not succeed at once: the server
// has dropped the rest of the flight.
func (m *mux) forgetFlight() {
	m.mu.Lock()
	c := m.first
	m.first = nil
	m.mu.Unlock()
	if c != nil {
		m.remove(c)
	}
}

// session is the kind of channel that runs a program: RFC 4254, section 6.1.
const session = "session"

// A NewChannel is a channel that the peer wants to open. It already has its number, and requests
// that came along with CHANNEL_OPEN wait in it, so our server supports short logins, too.
type NewChannel struct {
	Type    string
	Extra   []byte
	channel *Channel
}

func (m *mux) handleOpen(p []byte) error {
	var o channelOpen
	if err := o.parse(p); err != nil {
		return err
	}
	refuse := func(reason xssh.RejectionReason, text string) error {
		return m.t.out.control(appendOpenFailure(nil, o.sender, reason, text))
	}
	if !m.accepts {
		return refuse(xssh.Prohibited, "no channels are opened here")
	}
	if o.kind == session {
		o.extra = nil // a session has none, and it would be kept for as long as the session
	}
	if len(o.kind)+len(o.extra) > maxOpenExtra {
		return refuse(xssh.Prohibited, "too long a request for a channel")
	}
	most, err := maxPacketOf(o.maxPacket)
	if err != nil {
		return err
	}
	m.mu.Lock()
	full := m.count >= m.maxChannels || len(m.incoming) >= maxIncoming
	m.mu.Unlock()
	if full {
		return refuse(xssh.ResourceShortage, "too many channels")
	}
	c := newChannel(m)
	c.window = window{}
	c.peer, c.peerWindow, c.peerMax = o.sender, int64(o.window), most
	close(c.opened)
	if err := m.add(c); err != nil {
		return err
	}
	m.mu.Lock()
	m.incoming = append(m.incoming, &NewChannel{o.kind, o.extra, c})
	m.change.Broadcast()
	m.mu.Unlock()
	return nil
}

// accept waits for a channel that the peer wants to open.
func (m *mux) accept() (*NewChannel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.incoming) == 0 && m.err == nil {
		m.change.Wait()
	}
	if m.err != nil {
		return nil, m.err
	}
	n := m.incoming[0]
	m.incoming = slices.Delete(m.incoming, 0, 1)
	return n, nil
}

// Accept opens the channel. On a session the peer may send data once a program has been granted:
// see [Request.Reply].
func (n *NewChannel) Accept() (*Channel, error) {
	c := n.channel
	window := int64(0)
	if n.Type != session {
		window = c.openWindow()
	}
	o := c.mux.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.ended != nil { // the peer did not wait
		return nil, c.ended
	}
	confirm := channelConfirm{c.peer, c.id, uint32(window), maxPacket}
	return c, o.controlLocked(confirm.append(nil))
}

// Reject refuses the channel.
func (n *NewChannel) Reject(reason xssh.RejectionReason, text string) error {
	c := n.channel
	c.mux.remove(c)
	return c.control(appendOpenFailure(nil, c.peer, reason, text))
}
