package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
)

var errWrong = errors.New("wrong")

func askFor(secret string) ssh.AuthMethod {
	return ssh.Password(func() (string, error) { return secret, nil }, nil)
}

// TestKeys logs in with each type of key and its certificate, by offering it and in one flight.
func TestKeys(t *testing.T) {
	for _, kind := range keyTypes {
		key := signer(t, kind)
		for name, key := range map[string]xssh.Signer{
			kind: key, kind + " certificate": certify(t, key, xssh.UserCert, "ann"),
		} {
			t.Run(name, func(t *testing.T) {
				cc, sc := clientConfig(key), serverConfig(t, key.PublicKey())
				client, server := connect(t, cc, sc)
				if got := server.Permissions().Extensions["who"]; got != "ann" ||
					server.User() != "ann" {
					t.Errorf("%q logged in with the permissions of %q", server.User(), got)
				}
				go echo(server)
				if ch, ok, err := client.FlightChannel(context.Background()); ch != nil || ok ||
					err != nil {
					t.Errorf("a flight that nobody asked for: %v %v", ok, err)
				}
				roundTrip(t, client, pattern(100))
			})
			t.Run(name+" in one flight", func(t *testing.T) {
				cc, sc := clientConfig(key), serverConfig(t, key.PublicKey())
				cc.Auth = nil
				cc.Flight = func(*ssh.Conn) *ssh.Flight {
					return &ssh.Flight{Signer: key, Subsystem: "sftp"}
				}
				client, server := connect(t, cc, sc)
				go echo(server)
				ch, ok, err := client.FlightChannel(context.Background())
				if err != nil || !ok {
					t.Fatalf("the flight's channel: %v %v", ok, err)
				}
				ch.Write([]byte("hello"))
				ch.CloseWrite()
				if got, err := io.ReadAll(ch); string(got) != "hello" || err != nil {
					t.Errorf("%q came back, %v", got, err)
				}
			})
		}
	}
}

// offered is a key that can be offered but cannot sign.
type offered struct{ xssh.Signer }

func (offered) Sign(io.Reader, []byte) (*xssh.Signature, error) {
	return nil, errors.New("the key cannot sign")
}

// TestPermissionsOfTheKeyThatSigned is CVE-2024-45337: a client offers someone else's key, which
// may log in, and signs with its own. It must get the permissions of its own key.
func TestPermissionsOfTheKeyThatSigned(t *testing.T) {
	admin, own := signer(t, "ed25519"), signer(t, "ed25519")
	cc, sc := clientConfig(own), serverConfig(t, own.PublicKey())
	sc.Auth.PublicKeyCallback = func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions,
		error) {
		who := "own"
		if bytes.Equal(key.Marshal(), admin.PublicKey().Marshal()) {
			who = "admin"
		}
		return &xssh.Permissions{Extensions: map[string]string{"who": who}}, nil
	}
	cc.Auth = once(ssh.PublicKey(offered{admin}), ssh.PublicKey(own))
	_, server := connect(t, cc, sc)
	if got := server.Permissions().Extensions["who"]; got != "own" {
		t.Errorf("who signed with its own key has the permissions of %q", got)
	}
}

// TestHostKeys makes the server prove its identity with each type of key and its certificate.
func TestHostKeys(t *testing.T) {
	user := signer(t, "ed25519")
	for _, kind := range keyTypes {
		key := signer(t, kind)
		for name, key := range map[string]xssh.Signer{
			kind: key, kind + " certificate": certify(t, key, xssh.HostCert, "host"),
		} {
			t.Run(name, func(t *testing.T) {
				cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
				sc.HostKeys = []xssh.Signer{key}
				var shown xssh.PublicKey
				cc.HostKey = func(_ net.Addr, key xssh.PublicKey, _ string) error {
					shown = key
					return nil
				}
				client, _ := connect(t, cc, sc)
				if string(shown.Marshal()) != string(key.PublicKey().Marshal()) {
					t.Error("another key was shown")
				}
				must(t, client.Rekey())
				if _, _, err := client.SendRequest(context.Background(), "ask", true,
					nil); err != nil {
					t.Errorf("behind an exchange of keys: %v", err)
				}
			})
		}
	}
}

// takes accepts one password.
func takes(secret string) func(xssh.ConnMetadata, []byte) (*xssh.Permissions, error) {
	return func(_ xssh.ConnMetadata, p []byte) (*xssh.Permissions, error) {
		if string(p) != secret {
			return nil, errWrong
		}
		return nil, nil
	}
}

// TestRefusedFlight: the login continues, and has used one failed attempt.
func TestRefusedFlight(t *testing.T) {
	right := signer(t, "ed25519")
	for _, c := range []struct {
		method string
		flight ssh.Flight
	}{
		{"publickey", ssh.Flight{Signer: signer(t, "rsa"), Subsystem: "sftp"}},
		{"password", ssh.Flight{Password: "wrong", Subsystem: "sftp"}},
	} {
		t.Run(c.method, func(t *testing.T) {
			cc, sc := clientConfig(right), serverConfig(t, right.PublicKey())
			sc.Auth.PasswordCallback = takes("secret")
			cc.Flight = func(*ssh.Conn) *ssh.Flight { return &c.flight }
			var failed []string
			sc.AuthLog = func(_ xssh.ConnMetadata, method string, err error) {
				if err != nil {
					failed = append(failed, method)
				}
			}
			client, server := connect(t, cc, sc)
			go echo(server)
			if !slices.Equal(failed, []string{c.method}) {
				t.Errorf("failed: %v", failed)
			}
			roundTrip(t, client, pattern(1000))
		})
	}
}

// TestFlightThatIsTheLastAttempt: a server that allows only one attempt is not reported as one that
// cannot handle a flight, because another try would fail too.
func TestFlightThatIsTheLastAttempt(t *testing.T) {
	right, wrong := signer(t, "ed25519"), signer(t, "ed25519")
	cc, sc := clientConfig(right), serverConfig(t, right.PublicKey())
	sc.MaxAuthTries = 1
	cc.Flight = func(*ssh.Conn) *ssh.Flight { return &ssh.Flight{Signer: wrong, Subsystem: "sftp"} }
	_, _, err, _ := tryConnect(cc, sc, nil)
	var refused *ssh.AuthError
	if !errors.As(err, &refused) || !slices.Equal(refused.Tried, []string{"publickey"}) {
		t.Errorf("the login ended with %v", err)
	}
}

// TestFlightToAServerThatHangsUp: this is distinguished from a refused login.
func TestFlightToAServerThatHangsUp(t *testing.T) {
	right := signer(t, "ed25519")
	cc, sc := clientConfig(right), serverConfig(t, right.PublicKey())
	var server net.Conn
	sc.AuthLog = func(xssh.ConnMetadata, string, error) { server.Close() }
	sc.Auth.PublicKeyCallback = func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
		return nil, errWrong
	}
	cc.Flight = func(*ssh.Conn) *ssh.Flight { return &ssh.Flight{Signer: right, Subsystem: "sftp"} }
	near, far := testenv.TCPPair()
	server = far
	go ssh.Server(far, sc)
	_, err := ssh.Client(context.Background(), near, cc)
	var flight *ssh.FlightError
	if !errors.As(err, &flight) {
		t.Errorf("the login ended with %v", err)
	}
}

// TestFlightToAServerThatNumbersChannelsOtherwise: a server is recognized by its first channel's
// number, even if it takes its time to open it.
func TestFlightToAServerThatNumbersChannelsOtherwise(t *testing.T) {
	key := signer(t, "ed25519")
	for _, takes := range []time.Duration{0, time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cc, sc := clientConfig(key), serverConfig(t, key.PublicKey())
				sc.Auth.PublicKeyCallback = func(conn xssh.ConnMetadata,
					_ xssh.PublicKey) (*xssh.Permissions, error) {
					ssh.OccupyFirst(conn)
					return nil, nil
				}
				cc.Flight = func(*ssh.Conn) *ssh.Flight {
					return &ssh.Flight{Signer: key, Subsystem: "sftp"}
				}
				client, server, err, serverErr := shake(cc, sc, same, same)
				if err != nil || serverErr != nil {
					t.Fatal(err, serverErr)
				}
				defer end(client, server)
				go func() {
					time.Sleep(takes)
					if offer, err := server.Accept(); err == nil {
						offer.Accept()
					}
				}()
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				var flight *ssh.FlightError
				if _, _, err := client.FlightChannel(ctx); !errors.As(err, &flight) {
					t.Errorf("the flight ended with %v", err)
				}
			})
		})
	}
}

// TestMethods: passwords, keyboard-interactive, several methods in a row, and methods that cannot
// be answered.
func TestMethods(t *testing.T) {
	key := signer(t, "ed25519")
	check := func(secret string) error {
		if secret != "secret" {
			return errWrong
		}
		return nil
	}
	callbacks := xssh.ServerAuthCallbacks{
		PasswordCallback: func(_ xssh.ConnMetadata, p []byte) (*xssh.Permissions, error) {
			return nil, check(string(p))
		},
		KeyboardInteractiveCallback: func(_ xssh.ConnMetadata,
			ask xssh.KeyboardInteractiveChallenge) (*xssh.Permissions, error) {
			answers, err := ask("name", "instruction", []string{"Password: ", "Code: "},
				[]bool{false, true})
			if err != nil {
				return nil, err
			}
			if answers[1] != "42" {
				return nil, errWrong
			}
			return nil, check(answers[0])
		},
	}
	answer := func(secret string) ssh.AuthMethod {
		return ssh.KeyboardInteractive(func(name, instruction string, questions []string,
			echos []bool) ([]string, error) {
			if name != "name" || instruction != "instruction" || len(questions) != 2 || echos[0] ||
				!echos[1] {
				return nil, errors.New("other questions than were asked")
			}
			return []string{secret, "42"}, nil
		})
	}
	fails := ssh.Password(func() (string, error) { return "", errors.New("nobody is here") }, nil)
	partial := xssh.ServerAuthCallbacks{
		PublicKeyCallback: func(c xssh.ConnMetadata, k xssh.PublicKey) (*xssh.Permissions, error) {
			if _, err := letIn(key.PublicKey())(c, k); err != nil {
				return nil, err
			}
			return nil, &xssh.PartialSuccessError{Next: callbacks}
		},
	}
	for _, c := range []struct {
		name   string
		server xssh.ServerAuthCallbacks
		with   []ssh.AuthMethod
		fails  string // part of the client's error
		tried  []string
	}{
		{name: "password", server: callbacks, with: []ssh.AuthMethod{askFor("secret")}},
		{name: "second password", server: callbacks,
			with: []ssh.AuthMethod{askFor("no"), askFor("secret")}, tried: []string{"password"}},
		{name: "keyboard", server: callbacks, with: []ssh.AuthMethod{answer("secret")}},
		{name: "second answer", server: callbacks,
			with:  []ssh.AuthMethod{answer("no"), answer("secret")},
			tried: []string{"keyboard-interactive"}},
		{name: "nobody answers", server: callbacks, with: []ssh.AuthMethod{fails, askFor("secret")},
			tried: []string{"password"}},
		{name: "nobody answers a question", server: callbacks, with: []ssh.AuthMethod{
			ssh.KeyboardInteractive(func(string, string, []string, []bool) ([]string, error) {
				return nil, errors.New("nobody is here")
			}), askFor("secret")}, tried: []string{"keyboard-interactive"}},
		{name: "key and password", server: partial,
			with: []ssh.AuthMethod{ssh.PublicKey(key), askFor("secret")}},
		{name: "key alone does not do", server: partial, with: []ssh.AuthMethod{ssh.PublicKey(key)},
			fails: "no other way"},
		{name: "password not before the key", server: partial,
			with: []ssh.AuthMethod{askFor("secret")}, fails: "the server accepts publickey"},
		{name: "nothing", server: callbacks,
			fails: "the server accepts password,keyboard-interactive"},
		{name: "wrong key", server: partial,
			with:  []ssh.AuthMethod{ssh.PublicKey(signer(t, "rsa"))},
			fails: "tried publickey"},
		{name: "too often", server: callbacks, with: []ssh.AuthMethod{askFor("1"), askFor("2"),
			askFor("3"), askFor("4"), askFor("5"), askFor("6"), askFor("secret")},
			fails: "too many authentication failures"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cc, sc := clientConfig(key), serverConfig(t, key.PublicKey())
			sc.Auth = c.server
			sc.Banner = func(xssh.ConnMetadata) string { return "welcome" }
			var banner string
			cc.Banner = func(text string) error { banner = text; return nil }
			next := once(c.with...)
			var tried []string
			cc.Auth = func(a *ssh.AuthContext) (ssh.AuthMethod, error) {
				tried = a.Tried
				return next(a)
			}
			client, server, err, serverErr := tryConnect(cc, sc, nil)
			if banner != "welcome" {
				t.Errorf("the banner was %q", banner)
			}
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || serverErr == nil {
					t.Errorf("client: %v; server: %v", err, serverErr)
				}
				return
			}
			if err != nil || serverErr != nil {
				t.Fatalf("client: %v; server: %v", err, serverErr)
			}
			if !slices.Equal(tried, c.tried) {
				t.Errorf("tried %v", tried)
			}
			client.Close()
			server.Close()
		})
	}
}

// TestKeyRevokedBeforeItSigns: that a key would have been accepted when the client asked does not let
// it log in.
func TestKeyRevokedBeforeItSigns(t *testing.T) {
	key := signer(t, "ed25519")
	cc, sc := clientConfig(key), serverConfig(t, nil)
	cc.Auth = once(ssh.PublicKey(key))
	times := 0
	sc.Auth.PublicKeyCallback = func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
		if times++; times > 1 {
			return nil, errWrong
		}
		return nil, nil
	}
	if _, _, err, serverErr := tryConnect(cc, sc, nil); err == nil || serverErr == nil || times != 2 {
		t.Errorf("client: %v; server: %v; it was asked %d times", err, serverErr, times)
	}
}

// TestKeptKeys: a callback may keep the keys that it is asked about. What the client sends later
// does not change them.
func TestKeptKeys(t *testing.T) {
	first, second := signer(t, "ed25519"), signer(t, "ed25519")
	cc, sc := clientConfig(first), serverConfig(t, second.PublicKey())
	cc.Auth = once(ssh.PublicKey(first), ssh.PublicKey(second))
	var kept []xssh.PublicKey
	var seen []string
	inner := sc.Auth.PublicKeyCallback
	sc.Auth.PublicKeyCallback = func(c xssh.ConnMetadata,
		k xssh.PublicKey) (*xssh.Permissions, error) {
		kept, seen = append(kept, k), append(seen, xssh.FingerprintSHA256(k))
		return inner(c, k)
	}
	connect(t, cc, sc)
	for i, k := range kept {
		if got := xssh.FingerprintSHA256(k); got != seen[i] {
			t.Errorf("key %d was %s and is %s", i+1, seen[i], got)
		}
	}
}

// TestPasswordChange: a server that wants another password gets the old one and a new one, as often
// as it likes, and what it says then is what counts.
func TestPasswordChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fresh   []string
		ok      bool
		changes int
	}{
		"accepted":            {[]string{"fresh"}, true, 1},
		"accepted at last":    {[]string{"short", "fresh"}, true, 2},
		"refused":             {[]string{"refused"}, false, 1},
		"never accepted":      {[]string{"short", "short", "short", "short", "short", "short"}, false, 5},
		"not possible":        {[]string{"fresh"}, false, 0},
		"not given":           {nil, false, 0},
		"longer than allowed": {[]string{strings.Repeat("x", 8<<10)}, false, 0},
		"accepted in part":    {[]string{"partly"}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes, said := 0, 0
			expired := &ssh.PasswordChangeError{Prompt: "expired"}
			server := serverConfig(t, nil)
			server.Auth = xssh.ServerAuthCallbacks{PasswordCallback: func(xssh.ConnMetadata,
				[]byte) (*xssh.Permissions, error) {
				return nil, expired
			}}
			server.ChangePassword = func(_ xssh.ConnMetadata, old, fresh []byte) (*xssh.Permissions,
				error) {
				changes++
				switch {
				case string(old) != "old":
					return nil, errWrong
				case string(fresh) == "fresh":
					return nil, nil
				case string(fresh) == "short":
					return nil, expired
				case string(fresh) == "partly":
					return nil, &xssh.PartialSuccessError{Next: server.Auth}
				}
				return nil, errWrong
			}
			if name == "not possible" {
				server.ChangePassword = nil
			}
			client := clientConfig(nil)
			client.Auth = once(ssh.Password(func() (string, error) { return "old", nil },
				func(text string) (old, fresh string, err error) {
					if text != "expired" || said >= len(c.fresh) {
						return "", "", errWrong
					}
					said++
					return "old", c.fresh[said-1], nil
				}))
			a, b, err, serverErr := tryConnect(client, server, nil)
			if (err == nil) != c.ok || (serverErr == nil) != c.ok || changes != c.changes {
				t.Errorf("%v, %v after %d changes, want %d", err, serverErr, changes, c.changes)
			}
			if c.ok {
				a.Close()
				b.Close()
			}
		})
	}
}
