package ssh_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/ssh"
)

// TestTimeBeforeLogin: however a client spends its time, the server gives it up in time.
func TestTimeBeforeLogin(t *testing.T) {
	const limit = 30 * time.Second
	user := signer(t, "ed25519")
	words := ssh.FirstWords("")
	says := func(p []byte) func(net.Conn) {
		return func(c net.Conn) { c.Write(p) }
	}
	login := func(conn net.Conn, spend func()) {
		cc := clientConfig(user)
		cc.Auth = func(*ssh.AuthContext) (ssh.AuthMethod, error) {
			spend()
			return askFor("wrong"), nil
		}
		ssh.Client(context.Background(), conn, cc)
	}
	for _, c := range []struct {
		name  string
		spend func(net.Conn)
	}{
		{"silent", says(nil)},
		{"a version", says([]byte("SSH-2.0-x\r\n"))},
		{"half a KEXINIT", says(words[:len(words)/2])},
		{"no public value", says(words)},
		{"a byte per second", func(c net.Conn) {
			for _, b := range words {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}},
		{"reads nothing", func(c net.Conn) {
			h := c.(*memConn).in
			h.mu.Lock()
			h.limit = 0
			h.mu.Unlock()
		}},
		{"no attempt", func(c net.Conn) { login(c, func() { time.Sleep(time.Hour) }) }},
		{"an attempt now and then", func(c net.Conn) {
			login(c, func() { time.Sleep(7 * time.Second) })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := serverConfig(t, user.PublicKey())
				sc.LoginTimeout = limit
				sc.Auth.PasswordCallback = takes("secret")
				a, b := memPipe()
				spent := make(chan struct{})
				go func() {
					c.spend(a)
					close(spent)
				}()
				synctest.Wait()
				began := time.Now()
				if _, err := ssh.Server(b, sc); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("it ended with %v", err)
				}
				if took := time.Since(began); took < limit || took > limit+2*time.Second {
					t.Errorf("it took %v", took)
				}
				a.Close()
				<-spent
			})
		})
	}
}
