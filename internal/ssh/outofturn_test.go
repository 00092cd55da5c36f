package ssh_test

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
)

// TestKeysOutOfTurn: a message of a key exchange that nobody has begun ends the connection.
func TestKeysOutOfTurn(t *testing.T) {
	for name, message := range map[string][]byte{"NEWKEYS": ssh.NewKeys(), "KEXDH_INIT": {30},
		"the last number": {49}} {
		for _, who := range []string{"client", "server"} {
			user := signer(t, "ed25519")
			sends, gets := connect(t, clientConfig(user), serverConfig(t, user.PublicKey()))
			if who == "server" {
				sends, gets = gets, sends
			}
			must(t, ssh.Inject(sends, message))
			<-gets.Done()
			if _, ok := errors.AsType[*ssh.ProtocolError](gets.Err()); !ok {
				t.Errorf("%s from the %s: %v", name, who, gets.Err())
			}
		}
	}
}

// TestOldKeysAfterNewKeys: what comes in one piece is opened at once, and so a message that follows
// NEWKEYS could have been opened under the old keys, or measured if only its beginning has come. It
// must not be taken: under the new keys it may be shorter than its MAC.
func TestOldKeysAfterNewKeys(t *testing.T) {
	for name, more := range map[string]struct {
		cipher   string
		messages [][]byte
		begun    []byte
	}{
		"a message":                {xssh.CipherAES128GCM, [][]byte{ssh.Goodbye()}, nil},
		"the beginning of another": {xssh.CipherAES128CTR, nil, []byte{0, 0, 0, 16}},
	} {
		t.Run(name, func(t *testing.T) {
			user := signer(t, "ed25519")
			cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
			cc.Algorithms.KeyExchanges = []string{xssh.KeyExchangeCurve25519}
			cc.Algorithms.Ciphers = []string{xssh.CipherAES128GCM}
			client, server, err, serverErr := shake(cc, sc, same, same)
			if err != nil || serverErr != nil {
				t.Fatal(err, serverErr)
			}
			defer end(client, server)
			key, err := ecdh.X25519().GenerateKey(rand.Reader)
			must(t, err)
			must(t, ssh.ExchangeAndMore(client, key.PublicKey().Bytes(), more.cipher,
				xssh.HMACSHA512, more.messages, more.begun))
			<-server.Done()
			protocol, ok := errors.AsType[*ssh.ProtocolError](server.Err())
			if !ok || !strings.Contains(protocol.Text, "under the old keys") {
				t.Errorf("the server took it: %v", server.Err())
			}
		})
	}
}

// TestLongMessage: what no peer would accept is refused, and what fits is sent.
func TestLongMessage(t *testing.T) {
	user := signer(t, "ed25519")
	client, server := connect(t, clientConfig(user), serverConfig(t, user.PublicKey()))
	go echo(server)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ch, err := client.Open(ctx, "session", nil)
	must(t, err)
	for _, size := range []int{250 << 10, 257 << 10, 290 << 10, 1 << 20} {
		command := xssh.Marshal(struct{ S string }{string(make([]byte, size))})
		_, err := ch.Request(ctx, "exec", true, command)
		if long := size > 256<<10; (err != nil) != long {
			t.Errorf("%d bytes: %v", size, err)
		}
		if _, _, err := client.SendRequest(ctx, "x", true, command); (err != nil) != (size > 256<<10) {
			t.Errorf("a global request of %d bytes: %v", size, err)
		}
	}
	must(t, client.Err())
}
