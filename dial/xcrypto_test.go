package dial

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// openEnded is a connection of x/crypto/ssh that ends just before a channel is asked for: there it
// waits for ever.
type openEnded struct {
	ssh.Conn
	asked   func()
	ended   chan struct{}
	forever chan struct{}
}

func newOpenEnded(t *testing.T) xcryptoTransport {
	c := openEnded{ended: make(chan struct{}), forever: make(chan struct{})}
	c.asked = sync.OnceFunc(func() { close(c.ended) })
	t.Cleanup(func() { close(c.forever) })
	return xcryptoTransport{&ssh.Client{Conn: c}}
}

func (c openEnded) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	c.asked()
	<-c.forever
	return nil, nil, io.EOF
}

func (c openEnded) Wait() error {
	<-c.ended
	return io.EOF
}

// TestEndsBeforeItsChannel: whoever asks a connection that has just ended hears of it, and Close
// waits for nothing.
func TestEndsBeforeItsChannel(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *Conn) error{
		"stream": func(ctx context.Context, c *Conn) error {
			_, err := c.Open(ctx)
			return err
		},
		"next host": func(ctx context.Context, c *Conn) error {
			_, err := c.reach(ctx, "behind", 22, jumpStall)
			return err
		},
		"first session of a master": func(ctx context.Context, c *Conn) error {
			m := &masterTransport{xcryptoTransport: c.transport.(xcryptoTransport)}
			_, _, err := m.first(ctx, c, c.d.config.sftp())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				d := &Dialer{s: new(settings), config: new(Config)}
				c := newConn(d, newOpenEnded(t), &route{conn: newSocket(near, nil)}, nil)
				began := time.Now()
				if err := ask(t.Context(), c); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("got %v", err)
				}
				c.Close()
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
