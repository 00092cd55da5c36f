//go:build unix

package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// inProcess returns a service, which ends with the test, or what checks its configuration.
func inProcess(t *testing.T, file string, check bool) *service {
	t.Helper()
	var given flags
	given.register(pflag.NewFlagSet("usftpd", pflag.ContinueOnError))
	given.config = file
	s, err := newService(t.Context(), ui.NewApp("usftpd"), &given)
	if err == nil {
		s.Check = check
		t.Cleanup(s.closeStore)
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCheckKeepsRecords: a check removes no records from the audit trail, however short a time the
// configuration has for them.
func TestCheckKeepsRecords(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, `log_level = "quiet"
host_keys = ["host_key"]
[audit]
[store]
file = "store.db"`)
	has := func(s *service, kind string) (found bool) {
		t.Helper()
		if err := s.store.Records(t.Context(), "", time.Time{}, time.Time{},
			func(r store.Record) error {
				found = found || r.Kind == kind
				return nil
			}); err != nil {
			t.Error(err)
		}
		return found
	}
	record := func(s *service, kind string, age time.Duration) {
		t.Helper()
		s.store.Record(store.Record{Time: time.Now().Add(-age), Kind: kind})
		testenv.Until(t, kind+" is recorded", func() bool { return has(s, kind) })
	}
	record(inProcess(t, file, false), "old", time.Hour)
	writeFile(t, file, bytes.Replace(readFile(t, file), []byte("[audit]"),
		[]byte("[audit]\nkeep = \"30m\""), 1))
	checking := inProcess(t, file, true)
	for _, kind := range []string{"first", "second"} { // each time it could remove some
		record(checking, kind, 0)
	}
	if !has(checking, "old") {
		t.Error("an old record is gone")
	}
}

// TestSecretsInReach: a check and the server say which secrets users can read.
func TestSecretsInReach(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, `host_keys = ["alice/host_key"]
metrics = "127.0.0.1:0"
[store]
file = "store.db"
[admin]
token = "carol/token"
`)
	carol := filepath.Join(home, "carol")
	if err := os.Mkdir(carol, 0o700); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filepath.Join(carol, "token"), []byte("0123456789abcdef"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	do(t, home, file, "secret\n", "user", "add", "--root", carol, "--password", "carol")
	got := run(t, home, "", "check", "--config", file)
	s := servetest.Start(t, home, "usftpd", "--config", file, "--log-format", "text")
	s.End(15, 0)
	const said = `"a user can reach a secret of the server" user=`
	for _, all := range []string{got.stderr, s.Log.String()} {
		if got.code != 0 || strings.Count(all, said) != 2 ||
			!strings.Contains(all, said+"alice file="+filepath.Join(alice, "host_key")) ||
			!strings.Contains(all, said+"carol file="+filepath.Join(carol, "token")) {
			t.Errorf("it ends with %d, and says:\n%s", got.code, all)
		}
	}
}

// TestCheckIsRefused: a store that answers, but not to those whom the configuration names, is a
// mistake in it.
func TestCheckIsRefused(t *testing.T) {
	t.Parallel()
	right := storetest.Postgres(t)
	for name, url := range map[string]string{
		"the database": strings.Replace(right, "/postgres?", "/none?", 1),
		"the role":     strings.Replace(right, "usftpd@", "none@", 1),
	} {
		home, _, file := configWith(t, "[store]\nurl = '"+url+"'")
		if got := run(t, home, "", "check", "--config", file); got.code != 1 || got.stdout != "" ||
			strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "does not exist") {
			t.Errorf("%s does not exist: %+v", name, got)
		}
	}
}

// TestCheck: what keeps the server from starting, or leaves a user out, is said without starting
// it, and nothing is made; what a check has let pass is served to OpenSSH's client.
func TestCheck(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	state := filepath.Join(home, "state")
	if err := os.Mkdir(state, 0o755); err != nil {
		t.Fatal(err)
	}
	file, _, _ := writeConfig(t, home, key, `host_keys = ["host_key"]
[store]
file = "state/store.db"`)
	text := string(readFile(t, file)) + `[audit]
[[hooks]]
name = "web"
on = ["login"]
url = "http://127.0.0.1:1/"
`
	check := func(text string, more ...string) outcome {
		writeFile(t, file, []byte(text))
		return run(t, home, "", append([]string{"check", "--config", file}, more...)...)
	}
	fails := func(got outcome, says string) {
		t.Helper()
		if got.code != 1 || got.stdout != "" || !regexp.MustCompile(says).MatchString(got.stderr) {
			t.Errorf("%+v, want %s", got, says)
		}
	}
	fails(check(strings.Replace(text, `"host_key"`, `"none/host_key"`, 1)),
		`^usftpd: cannot create the host key \S+/none/host_key: no such file or directory\n$`)
	if got := check(text); got.code != 0 || got.stdout != file+" is in order\n" ||
		got.stderr != "" {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"host_key", "state/store.db"} {
		if _, err := os.Stat(filepath.Join(home, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	fails(check(text+"mistake = 1\n"), `:\d+: unknown setting "hooks.mistake"\n$`)
	fails(check(strings.Replace(text, `root = "bob"`, `root = "gone"`, 1)),
		`:\d+: root: .*/gone: no such`)
	fails(check(strings.NewReplacer(`root = "bob"`, `root = "gone"`, `root = "alice"`,
		`root = "away"`).
		Replace(text)), `^usftpd: [^\n]*:\d+: root: .*/away: no such [^\n]*\n`+
		`usftpd: .*/gone: no such [^\n]*\n$`)
	fails(check(strings.Replace(text, "state/store.db", "none/store.db", 1)),
		`cannot make the store .*/none/store.db: no such`)
	// The server would start, and take who is shut out in its file.
	if got := check(strings.Replace(text, `file = "state/store.db"`,
		`url = "postgres://u@127.0.0.1:1/d?connect_timeout=1"`, 1)); got.code != 0 ||
		got.stdout != file+" is in order\n" || strings.Count(got.stderr, "\n") != 1 ||
		!strings.Contains(got.stderr, "the store does not answer: ") {
		t.Errorf("%+v", got)
	}
	listens := func(on string) outcome {
		return check(strings.Replace(text, `listen = ["127.0.0.1:0"]`, "listen = "+on, 1))
	}
	for _, both := range []string{`["127.0.0.1:1", "127.0.0.1:1"]`, `[":1", "0.0.0.0:1"]`,
		"['[::1]:1']\nmetrics = '[::1]:1'"} {
		fails(listens(both), `nobody can listen on both \S*:1 and \S+:1\n$`)
	}
	if got := listens("['127.0.0.1:1', '127.0.0.2:1', ':0', ':0']"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := check(text + "users = ['alice', 'nobody']\n"); got.code != 0 ||
		strings.Count(got.stderr, "a hook is for a user who does not exist") != 1 ||
		!strings.Contains(got.stderr, "user=nobody") {
		t.Errorf("%+v", got)
	}
	fails(check("ciphers = ['none']\n"+text), `:1:12: ciphers: unknown cipher "none"`)
	fails(check(text, "--host-key", filepath.Join(home, "id.pub")), `id\.pub`)
	fails(check(text+fmt.Sprintf("[[users]]\nname = 'c'\nroot = 's3://b'\nkeys = ['%s']\n"+
		"[storage]\n"+
		"endpoint = 'http://127.0.0.1:1'\n", strings.TrimSpace(string(readFile(t, key+".pub"))))),
		`cannot serve s3://b: `)

	writeFile(t, file, []byte(text))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	gone := filepath.Join(home, "gone")
	if err := os.Mkdir(gone, 0o755); err != nil {
		t.Fatal(err)
	}
	do(t, home, file, "", "user add", "--root", gone, "--key", key+".pub", "carol")
	if got := check(text); got.code != 0 { // beside the server that runs
		t.Errorf("%+v", got)
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	fails(check(text), `^usftpd: user carol: cannot serve .*/gone: no such`)
	s.End(syscall.SIGTERM, 0)
}
