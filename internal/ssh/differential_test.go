package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
)

// A transcript is what one side has seen, in order.
type transcript struct {
	mu    sync.Mutex
	lines []string
}

func (r *transcript) note(format string, args ...any) {
	r.mu.Lock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
	r.mu.Unlock()
}

// diffClient is what a session needs from a client, ours or x/crypto/ssh's.
type diffClient interface {
	// open returns the channel, and a function for how its program ended, to be called once it is
	// closed.
	open(kind string) (ch xssh.Channel, exit func() string, err error)
	global(kind string, payload []byte) (bool, []byte, error)
	close()
}

type ourClient struct{ *ssh.Conn }

func (c ourClient) open(kind string) (xssh.Channel, func() string, error) {
	ch, err := c.Open(context.Background(), kind, nil)
	if err != nil {
		return nil, nil, err
	}
	ch.RefuseRequests()
	return ch, func() string {
		<-ch.Done()
		e := ch.ExitStatus()
		if !e.Known {
			return "unknown"
		}
		return fmt.Sprint(e.Status, " ", e.Signal)
	}, nil
}

func (c ourClient) global(kind string, payload []byte) (bool, []byte, error) {
	return c.SendRequest(context.Background(), kind, true, payload)
}
func (c ourClient) close() { end(c.Conn) }

type theirClient struct{ xssh.Conn }

func (c theirClient) open(kind string) (xssh.Channel, func() string, error) {
	ch, requests, err := c.OpenChannel(kind, nil)
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan string, 1)
	go func() {
		said := "unknown"
		for r := range requests {
			switch r.Type {
			case "exit-status":
				said = fmt.Sprint(r.Payload[3], " ")
			case "exit-signal":
				var s struct {
					Signal string
					Rest   []byte `ssh:"rest"`
				}
				xssh.Unmarshal(r.Payload, &s)
				said = "0 " + s.Signal
			}
			if r.WantReply {
				r.Reply(false, nil)
			}
		}
		ended <- said
	}()
	return ch, func() string { return <-ended }, nil
}

func (c theirClient) global(kind string, payload []byte) (bool, []byte, error) {
	return c.SendRequest(kind, true, payload)
}
func (c theirClient) close() { c.Close() }

// login is one way to log in.
type login struct {
	name      string
	keys      []xssh.Signer
	passwords []string
	answers   []string
}

func (l login) ours(conn net.Conn, r *transcript) (diffClient, error) {
	cc := &ssh.ClientConfig{User: "ann", Version: "SSH-2.0-test",
		HostKey: func(net.Addr, xssh.PublicKey, string) error { return nil },
		Banner:  func(text string) error { r.note("banner %q", text); return nil }}
	var methods []ssh.AuthMethod
	for _, k := range l.keys {
		methods = append(methods, ssh.PublicKey(k))
	}
	for _, p := range l.passwords {
		methods = append(methods, askFor(p))
	}
	for _, a := range l.answers {
		methods = append(methods, ssh.KeyboardInteractive(
			func(name, text string, asked []string, echos []bool) ([]string, error) {
				r.note("asked %q %q %q %v", name, text, asked, echos)
				return slices.Repeat([]string{a}, len(asked)), nil
			}))
	}
	cc.Auth = once(methods...)
	c, err := ssh.Client(context.Background(), conn, cc)
	if err != nil {
		return nil, err
	}
	return ourClient{c}, nil
}

func (l login) theirs(conn net.Conn, r *transcript) (diffClient, error) {
	cc := &xssh.ClientConfig{User: "ann", HostKeyCallback: xssh.InsecureIgnoreHostKey(),
		BannerCallback: func(text string) error { r.note("banner %q", text); return nil }}
	if len(l.keys) > 0 {
		cc.Auth = append(cc.Auth, xssh.PublicKeys(l.keys...))
	}
	if passwords := l.passwords; len(passwords) > 0 {
		cc.Auth = append(cc.Auth,
			xssh.RetryableAuthMethod(xssh.PasswordCallback(func() (string, error) {
				p := passwords[0]
				passwords = passwords[1:]
				return p, nil
			}), len(passwords)))
	}
	if answers, at := l.answers, -1; len(answers) > 0 {
		cc.Auth = append(cc.Auth, xssh.RetryableAuthMethod(xssh.KeyboardInteractive(
			func(name, text string, asked []string, echos []bool) ([]string, error) {
				r.note("asked %q %q %q %v", name, text, asked, echos)
				if asked[0] == "Password: " { // the first question of an attempt
					at++
				}
				return slices.Repeat(answers[at:at+1], len(asked)), nil
			}), len(answers)))
	}
	c, chans, requests, err := xssh.NewClientConn(conn, "", cc)
	if err != nil {
		return nil, err
	}
	go xssh.DiscardRequests(requests)
	go func() {
		for offer := range chans {
			offer.Reject(xssh.Prohibited, "")
		}
	}()
	return theirClient{c}, nil
}

// diffAuth returns callbacks for either server. They write their arguments to the transcript.
func diffAuth(key, second xssh.PublicKey, r *transcript) xssh.ServerAuthCallbacks {
	password := func(_ xssh.ConnMetadata, p []byte) (*xssh.Permissions, error) {
		if string(p) != "secret" {
			return nil, errWrong
		}
		return nil, nil
	}
	return xssh.ServerAuthCallbacks{
		PasswordCallback: password,
		PublicKeyCallback: func(c xssh.ConnMetadata, k xssh.PublicKey) (*xssh.Permissions, error) {
			if bytes.Equal(k.Marshal(), second.Marshal()) { // not sufficient alone
				return nil, &xssh.PartialSuccessError{
					Next: xssh.ServerAuthCallbacks{PasswordCallback: password}}
			}
			return letIn(key)(c, k)
		},
		KeyboardInteractiveCallback: func(_ xssh.ConnMetadata,
			ask xssh.KeyboardInteractiveChallenge) (*xssh.Permissions, error) {
			for i, question := range []string{"Password: ", "Code: "} {
				answers, err := ask("name", "text", []string{question}, []bool{i == 1})
				if err != nil || answers[0] != "secret" {
					return nil, errors.Join(err, errWrong)
				}
			}
			return nil, nil
		},
	}
}

// attempts records what a server's log receives.
func attempts(r *transcript) func(xssh.ConnMetadata, string, error) {
	return func(_ xssh.ConnMetadata, method string, err error) {
		var partial *xssh.PartialSuccessError
		r.note("attempt %s: %v, partial %v", method, err == nil, errors.As(err, &partial))
	}
}

// serveOurs and serveTheirs serve one connection.
func serveOurs(conn net.Conn, host xssh.Signer, auth xssh.ServerAuthCallbacks, r *transcript) {
	c, err := ssh.Server(conn, &ssh.ServerConfig{Version: "SSH-2.0-test",
		HostKeys: []xssh.Signer{host},
		Auth:     auth, AuthLog: attempts(r), MaxAuthTries: 4,
		Banner: func(xssh.ConnMetadata) string { return "welcome\n" }})
	r.note("server: login %v", err == nil)
	if err != nil {
		return
	}
	for {
		offer, err := c.Accept()
		if err != nil {
			return
		}
		if offer.Type != "session" {
			offer.Reject(xssh.Prohibited, "not "+offer.Type)
			continue
		}
		ch, err := offer.Accept()
		if err != nil {
			return
		}
		go func() {
			for {
				q, err := ch.NextRequest()
				if err != nil {
					return
				}
				diffSession(ch, q.Type, q.Payload, q.Reply)
			}
		}()
	}
}

func serveTheirs(conn net.Conn, host xssh.Signer, auth xssh.ServerAuthCallbacks, r *transcript) {
	config := &xssh.ServerConfig{AuthLogCallback: attempts(r), MaxAuthTries: 4,
		PasswordCallback: auth.PasswordCallback, PublicKeyCallback: auth.PublicKeyCallback,
		KeyboardInteractiveCallback: auth.KeyboardInteractiveCallback,
		BannerCallback:              func(xssh.ConnMetadata) string { return "welcome\n" }}
	config.AddHostKey(host)
	_, chans, requests, err := xssh.NewServerConn(conn, config)
	r.note("server: login %v", err == nil)
	if err != nil {
		conn.Close()
		return
	}
	go xssh.DiscardRequests(requests)
	for offer := range chans {
		if offer.ChannelType() != "session" {
			offer.Reject(xssh.Prohibited, "not "+offer.ChannelType())
			continue
		}
		ch, requests, err := offer.Accept()
		if err != nil {
			return
		}
		go func() {
			for q := range requests {
				diffSession(ch, q.Type, q.Payload, func(ok bool) error { return q.Reply(ok, nil) })
			}
		}()
	}
}

// diffSession is what both servers' sessions do.
func diffSession(ch xssh.Channel, kind string, payload []byte, reply func(bool) error) {
	name := ""
	if len(payload) > 4 {
		name = string(payload[4:])
	}
	if kind != "exec" {
		reply(false)
		return
	}
	reply(name != "nosuch")
	exit := []byte{0, 0, 0, 7}
	switch name {
	case "nosuch":
		return
	case "echo":
		io.Copy(ch, ch)
		io.WriteString(ch.Stderr(), "done")
	case "both":
		io.WriteString(ch, "out")
		io.WriteString(ch.Stderr(), "err")
	case "end first": // its output ends before its input
		ch.CloseWrite()
		n, _ := io.Copy(io.Discard, ch)
		exit[3] = byte(n)
	case "large":
		ch.Write(pattern(5 << 20)) // more than a window
	case "tiny":
		for i := range 2000 {
			ch.Write([]byte{byte(i)})
		}
	case "nothing":
		ch.Write(nil)
	case "status 0":
		exit[3] = 0
	case "signal":
		ch.SendRequest("exit-signal", false, xssh.Marshal(struct {
			Signal  string
			Core    bool
			Message string
			Tag     string
		}{"TERM", false, "message", ""}))
		ch.Close()
		return
	case "says nothing":
		ch.Close()
		return
	case "asks":
		ok, err := ch.SendRequest("ask@example.com", true, nil)
		fmt.Fprint(ch, ok, err)
	}
	ch.CloseWrite()
	ch.SendRequest("exit-status", false, exit)
	ch.Close()
}

// kindOf classifies an error in terms common to both libraries.
func kindOf(err error) string {
	var ours *ssh.OpenChannelError
	var theirs *xssh.OpenChannelError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &ours):
		return fmt.Sprint("refused ", ours.Reason, " ", ours.Text)
	case errors.As(err, &theirs):
		return fmt.Sprint("refused ", theirs.Reason, " ", theirs.Message)
	}
	return "failed"
}

// TestDifferential runs sessions with our client and x/crypto/ssh's against our server and
// x/crypto/ssh's. All four must see and do the same, in the same order.
func TestDifferential(t *testing.T) {
	host, key, second, wrong := signer(t, "ed25519"), signer(t, "ed25519"), signer(t, "rsa"),
		signer(t, "ecdsa256")
	right := login{name: "key", keys: []xssh.Signer{key}}
	exec := func(name, stdin string) func(diffClient, *transcript) {
		return func(c diffClient, r *transcript) {
			ch, exit, err := c.open("session")
			if err != nil {
				r.note("open: %s", kindOf(err))
				return
			}
			ok, err := ch.SendRequest("exec", true, xssh.Marshal(struct{ S string }{name}))
			r.note("exec: %v %s", ok, kindOf(err))
			if !ok {
				ch.Close()
				return
			}
			n, err := io.WriteString(ch, stdin)
			if stdin != "" {
				r.note("wrote %d %s", n, kindOf(err))
			}
			ch.CloseWrite()
			var words []byte
			var both sync.WaitGroup
			both.Go(func() { words, _ = io.ReadAll(ch.Stderr()) })
			out, err := io.ReadAll(ch)
			both.Wait()
			if len(out) > 100 {
				out = fmt.Appendf(nil, "%d bytes, right %v", len(out),
					bytes.Equal(out, pattern(len(out))) || name == "tiny" || string(out) == stdin)
			}
			r.note("output %q, errors %q, %s", out, words, kindOf(err))
			r.note("exit: %s", exit())
		}
	}
	request := func(kind string) func(diffClient, *transcript) {
		return func(c diffClient, r *transcript) {
			ch, _, err := c.open("session")
			if err != nil {
				r.note("open: %s", kindOf(err))
				return
			}
			ok, err := ch.SendRequest(kind, true, xssh.Marshal(struct{ S string }{"x"}))
			r.note("%s: %v %s", kind, ok, kindOf(err))
			ch.Close()
		}
	}
	for _, c := range []struct {
		login   login
		session string
		run     func(diffClient, *transcript)
	}{
		{right, "nothing at all", nil},
		{login{name: "second key", keys: []xssh.Signer{wrong, key}}, "", nil},
		{login{name: "wrong key", keys: []xssh.Signer{wrong}}, "", nil},
		{login{name: "no way"}, "", nil},
		{login{name: "password", passwords: []string{"secret"}}, "", nil},
		{login{name: "second password", passwords: []string{"no", "secret"}}, "", nil},
		{login{name: "wrong password", passwords: []string{"no"}}, "", nil},
		{login{name: "empty password", passwords: []string{""}}, "", nil},
		{login{name: "too many", passwords: []string{"1", "2", "3", "4", "secret"}}, "", nil},
		{login{name: "answers", answers: []string{"secret"}}, "", nil},
		{login{name: "second answers", answers: []string{"no", "secret"}}, "", nil},
		{login{name: "wrong answers", answers: []string{"no"}}, "", nil},
		{login{name: "wrong key, password", keys: []xssh.Signer{wrong},
			passwords: []string{"secret"}},
			"", nil},
		{login{name: "partial", keys: []xssh.Signer{second}, passwords: []string{"secret"}}, "",
			nil},
		{login{name: "partial and no more", keys: []xssh.Signer{second}}, "", nil},
		{login{name: "partial and wrong", keys: []xssh.Signer{second}, passwords: []string{"no"}},
			"",
			nil},
		{right, "echo", exec("echo", "hello")},
		{right, "echo of nothing", exec("echo", "")},
		{right, "echo of a lot", exec("echo", string(pattern(300_000)))},
		{right, "output and errors", exec("both", "")},
		{right, "output ends first", exec("end first", "12345")},
		{right, "more than a window", exec("large", "")},
		{right, "tiny packets", exec("tiny", "")},
		{right, "empty write", exec("nothing", "")},
		{right, "status 0", exec("status 0", "")},
		{right, "signal", exec("signal", "")},
		{right, "no status", exec("says nothing", "")},
		{right, "request of the server", exec("asks", "")},
		{right, "exec refused", exec("nosuch", "")},
		{right, "subsystem refused", request("subsystem")},
		{right, "pty refused", request("pty-req")},
		{right, "env refused", request("env")},
		{right, "channel refused", func(c diffClient, r *transcript) {
			for _, kind := range []string{"direct-tcpip", "x11", "", "forwarded"} {
				_, _, err := c.open(kind)
				r.note("open %q: %s", kind, kindOf(err))
			}
		}},
		{right, "behind a refusal", func(c diffClient, r *transcript) {
			_, _, err := c.open("x11")
			r.note("open: %s", kindOf(err))
			exec("echo", "hello")(c, r)
		}},
		{right, "global requests", func(c diffClient, r *transcript) {
			for _, kind := range []string{"keepalive@openssh.com", "tcpip-forward", ""} {
				ok, payload, err := c.global(kind, []byte("x"))
				r.note("%q: %v %q %s", kind, ok, payload, kindOf(err))
			}
		}},
		{right, "several sessions", func(c diffClient, r *transcript) {
			for range 3 {
				exec("echo", "hello")(c, r)
			}
		}},
		{right, "behind the end", func(c diffClient, r *transcript) {
			ch, exit, err := c.open("session")
			if err != nil {
				r.note("open: %s", kindOf(err))
				return
			}
			ok, err := ch.SendRequest("exec", true, xssh.Marshal(struct{ S string }{"end first"}))
			r.note("exec: %v %s", ok, kindOf(err))
			r.note("end: %s", kindOf(ch.CloseWrite()))
			_, err = ch.Write([]byte("x"))
			r.note("write behind it: %s", kindOf(err))
			io.ReadAll(ch)
			exit()
			_, err = ch.SendRequest("x", true, nil)
			r.note("request behind the close: %s", kindOf(err))
			n, err := ch.Read(make([]byte, 1))
			r.note("read: %d %v", n, err)
		}},
	} {
		t.Run(strings.TrimSpace(c.login.name+" "+c.session), func(t *testing.T) {
			var first []string
			for i, client := range []string{"our client", "x/crypto's client"} {
				for j, server := range []string{"our server", "x/crypto's server"} {
					// Each side's view is ordered; between the two sides there is no order.
					near, far := &transcript{}, &transcript{}
					a, b := testenv.TCPPair()
					a.SetDeadline(time.Now().Add(30 * time.Second))
					auth := diffAuth(key.PublicKey(), second.PublicKey(), far)
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						if j == 0 {
							serveOurs(b, host, auth, far)
						} else {
							serveTheirs(b, host, auth, far)
						}
					}()
					dial := c.login.ours
					if i == 1 {
						dial = c.login.theirs
					}
					conn, err := dial(a, near)
					near.note("login: %v", err == nil)
					if err == nil {
						if c.run != nil {
							c.run(conn, near)
						}
						conn.close()
					}
					a.Close()
					<-ended
					got := slices.Concat(near.lines, far.lines)
					if first == nil {
						first = got
						t.Log(strings.Join(got, "\n"))
					} else if !slices.Equal(got, first) {
						t.Errorf("%s with %s:\n%s", client, server, strings.Join(got, "\n"))
					}
				}
			}
		})
	}
}
