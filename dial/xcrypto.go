package dial

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"
)

// xcryptoTransport is a connection of x/crypto/ssh: the other stack, and OpenSSH's masters.
type xcryptoTransport struct{ *ssh.Client }

// session ends with ctx. x/crypto/ssh waits for ever if the connection ends just before it asks for
// the channel.
func (t xcryptoTransport) session(ctx context.Context) (channel, error) {
	inBackground := func(f func()) bool { go f(); return true }
	return await(ctx, inBackground, func() (channel, error) {
		ch, requests, err := t.OpenChannel("session", nil)
		if err != nil {
			return nil, xcryptoRefusal(err)
		}
		c := &xcryptoChannel{Channel: ch, requests: make(chan struct{})}
		go c.serve(requests)
		return c, nil
	})
}

func xcryptoRefusal(err error) error {
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return &refusedError{refused.Message, refused.Reason}
	}
	return err
}

func (t xcryptoTransport) dial(ctx context.Context, host string, port int) (net.Conn, error) {
	conn, err := t.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, xcryptoRefusal(err)
	}
	return conn, nil
}

func (t xcryptoTransport) keepalive(context.Context) error {
	_, _, err := t.SendRequest("keepalive@openssh.com", true, nil)
	return err
}

func (t xcryptoTransport) wait() error { return t.Wait() }

// end does nothing: x/crypto/ssh has no message for it, and the caller closes the socket.
func (t xcryptoTransport) end() {}

type xcryptoChannel struct {
	ssh.Channel
	requests chan struct{} // closed when the server can report no more about the program

	mu     sync.Mutex
	status int
	known  bool
}

// serve takes the exit status or signal of the program: RFC 4254, section 6.10.
func (c *xcryptoChannel) serve(requests <-chan *ssh.Request) {
	defer close(c.requests)
	for r := range requests {
		var m struct{ Status uint32 }
		switch {
		case r.Type == "exit-status" && ssh.Unmarshal(r.Payload, &m) == nil && m.Status < 1<<31:
			c.set(int(m.Status))
		case r.Type == "exit-signal":
			c.set(signalStatus)
		}
		if r.WantReply {
			r.Reply(false, nil)
		}
	}
}

func (c *xcryptoChannel) set(status int) {
	c.mu.Lock()
	c.status, c.known = status, true
	c.mu.Unlock()
}

func (c *xcryptoChannel) exitStatus() (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status, c.known
}

func (c *xcryptoChannel) stderr() io.Reader { return c.Stderr() }

// run closes the channel if ctx ends first, which a server confirms even if it answers nothing.
func (c *xcryptoChannel) run(ctx context.Context, p program) (bool, error) {
	defer context.AfterFunc(ctx, func() { c.Close() })()
	return c.SendRequest(p.request, true, p.payload())
}

func (c *xcryptoChannel) ended() { <-c.requests }

// Close ends the channel. It does not wait long for a peer that reads nothing.
func (c *xcryptoChannel) Close() error {
	within(closeLimit, func() { c.Channel.Close() })
	return nil
}
