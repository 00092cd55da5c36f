package ssh

import (
	"cmp"
	"errors"
	"net"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// ServerConfig configures a server. HostKeys and Version must be set. Connections may share it.
type ServerConfig struct {
	Version    string
	HostKeys   []xssh.Signer
	Algorithms Algorithms // the keys determine its HostKeys
	RekeyBytes int64      // as in ClientConfig
	Window     int64      // as in ClientConfig
	Windows    *Windows   // limits the windows of all connections that share it; may be nil
	Buffers    *Buffers

	// LoginTimeout limits the time up to the end of the login; 0 means a minute. It uses conn's
	// deadlines, and resets them.
	LoginTimeout time.Duration
	// MaxAuthTries limits how many attempts may fail; 0 means 6, as in OpenSSH.
	MaxAuthTries int
	// MaxChannels limits the channels open at once; 0 means 64.
	MaxChannels int

	// Auth holds the allowed methods; nil ones are not offered. A callback may take its time, and
	// may return an *xssh.PartialSuccessError or an *xssh.BannerError. PublicKeyCallback is called
	// once for a query and the signature that follows, but for each if the key is longer than 2
	// KiB, and a success counts only once the signature has been verified. GSSAPIWithMICConfig is
	// not supported.
	Auth xssh.ServerAuthCallbacks
	// ChangePassword, if not nil, decides on a request to change a password while PasswordCallback
	// may be called. Both may return a *[PasswordChangeError].
	ChangePassword func(conn xssh.ConnMetadata, old, fresh []byte) (*xssh.Permissions, error)
	// NoAuth, if not nil, decides on "none".
	NoAuth func(conn xssh.ConnMetadata) (*xssh.Permissions, error)
	// Banner returns a message to send at the first attempt. May be nil.
	Banner func(conn xssh.ConnMetadata) string
	// AuthLog is called for each attempt; [ErrNoAuth] stands for "none". May be nil.
	AuthLog func(conn xssh.ConnMetadata, method string, err error)
	Heard   func(n int) // as in ClientConfig
}

const (
	loginTimeout = time.Minute
	maxAuthTries = 6
)

// Server exchanges keys and authenticates the client. It takes over conn, and closes it if it
// returns an error. A connection that is not logged in takes at most 64 KiB of memory, or up to 300
// KiB while PublicKeyCallback looks at a long certificate.
func Server(conn net.Conn, config *ServerConfig) (*Conn, error) {
	algorithms, err := config.algorithms()
	if err == nil {
		err = checkVersion(config.Version)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	own := *config
	own.MaxAuthTries = cmp.Or(own.MaxAuthTries, maxAuthTries)
	own.LoginTimeout = cmp.Or(own.LoginTimeout, loginTimeout)
	t := newTransport(conn, config.Buffers, algorithms, config.RekeyBytes)
	t.hostKeys = config.HostKeys
	t.in.heard = config.Heard
	c := newConn(t, config.Window)
	c.mux.growth.shared = config.Windows
	if config.MaxChannels > 0 {
		c.mux.maxChannels = config.MaxChannels
	}
	c.mux.accepts = true
	l := &serverLogin{transport: t, conn: c, config: &own, callbacks: config.Auth}
	// Not only a read deadline: a client that reads nothing must not keep its place either.
	deadline := time.Now().Add(own.LoginTimeout)
	if err := conn.SetDeadline(deadline); err != nil {
		conn.Close()
		return nil, err
	}
	err = t.handshake(config.Version, func() (err error) {
		c.perm, err = l.run()
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		t.end(err)
		return nil, err
	}
	c.limitGrowth()
	c.mux.growth.user = c.User()
	c.mux.start()
	return c, nil
}

// algorithms returns the configured algorithms for which there is a key.
func (c *ServerConfig) algorithms() (Algorithms, error) {
	a := c.Algorithms
	a.HostKeys = nil
	for _, algo := range hostKeyAlgos {
		if hostSigner(c.HostKeys, algo) != nil {
			a.HostKeys = append(a.HostKeys, algo)
		}
	}
	if len(a.HostKeys) == 0 {
		return a, errors.New("ssh: the configuration has no host key that can be used")
	}
	return a.withDefaults()
}
