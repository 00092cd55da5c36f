//go:build unix

package dial

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// startAgent runs a real ssh-agent that holds the given keys.
func startAgent(t testing.TB, keys ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	agent := exec.Command(opensshd.Find(t, "ssh-agent"), "-D", "-a", socket)
	testenv.Serve(t, agent, "unix", socket)
	for _, key := range keys {
		add := exec.Command(opensshd.Find(t, "ssh-add"), "-q", key)
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("ssh-add %s: %v: %s", key, err, out)
		}
	}
	return socket
}

func allow(t testing.TB, srv *opensshd.Server, publicFile, options string) {
	t.Helper()
	line, err := os.ReadFile(publicFile)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(srv.AuthorizedKeys, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "%s%s", options, line)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
	}{
		{"ed25519", []string{"-t", "ed25519"}},
		{"rsa", []string{"-t", "rsa", "-b", "2048"}},
		{"ecdsa", []string{"-t", "ecdsa"}},
		{"ppk", []string{"-t", "ecdsa"}},
		{"pem", []string{"-t", "rsa", "-b", "2048", "-m", "PEM"}},
		{"locked", []string{"-t", "ed25519", "-N", "phrase", "-a", "1"}},
		{"locked gcm", []string{"-N", "phrase", "-a", "1", "-Z", "aes256-gcm@openssh.com"}},
		{"locked pkcs8", []string{"-t", "rsa", "-b", "2048", "-m", "PKCS8", "-N", "phrase"}},
		{"lockedpem", []string{"-t", "ecdsa", "-m", "PEM", "-N", "phrase"}},
		{"lockedpem without .pub", []string{"-t", "ecdsa", "-m", "PEM", "-N", "phrase"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := opensshd.Keygen(t, filepath.Join(dir, strings.ReplaceAll(c.name, " ", "_")),
				c.args...)
			allow(t, srv, key+".pub", "")
			if strings.Contains(c.name, "without") {
				os.Remove(key + ".pub")
			}
			if strings.Contains(c.name, "ppk") {
				if out, err := exec.Command(testenv.Program(t, "puttygen"), key, "-o",
					key+".ppk").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				os.Rename(key+".ppk", key)
			}
			p := &script{answers: []string{"phrase"}}
			d, err := New(testContext(t), Target{Host: srv.Alias},
				&Config{ConfigFile: srv.ConfigFile, Prompter: p,
					Options: []string{"IdentityFile=" + key}})
			if err != nil {
				t.Fatal(err)
			}
			d.s.identities = d.s.identities[:1] // not the server's own
			dialTwice(t, d)
			want := 0
			if strings.Contains(c.name, "locked") {
				want = 1
			}
			if len(p.asked) != want {
				t.Errorf("asked %+v", p.asked)
			}
		})
	}
}

func TestAgent(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	rsa, other := opensshd.Keygen(t, filepath.Join(dir, "rsa"), "-t", "rsa", "-b",
		"2048"), opensshd.Keygen(t, filepath.Join(dir, "other"))
	allow(t, srv, rsa+".pub", "")
	socket := startAgent(t, other, rsa)
	conf := writeFile(t, filepath.Join(dir, "conf"),
		fmt.Sprintf("HostName %s\nPort %d\nUser %s\nUserKnownHostsFile %s\nIdentityAgent %s\nIdentityFile %s/nothing\n", srv.Host, srv.Port, srv.User, srv.KnownHosts, socket, dir))
	d, err := New(testContext(t), Target{Host: "x"}, &Config{ConfigFile: conf})
	if err != nil {
		t.Fatal(err)
	}
	dialTwice(t, d)
	if n := strings.Count(srv.Log(), "Failed publickey"); n != 0 {
		t.Errorf("%d failed publickey", n)
	}
	// IdentitiesOnly lets the agent serve just what is named, if only by its public half, or by a
	// private one that is not used because others can read it.
	exposed := filepath.Join(dir, "exposed")
	if err := os.Rename(rsa, exposed); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(exposed, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		identity string
		ok       bool
	}{{rsa, true}, {rsa + ".pub", true}, {exposed, true}, {other, false}} {
		d, err := New(testContext(t), Target{Host: "x"},
			&Config{ConfigFile: conf, Identities: []string{rsa + ".pub"},
				Options: []string{"IdentitiesOnly=yes"}})
		if err != nil {
			t.Fatal(err)
		}
		d.s.identities = []identityFile{{c.identity, true}}
		conn, err := d.Dial(testContext(t))
		if (err == nil) != c.ok {
			t.Errorf("IdentitiesOnly with %s: %v", c.identity, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	err = dialError(t, Target{Host: "x"},
		&Config{ConfigFile: conf, Options: []string{"IdentityAgent=none"}})
	var auth *AuthError
	if !errors.As(err, &auth) || len(auth.Tried) != 0 ||
		!strings.Contains(err.Error(), "tried nothing") ||
		!strings.Contains(err.Error(), "nothing cannot be read: no such file") {
		t.Errorf("without agent and keys: %v", err)
	}
	none(t)
}

// TestAgentKeyForOneHost: a key that the agent holds for some hosts only (ssh-add -h) is used
// there, and not elsewhere.
func TestAgentKeyForOneHost(t *testing.T) {
	here, there := opensshd.Start(t, opensshd.Options{}), opensshd.Start(t, opensshd.Options{})
	key, socket := opensshd.Keygen(t, filepath.Join(t.TempDir(), "key")), startAgent(t)
	add := exec.Command(opensshd.Find(t, "ssh-add"), "-q", "-H", here.KnownHosts, "-h",
		fmt.Sprintf("[%s]:%d", here.Host, here.Port), key)
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, srv := range []*opensshd.Server{here, there} {
		allow(t, srv, key+".pub", "")
		d, err := New(testContext(t), Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
			Options: []string{"IdentityAgent=" + socket, "IdentityFile=" + key + ".pub"}})
		if err != nil {
			t.Fatal(err)
		}
		d.s.identities = d.s.identities[:1]
		if srv == here {
			dialTwice(t, d)
		} else if _, err := d.Dial(testContext(t)); !strings.Contains(fmt.Sprint(err),
			"no agent holds its private half") {
			t.Errorf("elsewhere: %v", err)
		}
	}
}

// TestAddKeysToAgent: with it a passphrase is asked for once, and not by each program.
func TestAddKeysToAgent(t *testing.T) {
	srv, socket := opensshd.Start(t, opensshd.Options{}), startAgent(t)
	key := opensshd.Keygen(t, filepath.Join(t.TempDir(), "key"), "-N", "phrase", "-a", "1")
	allow(t, srv, key+".pub", "")
	// An agent that asks before it signs cannot: what was typed serves each connection of a run.
	for add, questions := range map[string][]int{"ask": {1, 1}, "yes": {1, 0}, "confirm": {1}} {
		for run, want := range questions {
			p := &script{answers: []string{"phrase"}}
			d, err := New(testContext(t), Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
				Prompter: p, Options: []string{"IdentityAgent=" + socket, "IdentityFile=" + key,
					"AddKeysToAgent=" + add}})
			if err != nil {
				t.Fatal(err)
			}
			d.s.identities = d.s.identities[:1]
			dialTwice(t, d)
			if len(p.asked) != want {
				t.Errorf("AddKeysToAgent %s, run %d: asked %+v", add, run, p.asked)
			}
		}
		if out, err := exec.Command("env", "SSH_AUTH_SOCK="+socket, "ssh-add", "-D").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func TestUserCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := opensshd.Keygen(t, filepath.Join(dir, "ca"))
	srv := opensshd.Start(t, opensshd.Options{Config: []string{"TrustedUserCAKeys " + ca + ".pub"}})
	for _, kind := range []string{"ed25519", "rsa"} {
		key := opensshd.Keygen(t, filepath.Join(dir, kind), "-t", kind)
		if out, err := exec.Command(opensshd.Find(t, "ssh-keygen"), "-q", "-s", ca, "-I", "me",
			"-n", srv.User, "-V", "+1h", key+".pub").CombinedOutput(); err != nil {
			t.Fatalf("signing: %v: %s", err, out)
		}
		base := Config{ConfigFile: srv.ConfigFile, Options: []string{"IdentityFile=" + key}}
		login := func(name string, c Config) {
			t.Helper()
			d, err := New(testContext(t), Target{Host: srv.Alias}, &c)
			if err != nil {
				t.Fatal(err)
			}
			d.s.identities = d.s.identities[:1]
			conn, err := d.Dial(testContext(t))
			if err != nil {
				t.Errorf("%s, %s: %v", kind, name, err)
				return
			}
			open(t, conn)
			conn.Close()
		}
		login("beside the key", base)
		moved := filepath.Join(dir, kind+".cert")
		if err := os.Rename(key+"-cert.pub", moved); err != nil {
			t.Fatal(err)
		}
		named := base
		named.Options = append(named.Options, "CertificateFile="+moved)
		login("by CertificateFile", named)
		named.Options = append(named.Options, "IdentityAgent="+startAgent(t, key))
		os.Remove(key)
		login("with the key in an agent", named)
	}
}

// TestAnotherKeysPassphrase: a person who did not give a key's passphrase is not asked for it again
// when another key is needed once more.
func TestAnotherKeysPassphrase(t *testing.T) {
	srv, dir := newTestServer(t), t.TempDir()
	hidden := opensshd.Keygen(t, filepath.Join(dir, "hidden"), "-t", "ecdsa", "-m", "PEM", "-N",
		"phrase")
	os.Remove(hidden + ".pub")
	public := writeKey(t, filepath.Join(dir, "good"), "")
	wantsPasswordFirst(srv, public)
	p := &script{answers: []string{"secret", ""}}
	dialTwice(t, srv.dialer(t, &Config{Prompter: p,
		Identities: []string{hidden, filepath.Join(dir, "good")}}))
	if len(p.asked) != 2 {
		t.Errorf("asked %+v", p.asked)
	}
}

// TestShortKeyInACertificate is not offered, either.
func TestShortKeyInACertificate(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.UserCert}
	if err := cert.SignCert(rand.Reader, newSigner(t)); err != nil {
		t.Fatal(err)
	}
	for bits, offered := range map[string]int{"2048": 2, "2049": 0} {
		d := newTestServer(t).dialer(t, &Config{Options: []string{"RequiredRSASize=" + bits}})
		ring := openKeyring(t.Context(), d.s, d.asker)
		if got := ring.usable([]*credential{{public: key.PublicKey()}, {public: cert}}); len(
			got) != offered {
			t.Errorf("RequiredRSASize %s: %d are offered", bits, len(got))
		}
	}
}

// TestShortHiddenKey: a key that only its passphrase reveals is not offered if it is too short.
func TestShortHiddenKey(t *testing.T) {
	t.Parallel()
	file := opensshd.Keygen(t, filepath.Join(t.TempDir(), "rsa"), "-t", "rsa", "-b", "2048", "-m",
		"PEM", "-N", "phrase")
	key, err := readPublic(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(file + ".pub")
	srv := newTestServer(t)
	takesKeys(srv, key)
	d := srv.dialer(t, &Config{Identities: []string{file},
		Options:  []string{"RequiredRSASize=2049"},
		Prompter: &script{answers: []string{"phrase"}}})
	_, err = d.Dial(testContext(t))
	refused, _ := errors.AsType[*AuthError](err)
	if refused == nil || len(refused.Keys) > 0 ||
		!strings.Contains(err.Error(), "2048 bits; RequiredRSASize requires 2049") {
		t.Errorf("got %v", err)
	}
}

// TestTooManyKeys: what the server says when it hangs up is part of the error.
func TestTooManyKeys(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{Config: []string{"MaxAuthTries 2"}})
	dir := t.TempDir()
	c := &Config{ConfigFile: srv.ConfigFile}
	for _, name := range []string{"a", "b", "c"} {
		key := filepath.Join(dir, name)
		writeKey(t, key, "")
		c.Identities = append(c.Identities, key)
	}
	err := dialError(t, Target{Host: srv.Alias}, c)
	var auth *AuthError
	if !errors.As(err, &auth) || len(auth.Keys) < 2 ||
		!strings.Contains(err.Error(), "Too many authentication failures") ||
		!strings.Contains(err.Error(), "set IdentitiesOnly=yes") ||
		strings.Contains(err.Error(), "accepts nothing") {
		t.Errorf("got %v", err)
	}
}

// TestNothingToOffer: a login without any key says why, and what to do.
func TestNothingToOffer(t *testing.T) {
	t.Parallel()
	srv := newTestServer(t)
	srv.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, errors.New("no")
	}
	for option, says := range map[string]string{
		"IdentityAgent=" + t.TempDir(): "no agent answers at ",
		"IdentityAgent=none":           "no key was found: name its file",
		"PubkeyAuthentication=no":      "keys are not used, since",
	} {
		_, err := srv.dialer(t, &Config{Options: []string{option}}).Dial(testContext(t))
		if err == nil || !strings.Contains(err.Error(), "tried nothing") ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want what says %q", option, err, says)
		}
	}
}
