package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	own "github.com/usftp/usftp/internal/ssh"
)

// closeLimit bounds how long Close waits for the goroutines and processes it ends.
const closeLimit = 2 * time.Second

// A Conn is a connection that is logged in. With the system's ssh nothing is connected yet: each
// stream runs its own ssh. It is safe for concurrent use.
type Conn struct {
	d         *Dialer
	transport transport // nil with the system's ssh
	route     *route
	key       ssh.PublicKey // the server's; nil where another program does not reveal it
	roundTrip time.Duration

	ctx    context.Context // done when the connection is closed or has died
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // goroutines that end with the connection

	mu      sync.Mutex
	closed  bool
	first   *firstSession        // opened along with the login, and not yet taken
	streams map[*Stream]struct{} // of the system's ssh: processes to end
	alive   *keepalive           // the one under way
}

// A keepalive is one request that all callers of [Conn.Keepalive] share.
type keepalive struct {
	done chan struct{} // closed when it has been answered or has failed
	err  error         // set before
}

// ErrClosed is returned by calls on a closed [Conn]. It matches [net.ErrClosed].
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "the connection is closed" }
func (closedError) Unwrap() error { return net.ErrClosed }

// A firstSession is a channel that was requested along with the login, and the outcome.
type firstSession struct {
	ch  channel // nil where it was not opened
	ok  bool    // SFTP runs in it
	err error
}

func newConn(d *Dialer, t transport, r *route, key ssh.PublicKey) *Conn {
	c := &Conn{d: d, transport: t, route: r, key: own.PlainKey(key)}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.work.Go(func() {
		c.cancel(lost(t.wait()))
	})
	if _, shared := t.(*masterTransport); d.s.aliveInterval > 0 &&
		!shared { // a master sends its own
		c.work.Go(c.stayAlive)
	}
	if r.compressed != nil && d.s.compress && r.jump == nil && !r.proxied {
		if socket, ok := r.conn.Conn.(*net.TCPConn); ok {
			c.work.Go(func() { d.config.Compression.watch(c, r.compressed, socket) })
		}
	}
	return c
}

// RoundTrip returns the estimated round trip: the shortest time in which the server answered during
// the login, TCP's handshake included. It is 0 with the system's ssh, where it is not known.
func (c *Conn) RoundTrip() time.Duration { return c.roundTrip }

// lost describes how a connection died.
func lost(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF { // between two packets, or in one
		return &describedError{"the server closed the connection", io.ErrUnexpectedEOF}
	}
	if err == own.ErrClosed {
		return ErrClosed
	}
	if strings.HasPrefix(err.Error(), "ssh: disconnect") {
		return &describedError{"the server ended the connection: " + err.Error(), err}
	}
	// Without Go's "read tcp 127.0.0.1:1->127.0.0.1:2: read".
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return &describedError{"the connection was lost: " + call.Err.Error(), err}
	}
	return fmt.Errorf("the connection was lost: %w", err)
}

// Host returns the target's name for messages: "user@host".
func (c *Conn) Host() string { return c.d.host() }

// Place returns where the configuration says that the target is: "user@address:port". It is "" with
// the system's ssh, which does not say.
func (c *Conn) Place() string {
	if c.d.s == nil {
		return ""
	}
	return c.d.s.user + "@" + net.JoinHostPort(c.d.s.host, strconv.Itoa(c.d.s.port))
}

// SSH returns the facts about the SSH connection, or nil with the system's ssh. Through an OpenSSH
// master the session's id, the versions and the user are not known.
func (c *Conn) SSH() ssh.ConnMetadata {
	if c.transport == nil {
		return nil
	}
	return c.transport
}

// HostKey returns the key that the server has proved to have and that was known or accepted. It
// identifies the server, whatever its name. For a certificate it is the certified key. It is nil
// with the system's ssh and through an OpenSSH master, which do not reveal it.
func (c *Conn) HostKey() ssh.PublicKey { return c.key }

// ServerVersion returns the server's version line, such as "SSH-2.0-OpenSSH_9.2p1". It is "" with
// the system's ssh and through an OpenSSH master, which do not reveal it.
func (c *Conn) ServerVersion() string {
	if c.transport == nil {
		return ""
	}
	return printable(c.transport.ServerVersion())
}

// Done returns a channel that is closed when the connection has ended. [Conn.Err] then says why.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns why the connection ended, or nil while it lives.
func (c *Conn) Err() error { return context.Cause(c.ctx) }

// heard returns the time when anything last arrived from the peer, or the zero Time with the
// system's ssh.
func (c *Conn) heard() time.Time {
	if c.route == nil {
		return time.Time{}
	}
	return time.Unix(0, c.route.conn.heard.Load())
}

// Keepalive sends a keepalive (keepalive@openssh.com, which every server answers, if only with a
// refusal) and waits for the answer. It takes one round trip, which no file operation on the server
// delays, so it tells a slow server from a dead one. With the system's ssh, and through an OpenSSH
// master without an open channel, the error matches [errors.ErrUnsupported].
func (c *Conn) Keepalive(ctx context.Context) error {
	if c.transport == nil {
		return fmt.Errorf("keepalive over the system's ssh: %w", errors.ErrUnsupported)
	}
	// All callers share one request at a time: against a dead server requests would pile up.
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return cmp.Or(c.Err(), ErrClosed)
	}
	alive := c.alive
	if alive == nil {
		alive = &keepalive{done: make(chan struct{})}
		c.alive = alive
		c.work.Go(func() {
			alive.err = c.transport.keepalive(c.ctx)
			c.mu.Lock()
			c.alive = nil
			c.mu.Unlock()
			close(alive.done)
		})
	}
	c.mu.Unlock()
	select {
	case <-alive.done:
		if alive.err != nil && closedWithin(deathLimit, c.ctx.Done()) {
			return c.Err()
		}
		return alive.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return c.Err()
	}
}

// stayAlive implements ServerAliveInterval and ServerAliveCountMax.
func (c *Conn) stayAlive() {
	interval, count := c.d.s.aliveInterval, c.d.s.aliveCountMax
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for missed := 0; ; {
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			return
		}
		if silent := time.Since(c.heard()); silent < interval {
			missed = 0
			timer.Reset(interval - silent)
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, interval)
		err := c.Keepalive(ctx)
		cancel()
		if err == nil {
			missed = 0
		} else if missed++; missed >= count && count > 0 { // as with ssh, 0 never gives up
			c.cancel(&timeoutError{"waiting for the answer to a keepalive",
				time.Since(c.heard()).Round(time.Second)})
			c.route.cut()
			return
		}
		timer.Reset(max(0, interval-time.Since(c.heard())))
	}
}

// Close ends the connection, its streams, and everything that carried it: jump connections, the
// ProxyCommand's process, or the processes of the system's ssh. It takes bounded time and may be
// called twice.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	streams := c.streams
	c.streams = nil
	c.mu.Unlock()
	c.cancel(ErrClosed)
	var closing sync.WaitGroup
	for s := range streams {
		closing.Go(func() { s.Close() })
	}
	closing.Wait()
	if c.route != nil {
		c.transport.end()
		c.route.close()
	}
	within(closeLimit, c.work.Wait)
	return nil
}

// within waits for f, but no longer than limit.
func within(limit time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	closedWithin(limit, done)
}

// closedWithin waits for a channel to be closed, but no longer than limit, and reports whether it
// was.
func closedWithin(limit time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// Open starts SFTP in a new channel. It takes two round trips with the native dialer, or none if
// the login has already opened the channel. Servers limit the channels of a connection (sshd's
// MaxSessions: 10). Errors are of type [*Error], which wraps a [*SubsystemError] if the server runs
// no SFTP.
func (c *Conn) Open(ctx context.Context) (*Stream, error) { return c.open(ctx, c.d.config.sftp()) }

// OpenCommand runs a command on the host in a channel of its own, which the user's shell there
// interprets: two round trips. The Stream is the command's input and output. Many servers run no
// commands; errors are as for [Conn.Open]. A command that does not exist is no error: the Stream
// ends at once, with exit status 127 in most shells.
func (c *Conn) OpenCommand(ctx context.Context, line string) (*Stream, error) {
	return c.open(ctx, command(line))
}

func (c *Conn) open(ctx context.Context, p program) (s *Stream, err error) {
	if err = ctx.Err(); err == nil && p == c.d.config.sftp() {
		s, err = c.takeFirst()
	}
	if s == nil && err == nil {
		s, err = c.openAnother(ctx, p)
	}
	if err != nil {
		return nil, &Error{Host: c.Host(), Err: causeOf(ctx, err)}
	}
	return s, nil
}

// openAnother opens any stream but the one opened along with the login.
func (c *Conn) openAnother(ctx context.Context, p program) (*Stream, error) {
	if c.ctx.Err() != nil {
		return nil, c.Err()
	}
	if c.transport == nil {
		return c.d.system.open(c, p)
	}
	ctx, cancel := c.limitOpen(ctx, p)
	defer cancel()
	ctx, stop := c.whileAlive(ctx)
	defer stop()
	s, err := await(ctx, c.start, func() (*Stream, error) { return openChannel(ctx, c, p) })
	if err != nil && c.ctx.Err() != nil {
		return nil, c.Err()
	}
	return s, err
}

// await runs open by start, and waits for it. If ctx is done first, what it still opens is closed.
func await[T io.Closer](ctx context.Context, start func(func()) bool,
	open func() (T, error)) (opened T, err error) {
	done := make(chan struct{})
	gone := make(chan struct{}) // nobody waits any more
	defer close(gone)
	var late T
	var lateErr error
	if !start(func() {
		late, lateErr = open()
		select {
		case done <- struct{}{}:
		case <-gone:
			if lateErr == nil {
				late.Close()
			}
		}
	}) {
		return opened, ErrClosed
	}
	select {
	case <-done:
		return late, lateErr
	case <-ctx.Done():
		return opened, context.Cause(ctx)
	}
}

// whileAlive returns a context that ends with the connection, too, whose error is then its cause.
func (c *Conn) whileAlive(ctx context.Context) (alive context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.ctx, func() { cancel(c.Err()) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// reach connects to an address from the server. within limits the wait.
func (c *Conn) reach(ctx context.Context, host string, port int, within time.Duration) (net.Conn,
	error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, &timeoutError{"connecting", within})
	defer cancel()
	ctx, stop := c.whileAlive(ctx)
	defer stop()
	conn, err := c.transport.dial(ctx, host, port)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return conn, nil
}

// limitOpen limits the wait for a channel: to ConnectTimeout if the server has fallen silent, and
// to loginStall if it answers keepalives, since a program may be slow to start, or never start.
func (c *Conn) limitOpen(ctx context.Context, p program) (context.Context, func()) {
	doing := "asking for sftp"
	if p != c.d.config.sftp() {
		doing = "asking for a command"
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loginStall, &timeoutError{doing, loginStall})
	ctx, stop := c.limitSilence(ctx, doing)
	return ctx, func() {
		stop()
		cancel()
	}
}

// LimitSilence limits the wait at the beginning of a conversation on a Stream. It returns a context
// that ends when the server has sent nothing, on any channel, and answered no keepalive for as long
// as ConnectTimeout allows. Its cause is then an error that matches [os.ErrDeadlineExceeded]. The
// caller must call stop.
func (c *Conn) LimitSilence(ctx context.Context) (limited context.Context, stop func()) {
	return c.limitSilence(ctx, "starting sftp")
}

func (c *Conn) limitSilence(ctx context.Context, doing string) (context.Context, func()) {
	if _, shared := c.transport.(*masterTransport); shared || c.transport == nil {
		return ctx, func() {} // a master cannot always send keepalives, the system's ssh never can
	}
	limit := c.d.s.connectTimeout
	if limit == 0 || limit >= loginStall {
		return ctx, func() {}
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	began := time.Now()
	probe := time.AfterFunc(limit/2, func() {
		ctx, stop := context.WithTimeout(ctx, limit-limit/2)
		defer stop()
		if c.Keepalive(ctx) != nil && !c.heard().After(began) {
			giveUp(&timeoutError{doing, limit})
		}
	})
	return ctx, func() {
		probe.Stop()
		giveUp(nil)
	}
}

// takeFirst returns, once, the stream that was opened along with the login, or why that failed. It
// returns nil if there is no such stream.
func (c *Conn) takeFirst() (*Stream, error) {
	c.mu.Lock()
	first := c.first
	c.first = nil
	closed := c.closed
	c.mu.Unlock()
	switch {
	case first == nil || closed:
		return nil, nil
	case first.ch == nil:
		return nil, openError(first.err)
	}
	return newStream(c, first.ch).granted(c.d.config.sftp(), first.ok, first.err)
}

// start runs f in a goroutine that Close waits for. It returns false if the connection is closed.
func (c *Conn) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.work.Go(f)
	}
	return !c.closed
}
