package usftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/bigpipe"
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Client is one SFTP session. Its methods may be called from any number of goroutines; their
// requests share the connection and do not wait for each other.
type Client struct {
	*session
	ctx context.Context
}

// session is what all views of a client share.
type session struct {
	conn    *conn.Conn
	options options
	offers  map[string]string
	limited chan struct{} // closed when the limits are known, or will never be
	mu      sync.Mutex
	limits  wire.LimitsReply
	quirks
	dispatcher dispatcher
	ahead      prefetches
	uploads    uploads
}

// sshWindow is the window of an SSH channel: what x/crypto/ssh grants and what OpenSSH grants.
const sshWindow = 2 << 20

// NewClient opens the SFTP subsystem on an SSH connection and starts a client on it. That takes
// three round trips: the channel, the subsystem, INIT. Closing the client leaves the connection
// open.
func NewClient(sshClient *ssh.Client, opts ...ClientOption) (*Client, error) {
	channel, err := sshClient.NewSession()
	if err != nil {
		return nil, fmt.Errorf("cannot open a channel for SFTP: %w", err)
	}
	w, err := channel.StdinPipe()
	if err != nil {
		channel.Close()
		return nil, err
	}
	r, err := channel.StdoutPipe()
	if err != nil {
		channel.Close()
		return nil, err
	}
	if err := channel.RequestSubsystem("sftp"); err != nil {
		channel.Close()
		return nil, fmt.Errorf("the server does not offer SFTP: %w", err)
	}
	defaults := []ClientOption{
		WithServerVersion(string(sshClient.ServerVersion())),
		WithChannelWindow(sshWindow),
		WithKeepalive(func(ctx context.Context) error { return keepalive(ctx, sshClient) }),
	}
	return NewClientPipe(r, channelWriter{w, channel}, append(defaults, opts...)...)
}

// channelWriter closes the whole channel, which ends the reading side too.
type channelWriter struct {
	io.Writer
	channel *ssh.Session
}

func (w channelWriter) Close() error { return w.channel.Close() }

// keepalive asks as OpenSSH's client does for ServerAliveInterval; a peer that does not know the
// request says so, and lives.
func keepalive(ctx context.Context, sshClient *ssh.Client) error {
	answered := make(chan error, 1)
	// ends with the connection at the latest, which the client gives up when nothing comes
	go func() {
		_, _, err := sshClient.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handshakeTimeout bounds the wait for the server's VERSION where the stall timeout does not.
const handshakeTimeout = 60 * time.Second

// NewClientPipe starts a client on any stream that leads to an SFTP server: r is what the server
// says, w is what it is told. The client owns both from then on, and closes w, and r where it is an
// io.Closer. It takes one round trip.
//
// Where r or w is a pipe of the operating system's, a large one makes a great difference: the
// client enlarges it where it can.
func NewClientPipe(r io.Reader, w io.WriteCloser, opts ...ClientOption) (*Client, error) {
	o := options{readAhead: defaultReadAhead}
	for _, option := range opts {
		option(&o)
	}
	for _, stream := range []any{r, w} {
		if f, ok := stream.(*os.File); ok {
			bigpipe.Widen(f)
		}
	}
	s := &session{options: o, limited: make(chan struct{})}
	if readsOnce(o.serverVersion) {
		s.options.readAhead = 0
	}
	s.inOrder = knownInOrder(o.serverVersion)
	s.listsAhead = knownToList(o.serverVersion)
	s.symlinks.Store(symlinkOrder(o.serverVersion))
	o.conn.Ended, o.conn.Error = s.report, connError
	s.conn = conn.New(r, w, o.conn)
	c := &Client{session: s, ctx: context.Background()}
	ahead := o.ahead != nil && s.inOrder
	if ahead {
		s.askLimits() // which a server that has none refuses
		o.ahead(c)
	}
	timeout := o.conn.StallTimeout
	if timeout == 0 {
		timeout = handshakeTimeout
	}
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout,
			fmt.Errorf("the server has not begun to speak SFTP within %v", timeout))
		defer cancel()
	}
	if err := s.conn.Handshake(ctx); err != nil {
		s.conn.Close()
		return nil, err
	}
	s.offers = make(map[string]string)
	for _, e := range s.conn.Server().Extensions {
		s.offers[e.Name] = e.Data
	}
	switch {
	case ahead:
	case s.offers[wire.ExtLimits] == "1":
		s.askLimits()
	default:
		close(s.limited)
	}
	return c, nil
}

// Ping asks the transport for a sign of life, which no file operation of the server's holds up, and
// waits for it: so a slow server can be told from a slow link. errors.Is(err,
// errors.ErrUnsupported) where nobody can be asked (see [WithKeepalive]). One round trip.
func (c *Client) Ping(ctx context.Context) error {
	ask := c.options.conn.Keepalive
	if ask == nil {
		return fmt.Errorf("ping: %w", errors.ErrUnsupported)
	}
	return ask(ctx)
}

// WithContext returns a view of the client whose calls, and those of the Files that it opens, end
// when ctx is done, with ctx's cause. A call that is cancelled returns at once; what it asked of
// the server may still happen. All else is shared with the client. Close does not depend on ctx.
func (c *Client) WithContext(ctx context.Context) *Client {
	return &Client{session: c.session, ctx: ctx}
}

// Close ends the session and everything that waits for it, with [ErrClosed], and returns within a
// second or so whatever the stream does. Remote files that are open are closed by the server.
func (c *Client) Close() error { return c.conn.Close() }

// Done is closed when the connection has ended, however that came; see [Client.Wait].
func (c *Client) Done() <-chan struct{} { return c.conn.Dead() }

// Wait waits until the connection has ended and returns why.
func (c *Client) Wait() error {
	<-c.conn.Dead()
	return c.conn.Err()
}

// Stats are counts since the client was made.
type Stats struct {
	BytesRead    int64 // from the stream
	BytesWritten int64 // to the stream
	Requests     int64 // sent
	Replies      int64 // received
	// RoundTrips is the length of the longest chain in which each request was sent after the reply
	// to the one before.
	RoundTrips int64
}

// Stats returns the counts so far.
func (c *Client) Stats() Stats { return Stats(c.conn.Stats()) }

// askLimits sends for the server's limits (OpenSSH's PROTOCOL, section 4.8) without waiting: the
// answer is there before that to whatever is asked next.
func (s *session) askLimits() {
	call := s.conn.NewCall()
	call.Request = wire.Limits{}.Append(call.Scratch(), 0)
	call.Expect = wire.TypeExtendedReply
	call.Done = (*limitsAnswer)(s)
	if err := s.conn.Start(context.Background(), call); err != nil {
		close(s.limited)
	}
}

// limitsAnswer is the session as the Completer of the question for limits.
type limitsAnswer session

func (s *limitsAnswer) Complete(call *conn.Call) {
	var limits wire.LimitsReply
	if call.Err == nil && call.Type == wire.TypeExtendedReply && limits.Parse(call.Body) == nil {
		s.mu.Lock()
		s.limits = limits
		s.mu.Unlock()
	}
	s.conn.Recycle(call)
	close(s.limited)
}

// Limits are what the server allows, in bytes; 0 means that it has not said.
type Limits struct {
	MaxPacket, MaxRead, MaxWrite, MaxOpenHandles uint64
}

// Limits returns the server's limits (limits@openssh.com), waiting for them where they are still on
// their way. All are 0 on a server that does not offer them.
func (c *Client) Limits() (Limits, error) {
	if err := c.awaitLimits(c.ctx); err != nil {
		return Limits{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Limits(c.limits), nil
}

func (s *session) awaitLimits(ctx context.Context) error {
	select {
	case <-s.limited:
		return nil
	default:
	}
	select {
	case <-s.limited:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// openHandles returns how many handles the server says may be open, 0 where it has not said, or not
// yet.
func (s *session) openHandles() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.MaxOpenHandles
}

// dataSizes returns how much data one READ and one WRITE may carry.
func (s *session) dataSizes() (read, write int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dataSize(s.limits.MaxRead), s.dataSize(s.limits.MaxWrite)
}

// dataSize clamps a limit both ways: a server that claims 0 or nothing gets what every server
// takes, one that claims gigabytes gets what OpenSSH takes. A packet also holds a header.
func (s *session) dataSize(limit uint64) int {
	const header = wire.WriteHeaderMax
	size := uint64(wire.DefaultMaxData)
	if limit > 0 {
		size = limit
		if s.limits.MaxPacket > 2*header {
			size = min(size, s.limits.MaxPacket-header)
		}
	}
	size = min(max(size, 512), wire.MaxData)
	if s.options.maxPacket > 0 {
		if limit == 0 {
			return s.options.maxPacket // the server has not said; the caller has
		}
		size = min(size, uint64(s.options.maxPacket))
	}
	return int(size)
}

// quirks are what has been found out about a server that does not conform, or not as most do. What
// was found out holds for the connection: nothing is tried twice that is known to fail.
type quirks struct {
	// it works strictly in order, so that what depends on one another may be sent at once
	inOrder     bool
	listsAhead  bool        // several READDIRs on one handle may be asked at once
	noReadWrite atomic.Bool // it refuses to open a file for reading and writing
	noFstat     atomic.Bool // it does not serve FSTAT
	oneWrite    atomic.Bool // it takes one WRITE of a file at a time, in order
	symlinks    atomic.Int32
}

// knownInOrder tells by the SSH server's version line whether it serves requests one at a time, in
// the order in which they came. OpenSSH's sftp-server does; pkg/sftp, SFTPGo and AsyncSSH do not.
func knownInOrder(version string) bool { return strings.Contains(version, "OpenSSH") }

// knownToList tells by the SSH server's version line whether it answers READDIRs on one handle one
// after the other, so that several may be asked at once: those that work in order do, and so does
// package server, whatever else it does side by side.
func knownToList(version string) bool {
	return knownInOrder(version) || strings.HasPrefix(version, "SSH-2.0-usftp")
}

// differs remembers what was found out, and says it once.
func (s *session) differs(quirk *atomic.Bool, what string) {
	if logger := s.options.conn.Logger; quirk.CompareAndSwap(false, true) && logger != nil {
		// this may be a goroutine of the connection's
		s.dispatcher.run(func() { logger.Info("the server differs: " + what) })
	}
}
