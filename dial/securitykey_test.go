//go:build unix

package dial

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// tokenKey makes a key on a token that OpenSSH's tests play in software, and returns the key's file
// and the token's middleware.
func tokenKey(t *testing.T, dir, kind string, args ...string) (file, provider string) {
	t.Helper()
	provider = "/usr/lib/openssh/regress/misc/sk-dummy/sk-dummy.so" // Debian's openssh-tests
	if _, err := os.Stat(provider); err != nil {
		testenv.Unavailable(t, "OpenSSH's sk-dummy.so")
	}
	opensshd.Find(t, "ssh-sk-helper")
	file = filepath.Join(dir, strings.Join(append([]string{kind}, args...), ""))
	return opensshd.Keygen(t, file, append([]string{"-t", kind, "-w", provider}, args...)...), provider
}

func TestKeysOnTokens(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	for _, kind := range []string{"ed25519-sk", "ecdsa-sk"} {
		for _, phrase := range []string{"", "phrase"} {
			t.Run(fmt.Sprintf("%s,%q", kind, phrase), func(t *testing.T) {
				key, provider := tokenKey(t, dir, kind, "-N", phrase)
				allow(t, srv, key+".pub", "")
				var log bytes.Buffer
				p := &script{answers: []string{"phrase"}}
				d, err := New(testContext(t), Target{Host: srv.Alias},
					&Config{ConfigFile: srv.ConfigFile, Prompter: p,
						Logger:  slog.New(slog.NewTextHandler(&log, nil)),
						Options: []string{"IdentityFile=" + key, "SecurityKeyProvider=" + provider}})
				if err != nil {
					t.Fatal(err)
				}
				d.s.identities = d.s.identities[:1]
				dialTwice(t, d)
				if want := len(phrase) / 6; len(p.asked) != want {
					t.Errorf("asked %+v", p.asked)
				}
				if !d.NeedsPerson() || !strings.Contains(log.String(), "touch the token") {
					t.Errorf("nobody is told to touch the token: %s", &log)
				}
			})
		}
	}
}

func TestTokenFails(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	key, provider := tokenKey(t, dir, "ed25519-sk")
	allow(t, srv, key+".pub", "")
	liar := writeFile(t, filepath.Join(dir, "liar"), "#!/bin/sh\ncat >/dev/null; echo nonsense\n")
	dead := writeFile(t, filepath.Join(dir, "dead"), "#!/bin/sh\necho no such thing >&2; exit 3\n")
	os.Chmod(liar, 0o755)
	os.Chmod(dead, 0o755)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		helper string
		answer string // to the question for the PIN; "" if nobody is there
		asked  int
		want   string // "" if the login succeeds
	}{
		"the PIN":       {own, "1234", 1, ""},
		"a wrong PIN":   {own, "4321", 1, "did not accept the PIN"},
		"nobody to ask": {own, "", 0, "needs its PIN: there is nobody to ask"},
		"no helper":     {"/nonexistent/ssh-sk-helper", "", 0, "no such file"},
		"a liar":        {liar, "", 0, "ssh-sk-helper is not valid"},
		"a dead one":    {dead, "", 0, "exit status 3: no such thing"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &Config{ConfigFile: srv.ConfigFile, Env: append(os.Environ(), helperEnv+"=1234",
				"SSH_SK_HELPER="+c.helper, "REAL_HELPER="+opensshd.Find(t, "ssh-sk-helper")),
				Options: []string{"IdentityFile=" + key, "SecurityKeyProvider=" + provider}}
			p := &script{answers: []string{c.answer}}
			if c.answer != "" {
				config.Prompter = p
			}
			d, err := New(testContext(t), Target{Host: srv.Alias}, config)
			if err != nil {
				t.Fatal(err)
			}
			d.s.identities = d.s.identities[:1]
			conn, err := d.Dial(testContext(t))
			if err == nil {
				conn.Close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if len(p.asked) != c.asked || c.asked > 0 && p.asked[0].Kind != AskPIN {
				t.Errorf("asked %+v", p.asked)
			}
		})
	}
}

// TestPKCS11 names the agent, which can do what we cannot; other keys are offered.
func TestPKCS11(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	config := &Config{ConfigFile: srv.ConfigFile, Options: []string{"PKCS11Provider=/lib/p11.so"}}
	d, err := New(testContext(t), Target{Host: srv.Alias}, config)
	if err != nil {
		t.Fatal(err)
	}
	dialed(t, d)
	config.Options = append(config.Options, "PreferredAuthentications=publickey",
		"IdentityFile="+filepath.Join(srv.Dir, "none"))
	if err := os.WriteFile(srv.AuthorizedKeys, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var auth *AuthError
	if err := dialError(t, Target{Host: srv.Alias}, config); !errors.As(err, &auth) ||
		!strings.Contains(err.Error(), "ssh-add -s /lib/p11.so") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseHelper(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, helperVersion, 0, 0, 0, helperError, 0, 0, 0, 43})
	f.Add(ssh.Marshal(struct {
		Length    uint32
		Version   byte
		Type      uint32
		Signature []byte
	}{0, helperVersion, helperSign, ssh.Marshal(ssh.Signature{Format: "x", Blob: []byte{1},
		Rest: []byte{1, 0, 0, 0, 0}})}))
	f.Fuzz(func(t *testing.T, out []byte) {
		sig, code, err := parseHelper(out)
		if (err == nil) != (sig != nil || code != 0) {
			t.Errorf("%v, %d, %v", sig, code, err)
		}
	})
}
