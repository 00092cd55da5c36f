package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
)

// ConnectConfig changes how [Connect] does it. The zero ConnectConfig is valid.
type ConnectConfig struct {
	// Dial is how connections are made; nil is the user's ssh_config, and nobody to ask.
	Dial *dial.Config

	// Connections and Streams bound how many connections there are to the host, and how many SFTP
	// sessions on each. 0 means 8 and 2, and one connection where each login needs a person.
	Connections, Streams int

	// Expected is how many bytes the largest file has that will be copied, as far as that is known.
	// Where it is large for the way, further connections begin to log in as soon as the first one's
	// login is as good as done.
	Expected int64

	// Source is the path of the file that the first job downloads, or Look that of the target of
	// the first upload, or of the directory that the first tree begins with, source or target: what
	// is asked of it first then goes out along with the session's first request, and is answered a
	// round trip earlier, with hosts that are known to allow it (OpenSSH's). "" where that is not
	// known; what nobody takes up is forgotten.
	Source, Look string

	// Client are options for each client. What is known of the connection, and Dial's Logger, need
	// not be said.
	Client []usftp.ClientOption
}

// Login is a host that is logged in to, ready for jobs: with its client, a pool that further
// connections come from when they are wanted, and, where a login needs no person, a way to make a
// lost connection anew.
type Login struct {
	target dial.Target
	dialer *dial.Dialer
	config ConnectConfig

	mu     sync.Mutex
	host   Host
	conn   *dial.Conn
	closed bool
}

// Connect logs in to the host that a target names, and begins to speak SFTP with it. Errors are of
// type [*dial.Error], whose sentence begins with the host; where ctx has ended the error may be its
// cause. The Login must be closed.
func Connect(ctx context.Context, target dial.Target, config ConnectConfig) (*Login, error) {
	if config.Dial == nil {
		config.Dial = new(dial.Config)
	}
	l := &Login{config: config}
	l.host = Host{Name: target.UserHost(), habits: new(habits)}
	l.target = target
	if err := l.login(ctx); err != nil {
		return nil, l.error(ctx, err)
	}
	return l, nil
}

// Host returns the host, for jobs and trees. After a connection was made anew that is another one.
func (l *Login) Host() Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.host
}

// Close ends all connections to the host, in bounded time. It is safe to call twice.
func (l *Login) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.end()
	}
	return nil
}

// end closes what is open, all at once: whatever was done has been answered, and a round trip to
// say goodbye would be one too many. The caller holds the lock.
func (l *Login) end() {
	var closing sync.WaitGroup
	if l.host.Pool != nil {
		closing.Go(func() { l.host.Pool.Close() })
	}
	if l.host.Client != nil {
		closing.Go(func() { l.host.Client.Close() })
		if l.conn != nil && l.conn.SSH() != nil {
			<-l.host.Client.Done() // so that it knows by whom it was ended
		} else {
			closing.Wait() // a process should end by itself
		}
	}
	if l.conn != nil {
		closing.Go(func() { l.conn.Close() })
	}
	closing.Wait()
}

// login makes the first connection, and has others begin.
func (l *Login) login(ctx context.Context) (err error) {
	config := *l.config.Dial
	first := &coming{ready: make(chan struct{})}
	var pool *Pool
	told := config.Nearly
	config.Nearly = func(d *dial.Dialer, roundTrip time.Duration) {
		pool.Expect(l.config.Expected, roundTrip)
		if told != nil {
			told(d, roundTrip)
		}
	}
	if l.dialer, err = dial.New(ctx, l.target, &config); err != nil {
		return err
	}
	pool = l.pool(first)
	conn, err := l.dialer.Dial(ctx)
	first.arrived(dialed{conn, l.options()}, err)
	var client *usftp.Client
	if err == nil {
		client, err = l.begin(ctx, conn)
	}
	if err != nil {
		pool.Close()
		if conn != nil {
			conn.Close()
		}
		return err
	}
	if l.dialer.NeedsPerson() { // as is known only now
		pool.Close()
		pool = l.pool(first)
	} else {
		l.host.Redial = l.redial
	}
	l.conn, l.host.Client, l.host.Pool, l.host.Identity = conn, client, pool, identityOf(conn,
		l.target)
	return nil
}

// begin opens the first session, and asks ahead what is known to be asked first.
func (l *Login) begin(ctx context.Context, conn *dial.Conn) (*usftp.Client, error) {
	options := l.options()
	a := l.config.aheadOf()
	if a != nil {
		options = append(options, usftp.WithAhead(a.start))
	}
	client, err := OpenClient(ctx, conn, options...)
	if a != nil && a.asked {
		a.trip = conn.RoundTrip()
		l.host.ahead = a
	}
	return client, err
}

// coming is a connection that is being made.
type coming struct {
	ready chan struct{} // closed when what follows is set
	dialed
	err error
}

func (c *coming) arrived(conn dialed, err error) {
	c.dialed, c.err = conn, err
	close(c.ready)
}

// Open implements Connection.
func (c *coming) Open(ctx context.Context) (*usftp.Client, error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.dialed.Open(ctx)
}

// connect makes a connection anew, which takes the place of the one that there is.
func (l *Login) connect(ctx context.Context) error {
	conn, err := l.dialer.Dial(ctx)
	if err != nil {
		return err
	}
	client, err := OpenClient(ctx, conn, l.options()...)
	if err != nil {
		conn.Close()
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		client.Close()
		conn.Close()
		return usftp.ErrClosed
	}
	l.end()
	l.host.Identity = identityOf(conn, l.target)
	l.conn, l.host.Client, l.host.Pool, l.host.ahead = conn, client, l.pool(dialed{conn,
		l.options()}), nil
	return nil
}

// identityOf tells a host from others in the journal, whatever it is called: by its key and the
// user's name there, and where the system's ssh keeps the key to itself by what was typed.
func identityOf(conn *dial.Conn, t dial.Target) string {
	if key := conn.HostKey(); key != nil {
		return conn.SSH().User() + "@" + ssh.FingerprintSHA256(key)
	}
	return fmt.Sprintf("%s:%d", t.UserHost(), t.Port)
}

// redial is the host's Redial.
func (l *Login) redial(ctx context.Context) (Host, error) {
	if err := l.connect(ctx); err != nil {
		return Host{}, l.error(ctx, err)
	}
	return l.Host(), nil
}

func (l *Login) options() []usftp.ClientOption {
	return append([]usftp.ClientOption{usftp.WithLogger(l.logger())}, l.config.Client...)
}

func (l *Login) logger() *slog.Logger {
	if l.config.Dial.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.config.Dial.Logger
}

// pool makes a pool of further connections.
func (l *Login) pool(first Connection) *Pool {
	connections, streams := l.config.Connections, l.config.Streams
	if l.host.Pool != nil { // whose connection was lost
		streams = l.host.Pool.perConnection()
	}
	if connections == 0 && l.dialer.NeedsPerson() {
		connections = 1
	}
	return NewPool(PoolConfig{
		First: first, Connections: connections, Streams: streams, Logger: l.logger(),
		Connect: func(ctx context.Context) (Connection, error) {
			conn, err := l.dialer.Dial(ctx)
			return dialed{conn, l.options()}, err
		},
	})
}

// error makes one sentence that begins with the host.
func (l *Login) error(ctx context.Context, err error) error {
	var named *dial.Error
	if errors.As(err, &named) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return &dial.Error{Host: l.host.Name, Err: err}
}

// dialed is a connection as a pool has it.
type dialed struct {
	*dial.Conn
	options []usftp.ClientOption
}

func (d dialed) Open(ctx context.Context) (*usftp.Client, error) {
	return OpenClient(ctx, d.Conn, d.options...)
}

// OpenClient opens a stream on a connection and begins to speak SFTP on it. The client knows what
// the connection knows: the server's version, the channel's window, how to ask for a sign of life.
// When ctx ends before it has begun, the whole connection is closed, since a server that says
// nothing would be waited for otherwise.
func OpenClient(ctx context.Context, conn *dial.Conn,
	options ...usftp.ClientOption) (*usftp.Client, error) {
	stream, err := conn.Open(ctx)
	if err != nil {
		return nil, err
	}
	// the stream's end would wait for the server
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	client, err := usftp.NewClientPipe(stream, stream, append([]usftp.ClientOption{
		usftp.WithServerVersion(conn.ServerVersion()),
		usftp.WithChannelWindow(stream.Window()),
		usftp.WithKeepalive(conn.Keepalive)}, options...)...)
	if !stop() && err == nil {
		client.Close()
		err = context.Cause(ctx)
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var named *dial.Error
	if errors.As(err, &named) { // the stream knows better why it has ended
		return nil, named
	}
	if err != nil {
		return nil, &startError{err: err, stderr: strings.ReplaceAll(stream.Stderr(), "\n", "; ")}
	}
	return client, nil
}

// A startError is a stream on which SFTP did not begin. What a server has to say about it, it often
// says to standard error.
type startError struct {
	err    error
	stderr string
}

func (e *startError) Error() string {
	var lost *usftp.LostError
	var other *usftp.NotSFTPError
	switch {
	case e.stderr == "":
		return e.err.Error()
	case errors.As(e.err, &lost), errors.As(e.err, &other) && len(other.Text) == 0:
		return "SFTP did not begin: " + e.stderr
	}
	return fmt.Sprintf("%s (and: %s)", e.err, e.stderr)
}

func (e *startError) Unwrap() error { return e.err }
