//go:build unix

package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/outside/slapdtest"
	"github.com/usftp/usftp/service/internal/status"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// A wire leads to a directory until it is cut, and counts who is asked.
type wire struct {
	address string
	cut     atomic.Bool
	asked   atomic.Int64
}

func newWire(t *testing.T, to string) *wire {
	w := &wire{}
	w.address = testenv.Listen(t, func(conn net.Conn) {
		defer conn.Close()
		w.asked.Add(1)
		if w.cut.Load() {
			return
		}
		other, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer other.Close()
		go func() {
			io.Copy(other, conn)
			other.Close()
		}()
		io.Copy(conn, other)
	}).String()
	return w
}

// ldapConfig writes a configuration whose users come from a directory, besides alice and bob, who
// have keys; bob's password is in the directory.
func ldapConfig(t *testing.T, address, ca, more string) (home, key, file string) {
	t.Helper()
	home, key = servetest.HomeWithKey(t)
	file, _, _ = writeConfig(t, home, key, `
[ldap]
urls = ["ldaps://`+address+`"]
ca = "`+ca+`"
base = "`+slapdtest.Base+`"
filter = "(&(objectClass=inetOrgPerson)(uid={user}))"
search_dn = "`+slapdtest.Search+`"
search_password = "search.password"
group_base = "`+slapdtest.Groups+`"
`+more+`
[[outside]]
name = "partners"
ldap_group = "`+slapdtest.Partners+`"
root = "partners/%u"
[[outside]]
name = "others"
root = "others/%u"
read_only = true
`)
	text := string(readFile(t, file)) + "password = \"outside\"\n[[users]]\nname = \"local\"\n" +
		"root = \"alice\"\npassword = '" + sshd.HashPassword("local secret") + "'\n"
	writeFile(t, file, []byte(text))
	if err := os.WriteFile(filepath.Join(home, "search.password"),
		[]byte(slapdtest.SearchWord+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"partners", "others"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return home, key, file
}

// TestUsersOfLDAP: with OpenSSH's client and usftp, users of a directory are let in to their own
// roots by their groups; listed users by the directory only if they say so, and who is disabled in
// the store not at all. The directory is not asked about anybody else.
func TestUsersOfLDAP(t *testing.T) {
	t.Parallel()
	slapd := slapdtest.Start(t, "ann", "carol", "bob", "alice", "local", "dave", ".ssh")
	w := newWire(t, slapd.TLS)
	home, key, file := ldapConfig(t, w.address, slapd.CA,
		"[bans]\nnever = ['127.0.0.1']\n") // whose wrong passwords are answered sooner
	do(t, home, file, "", "user add dave", "--root", filepath.Join(home, "alice"),
		"--password-outside")
	do(t, home, file, "", "user disable dave")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	try := func(user, password string, want, asked bool) {
		t.Helper()
		before := w.asked.Load()
		clients := []string{"sftp", "usftp"}
		if !want {
			clients = clients[:1]
		}
		for _, client := range clients {
			if out, _, err := (asker{t: t, server: s}).run(client, user,
				password); (err == nil) != want {
				t.Errorf("%s as %s with %q: %v\n%s\n%s", client, user, password, err, out, s.Log)
			}
		}
		if got := w.asked.Load() - before; (got > 0) != asked {
			t.Errorf("the directory is asked %d times about %s", got, user)
		}
	}
	try("ann", "ann secret", true, true)
	try("carol", "carol secret", true, true)
	try("bob", "bob secret", true, true)
	try("local", "local secret", true, false)
	try("alice", "alice secret", false, false) // has a key and no password
	try("local", "wrong", false, false)
	try("dave", "dave secret", false, false)
	try(".ssh", ".ssh secret", false, true)
	try("carol", "ann secret", false, true)
	for name, want := range map[string]bool{"partners/ann": true, "others/carol": true,
		"partners/carol": false, "others/bob": false, "others/.ssh": false, "others/local": false} {
		if info, err := os.Stat(filepath.Join(home, name)); (err == nil) != want ||
			err == nil && info.Mode().Perm() != 0o750 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, err := s.SFTP("bob", key, "ls\n"); err != nil {
		t.Errorf("bob's key: %v\n%s", err, out)
	}
	client, err := passwordLogin(t, s, "carol", "carol secret")
	if err == nil {
		if _, err = client.Create("f"); err == nil {
			t.Error("a user of a read-only template creates a file")
		}
		client.Close()
	} else {
		t.Error(err)
	}
	if got := run(t, home, "", "check", "--config", file); got.code != 0 {
		t.Errorf("check: %+v", got)
	}
	writeFile(t, filepath.Join(home, "search.password"), []byte("wrong"))
	if got := run(t, home, "", "check", "--config", file); got.code != 1 ||
		!strings.Contains(got.stderr, "binding as ") {
		t.Errorf("check with a wrong password of the search: %+v", got)
	}
	w.cut.Store(true)
	if got := run(t, home, "", "check", "--config", file); got.code != 0 ||
		strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, w.address) {
		t.Errorf("check without the directory: %+v", got)
	}
}

// TestLDAPIsDown: nobody comes in whom the directory would have to let in, unless the cache knows
// them; the others do, nobody is banned for it, and a reload does not empty the cache, nor does one
// that is refused.
func TestLDAPIsDown(t *testing.T) {
	t.Parallel()
	slapd := slapdtest.Start(t, "ann", "bob", "carol")
	w := newWire(t, slapd.TLS)
	home, key, file := ldapConfig(t, w.address, slapd.CA,
		"cache = '1h'\n[bans]\nuser_failures = 1\n")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	try := func(user, password string, want bool) {
		t.Helper()
		client, err := passwordLogin(t, s, user, password)
		if err == nil {
			client.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s with %q: %v\n%s", user, password, err, s.Log)
		}
	}
	try("ann", "ann secret", true)
	w.cut.Store(true)
	for range 3 {
		try("bob", "bob secret", false) // was not here before
	}
	try("ann", "ann secret", true)
	try("ann", "wrong", false)
	try("local", "local secret", true)
	if out, err := s.SFTP("bob", key, "ls\n"); err != nil {
		t.Errorf("bob's key: %v\n%s", err, out)
	}
	text := string(readFile(t, file))
	writeFile(t, file, []byte("host_keys = ['id.pub']\n"+strings.Replace(text, "'1h'", "'2h'", 1)))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.WaitFor("reload failed; the old settings stay in effect", 1)
	writeFile(t, file, []byte(text))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.WaitFor("reloaded", 1)
	try("ann", "ann secret", true)
	w.cut.Store(false)
	try("bob", "bob secret", true)
}

// TestRefusalsTakeAsLong: whether a user exists, and where, does not show in how long a refusal
// takes, nor in what is said; and who guesses passwords of the directory is banned.
func TestRefusalsTakeAsLong(t *testing.T) {
	t.Parallel()
	slapd := slapdtest.Start(t, "ann")
	_, _, file := ldapConfig(t, slapd.TLS, slapd.CA, "[bans]\nuser_failures = 2\nfirst = '30m'\n")
	home := filepath.Dir(file)
	s := servetest.Start(t, home, "usftpd", "--config", file)
	said := map[string]bool{}
	for _, user := range []string{"ann", "nobody", "local", "alice", "bob", "*"} {
		began := time.Now()
		_, err := passwordLogin(t, s, user, "wrong")
		took := time.Since(began)
		if err == nil || took < time.Second {
			t.Errorf("%s is refused after %s: %v", user, took, err)
		}
		said[fmt.Sprint(err)] = true
	}
	if len(said) != 1 {
		t.Errorf("what is said: %v", said)
	}
	for range 3 {
		passwordLogin(t, s, "ann", "wrong")
	}
	s.Wait("user banned", func(f map[string]any) bool { return f["user"] == "ann" })
	if _, err := passwordLogin(t, s, "ann", "ann secret"); err == nil {
		t.Error("a password is looked at during a ban")
	}
}

// TestLoginHook: a command decides for OpenSSH's client and usftp, and says whose settings a user
// gets; one that fails or hangs lets nobody in, and gets nobody banned.
func TestLoginHook(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	decide := filepath.Join(home, "decide")
	if err := os.WriteFile(decide, []byte(`#!/bin/sh
read -r question
case "$question" in
*'"password":"right"'*) echo '{"accept": true, "outside": "'$1'"}' ;;
*'"password":"fail"'*) exit 1 ;;
*'"password":"hang"'*) sleep 1000 ;;
*) echo '{"accept": false, "reason": "unknown"}' ;;
esac
`), 0o700); err != nil {
		t.Fatal(err)
	}
	file, _, _ := writeConfig(t, home, key, `
[bans]
user_failures = 1
first = "30m"
[login_hook]
command = ["./decide", "second"]
timeout = "10s"
[[outside]]
name = "first"
root = "alice/%u"
[[outside]]
name = "second"
root = "bob/%u"
`)
	s := servetest.Start(t, home, "usftpd", "--config", file)
	try := func(client, user, password string, want bool) {
		t.Helper()
		if out, _, err := (asker{t: t, server: s}).run(client, user,
			password); (err == nil) != want {
			t.Errorf("%s as %s with %q: %v\n%s\n%s", client, user, password, err, out, s.Log)
		}
	}
	for _, password := range []string{"fail", "hang", "fail"} {
		if _, err := passwordLogin(t, s, "ann", password); err == nil {
			t.Errorf("a command that says %q lets somebody in", password)
		}
	}
	try("sftp", "ann", "right", true)
	try("usftp", "ann", "right", true)
	if _, err := os.Stat(filepath.Join(home, "bob", "ann")); err != nil {
		t.Error(err)
	}
	try("sftp", "alice", "right", false) // has a key and no password
	for range 3 {
		passwordLogin(t, s, "carl", "wrong")
	}
	s.Wait("user banned", func(f map[string]any) bool { return f["user"] == "carl" })
	if _, err := passwordLogin(t, s, "carl", "right"); err == nil {
		t.Error("a password is looked at during a ban")
	}
	if strings.Contains(s.Log.String(), "right") {
		t.Error("the log has a password")
	}
}

// TestOutsidersAreShown: users of a directory are on the status page of both nodes, with their
// group, while they are logged in, and are disabled there: at once, on both nodes, until they are
// let in again. A user of the configuration cannot be.
func TestOutsidersAreShown(t *testing.T) {
	t.Parallel()
	slapd := slapdtest.Start(t, "ann", "bob", "carol")
	home, _, file := ldapConfig(t, slapd.TLS, slapd.CA, "cache = '1h'\n[admin]\n[store]\nurl = '"+
		storetest.Postgres(t)+"'\n")
	one := servetest.Start(t, home, "usftpd", "--config", file, "--metrics=:0")
	two := servetest.Start(t, home, "usftpd", "--config", file, "--metrics=:0")
	shown := func(s *servetest.Server) map[string]status.User {
		t.Helper()
		w, err := http.Get(s.Greeting["status"] + "api/v1/status")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		var said status.Status
		if err := json.NewDecoder(w.Body).Decode(&said); err != nil {
			t.Fatal(err)
		}
		all := map[string]status.User{}
		for _, u := range said.Users {
			all[u.Name] = u
		}
		return all
	}
	order := func(path, user string, code int) {
		t.Helper()
		w, err := http.PostForm(one.Greeting["status"]+"api/v1/users/"+path,
			url.Values{"user": {user}})
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != code {
			t.Errorf("%s %s: %s", path, user, w.Status)
		}
	}
	client, err := passwordLogin(t, two, "ann", "ann secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*servetest.Server{one, two} {
		testenv.Until(t, "ann is shown", func() bool {
			u := shown(s)["ann"]
			return u.Outside && u.Group == "partners" && !u.Disabled &&
				strings.HasSuffix(u.Root, "partners/ann")
		})
	}
	if all := shown(one); len(all) != 4 || all["bob"].Outside {
		t.Errorf("users: %+v", all)
	}
	order("disable", "local", 404)
	order("disable", "ann", 200)
	client.Wait()
	for _, s := range []*servetest.Server{one, two} {
		testenv.Until(t, "ann is kept out", func() bool {
			client, err := passwordLogin(t, s, "ann", "ann secret")
			if err == nil {
				client.Close()
			}
			return err != nil && shown(s)["ann"].Disabled
		})
		if client, err := passwordLogin(t, s, "carol", "carol secret"); err != nil {
			t.Errorf("carol: %v", err)
		} else {
			client.Close()
		}
	}
	if list := do(t, home, file, "", "user list"); !strings.Contains(list,
		"disabled, comes from outside") {
		t.Errorf("the list of users: %q", list)
	}
	order("enable", "ann", 200)
	testenv.Until(t, "ann is let in again", func() bool {
		client, err := passwordLogin(t, two, "ann", "ann secret")
		if err == nil {
			client.Close()
		}
		return err == nil
	})
	do(t, home, file, "", "user disable ann")
	testenv.Until(t, "ann is kept out again", func() bool {
		client, err := passwordLogin(t, two, "ann", "ann secret")
		if err == nil {
			client.Close()
		}
		return err != nil
	})
	if got := run(t, home, "", "user", "disable", "local", "--config", file); got.code == 0 {
		t.Errorf("a user of the configuration: %+v", got)
	}
}

// TestLoginHookByURL: a web service decides for OpenSSH's client and usftp, and is asked again
// after an answer that was none: the cache does not speak for it, nor is it left alone.
func TestLoginHookByURL(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var q struct{ User, Password string }
		switch err := json.NewDecoder(r.Body).Decode(&q); {
		case err != nil || r.Header.Get("Webhook-Signature") == "":
			w.WriteHeader(http.StatusBadRequest)
		case q.Password == "odd":
			io.WriteString(w, "<html>")
		default:
			fmt.Fprintf(w, `{"accept": %t}`, q.Password == "right")
		}
	}))
	defer web.Close()
	home, key := servetest.HomeWithKey(t)
	secret := filepath.Join(home, "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("0123456789abcdef", 2)+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	file, _, _ := writeConfig(t, home, key, `
[passwords]
max_age = "90d"
[login_hook]
url = "`+web.URL+`/login"
secret = "secret"
cache = "1h"
[[outside]]
root = "bob/%u"
`)
	s := servetest.Start(t, home, "usftpd", "--config", file)
	for _, try := range []struct {
		client, password string
		want             bool
	}{{"sftp", "right", true}, {"sftp", "odd", false}, {"sftp", "right", true},
		{"usftp", "right", true}, {"sftp", "wrong", false}} {
		before := asked.Load()
		out, _, err := (asker{t: t, server: s}).run(try.client, "ann", try.password)
		if (err == nil) != try.want {
			t.Errorf("%s with %q: %v\n%s\n%s", try.client, try.password, err, out, s.Log)
		}
		if asked.Load() == before {
			t.Errorf("%s with %q: nobody was asked", try.client, try.password)
		}
	}
}
