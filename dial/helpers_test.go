package dial

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// testContext bounds a test that talks to another process.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// dialed returns a connection, which the end of the test closes.
func dialed(t testing.TB, d *Dialer) *Conn {
	t.Helper()
	conn, err := d.Dial(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// opened returns a stream of a connection.
func opened(t testing.TB, c *Conn) *Stream {
	t.Helper()
	s, err := c.Open(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// greet speaks the first words of SFTP (draft-02, section 4) over s: it shows that the
// stream reaches a real server.
func greet(t testing.TB, s io.ReadWriter) {
	t.Helper()
	if _, err := s.Write([]byte{0, 0, 0, 5, 1, 0, 0, 0, 3}); err != nil {
		t.Fatalf("writing INIT: %v", err)
	}
	var head [9]byte
	if _, err := io.ReadFull(s, head[:]); err != nil {
		t.Fatalf("reading VERSION: %v", err)
	}
	if head[4] != 2 || binary.BigEndian.Uint32(head[5:]) != 3 {
		t.Fatalf("INIT was answered with % x", head)
	}
}

// A heldConn reads nothing while mu is held, like the far end of a link that is down. Once it is
// quiet it loses what is written: an answer to a socket that is closed would make its kernel reset
// the connection.
type heldConn struct {
	net.Conn
	mu    sync.Mutex
	quiet atomic.Bool
}

func (c *heldConn) Write(p []byte) (int, error) {
	if c.quiet.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	return n, err
}
