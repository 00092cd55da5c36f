package pool_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
)

// askingServer is an SSH server that asks questions before it lets anybody in, and then serves each
// channel. It sends to logins for each login.
func askingServer(t *testing.T, questions []string, answers []string, logins chan<- struct{},
	serve func(io.ReadWriteCloser)) (port int) {
	t.Helper()
	return testenv.Listen(t, askingConn(t, questions, answers, logins, serve)).Port
}

// askingConn returns a function that serves one connection of an askingServer.
func askingConn(t *testing.T, questions []string, answers []string, logins chan<- struct{},
	serve func(io.ReadWriteCloser)) func(net.Conn) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata,
		ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		got, err := ask("", "", questions, make([]bool, len(questions)))
		if err != nil || !slices.Equal(got, answers) {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	return func(conn net.Conn) {
		var work sync.WaitGroup
		defer work.Wait()
		server, channels, requests, err := ssh.NewServerConn(conn, config)
		if err != nil {
			return
		}
		defer server.Close()
		logins <- struct{}{}
		go ssh.DiscardRequests(requests)
		for fresh := range channels {
			channel, requests, err := fresh.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				for request := range requests {
					request.Reply(request.Type == "subsystem", nil)
				}
			})
			work.Go(func() { serve(channel) })
		}
	}
}

// TestLoginsThatNeedAPerson: where every login needs a person there is one connection, which is not
// replaced; a password typed once serves for further connections.
func TestLoginsThatNeedAPerson(t *testing.T) {
	for name, test := range map[string]struct {
		questions, answers []string
		needs              bool
	}{
		"a code":     {[]string{"Password: ", "Code: "}, []string{"secret", "123456"}, true},
		"a password": {[]string{"Password: "}, []string{"secret"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			logins := make(chan struct{}, 64)
			files := sftptest.NewServer(t, sftptest.Script{})
			port := askingServer(t, test.questions, test.answers, logins,
				func(c io.ReadWriteCloser) { files.Serve(c) })
			var mu sync.Mutex
			asked := 0
			prompter := dial.PrompterFunc(func(context.Context, dial.Prompt) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				asked++
				return test.answers[(asked-1)%len(test.answers)], nil
			})
			login, err := pool.Connect(t.Context(),
				dial.Target{User: "me", Host: "127.0.0.1", Port: port}, pool.ConnectConfig{
					Dial: &dial.Config{ConfigFile: "none", Prompter: prompter,
						Options: []string{"StrictHostKeyChecking=no", "UserKnownHostsFile=none"}}})
			if err != nil {
				t.Fatal(err)
			}
			host := login.Host()
			if (host.Redial == nil) != test.needs {
				t.Errorf("it can be replaced: %v", host.Redial != nil)
			}
			<-logins
			pools.OfPool(host.Pool).Expect(1<<40, time.Second) // more than one should carry
			if !test.needs {
				for range 7 {
					<-logins
				}
			}
			login.Close()
			if n := len(logins); n > 0 {
				t.Errorf("%d connections more", n)
			}
			if asked != len(test.questions) {
				t.Errorf("the person was asked %d times", asked)
			}
		})
	}
}

// A pool that is closed while it opens a session on the first connection leaves that connection
// alone.
func TestCloseWhileASessionOpens(t *testing.T) {
	files := sftptest.NewServer(t, sftptest.Script{})
	silent := make(chan struct{}, 1)
	var channels atomic.Int32
	port := askingServer(t, nil, nil, make(chan struct{}, 1), func(c io.ReadWriteCloser) {
		if channels.Add(1) == 1 {
			files.Serve(c)
			return
		}
		c.Read(make([]byte, 1)) // of INIT, which it does not answer
		silent <- struct{}{}
		io.Copy(io.Discard, c)
	})
	login, err := pool.Connect(t.Context(), dial.Target{User: "me", Host: "127.0.0.1", Port: port},
		pool.ConnectConfig{Dial: &dial.Config{ConfigFile: "none",
			Prompter: dial.PrompterFunc(func(context.Context, dial.Prompt) (string, error) {
				return "", errors.New("nobody is here")
			}),
			Options: []string{"StrictHostKeyChecking=no", "UserKnownHostsFile=none"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer login.Close()
	host := login.Host()
	pools.OfPool(host.Pool).Want(1, 2)
	<-silent
	host.Pool.Close()
	if _, err := host.Client.RealPath("."); err != nil {
		t.Error(err)
	}
}

// A farConn is a server's end of a long link, behind a proxy.
type farConn struct{ net.Conn }

func (c farConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(2 * flow.StripeAtOnce)
	return n, err
}

// Where each login needs its person, nothing connects beside it, only to hang up before it logs in,
// for which servers and fail2ban shut addresses out.
func TestNothingConnectsBesideAPerson(t *testing.T) {
	var conns atomic.Int32
	files := sftptest.NewServer(t, sftptest.Script{})
	serve := askingConn(t, []string{"Code: "}, []string{"123456"}, make(chan struct{}, 64),
		func(c io.ReadWriteCloser) { files.Serve(c) })
	port := testenv.Listen(t, func(conn net.Conn) {
		conns.Add(1)
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			serve(farConn{conn})
		}
	}).Port
	login, err := pool.Connect(t.Context(), dial.Target{User: "me", Host: "far.example"},
		pool.ConnectConfig{Expected: 1 << 40, Dial: &dial.Config{ConfigFile: "none",
			Proxy: fmt.Sprintf("http://127.0.0.1:%d", port),
			Prompter: dial.PrompterFunc(func(context.Context, dial.Prompt) (string, error) {
				return "123456", nil
			}),
			Options: []string{"StrictHostKeyChecking=no", "UserKnownHostsFile=none"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer login.Close()
	if n := conns.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}
