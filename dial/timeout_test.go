package dial

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestEnd: after the end of a stream, its reader can find out why it ended.
func TestEnd(t *testing.T) {
	srv := newTestServer(t)
	srv.NoClientAuth = true
	srv.session = func(ch ssh.Channel, requests <-chan *ssh.Request) {
		for r := range requests {
			r.Reply(true, nil)
			io.WriteString(ch.Stderr(), strings.Repeat("x", 2*tailSize)+"\nout of memory\n")
			ch.CloseWrite()
			ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Signal string
				Core   bool
				Text   string
				Lang   string
			}{"KILL", false, "", ""}))
			ch.Close()
		}
	}
	c := dialed(t, srv.dialer(t, &Config{}))
	s := opened(t, c)
	if b, err := io.ReadAll(s); err != nil || len(b) > 0 {
		t.Errorf("read %q, %v", b, err)
	}
	if status, ok := s.ExitStatus(); !ok || status != 255 {
		t.Errorf("the exit status is %d, %v", status, ok)
	}
	if text := s.Stderr(); !strings.HasSuffix(text, "x\nout of memory") || len(text) > tailSize {
		t.Errorf("standard error is %q", text)
	}
}

// TestDeath: a server that goes away is not the end of a file.
func TestDeath(t *testing.T) {
	srv := newTestServer(t)
	srv.NoClientAuth = true
	d := srv.dialer(t, &Config{})
	var raw net.Conn
	inner := d.tcp
	d.tcp = func(ctx context.Context) (net.Conn, error) {
		var err error
		raw, err = inner(ctx)
		return raw, err
	}
	c := dialed(t, d)
	s := opened(t, c)
	raw.Close()
	_, err := io.Copy(io.Discard, s)
	if want := "me@h: the server closed the connection"; err == nil || err.Error() != want ||
		!errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ended with %v; want %s", err, want)
	}
	if _, err := c.Open(testContext(t)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Open gives %v", err)
	}
}

// TestHangingAgent: an agent that does not answer holds up no longer than a server.
func TestHangingAgent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("agents are pipes there")
	}
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	srv := newTestServer(t)
	srv.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, errors.New("no")
	}
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.Read(make([]byte, 1)) // asked for its keys
		cancel()
		c.Read(make([]byte, 1))
		io.Copy(io.Discard, c)
	}()
	if _, err := srv.dialer(t, &Config{Options: []string{"IdentityAgent=" +
		filepath.Join(dir, "s")}}).Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// silent makes a Dialer whose server says first, and then nothing.
func silent(t testing.TB, first string, c *Config) *Dialer {
	d := newTestServer(t).dialer(t, c)
	d.tcp = func(context.Context) (net.Conn, error) {
		ours, theirs := socketPair()
		theirs.Write([]byte(first))
		return ours, nil
	}
	return d
}

// TestSilentServers runs in synctest's bubble: it takes no time, and a goroutine that
// outlived the login would fail it.
func TestSilentServers(t *testing.T) {
	for _, c := range []struct {
		name, first string
		option      string
		within      time.Duration
		says        string
	}{
		{"nothing", "", "ConnectTimeout=7", 7 * time.Second, "no answer within 7s"},
		{"nothing, without a limit", "", "ConnectTimeout=none", loginStall, "no answer within 2m"},
		{"version only", "SSH-2.0-x\r\n", "ConnectTimeout=7", 7 * time.Second,
			"no answer within 7s"},
		{"something else", "220 mail.example ESMTP\r\n", "ConnectTimeout=none", notSSHWait,
			`does not speak SSH; it said: "220 mail.example ESMTP"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := silent(t, c.first, &Config{Options: []string{c.option}})
			began := time.Now()
			_, err := d.Dial(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) ||
				time.Since(began) != c.within {
				t.Errorf("%s: %v after %v", c.name, err, time.Since(began))
			}
			if strings.HasPrefix(c.says, "no answer") {
				var timeout interface{ Timeout() bool }
				if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) ||
					!timeout.Timeout() {
					t.Errorf("%s: %v is no timeout", c.name, err)
				}
			}
		})
	}
}

// A resetConn is a connection that the peer resets after some text.
type resetConn struct {
	net.Conn
	text string
}

func (c *resetConn) Read(p []byte) (n int, err error) {
	if n = copy(p, c.text); n == 0 {
		err = &net.OpError{Op: "read", Net: "tcp", Addr: remoteAddr,
			Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	c.text = c.text[n:]
	return n, err
}

// TestHandshakeFailures: what ends a handshake is said without Go's names for it.
func TestHandshakeFailures(t *testing.T) {
	for version, want := range map[string]string{
		"SSH-2.0-x\r\n": syscall.ECONNRESET.Error(),
		"SSH-1.5-x\r\n": "the peer speaks only version 1 of SSH",
	} {
		d := newTestServer(t).dialer(t, &Config{})
		d.tcp = func(context.Context) (net.Conn, error) {
			ours, _ := socketPair()
			return &resetConn{Conn: ours, text: version}, nil
		}
		_, err := d.Dial(t.Context())
		if want = "me@h: the SSH handshake failed: " + want; err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func TestCancelledLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []string{"", "SSH-2.0-x\r\n"} {
			d := silent(t, first, &Config{})
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("changed my mind")
			go func() {
				synctest.Wait()
				cancel(why)
			}()
			began := time.Now()
			if _, err := d.Dial(ctx); !errors.Is(err, why) || time.Since(began) != 0 {
				t.Errorf("%q: %v after %v", first, err, time.Since(began))
			}
		}
	})
}

// TestSilenceAfterTheKeys: ConnectTimeout limits the rest of a login, too, unless a password or an
// answer was sent: somebody may have to approve that.
func TestSilenceAfterTheKeys(t *testing.T) {
	for name, test := range map[string]struct {
		options []string
		banner  string
		within  time.Duration
	}{
		"a key":                         {nil, "", 7 * time.Second},
		"a key, after a banner":         {nil, "allow this login at https://h/", loginStall},
		"a password":                    {[]string{"PubkeyAuthentication=no"}, "", loginStall},
		"a key, without ConnectTimeout": {[]string{"ConnectTimeout=none"}, "", loginStall},
	} {
		key := filepath.Join(t.TempDir(), "key")
		writeKey(t, key, "")
		synctest.Test(t, func(t *testing.T) {
			srv := newTestServer(t)
			srv.BannerCallback = func(ssh.ConnMetadata) string { return test.banner }
			stuck := make(chan struct{})
			srv.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions,
				error) {
				<-stuck
				return nil, errors.New("too late")
			}
			srv.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
				<-stuck
				return nil, errors.New("too late")
			}
			d := srv.dialer(t, &Config{Options: append(test.options, "ConnectTimeout=7"),
				Identities: []string{key},
				Prompter: PrompterFunc(func(context.Context, Prompt) (string, error) {
					return "secret", nil
				})})
			began := time.Now()
			_, err := d.Dial(t.Context())
			if took := time.Since(began); err == nil || took != test.within ||
				!strings.Contains(err.Error(), "no answer within") {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			close(stuck)
		})
	}
}

// TestThinkingPerson: while a person thinks no limit runs.
func TestThinkingPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTestServer(t)
		takesPassword(srv, "secret")
		d := srv.dialer(t, &Config{
			Options: []string{"ConnectTimeout=3"},
			Prompter: PrompterFunc(func(context.Context, Prompt) (string, error) {
				time.Sleep(time.Hour)
				return "secret", nil
			}),
		})
		c, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
}

// TestServerAlive: a server that falls silent is given up after the configured time,
// and whoever waits hears of it.
func TestServerAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, hold := heldBack(t, &Config{Options: []string{"ServerAliveInterval=10",
			"ServerAliveCountMax=3"}})
		defer c.Close()
		s := opened(t, c)
		time.Sleep(time.Hour) // the bubble's: it answers, and so it lives
		if c.Err() != nil {
			t.Fatalf("a server that answers was given up: %v", c.Err())
		}
		hold.quiet.Store(true)
		began := time.Now()
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the stream ended with %v", err)
		}
		<-c.Done()
		if d := time.Since(began); d > 45*time.Second || d < 30*time.Second ||
			!errors.Is(c.Err(), os.ErrDeadlineExceeded) {
			t.Errorf("%v after %v", c.Err(), d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Keepalive(ctx); err == nil {
			t.Error("a keepalive over a dead connection succeeded")
		}
	})
}

// TestServerAliveForEver: with ServerAliveCountMax=0 keepalives are sent, and silence ends nothing.
func TestServerAliveForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, hold := heldBack(t, &Config{Options: []string{"ServerAliveInterval=10",
			"ServerAliveCountMax=0"}})
		defer c.Close()
		hold.quiet.Store(true)
		time.Sleep(time.Hour) // the bubble's
		if c.Err() != nil {
			t.Errorf("a silent server was given up: %v", c.Err())
		}
	})
}

// heldBack connects to a server over a connection that can become quiet.
func heldBack(t *testing.T, config *Config) (*Conn, *heldConn) {
	return newTestServer(t).heldBack(t, config)
}

func (srv *testServer) heldBack(t *testing.T, config *Config) (*Conn, *heldConn) {
	srv.NoClientAuth = true
	d := srv.dialer(t, config)
	hold, inner := new(heldConn), d.tcp
	d.tcp = func(ctx context.Context) (net.Conn, error) {
		c, err := inner(ctx)
		hold.Conn = c
		return hold, err
	}
	c := dialed(t, d)
	return c, hold
}

// TestSilenceAfterTheLogin: a server that does not open a channel is waited for as long as
// ConnectTimeout says, and longer if it answers keepalives.
func TestSilenceAfterTheLogin(t *testing.T) {
	for _, test := range []struct {
		option string
		alive  bool
		within time.Duration
	}{
		{"ConnectTimeout=8", false, 8 * time.Second},
		{"ConnectTimeout=8", true, loginStall},
		{"ConnectTimeout=none", false, loginStall},
	} {
		for _, p := range []program{new(Config).sftp(), command("true")} {
			synctest.Test(t, func(t *testing.T) {
				srv := newTestServer(t)
				srv.session = func(_ ssh.Channel, requests <-chan *ssh.Request) {
					for range requests { // none is answered
					}
				}
				c, hold := srv.heldBack(t, &Config{Options: []string{test.option}})
				defer c.Close()
				hold.quiet.Store(!test.alive)
				began := time.Now()
				_, err := c.open(t.Context(), p)
				if took := time.Since(began); took != test.within ||
					!errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%+v, %q: %v after %v", test, p, err, took)
				}
			})
		}
	}
}

// TestSilenceBeforeSFTPStarts: whoever begins a conversation hears of a server that has fallen
// silent after ConnectTimeout, and waits for one that answers keepalives.
func TestSilenceBeforeSFTPStarts(t *testing.T) {
	for _, alive := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, hold := heldBack(t, &Config{Options: []string{"ConnectTimeout=8"}})
			defer c.Close()
			opened(t, c)
			hold.quiet.Store(!alive)
			limited, stop := c.LimitSilence(t.Context())
			defer stop()
			began := time.Now()
			select {
			case <-limited.Done():
			case <-time.After(time.Hour):
			}
			took, err := time.Since(began), context.Cause(limited)
			if alive && err != nil || !alive && (took != 8*time.Second ||
				!errors.Is(err, os.ErrDeadlineExceeded)) {
				t.Errorf("alive %v: %v after %v", alive, err, took)
			}
		})
	}
}

// TestCloseOfDeadStream: a Read in progress ends even where the server is dead, and so does the
// connection.
func TestCloseOfDeadStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, hold := heldBack(t, &Config{})
		defer c.Close()
		s := opened(t, c)
		healthy := opened(t, c)
		healthy.Close()
		if _, err := io.Copy(io.Discard, healthy); err != nil {
			t.Errorf("the end of a healthy stream: %v", err)
		}
		hold.quiet.Store(true)
		began := time.Now()
		s.Close()
		_, err := s.Read(make([]byte, 1))
		if own := err == io.EOF && time.Since(began) == 0; !own && !errors.Is(err,
			os.ErrDeadlineExceeded) {
			t.Errorf("the stream ended with %v after %v", err, time.Since(began))
		}
		<-c.Done()
		if took := time.Since(began); !errors.Is(c.Err(), os.ErrDeadlineExceeded) ||
			took < endLimit ||
			took > 2*endLimit {
			t.Errorf("the connection ended with %v after %v", c.Err(), took)
		}
	})
}

// TestKeepalive: one that is not answered ends with its context, at once and as often
// as one likes; and nothing is left behind.
func TestKeepalive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, hold := heldBack(t, &Config{})
		if err := c.Keepalive(t.Context()); err != nil {
			t.Fatal(err)
		}
		hold.quiet.Store(true)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := c.Keepalive(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := c.Open(ctx); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != time.Second {
			t.Errorf("Open: %v after %v", err, time.Since(began))
		}
		c.Close()
		if _, err := c.Open(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Open on a closed connection: %v", err)
		}
		if err := c.Keepalive(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Keepalive on a closed connection: %v", err)
		}
	})
}
