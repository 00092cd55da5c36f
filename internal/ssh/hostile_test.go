package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
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
		{"unknown messages", true, []byte{200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := stuck{feedOf(nil), make(chan struct{})}
			defer close(conn.closed)
			tr := newTransport(conn, nil, Supported(), 0)
			tr.out.propose = func() []byte { return []byte{msgKexInit} }
			co := &Conn{t: tr, done: make(chan struct{})}
			co.mux = newMux(tr, co, 0)
			tr.in.queue, tr.in.next = []inPacket{{}}, 1
			tr.out.loop = true
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
			if held := len(tr.out.held); held > heldMost {
				t.Errorf("%d bytes are held", held)
			}
		})
	}
}

// TestRequestsAreBounded: a peer sends requests about a channel, and nobody takes them.
func TestRequestsAreBounded(t *testing.T) {
	for _, c := range []struct{ size, kept int }{{10, waitingRequests}, {100_000, 2},
		{200_000, 1}} {
		tr := newTransport(capture{}, nil, Supported(), 1<<50)
		m := newMux(tr, &Conn{t: tr, done: make(chan struct{})}, 0)
		ch := newChannel(m)
		close(ch.opened)
		m.add(ch)
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
		c, k := benchKeys("aes128-gcm@openssh.com")
		opener, err := c.newOpener(k)
		if err != nil {
			t.Fatal(err)
		}
		tr := newTransport(capture{}, nil, Supported(), 1<<50)
		tr.in.source = bytes.NewReader(wire.Bytes())
		tr.in.setOpener(opener)
		m := newMux(tr, &Conn{t: tr, done: make(chan struct{})}, 0)
		ch := newChannel(m)
		close(ch.opened)
		m.add(ch)
		tr.login, tr.in.batch, tr.in.limit = false, true, maxPacketLength
		tr.in.maxKept.Store(keptBlocks + 2*(firstWindow/blockSize))
		for {
			p, err := tr.read()
			if err != nil {
				break
			}
			if err := m.handle(p); err != nil {
				t.Fatal(err)
			}
		}
		kept := int(tr.in.kept.Load()) * blockSize
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
	opener, err := c.newOpener(k)
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
	if n := cap(tr.in.queue); n > 2*batchMost {
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
