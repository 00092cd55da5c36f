package sshd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// onlyPassword lets "u" in with "secret".
func onlyPassword(access *Access) Config {
	return Config{Password: func(conn ssh.ConnMetadata, password string) (*Access, error) {
		if conn.User() != "u" || password != "secret" {
			return nil, errors.New("no")
		}
		return access, nil
	}}
}

func newServer(t *testing.T, config Config) *Server {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// address is the far end of a pipe, with an address.
type address struct{ net.Conn }

func (address) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1} }

// eager is an end of a pipe whose writes do not wait for the other end: both ends of SSH begin with one.
type eager struct {
	net.Conn
	queue chan []byte
	gone  chan struct{}
	once  sync.Once
}

func newEager(conn net.Conn) *eager {
	e := &eager{Conn: conn, queue: make(chan []byte, 1000), gone: make(chan struct{})}
	go func() {
		for {
			select {
			case p := <-e.queue:
				if _, err := conn.Write(p); err != nil {
					return
				}
			case <-e.gone:
				return
			}
		}
	}()
	return e
}

func (e *eager) Write(p []byte) (int, error) {
	select {
	case e.queue <- bytes.Clone(p):
		return len(p), nil
	case <-e.gone:
		return 0, net.ErrClosed
	}
}

func (e *eager) Close() error {
	e.once.Do(func() { close(e.gone) })
	return e.Conn.Close()
}

// connect logs in to s over a pipe.
func connect(s *Server, auth ...ssh.AuthMethod) (*ssh.Client, error) {
	client, theirs := net.Pipe()
	ours := newEager(client)
	go s.ServeConn(address{theirs})
	conn, channels, requests, err := ssh.NewClientConn(ours, "server", &ssh.ClientConfig{
		User: "u", Auth: auth, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		ours.Close()
		return nil, err
	}
	return ssh.NewClient(conn, channels, requests), nil
}

func mustConnect(t *testing.T, s *Server) *ssh.Client {
	t.Helper()
	client, err := connect(s, ssh.Password("secret"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// sftp starts SFTP on a channel of its own and greets.
func sftp(client *ssh.Client) (ssh.Channel, error) {
	channel, requests, err := client.OpenChannel("session", nil)
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(requests)
	ok, err := channel.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"}))
	if err != nil || !ok {
		return nil, fmt.Errorf("subsystem: %v, %v", ok, err)
	}
	if _, err := channel.Write(wire.Init{Version: 3}.Append(nil)); err != nil {
		return nil, err
	}
	_, err = receive(channel)
	return channel, err
}

func receive(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	body := make([]byte, int(head[2])<<8|int(head[3]))
	_, err := io.ReadFull(r, body)
	return body, err
}

func TestLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		for name, auth := range map[string]ssh.AuthMethod{
			"password": ssh.Password("secret"),
			"keyboard-interactive": ssh.KeyboardInteractive(func(_, _ string, questions []string, _ []bool) ([]string, error) {
				return []string{"secret"}, nil
			}),
		} {
			client, err := connect(s, auth)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if _, err := sftp(client); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			client.Close()
		}
		if _, err := connect(s, ssh.Password("wrong")); err == nil {
			t.Error("a wrong password was taken")
		}
	})
}

func TestOnlyFilesAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := mustConnect(t, newServer(t, onlyPassword(&Access{FS: memfs.New(0)})))
		for _, command := range []string{"ls", "rm -rf /", "scpx -f /", "sh -c 'scp -f /'"} {
			session, err := client.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			if err := session.Start(command); err == nil {
				t.Errorf("%q was started", command)
			}
			if err := session.Shell(); err == nil {
				t.Error("a shell was started")
			}
			if err := session.RequestPty("xterm", 10, 10, nil); err == nil {
				t.Error("a terminal was made")
			}
			if err := session.RequestSubsystem("netconf"); err == nil {
				t.Error("another subsystem was started")
			}
			session.Close()
		}
		if _, err := client.Dial("tcp", "127.0.0.1:1"); err == nil {
			t.Error("a port was forwarded")
		}
		if _, err := client.Listen("tcp", "127.0.0.1:0"); err == nil {
			t.Error("a port was forwarded")
		}
	})
}

func TestBansAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		for range freeFailures + 3 {
			if _, err := connect(s, ssh.Password("wrong")); err == nil {
				t.Fatal("a wrong password was taken")
			}
		}
		if _, err := connect(s, ssh.Password("secret")); err == nil {
			t.Error("a banned address got in")
		}
		time.Sleep(2 * firstBan)
		mustConnect(t, s)

		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.Exempt = func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.7") }
		s = newServer(t, config)
		for range freeFailures + 3 {
			connect(s, ssh.Password("wrong"))
		}
		mustConnect(t, s)

		config.Exempt, config.MaxLoginsEach = nil, 3
		s = newServer(t, config)
		var silent []net.Conn
		for range 3 {
			ours, theirs := net.Pipe()
			go s.ServeConn(address{theirs})
			silent = append(silent, ours)
		}
		synctest.Wait()
		began := time.Now()
		if _, err := connect(s, ssh.Password("secret")); err == nil {
			t.Error("a fourth connection was let in")
		}
		if waited := time.Since(began); waited != 15*time.Second {
			t.Errorf("it was closed after %v", waited)
		}
		// Those that say nothing are closed in time, and whoever waits comes in.
		time.Sleep(5 * time.Second)
		began = time.Now()
		mustConnect(t, s)
		if waited := time.Since(began); waited > 20*time.Second {
			t.Errorf("it came in after %v", waited)
		}
		for _, conn := range silent {
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Error(err)
			}
		}
		mustConnect(t, s)
	})
}

func TestSessionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := &Access{FS: memfs.New(0), Sessions: NewSessionLimit(3)}
		config := onlyPassword(access)
		config.MaxSessions = 2
		s := newServer(t, config)
		first, second := mustConnect(t, s), mustConnect(t, s)
		open := func(client *ssh.Client, want bool) ssh.Channel {
			t.Helper()
			channel, err := sftp(client)
			if (err == nil) != want {
				t.Errorf("a session: %v", err)
			}
			return channel
		}
		open(first, true)
		channel := open(first, true)
		open(first, false) // of the connection
		open(second, true)
		open(second, false) // of the user
		channel.Close()
		synctest.Wait()
		open(second, true)
	})
}

// slowFS takes its time to describe a file.
type slowFS struct {
	*memfs.FS
	delay time.Duration
}

func (f slowFS) Stat(ctx context.Context, name string) (os.FileInfo, error) {
	time.Sleep(f.delay)
	return f.FS.Stat(ctx, name)
}

func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: slowFS{memfs.New(0), time.Hour}})
		config.IdleTimeout = time.Minute
		s := newServer(t, config)
		client := mustConnect(t, s)
		channel, err := sftp(client)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			client.Wait()
			close(ended)
		}()
		isEnded := func() bool {
			synctest.Wait()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
		// A little now and then keeps it, as does what the server is at.
		for range 10 {
			time.Sleep(40 * time.Second)
			channel.Write(wire.PathRequest{Type: wire.TypeRealpath, Path: "/"}.Append(nil, 1))
			if _, err := receive(channel); err != nil {
				t.Fatal(err)
			}
		}
		channel.Write(wire.PathRequest{Type: wire.TypeStat, Path: "/"}.Append(nil, 2))
		if _, err := receive(channel); err != nil {
			t.Fatalf("a slow request was not waited for: %v", err)
		}
		time.Sleep(50 * time.Second)
		if isEnded() {
			t.Error("ended too early")
		}
		time.Sleep(50 * time.Second)
		if !isEnded() {
			t.Error("an idle connection stays")
		}
	})
}

func TestShutdownLetsSessionsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		idle, busy := mustConnect(t, s), mustConnect(t, s)
		channel, err := sftp(busy)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		idle.Wait() // is closed at once
		if _, err := sftp(busy); err == nil {
			t.Error("a new session began")
		}
		if _, err := connect(s, ssh.Password("secret")); err == nil {
			t.Error("a new connection began")
		}
		channel.Write(wire.PathRequest{Type: wire.TypeRealpath, Path: "/"}.Append(nil, 1))
		if _, err := receive(channel); err != nil {
			t.Errorf("the session that ran: %v", err)
		}
		channel.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		busy.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		client := mustConnect(t, s)
		if _, err := sftp(client); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a session that does not end: %v", err)
		}
		client.Wait()
	})
}

func TestBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 100 << 10
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0), Bandwidth: NewBandwidth(rate)}))
		client := mustConnect(t, s)
		for _, direction := range []string{"up", "down"} {
			session, err := client.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			const size = 1 << 20
			began := time.Now()
			if direction == "up" {
				session.Stdin = strings.NewReader(fmt.Sprintf("C0644 %d f\n", size) + strings.Repeat("x", size) + "\x00")
				err = session.Run("scp -t /f")
			} else {
				session.Stdin = strings.NewReader(strings.Repeat("\x00", 10))
				err = session.Run("scp -f /f")
			}
			if err != nil {
				t.Errorf("%s: %v", direction, err)
			}
			took := time.Since(began).Seconds()
			if want := float64(size) / rate; took < 0.9*want || took > 1.2*want {
				t.Errorf("%s: %.1f s, want %.1f", direction, took, want)
			}
		}
	})
}

func TestDirectoryCanBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passwords, err := ParsePasswords("users", []byte("u:"+argon2Line("secret", 64)+"\nother:"+argon2Line("x", 64)))
		if err != nil {
			t.Fatal(err)
		}
		user := User{Name: "u", FS: memfs.New(0), MaxSessions: 1}
		d, err := NewDirectory(Accounts{Users: []User{user}, Passwords: passwords})
		if err != nil {
			t.Fatal(err)
		}
		s := newServer(t, Config{Password: d.Password, PublicKey: d.PublicKey})
		client := mustConnect(t, s)
		if _, err := sftp(client); err != nil {
			t.Fatal(err)
		}
		user.Policy = server.Policy{ReadOnly: true}
		if err := d.Set(Accounts{Users: []User{user}, Passwords: passwords}); err != nil {
			t.Fatal(err)
		}
		if _, err := sftp(mustConnect(t, s)); err == nil {
			t.Error("the bound on sessions has forgotten one")
		}
		if err := d.Set(Accounts{Passwords: passwords}); err != nil {
			t.Fatal(err)
		}
		if _, err := connect(s, ssh.Password("secret")); err == nil {
			t.Error("a user who is gone got in")
		}
		for _, bad := range [][]User{{{Name: "u"}}, {{FS: user.FS}}, {user, user},
			{{Name: "u", FS: user.FS, Policy: server.Policy{Denied: []string{"reed"}}}}} {
			if err := d.Set(Accounts{Users: bad}); err == nil {
				t.Errorf("%+v was taken", bad)
			}
		}
	})
}

func TestReloadKeepsHostKeys(t *testing.T) {
	s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
	before := line(s.HostKeys()[0])
	if err := s.Reload(onlyPassword(&Access{FS: memfs.New(0)})); err != nil {
		t.Fatal(err)
	}
	if line(s.HostKeys()[0]) != before {
		t.Error("the host key has changed")
	}
	if err := s.Reload(Config{}); err == nil {
		t.Error("a configuration by which nobody gets in was taken")
	}
}

func TestLoadHostKeys(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	made, err := LoadHostKeys(name)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadHostKeys(name)
	if err != nil || line(again[0].PublicKey()) != line(made[0].PublicKey()) {
		t.Errorf("the key was not kept: %v", err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(name, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadHostKeys(name); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a damaged key: %v", err)
	}
}
