package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// raw is a client that sends and receives bare packets.
type raw struct {
	t      *testing.T
	conn   net.Conn
	nextID uint32
	offers map[string]string // extensions in VERSION
	done   chan error        // what Serve returned
	cancel context.CancelFunc
}

// packet is a reply.
type packet struct {
	typ  wire.Type
	id   uint32
	body []byte
}

// start serves backend over an unbuffered pipe, and completes the handshake.
func start(t *testing.T, backend server.FS, opts *server.Options) *raw {
	t.Helper()
	c := startSilent(t, backend, opts)
	c.send(wire.Init{Version: wire.Version}.Append(nil))
	p := c.receive()
	var hello wire.InitReply
	if err := hello.Parse(p.body); err != nil || p.typ != wire.TypeVersion ||
		hello.Version != wire.Version {
		t.Fatalf("INIT was answered by %v %+v, %v", p.typ, hello, err)
	}
	c.offers = map[string]string{}
	for _, e := range hello.Extensions {
		c.offers[e.Name] = e.Data
	}
	return c
}

// startSilent is start without the handshake.
func startSilent(t *testing.T, backend server.FS, opts *server.Options) *raw {
	t.Helper()
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	c := &raw{t: t, conn: ours, done: make(chan error, 1), cancel: cancel}
	go func() { c.done <- server.Serve(ctx, theirs, backend, opts) }()
	t.Cleanup(func() {
		ours.Close()
		cancel()
		<-c.done
	})
	return c
}

// over closes the client's side and returns the result of Serve.
func (c *raw) over() error {
	c.conn.Close()
	err := <-c.done
	c.done <- err
	return err
}

func (c *raw) send(packet []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(packet); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
}

// message is a request that can be appended.
type message interface {
	Append(b []byte, id uint32) []byte
}

// ask sends a request without waiting and returns its id.
func (c *raw) ask(m message) uint32 {
	c.t.Helper()
	c.nextID++
	c.send(m.Append(nil, c.nextID))
	return c.nextID
}

var errEnded = errors.New("the server closed the stream")

func (c *raw) tryReceive() (packet, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return packet{}, errEnded
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > wire.MaxPacket {
		return packet{}, errors.New("the server sent a packet that is too long")
	}
	b := make([]byte, length)
	if _, err := io.ReadFull(c.conn, b); err != nil {
		return packet{}, err
	}
	typ, id, body, err := wire.ParseHeader(b)
	return packet{typ, id, body}, err
}

func (c *raw) receive() packet {
	c.t.Helper()
	p, err := c.tryReceive()
	if err != nil {
		c.t.Fatalf("receiving: %v", err)
	}
	return p
}

// do sends a request and waits for its reply, while no other is in progress.
func (c *raw) do(m message) packet {
	c.t.Helper()
	id := c.ask(m)
	p := c.receive()
	if p.id != id {
		c.t.Fatalf("request %d was answered by reply %d", id, p.id)
	}
	return p
}

// status is do for requests answered with a status.
func (c *raw) status(m message) wire.Code {
	c.t.Helper()
	return c.do(m).status(c.t).Code
}

// ok is do for requests that must succeed.
func (c *raw) ok(m message) {
	c.t.Helper()
	if s := c.do(m).status(c.t); s.Code != wire.OK {
		c.t.Fatalf("%+v: %v: %s", m, s.Code, s.Message)
	}
}

// symlink makes a link, unless this system has none.
func (c *raw) symlink(t *testing.T, target, name string) {
	t.Helper()
	switch s := c.do(wire.Symlink{First: target, Second: name}).status(t); {
	case s.Code == wire.OpUnsupported && runtime.GOOS == "windows":
		testenv.Unavailable(t, s.Message)
	case s.Code != wire.OK:
		t.Fatalf("link %s to %s: %v: %s", name, target, s.Code, s.Message)
	}
}

func (p packet) status(t *testing.T) (s wire.Status) {
	t.Helper()
	if p.typ != wire.TypeStatus {
		t.Fatalf("got %v instead of a status", p.typ)
	}
	if err := s.Parse(p.body); err != nil {
		t.Fatal(err)
	}
	return s
}

func (p packet) handle(t *testing.T) []byte {
	t.Helper()
	if p.typ != wire.TypeHandle {
		t.Fatalf("got no handle but %v", p.describe(t))
	}
	var h wire.Handle
	if err := h.Parse(p.body); err != nil {
		t.Fatal(err)
	}
	return append([]byte(nil), h.Handle...)
}

func (p packet) attrs(t *testing.T) wire.Attrs {
	t.Helper()
	if p.typ != wire.TypeAttrs {
		t.Fatalf("got no attributes but %v", p.describe(t))
	}
	var a wire.AttrsReply
	if err := a.Parse(p.body); err != nil {
		t.Fatal(err)
	}
	return a.Attrs
}

func (p packet) data(t *testing.T) []byte {
	t.Helper()
	if p.typ != wire.TypeData {
		t.Fatalf("got no data but %v", p.describe(t))
	}
	var d wire.Data
	if err := d.Parse(p.body); err != nil {
		t.Fatal(err)
	}
	return d.Data
}

func (p packet) names(t *testing.T) []wire.Name {
	t.Helper()
	if p.typ != wire.TypeName {
		t.Fatalf("got no names but %v", p.describe(t))
	}
	var n wire.Names
	if err := n.Parse(p.body); err != nil {
		t.Fatal(err)
	}
	return n.Names
}

func (p packet) describe(t *testing.T) any {
	if p.typ == wire.TypeStatus {
		return p.status(t)
	}
	return p.typ
}

// Shorthands for what nearly every test does.

func (c *raw) open(path string, flags uint32) []byte {
	c.t.Helper()
	return c.do(wire.Open{Path: path, Flags: flags}).handle(c.t)
}

func (c *raw) close(handle []byte) {
	c.t.Helper()
	c.ok(wire.HandleRequest{Type: wire.TypeClose, Handle: handle})
}

const create = wire.OpenWrite | wire.OpenCreate | wire.OpenTruncate

// put creates a file.
func (c *raw) put(path, text string) {
	c.t.Helper()
	h := c.open(path, create)
	c.ok(wire.Write{Handle: h, Data: []byte(text)})
	c.close(h)
}

// get reads a short file.
func (c *raw) get(path string) string {
	c.t.Helper()
	h := c.open(path, wire.OpenRead)
	defer c.close(h)
	p := c.do(wire.Read{Handle: h, Length: 32 << 10})
	if p.typ == wire.TypeStatus && p.status(c.t).Code == wire.EOF {
		return ""
	}
	return string(p.data(c.t))
}

// list lists a directory, without "." and "..".
func (c *raw) list(path string) (names []string) {
	c.t.Helper()
	for _, n := range c.listAll(path) {
		if n.Filename != "." && n.Filename != ".." {
			names = append(names, n.Filename)
		}
	}
	return names
}

func (c *raw) listAll(path string) (names []wire.Name) {
	c.t.Helper()
	h := c.do(wire.PathRequest{Type: wire.TypeOpendir, Path: path}).handle(c.t)
	defer c.close(h)
	for {
		p := c.do(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h})
		if p.typ == wire.TypeStatus {
			if code := p.status(c.t).Code; code != wire.EOF {
				c.t.Fatalf("READDIR: %v", code)
			}
			return names
		}
		names = append(names, p.names(c.t)...)
	}
}

func (c *raw) stat(path string) wire.Attrs {
	c.t.Helper()
	return c.do(wire.PathRequest{Type: wire.TypeStat, Path: path}).attrs(c.t)
}
