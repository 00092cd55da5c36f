package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"

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

// eager is an end of a pipe whose writes do not wait for the other end, since both ends of SSH
// begin with one.
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
	return connectAs(s, "u", auth...)
}

func connectAs(s *Server, user string, auth ...ssh.AuthMethod) (*ssh.Client, error) {
	client, theirs := net.Pipe()
	ours := newEager(client)
	go s.ServeConn(address{theirs})
	conn, channels, requests, err := ssh.NewClientConn(ours, "server", &ssh.ClientConfig{
		User: user, Auth: auth, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
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
			"keyboard-interactive": ssh.KeyboardInteractive(func(_, _ string, questions []string,
				_ []bool) ([]string, error) {
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
		for _, command := range []string{"", "ls", "rm -rf /", "scpx -f /", "sh -c 'scp -f /'"} {
			session, err := client.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			if err := session.RequestPty("xterm", 10, 10, nil); err == nil {
				t.Error("a terminal was made")
			}
			if err := session.RequestSubsystem("netconf"); err == nil {
				t.Error("another subsystem was started")
			}
			var stdout, stderr strings.Builder
			session.Stdout, session.Stderr = &stdout, &stderr
			if command == "" {
				err = session.Shell()
			} else {
				err = session.Start(command)
			}
			if err == nil {
				err = session.Wait()
			}
			var exit *ssh.ExitError
			if !errors.As(err, &exit) || exit.ExitStatus() != 1 || stdout.Len() > 0 ||
				!strings.Contains(stderr.String(), "only serves files") {
				t.Errorf("%q: %v, with %q and %q", command, err, &stdout, &stderr)
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
