package ssh_test

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memPipe returns both ends of a buffered connection in memory that works with synctest.
func memPipe() (a, b net.Conn) {
	x, y := newHalf(), newHalf()
	return &memConn{in: x, out: y}, &memConn{in: y, out: x}
}

// half is one direction.
type half struct {
	mu     sync.Mutex
	change sync.Cond
	data   []byte
	closed bool
	limit  int
	read   time.Time // deadlines
	write  time.Time
}

func newHalf() *half {
	h := &half{limit: 4 << 20}
	h.change.L = &h.mu
	return h
}

type memConn struct{ in, out *half }

// stop lets nothing more through.
func (h *half) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = 0
}

func passed(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

func (c *memConn) Read(p []byte) (int, error) {
	h := c.in
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.data) == 0 && !h.closed && !passed(h.read) {
		h.change.Wait()
	}
	switch {
	case passed(h.read):
		return 0, os.ErrDeadlineExceeded
	case len(h.data) == 0:
		return 0, io.EOF
	}
	n := copy(p, h.data)
	if h.data = h.data[n:]; len(h.data) == 0 {
		h.data = nil // tests measure memory
	}
	h.change.Broadcast()
	return n, nil
}

func (c *memConn) Write(p []byte) (n int, err error) {
	h := c.out
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(p) > 0 {
		for len(h.data) >= h.limit && !h.closed && !passed(h.write) {
			h.change.Wait()
		}
		if passed(h.write) {
			return n, os.ErrDeadlineExceeded
		}
		if h.closed {
			return n, io.ErrClosedPipe
		}
		m := min(len(p), h.limit-len(h.data))
		h.data = append(h.data, p[:m]...)
		n, p = n+m, p[m:]
		h.change.Broadcast()
	}
	return n, nil
}

func (c *memConn) Close() error {
	for _, h := range []*half{c.in, c.out} {
		h.mu.Lock()
		h.closed = true
		h.change.Broadcast()
		h.mu.Unlock()
	}
	return nil
}

func (c *memConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (c *memConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 2} }

func (h *half) deadline(which *time.Time, t time.Time) {
	h.mu.Lock()
	*which = t
	h.change.Broadcast()
	h.mu.Unlock()
	if !t.IsZero() {
		time.AfterFunc(time.Until(t)+time.Nanosecond, func() {
			h.mu.Lock()
			h.change.Broadcast()
			h.mu.Unlock()
		})
	}
}

func (c *memConn) SetReadDeadline(t time.Time) error { c.in.deadline(&c.in.read, t); return nil }
func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.deadline(&c.out.write, t)
	return nil
}
func (c *memConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}
