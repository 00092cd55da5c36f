package ssh_test

import (
	"context"
	"errors"
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
