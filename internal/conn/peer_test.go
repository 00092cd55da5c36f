package conn_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// peer is the server's end of a link, spoken by hand.
type peer struct {
	t *testing.T
	*sftptest.End
}

// request is a packet that the peer has received.
type request struct {
	kind wire.Type
	id   uint32
	body []byte
}

// dial makes a link with a peer at its other end that has not spoken yet.
func dial(t *testing.T, link sftptest.LinkConfig, config conn.Config) (*conn.Conn, *peer) {
	t.Helper()
	client, server := sftptest.NewLink(link)
	return conn.New(client, client, config), &peer{t, server}
}

// connect does the same and shakes hands.
func connect(t *testing.T, link sftptest.LinkConfig, config conn.Config) (*conn.Conn, *peer) {
	t.Helper()
	c, p := dial(t, link, config)
	p.handshake()
	if err := c.Handshake(context.Background()); err != nil {
		t.Fatalf("Handshake: %v", err)
	}
	return c, p
}

// handshake takes INIT and answers it.
func (p *peer) handshake() {
	p.t.Helper()
	if r := p.next(); r.kind != wire.TypeInit {
		p.t.Fatalf("the first packet is %v, not INIT", r.kind)
	}
	p.send(wire.InitReply{Version: 3}.Append(nil))
}

func (p *peer) send(packet []byte) {
	p.t.Helper()
	if _, err := p.Write(packet); err != nil {
		p.t.Fatalf("the peer's Write: %v", err)
	}
}

// next reads one packet.
func (p *peer) next() request {
	p.t.Helper()
	r, err := p.tryNext()
	if err != nil {
		p.t.Fatalf("the peer's Read: %v", err)
	}
	return r
}

func (p *peer) tryNext() (request, error) {
	var length [wire.LengthSize]byte
	if _, err := io.ReadFull(p, length[:]); err != nil {
		return request{}, err
	}
	packet := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(p, packet); err != nil {
		return request{}, err
	}
	kind, id, body, err := wire.ParseHeader(packet)
	return request{kind, id, body}, err
}

func (p *peer) ok(id uint32) { p.status(id, wire.OK) }

func (p *peer) status(id uint32, code wire.Code) {
	p.t.Helper()
	p.send(wire.Status{Code: code, Message: code.String()}.Append(nil, id))
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, most time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > most {
		t.Errorf("%s took %v, want %v at most", what, took, most)
	}
}

// finish closes a connection and checks that nothing of it is left.
func finish(t *testing.T, c *conn.Conn) {
	t.Helper()
	within(t, 0, "Close", func() { must(t, c.Close()) })
	if out := c.Pool().Out(); out != 0 {
		t.Errorf("%d bytes of the pool are still lent", out)
	}
}

// ended waits until the connection has ended and checks why: what every reason has in common, and
// the type asked for.
func ended[T error](t *testing.T, c *conn.Conn) (err T) {
	t.Helper()
	select {
	case <-c.Dead():
	case <-time.After(24 * time.Hour):
		t.Fatal("the connection lives")
	}
	if !errors.Is(c.Err(), net.ErrClosed) {
		t.Errorf("%v is not net.ErrClosed", c.Err())
	}
	if !errors.As(c.Err(), &err) {
		t.Fatalf("the connection ended with %T (%v), want %T", c.Err(), c.Err(), err)
	}
	return err
}

// stat makes a call of STAT; read, of READ for n bytes; write, of WRITE with n bytes in a block.
func stat(c *conn.Conn) *conn.Call {
	call := c.NewCall()
	call.Request = wire.PathRequest{Type: wire.TypeStat, Path: "/file"}.Append(call.Scratch(), 0)
	call.Expect = wire.TypeAttrs
	return call
}

func read(c *conn.Conn, off uint64, n int) *conn.Call {
	call := c.NewCall()
	call.Request = wire.Read{Handle: []byte("h"), Offset: off,
		Length: uint32(n)}.Append(call.Scratch(), 0)
	call.Expect = wire.TypeData
	call.Bytes = n
	return call
}

func write(c *conn.Conn, off uint64, n int) *conn.Call {
	call := c.NewCall()
	header := wire.WriteHeaderSize(1)
	call.Payload = c.Pool().Get(header + n)
	data := call.Payload.Bytes()[header : header+n]
	for i := range data {
		data[i] = byte(i)
	}
	packet := wire.Write{Handle: []byte("h"), Offset: off,
		Data: data}.AppendHeader(call.Payload.Bytes()[:0], 0)
	call.Request = packet[:header+n]
	call.Expect = wire.TypeStatus
	call.Bytes = n
	return call
}

// start starts a call on a queue and expects it to go at once.
func start(t *testing.T, c *conn.Conn, q *conn.Queue, call *conn.Call) {
	t.Helper()
	call.Done = q
	within(t, 0, "Start", func() { must(t, c.Start(context.Background(), call)) })
}

// take takes the next call from a queue.
func take(t *testing.T, q *conn.Queue) *conn.Call {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
		call, err := q.Next(ctx)
		cancel()
		must(t, err)
		if call != nil {
			return call
		}
	}
}

func content(n int, seed byte) []byte { return bytes.Repeat([]byte{seed}, n) }
