package cli

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
	"github.com/usftp/usftp/transfer"
)

// hosts holds the connections of one run: one for each host, however many files are copied.
type hosts struct {
	config *dial.Config
	open   map[dial.Target]*host // by target, without a path

	connections, streams int   // most of them, to one host; 0 leaves it to the pool
	expected             int64 // bytes of the largest file that will go to a host, as far as that is known before logging in
}

// A host is one connection, or why there is none.
type host struct {
	transfer.Host
	conn *dial.Conn
	err  error
}

func newHosts(config *dial.Config) *hosts {
	return &hosts{config: config, open: make(map[dial.Target]*host)}
}

// get connects, or gives the connection that there is. told is true where its error was returned before.
func (h *hosts) get(ctx context.Context, t dial.Target) (found *host, told bool) {
	t.Path = ""
	if found, ok := h.open[t]; ok {
		return found, found.err != nil
	}
	found = h.connect(ctx, t)
	h.open[t] = found
	return found, false
}

func (h *hosts) close() {
	for _, host := range h.open {
		host.close()
	}
}

func (h *hosts) connect(ctx context.Context, t dial.Target) *host {
	found := &host{Host: transfer.Host{Name: t.UserHost()}}
	if err := h.login(ctx, t, found); err != nil {
		found.err = hostError(found.Name, err)
	}
	return found
}

// login connects, and has further connections begin to log in as soon as the first one's login is as good as done, where the file that will
// travel is large for the way.
func (h *hosts) login(ctx context.Context, t dial.Target, found *host) error {
	config := *h.config
	var pool *transfer.Pool
	config.Nearly = func(_ *dial.Dialer, roundTrip time.Duration) { pool.Expect(h.expected, roundTrip) }
	d, err := dial.New(ctx, t, &config)
	if err != nil {
		return err
	}
	first := &coming{ready: make(chan struct{})}
	pool = newPool(d, first, h.connections, h.streams, config.Logger)
	found.conn, err = d.Dial(ctx)
	first.arrived(connection{found.conn, config.Logger}, err)
	if err == nil {
		found.Client, err = startClient(ctx, found.conn, config.Logger)
	}
	if err != nil {
		pool.Close()
		return err
	}
	if d.NeedsPerson() {
		pool.Close()
		pool = newPool(d, first, h.connections, h.streams, config.Logger)
	} else {
		found.Redial = func(ctx context.Context) (transfer.Host, error) {
			return found.redial(ctx, d, t, h.connections, h.streams, config.Logger)
		}
	}
	found.Identity, found.Pool = identityOf(found.conn, t), pool
	return nil
}

// coming is a connection that is being made.
type coming struct {
	ready chan struct{} // closed when what follows is set
	connection
	err error
}

func (c *coming) arrived(conn connection, err error) {
	c.connection, c.err = conn, err
	close(c.ready)
}

// Open implements transfer.Connection.
func (c *coming) Open(ctx context.Context) (*usftp.Client, error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.connection.Open(ctx)
}

// redial takes the place of a connection that was lost, for this job and those that follow.
func (h *host) redial(ctx context.Context, d *dial.Dialer, t dial.Target, connections, streams int, log *slog.Logger) (transfer.Host, error) {
	conn, err := d.Dial(ctx)
	if err != nil {
		return transfer.Host{}, hostError(h.Name, err)
	}
	client, err := startClient(ctx, conn, log)
	if err != nil {
		conn.Close()
		return transfer.Host{}, hostError(h.Name, err)
	}
	h.close()
	h.Identity = identityOf(conn, t)
	h.conn, h.Client, h.Pool = conn, client, newPool(d, connection{conn, log}, connections, streams, log)
	return h.Host, nil
}

// identityOf tells a host from others in the journal, whatever it is called: by its key and the user's name there, and where the system's
// ssh keeps the key to itself by what was typed.
func identityOf(conn *dial.Conn, t dial.Target) string {
	if key := conn.HostKey(); key != nil {
		return conn.SSH().User() + "@" + ssh.FingerprintSHA256(key)
	}
	return fmt.Sprintf("%s:%d", t.UserHost(), t.Port)
}

// close ends what is open, all at once: whatever was done has been answered, and a round trip to say goodbye would be one too many.
func (h *host) close() {
	var closing sync.WaitGroup
	if h.Pool != nil {
		closing.Go(func() { h.Pool.Close() })
	}
	if h.Client != nil {
		closing.Go(func() { h.Client.Close() })
		if h.conn != nil && h.conn.SSH() != nil {
			<-h.Client.Done() // so that it knows by whom it was ended
		} else {
			closing.Wait() // a process should end by itself
		}
	}
	if h.conn != nil {
		closing.Go(func() { h.conn.Close() })
	}
	closing.Wait()
}

// newPool makes a pool of a host's connections.
func newPool(d *dial.Dialer, first transfer.Connection, connections, streams int, log *slog.Logger) *transfer.Pool {
	if connections == 0 && d.NeedsPerson() {
		connections = 1
	}
	return transfer.NewPool(transfer.PoolConfig{
		First: first, Connections: connections, Streams: streams, Logger: log,
		Connect: func(ctx context.Context) (transfer.Connection, error) {
			conn, err := d.Dial(ctx)
			return connection{conn, log}, err
		},
	})
}

// connection is a connection as a pool has it.
type connection struct {
	*dial.Conn
	log *slog.Logger
}

func (c connection) Open(ctx context.Context) (*usftp.Client, error) {
	return startClient(ctx, c.Conn, c.log)
}

// startClient begins to speak SFTP.
func startClient(ctx context.Context, conn *dial.Conn, log *slog.Logger) (*usftp.Client, error) {
	stream, err := conn.Open(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // the stream's end would wait for the server
	client, err := usftp.NewClientPipe(stream, stream,
		usftp.WithServerVersion(conn.ServerVersion()),
		usftp.WithChannelWindow(stream.Window()),
		usftp.WithKeepalive(conn.Keepalive),
		usftp.WithLogger(log))
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

// A startError is a stream on which SFTP did not begin. What a server has to say about it, it often says to standard error.
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

// hostError makes one sentence that begins with the host.
func hostError(name string, err error) error {
	var named *dial.Error
	var signal *interruption
	if errors.As(err, &named) || errors.As(err, &signal) {
		return err
	}
	return &dial.Error{Host: name, Err: err}
}
