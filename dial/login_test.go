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
	"slices"
	"strings"
	"sync"
	"testing"

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
		c := dialed(t, d)
		s := opened(t, c)
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
	if len(p.asked) != 2 || p.asked[0].Kind != AskPassword || p.asked[0].Echo ||
		p.asked[0].Text != "me@h's password: " ||
		p.asked[1].Text != "Permission denied, please try again.\nme@h's password: " {
		t.Errorf("asked %+v", p.asked)
	}
	// but for the typing error nothing was refused; the second login begins with the password
	if f := srv.failures(); !slices.Equal(f, slices.Concat(nones(1, 1), []string{"password"},
		nones(0, 1))) {
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
	_, err := srv.dialer(t, &Config{Prompter: p,
		Options: []string{"NumberOfPasswordPrompts=2"}}).Dial(testContext(t))
	var auth *AuthError
	if !errors.As(err, &auth) || len(p.asked) != 2 ||
		!slices.Equal(auth.Tried, []string{"password"}) ||
		!slices.Equal(auth.Allowed, []string{"password"}) {
		t.Errorf("%v, asked %d times", err, len(p.asked))
	}
	if want := "me@h: logging in as me failed (tried password; the server accepts password)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestNobodyToAsk(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	for _, c := range []*Config{{}, {Prompter: &script{answers: []string{"secret"}},
		Options: []string{"BatchMode=yes"}}} {
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
	s.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (
		*ssh.Permissions, error) {
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
	asks(srv, []string{"Password: "}, []bool{false}, []string{"secret"})
	p := &script{answers: []string{"wrong", "secret"}}
	d := srv.dialer(t, &Config{Prompter: p})
	dialTwice(t, d)
	if len(p.asked) != 2 || p.asked[0].Kind != AskChallenge ||
		p.asked[0].Text != "name\ndo as told\n(me@h) Password: " {
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

// TestPasswordThatWasChanged: an old password is not sent again and again, as by a mount that
// reconnects for as long as it takes, which would lock the account.
func TestPasswordThatWasChanged(t *testing.T) {
	t.Parallel()
	srv := newTestServer(t)
	takesPassword(srv, "old")
	d := srv.dialer(t, &Config{Prompter: &script{answers: []string{"old"}}})
	dialTwice(t, d)
	takesPassword(srv, "new")
	srv.failures()
	fails := func(want int) {
		t.Helper()
		for range 4 {
			_, err := d.Dial(testContext(t))
			if _, refused := errors.AsType[*AuthError](err); !refused {
				t.Errorf("got %v", err)
			}
		}
		sent := slices.DeleteFunc(srv.failures(), func(m string) bool { return m != "password" })
		if len(sent) != want {
			t.Errorf("it was sent %d times, want %d", len(sent), want)
		}
	}
	fails(2)
	d.refused.at = d.refused.at.Add(-refusedPause)
	fails(1)
	d.refused.at = d.refused.at.Add(-refusedPause)
	takesPassword(srv, "old") // it was the host's fault
	dialTwice(t, d)
	takesPassword(srv, "new")
	srv.failures()
	fails(2)
}

// TestOneTimePassword: what serves once is not sent again, whatever it is called.
func TestOneTimePassword(t *testing.T) {
	t.Parallel()
	for _, question := range []string{"One-time password (OATH) for `me': ", "OTP password: ",
		"Password + token code: "} {
		srv := newTestServer(t)
		asks(srv, []string{question}, []bool{false}, []string{"123"})
		p := &script{answers: []string{"123", "123"}}
		d := srv.dialer(t, &Config{Prompter: p})
		dialTwice(t, d)
		if !d.NeedsPerson() || len(p.asked) != 2 {
			t.Errorf("%s: NeedsPerson %v, asked %+v", question, d.NeedsPerson(), p.asked)
		}
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
	t.Parallel()
	srv := newTestServer(t)
	key := filepath.Join(t.TempDir(), "id")
	public := writeKey(t, key, "phrase")
	then := ssh.ServerAuthCallbacks{PasswordCallback: func(_ ssh.ConnMetadata,
		got []byte) (*ssh.Permissions, error) {
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
	if len(p.asked) != 3 || p.asked[0].Kind != AskPassphrase || p.asked[0].File != key ||
		p.asked[2].Kind != AskPassword {
		t.Errorf("asked %+v", p.asked)
	}
	// the partial successes
	if f := srv.failures(); !slices.Equal(f, []string{"none", "publickey", "none", "publickey"}) {
		t.Logf("not final were %v", f)
	}

	p.answers, p.asked = []string{"phrase"}, nil
	_, err := srv.dialer(t, &Config{Prompter: p, Identities: []string{key}}).Dial(testContext(t))
	var auth *AuthError
	if !errors.As(err, &auth) || !slices.Equal(auth.Partial, []string{"publickey"}) ||
		!strings.Contains(err.Error(), "after publickey succeeded") {
		t.Errorf("giving up at the second step: %v", err)
	}
}

// TestPassphraseOnlyWhenWanted: a key that the server does not want asks for nothing.
func TestPassphraseOnlyWhenWanted(t *testing.T) {
	t.Parallel()
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
	if len(tried) < 2 || tried[0] != ssh.FingerprintSHA256(lockedKey) ||
		slices.Contains(tried[1:], tried[0]) {
		t.Errorf("offered were %v", tried)
	}
}

// TestUnusableKeys: what kept a key from being offered is part of the error.
func TestUnusableKeys(t *testing.T) {
	srv := newTestServer(t)
	srv.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, errors.New("no")
	}
	dir := t.TempDir()
	missing, garbage := filepath.Join(dir, "missing"), writeFile(t, filepath.Join(dir, "garbage"),
		"garbage")
	good, public := filepath.Join(dir, "good"), filepath.Join(dir, "public.pub")
	goodKey := writeKey(t, good, "")
	writeFile(t, public, authorizedLine(newSigner(t).PublicKey()))
	// What is there and cannot be read is not "only a public key" because its public half lies
	// beside it.
	unread := filepath.Join(dir, "unread")
	if err := os.Mkdir(unread, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, unread+".pub", authorizedLine(newSigner(t).PublicKey()))
	ids := []string{missing, garbage, public, unread, good}
	_, noFile := os.Stat(missing)
	wants := []string{"the key " + unread + " cannot be read: not a file",
		public + " is a public key", "the key " + missing +
			" cannot be read: " + errors.Unwrap(noFile).Error(), garbage, public,
		ssh.FingerprintSHA256(goodKey), good, "tried publickey"}
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
	var banners []string
	d := srv.dialer(t, &Config{Banner: func(host, text string) {
		banners = append(banners, host+": "+text)
	}})
	dialTwice(t, d)
	if !slices.Equal(banners, []string{"h: welcome\n"}) {
		t.Errorf("the banners of two logins were %q", banners)
	}
}

// TestQuestionlessInstruction: what keyboard-interactive says without asking anything is shown.
func TestQuestionlessInstruction(t *testing.T) {
	srv := newTestServer(t)
	srv.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata,
		ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		for _, text := range []string{"Look at your phone.", ""} {
			if _, err := ask("", text, nil, nil); err != nil {
				return nil, err
			}
		}
		_, err := ask("Almost", "there", nil, nil)
		return nil, err
	}
	var shown []string
	d := srv.dialer(t, &Config{Prompter: &script{},
		Banner: func(host, text string) { shown = append(shown, host+": "+text) }})
	conn, err := d.Dial(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if want := []string{"h: Look at your phone.", "h: Almost\nthere"}; !slices.Equal(shown, want) {
		t.Errorf("shown was %q, want %q", shown, want)
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
	if !errors.As(err, &bad) || bad.Problem != HostKeyChanged || bad.File != d.s.userKnown[0] ||
		bad.Line != 1 {
		t.Errorf("got %v", err)
	}
}

// TestLinesBeforeTheVersion: however many lines a server sends before its version, a login that
// fails is not taken for a server that does not speak SSH.
func TestLinesBeforeTheVersion(t *testing.T) {
	lines := strings.Repeat("Welcome to this server.\r\n", 500)
	greeting := func(srv *testServer) func(context.Context) (net.Conn, error) {
		return func(context.Context) (net.Conn, error) {
			ours, theirs := socketPair()
			io.WriteString(theirs, lines)
			go srv.serve(theirs)
			return ours, nil
		}
	}
	srv, other := newTestServer(t), newTestServer(t)
	srv.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
		return nil, errors.New("no")
	}
	d := srv.dialer(t, &Config{})
	d.tcp = greeting(srv)
	_, err := d.Dial(testContext(t))
	if _, refused := errors.AsType[*AuthError](err); !refused {
		t.Errorf("a refused login: %v", err)
	}
	other.NoClientAuth = true
	d.tcp = greeting(other)
	_, err = d.Dial(testContext(t))
	bad, ok := errors.AsType[*HostKeyError](err)
	if !ok || bad.Problem != HostKeyChanged {
		t.Errorf("a changed key: %v", err)
	}
}

// TestSniffer: a version is seen wherever reads divide the bytes.
func TestSniffer(t *testing.T) {
	for text, want := range map[string]bool{
		"SSH-2.0-x": true, "one\r\ntwo\nSSH-2.0-x": true, "one SSH-2.0-x": false,
		strings.Repeat("-", sniffLimit) + "\nSSH-2.0-x": true,
	} {
		for n := 1; n <= len(text); n++ {
			var s sniffer
			for piece := range slices.Chunk([]byte(text), n) {
				s.saw(piece)
			}
			if s.sawSSH() != want {
				t.Fatalf("%.20q in pieces of %d: %v", text, n, s.sawSSH())
			}
		}
	}
}

func TestNoCommonAlgorithm(t *testing.T) {
	srv := newTestServer(t)
	srv.NoClientAuth = true
	srv.Ciphers = []string{ssh.CipherAES256CTR}
	_, err := srv.dialer(t, &Config{Ciphers: "aes128-gcm@openssh.com"}).Dial(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "aes128-gcm@openssh.com") ||
		!strings.Contains(err.Error(), "aes256-ctr") || !strings.Contains(err.Error(), "dial.Config.SSH") {
		t.Errorf("got %v", err)
	}
}

// What an old server has is left to the system's ssh, also if it is to be added to the default
// list: it is not had here, and nothing else in the list is the server's.
func TestOldAlgorithmIsLeftToTheSystemsSSH(t *testing.T) {
	for _, value := range []string{"+hmac-sha1-96", "^hmac-sha1-96"} {
		srv := newTestServer(t)
		srv.NoClientAuth = true
		srv.MACs, srv.Ciphers = []string{"hmac-sha1-96"}, []string{ssh.CipherAES256CTR}
		_, err := srv.dialer(t, &Config{Ciphers: "aes256-ctr",
			Options: []string{"MACs=" + value}}).Dial(testContext(t))
		if err == nil || !strings.Contains(err.Error(), "dial.Config.SSH") {
			t.Errorf("MACs %s: %v", value, err)
		}
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
	c := dialed(t, srv.dialer(t, &Config{}))
	_, err := c.Open(testContext(t))
	var sub *SubsystemError
	if !errors.As(err, &sub) || sub.ExitStatus != 7 ||
		sub.Text != "no sftp? here; ask your admin" ||
		!strings.HasSuffix(err.Error(),
			"; whoever runs it can add \"Subsystem sftp internal-sftp\" to its sshd_config, and `scp -O` copies without SFTP") {
		t.Errorf("got %v (%+v)", err, sub)
	}
}

// TestKeyboardInteractiveWithoutQuestions: tried once.
func TestKeyboardInteractiveWithoutQuestions(t *testing.T) {
	srv := newTestServer(t)
	srv.KeyboardInteractiveCallback = func(ssh.ConnMetadata, ssh.KeyboardInteractiveChallenge) (
		*ssh.Permissions, error) {
		return nil, errors.New("no")
	}
	if _, err := srv.dialer(t, &Config{Prompter: &script{}}).Dial(testContext(t)); err == nil {
		t.Fatal("it logged in")
	}
	if f := srv.failures(); !slices.Equal(f, []string{"none", "keyboard-interactive"}) {
		t.Errorf("refused were %v", f)
	}
}

// TestConcurrentDials ask once.
func TestConcurrentDials(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	p := &script{answers: []string{"secret"}}
	d := srv.dialer(t, &Config{Prompter: p})
	dialed(t, d)
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

// wantsPasswordFirst makes a server that takes any password, and then one key.
func wantsPasswordFirst(srv *testServer, public ssh.PublicKey) {
	srv.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
		return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{
			PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
				if !sameKey(key, public) {
					return nil, errors.New("another key")
				}
				return nil, nil
			}}}
	}
}

// TestPasswordBeforeTheKey: a key that was refused because it was not its turn yet is offered again
// once a password has made it so.
func TestPasswordBeforeTheKey(t *testing.T) {
	srv, dir := newTestServer(t), t.TempDir()
	public := writeKey(t, filepath.Join(dir, "id"), "")
	wantsPasswordFirst(srv, public)
	p := &script{answers: []string{"secret"}}
	dialTwice(t, srv.dialer(t, &Config{Prompter: p, Identities: []string{filepath.Join(dir, "id")}}))
	if len(p.asked) != 1 {
		t.Errorf("asked %+v", p.asked)
	}
}
