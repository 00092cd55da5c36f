package sshd

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/lograte"
	"github.com/usftp/usftp/server/memfs"
)

// eventBook records events.
type eventBook struct {
	mu     sync.Mutex
	events []server.Event
}

func (b *eventBook) note(e server.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

func (b *eventBook) of(kind server.EventKind) []server.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.events), func(e server.Event) bool {
		return e.Kind != kind
	})
}

// TestEventsOfLogins: each login, failed login and ban is one event that says who it was, also
// where the log has reached its limit.
func TestEventsOfLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book eventBook
		var log bytes.Buffer
		var writing sync.Mutex
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.Events, config.BanRules.AddressFailures = book.note, 10 // further ones are quick
		config.Logger = slog.New(slog.NewTextHandler(lockedWriter{&writing, &log}, nil))
		s := newServer(t, config)
		client := mustConnect(t, s)
		if _, err := client.NewSession(); err != nil {
			t.Fatal(err)
		}
		client.Close()
		synctest.Wait()
		in, out := book.of(server.LoggedIn), book.of(server.ConnectionClosed)
		if len(in) != 1 || len(out) != 1 || in[0].User != "u" || in[0].Remote != "192.0.2.7:1" ||
			!strings.HasPrefix(in[0].Client, "SSH-2.0-") || out[0].User != "u" {
			t.Errorf("logged in %+v, closed %+v", in, out)
		}
		failures := 2 * int(lograte.Lines.Burst)
		for range failures {
			if _, err := connect(s, ssh.Password("wrong")); err == nil {
				t.Fatal("let in")
			}
			synctest.Wait()
		}
		failed, bans := book.of(server.LoginFailed), book.of(server.UserBanned)
		if len(failed) != failures || len(bans) == 0 {
			t.Fatalf("%d failed logins of %d, %d bans", len(failed), failures, len(bans))
		}
		if e := failed[0]; e.User != "u" || !slices.Equal(e.Tried, []string{"password"}) ||
			e.Remote != "192.0.2.7:1" || e.Err == nil || e.Check {
			t.Errorf("a failed login: %+v", e)
		}
		if e := bans[0]; e.Took < usual.First || e.Remote != "192.0.2.7:1" {
			t.Errorf("a ban: %+v", e)
		}
		writing.Lock()
		defer writing.Unlock()
		if n := strings.Count(log.String(), `msg="login failed"`); n >= failures {
			t.Errorf("all %d failed logins are in the log", n)
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
