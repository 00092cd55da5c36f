package usftp

import (
	"cmp"
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
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

// Client is an SFTP session. Its methods may be called concurrently; their requests share the
// connection and do not wait for each other.
type Client struct {
	*session
	ctx context.Context
}

// session is a client without its context.
type session struct {
	*shared

	// above is the prefix of paths beneath which no link is followed, see [session.beneath]; nil in
	// all other views.
	above *string
}

// shared is the state that all views of a client share.
type shared struct {
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
	puts, gets bundles

	startsSmall atomic.Bool  // transfers start with smallStart in flight
	cuts        atomic.Int64 // requests that set a size
}

// NewClient opens the SFTP subsystem on an SSH connection and starts a client on it. It takes three
// round trips: channel, subsystem and INIT. It fails if the server is silent for as long as the
// stall timeout allows (see [WithStallTimeout]); closing the connection ends it at once. Closing
// the client leaves the connection open.
func NewClient(sshClient *ssh.Client, opts ...ClientOption) (*Client, error) {
	_ = sshClient.Conn // nil panics here, and not on another goroutine
	sub, err := openSubsystem(sshClient, newOptions(opts).patience())
	if err != nil {
		return nil, err
	}
	// What a server says there, as sftp-server -e does, would fill the channel's window. This ends
	// with the channel.
	go io.Copy(io.Discard, sub.stderr)
	defaults := []ClientOption{
		WithServerVersion(string(sshClient.ServerVersion())),
		WithChannelWindow(flow.SSHWindow),
		WithKeepalive(func(ctx context.Context) error { return keepalive(ctx, sshClient) }),
	}
	return NewClientPipe(sub.out, channelWriter{sub.in, sub.channel},
		append(defaults, opts...)...)
}

// subsystem is a channel on which the server speaks SFTP.
type subsystem struct {
	channel     *ssh.Session
	in          io.WriteCloser
	out, stderr io.Reader
	err         error
}

// openSubsystem opens a channel for SFTP. x/crypto/ssh waits for ever if the connection ends just
// before it asks for the channel, so another request finds out whether the connection is still
// there. It also waits for ever for a silent server, so there is a limit.
func openSubsystem(sshClient *ssh.Client, limit time.Duration) (subsystem, error) {
	ctx, cancel := within(limit)
	defer cancel()
	opened, lost := make(chan subsystem, 1), make(chan error, 1)
	go func() { opened <- askSubsystem(sshClient) }()
	probe := time.NewTimer(time.Second)
	defer probe.Stop()
	var err error
	for err == nil {
		select {
		case sub := <-opened:
			return sub, sub.err
		case err = <-lost:
			probe.Reset(time.Second)
		case <-probe.C:
			go func() { lost <- keepalive(ctx, sshClient) }()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	go func() { // what comes too late is closed
		if sub := <-opened; sub.err == nil {
			sub.channel.Close()
		}
	}()
	return subsystem{}, fmt.Errorf("cannot open a channel for SFTP: %w",
		cmp.Or(context.Cause(ctx), err))
}

func askSubsystem(sshClient *ssh.Client) (s subsystem) {
	if s.channel, s.err = sshClient.NewSession(); s.err != nil {
		s.err = fmt.Errorf("cannot open a channel for SFTP: %w", s.err)
		return s
	}
	// The pipes of a new session never fail.
	s.in, _ = s.channel.StdinPipe()
	s.out, _ = s.channel.StdoutPipe()
	s.stderr, _ = s.channel.StderrPipe()
	if s.err = s.channel.RequestSubsystem("sftp"); s.err != nil {
		s.channel.Close()
		s.err = fmt.Errorf("the server does not offer SFTP: %w", s.err)
	}
	return s
}

// channelWriter closes the whole channel, which ends the reading side too.
type channelWriter struct {
	io.Writer
	channel *ssh.Session
}

func (w channelWriter) Close() error { return w.channel.Close() }

// keepalive sends the request that OpenSSH's client sends for ServerAliveInterval. A peer that does
// not know the request refuses it, and so is alive.
func keepalive(ctx context.Context, sshClient *ssh.Client) error {
	answered := make(chan error, 1)
	// This ends with the connection at the latest, and the client gives that up if no answer comes.
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

// handshakeTimeout limits the wait for the server's VERSION if there is no stall timeout.
const handshakeTimeout = 60 * time.Second

// patience returns how long to wait for a silent server; not above 0 means for ever.
func (o *options) patience() time.Duration {
	return cmp.Or(o.conn.StallTimeout, handshakeTimeout)
}

// within returns a context that ends after the patience.
func within(patience time.Duration) (context.Context, context.CancelFunc) {
	if patience <= 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeoutCause(context.Background(), patience,
		fmt.Errorf("no SFTP server answered within %v", patience))
}

func newOptions(opts []ClientOption) *options {
	o := &options{readAhead: defaultReadAhead}
	for _, option := range opts {
		option(o)
	}
	return o
}

// NewClientPipe starts a client on any stream to an SFTP server: it reads replies from r and writes
// requests to w. The client owns both from then on and closes w, and r if it is an io.Closer. It
// takes one round trip, and fails like [NewClient] if the server is silent. If w has a method
// Abandon() error, it is called instead of Close when the server has stalled; it should drop data
// that is not sent yet.
//
// If r or w is an operating system pipe, the client enlarges its buffer if it can; small pipes are
// slow.
func NewClientPipe(r io.Reader, w io.WriteCloser, opts ...ClientOption) (*Client, error) {
	o := newOptions(opts)
	for _, stream := range []any{r, w} {
		if f, ok := stream.(*os.File); ok {
			bigpipe.Widen(f)
		}
	}
	s := &session{shared: &shared{options: *o, limited: make(chan struct{})}}
	s.puts.extension, s.gets.extension = wire.ExtPutFiles, wire.ExtGetFiles
	if readsOnce(o.serverVersion) {
		s.options.readAhead = 0
	}
	s.inOrder = knownInOrder(o.serverVersion)
	s.listsAhead = knownToList(o.serverVersion)
	s.symlinks.Store(symlinkOrder(o.serverVersion))
	s.linksFrom.Store(linksStart(o.serverVersion))
	began := make(chan bool, 1)
	o.conn.Ended = func(err error) {
		if <-began { // otherwise NewClientPipe returns the error
			s.report("the connection has ended", err)
		}
	}
	o.conn.Error, o.conn.SharedHandle = connError, s.sharedHandle
	if o.host != "" && o.conn.Logger != nil {
		o.conn.Logger = o.conn.Logger.With("host", o.host)
	}
	s.conn = conn.New(r, w, o.conn)
	c := &Client{session: s, ctx: context.Background()}
	asked := o.firstRequest != nil && (s.inOrder || isOurs(o.serverVersion))
	if asked {
		s.askLimits() // which a server without this extension refuses
		o.firstRequest(c)
	}
	ctx, cancel := within(o.patience())
	defer cancel()
	err := s.conn.Handshake(ctx)
	began <- err == nil
	if err != nil {
		s.conn.Close()
		return nil, err
	}
	s.offers = make(map[string]string)
	for _, e := range s.conn.Server().Extensions {
		s.offers[e.Name] = e.Data
	}
	switch {
	case asked:
	case s.offers[wire.ExtLimits] == "1":
		s.askLimits()
	default:
		close(s.limited)
	}
	return c, nil
}

// Ping sends a keepalive over the transport and waits for the answer. No file operation delays it,
// so Ping tells a slow server from a slow link. Without a way to ask (see [WithKeepalive]) the
// error matches [errors.ErrUnsupported]. It takes one round trip.
func (c *Client) Ping(ctx context.Context) error {
	ask := c.options.conn.Keepalive
	if ask == nil {
		return fmt.Errorf("ping: %w", errors.ErrUnsupported)
	}
	return ask(ctx)
}

// WithContext returns a view of the client whose calls, and those of the Files it opens, end with
// ctx's cause when ctx is done. A cancelled call returns at once, but the server may still carry
// out the request. Everything else is shared with the client. Close does not depend on ctx.
// WithContext panics if ctx is nil.
func (c *Client) WithContext(ctx context.Context) *Client {
	return &Client{session: c.session, ctx: notNil(ctx)}
}

// notNil panics where the mistake is, as net/http does, and not in a later call.
func notNil(ctx context.Context) context.Context {
	if ctx == nil {
		panic("usftp: nil context")
	}
	return ctx
}

// Close ends the session, fails everything that waits for it with [ErrClosed], and returns within
// about a second whatever the stream does. The server closes remote files that are still open.
// Close always returns nil, and may be called more than once.
func (c *Client) Close() error { return c.conn.Close() }

// Done returns a channel that is closed when the connection has ended; [Client.Wait] says why.
func (c *Client) Done() <-chan struct{} { return c.conn.Dead() }

// Wait waits until the connection has ended and returns the reason; after [Client.Close] that is
// [ErrClosed].
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

// Stats returns the current counts.
func (c *Client) Stats() Stats { return Stats(c.conn.Stats()) }

// askLimits asks for the server's limits (OpenSSH's PROTOCOL, section 4.8) without waiting: the
// answer comes before the answer to any later request.
func (s *session) askLimits() {
	call := s.conn.NewCall()
	call.Request = wire.Limits{}.Append(call.Scratch(), 0)
	call.Expect = wire.TypeExtendedReply
	call.Done = (*limitsAnswer)(s)
	if err := s.conn.Start(context.Background(), call); err != nil {
		close(s.limited)
	}
}

// limitsAnswer is the session as the Completer of askLimits' request.
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

// Limits are the server's limits. 0 means that it has not stated one.
type Limits struct {
	MaxPacket, MaxRead, MaxWrite uint64 // bytes
	MaxOpenHandles               uint64
}

// Limits returns the server's limits (limits@openssh.com), and waits for them if they are still on
// their way. All are 0 if the server does not offer them. It fails only if the client's context
// ends, with its cause.
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

// openHandles returns the number of handles that the server allows, or 0 if it has not said so yet.
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

// dataSize clamps a limit both ways: a server that claims 0 or nothing gets the size that every
// server takes, a server that claims gigabytes gets OpenSSH's size. A packet also holds a header.
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

// quirks are known or discovered deviations of a server from the protocol or from most servers.
// They hold for the connection: a request that is known to fail is not tried again.
type quirks struct {
	// it works strictly in order, so requests that depend on one another may be sent at once
	inOrder     bool
	listed      atomic.Int32 // replies that the last whole listing took
	listsAhead  bool         // several READDIRs on one handle may be asked at once
	noReadWrite atomic.Bool  // it refuses to open a file for reading and writing
	noFstat     atomic.Bool  // it does not serve FSTAT
	wrongSizes  atomic.Bool  // it tells less than it has of files that are written
	tellsDirs   atomic.Bool  // it has told the type of a directory
	oneWrite    atomic.Bool  // it takes one WRITE of a file at a time, in order
	symlinks    atomic.Int32
	linksFrom   atomic.Int32
}

// knownInOrder reports whether a server, by its SSH version line, handles requests one at a time in
// the order in which they came. OpenSSH's sftp-server does; pkg/sftp, SFTPGo and AsyncSSH do not.
func knownInOrder(version string) bool { return strings.Contains(version, "OpenSSH") }

// knownToList reports whether a server, by its SSH version line, answers READDIRs on one handle in
// order, so that several may be sent at once. Servers that work in order do, and so does package
// server, which otherwise works concurrently.
func knownToList(version string) bool { return knownInOrder(version) || isOurs(version) }

// opensAsPOSIX reports whether the server is known to take the flags of OPEN as open(2) does.
func (s *session) opensAsPOSIX() bool {
	return s.inOrder || isOurs(s.options.serverVersion) || s.offered(wire.ExtAbandon)
}

// isMINA and isMaverick report whether a server, by its SSH version line, is that one in Java.
func isMINA(version string) bool     { return strings.Contains(version, "APACHE-SSHD") }
func isMaverick(version string) bool { return strings.Contains(version, "Maverick") }

// isErlang reports the same of Erlang/OTP's server. It knows only three of OPEN's flags (reading,
// writing, appending), and no mode, and empties a file that is only written, as file:open does.
func isErlang(version string) bool { return strings.Contains(version, "Erlang") }

// isOurs reports whether a server, by its SSH version line, is package server.
func isOurs(version string) bool { return strings.HasPrefix(version, "SSH-2.0-usftp") }

// sharedHandle logs once per host that only one file is open at a time from now on.
func (s *session) sharedHandle() {
	logger := s.options.conn.Logger
	if logger == nil {
		return
	}
	if s.options.host != "" {
		logger = logger.With("host", s.options.host)
	}
	logger.Info("the host gives one handle to several open files: " +
		"one file at a time from now on, and what was under way is started over")
}

// differs remembers a quirk and logs it once.
func (s *session) differs(quirk *atomic.Bool, what string) {
	if logger := s.options.conn.Logger; quirk.CompareAndSwap(false, true) && logger != nil {
		// Not directly: this may be one of the connection's goroutines.
		s.dispatcher.run(func() { logger.Info("server quirk: " + what) })
	}
}
