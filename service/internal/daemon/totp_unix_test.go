//go:build unix

package daemon

import (
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store"
)

// newCodes makes the secret of a user, and returns a function for the code of a moment, and the
// recovery codes.
func newCodes(t *testing.T, home, file, user string) (code func(at time.Time) string,
	recovery []string) {
	t.Helper()
	out := do(t, home, file, "", "totp new", user)
	m := regexp.MustCompile(`^otpauth://totp/\S+[?&]secret=([A-Z2-7]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("totp new prints %q", out)
	}
	return func(at time.Time) string {
		code, err := totp.GenerateCode(m[1], at)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}, regexp.MustCompile(`(?m)^[A-Z2-7]{4}(-[A-Z2-7]{4}){3}$`).FindAllString(out, -1)
}

// TestSecondFactor: with OpenSSH's client and usftp, users of the file and of the store are let in
// by a key or a password and a code, which works once on two nodes; without a secret they are not.
func TestSecondFactor(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, "")
	text := string(readFile(t, file)) + "second_factor = \"totp\"\npassword = '" +
		sshd.HashPassword("bob's password") + "'\n"
	writeFile(t, file, []byte(text))
	do(t, home, file, "carol's password\n", "user add --second-factor --password carol",
		"--root", filepath.Join(home, "alice"))
	bob, _ := newCodes(t, home, file, "bob")
	carol, recovery := newCodes(t, home, file, "carol")
	one := servetest.Start(t, home, "usftpd", "--config", file)
	two := servetest.Start(t, home, "usftpd", "--config", file)
	var more []string
	try := func(s *servetest.Server, client, key, user string, want bool, answers ...string) {
		t.Helper()
		out, asked, err := asker{t: t, server: s, key: key, more: more}.run(client, user,
			answers...)
		if (err == nil) != want || !strings.Contains(asked, "Verification code: ") {
			t.Errorf("%s as %s with %q: %v\n%s\nasked:\n%s\n%s", client, user, answers, err, out,
				asked, s.Log)
		}
	}
	for _, user := range []struct {
		name, password string
		code           func(time.Time) string
	}{{"bob", "bob's password", bob}, {"carol", "carol's password", carol}} {
		now := time.Now()
		code, next := user.code(now), user.code(now.Add(30*time.Second))
		try(one, "sftp", "", user.name, true, user.password, code)
		try(two, "usftp", "", user.name, false, user.password, code)
		try(two, "usftp", "", user.name, true, user.password, next)
	}
	try(one, "sftp", key, "bob", false, "000000")
	try(one, "sftp", "", "carol", true, "carol's password", strings.ToLower(recovery[3]))
	try(two, "sftp", "", "carol", false, "carol's password", recovery[3])
	more = []string{"-o", "PreferredAuthentications=password,keyboard-interactive"}
	for i, client := range []string{"sftp", "usftp"} {
		try(two, client, "", "carol", true, "carol's password", recovery[i])
	}
	if list := do(t, home, file, "", "totp list"); !regexp.MustCompile(
		`^bob +10 recovery codes\ncarol +7 recovery codes\n$`).MatchString(list) {
		t.Errorf("the secrets: %q", list)
	}
	more = nil
	do(t, home, file, "", "totp remove bob")
	try(one, "usftp", key, "bob", false, bob(time.Now().Add(time.Minute)))
	if got := run(t, home, "", "totp", "remove", "--config", file, "bob"); got.code == 0 {
		t.Errorf("what is not there is removed: %+v", got)
	}
}

// TestGuessedCodes: who has the key, but no code, is banned as a guesser of passwords is.
func TestGuessedCodes(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, "[bans]\nuser_failures = 2\nforget = '24h'\nfirst = '30m'")
	writeFile(t, file, []byte(string(readFile(t, file))+"second_factor = 'totp'\n"))
	code, _ := newCodes(t, home, file, "bob")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	for range 2 {
		if out, _, err := (asker{t: t, server: s, key: key}).run("sftp", "bob", "123"); err == nil {
			t.Fatalf("a wrong code is accepted:\n%s", out)
		}
	}
	s.Wait("user banned", func(f map[string]any) bool { return f["user"] == "bob" })
	for range 3 { // nor does it help to be called what bob's codes are held against
		if out, _, err := (asker{t: t, server: s, more: []string{"-o", "User=bob:code"}}).run("sftp",
			"", "guess"); err == nil {
			t.Fatalf("a user that does not exist is let in:\n%s", out)
		}
	}
	if out, _, err := (asker{t: t, server: s, key: key}).run("sftp", "bob",
		code(time.Now())); err == nil {
		t.Errorf("a right code is looked at during a ban:\n%s", out)
	}
}

// TestCodesAmongGuessers: whose passwords others behind the same address guess gets in with the key
// and a code.
func TestCodesAmongGuessers(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, "[bans]\nuser_failures = 1\nfirst = '30m'")
	writeFile(t, file, []byte(string(readFile(t, file))+"second_factor = 'totp'\npassword = '"+
		sshd.HashPassword("bob's password")+"'\n"))
	code, _ := newCodes(t, home, file, "bob")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	if out, _, err := (asker{t: t, server: s}).run("sftp", "bob", "guess"); err == nil {
		t.Fatalf("a wrong password is accepted:\n%s", out)
	}
	s.Wait("user banned", func(f map[string]any) bool { return f["user"] == "bob" })
	if out, _, err := (asker{t: t, server: s, key: key}).run("sftp", "bob",
		code(time.Now())); err != nil {
		t.Errorf("with the key and a code: %v\n%s", err, out)
	}
	if out, _, err := (asker{t: t, server: s}).run("sftp", "bob", "bob's password",
		code(time.Now().Add(30*time.Second))); err == nil {
		t.Errorf("a right password is looked at during a ban:\n%s", out)
	}
}

// TestCodesWithoutStore: while the store does not answer no code is accepted, since it may have
// been used on another node, and nobody is banned for it.
func TestCodesWithoutStore(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, `[store]
url = "postgres://usftpd@localhost/d?host=/none"
[bans]
user_failures = 1`)
	writeFile(t, file, []byte(string(readFile(t, file))+"second_factor = 'totp'\n"))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	for range 4 {
		if out, asked, err := (asker{t: t, server: s, key: key}).run("sftp", "bob",
			"123456"); err == nil || !strings.Contains(asked, "Verification code: ") {
			t.Fatalf("%v\n%s\nasked:\n%s", err, out, asked)
		}
	}
	if log := s.Log.String(); strings.Contains(log, " banned") ||
		!strings.Contains(log, "undecided whether to let the user in") {
		t.Errorf("the log:\n%s", log)
	}
	if out, err := s.SFTP("alice", key, "ls\n"); err != nil {
		t.Errorf("who needs no code: %v\n%s", err, out)
	}
}

// TestLoginsWhileTheStoreIsBusy: a code that the store could not look at in time, or a password
// that it could not change, does not count as a wrong one.
func TestLoginsWhileTheStoreIsBusy(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "store.db")
	one, err := store.Open(t.Context(), name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	other, err := sql.Open("sqlite", name+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	busy, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Rollback()
	s := &service{store: one, hashing: make(chan struct{}, 1)}
	if err := s.checkCode(loginOf("bob"), "123456"); !errors.Is(err, sshd.ErrUndecided) {
		t.Errorf("a code while the store is busy: %v", err)
	}
	change := s.renewal(store.User{Name: "bob"}, passwordRules{})("the old password")
	if err := change("a new password"); !errors.Is(err, sshd.ErrUndecided) {
		t.Errorf("a new password while the store is busy: %v", err)
	}
}

// loginOf is a login of the user with this name.
type loginOf string

func (l loginOf) User() string          { return string(l) }
func (l loginOf) SessionID() []byte     { return nil }
func (l loginOf) ClientVersion() []byte { return nil }
func (l loginOf) ServerVersion() []byte { return nil }
func (l loginOf) RemoteAddr() net.Addr  { return &net.TCPAddr{} }
func (l loginOf) LocalAddr() net.Addr   { return &net.TCPAddr{} }

var _ ssh.ConnMetadata = loginOf("")

// TestSecretInVain: a secret of a user of the store who is asked for no codes is not taken for a
// second factor.
func TestSecretInVain(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, "[store]\nfile = \"store.db\"")
	for _, user := range []string{"dora", "carol"} {
		flags := []string{"--root", filepath.Join(home, "alice"), "--key", key + ".pub", user}
		if user == "carol" {
			flags = append(flags, "--second-factor")
		}
		do(t, home, file, "", "user add", flags...)
		got := run(t, home, "", "totp", "new", "--config", file, user)
		if told := strings.Contains(got.stderr, "dora is not asked for codes: "+
			"repeat usftpd user add with all of their flags"); got.code != 0 ||
			told != (user == "dora") {
			t.Errorf("%+v", got)
		}
	}
}
