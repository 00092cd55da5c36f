package ssh_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/ssh"
)

// delayed is a connection whose writes arrive later.
type delayed struct {
	net.Conn
	mu    sync.Mutex
	queue [][]byte
	after time.Duration
}

func (d *delayed) Write(p []byte) (int, error) {
	at := time.Now().Add(d.after)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append(d.queue, append([]byte(nil), p...))
	time.AfterFunc(time.Until(at), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		next := d.queue[0]
		d.queue = d.queue[1:]
		d.Conn.Write(next)
	})
	return len(p), nil
}

// overLongLink joins a client and a server (see echo) over a link of 100 ms. It must run under
// synctest.
func overLongLink(t *testing.T, cc *ssh.ClientConfig, sc *ssh.ServerConfig) (c, s *ssh.Conn) {
	t.Helper()
	a, b := memPipe()
	a.(*memConn).in.limit, b.(*memConn).in.limit = 1<<30, 1<<30
	var err, serverErr error
	var wait sync.WaitGroup
	wait.Go(func() {
		s, serverErr = ssh.Server(&delayed{Conn: b, after: 50 * time.Millisecond}, sc)
		if serverErr == nil {
			go echo(s)
		}
	})
	c, err = ssh.Client(context.Background(), &delayed{Conn: a, after: 50 * time.Millisecond}, cc)
	if wait.Wait(); err != nil || serverErr != nil {
		t.Fatalf("client: %v; server: %v", err, serverErr)
	}
	return c, s
}

// TestRoundTripsOfLogin counts the round trips until the subsystem is granted and the client may
// send to it, without TCP's handshake.
func TestRoundTripsOfLogin(t *testing.T) {
	user := signer(t, "ed25519")
	for _, c := range []struct {
		name string
		want time.Duration
	}{{"in one flight", 250 * time.Millisecond}, {"with a password", 250 * time.Millisecond},
		{"as ssh does", 650 * time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
				switch c.name {
				case "in one flight":
					cc.Flight = func(*ssh.Conn) *ssh.Flight {
						return &ssh.Flight{Signer: user, Subsystem: "sftp"}
					}
				case "with a password":
					sc.Auth.PasswordCallback = takes("secret")
					cc.Flight = func(*ssh.Conn) *ssh.Flight {
						return &ssh.Flight{Password: "secret", Subsystem: "sftp"}
					}
				}
				began := time.Now()
				client, server := overLongLink(t, cc, sc)
				ch, ok, err := client.FlightChannel(context.Background())
				if err != nil {
					t.Fatal(ok, err)
				}
				if ch == nil {
					ch = session(t, client, "sftp")
				}
				if _, err := ch.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > c.want {
					t.Errorf("it took %v", took)
				}
				end(client, server)
			})
		})
	}
}

// TestWindowsGrow sends 64 MiB over a link of 100 ms, both ways. With windows of 2 MiB that takes
// 32 round trips. With a larger budget it takes fewer, and no window exceeds the budget.
func TestWindowsGrow(t *testing.T) {
	user := signer(t, "ed25519")
	const size = 64 << 20
	for _, c := range []struct {
		name   string
		peer   string
		budget int64
		window int64 // at most, in the end
		most   time.Duration
	}{
		{"16 MiB", "server", 16 << 20, 16 << 20, 1500 * time.Millisecond},
		{"64 MiB", "server", 64 << 20, 64 << 20, time.Second},
		{"none", "server", 1, 2 << 20, 10 * time.Second},
		{"OpenSSH, which moves what it queues", "OpenSSH_9.6", 16 << 20, 4 << 20, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
				cc.Window, sc.Window, sc.Version = c.budget, c.budget, "SSH-2.0-"+c.peer
				client, server := overLongLink(t, cc, sc)
				ch := session(t, client, "echo")
				began := time.Now()
				go func() {
					p := make([]byte, 1<<20)
					for range size / len(p) {
						ch.Write(p)
					}
					ch.CloseWrite()
				}()
				n, err := io.Copy(io.Discard, ch)
				if n != size || err != nil {
					t.Fatal(n, err)
				}
				took := time.Since(began)
				t.Logf("%v, window %d", took, ch.Window())
				if took > c.most {
					t.Errorf("it took %v", took)
				}
				if w := ch.Window(); w > c.window {
					t.Errorf("the window is %d", w)
				}
				end(client, server)
			})
		})
	}
}

// TestWindowsOfAUser: what a user's connections grow by is limited, and leaves others their share.
func TestWindowsOfAUser(t *testing.T) {
	const share = 6 << 20
	user := signer(t, "ed25519")
	synctest.Test(t, func(t *testing.T) {
		sc := serverConfig(t, user.PublicKey())
		sc.Windows = ssh.NewWindows(2*share, share)
		var conns []*ssh.Conn
		for _, c := range []struct {
			user string
			want int64
		}{{"ann", share}, {"ann", 0}, {"bob", share}} {
			cc := clientConfig(user)
			cc.User = c.user
			client, server := overLongLink(t, cc, sc)
			if _, err := session(t, client, "sink").Write(make([]byte, 64<<20)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // until everything has arrived
			if grown := ssh.Grown(server); grown != c.want {
				t.Errorf("the windows of %s have grown by %d bytes, not %d", c.user, grown, c.want)
			}
			conns = append(conns, client, server)
		}
		end(conns...)
	})
}

// TestWindowsOfAllConnections: windows grow by no more than what connections share. A connection
// that ends returns its share, whether or not it has closed its channels.
func TestWindowsOfAllConnections(t *testing.T) {
	const share, size = 6 << 20, 64 << 20
	user := signer(t, "ed25519")
	synctest.Test(t, func(t *testing.T) {
		sc := serverConfig(t, user.PublicKey())
		sc.Windows = ssh.NewWindows(share, share)
		fill := func() (client, server *ssh.Conn) {
			client, server = overLongLink(t, clientConfig(user), sc)
			ch := session(t, client, "sink")
			if _, err := ch.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // until everything has arrived
			return client, server
		}
		client, first := fill()
		other, second := fill()
		if a, b := ssh.Grown(first), ssh.Grown(second); a != share || b != 0 {
			t.Errorf("windows have grown by %d and %d bytes, and may by %d", a, b, share)
		}
		end(client, first)
		client, third := fill()
		if grown := ssh.Grown(third); grown != share {
			t.Errorf("after the first has hung up windows have grown by %d bytes", grown)
		}
		end(client, third, other, second)
	})
}
