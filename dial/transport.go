package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/crypto/ssh"

	own "github.com/usftp/usftp/internal/ssh"
)

// A transport is a connection that is logged in: over our own stack, over x/crypto/ssh, or through
// OpenSSH's master.
type transport interface {
	ssh.ConnMetadata
	// session opens a channel for a program. A refusal is a *refusedError.
	session(ctx context.Context) (channel, error)
	// dial opens a connection from the server to an address, as ProxyJump does.
	dial(ctx context.Context, host string, port int) (net.Conn, error)
	// keepalive sends a request that every server answers, and waits for the answer.
	keepalive(ctx context.Context) error
	// wait waits for the end and returns its cause.
	wait() error
	// end says goodbye. It takes bounded time, and need not close the connection underneath.
	end()
}

// A channel is a session's. After Close a Read ends.
type channel interface {
	io.ReadWriteCloser
	stderr() io.Reader
	// run asks for a program to be run.
	run(ctx context.Context, p program) (bool, error)
	// ended waits until the server has closed the channel, or the connection has ended. Then
	// exitStatus is final: the server's report on its program; ok is false if there was none.
	ended()
	exitStatus() (status int, ok bool)
}

// A refusedError is the server's refusal to open a channel.
type refusedError struct {
	text   string
	reason ssh.RejectionReason
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%s (%s)", printable([]byte(e.text)), e.reason)
}

// ownTransport is a connection of package internal/ssh.
type ownTransport struct{ *own.Conn }

func (t ownTransport) session(ctx context.Context) (channel, error) {
	ch, err := t.Open(ctx, "session", nil)
	if err != nil {
		return nil, ownRefusal(err)
	}
	return newOwnChannel(ch), nil
}

func ownRefusal(err error) error {
	if refused, ok := errors.AsType[*own.OpenChannelError](err); ok {
		return &refusedError{refused.Text, refused.Reason}
	}
	return err
}

func (t ownTransport) dial(ctx context.Context, host string, port int) (net.Conn, error) {
	conn, err := t.Dial(ctx, host, port)
	if err != nil {
		return nil, ownRefusal(err)
	}
	return conn, nil
}

func (t ownTransport) keepalive(ctx context.Context) error {
	_, _, err := t.SendRequest(ctx, "keepalive@openssh.com", true, nil)
	return err
}

func (t ownTransport) wait() error { return t.Wait() }
func (t ownTransport) end()        { t.Close() }

type ownChannel struct{ *own.Channel }

func newOwnChannel(ch *own.Channel) channel {
	ch.RefuseRequests() // a server has nothing to request of us
	return ownChannel{ch}
}

// Read returns io.EOF after Close.
func (c ownChannel) Read(p []byte) (int, error) {
	n, err := c.Channel.Read(p)
	if err == own.ErrClosed {
		err = io.EOF
	}
	return n, err
}

func (c ownChannel) stderr() io.Reader { return c.Stderr() }

func (c ownChannel) run(ctx context.Context, p program) (bool, error) {
	return c.Request(ctx, p.request, true, p.payload())
}

func (c ownChannel) ended() { <-c.Done() }

func (c ownChannel) exitStatus() (int, bool) {
	e := c.ExitStatus()
	switch {
	case !e.Known:
		return 0, false
	case e.Signal != "":
		return signalStatus, true
	}
	return int(e.Status), e.Status < 1<<31
}

// signalStatus stands for a program that a signal ended, as with ssh.
const signalStatus = 255
