package dial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// OpenSSH's master (ControlMaster in ssh_config) is a connection that is already logged in. Its
// process opens channels for others over the socket that ControlPath names (PROTOCOL.mux, proxy
// mode).

const (
	// masterLimit is how long a master may take to accept us, and sessionLimit how long its server
	// may take to start SFTP. After that we log in ourselves.
	masterLimit  = 3 * time.Second
	sessionLimit = 10 * time.Second
)

// throughMaster returns a connection through the user's master, or nil if none answers. One is
// enough, since all would share its TCP connection.
func (d *Dialer) throughMaster(ctx context.Context, session bool) *Conn {
	path := d.s.controlPath
	if path == "" {
		return nil
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Type() != fs.ModeSocket || !ours(fi) {
		return nil
	}
	c, err := d.dialMaster(ctx, path, session)
	if err != nil {
		d.log.Info("not using the OpenSSH master", "host", d.s.alias, "socket", path, "error", err)
		return nil
	}
	d.log.Info("using the OpenSSH master", "host", d.s.alias, "socket", path)
	return c
}

func (d *Dialer) dialMaster(ctx context.Context, path string, session bool) (*Conn, error) {
	raw, err := (&net.Dialer{Timeout: masterLimit}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// The owner of the socket's file may not be the listener.
	if uid := peerUID(raw.(*net.UnixConn)); uid != os.Getuid() && uid != 0 {
		raw.Close()
		return nil, errors.New("somebody else's process listens on it")
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	socket := newSocket(raw, nil)
	raw.SetDeadline(time.Now().Add(masterLimit))
	conn, channels, requests, err := ssh.NewControlClientConn(socket)
	if err != nil {
		socket.Close()
		return nil, err
	}
	raw.SetDeadline(time.Time{})
	t := &masterTransport{xcryptoTransport: xcryptoTransport{ssh.NewClient(conn, channels,
		requests)}}
	c := newConn(d, t, &route{conn: socket}, nil)
	if session {
		first, trip, err := t.first(ctx, c, d.config.sftp())
		if err != nil {
			c.Close()
			return nil, err
		}
		c.first, c.roundTrip = first, trip
	}
	d.mu.Lock()
	d.masters++
	d.mu.Unlock()
	c.work.Go(func() {
		<-c.ctx.Done()
		d.mu.Lock()
		d.masters--
		d.mu.Unlock()
	})
	return c, nil
}

// A masterTransport goes through a master. A master closes our connection when it gets a global
// request, so keepalives are sent on a channel, where the server answers them.
type masterTransport struct {
	xcryptoTransport

	mu       sync.Mutex
	channels []*xcryptoChannel
}

func (t *masterTransport) session(ctx context.Context) (channel, error) {
	ch, err := t.xcryptoTransport.session(ctx)
	if err != nil {
		return nil, err
	}
	c := ch.(*xcryptoChannel)
	t.mu.Lock()
	t.channels = append(t.channels, c)
	t.mu.Unlock()
	go func() {
		c.ended()
		t.mu.Lock()
		t.channels = slices.DeleteFunc(t.channels, func(other *xcryptoChannel) bool {
			return other == c
		})
		t.mu.Unlock()
	}()
	return c, nil
}

// first opens a session for a program on c, the connection of t, and returns an estimate of the
// round trip. A master that takes too long is given up.
func (t *masterTransport) first(ctx context.Context, c *Conn, p program) (*firstSession,
	time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sessionLimit,
		&timeoutError{"asking for sftp", sessionLimit})
	defer cancel()
	ctx, stop := c.whileAlive(ctx)
	defer stop()
	giveUp := context.AfterFunc(ctx, func() { c.route.conn.Close() })
	began := time.Now()
	ch, err := t.session(ctx)
	if err != nil {
		return nil, 0, err
	}
	trip := time.Since(began)
	began = time.Now()
	ok, err := ch.run(ctx, p)
	if !giveUp() && err == nil {
		err = context.Cause(ctx)
	}
	return &firstSession{ch: ch, ok: ok}, min(trip, time.Since(began)), err
}

func (t *masterTransport) keepalive(context.Context) error {
	t.mu.Lock()
	channels := slices.Clone(t.channels)
	t.mu.Unlock()
	for _, c := range channels {
		if _, err := c.SendRequest("keepalive@openssh.com", true, nil); err == nil {
			return nil
		}
	}
	return fmt.Errorf("keepalive through a master without a channel: %w", errors.ErrUnsupported)
}

// end waits until the server has closed our channels. OpenSSH's master ends, and with it the
// connections of all others, if the server sends something for a channel whose client has gone.
func (t *masterTransport) end() {
	t.mu.Lock()
	channels := slices.Clone(t.channels)
	t.mu.Unlock()
	within(closeLimit, func() {
		for _, c := range channels {
			c.ended()
		}
	})
}

// beside returns the settings for a login of our own next to a connection through the master. It
// must not ask a person for anything, since they would see no reason for it.
func (s *settings) beside() *settings {
	own := *s
	own.batch = true
	return &own
}

// errMasterOnly is the error of further logins once one has proved to need a person.
var errMasterOnly = errors.New("only the connection through the OpenSSH master is possible: another login needs a person")
