package usftp_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestOverSSH: the whole way, over SSH to OpenSSH's own server, whose version line says that it
// works in order.
func TestOverSSH(t *testing.T) {
	server := opensshd.Start(t, opensshd.Options{})
	key := must[[]byte](t)(os.ReadFile(server.IdentityFile))
	signer := must[ssh.Signer](t)(ssh.ParsePrivateKey(key))
	hostKey := must[[]byte](t)(os.ReadFile(server.HostKeys[0] + ".pub"))
	public, _, _, _, err := ssh.ParseAuthorizedKey(hostKey)
	ok(t, err)
	conn, err := ssh.Dial("tcp", fmt.Sprintf("%s:%d", server.Host, server.Port), &ssh.ClientConfig{
		User: server.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(public),
	})
	ok(t, err)
	defer conn.Close()
	client := must[*usftp.Client](t)(usftp.NewClient(conn))
	if !private.OfClient(client).WorksInOrder() {
		t.Error("OpenSSH's server is not known to work in order")
	}
	workout(t, client, t.TempDir())
	ok(t, client.Close())
	again := must[*usftp.Client](t)(usftp.NewClient(conn)) // closing a client leaves the connection
	must[string](t)(again.Getwd())
	ok(t, again.Close())
}
