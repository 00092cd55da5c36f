package ssh

import (
	"bytes"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// ServerConfig is what a server needs. HostKeys and Version must be set. It may be shared among
// connections.
type ServerConfig struct {
	Version    string
	HostKeys   []xssh.Signer
	Algorithms Algorithms // HostKeys among them are set by the keys
	RekeyBytes int64      // as ClientConfig's
	Window     int64      // as ClientConfig's
	Windows    *Windows   // bounds the windows of all connections that share it; nil does not
	Buffers    *Buffers

	// PreferAES has clients of OpenSSH's that know AES-GCM offered nothing else: they would rather
	// take chacha20-poly1305, which is slower by far where the processor has AES. KEXINIT then
	// waits for the client's, for 20 ms at most.
	PreferAES bool

	// LoginTimeout bounds all up to the login; 0 stands for a minute. conn's deadlines are used
	// for it, and reset.
	LoginTimeout time.Duration
	// MaxAuthTries is how many attempts may fail; 0 stands for 6, as OpenSSH has it.
	MaxAuthTries int
	// MaxChannels bounds the channels that are open at a time; 0 stands for 64.
	MaxChannels int

	// Auth are the methods that are not nil. A callback may take its time, and may return an
	// *xssh.PartialSuccessError, or an *xssh.BannerError. PublicKeyCallback is asked once for a
	// query and the signature behind it, and a success counts only once the signature is good.
	// GSSAPIWithMICConfig is not supported.
	Auth xssh.ServerAuthCallbacks
	// NoAuth, where it is not nil, is asked about "none".
	NoAuth func(conn xssh.ConnMetadata) (*xssh.Permissions, error)
	// Banner is what is said at the first attempt. May be nil.
	Banner func(conn xssh.ConnMetadata) string
	// AuthLog is told of each attempt; [ErrNoAuth] is "none". May be nil.
	AuthLog func(conn xssh.ConnMetadata, method string, err error)
	Heard   func(n int) // as ClientConfig's
}

const (
	loginTimeout = time.Minute
	maxAuthTries = 6
)

// Server exchanges keys and lets the client log in. conn is the connection's from now on, and
// closed where there is an error. The memory of a connection that is not logged in is at most
// 64 KiB.
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
	if own.MaxAuthTries == 0 {
		own.MaxAuthTries = maxAuthTries
	}
	if own.LoginTimeout == 0 {
		own.LoginTimeout = loginTimeout
	}
	t := newTransport(conn, config.Buffers, algorithms, config.RekeyBytes)
	t.hostKeys = config.HostKeys
	t.in.heard = config.Heard
	c := newConn(t, config.Window)
	c.mux.growth.shared = config.Windows
	if config.MaxChannels > 0 {
		c.mux.most = config.MaxChannels
	}
	c.mux.accepts = true
	l := &serverLogin{transport: t, conn: c, config: &own, callbacks: config.Auth}
	// Not a read deadline alone: a client that takes nothing must not hold a place either.
	deadline := time.Now().Add(own.LoginTimeout)
	if err := conn.SetDeadline(deadline); err != nil {
		conn.Close()
		return nil, err
	}
	if config.PreferAES {
		t.listen = func() ([]byte, error) { return t.listenFirst(deadline) }
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
	c.mux.start()
	return c, nil
}

const openSSH = "SSH-2.0-OpenSSH_"

// algorithms are those that are configured and for which there is a key.
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

// overture is how long the server waits to hear what a client can do before it says so itself.
// What takes longer comes over a link that is slower than any cipher.
const overture = 20 * time.Millisecond

// listenFirst hears the client's KEXINIT before ours leaves, and chooses what to offer. The
// payload is nil where it did not come in time.
func (t *transport) listenFirst(deadline time.Time) ([]byte, error) {
	if !bytes.HasPrefix(t.theirs, []byte(openSSH)) {
		return nil, nil
	}
	t.conn.SetReadDeadline(time.Now().Add(overture))
	defer t.conn.SetReadDeadline(deadline)
	p, err := t.firstKexInit()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var theirs kexInit
	if err := theirs.parse(p); err != nil {
		return nil, err
	}
	fast := slices.DeleteFunc(slices.Clone(t.algorithms.Ciphers),
		func(n string) bool { return !strings.HasSuffix(n, "-gcm@openssh.com") })
	knows := func(names []string) bool {
		return slices.ContainsFunc(fast, func(n string) bool { return slices.Contains(names, n) })
	}
	if knows(theirs.ciphers[0]) && knows(theirs.ciphers[1]) {
		t.algorithms.Ciphers = fast
	}
	return p, nil
}
