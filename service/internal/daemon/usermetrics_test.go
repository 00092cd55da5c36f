package daemon

import (
	"fmt"
	"strings"
	"testing"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/usftp/usftp/server"
)

// TestUserMetrics: so many users have series of their own, the others share one, and those who have
// not logged in have none. Names do not end the label.
func TestUserMetrics(t *testing.T) {
	set := vm.NewSet()
	m := newUserMetrics(set, 2)
	odd := "a\"} 1\n\\\xff"
	for range 3 {
		m.count(server.Event{Kind: server.LoginFailed, User: "stranger"})
	}
	for i := range 10 {
		for _, user := range []string{odd, "ann", fmt.Sprint("user", i)} {
			m.count(server.Event{Kind: server.LoggedIn, User: user})
			m.count(server.Event{Kind: server.FileClosed, User: user, Read: 5, Written: 7})
			m.count(server.Event{Kind: server.RequestDenied, User: user})
		}
	}
	m.count(server.Event{Kind: server.ConnectionClosed, User: "ann"})
	var b strings.Builder
	set.WritePrometheus(&b)
	text := b.String()
	for _, line := range []string{
		`usftp_user_logins_total{user="a\"} 1\n\\` + "\uFFFD" + `"} 10`,
		`usftp_user_read_bytes_total{user="ann"} 50`,
		`usftp_user_written_bytes_total{user="other"} 70`,
		`usftp_user_failures_total{user="other"} 10`,
		`usftp_user_files_total{user="ann"} 10`,
		`usftp_user_connections{user="ann"} 9`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	if n := strings.Count(text, "usftp_user_logins_total{"); n != 3 {
		t.Errorf("%d users in\n%s", n, text)
	}
}

// TestUsersWithOneLabel: users whose names differ only in what is no UTF-8 share their series.
func TestUsersWithOneLabel(t *testing.T) {
	set := vm.NewSet()
	m := newUserMetrics(set, 2)
	for _, user := range []string{"a\xff", "a\xfe"} {
		m.count(server.Event{Kind: server.LoggedIn, User: user})
	}
	var b strings.Builder
	set.WritePrometheus(&b)
	if line := "usftp_user_connections{user=\"a\uFFFD\"} 2\n"; !strings.Contains(b.String(), line) {
		t.Errorf("there is no %s in\n%s", line, &b)
	}
}
