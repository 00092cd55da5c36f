// Package bigconn puts large system calls under a protocol that makes small ones.
//
// x/crypto/ssh asks its connection for 4 KiB and then for the rest of each packet, and writes a
// packet in two or three pieces. A [Conn] reads whatever has arrived, up to [Size], with one call,
// and writes together what was written meanwhile. It holds buffers only while there is something in
// them, so that idle connections pin none.
package bigconn

import (
	"net"
	"sync"
	"syscall"
)

// Size is how much is read or written at once.
const Size = 256 << 10

// Pool lends buffers to connections. The zero Pool is ready for use; connections of one owner
// should share one.
type Pool struct{ pool sync.Pool }

func (p *Pool) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, Size)
	return &b
}

func (p *Pool) put(b *[]byte) { p.pool.Put(b) }

// Conn is a net.Conn with large buffers. Write returns when its bytes are gathered, so that an
// error may come with a later Write; Close gives what was gathered a second to go out. Read must
// not be called concurrently.
type Conn struct {
	net.Conn

	// Saw, where it is not nil, is shown what was read, as soon as it was and before it is used. It
	// is set before the first Read.
	Saw func(p []byte)

	pool *Pool
	// waits for input and reads it into buf, or gives the error; nil where that needs a buffer to
	// wait with
	fill func() error

	buf        *[]byte // unread bytes are start to end of it; nil without any
	start, end int

	out writer
}

// New wraps c. Where the system cannot wait for input without a buffer, or c is not a socket of its
// own, reads pass through as they are.
func New(c net.Conn, pool *Pool) *Conn {
	big := &Conn{Conn: c, pool: pool, out: writer{conn: c, pool: pool}}
	big.out.change.L = &big.out.mu
	if file, ok := c.(syscall.Conn); ok {
		big.fill = big.filler(file)
	}
	return big
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Hold says that more writes are coming at once, until Release: they are written together by the
// last of them. False means that they go out as they come, and that there is nothing to release.
func (c *Conn) Hold() bool { return c.out.hold() }

// Release ends what a Hold began.
func (c *Conn) Release() { c.out.release() }

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.out.close()
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if c.buf == nil {
		if c.fill == nil || len(p) >= Size {
			n, err := c.Conn.Read(p)
			c.show(p[:max(n, 0)])
			return n, err
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
		c.show((*c.buf)[c.start:c.end])
	}
	n := copy(p, (*c.buf)[c.start:c.end])
	if c.start += n; c.start == c.end {
		c.pool.put(c.buf)
		c.buf = nil
	}
	return n, nil
}

func (c *Conn) show(p []byte) {
	if c.Saw != nil && len(p) > 0 {
		c.Saw(p)
	}
}
