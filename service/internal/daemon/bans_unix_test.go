//go:build unix

package daemon

import (
	"fmt"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestBansOfUsers: OpenSSH's client with the right key gets in however often others fail as this
// user, until the whole address is banned; bans are listed and lifted at once, and networks of the
// list are never banned.
func TestBansOfUsers(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, `
[bans]
user_failures = 2
address_failures = 5
forget = "24h"
first = "30m"`)
	wrong := opensshd.Keygen(t, filepath.Join(home, "stranger"))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	fail := func(user string, times int) {
		t.Helper()
		for range times {
			if out, err := s.SFTP(user, wrong, "pwd\n"); err == nil {
				t.Fatalf("a stranger was let in:\n%s", out)
			}
		}
	}
	fail("alice", 1)
	if list := do(t, home, file, "", "ban list"); list != "" {
		t.Errorf("the bans after one of two failures: %q", list)
	}
	fail("alice", 1)
	s.Wait("user banned", func(f map[string]any) bool {
		return f["user"] == "alice" && f["seconds"] == 1800.0
	})
	if list := do(t, home, file, "", "ban list"); !regexp.MustCompile(
		`^127\.0\.0\.1/32 +(29m\d+s|30m0s) +alice\n$`).MatchString(list) {
		t.Errorf("the bans: %q", list)
	}
	if out, err := s.SFTP("alice", key, "pwd\n"); err != nil {
		t.Errorf("alice has the key: %v\n%s", err, out)
	}

	for i := range 3 { // of which the address has had two
		fail(fmt.Sprint("name", i), 1)
	}
	s.Wait("address banned", nil)
	if out, err := s.SFTP("alice", key, "pwd\n"); err == nil {
		t.Errorf("a banned address is served:\n%s", out)
	}
	do(t, home, file, "", "ban lift", "127.0.0.1")
	testenv.Until(t, "the bans are lifted", func() bool {
		_, err := s.SFTP("alice", key, "pwd\n")
		return err == nil
	})
	if list := do(t, home, file, "", "ban list"); list != "" {
		t.Errorf("the bans: %q", list)
	}

	text := string(readFile(t, file))
	writeFile(t, file, []byte(regexp.MustCompile(`first = .*`).ReplaceAllString(text,
		`never = ["127.0.0.0/8"]`)))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.WaitFor("reloaded", 1)
	fail("bob", 7)
	do(t, home, file, "", "ban add", "127.0.0.1")
	if out, err := s.SFTP("bob", key, "pwd\n"); err != nil {
		t.Errorf("an address that is never banned is: %v\n%s", err, out)
	}
}
