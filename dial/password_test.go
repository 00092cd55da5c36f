package dial

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// expiredServer runs asyncssh's server, which wants a new password in place of "old", and finds the
// first bad ones bad. got ends it, and returns what it was sent.
func expiredServer(t *testing.T, bad int) (port int, got func() []string) {
	t.Helper()
	cmd := exec.Command(testenv.Python(t, "asyncssh"), "-W", "ignore", "testdata/newpassword.py",
		"old", strconv.Itoa(bad))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("asyncssh's server did not start")
	}
	if port, err = strconv.Atoi(lines.Text()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return port, func() (said []string) {
		cmd.Process.Kill()
		for lines.Scan() {
			said = append(said, lines.Text())
		}
		cmd.Wait()
		return said
	}
}

// TestNewPassword: a server that wants another password gets one, as with ssh. What was typed once
// serves the next connection.
func TestNewPassword(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad     int
		answers []string
		want    []string // what the server gets
		fails   string   // "" if the login succeeds
	}{
		"changed": {answers: []string{"old", "old", "new", "new"},
			want: []string{"password old", "change old new"}},
		"typed differently": {answers: []string{"old", "old", "new", "knew", "new", "new"},
			want: []string{"password old", "change old new"}},
		"not taken at first": {bad: 1, answers: []string{"old", "old", "x", "x", "old", "new", "new"},
			want: []string{"password old", "change old x", "change old new"}},
		"the same again": {bad: 9, answers: []string{"old", "old", "x", "x", "old", "x", "x"},
			want: []string{"password old", "change old x"}, fails: "(That one is too short.)"},
		"never taken": {bad: 9, answers: []string{"old", "old", "x", "x", "old", "y", "y", "old", "z",
			"z", "old", "w", "w"}, want: []string{"password old", "change old x", "change old y",
			"change old z"}, fails: "no new password was found"},
		"the old one is wrong": {answers: []string{"old", "odd", "new", "new"},
			want: []string{"password old", "change odd new"}, fails: "the person has left"},
		"nobody knows a new one": {answers: []string{"old", "old"}, want: []string{"password old"},
			fails: "(Your password has expired.?[2J): the person has left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, got := expiredServer(t, c.bad)
			p := &script{answers: c.answers}
			var banners []string
			d, err := New(testContext(t), Target{Host: "127.0.0.1", User: "me", Port: port},
				&Config{ConfigFile: "none", Prompter: p, Env: append(os.Environ(), stackEnv+"="),
					Banner: func(_, text string) { banners = append(banners, text) },
					Options: []string{"StrictHostKeyChecking=no", "UserKnownHostsFile=none",
						"GlobalKnownHostsFile=none", "PreferredAuthentications=password"}})
			if err != nil {
				t.Fatal(err)
			}
			if c.fails == "" {
				dialTwice(t, d)
				c.want = append(c.want, "password new")
			} else if _, err := d.Dial(testContext(t)); err == nil ||
				!strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v, want %q", err, c.fails)
			}
			if said := got(); !slices.Equal(said, c.want) {
				t.Errorf("the server got %q, want %q", said, c.want)
			}
			if len(p.asked) > 2 && (p.asked[1].Text != "Enter me@127.0.0.1's old password: " ||
				p.asked[2].Kind != AskNewPassword ||
				p.asked[2].Text != "Enter me@127.0.0.1's new password: ") {
				t.Errorf("asked %+v", p.asked)
			}
			if len(banners) != min(c.bad, 3)+1 && c.fails == "" {
				t.Errorf("the server's texts: %q", banners)
			}
		})
	}
}

// TestSamePassword: a program that gives the same answer each time does not get the account locked.
func TestSamePassword(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	_, err := srv.dialer(t, &Config{Prompter: &script{answers: []string{"a", "a", "a"}}}).Dial(
		testContext(t))
	if f := srv.failures(); err == nil || !strings.Contains(err.Error(), "refused twice") ||
		len(slices.DeleteFunc(f, func(m string) bool { return m == "none" })) != 2 {
		t.Errorf("%v after %v", err, f)
	}
}
