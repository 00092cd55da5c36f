package ssh

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// Conn is a connection with keys exchanged and the client logged in. Callbacks get it earlier, for
// its knowledge of the peer. It implements x/crypto/ssh's ConnMetadata. Its methods may be called
// from any goroutine.
type Conn struct {
	t    *transport
	mux  *mux
	done chan struct{}
	perm *xssh.Permissions

	mu   sync.Mutex
	user string
}

func newConn(t *transport, budget int64) *Conn {
	c := &Conn{t: t, done: make(chan struct{})}
	c.mux = newMux(t, c, budget)
	return c
}

func (c *Conn) setUser(user string) {
	c.mu.Lock()
	c.user = user
	c.mu.Unlock()
}

// User returns the user who logs in.
func (c *Conn) User() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.user
}

// SessionID returns the first exchange's hash: RFC 4253, section 7.2.
func (c *Conn) SessionID() []byte { return c.t.session }

// HostProof returns the key that a server has shown, and its signature of the session's id.
func (c *Conn) HostProof() (key xssh.PublicKey, signature []byte) { return c.t.hostKey, c.t.hostProof }

func (c *Conn) versions() (client, server []byte) {
	if c.t.client {
		return c.t.ours, c.t.theirs
	}
	return c.t.theirs, c.t.ours
}

// ClientVersion returns the client's version line, without its end.
func (c *Conn) ClientVersion() []byte { client, _ := c.versions(); return client }

// ServerVersion returns the server's version line, without its end.
func (c *Conn) ServerVersion() []byte { _, server := c.versions(); return server }

// LocalAddr returns our address.
func (c *Conn) LocalAddr() net.Addr { return c.t.conn.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.t.conn.RemoteAddr() }

// Algorithms returns the result of the latest key exchange.
func (c *Conn) Algorithms() Negotiated {
	c.t.out.mu.Lock()
	defer c.t.out.mu.Unlock()
	return c.t.negotiated
}

// SigAlgs returns the server's server-sig-algs (RFC 8308), nil if it has sent none. It is for the
// callbacks of the login.
func (c *Conn) SigAlgs() []string { return c.t.serverSigAlgs }

// RoundTrip returns the shortest time in which the peer answered during key exchange and login.
func (c *Conn) RoundTrip() time.Duration { return time.Duration(c.t.roundTrip.Load()) }

// Permissions returns the permissions that the server's callback returned.
func (c *Conn) Permissions() *xssh.Permissions { return c.perm }

// Open opens a channel: "session", or "direct-tcpip" with extra data as in RFC 4254, section 7.2. A
// refusal is an [*OpenChannelError]. It takes a round trip; ctx ends the wait.
func (c *Conn) Open(ctx context.Context, kind string, extra []byte) (*Channel, error) {
	return c.mux.open(ctx, kind, extra)
}

// FlightChannel waits for the channel of the short login, and for the reply to its subsystem
// request. ch is nil, without an error, if there was no short login or its key was refused: then
// use [Conn.Open]. An [*OpenChannelError] is the server's refusal of the channel, after which
// OpenSSH ends the connection. ok is false if the subsystem was refused.
func (c *Conn) FlightChannel(ctx context.Context) (ch *Channel, ok bool, err error) {
	c.mux.mu.Lock()
	ch, reply := c.mux.first, c.mux.reply
	c.mux.first = nil
	c.mux.mu.Unlock()
	if ch == nil {
		return nil, false, nil
	}
	if err := c.mux.awaitOpen(ctx, ch); err != nil {
		return nil, false, err
	}
	if ok, err = ch.await(ctx, reply); err != nil {
		ch.Close()
		return nil, false, err
	}
	return ch, ok, nil
}

// Accept waits for a channel that the peer wants to open. An error means that none will come.
func (c *Conn) Accept() (*NewChannel, error) { return c.mux.accept() }

// SendRequest sends a global request, such as keepalive@openssh.com, and waits for the answer if
// one is wanted: one round trip, which no work on the peer's side delays.
func (c *Conn) SendRequest(ctx context.Context, kind string, wantReply bool,
	payload []byte) (bool, []byte, error) {
	return c.mux.request(ctx, kind, wantReply, payload)
}

// Exchanges returns how many key exchanges there have been.
func (c *Conn) Exchanges() int {
	c.t.out.mu.Lock()
	defer c.t.out.mu.Unlock()
	return c.t.exchanges
}

// Done returns a channel closed when the connection has ended; [Conn.Err] then says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns nil while the connection lives. io.EOF means that the peer hung up between two
// packets, a [*DisconnectError] that it gave a reason.
func (c *Conn) Err() error { return c.t.endReason() }

// Wait waits for the connection to end.
func (c *Conn) Wait() error {
	<-c.done
	return c.t.reason
}

// Close ends the connection once all written data has been sent, for which the peer gets a second.
func (c *Conn) Close() error {
	if c.Err() != nil {
		return nil
	}
	if c.t.client {
		c.Disconnect(ReasonByApplication, "disconnected by user")
		return nil
	}
	c.t.out.close(nil, ErrClosed)
	c.t.end(ErrClosed)
	return nil
}

// Disconnect closes like [Conn.Close], with a reason for the peer: RFC 4253, section 11.1.
func (c *Conn) Disconnect(reason uint32, text string) {
	c.t.out.close(disconnectMessage(reason, text), ErrClosed)
	c.t.end(ErrClosed)
}

// Dial opens a connection from the peer to an address: RFC 4254, section 7.2, as ProxyJump does. It
// supports no deadlines: to end a wait, close it or the Conn.
func (c *Conn) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	extra := appendUint32(appendString([]byte(nil), host), uint32(port))
	extra = appendUint32(appendString(extra, "127.0.0.1"), 0)
	ch, err := c.Open(ctx, "direct-tcpip", extra)
	if err != nil {
		return nil, err
	}
	return &tunnel{ch, address(net.JoinHostPort(host, strconv.Itoa(port)))}, nil
}

// tunnel is a channel as a net.Conn.
type tunnel struct {
	*Channel
	remote address
}

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

func (t *tunnel) LocalAddr() net.Addr              { return t.mux.t.conn.LocalAddr() }
func (t *tunnel) RemoteAddr() net.Addr             { return t.remote }
func (*tunnel) SetDeadline(time.Time) error        { return os.ErrNoDeadline }
func (*tunnel) SetReadDeadline(t time.Time) error  { return os.ErrNoDeadline }
func (*tunnel) SetWriteDeadline(t time.Time) error { return os.ErrNoDeadline }
