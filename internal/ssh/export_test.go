package ssh

import (
	"fmt"
	"net"

	xssh "golang.org/x/crypto/ssh"
)

// Grown returns by how much a connection's windows have grown.
func Grown(c *Conn) int64 {
	c.mux.growth.mu.Lock()
	defer c.mux.growth.mu.Unlock()
	return c.mux.growth.taken
}

// RekeyAndGoOn starts a key exchange and lets data follow our KEXINIT under the old keys, which RFC
// 4253, section 7.1, forbids but asyncssh did.
func RekeyAndGoOn(c *Conn) error {
	o := c.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finish()
	o.startKex()
	o.kexing = false
	return o.flushLocked()
}

// LimitPackets makes a connection exchange keys after n packets in either direction. It must be
// called before the login is complete.
func LimitPackets(c *Conn, n uint64) { c.t.out.limits.packets = n }

// OccupyFirst opens a channel, so that the peer's first one gets number 1. It takes requests, and
// answers none.
func OccupyFirst(conn xssh.ConnMetadata) {
	m := conn.(*Conn).mux
	ch := newChannel(m)
	close(ch.opened)
	m.add(ch)
}

const (
	MaxUser   = maxUser
	MaxSecret = maxSecret
	LoginPing = loginPing
)

// FirstWords is what a client sends first: its version, and its KEXINIT, to which more is added as
// a key exchange.
func FirstWords(more string) []byte {
	k := Supported().kexInit(true, true)
	k.kex = append(k.kex, more)
	return append([]byte("SSH-2.0-x\r\n"), framed(k.append(nil))...)
}

// FramedLogin is a login without encryption: each request comes as a user and a method with its own
// part.
func FramedLogin(requests ...[3]string) []byte {
	messages := [][]byte{appendString([]byte{msgServiceRequest}, serviceUserAuth)}
	for _, r := range requests {
		messages = append(messages,
			(&authRequest{r[0], serviceConnection, r[1], []byte(r[2])}).append(nil))
	}
	return framed(messages...)
}

// FramedPing is a ping before the login, without encryption.
func FramedPing(data string) []byte { return framed(appendString([]byte{msgPing}, data)) }

// KeyQuery is the part of the method publickey that asks about a key.
func KeyQuery(key xssh.PublicKey) string {
	return string((&keyRequest{false, key.Type(), key.Marshal(), nil}).append(nil))
}

// PasswordAttempt is the part of the method password.
func PasswordAttempt(password string) string {
	return string(appendString(appendBool(nil, false), password))
}

// LoginOver lets a client log in without encryption. A password is handed to check. Permissions are
// those of the certificate key, and the user "quoted" gets an error that quotes it.
func LoginOver(conn net.Conn, key xssh.PublicKey, check func(password []byte) error) error {
	l := loginServerOn(conn, key)
	l.callbacks.PasswordCallback = func(_ xssh.ConnMetadata, p []byte) (*xssh.Permissions, error) {
		return nil, check(p)
	}
	l.callbacks.PublicKeyCallback = func(conn xssh.ConnMetadata, k xssh.PublicKey) (
		*xssh.Permissions, error) {
		cert := k.(*xssh.Certificate)
		if conn.User() == "quoted" {
			return nil, fmt.Errorf("a certificate for %q", cert.ValidPrincipals)
		}
		return &cert.Permissions, nil
	}
	_, err := l.run()
	l.end(ErrClosed)
	return err
}
