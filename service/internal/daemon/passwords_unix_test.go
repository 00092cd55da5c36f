//go:build unix

package daemon

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store"
)

// TestExpiredPasswords: OpenSSH's client and usftp are asked for a new password, in both ways in
// which passwords come; the old one and short ones are not taken, and all nodes know the new one.
func TestExpiredPasswords(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key,
		"[bans]\nnever = ['127.0.0.1']\n[passwords]\nmin_length = 10\n")
	const old, fresh = "the old one", "a fresh one"
	cases := []struct {
		method  string
		answers []string
		want    bool
	}{
		{"password", []string{old, old, "short", "short", old, fresh, fresh}, true},
		{"password", []string{old, "wrong", fresh, fresh}, false},
		{"keyboard-interactive", []string{old, "short", "short", fresh, "another one", fresh,
			fresh}, true},
		{"keyboard-interactive", []string{old, "short", "short", old, old, "a", "a", fresh, fresh},
			false},
	}
	clients := []string{"sftp", "usftp"}
	for i := range cases {
		for _, client := range clients {
			do(t, home, file, old+"\n", fmt.Sprintf("user add --password --must-change %s%d",
				client, i), "--root", filepath.Join(home, "alice"))
		}
	}
	one := servetest.Start(t, home, "usftpd", "--config", file)
	two := servetest.Start(t, home, "usftpd", "--config", file)
	accepts := func(user, password string) bool {
		client, err := passwordLogin(t, two, user, password)
		if err == nil {
			client.Close()
		}
		return err == nil
	}
	for i, c := range cases {
		for _, client := range clients {
			user := fmt.Sprint(client, i)
			t.Run(user, func(t *testing.T) {
				t.Parallel()
				out, asked, err := asker{t: t, server: one, more: []string{"-o",
					"PreferredAuthentications=" + c.method}}.run(client, user, c.answers...)
				if (err == nil) != c.want || !strings.Contains(strings.ToLower(asked),
					"new password") {
					t.Errorf("%q: %v\n%s\nasked:\n%s", c.answers, err, out, asked)
				}
				if c.want {
					testenv.Until(t, "the other node knows the new password", func() bool {
						return accepts(user, fresh)
					})
				} else if accepts(user, fresh) {
					t.Error("the new password is accepted")
				}
				if accepts(user, old) {
					t.Error("the old password is accepted")
				}
			})
		}
	}
	if out, err := one.SFTP("alice", key, "ls\n"); err != nil {
		t.Errorf("a user without a password: %v\n%s", err, out)
	}
}

// TestExpiredPasswordAndCode: who knows an old password, but has no code, does not get to change
// it; with the code it is changed, and the login is complete.
func TestExpiredPasswordAndCode(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, "[bans]\nnever = ['127.0.0.1']\n")
	const old, fresh = "carol's old password", "carol's new password"
	do(t, home, file, old+"\n", "user add --second-factor --password carol", "--root",
		filepath.Join(home, "alice"))
	do(t, home, file, "", "user expire carol")
	_, recovery := newCodes(t, home, file, "carol")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	for _, order := range []string{"keyboard-interactive", "password,keyboard-interactive"} {
		more := []string{"-o", "PreferredAuthentications=" + order}
		try := func(want bool, answers ...string) {
			t.Helper()
			out, asked, err := asker{t: t, server: s, more: more}.run("sftp", "carol", answers...)
			if (err == nil) != want || strings.Contains(asked, "New password") != want {
				t.Errorf("%s with %q: %v\n%s\nasked:\n%s", order, answers, err, out, asked)
			}
		}
		try(false, old, "000000", fresh, fresh)
		var asked string
		testenv.Until(t, "the password that is to be changed is known", func() bool {
			out, said, err := asker{t: t, server: s, more: more}.run("sftp", "carol", old,
				recovery[0], fresh, fresh)
			if asked = said; err != nil {
				t.Logf("%v\n%s", err, out)
			}
			return err == nil
		})
		if !strings.Contains(asked, "New password") {
			t.Errorf("%s: asked:\n%s", order, asked)
		}
		recovery = recovery[1:]
		testenv.Until(t, "the new password is known", func() bool {
			_, asked, err := asker{t: t, server: s, more: more}.run("sftp", "carol", fresh,
				recovery[0])
			if err == nil {
				recovery = recovery[1:]
			}
			return err == nil && !strings.Contains(asked, "New password")
		})
		do(t, home, file, old+"\n", "user add --replace --must-change --second-factor "+
			"--password carol",
			"--root", filepath.Join(home, "alice"))
		s.WaitFor("password changed", 1)
	}
}

// TestPasswordRules: when a password has to be changed, and for what.
func TestPasswordRules(t *testing.T) {
	t.Parallel()
	rules := passwordRules{least: 8, maxAge: time.Hour}
	for fresh, want := range map[string]bool{"12345678": true, "1234567": false, "äöüäöüäö": true,
		"äöüäöüä": false, "the old one": false, "": false,
		strings.Repeat("x", maxPassword+1): false} {
		if err := rules.check("the old one", fresh); (err == nil) != want {
			t.Errorf("%q: %v", fresh, err)
		}
	}
	s := &service{}
	for maxAge, want := range map[time.Duration]bool{0: false, time.Hour: true,
		3 * time.Hour: false} {
		rules := passwordRules{maxAge: maxAge}
		u := store.User{PasswordSet: time.Now().Add(-2 * time.Hour)}
		if due := s.renewal(u, rules)("old") != nil; due != want {
			t.Errorf("a password of two hours with a maximum of %s: due is %v", maxAge, due)
		}
		if s.renewal(store.User{}, rules)("old") == nil {
			t.Errorf("one that is to be changed need not be, with a maximum of %s", maxAge)
		}
	}
}

// TestRulesOfRefusedSettings: settings that were read, and did not come into effect, have changed
// no rules for passwords.
func TestRulesOfRefusedSettings(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, `log_level = "quiet"
host_keys = ["host_key"]
[store]
file = "store.db"`)
	s := inProcess(t, file, false)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.store.PutUser(t.Context(), store.User{Name: "carol", Root: filepath.Join(home, "alice"),
		Password: sshd.HashPassword("the old one")}, false)) // which has to be changed
	users := s.storedUsers(&s.started.Settings)
	writeFile(t, file, append(readFile(t, file), "\n[passwords]\nmin_length = 100\n"...))
	_, err := s.read()
	must(err)
	must(users[0].Renew("the old one")("a password of fewer than 100 characters"))
}
