//go:build unix

package daemon

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/sshd"
)

// groupConfig writes a configuration with a group, and users of it who all have the key.
func groupConfig(t *testing.T, group string, users ...string) (home, key, file string) {
	t.Helper()
	home, key = servetest.HomeWithKey(t)
	text := "listen = ['127.0.0.1:0']\nproxy_protocol = ['127.0.0.1']\n[groups.partners]\n" +
		group + "\n"
	for _, user := range users {
		name, more, _ := strings.Cut(user, "\n")
		text += "[[users]]\nname = '" + name + "'\ngroup = 'partners'\n" +
			"authorized_keys = 'id.pub'\n" + more + "\n"
	}
	file = filepath.Join(home, "usftpd.toml")
	writeFile(t, file, []byte(text))
	return home, key, file
}

// TestGroups: users take from their group what they do not say, and a user of the store does, too.
// Homes are made at the first login, and not before.
func TestGroups(t *testing.T) {
	t.Parallel()
	home, key, file := groupConfig(t, "root = 'homes/%u'\nmake_root = true\nread_only = true",
		"ann", "ben\nread_only = false")
	text := strings.Replace(string(readFile(t, file)), "proxy_protocol = ['127.0.0.1']\n", "", 1)
	writeFile(t, file, []byte(text+"[store]\nfile = 'store.db'\n"))
	homes := filepath.Join(home, "homes")
	if got := run(t, home, "", "check", "--config", file); got.code != 1 ||
		!strings.Contains(got.stderr, file+":3: root: "+homes+": no such file") {
		t.Errorf("%+v", got)
	}
	if err := os.Mkdir(homes, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := run(t, home, "", "check", "--config", file); got.code != 0 {
		t.Errorf("%+v", got)
	}
	writeFile(t, filepath.Join(home, "f"), []byte("text"))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	if names, err := os.ReadDir(homes); err != nil || len(names) != 0 {
		t.Errorf("there are %v, %v", names, err)
	}
	if out, err := s.SFTP("ben", key, "put f\nls f\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	servetest.Same(t, []byte("text"), filepath.Join(homes, "ben", "f"))
	if out, err := s.SFTP("ann", key, "put f\n"); err == nil ||
		!strings.Contains(strings.ToLower(out), "permission denied") {
		t.Errorf("ann writes: %v\n%s", err, out)
	}
	do(t, home, file, "", "user add", "--group", "partners", "--key", key+".pub", "--expires",
		time.Now().Format(time.DateOnly), "--allow-from", "127.0.0.0/8", "carol")
	out := do(t, home, file, "", "user list")
	if !strings.Contains(out, "group partners, until 20") ||
		!strings.Contains(out, "from 127.0.0.0/8") {
		t.Errorf("the list is %s", out)
	}
	testenv.Until(t, "carol gets in", func() bool {
		_, err := s.SFTP("carol", key, "pwd\n")
		return err == nil
	})
	if out, err := s.SFTP("carol", key, "put f\n"); err == nil {
		t.Errorf("carol writes:\n%s", out)
	}
	for _, one := range []struct{ flag, says string }{
		{"--group=none", `no group "none"`},
		{"--sessions=1", "--root DIRECTORY is missing"}} {
		got := run(t, home, "", "user", "add", "--config", file, one.flag, "--key", key+".pub",
			"dan")
		if got.code == 0 || !strings.Contains(got.stderr, one.says) {
			t.Errorf("%+v", got)
		}
	}
}

// TestMissingRoot: a root that is missing keeps its user out, until it is there, and nobody else.
func TestMissingRoot(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, "")
	if err := os.Remove(alice); err != nil {
		t.Fatal(err)
	}
	s := servetest.Start(t, home, "usftpd", "--config", file)
	because := func(f map[string]any) bool {
		return f["user"] == "alice" && strings.Contains(f["error"].(string), alice)
	}
	s.Wait("a user cannot log in", because)
	if out, err := s.SFTP("alice", key, "pwd\n"); err == nil ||
		!strings.Contains(out, "your files cannot be served now") {
		t.Errorf("%v\n%s", err, out)
	}
	s.Wait("login refused", because)
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.WaitFor("reloaded", 1)
	if out, err := s.SFTP("bob", key, "pwd\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.Mkdir(alice, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := s.SFTP("alice", key, "mkdir d\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAdmission: who may not log in is not let in, with a right key or password, and is answered
// like a user who does not exist; the log says what it was.
func TestAdmission(t *testing.T) {
	t.Parallel()
	hash := sshd.HashPassword("right")
	soon := time.Now().AddDate(0, 0, 1).Format(time.DateOnly)
	home, key, file := groupConfig(t, "root = '.'\nallow_from = ['192.0.2.0/24', '2001:db8::/32']",
		"ann\npassword = '"+hash+"'\nexpires = "+soon,
		"ben\npassword = '"+hash+"'\nexpires = 2020-01-31",
		"cid\npassword = '"+hash+"'\ndisabled = true",
		"dan\npassword = '"+hash+"'\nallow_from = ['198.51.100.7']")
	signer, err := ssh.ParsePrivateKey(readFile(t, key))
	if err != nil {
		t.Fatal(err)
	}
	s := servetest.Start(t, home, "usftpd", "--config", file, "--metrics=:0")
	for _, one := range []struct{ user, from, refused string }{
		{"ann", "192.0.2.7", ""},
		{"ann", "198.51.100.7", "the user may not log in from this address"},
		{"ben", "192.0.2.7", "the user has expired at 2020-02-01 00:00:00"},
		{"cid", "192.0.2.7", "the user is disabled"},
		{"dan", "198.51.100.7", ""},
		{"dan", "192.0.2.7", "the user may not log in from this address"},
		{"nobody", "192.0.2.8", "none"},
	} {
		err := enter(t, s, one.from, one.user, ssh.PublicKeys(signer))
		byPassword := enter(t, s, one.from, one.user, ssh.Password("right"))
		if (byPassword == nil) != (err == nil) {
			t.Errorf("%s from %s: %v by password", one.user, one.from, byPassword)
		}
		switch {
		case (err == nil) != (one.refused == ""):
			t.Errorf("%s from %s: %v", one.user, one.from, err)
		case one.refused != "" && !strings.Contains(err.Error(), "unable to authenticate"):
			t.Errorf("the client is told %v", err)
		case one.refused != "" && one.refused != "none":
			s.Wait("login refused", func(f map[string]any) bool {
				return f["user"] == one.user && f["error"] == one.refused &&
					strings.HasPrefix(f["remote"].(string), one.from)
			})
		}
	}
	testenv.Until(t, "all refusals are counted", func() bool {
		response, err := http.Get(s.Greeting["metrics"])
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(text), "usftp_logins_refused_total 8\n")
	})
}

// enter logs in, and out again.
func enter(t *testing.T, s *servetest.Server, address, user string, auth ssh.AuthMethod) error {
	t.Helper()
	secure, _, _, err := ssh.NewClientConn(from(t, s, address), "", &ssh.ClientConfig{User: user,
		Auth: []ssh.AuthMethod{auth}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err == nil {
		secure.Close()
	}
	return err
}

// TestRefusedLoginsNameTheirUserOnce: programs that read the log may refuse an object with a name
// twice.
func TestRefusedLoginsNameTheirUserOnce(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, bob := writeConfig(t, home, key, "")
	if err := os.Remove(bob); err != nil {
		t.Fatal(err)
	}
	s := servetest.Start(t, home, "usftpd", "--config", file)
	if out, err := s.SFTP("bob", key, "pwd\n"); err == nil {
		t.Fatalf("without a directory:\n%s", out)
	}
	s.WaitFor("login refused", 1)
	for line := range strings.Lines(s.Log.String()) {
		if strings.Contains(line, `"login refused"`) && strings.Count(line, `"user":"bob"`) != 1 {
			t.Error(line)
		}
	}
}
