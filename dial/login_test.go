package dial

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// A script answers questions in order, and remembers them.
type script struct {
	mu      sync.Mutex
	answers []string
	asked   []Prompt
}

func (s *script) Prompt(_ context.Context, p Prompt) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, p)
	if len(s.asked) > len(s.answers) {
		return "", errors.New("the person has left")
	}
	return s.answers[len(s.asked)-1], nil
}

func takesPassword(s *testServer, want string) {
	s.PasswordCallback = func(_ ssh.ConnMetadata, got []byte) (*ssh.Permissions, error) {
		if string(got) != want {
			return nil, errors.New("wrong")
		}
		return nil, nil
	}
}

// dialTwice logs in twice with one Dialer and shows that SFTP runs.
func dialTwice(t *testing.T, d *Dialer) {
	t.Helper()
	for range 2 {
		c, err := d.Dial(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Open(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		greet(t, s)
		c.Close()
	}
}

func TestPasswordIsAskedOnce(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	p := &script{answers: []string{"wrong", "secret"}}
	d := srv.dialer(t, &Config{Prompter: p})
	dialTwice(t, d)
	if len(p.asked) != 2 || p.asked[0].Kind != AskPassword || p.asked[0].Echo || p.asked[0].Text != "me@h's password: " {
		t.Errorf("asked %+v", p.asked)
	}
	// "none" opens each login; but for the typing error nothing else was refused.
	if f := srv.failures(); !slices.Equal(f, []string{"none", "password", "none"}) {
		t.Errorf("refused were %v", f)
	}
	if d.NeedsPerson() {
		t.Error("a password needs its person only once")
	}
}

func TestPasswordPrompts(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	p := &script{answers: []string{"a", "b", "c", "d"}}
	_, err := srv.dialer(t, &Config{Prompter: p, Options: []string{"NumberOfPasswordPrompts=2"}}).Dial(testContext(t))
	var auth *AuthError
	if !errors.As(err, &auth) || len(p.asked) != 2 || !slices.Equal(auth.Tried, []string{"password"}) || !slices.Equal(auth.Allowed, []string{"password"}) {
		t.Errorf("%v, asked %d times", err, len(p.asked))
	}
	if want := "me@h: logging in as me failed (tried password; the server takes password)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestNobodyToAsk(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	for _, c := range []*Config{{}, {Prompter: &script{answers: []string{"secret"}}, Options: []string{"BatchMode=yes"}}} {
		_, err := srv.dialer(t, c).Dial(testContext(t))
		if err == nil || !strings.Contains(err.Error(), "nobody to ask") {
			t.Errorf("got %v", err)
		}
	}
}

// TestPersonLeaves: who does not answer is not asked on.
func TestPersonLeaves(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	p := &script{}
	_, err := srv.dialer(t, &Config{Prompter: p}).Dial(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "the person has left") || len(p.asked) != 1 {
		t.Errorf("%v, asked %d times", err, len(p.asked))
	}
}

// asks makes a server that asks keyboard-interactive questions.
func asks(s *testServer, questions []string, echos []bool, want []string) {
	s.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		got, err := ask("name", "do as told", questions, echos)
		if err != nil || !slices.Equal(got, want) {
			return nil, errors.New("wrong")
		}
		ask("", "", nil, nil) // as PAM does at the end
		return nil, nil
	}
}

func TestKeyboardInteractivePassword(t *testing.T) {
	srv := newTestServer(t)
	asks(srv, []string{"(me@h) Password: "}, []bool{false}, []string{"secret"})
	p := &script{answers: []string{"wrong", "secret"}}
	d := srv.dialer(t, &Config{Prompter: p})
	dialTwice(t, d)
	if len(p.asked) != 2 || p.asked[0].Kind != AskChallenge || p.asked[0].Text != "name\ndo as told\n(me@h) Password: " {
		t.Errorf("asked %+v", p.asked)
	}
	if d.NeedsPerson() {
		t.Error("a password asked that way needs its person only once")
	}
}

func TestOneTimeCode(t *testing.T) {
	srv := newTestServer(t)
	asks(srv, []string{"Password: ", "Code: "}, []bool{false, true}, []string{"secret", "123"})
	p := &script{answers: []string{"secret", "123", "secret", "123"}}
	d := srv.dialer(t, &Config{Prompter: p})
	dialTwice(t, d)
	if !d.NeedsPerson() || len(p.asked) != 4 || !p.asked[1].Echo || p.asked[0].Echo {
		t.Errorf("NeedsPerson %v, asked %+v", d.NeedsPerson(), p.asked)
	}
}

// writeKey makes a private key in OpenSSH's form, with a passphrase or without.
func writeKey(t testing.TB, path, passphrase string) ssh.PublicKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(pem.EncodeToMemory(block)))
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestTwoSteps: a key, and then a password.
func TestTwoSteps(t *testing.T) {
	srv := newTestServer(t)
	key := filepath.Join(t.TempDir(), "id")
	public := writeKey(t, key, "phrase")
	then := ssh.ServerAuthCallbacks{PasswordCallback: func(_ ssh.ConnMetadata, got []byte) (*ssh.Permissions, error) {
		if string(got) != "secret" {
			return nil, errors.New("wrong")
		}
		return nil, nil
	}}
	srv.PublicKeyCallback = func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if !sameKey(k, public) {
			return nil, errors.New("unknown")
		}
		return nil, &ssh.PartialSuccessError{Next: then}
	}
	p := &script{answers: []string{"bad phrase", "phrase", "secret"}}
	d := srv.dialer(t, &Config{Prompter: p, Identities: []string{key}})
	dialTwice(t, d)
	if len(p.asked) != 3 || p.asked[0].Kind != AskPassphrase || p.asked[0].File != key || p.asked[2].Kind != AskPassword {
		t.Errorf("asked %+v", p.asked)
	}
	if f := srv.failures(); !slices.Equal(f, []string{"none", "publickey", "none", "publickey"}) { // the partial successes
		t.Logf("not final were %v", f)
	}

	p.answers, p.asked = []string{"phrase"}, nil
	_, err := srv.dialer(t, &Config{Prompter: p, Identities: []string{key}}).Dial(testContext(t))
	var auth *AuthError
	if !errors.As(err, &auth) || !slices.Equal(auth.Partial, []string{"publickey"}) || !strings.Contains(err.Error(), "after publickey succeeded") {
		t.Errorf("giving up at the second step: %v", err)
	}
}

// TestPassphraseOnlyWhenWanted: a key that the server does not want asks for nothing.
func TestPassphraseOnlyWhenWanted(t *testing.T) {
	srv := newTestServer(t)
	dir := t.TempDir()
	locked, open := filepath.Join(dir, "locked"), filepath.Join(dir, "open")
	lockedKey, openKey := writeKey(t, locked, "phrase"), writeKey(t, open, "")
	var tried []string
	srv.PublicKeyCallback = func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		tried = append(tried, ssh.FingerprintSHA256(k))
		if !sameKey(k, openKey) {
			return nil, errors.New("unknown")
		}
		return nil, nil
	}
	p := &script{}
	d := srv.dialer(t, &Config{Prompter: p, Identities: []string{locked, open}})
	dialTwice(t, d)
	if len(p.asked) != 0 {
		t.Errorf("asked %+v", p.asked)
	}
	if len(tried) < 2 || tried[0] != ssh.FingerprintSHA256(lockedKey) || slices.Contains(tried[1:], tried[0]) {
		t.Errorf("offered were %v", tried)
	}
}

// TestUnusableKeys: what kept a key from being offered is part of the error.
func TestUnusableKeys(t *testing.T) {
	srv := newTestServer(t)
	srv.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, errors.New("no") }
	dir := t.TempDir()
	missing, garbage := filepath.Join(dir, "missing"), writeFile(t, filepath.Join(dir, "garbage"), "garbage")
	good, public := filepath.Join(dir, "good"), filepath.Join(dir, "public.pub")
	goodKey := writeKey(t, good, "")
	writeFile(t, public, authorizedLine(newSigner(t).PublicKey()))
	ids := []string{missing, garbage, public, good}
	wants := []string{missing, garbage, public, ssh.FingerprintSHA256(goodKey), good, "tried publickey"}
	if os.Getuid() >= 0 {
		bare := filepath.Join(dir, "bare")
		writeKey(t, bare, "")
		if err := os.Chmod(bare, 0o644); err != nil {
			t.Fatal(err)
		}
		ids, wants = append(ids, bare), append(wants, bare+" is ignored: others can read it")
	}
	_, err := srv.dialer(t, &Config{Identities: ids}).Dial(testContext(t))
	for _, want := range wants {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
}

func TestBanner(t *testing.T) {
	srv := newTestServer(t)
	srv.NoClientAuth = true
	srv.BannerCallback = func(ssh.ConnMetadata) string { return "welcome\n" }
	var banner string
	d := srv.dialer(t, &Config{Banner: func(host, text string) { banner = host + ": " + text }})
	dialTwice(t, d)
	if banner != "h: welcome\n" {
		t.Errorf("the banner was %q", banner)
	}
}

func TestChangedKeyOnTheWire(t *testing.T) {
	srv := newTestServer(t)
	srv.NoClientAuth = true
	d := srv.dialer(t, &Config{})
	other := newTestServer(t)
	other.NoClientAuth = true
	d.tcp = func(context.Context) (net.Conn, error) {
		ours, theirs := socketPair()
		go other.serve(theirs)
		return ours, nil
	}
	_, err := d.Dial(testContext(t))
	var bad *HostKeyError
	if !errors.As(err, &bad) || bad.Problem != HostKeyChanged || bad.File != d.s.userKnown[0] || bad.Line != 1 {
		t.Errorf("got %v", err)
	}
}

func TestNoCommonAlgorithm(t *testing.T) {
	srv := newTestServer(t)
	srv.NoClientAuth = true
	srv.Ciphers = []string{ssh.CipherAES256CTR}
	_, err := srv.dialer(t, &Config{Ciphers: "aes128-gcm@openssh.com"}).Dial(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "aes128-gcm@openssh.com") || !strings.Contains(err.Error(), "aes256-ctr") {
		t.Errorf("got %v", err)
	}
}

func TestSubsystemRefused(t *testing.T) {
	srv := newTestServer(t)
	srv.NoClientAuth = true
	srv.session = func(ch ssh.Channel, requests <-chan *ssh.Request) {
		for r := range requests {
			io.WriteString(ch.Stderr(), "no sftp\x1b here\r\nask your admin\n")
			ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{7}))
			r.Reply(false, nil)
			ch.Close()
		}
	}
	c, err := srv.dialer(t, &Config{}).Dial(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Open(testContext(t))
	var sub *SubsystemError
	if !errors.As(err, &sub) || sub.ExitStatus != 7 || sub.Text != "no sftp? here; ask your admin" {
		t.Errorf("got %v (%+v)", err, sub)
	}
}

// TestEnd: whoever sees a stream's end can ask why.
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
	c, err := srv.dialer(t, &Config{}).Dial(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Open(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
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
	c, err := d.Dial(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Open(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	raw.Close()
	_, err = io.Copy(io.Discard, s)
	if want := "me@h: the server closed the connection"; err == nil || err.Error() != want || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ended with %v; want %s", err, want)
	}
	if _, err := c.Open(testContext(t)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Open gives %v", err)
	}
}

// TestKeyboardInteractiveWithoutQuestions: tried once.
func TestKeyboardInteractiveWithoutQuestions(t *testing.T) {
	srv := newTestServer(t)
	srv.KeyboardInteractiveCallback = func(ssh.ConnMetadata, ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		return nil, errors.New("no")
	}
	if _, err := srv.dialer(t, &Config{Prompter: &script{}}).Dial(testContext(t)); err == nil {
		t.Fatal("it logged in")
	}
	if f := srv.failures(); !slices.Equal(f, []string{"none", "keyboard-interactive"}) {
		t.Errorf("refused were %v", f)
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
	srv.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, errors.New("no") }
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
	if _, err := srv.dialer(t, &Config{Options: []string{"IdentityAgent=" + filepath.Join(dir, "s")}}).Dial(ctx); !errors.Is(err, context.Canceled) {
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
		{"version only", "SSH-2.0-x\r\n", "ConnectTimeout=7", 7 * time.Second, "no answer within 7s"},
		{"something else", "220 mail.example ESMTP\r\n", "ConnectTimeout=none", notSSHWait, `something else than SSH: "220 mail.example ESMTP"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := silent(t, c.first, &Config{Options: []string{c.option}})
			began := time.Now()
			_, err := d.Dial(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) || time.Since(began) != c.within {
				t.Errorf("%s: %v after %v", c.name, err, time.Since(began))
			}
			if strings.HasPrefix(c.says, "no answer") {
				var timeout interface{ Timeout() bool }
				if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("%s: %v is no timeout", c.name, err)
				}
			}
		})
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

// TestConcurrentDials ask once.
func TestConcurrentDials(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	p := &script{answers: []string{"secret"}}
	d := srv.dialer(t, &Config{Prompter: p})
	first, err := d.Dial(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c, err := d.Dial(testContext(t))
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	wg.Wait()
	if len(p.asked) != 1 {
		t.Errorf("asked %d times", len(p.asked))
	}
}

// TestServerAlive: a server that falls silent is given up after the configured time,
// and whoever waits hears of it.
func TestServerAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTestServer(t)
		srv.NoClientAuth = true
		d := srv.dialer(t, &Config{Options: []string{"ServerAliveInterval=10", "ServerAliveCountMax=3"}})
		var hold holdConn
		inner := d.tcp
		d.tcp = func(ctx context.Context) (net.Conn, error) {
			c, err := inner(ctx)
			hold.Conn = c
			return &hold, err
		}
		c, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := c.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // the bubble's: it answers, and so it lives
		if c.Err() != nil {
			t.Fatalf("a server that answers was given up: %v", c.Err())
		}
		hold.drop.Lock()
		hold.dropping = true
		hold.drop.Unlock()
		began := time.Now()
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the stream ended with %v", err)
		}
		<-c.Done()
		if d := time.Since(began); d > 45*time.Second || d < 30*time.Second || !errors.Is(c.Err(), os.ErrDeadlineExceeded) {
			t.Errorf("%v after %v", c.Err(), d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Keepalive(ctx); err == nil {
			t.Error("a keepalive over a dead connection succeeded")
		}
	})
}

// A holdConn loses what we send, once told so.
type holdConn struct {
	net.Conn
	drop     sync.Mutex
	dropping bool
}

func (h *holdConn) Write(p []byte) (int, error) {
	h.drop.Lock()
	defer h.drop.Unlock()
	if h.dropping {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

// TestKeepalive: one that is not answered ends with its context, at once and as often
// as one likes; and nothing is left behind.
func TestKeepalive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTestServer(t)
		srv.NoClientAuth = true
		d := srv.dialer(t, &Config{})
		var hold holdConn
		inner := d.tcp
		d.tcp = func(ctx context.Context) (net.Conn, error) {
			c, err := inner(ctx)
			hold.Conn = c
			return &hold, err
		}
		c, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Keepalive(t.Context()); err != nil {
			t.Fatal(err)
		}
		hold.drop.Lock()
		hold.dropping = true
		hold.drop.Unlock()
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
		if _, err := c.Open(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
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
