package ssh

import (
	"context"
	"errors"
	"net"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// ClientConfig is what a client needs. HostKey and User must be set.
type ClientConfig struct {
	User string
	// Version is our line, "SSH-2.0-...".
	Version    string
	Algorithms Algorithms
	// RekeyBytes is after how many bytes, in either direction, keys are exchanged; 0 stands for
	// 16 GiB.
	RekeyBytes int64
	// Window is what receiving windows may grow to, all of the connection's together; 0 stands for
	// 16 MiB. Each begins with 2 MiB.
	Window int64
	// Buffers may be shared among connections.
	Buffers *Buffers

	// HostKey decides whether the server is the right one. The server has proved to have the key;
	// algo is the signature's algorithm, and a certificate comes as *ssh.Certificate. It is asked
	// once, and may take its time. Its error is the login's, as it is.
	HostKey func(remote net.Addr, key xssh.PublicKey, algo string) error
	// Banner is given what the server says before the login. May be nil.
	Banner func(text string) error
	// Flight, where it is not nil, is asked once the host key is accepted whether to log in with
	// one flight; nil is ssh's own way. The server's version and key are in conn.
	Flight func(conn *Conn) *Flight
	// Auth chooses the next method, after "none" or the flight was refused, and after each further
	// refusal or partial success. nil, or an error, gives up; the error is in the [*AuthError].
	Auth func(*AuthContext) (AuthMethod, error)
	// Heard is called with each read that brought something, by the goroutine that reads. It must
	// not block. May be nil.
	Heard func(n int)
}

// Client exchanges keys and logs in. The caller bounds its time: with ctx, or with conn's
// deadlines, which Client does not touch. Whatever it returns, conn is the connection's from now
// on, and closed where there is an error.
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
	t.client = true
	t.in.heard = config.Heard
	c := newConn(t, config.Window)
	c.user = config.User
	t.acceptHostKey = func(key xssh.PublicKey, algo string) error {
		t.hostKey = key // for Flight
		return config.HostKey(conn.RemoteAddr(), key, algo)
	}
	l := &clientLogin{transport: t, conn: c, config: config}
	l.context.Conn = c
	t.follow = l.firstWords
	stop := context.AfterFunc(ctx, func() { t.end(context.Cause(ctx)) })
	defer stop()
	if err := t.handshake(config.Version, l.run); err != nil {
		return nil, err
	}
	c.limitGrowth()
	c.mux.start()
	return c, nil
}

// handshake is all up to the login.
func (t *transport) handshake(version string, login func() error) error {
	t.out.propose = t.proposal
	err := t.sendVersion(version, t.listen == nil)
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
	select {
	case <-t.ended:
		err = t.reason // what closed the connection, not that it is closed
	default:
	}
	var protocol *ProtocolError
	if errors.As(err, &protocol) {
		t.conn.SetWriteDeadline(time.Now().Add(lastWords))
		t.out.urgent(appendDisconnect(nil, reasonProtocolError, protocol.Text))
	}
	t.end(err)
	t.in.close()
	return err
}
