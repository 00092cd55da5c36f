package dial

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	own "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/sftptest/opensshd"
)

func newSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func authorizedLine(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

var remoteAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 22}

// checkerFor makes a checker of a host "h" with the given known_hosts text.
func checkerFor(t testing.TB, s *settings, text string, p Prompter) *hostKeyChecker {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sub", "known_hosts")
	if text != "" {
		writeFile(t, file, text)
	}
	s.alias, s.host = "h", "H"
	if s.port == 0 {
		s.port = 22
	}
	if s.strict == "" {
		s.strict = "ask"
	}
	s.userKnown, s.caAlgos = []string{file}, signatureAlgos
	if s.hostKeyAlgos == nil {
		s.hostKeyAlgos = own.Supported().HostKeys
	}
	h, err := newHostKeyChecker(t.Context(), s, newAsker(&Config{Prompter: p}))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestKnownHosts(t *testing.T) {
	key, other, rsaLine := newSigner(t).PublicKey(), newSigner(t).PublicKey(),
		"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7nope"
	line, otherLine := authorizedLine(key), authorizedLine(other)
	hashed, hashed2222 := knownhosts.HashHostname("h"), knownhosts.HashHostname("[h]:2222")
	for _, c := range []struct {
		name, text string
		port       int
		alias      string
		problem    HostKeyProblem // 0: accepted
		line       int
	}{
		{name: "plain", text: "h " + line},
		{name: "list", text: "a,h,b " + line},
		{name: "upper case", text: "H " + line},
		{name: "pattern", text: "?* " + line},
		{name: "negated", text: "*,!h " + line, problem: HostKeyUnknown},
		{name: "hashed", text: hashed + " " + line},
		{name: "hashed with port", text: hashed2222 + " " + line, port: 2222},
		{name: "port", text: "[h]:2222 " + line, port: 2222},
		{name: "wildcard host with port", text: "[*]:2222 " + line, port: 2222},
		{name: "wildcard covers port", text: "* " + line, port: 2222},
		{name: "other port", text: "[h]:2223 " + line, port: 2222, problem: HostKeyUnknown},
		{name: "without port", text: "h " + line, port: 2222},
		{name: "without port, another key", text: "h " + otherLine, port: 2222,
			problem: HostKeyUnknown},
		{name: "alias", text: "al " + line, alias: "AL", port: 2222},
		{name: "alias hides the name", text: "h " + line, alias: "al", problem: HostKeyUnknown},
		{name: "nothing", text: "", problem: HostKeyUnknown},
		{name: "changed", text: "# a comment\nx " + line + "\nh " + otherLine,
			problem: HostKeyChanged, line: 3},
		{name: "one of two", text: "h " + otherLine + "\nh " + line},
		{name: "bad lines around", text: "h\nh ssh-ed25519 %%%\n|1|x|y ssh-ed25519\nh " + rsaLine +
			"\n@what h " + line + "\nh " + line + "\nh ssh-ed25519 AAAA\n"},
		{name: "only bad lines", text: "h ssh-ed25519 %%%\n", problem: HostKeyUnknown},
		{name: "mislabelled", text: "h ssh-rsa " + strings.Fields(line)[1],
			problem: HostKeyUnknown},
		{name: "revoked", text: "h " + line + "\n@revoked * " + line, problem: HostKeyRevoked,
			line: 2},
		{name: "revoked elsewhere", text: "h " + line + "\n@revoked other " + line},
		{name: "revoked, without port", text: "[h]:2222 " + line + "\n@revoked h " + line,
			port: 2222, problem: HostKeyRevoked, line: 2},
		{name: "an authority is no host key", text: "@cert-authority h " + line,
			problem: HostKeyUnknown},
		{name: "no end of line, CRLF", text: "a " + otherLine + "\r\nh " + line + "\r"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := checkerFor(t, &settings{port: c.port, hostKeyAlias: c.alias}, c.text, nil)
			err := h.check(testContext(t), remoteAddr, key)
			if c.problem == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var bad *HostKeyError
			if !errors.As(err, &bad) || bad.Problem != c.problem || bad.Line != c.line {
				t.Fatalf("got %v; want problem %d at line %d", err, c.problem, c.line)
			}
			if c.line > 0 && !strings.Contains(err.Error(),
				fmt.Sprintf("%s:%d", h.s.userKnown[0], c.line)) {
				t.Errorf("%q does not name the line", err)
			}
			if !strings.Contains(err.Error(), ssh.FingerprintSHA256(key)) {
				t.Errorf("%q does not show the fingerprint", err)
			}
		})
	}
}

func TestHostCertificates(t *testing.T) {
	ca, key := newSigner(t), newSigner(t)
	issue := func(change func(*ssh.Certificate)) *ssh.Certificate {
		c := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.HostCert,
			ValidPrincipals: []string{"h"}, ValidBefore: ssh.CertTimeInfinity}
		if change != nil {
			change(c)
		}
		if err := c.SignCert(rand.Reader, ca); err != nil {
			t.Fatal(err)
		}
		return c
	}
	authority := "@cert-authority *,!x " + authorizedLine(ca.PublicKey()) + "\n"
	for _, c := range []struct {
		name    string
		text    string
		cert    *ssh.Certificate
		problem HostKeyProblem
	}{
		{"good", authority, issue(nil), 0},
		{"pattern", authority, issue(func(c *ssh.Certificate) {
			c.ValidPrincipals = []string{"a",
				"?"}
		}), 0},
		{"other host", authority, issue(func(c *ssh.Certificate) {
			c.ValidPrincipals = []string{"other"}
		}), HostKeyUnknown},
		{"no host", authority, issue(func(c *ssh.Certificate) { c.ValidPrincipals = nil }),
			HostKeyUnknown},
		{"expired", authority, issue(func(c *ssh.Certificate) {
			c.ValidBefore = uint64(time.Now().Add(-time.Hour).Unix())
		}), HostKeyUnknown},
		{"a user's", authority, issue(func(c *ssh.Certificate) { c.CertType = ssh.UserCert }),
			HostKeyUnknown},
		{"critical option", authority,
			issue(func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"x": ""} }),
			HostKeyUnknown},
		{"unknown authority", "", issue(nil), HostKeyUnknown},
		{"unknown authority, known key", "h " + authorizedLine(key.PublicKey()) + "\n", issue(nil),
			0},
		{"expired, known key", authority + "h " + authorizedLine(key.PublicKey()) + "\n",
			issue(func(c *ssh.Certificate) { c.ValidBefore = 1 }), 0},
		{"revoked authority", authority + "@revoked * " + authorizedLine(ca.PublicKey()),
			issue(nil), HostKeyRevoked},
		{"revoked key", authority + "@revoked * " + authorizedLine(key.PublicKey()), issue(nil),
			HostKeyRevoked},
	} {
		h := checkerFor(t, &settings{}, c.text, nil)
		err := h.check(testContext(t), remoteAddr, c.cert)
		var bad *HostKeyError
		if (err == nil) != (c.problem == 0) ||
			err != nil && (!errors.As(err, &bad) || bad.Problem != c.problem) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	h := checkerFor(t, &settings{}, authority, nil)
	h.s.caAlgos = []string{ssh.KeyAlgoECDSA256}
	if err := h.check(testContext(t), remoteAddr, issue(nil)); err == nil {
		t.Error("a signature that CASignatureAlgorithms does not list was taken")
	}
}

func TestHostKeyOrder(t *testing.T) {
	signer := newSigner(t)
	line := "h " + authorizedLine(signer.PublicKey()) + "\n"
	s := &settings{hostKeyAlgos: []string{ssh.CertAlgoED25519v01, ssh.CertAlgoRSASHA512v01,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoED25519}}
	if got := checkerFor(t, s, line, nil).algorithms(); got[0] != ssh.KeyAlgoED25519 ||
		len(got) != 2 {
		t.Errorf("with a known ed25519 key the order is %v", got)
	}
	if got := checkerFor(t, s, "@cert-authority "+line, nil).algorithms(); !isCertAlgo(got[0]) ||
		len(got) != len(s.hostKeyAlgos) {
		t.Errorf("with a known authority the order is %v", got)
	}
	s.hostKeysOrdered = true
	if got := checkerFor(t, s, line, nil).algorithms(); got[0] != s.hostKeyAlgos[0] {
		t.Errorf("a configured order became %v", got)
	}
	s = &settings{hostKeyAlgos: []string{ssh.CertAlgoED25519v01}}
	if got := checkerFor(t, s, line, nil).algorithms(); !slices.Equal(got, s.hostKeyAlgos) {
		t.Errorf("nothing but certificates became %v", got)
	}
}

// TestUnknownHost covers StrictHostKeyChecking, with and without somebody to ask.
func TestUnknownHost(t *testing.T) {
	key := newSigner(t).PublicKey()
	fingerprint := ssh.FingerprintSHA256(key)
	for _, c := range []struct {
		strict  string
		answers []string // nil: nobody to ask
		ok      bool
		note    string
	}{
		{"yes", []string{"yes"}, false, "StrictHostKeyChecking is yes"},
		{"accept-new", nil, true, ""},
		{"no", nil, true, ""},
		{"ask", nil, false, "nobody to ask"},
		{"ask", []string{"yes"}, true, ""},
		{"ask", []string{"YES "}, true, ""},
		{"ask", []string{fingerprint}, true, ""},
		{"ask", []string{"no"}, false, "not accepted"},
		{"ask", []string{"y", "SHA256:other", "yes"}, true, ""},
		{"ask", []string{"", "", "", "yes"}, false, "not answered"},
	} {
		var prompter Prompter
		asked := 0
		if c.answers != nil {
			prompter = PrompterFunc(func(_ context.Context, p Prompt) (string, error) {
				if asked == 0 && (p.Kind != AskHostKey || !p.Echo || p.Fingerprint != fingerprint ||
					!strings.Contains(p.Text, fingerprint) ||
					!strings.Contains(p.Text, "192.0.2.1")) {
					t.Errorf("the question is %+v", p)
				}
				asked++
				return c.answers[asked-1], nil
			})
		}
		s := &settings{strict: c.strict, port: 2222}
		h := checkerFor(t, s, "", prompter)
		err := h.check(testContext(t), remoteAddr, key)
		text, _ := os.ReadFile(s.userKnown[0])
		if !c.ok {
			if err == nil || !strings.Contains(err.Error(), c.note) || len(text) > 0 {
				t.Errorf("%s %q: %v, file %q", c.strict, c.answers, err, text)
			}
			continue
		}
		if err != nil || string(text) != "[h]:2222 "+authorizedLine(key)+"\n" {
			t.Errorf("%s %q: %v, file %q", c.strict, c.answers, err, text)
		}
		before := asked
		if err := h.check(testContext(t), remoteAddr, key); err != nil || asked != before {
			t.Errorf("a second connection asked again, or failed: %v", err)
		}
		fi, _ := os.Stat(s.userKnown[0])
		dir, _ := os.Stat(filepath.Dir(s.userKnown[0]))
		// Windows has no permission bits; a profile's files are its user's.
		if runtime.GOOS != "windows" && (fi.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700) {
			t.Errorf("modes are %v and %v", fi.Mode(), dir.Mode())
		}
	}
}

// TestAcceptedKeyThatIsNotStored: a key that was accepted and could not be stored is known for as
// long as the process runs. Another one in its place has changed, unless the user does not care.
func TestAcceptedKeyThatIsNotStored(t *testing.T) {
	first, second := newSigner(t).PublicKey(), newSigner(t).PublicKey()
	for _, strict := range []string{"accept-new", "ask", "no"} {
		h := checkerFor(t, &settings{strict: strict}, "", &script{answers: []string{"yes", "yes"}})
		h.s.userKnown = nil
		if err := h.check(testContext(t), remoteAddr, first); err != nil {
			t.Fatal(err)
		}
		err := h.check(testContext(t), remoteAddr, second)
		var changed *HostKeyError
		switch {
		case strict == "no":
			if err != nil {
				t.Errorf("no: %v", err)
			}
		case !errors.As(err, &changed) || changed.Problem != HostKeyChanged ||
			!strings.Contains(err.Error(), "another was accepted earlier"):
			t.Errorf("%s: %v", strict, err)
		}
		if err := h.check(testContext(t), remoteAddr, first); err != nil {
			t.Errorf("%s: the first key again: %v", strict, err)
		}
	}
}

// TestUnknownHostAtOnce: of several first logins at once, all of which have read the files before
// any has stored a key, one stores it, and one that meets another key fails.
func TestUnknownHostAtOnce(t *testing.T) {
	key, other := newSigner(t).PublicKey(), newSigner(t).PublicKey()
	for _, strict := range []string{"accept-new", "no", "ask"} {
		for _, together := range []bool{true, false} { // of one Dialer, or each of its own
			s := &settings{strict: strict}
			prompter := PrompterFunc(func(context.Context, Prompt) (string, error) {
				return "yes", nil
			})
			first := checkerFor(t, s, "", prompter)
			checkers := []*hostKeyChecker{first}
			for range 2 {
				h := *first
				if !together {
					h.asker = newAsker(&Config{Prompter: prompter})
				}
				checkers = append(checkers, &h)
			}
			for i, h := range checkers {
				var changed *HostKeyError
				switch err := h.check(testContext(t), remoteAddr, []ssh.PublicKey{key, key,
					other}[i]); {
				case i < 2:
					if err != nil {
						t.Errorf("%s, together %v: login %d: %v", strict, together, i, err)
					}
				case !errors.As(err, &changed) || changed.Problem != HostKeyChanged:
					t.Errorf("%s, together %v: another key: %v", strict, together, err)
				}
			}
			text, _ := os.ReadFile(s.userKnown[0])
			if string(text) != "h "+authorizedLine(key)+"\n" {
				t.Errorf("%s, together %v: the file has %q", strict, together, text)
			}
		}
	}
}

// TestAppendKnownHost: what we write, ssh-keygen finds.
func TestAppendKnownHost(t *testing.T) {
	keygen := opensshd.Find(t, "ssh-keygen")
	key := newSigner(t).PublicKey()
	for _, hash := range []bool{false, true} {
		for _, name := range []string{"plain.example", "[h.example]:2222"} {
			// no end of line
			file := writeFile(t, filepath.Join(t.TempDir(), "kh"), "other ssh-ed25519 AAAA")
			if err := appendKnownHost(file, name, key, hash); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(keygen, "-F", name, "-f", file).Output()
			if err != nil || !bytes.Contains(out, []byte(strings.Fields(authorizedLine(key))[1])) {
				t.Errorf("ssh-keygen -F %s (hash %v): %v, %s", name, hash, err, out)
			}
			text, _ := os.ReadFile(file)
			if hash == bytes.Contains(text, []byte("example")) {
				t.Errorf("hash %v wrote %s", hash, text)
			}
			set, err := readKnownHosts(t.Context(), []string{file}, name, newAsker(new(Config)))
			if err != nil || len(set.keys) != 1 || set.keys[0].line != 2 {
				t.Errorf("read back: %+v, %v", set, err)
			}
		}
	}
}

func TestLoopbackTrust(t *testing.T) {
	key := newSigner(t).PublicKey()
	h := checkerFor(t, &settings{trustLoopback: true},
		"h "+authorizedLine(newSigner(t).PublicKey()), nil)
	if err := h.check(testContext(t), &net.TCPAddr{IP: net.IPv6loopback}, key); err != nil {
		t.Error(err)
	}
	if err := h.check(testContext(t), remoteAddr, key); err == nil {
		t.Error("NoHostAuthenticationForLocalhost let another host through")
	}
	// An alias says which host is to be found there, such as at the end of a tunnel.
	h = checkerFor(t, &settings{trustLoopback: true, hostKeyAlias: "h"},
		"h "+authorizedLine(newSigner(t).PublicKey()), nil)
	if err := h.check(testContext(t), &net.TCPAddr{IP: net.IPv6loopback}, key); err == nil {
		t.Error("NoHostAuthenticationForLocalhost let a host with a HostKeyAlias through")
	}
}

func FuzzKnownHosts(f *testing.F) {
	key := newSigner(f).PublicKey()
	good := "h " + authorizedLine(key) + "\n"
	f.Add([]byte(good))
	f.Add([]byte("@revoked * " + authorizedLine(key)))
	f.Add([]byte("@cert-authority |1|" + base64.StdEncoding.EncodeToString([]byte("salt")) +
		"|x= ssh-ed25519 AAAA\n\n#\n @ \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		log := slog.New(slog.DiscardHandler)
		var before, after knownSet
		if err := before.read(bytes.NewReader(text), "f", "h", log); err != nil {
			t.Fatal(err)
		}
		// Whatever stands before it, a good line is read, and nothing else is lost.
		whole := append(append(bytes.Clone(text), '\n'), good...)
		if err := after.read(bytes.NewReader(whole), "f", "h", log); err != nil {
			t.Fatal(err)
		}
		if len(after.keys) != len(before.keys)+1 || len(after.revoked) != len(before.revoked) ||
			len(after.authorities) != len(before.authorities) {
			t.Fatalf("%q: %d keys and then %d", text, len(before.keys), len(after.keys))
		}
		last := after.keys[len(after.keys)-1]
		if !sameKey(last.key, key) || last.line != bytes.Count(text, []byte("\n"))+2 {
			t.Fatalf("%q: the good line was read as %+v", text, last)
		}
	})
}
