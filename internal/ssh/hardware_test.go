package ssh_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math/big"
	"os"
	"slices"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A hardwareKey is what an agent shows of a key on a token: OpenSSH's PROTOCOL.u2f. Here software
// signs.
type hardwareKey struct {
	public  xssh.PublicKey
	flags   byte
	private func(message []byte) []byte
}

const (
	application = "ssh:"
	userPresent = 1
)

func newHardwareKey(t testing.TB, kind string) *hardwareKey {
	t.Helper()
	k := &hardwareKey{flags: userPresent}
	var blob []byte
	switch kind {
	case xssh.KeyAlgoSKED25519:
		public, private, err := ed25519.GenerateKey(rand.Reader)
		must(t, err)
		blob = xssh.Marshal(struct {
			Type        string
			Key         []byte
			Application string
		}{kind, public, application})
		k.private = func(m []byte) []byte { return ed25519.Sign(private, m) }
	case xssh.KeyAlgoSKECDSA256:
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		point, err := private.PublicKey.Bytes()
		must(t, err)
		blob = xssh.Marshal(struct {
			Type, Curve string
			Key         []byte
			Application string
		}{kind, "nistp256", point, application})
		k.private = func(m []byte) []byte {
			sum := sha256.Sum256(m)
			r, s, err := ecdsa.Sign(rand.Reader, private, sum[:])
			must(t, err)
			return xssh.Marshal(struct{ R, S *big.Int }{r, s})
		}
	}
	var err error
	k.public, err = xssh.ParsePublicKey(blob)
	must(t, err)
	return k
}

func (k *hardwareKey) PublicKey() xssh.PublicKey { return k.public }

func (k *hardwareKey) Sign(_ io.Reader, data []byte) (*xssh.Signature, error) {
	proof := binary.BigEndian.AppendUint32([]byte{k.flags}, 7) // the counter
	what, whom := sha256.Sum256(data), sha256.Sum256([]byte(application))
	return &xssh.Signature{Format: k.public.Type(), Rest: proof,
		Blob: k.private(slices.Concat(whom[:], proof, what[:]))}, nil
}

// TestHardwareKeysWithOpenSSH logs in to a real sshd with each type, by offering it and in one
// flight.
func TestHardwareKeysWithOpenSSH(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	for _, kind := range []string{xssh.KeyAlgoSKED25519, xssh.KeyAlgoSKECDSA256} {
		t.Run(kind, func(t *testing.T) {
			key := newHardwareKey(t, kind)
			must(t, os.WriteFile(s.AuthorizedKeys, xssh.MarshalAuthorizedKey(key.public), 0o600))
			cc, _ := userOf(t, s)
			cc.Auth = once(ssh.PublicKey(key))
			c, err := dialOpenSSH(t, s, cc)
			must(t, err)
			sftpInit(t, session(t, c, "sftp"))
			cc.Auth = nil
			cc.Flight = func(*ssh.Conn) *ssh.Flight {
				return &ssh.Flight{Signer: key, Subsystem: "sftp"}
			}
			c, err = dialOpenSSH(t, s, cc)
			must(t, err)
			ch, ok, err := c.FlightChannel(t.Context())
			if err != nil || !ok {
				t.Fatalf("the flight's channel: %v %v", ok, err)
			}
			sftpInit(t, ch)
		})
	}
}

// TestNobodyTouchedTheToken: a signature that the token made without its user is not accepted, as
// with OpenSSH: neither a user's nor a host's.
func TestNobodyTouchedTheToken(t *testing.T) {
	for _, kind := range []string{xssh.KeyAlgoSKED25519, xssh.KeyAlgoSKECDSA256} {
		t.Run(kind, func(t *testing.T) {
			key := newHardwareKey(t, kind)
			key.flags = 0
			cc, sc := clientConfig(key), serverConfig(t, key.public)
			if _, _, err, serverErr := tryConnect(cc, sc, nil); err == nil || serverErr == nil {
				t.Errorf("a user: %v, %v", err, serverErr)
			}
			user := signer(t, "ed25519")
			cc, sc = clientConfig(user), serverConfig(t, user.PublicKey())
			sc.HostKeys = []xssh.Signer{key}
			if _, _, err, serverErr := tryConnect(cc, sc, nil); err == nil || serverErr == nil {
				t.Errorf("a host: %v, %v", err, serverErr)
			}
		})
	}
}
