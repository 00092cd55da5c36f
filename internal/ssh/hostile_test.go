package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// stuck is a connection whose peer reads nothing.
type stuck struct {
	feed
	closed chan struct{}
}

func (s stuck) Write([]byte) (int, error) {
	<-s.closed
	return 0, net.ErrClosed
}

// TestAnswersThatNobodyTakes: a peer that keeps asking, and reads nothing or does not finish a key
// exchange, is disconnected before its answers cost much.
func TestAnswersThatNobodyTakes(t *testing.T) {
	for _, c := range []struct {
		name   string
		kexing bool
		asks   []byte
	}{
		{"global requests", false, (&globalRequest{"keepalive@openssh.com", true, nil}).append(
			nil)},
		{"global requests in an exchange", true, (&globalRequest{"k", true, nil}).append(nil)},
		{"channels", true, (&channelOpen{"x11", 1, 1, 1 << 15, nil}).append(nil)},
		{"unknown messages", false, []byte{200}},
		{"unknown messages in an exchange", true, []byte{200}},
		{"requests about a channel", false, (&channelRequest{0, "exit", true, nil}).append(nil)},
		{"channels that are refused", false, (&channelOpen{"x11", 1, 1, 1 << 15, nil}).append(nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := stuck{feedOf(nil), make(chan struct{})}
			defer close(conn.closed)
			tr := newTransport(conn, nil, Supported(), 0)
			tr.out.propose = func() []byte { return []byte{msgKexInit} }
			co := &Conn{t: tr, done: make(chan struct{})}
			co.mux = newMux(tr, co, 0)
			ch := newChannel(co.mux)
			ch.refuse = true
			close(ch.opened)
			co.mux.add(ch)
			tr.in.queue, tr.in.next = []inPacket{{}}, 1
			tr.out.flusher = true
			go tr.out.flush()
			defer tr.out.abort(ErrClosed)
			if c.kexing {
				tr.rekey()
			}
			var err error
			n := 0
			for ; err == nil && n < 100_000; n++ {
				err = co.mux.handle(c.asks)
			}
			var protocol *ProtocolError
			if !errors.As(err, &protocol) {
				t.Fatalf("after %d requests: %v", n, err)
			}
			if held := len(tr.out.held); held > maxHeld {
				t.Errorf("%d bytes are held", held)
			}
		})
	}
}

// TestPingsThatNobodyReads: as above, for messages that the transport answers.
func TestPingsThatNobodyReads(t *testing.T) {
	for _, size := range []int{0, 1000, maxHeld, 200_000} {
		ping := appendString([]byte{msgPing}, make([]byte, size))
		pings := slices.Repeat([][]byte{ping}, 20+2*blockSize/len(ping))
		conn := stuck{feedOf(framed(pings...)), make(chan struct{})}
		defer close(conn.closed)
		tr := newTransport(conn, nil, Supported(), 1<<50)
		tr.login, tr.in.limit, tr.out.flusher = false, maxPacketLength, true
		go tr.out.flush()
		defer tr.out.abort(ErrClosed)
		var protocol *ProtocolError
		if _, err := tr.read(); !errors.As(err, &protocol) {
			t.Errorf("pings of %d bytes: %v", size, err)
		}
		if held := len(tr.out.held); held > maxHeld {
			t.Errorf("pings of %d bytes: %d bytes are held", size, held)
		}
	}
}

// TestChannelViolations: what breaks RFC 4254 ends the connection, and what it allows does not.
func TestChannelViolations(t *testing.T) {
	const id = 0
	on := func(number byte, more ...byte) []byte {
		return append(appendUint32([]byte{number}, id), more...)
	}
	data := func(n int) []byte { return on(msgChannelData, appendString(nil, make([]byte, n))...) }
	extended := func(kind byte, n int) []byte {
		return on(msgChannelExtendedData, appendString([]byte{0, 0, 0, kind}, make([]byte, n))...)
	}
	full := slices.Repeat([][]byte{data(maxPacket)}, firstWindow/maxPacket)
	adjust := func(n uint32) []byte { return on(msgChannelWindowAdjust, appendUint32(nil, n)...) }
	confirm := (&channelConfirm{id, 5, 1, 1 << 15}).append(nil)
	another := func(p []byte) []byte { p = bytes.Clone(p); p[4] = 9; return p }
	eof, closes := on(msgChannelEOF), on(msgChannelClose)
	for _, c := range []struct {
		name     string
		messages [][]byte
		says     string // "" if it is allowed
	}{
		{"a full window", full, ""},
		{"beyond the window", append(full[:len(full):len(full)], data(1)), "window"},
		{"beyond the window, on standard error", append(full[:len(full):len(full)], extended(1, 1)),
			"window"},
		{"beyond the window, on an unknown stream", append(full[:len(full):len(full)],
			extended(2, 1)), "window"},
		{"nothing, when the window is full", append(full[:len(full):len(full)], data(0)), ""},
		{"too long a packet", [][]byte{data(maxPacket + 1)}, "more data in a packet"},
		{"nothing, again and again", slices.Repeat([][]byte{data(0), extended(1, 0)}, 10_000), ""},
		{"data after EOF", [][]byte{eof, data(1)}, "after EOF"},
		{"standard error after EOF", [][]byte{eof, extended(1, 1)}, "after EOF"},
		{"EOF twice", [][]byte{eof, eof, closes}, ""},
		{"EOF after CLOSE", [][]byte{closes, eof}, "does not exist"},
		{"data after CLOSE", [][]byte{closes, data(1)}, "does not exist"},
		{"CLOSE twice", [][]byte{closes, closes}, "does not exist"},
		{"an adjustment after CLOSE", [][]byte{closes, adjust(1)}, ""},
		{"an exit status after CLOSE", [][]byte{closes, (&channelRequest{id, "exit-status", false,
			[]byte{0, 0, 0, 1}}).append(nil)}, ""},
		{"a request after CLOSE", [][]byte{closes, (&channelRequest{id, "x", true, nil}).append(nil)},
			""},
		{"answers after CLOSE", [][]byte{closes, on(msgChannelSuccess), on(msgChannelFailure)}, ""},
		{"another channel", [][]byte{another(data(1))}, "does not exist"},
		{"another channel's CLOSE", [][]byte{another(closes)}, "does not exist"},
		{"the largest window", [][]byte{adjust(1<<32 - 1)}, ""},
		{"too large a window", [][]byte{adjust(1<<32 - 1), adjust(1)}, "window of more than"},
		{"no more window", slices.Repeat([][]byte{adjust(0)}, 10_000), ""},
		{"half an adjustment", [][]byte{on(msgChannelWindowAdjust, 0, 0)}, "wrong length"},
		{"data of another length", [][]byte{on(msgChannelData, 0, 0, 0, 2, 'x')}, "wrong length"},
		{"no stream", [][]byte{on(msgChannelExtendedData, 0, 0)}, "truncated"},
		{"no channel", [][]byte{{msgChannelData, 0, 0}}, "truncated"},
		{"opened twice", [][]byte{confirm}, "opened twice"},
		{"refused when it is open", [][]byte{appendOpenFailure(nil, id, 1, "no")}, "opened twice"},
		{"an answer to nothing", [][]byte{on(msgChannelSuccess)}, "without a request"},
		{"a refusal of nothing", [][]byte{on(msgChannelFailure)}, "without a request"},
		{"a global answer to nothing", [][]byte{{msgRequestSuccess}}, "without a request"},
		{"half a request", [][]byte{on(msgChannelRequest, 0, 0, 0, 9)}, "truncated"},
		{"an exit status without a status", [][]byte{(&channelRequest{id, "exit-status", false,
			nil}).append(nil)}, ""},
		{"global requests that want no answer", slices.Repeat([][]byte{(&globalRequest{
			"hostkeys-00@openssh.com", false, make([]byte, 1000)}).append(nil)}, 10_000), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := deafMux(nil)
			ch := m.openChannel()
			var err error
			for i, p := range c.messages {
				if err = m.handle(p); err != nil && i < len(c.messages)-1 {
					t.Fatalf("message %d: %v", i+1, err)
				}
			}
			var protocol *ProtocolError
			if c.says == "" && err != nil || c.says != "" && (!errors.As(err, &protocol) ||
				!strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v", err)
			}
			if n := len(ch.data.pieces) + len(ch.stderr.pieces); n > 1+firstWindow/pieceSize {
				t.Errorf("%d pieces are kept", n)
			}
		})
	}
}

// TestLateForTheNext: what comes late for a channel that was closed is not taken for the next one's
// with its number, which the peer has not confirmed.
func TestLateForTheNext(t *testing.T) {
	status := (&channelRequest{0, "exit-status", false, []byte{0, 0, 0, 1}}).append(nil)
	for _, p := range [][]byte{status, {msgChannelWindowAdjust, 0, 0, 0, 0, 0, 0, 0, 1},
		{msgChannelSuccess, 0, 0, 0, 0}} {
		m := deafMux(nil)
		ch := newChannel(m)
		m.add(ch)
		if err := m.handle(p); err != nil || ch.peerWindow != 0 {
			t.Errorf("message %d: %v, and a window of %d", p[0], err, ch.peerWindow)
		}
	}
}

// TestNoWindowWithoutAProgram: what a client sends on a session before its program is granted, for
// which nobody would read it, ends the connection. A refused program grants nothing, and a second
// one no more than the first.
func TestNoWindowWithoutAProgram(t *testing.T) {
	data := append(appendUint32([]byte{msgChannelData}, 0), appendString(nil, []byte("x"))...)
	program := (&channelRequest{0, "exec", false, appendString(nil, "x")}).append(nil)
	for _, c := range []struct {
		name   string
		kind   string
		accept bool
		grant  []bool
		window int64
	}{
		{"before the channel is accepted", session, false, nil, 0},
		{"before a program is asked for", session, true, nil, 0},
		{"after a program was refused", session, true, []bool{false}, 0},
		{"after a program was granted", session, true, []bool{false, true}, firstWindow},
		{"after two were granted", session, true, []bool{true, true}, firstWindow},
		{"on a tunnel that is not accepted", "direct-tcpip", false, nil, 0},
		{"on a tunnel", "direct-tcpip", true, nil, firstWindow},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := deafMux(nil)
			m.accepts = true
			opens := (&channelOpen{c.kind, 7, 1 << 20, maxPacket, make([]byte, 3000)}).append(nil)
			if err := m.handle(opens); err != nil {
				t.Fatal(err)
			}
			offer, err := m.accept()
			if err != nil {
				t.Fatal(err)
			}
			if c.kind == session && offer.Extra != nil {
				t.Errorf("%d bytes about a session are kept", len(offer.Extra))
			}
			ch := offer.channel
			if c.accept {
				if _, err := offer.Accept(); err != nil {
					t.Fatal(err)
				}
			}
			for _, grant := range c.grant {
				if err := m.handle(program); err != nil {
					t.Fatal(err)
				}
				r, err := ch.NextRequest()
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Reply(grant); err != nil {
					t.Fatal(err)
				}
			}
			if ch.window.left != c.window {
				t.Errorf("the client may send %d bytes, not %d", ch.window.left, c.window)
			}
			if err := m.handle(data); (err == nil) != (c.window > 0) {
				t.Errorf("data: %v", err)
			}
		})
	}
}

// TestLongRequestForAChannel: it would be kept until somebody looks at it.
func TestLongRequestForAChannel(t *testing.T) {
	for _, open := range []channelOpen{
		{"direct-tcpip", 7, 1 << 20, maxPacket, make([]byte, maxOpenExtra)},
		{strings.Repeat("x", maxOpenExtra+1), 7, 1 << 20, maxPacket, nil},
	} {
		m := deafMux(nil)
		m.accepts = true
		if err := m.handle(open.append(nil)); err != nil || len(m.incoming) > 0 || m.count > 0 {
			t.Errorf("%d channels wait: %v", len(m.incoming), err)
		}
	}
}

// TestRequestsAreBounded: a peer sends requests about a channel, and nobody takes them.
func TestRequestsAreBounded(t *testing.T) {
	for _, c := range []struct{ size, kept int }{{10, maxRequests}, {100_000, 2},
		{200_000, 1}} {
		m := deafMux(nil)
		ch := m.openChannel()
		request := (&channelRequest{ch.id, "env", false, make([]byte, c.size)}).append(nil)
		for range 100 {
			if err := m.handle(request); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(ch.requests); n != c.kept {
			t.Errorf("of 100 requests of %d bytes %d are kept, not %d", c.size, n, c.kept)
		}
	}
}

// TestQueueIsBounded: a peer sends packets of one byte, or packets that each hold a block, and
// nobody reads. What is kept is about as large as the window.
func TestQueueIsBounded(t *testing.T) {
	for _, size := range []int{1, 100, shortPiece, 5000} {
		var wire bytes.Buffer
		sender := sending(t, capture{kept: &wire}, "aes128-gcm@openssh.com")
		ignore := appendString([]byte{msgIgnore}, make([]byte, 30_000))
		p := make([]byte, size)
		o := sender.mux.t.out
		sent := 0
		for i := 0; wire.Len() < 12<<20 && sent+size <= firstWindow; i++ {
			sender.Write(p)
			sender.drain()
			sent += size
			for range i & 1 * 9 { // ignored messages around every other packet
				o.message(context.Background(), ignore)
			}
			sender.drain()
		}
		m := deafMux(nil)
		m.receives(t, bytes.NewReader(wire.Bytes()), "aes128-gcm@openssh.com")
		ch, in := m.openChannel(), m.t.in
		in.maxKept.Store(keptBlocks + 2*(firstWindow/blockSize))
		for {
			p, err := m.t.read()
			if err != nil {
				break
			}
			if err := m.handle(p); err != nil {
				t.Fatal(err)
			}
		}
		kept := int(in.kept.Load()) * blockSize
		for _, p := range ch.data.pieces {
			if p.block == nil {
				kept += cap(p.data)
			}
		}
		if ch.data.size != sent {
			t.Fatalf("%d bytes arrived of %d", ch.data.size, sent)
		}
		if most := 5*firstWindow + keptBlocks*blockSize; kept > most {
			t.Errorf("pieces of %d bytes, %d in all: %d bytes are kept", size, sent, kept)
		}
	}
}

// TestTinyPackets: a peer fills a read with the shortest packets. What remembers them stays small,
// because a connection keeps it.
func TestTinyPackets(t *testing.T) {
	var wire bytes.Buffer
	sender := sending(t, capture{kept: &wire}, "aes128-gcm@openssh.com")
	const count = 10_000
	for range count {
		if err := sender.mux.t.out.message(t.Context(), []byte{msgIgnore}); err != nil {
			t.Fatal(err)
		}
	}
	sender.drain()
	c, k := benchKeys("aes128-gcm@openssh.com")
	opener, err := c.newCipher(k)
	if err != nil {
		t.Fatal(err)
	}
	tr := newTransport(capture{}, nil, Supported(), 1<<50)
	tr.in.source = bytes.NewReader(wire.Bytes())
	tr.in.setOpener(opener)
	tr.login, tr.in.batch, tr.in.limit = false, true, maxPacketLength
	if _, err := tr.read(); err != io.EOF || tr.in.packets != count {
		t.Fatalf("%d packets came, then %v", tr.in.packets, err)
	}
	if n := cap(tr.in.queue); n > 2*maxBatch {
		t.Errorf("%d packets are remembered at a time", n)
	}
}

// TestLongGreeting: a server sends much text before its version: RFC 4253, section 4.2.
func TestLongGreeting(t *testing.T) {
	for _, c := range []struct {
		name, text string
		fails      bool
	}{
		{"short lines", strings.Repeat("hello\r\n", 100) + "SSH-2.0-x\r\n", false},
		{"a long line", strings.Repeat("x", 8000) + "\nSSH-2.0-x\r\n", false},
		{"too long a line", strings.Repeat("x", 9000) + "\nSSH-2.0-x\r\n", true},
		{"too many", strings.Repeat("x\n", 2000) + "SSH-2.0-x\r\n", true},
		{"old", "SSH-1.5-x\n", true},
		{"both", "SSH-1.99-x\n", false},
		{"without a carriage return", "SSH-2.0-x\n", false},
		{"long version", "SSH-2.0-" + strings.Repeat("x", 300) + "\n", true},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTransport(feedOf([]byte(c.text)), nil, Supported(), 0)
			tr.client = true
			err := tr.readVersion()
			if (err != nil) != c.fails {
				t.Errorf("%v", err)
			}
			if err == nil && !strings.HasPrefix(string(tr.theirs), "SSH-") {
				t.Errorf("the version is %q", tr.theirs)
			}
		})
	}
}
