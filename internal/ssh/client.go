package ssh

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// ClientConfig configures a client. HostKey and User must be set.
type ClientConfig struct {
	User string
	// Version is our version line, "SSH-2.0-...".
	Version    string
	Algorithms Algorithms
	// RekeyBytes is how many bytes are sent or received before keys are exchanged again; 0 means 16
	// GiB.
	RekeyBytes int64
	// RekeyAfter is how long after an exchange of keys the next one begins; 0 means that only bytes
	// and packets count.
	RekeyAfter time.Duration
	// Window limits the sum to which the connection's receive windows may grow; 0 means 16 MiB.
	// Each starts at 2 MiB.
	Window int64
	// Buffers may be shared by connections.
	Buffers *Buffers

	// HostKey decides whether the server is the right one. The server has proved that it has the
	// key; algo is the signature's algorithm, and a certificate comes as *ssh.Certificate. It is
	// called once, and may take its time. The login returns its error unchanged.
	HostKey func(remote net.Addr, key xssh.PublicKey, algo string) error
	// Banner is called with the server's messages before the login. May be nil.
	Banner func(text string) error
	// Flight, if not nil, is called after the host key is accepted, and decides whether to log in
	// with one flight; nil means to log in as ssh does. conn has the server's version.
	Flight func(conn *Conn) *Flight
	// Auth chooses the next method, after "none" or the flight was refused, and after each further
	// refusal or partial success. Returning nil or an error gives up; the [*AuthError] wraps the
	// error.
	Auth func(*AuthContext) (AuthMethod, error)
	// Heard is called by the reading goroutine for each read that returned bytes. It must not
	// block. May be nil.
	Heard func(n int)
}

// Client exchanges keys and logs in. The caller limits the time by ctx or by conn's deadlines,
// which Client does not touch. Client takes over conn, and closes it if it returns an error.
func Client(ctx context.Context, conn net.Conn, config *ClientConfig) (*Conn, error) {
	if config.HostKey == nil {
		conn.Close()
		return nil, errors.New("ssh: the configuration has no HostKey")
	}
	algorithms, err := config.Algorithms.withDefaults()
	if err == nil {
		err = checkVersion(config.Version)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	t := newTransport(conn, config.Buffers, algorithms, config.RekeyBytes)
	t.client, t.rekeyAfter = true, config.RekeyAfter
	t.in.heard = config.Heard
	c := newConn(t, config.Window)
	c.user = config.User
	t.acceptHostKey = func(key xssh.PublicKey, algo string) error {
		return config.HostKey(conn.RemoteAddr(), key, algo)
	}
	l := &clientLogin{transport: t, conn: c, config: config}
	l.context.Conn = c
	t.afterNewKeys = l.firstMessages
	stop := context.AfterFunc(ctx, func() { t.end(context.Cause(ctx)) })
	defer stop()
	if err := t.handshake(config.Version, l.run); err != nil {
		if l.flightPending && ctx.Err() == nil { // even if the server's NEWKEYS has not arrived
			err = &FlightError{err, l.accepted}
		}
		return nil, err
	}
	c.limitGrowth()
	c.mux.start()
	return c, nil
}

// handshake does everything up to the login.
func (t *transport) handshake(version string, login func() error) error {
	t.out.propose = t.proposal
	err := t.sendVersion(version)
	if err == nil {
		err = t.readVersion()
	}
	if err == nil {
		err = t.firstExchange()
	}
	if err == nil {
		err = login()
	}
	if err == nil {
		return nil
	}
	err = cmp.Or(t.endReason(), err) // why the connection was closed, rather than that it was
	if protocol, ok := errors.AsType[*ProtocolError](err); ok {
		t.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
		t.out.urgent(disconnectMessage(reasonProtocolError, protocol.Text))
	}
	t.end(err)
	t.in.close()
	return err
}
