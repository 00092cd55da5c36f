package ssh

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	xssh "golang.org/x/crypto/ssh"
)

// framed makes packets of messages, without encryption.
func framed(messages ...[]byte) (all []byte) {
	for _, m := range messages {
		pad := plain{}.form().padding(len(m))
		all = append(appendUint32(all, uint32(1+len(m)+pad)), append([]byte{byte(pad)}, m...)...)
		all = append(all, make([]byte, pad)...)
	}
	return all
}

// loginServer is the server's side of a login on an unencrypted connection. It accepts key.
func loginServer(p []byte, key xssh.PublicKey) *serverLogin { return loginServerOn(feedOf(p), key) }

func loginServerOn(conn net.Conn, key xssh.PublicKey) *serverLogin {
	tr := newTransport(conn, nil, Supported(), 0)
	tr.session = []byte("session")
	refuse := errors.New("no")
	return &serverLogin{transport: tr, conn: newConn(tr, 0),
		config: &ServerConfig{MaxAuthTries: maxAuthTries}, callbacks: xssh.ServerAuthCallbacks{
			PasswordCallback: func(xssh.ConnMetadata, []byte) (*xssh.Permissions, error) {
				return nil, refuse
			},
			PublicKeyCallback: func(_ xssh.ConnMetadata, k xssh.PublicKey) (*xssh.Permissions,
				error) {
				if bytes.Equal(k.Marshal(), key.Marshal()) {
					return nil, nil
				}
				return nil, refuse
			},
			KeyboardInteractiveCallback: func(_ xssh.ConnMetadata,
				ask xssh.KeyboardInteractiveChallenge) (*xssh.Permissions, error) {
				if _, err := ask("", "", []string{"1", "2"}, []bool{false, true}); err != nil {
					return nil, err
				}
				return nil, refuse
			},
		}}
}

// TestBoundsBeforeLogin: packets, bytes and attempts are limited before a login.
func TestBoundsBeforeLogin(t *testing.T) {
	service := appendString([]byte{msgServiceRequest}, serviceUserAuth)
	ask := func(method string, rest []byte) []byte {
		return (&authRequest{"u", serviceConnection, method, rest}).append(nil)
	}
	key := fuzzKey.PublicKey()
	query := ask("publickey", (&keyRequest{false, "ssh-ed25519", key.Marshal(), nil}).append(nil))
	for _, c := range []struct {
		name     string
		messages [][]byte
		most     int // packets that are read
	}{
		{"packets of nothing", slices.Repeat([][]byte{{msgIgnore, 0, 0, 0, 0}}, 5000),
			loginPackets + 1},
		{"pings", slices.Repeat([][]byte{{msgPing, 0, 0, 0, 0}}, 5000), loginPackets + 1},
		{"a long ping", [][]byte{appendString([]byte{msgPing}, make([]byte, loginPing+1)), {msgIgnore}},
			1},
		{"bytes", slices.Repeat([][]byte{appendString([]byte{msgIgnore}, make([]byte, 32000))},
			200),
			loginBytes/32000 + 3},
		{"failed passwords", append([][]byte{service}, slices.Repeat([][]byte{ask("password",
			appendString(appendBool(nil, false), "x"))}, 5000)...), maxAuthTries + 1},
		{"a method with a long name", append([][]byte{service}, slices.Repeat([][]byte{
			ask(strings.Repeat("m", maxMethod+1), nil)}, 100)...), 2},
		{"nones", append([][]byte{service}, slices.Repeat([][]byte{ask("none", nil)}, 5000)...),
			maxAuthTries + 2},
		{"queries for a key that would do", append([][]byte{service}, slices.Repeat([][]byte{query},
			5000)...), serverAttempts + 1},
		{"channels", append([][]byte{service}, slices.Repeat([][]byte{
			(&channelOpen{"session", 0, 1, 1 << 15, nil}).append(nil)}, 5000)...), serverAttempts +
			1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := loginServer(framed(c.messages...), key)
			defer l.end(ErrClosed)
			if _, err := l.run(); err == nil {
				t.Fatal("nobody logged in")
			}
			if int(l.in.packets) > c.most || l.in.total > loginBytes+maxFirstPacket+idleSize {
				t.Errorf("%d packets and %d bytes were read", l.in.packets, l.in.total)
			}
		})
	}
}

// deaf is a connection that takes no data any more.
type deaf struct{ feed }

func (deaf) Write([]byte) (int, error) { return 0, net.ErrClosed }

// TestReasonOfDisconnect: a login fails for its own reason, also when the client has gone and
// cannot be told.
func TestReasonOfDisconnect(t *testing.T) {
	l := loginServerOn(deaf{feedOf(framed(appendString([]byte{msgServiceRequest}, "other")))},
		fuzzKey.PublicKey())
	defer l.end(ErrClosed)
	if _, err := l.run(); err == nil || !strings.Contains(err.Error(), "no such service") {
		t.Errorf("it failed because of: %v", err)
	}
}

// TestAbandonedQuestions: a client that sends another request instead of its answers has answered
// nothing, whatever the callback makes of that.
func TestAbandonedQuestions(t *testing.T) {
	ask := func(method string) []byte {
		return (&authRequest{"u", serviceConnection, method,
			appendString(appendString(nil, ""), "")}).append(nil)
	}
	for _, result := range []error{nil, &xssh.PartialSuccessError{}} {
		l := loginServer(framed(appendString([]byte{msgServiceRequest}, serviceUserAuth),
			ask("keyboard-interactive"), ask("none")), fuzzKey.PublicKey())
		l.callbacks.KeyboardInteractiveCallback = func(_ xssh.ConnMetadata,
			ask xssh.KeyboardInteractiveChallenge) (*xssh.Permissions, error) {
			ask("", "", []string{"?"}, []bool{false})
			return nil, result
		}
		_, err := l.run()
		l.end(ErrClosed)
		if err == nil || l.partial || len(l.errs) == 0 || !errors.Is(l.errs[0], errAbandoned) {
			t.Errorf("%v: %v, partial %v, %v", result, err, l.partial, l.errs)
		}
	}
}

// TestBoundsOfClient: a server cannot keep a client busy before the login.
func TestBoundsOfClient(t *testing.T) {
	accept := appendString([]byte{msgServiceAccept}, serviceUserAuth)
	refusal := func(partial bool) []byte {
		return (&authFailure{[]string{"publickey", "password", "keyboard-interactive"},
			partial}).append(nil)
	}
	text := func(number byte, text string) []byte {
		return appendString(appendString([]byte{number}, text), "")
	}
	question := (&infoRequest{"", "", []string{"?"}, []bool{true}}).append(nil)
	million := appendUint32(appendString(appendString(appendString([]byte{msgUserAuthInfoRequest},
		""), ""), ""), 1e6)
	blob := fuzzKey.PublicKey().Marshal()
	wouldDo := appendString(appendString([]byte{msgUserAuthPubKeyOK}, "ssh-ed25519"), blob)
	key, password := PublicKey(fuzzKey), Password(func() (string, error) { return "x", nil },
		func(string) (string, string, error) { return "x", "y", nil })
	answers := KeyboardInteractive(func(_, _ string, asked []string, _ []bool) ([]string, error) {
		return make([]string, len(asked)), nil
	})
	endless := func(first [][]byte, then ...[]byte) [][]byte {
		return append(first, slices.Repeat(then, 5000)...)
	}
	for _, c := range []struct {
		name     string
		method   AuthMethod
		messages [][]byte
		most     int // packets that are read
	}{
		{"nothing", key, endless(nil, []byte{msgIgnore, 0, 0, 0, 0}), loginPackets + 1},
		{"pings", key, endless(nil, []byte{msgPing, 0, 0, 0, 0}), loginPackets + 1},
		{"a long ping", key, [][]byte{appendString([]byte{msgPing}, make([]byte, loginPing+1)),
			{msgIgnore}}, 1},
		{"extensions", key, endless(nil, appendExtInfo(nil, []string{"ssh-ed25519"})),
			loginPackets + 1},
		{"UNIMPLEMENTED", key, endless(nil, []byte{msgUnimplemented, 0, 0, 0, 0}), loginPackets + 1},
		{"long messages", key, endless(nil, appendString([]byte{msgIgnore}, make([]byte, 32000))),
			loginBytes/32000 + 3},
		{"banners", key, endless([][]byte{accept}, text(msgUserAuthBanner, "hello")),
			maxQuestions + 2},
		{"questions", answers, endless([][]byte{accept, refusal(false)}, question),
			maxQuestions + 3},
		{"no questions", answers, endless([][]byte{accept, refusal(false)},
			(&infoRequest{}).append(nil)), maxQuestions + 3},
		{"a million questions", answers, [][]byte{accept, refusal(false), million, question}, 3},
		{"refusals", password, endless([][]byte{accept}, refusal(false)), maxAttempts + 3},
		{"partial successes", password, endless([][]byte{accept}, refusal(true)), maxAttempts + 3},
		{"password changes", password, endless([][]byte{accept, refusal(false)},
			text(msgUserAuthPubKeyOK, "change")), maxAttempts + 3},
		{"the service twice", key, [][]byte{accept, accept, refusal(false)}, 2},
		{"a login without the service", key, [][]byte{{msgUserAuthSuccess}, accept}, 1},
		{"a key twice", key, [][]byte{accept, refusal(false), wouldDo, wouldDo, refusal(false)}, 4},
		{"another key", key, [][]byte{accept, refusal(false), text(msgUserAuthPubKeyOK, "x"),
			refusal(false)}, 3},
		{"a channel", key, [][]byte{accept, (&channelOpen{"session", 0, 1, 1 << 15, nil}).append(nil),
			refusal(false)}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTransport(feedOf(framed(c.messages...)), nil, Supported(), 0)
			tr.client, tr.session = true, []byte("session")
			l := &clientLogin{transport: tr, conn: newConn(tr, 0), first: "none",
				config: &ClientConfig{User: "u",
					Auth: func(*AuthContext) (AuthMethod, error) { return c.method, nil }}}
			defer l.end(ErrClosed)
			if err := l.run(); err == nil {
				t.Fatal("it logged in")
			}
			if int(l.in.packets) > c.most || l.in.total > loginBytes+maxFirstPacket+idleSize {
				t.Errorf("%d packets and %d bytes were read", l.in.packets, l.in.total)
			}
		})
	}
}

// TestExchangesBeforeLogin: a peer cannot make either side exchange keys again and again.
func TestExchangesBeforeLogin(t *testing.T) {
	for _, hostile := range []string{"client", "server"} {
		t.Run(hostile, func(t *testing.T) {
			a, b := testenv.TCPPair()
			algorithms := Supported()
			algorithms.HostKeys = []string{xssh.KeyAlgoED25519}
			tr := newTransport(a, nil, algorithms, 0)
			tr.client, tr.hostKeys = hostile == "client", []xssh.Signer{fuzzKey}
			tr.acceptHostKey = func(xssh.PublicKey, string) error { return nil }
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				tr.handshake("SSH-2.0-x", func() error {
					tr.login = false // no limits here
					for range 100 {
						if err := tr.rekey(); err != nil {
							return err
						}
						p, err := tr.in.read()
						for err == nil && p[0] != msgKexInit {
							p, err = tr.in.read()
						}
						if err == nil {
							err = tr.exchange(p)
						}
						if err != nil {
							return err
						}
					}
					return errors.New("it goes on and on")
				})
			}()
			var err error
			if hostile == "client" {
				_, err = Server(b, &ServerConfig{Version: "SSH-2.0-s", HostKeys: []xssh.Signer{fuzzKey},
					NoAuth: func(xssh.ConnMetadata) (*xssh.Permissions, error) {
						return nil, errors.New("nobody")
					}})
			} else {
				_, err = Client(t.Context(), b, &ClientConfig{User: "u", Version: "SSH-2.0-c",
					HostKey: func(net.Addr, xssh.PublicKey, string) error { return nil }})
			}
			<-ended
			if err == nil || !strings.Contains(err.Error(), "too many key exchanges") ||
				tr.exchanges > loginExchanges {
				t.Errorf("after %d exchanges: %v", tr.exchanges, err)
			}
		})
	}
}

// TestLongSecrets: the callbacks are not asked about names, passwords and answers that are too
// long.
func TestLongSecrets(t *testing.T) {
	user := func(n int) string { return strings.Repeat("u", n) }
	password := func(n int) []byte {
		return appendString(appendBool(nil, false), make([]byte, n))
	}
	service := appendString([]byte{msgServiceRequest}, serviceUserAuth)
	for _, c := range []struct {
		name     string
		messages [][]byte
		asked    int
	}{
		{"a name", [][]byte{(&authRequest{user(maxUser), serviceConnection, "password",
			password(1)}).append(nil)}, 1},
		{"too long a name", [][]byte{(&authRequest{user(maxUser + 1), serviceConnection, "password",
			password(1)}).append(nil)}, 0},
		{"a password", [][]byte{(&authRequest{"u", serviceConnection, "password",
			password(maxSecret)}).append(nil)}, maxSecret},
		{"too long a password", [][]byte{(&authRequest{"u", serviceConnection, "password",
			password(maxSecret + 1)}).append(nil)}, 0},
		{"an answer", [][]byte{(&authRequest{"u", serviceConnection, "keyboard-interactive",
			make([]byte, 8)}).append(nil), appendInfoResponse(nil, []string{user(8000)})}, 8000},
		{"too long an answer", [][]byte{
			(&authRequest{"u", serviceConnection, "keyboard-interactive",
				make([]byte, 8)}).append(nil), appendInfoResponse(nil, []string{user(maxSecret)})},
			0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := loginServer(framed(append([][]byte{service}, c.messages...)...),
				fuzzKey.PublicKey())
			defer l.end(ErrClosed)
			asked := 0
			refuse := errors.New("no")
			l.callbacks.PasswordCallback = func(_ xssh.ConnMetadata, p []byte) (*xssh.Permissions,
				error) {
				asked = len(p)
				return nil, refuse
			}
			l.callbacks.KeyboardInteractiveCallback = func(_ xssh.ConnMetadata,
				ask xssh.KeyboardInteractiveChallenge) (*xssh.Permissions, error) {
				answers, err := ask("", "", []string{"1"}, []bool{false})
				if err != nil {
					return nil, err
				}
				asked = len(answers[0])
				return nil, refuse
			}
			if _, err := l.run(); err == nil {
				t.Fatal("nobody logged in")
			}
			if asked != c.asked {
				t.Errorf("the callback got %d bytes, not %d", asked, c.asked)
			}
		})
	}
}

// FuzzLogin makes either side of a login handle arbitrary messages, each preceded by its length.
// Nobody gets in without a signature, and a client is not logged in before the server has granted
// the service.
func FuzzLogin(f *testing.F) {
	script := func(messages ...[]byte) (all []byte) {
		for _, m := range messages {
			all = appendString(all, m)
		}
		return all
	}
	service := appendString([]byte{msgServiceRequest}, serviceUserAuth)
	ask := func(method string, rest []byte) []byte {
		return (&authRequest{"u", serviceConnection, method, rest}).append(nil)
	}
	blob := fuzzKey.PublicKey().Marshal()
	signature := appendString(nil, appendString(appendString(nil, "ssh-ed25519"), make([]byte, 64)))
	f.Add(false, script(service, ask("none", nil), ask("password",
		appendString(appendBool(nil, false), "x"))))
	f.Add(false, script(service, ask("publickey", (&keyRequest{false, "ssh-ed25519", blob,
		nil}).append(nil)), ask("publickey", (&keyRequest{true, "ssh-ed25519", blob,
		signature}).append(nil))))
	f.Add(false, script(service, ask("keyboard-interactive", make([]byte, 8)),
		appendInfoResponse(nil, []string{"a", "b"})))
	accept := appendString([]byte{msgServiceAccept}, serviceUserAuth)
	failure := (&authFailure{[]string{"publickey", "password", "keyboard-interactive"},
		false}).append(nil)
	ok := appendString(appendString([]byte{msgUserAuthPubKeyOK}, "ssh-ed25519"), blob)
	f.Add(true, script(accept, failure, ok, []byte{msgUserAuthSuccess}))
	f.Add(true, script(accept, failure, failure, failure, (&infoRequest{"n", "i", []string{"q"},
		[]bool{true}}).append(nil), appendString(appendString([]byte{msgUserAuthBanner}, "b"), ""),
		[]byte{msgUserAuthSuccess}))
	f.Fuzz(func(t *testing.T, client bool, p []byte) {
		var messages [][]byte
		accepted := false
		for len(p) >= lengthSize {
			n := int(min(length(p), uint32(len(p)-lengthSize)))
			if m := p[lengthSize : lengthSize+n]; len(m) > 0 && m[0] != msgKexInit {
				messages = append(messages, m)
				accepted = accepted || m[0] == msgServiceAccept
			}
			p = p[lengthSize+n:]
		}
		l := loginServer(framed(messages...), fuzzKey.PublicKey())
		defer l.end(ErrClosed)
		if !client {
			if _, err := l.run(); err == nil {
				t.Fatal("nobody logged in")
			}
			return
		}
		l.client = true
		methods := []AuthMethod{PublicKey(fuzzKey), Password(func() (string, error) {
			return "x", nil
		}, func(string) (string, string, error) { return "x", "y", nil }),
			KeyboardInteractive(func(_, _ string, asked []string, _ []bool) ([]string, error) {
				return make([]string, len(asked)), nil
			})}
		c := &clientLogin{transport: l.transport, conn: l.conn, config: &ClientConfig{User: "u",
			HostKey: func(net.Addr, xssh.PublicKey, string) error { return nil },
			Auth: func(*AuthContext) (AuthMethod, error) {
				if len(methods) == 0 {
					return nil, nil
				}
				m := methods[0]
				methods = methods[1:]
				return m, nil
			}}}
		if err := c.run(); err == nil && !accepted {
			t.Fatal("a login that was not granted")
		}
	})
}

// TestServiceAskedAgain: paramiko asks for the service before each attempt, also in place of
// answers.
func TestServiceAskedAgain(t *testing.T) {
	service := appendString([]byte{msgServiceRequest}, serviceUserAuth)
	ask := func(method string, rest []byte) []byte {
		return (&authRequest{"u", serviceConnection, method, rest}).append(nil)
	}
	password := func(text string) []byte { return appendString(appendBool(nil, false), text) }
	for name, messages := range map[string][][]byte{
		"after a failure":  {service, ask("password", password("wrong")), service},
		"more than once":   {service, service, service},
		"without answers":  {service, ask("keyboard-interactive", make([]byte, 8)), service},
		"another service":  {service, appendString([]byte{msgServiceRequest}, "ssh-connection")},
		"again and again":  append(slices.Repeat([][]byte{service}, serverAttempts), service),
		"without its name": {service, {msgServiceRequest}},
	} {
		l := loginServer(framed(append(messages, ask("password", password("right")))...),
			fuzzKey.PublicKey())
		l.callbacks.PasswordCallback = func(_ xssh.ConnMetadata, p []byte) (*xssh.Permissions,
			error) {
			if string(p) != "right" {
				return nil, errors.New("no")
			}
			return nil, nil
		}
		l.callbacks.KeyboardInteractiveCallback = func(_ xssh.ConnMetadata,
			ask xssh.KeyboardInteractiveChallenge) (*xssh.Permissions, error) {
			ask("", "", []string{"?"}, []bool{false})
			return nil, nil
		}
		_, err := l.run()
		l.end(ErrClosed)
		refused := name == "another service" || name == "again and again" ||
			name == "without its name"
		if (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
