package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/private"
)

// ConnectConfig changes how [Connect] logs in. The zero ConnectConfig is valid.
type ConnectConfig struct {
	// Dial configures the connections. Nil means the user's ssh_config, with nobody to answer
	// prompts.
	Dial *dial.Config

	// Connections and Streams limit how many connections are opened to the host, and how many SFTP
	// sessions on each. 0 means 8 and 2, or a single connection if every login needs a person. With
	// the system's ssh, where each session is a login, there is only one then in any case.
	Connections, Streams int

	// Expected is the size of the largest file to be copied, or 0 if unknown. If it is large enough
	// for the link, further connections start logging in when the first login is almost complete.
	Expected int64

	// Source is the first file that will be read. Look is the first target on the host, or the root
	// of the first tree. On hosts known to allow it (OpenSSH), the request for it is sent along
	// with the session's first packet, which saves a round trip. An unused answer is dropped.
	Source, Look string

	// Helper allows running `usftp serve --stdio` on the host, for copies that only usftp's own
	// server can speed up (transfer.Delta, trees with many small files). It runs in a channel of
	// the same connection, with the user's rights. If the host runs no commands or has no usftp on
	// its PATH, or if the system's ssh would ask a person to log in for it, copies work without it.
	Helper bool

	// Client holds options for each client. Options that follow from the connection, and Dial's
	// Logger, are added automatically.
	Client []usftp.ClientOption
}

// A Login is a logged-in host: its client, a pool for further connections and, if logging in needs
// no person, a way to replace a lost connection.
type Login struct {
	target dial.Target
	dialer *dial.Dialer
	config ConnectConfig

	oneHandle atomic.Bool // the host gives one handle to several open files

	renewing chan struct{} // holds a token while the connection is being replaced

	mu     sync.Mutex
	host   Host
	conn   *dial.Conn
	helper *helper // started by the first call of help
	closed bool
}

// Connect logs in to a host and starts SFTP. Errors are of type [*dial.Error], whose text begins
// with the host's name; once ctx has ended the error may be its cause instead. The caller must
// close the Login.
func Connect(ctx context.Context, target dial.Target, config ConnectConfig) (*Login, error) {
	if config.Dial == nil {
		config.Dial = new(dial.Config)
	}
	l := &Login{config: config, target: target, renewing: make(chan struct{}, 1),
		host: Host{Name: target.UserHost(), Quirks: new(Quirks)}}
	if err := l.login(ctx); err != nil {
		return nil, l.error(ctx, err)
	}
	return l, nil
}

// Host returns the host. After a reconnect it returns a different value.
func (l *Login) Host() Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.host
}

// Close ends all connections to the host in bounded time. Further calls do nothing.
func (l *Login) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.end()
	}
	return nil
}

// end closes everything without saying goodbye, which would cost a round trip: all requests have
// been answered. Before a connection is closed all clients on it have recorded who ended them. The
// caller holds the lock.
func (l *Login) end() {
	var closing sync.WaitGroup
	if l.host.Client != nil {
		closing.Go(func() { l.host.Client.Close() })
	}
	if l.host.Pool != nil {
		l.host.Pool.hangUp()
		closing.Go(func() { l.host.Pool.Close() })
	}
	if h := l.helper; h != nil {
		h.hangUp(&closing)
	}
	if l.host.Client != nil {
		if l.conn != nil && l.conn.SSH() != nil {
			<-l.host.Client.Done()
		} else {
			closing.Wait() // let the server process exit by itself first
		}
	}
	if l.conn != nil {
		closing.Go(func() { l.conn.Close() })
	}
	closing.Wait()
}

// login makes the first connection, and lets further ones start meanwhile.
func (l *Login) login(ctx context.Context) (err error) {
	config := *l.config.Dial
	first := &pending{ready: make(chan struct{})}
	var pool *Pool
	likely := config.LoginLikely
	config.LoginLikely = func(d *dial.Dialer, roundTrip time.Duration) {
		if !d.NeedsPerson() { // which is known once the login is complete
			privatePool{pool}.Expect(l.config.Expected, roundTrip)
		}
		if likely != nil {
			likely(d, roundTrip)
		}
	}
	if l.dialer, err = dial.New(ctx, l.target, &config); err != nil {
		return err
	}
	pool = l.pool(first)
	conn, err := l.dialer.Dial(ctx)
	first.made(dialed{conn, l.options()}, err)
	var client *usftp.Client
	if err == nil {
		client, err = l.start(ctx, conn)
	}
	if err != nil {
		pool.Close()
		if conn != nil {
			conn.Close()
		}
		return err
	}
	l.conn = conn
	if l.dialer.NeedsPerson() { // known only after the login
		pool.Close()
		pool = l.pool(first)
	} else {
		l.host.Redial = l.redial(client)
	}
	if l.config.Helper && !l.channelNeedsPerson() {
		l.host.Helper = l.help
	}
	l.host.Client, l.host.Pool = client, pool
	l.host.Identity = l.identity(conn)
	return nil
}

// start opens the first session and sends the hinted request along with its INIT.
func (l *Login) start(ctx context.Context, conn *dial.Conn) (*usftp.Client, error) {
	options := l.options()
	var r *firstRequest
	if path := cmp.Or(l.config.Source, l.config.Look); path != "" {
		r = &firstRequest{path: path, opens: l.config.Source != "", done: make(chan struct{})}
		options = append(options, private.WithFirstRequest(r.start))
	}
	client, err := conn.Client(ctx, options...)
	if r != nil && r.asked {
		r.trip = conn.RoundTrip()
		l.host.first = r
	}
	return client, err
}

// pending is a connection that is still being made.
type pending struct {
	ready chan struct{} // closed once the fields below are set
	dialed
	err error
}

func (p *pending) made(conn dialed, err error) {
	p.dialed, p.err = conn, err
	close(p.ready)
}

// Open implements Connection.
func (p *pending) Open(ctx context.Context) (*usftp.Client, error) {
	select {
	case <-p.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.dialed.Open(ctx)
}

// redial returns the Host.Redial that replaces a client. Of several copies that have lost it, the
// first makes a connection, which the others get: each connection of their own would end the one
// before.
func (l *Login) redial(lost *usftp.Client) func(context.Context) (Host, error) {
	return func(ctx context.Context) (Host, error) {
		select {
		case l.renewing <- struct{}{}:
			defer func() { <-l.renewing }()
		case <-ctx.Done():
			return Host{}, context.Cause(ctx)
		}
		if host := l.Host(); host.Client != lost && !Lost(host.Client) {
			return host, nil
		}
		if err := l.reconnect(ctx); err != nil {
			return Host{}, l.error(ctx, err)
		}
		return l.Host(), nil
	}
}

func (l *Login) reconnect(ctx context.Context) error {
	conn, err := l.dialer.Dial(ctx)
	if err != nil {
		return err
	}
	client, err := conn.Client(ctx, l.options()...)
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
	l.conn, l.host.Client, l.host.first, l.helper = conn, client, nil, nil
	l.host.Redial = l.redial(client)
	l.host.Pool = l.pool(dialed{conn, l.options()})
	l.host.Identity = l.identity(conn)
	return nil
}

// identity identifies a host by its key and the user's name on it. A master does not reveal the key:
// then the place counts to which the given name leads, since an alias may lead elsewhere tomorrow.
// The system's ssh reveals neither, so only the given name is left. An SFTP server of the user's
// choice may see other files.
func (l *Login) identity(conn *dial.Conn) string {
	name := cmp.Or(conn.Place(), fmt.Sprintf("%s:%d", l.target.UserHost(), l.target.Port))
	if key := conn.HostKey(); key != nil {
		name = conn.SSH().User() + "@" + ssh.FingerprintSHA256(key)
	}
	if server := l.config.Dial.SFTPServer; server != "" {
		name += " " + server
	}
	return name
}

func (l *Login) options() []usftp.ClientOption {
	return append([]usftp.ClientOption{usftp.WithLogger(l.logger()),
		private.WithOneHandle(l.target.UserHost(), &l.oneHandle)}, l.config.Client...)
}

func (l *Login) logger() *slog.Logger {
	return cmp.Or(l.config.Dial.Logger, slog.New(slog.DiscardHandler))
}

// pool returns a new pool.
func (l *Login) pool(first Connection) *Pool {
	connections, streams := l.config.Connections, l.config.Streams
	if l.host.Pool != nil { // its connection was lost
		streams = l.host.Pool.streams()
	}
	if connections == 0 && l.dialer.NeedsPerson() {
		connections = 1
	}
	if l.conn != nil && l.channelNeedsPerson() {
		streams = 1
	}
	return New(Config{
		First: first, Connections: connections, Streams: streams, Logger: l.logger(),
		Connect: func(ctx context.Context) (Connection, error) {
			conn, err := l.dialer.Dial(ctx)
			return dialed{conn, l.options()}, err
		},
	})
}

// channelNeedsPerson reports whether each channel needs a person, as with the system's ssh, where
// each is a login of its own.
func (l *Login) channelNeedsPerson() bool {
	return l.conn.SSH() == nil && l.dialer.NeedsPerson()
}

// error returns err with the host's name in front.
func (l *Login) error(ctx context.Context, err error) error {
	if errors.As(err, new(*dial.Error)) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return &dial.Error{Host: l.host.Name, Err: err}
}

// dialed adapts a connection of package dial to a Pool.
type dialed struct {
	*dial.Conn
	options []usftp.ClientOption
}

// Open implements Connection. If ctx ends it closes only the stream: Conn.Client would end the
// connection, and with it the sessions of others.
func (d dialed) Open(ctx context.Context) (*usftp.Client, error) {
	stream, err := d.Conn.Open(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := d.LimitSilence(ctx)
	defer stop()
	return stream.Client(ctx, slices.Concat([]usftp.ClientOption{
		usftp.WithServerVersion(d.ServerVersion())}, d.options)...)
}
