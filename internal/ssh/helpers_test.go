package ssh_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keyTypes are what signer knows.
var keyTypes = []string{"ed25519", "ecdsa256", "ecdsa384", "ecdsa521", "rsa", xssh.KeyAlgoSKED25519,
	xssh.KeyAlgoSKECDSA256}

// signer makes a key of a type.
func signer(t testing.TB, kind string) xssh.Signer {
	t.Helper()
	var key any
	var err error
	switch kind {
	case xssh.KeyAlgoSKED25519, xssh.KeyAlgoSKECDSA256:
		return newHardwareKey(t, kind)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ecdsa384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ecdsa521":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "rsa":
		key, err = rsaKey()
	default:
		t.Fatalf("no key of type %s", kind)
	}
	must(t, err)
	s, err := xssh.NewSignerFromKey(key)
	must(t, err)
	return s
}

// rsaKey is made only once, because that is slow.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) {
	return rsa.GenerateKey(rand.Reader, 2048)
})

// certify makes a certificate for a key.
func certify(t testing.TB, key xssh.Signer, kind uint32, principal string) xssh.Signer {
	t.Helper()
	cert := &xssh.Certificate{Key: key.PublicKey(), CertType: kind,
		ValidPrincipals: []string{principal},
		ValidBefore:     xssh.CertTimeInfinity}
	must(t, cert.SignCert(rand.Reader, signer(t, "ed25519")))
	s, err := xssh.NewCertSigner(cert, key)
	must(t, err)
	return s
}

// clientConfig is the configuration of a client with a key.
func clientConfig(key xssh.Signer) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User: "ann", Version: "SSH-2.0-test",
		HostKey: func(net.Addr, xssh.PublicKey, string) error { return nil },
		Auth:    once(ssh.PublicKey(key)),
	}
}

// once returns methods that are tried one after the other.
func once(methods ...ssh.AuthMethod) func(*ssh.AuthContext) (ssh.AuthMethod, error) {
	return func(*ssh.AuthContext) (ssh.AuthMethod, error) {
		if len(methods) == 0 {
			return nil, nil
		}
		m := methods[0]
		methods = methods[1:]
		return m, nil
	}
}

// serverConfig accepts the owner of key.
func serverConfig(t testing.TB, key xssh.PublicKey) *ssh.ServerConfig {
	return &ssh.ServerConfig{
		Version: "SSH-2.0-server", HostKeys: []xssh.Signer{signer(t, "ed25519")},
		Auth: xssh.ServerAuthCallbacks{PublicKeyCallback: letIn(key)},
	}
}

func letIn(want xssh.PublicKey) func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
	return func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), want.Marshal()) {
			return nil, io.ErrUnexpectedEOF
		}
		return &xssh.Permissions{Extensions: map[string]string{"who": "ann"}}, nil
	}
}

// connect joins a client and a server with a buffered pipe.
func connect(t testing.TB, cc *ssh.ClientConfig, sc *ssh.ServerConfig) (client, server *ssh.Conn) {
	t.Helper()
	c, s, err, serverErr := tryConnect(cc, sc, nil)
	if err != nil || serverErr != nil {
		t.Fatalf("client: %v; server: %v", err, serverErr)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

func tryConnect(cc *ssh.ClientConfig, sc *ssh.ServerConfig,
	wrap func(net.Conn) net.Conn) (client, server *ssh.Conn, clientErr, serverErr error) {
	near, b := testenv.TCPPair()
	a := net.Conn(near)
	if wrap != nil {
		a = wrap(a)
	}
	var wait sync.WaitGroup
	wait.Go(func() { server, serverErr = ssh.Server(b, sc) })
	client, clientErr = ssh.Client(context.Background(), a, cc)
	wait.Wait()
	return client, server, clientErr, serverErr
}

// echo serves a connection's sessions: "echo" returns what arrives, "sink" counts it, "source"
// sends 64 MiB.
func echo(conn *ssh.Conn) {
	for {
		offer, err := conn.Accept()
		if err != nil {
			return
		}
		ch, err := offer.Accept()
		if err != nil {
			return
		}
		go echoSession(ch)
	}
}

func echoSession(ch *ssh.Channel) {
	for {
		r, err := ch.NextRequest()
		if err != nil {
			return
		}
		name, _ := r.String()
		known := name == "echo" || name == "sink" || name == "source" || name == "sftp"
		r.Reply(known)
		if !known {
			continue
		}
		switch name {
		case "sink":
			io.Copy(io.Discard, ch)
		case "source":
			p := pattern(1 << 20)
			for range 64 {
				if _, err := ch.Write(p); err != nil {
					break
				}
			}
		default:
			io.Copy(ch, ch)
		}
		ch.Stderr().Write([]byte("done"))
		ch.CloseWrite()
		ch.SendRequest("exit-status", false, []byte{0, 0, 0, 7})
		ch.Close()
		return
	}
}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}

// session opens a channel and starts a subsystem.
func session(t testing.TB, c *ssh.Conn, subsystem string) *ssh.Channel {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ch, err := c.Open(ctx, "session", nil)
	must(t, err)
	ok, err := ch.Request(ctx, "subsystem", true, xssh.Marshal(struct{ S string }{subsystem}))
	must(t, err)
	if !ok {
		t.Fatalf("the subsystem %s was refused", subsystem)
	}
	return ch
}
