package dial

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialBeside begins a login whose person takes until three more have exchanged keys, and returns
// the errors of all four.
func dialBeside(t *testing.T, srv *testServer, c *Config, answer string) (errs []error, asked int) {
	t.Helper()
	var others sync.WaitGroup
	var mu sync.Mutex
	var d *Dialer
	keyed := make(chan struct{}, 8)
	dialOne := func() {
		conn, err := d.Dial(testContext(t))
		if err == nil {
			conn.Close()
		}
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	c.Logger = slog.New(&onMessage{slog.DiscardHandler, "the host's key is accepted",
		func() { keyed <- struct{}{} }})
	c.Prompter = PrompterFunc(func(context.Context, Prompt) (string, error) {
		asked++ // one at a time
		if asked == 1 {
			for range 3 {
				others.Go(dialOne)
			}
			for range 4 { // its own is one of them
				<-keyed
			}
		}
		return answer, nil
	})
	d = srv.dialer(t, c)
	dialOne()
	others.Wait()
	return errs, asked
}

// onMessage is a log that calls a function when it is told something.
type onMessage struct {
	slog.Handler
	message string
	do      func()
}

func (*onMessage) Enabled(context.Context, slog.Level) bool { return true }

func (m *onMessage) Handle(_ context.Context, r slog.Record) error {
	if r.Message == m.message {
		m.do()
	}
	return nil
}

// nones are the logins that begin with "none", which x/crypto/ssh's all do.
func nones(own, xcrypto int) []string {
	if os.Getenv(stackEnv) == "xcrypto" {
		own = xcrypto
	}
	return slices.Repeat([]string{"none"}, own)
}

func TestLoginsBesideTheFirstWaitForIt(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	errs, asked := dialBeside(t, srv, new(Config), "secret")
	if asked != 1 || !slices.Equal(errs, make([]error, 4)) {
		t.Errorf("asked %d times, %v", asked, errs)
	}
	if f := srv.failures(); !slices.Equal(f, nones(1, 4)) {
		t.Errorf("refused were %v", f)
	}
}

func TestLoginsBesideOneThatFailsOfferNothing(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	errs, asked := dialBeside(t, srv, &Config{Options: []string{"NumberOfPasswordPrompts=1"}},
		"wrong")
	if asked != 1 || len(errs) != 4 {
		t.Errorf("asked %d times, %v", asked, errs)
	}
	for _, err := range errs {
		var refused *AuthError
		if !errors.As(err, &refused) {
			t.Errorf("%v", err)
		}
	}
	f := srv.failures()
	if slices.Sort(f); !slices.Equal(f, append(nones(4, 4), "password")) {
		t.Errorf("refused were %v", f)
	}
}

// A one-time code is nothing that a login could have another time.
func TestLoginsBesideOneThatNeedsItsPerson(t *testing.T) {
	srv := newTestServer(t)
	srv.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata,
		ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		answers, err := ask("", "", []string{"Code: "}, []bool{true})
		if err != nil || len(answers) != 1 || answers[0] != "123456" {
			return nil, errors.New("wrong")
		}
		return nil, nil
	}
	errs, asked := dialBeside(t, srv, new(Config), "123456")
	good := 0
	for _, err := range errs {
		if err == nil {
			good++
		} else if !errors.Is(err, errEachNeedsPerson) {
			t.Error(err)
		}
	}
	if asked != 1 || good != 1 || len(errs) != 4 {
		t.Errorf("asked %d times, %d of %d logged in", asked, good, len(errs))
	}
}

func TestLoginLikelyIsToldOnce(t *testing.T) {
	srv := newTestServer(t)
	takesPassword(srv, "secret")
	var told []time.Duration
	p := &script{answers: []string{"secret"}}
	d := srv.dialer(t, &Config{Prompter: p,
		LoginLikely: func(_ *Dialer, trip time.Duration) { told = append(told, trip) }})
	dialTwice(t, d)
	// The clock of Windows stands still for longer than a trip here takes.
	if len(told) != 1 || told[0] < 0 || told[0] == 0 && runtime.GOOS != "windows" ||
		told[0] > time.Minute {
		t.Errorf("told %v", told)
	}
}

// Where a key is there that needs nobody, others may begin before anything was offered; where its
// passphrase is wanted first, not before that was given.
func TestLoginLikelyIsToldWhereAKeyIsThere(t *testing.T) {
	for passphrase, want := range map[string]int{"": 0, "phrase": 1} {
		srv := newTestServer(t)
		key := filepath.Join(t.TempDir(), "id")
		public := writeKey(t, key, passphrase)
		srv.PublicKeyCallback = func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions,
			error) {
			if !sameKey(k, public) {
				return nil, errors.New("unknown")
			}
			return nil, nil
		}
		told := -1
		d := srv.dialer(t, &Config{Identities: []string{key},
			Prompter:    &script{answers: []string{passphrase}},
			LoginLikely: func(*Dialer, time.Duration) { told = len(srv.failures()) }})
		conn := dialed(t, d)
		conn.Close()
		if trip := conn.RoundTrip(); trip <= 0 || trip > time.Minute {
			t.Errorf("a round trip takes %v", trip)
		}
		if told != want { // "none" comes before any key
			t.Errorf("with the passphrase %q: told after %d attempts, want %d", passphrase, told,
				want)
		}
	}
}
