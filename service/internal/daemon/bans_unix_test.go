//go:build unix

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/store/storetest"
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

// TestBansOfNetworksOnTwoNodes: guesses from many addresses of an IPv6 /64, over two nodes, count
// together, and so do those from an IPv4 address and the same one written as IPv6. What is banned
// on one node is on the other, and is lifted for both by any of its addresses. A password that was
// replaced is refused on both.
func TestBansOfNetworksOnTwoNodes(t *testing.T) {
	t.Parallel()
	home, _, file := configWith(t, `user_failures = 3
[store]
url = "`+storetest.Postgres(t)+`"`)
	root := filepath.Join(home, "carol")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	do(t, home, file, "secret\n", "user add --password", "--root", root, "carol")
	nodes := []*servetest.Server{servetest.Start(t, home, "usftpd", "--config", file),
		servetest.Start(t, home, "usftpd", "--config", file)}
	enters := func(s *servetest.Server, address, password string) bool {
		client, err := login(t, s, address, "carol", password)
		if err == nil {
			client.Close()
		}
		return err == nil
	}
	for _, one := range []struct {
		address func(i int) string
		other   string // which is not banned
	}{
		{func(i int) string { return fmt.Sprintf("2001:db8:1:2::%x", i+1) }, "2001:db8:1:3::1"},
		{func(i int) string { return []string{"::ffff:192.0.2.20", "192.0.2.20"}[i%4/2] },
			"192.0.2.21"},
	} {
		for i := range 4 { // two on each node
			enters(nodes[i%2], one.address(i), "wrong")
		}
		for _, s := range nodes {
			testenv.Until(t, "passwords from there are refused", func() bool {
				return !enters(s, one.address(100), "secret")
			})
			if !enters(s, one.other, "secret") {
				t.Errorf("%s is banned, too", one.other)
			}
		}
		do(t, home, file, "", "ban lift", one.address(50))
		for _, s := range nodes {
			testenv.Until(t, "the ban is lifted", func() bool {
				return enters(s, one.address(200), "secret")
			})
		}
	}
	do(t, home, file, "another\n", "user add --replace --password", "--root", root, "carol")
	for i, s := range nodes {
		testenv.Until(t, "the new password is known", func() bool {
			return enters(s, fmt.Sprint("198.51.100.", i), "another")
		})
		if enters(s, "192.0.2.30", "secret") {
			t.Errorf("node %d accepts the old password", i)
		}
	}
}
