//go:build unix

package hooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// onBoth runs a test with a new SQLite and a new PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, database string)) {
	t.Helper()
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "store.db"))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, storetest.Postgres(t))
	})
}

func openStore(t *testing.T, database string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), database, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// startHooks runs hooks as a node does, until the test ends.
func startHooks(t *testing.T, s *store.Store, all ...*Hook) *Hooks {
	t.Helper()
	h := New(all, s, slog.New(slog.NewTextHandler(t.Output(), nil)))
	h.Root = func(user, _ string) (string, string) { return "/srv/" + user, "/" }
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { h.Run(ctx) })
	t.Cleanup(func() { stop(); ended.Wait() })
	return h
}

// upload makes h hear of a file that was uploaded.
func upload(t *testing.T, h *Hooks, name string) {
	t.Helper()
	end, err := h.Gate(server.Event{Kind: server.FileClosed, Time: time.Now(), User: "ann",
		Remote: "192.0.2.7:99", Protocol: "sftp", Upload: true, Path: name, Written: 5})
	if err != nil {
		t.Fatal(err)
	}
	end(nil)
}

// got is what a receiver got.
type got struct {
	http.Header
	body []byte
	Event
}

// receiver is a web service that answers what answer says.
func receiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) (url string,
	all <-chan got) {
	t.Helper()
	came := make(chan got, 1000)
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := got{Header: r.Header}
		one.body, _ = io.ReadAll(r.Body)
		if err := json.Unmarshal(one.body, &one.Event); err != nil {
			t.Error(err)
		}
		mu.Lock()
		n++
		at := n
		mu.Unlock()
		if answer != nil {
			answer(at, w, r)
		}
		came <- one
	}))
	t.Cleanup(s.Close)
	return s.URL + "/hook", came
}

// next returns what comes next.
func next[T any](t *testing.T, came <-chan T) (one T) {
	t.Helper()
	select {
	case one = <-came:
	case <-time.After(5 * time.Minute):
		t.Fatal("nothing comes")
	}
	return one
}

// TestPost: an event is posted with an ID and a time, and signed. A service that fails gets it
// again, with the same ID.
func TestPost(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		url, came := receiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				http.Error(w, strings.Repeat("no", 1<<20), http.StatusServiceUnavailable)
			}
		})
		secret := []byte("a secret of 16 bytes or more")
		h := startHooks(t, openStore(t, database), &Hook{Name: "post", On: []Kind{Uploaded, Login},
			Users: []string{"ann"}, URL: url, Secret: secret})
		upload(t, h, "/in/../../etc/a")
		first, second := next(t, came), next(t, came)
		if first.ID != second.ID || first.Get("Webhook-Id") != first.ID || first.ID == "" {
			t.Errorf("IDs %q, then %q", first.ID, second.ID)
		}
		for _, one := range []got{first, second} {
			mac := hmac.New(sha256.New, secret)
			fmt.Fprintf(mac, "%s.%s.%s", one.ID, one.Get("Webhook-Timestamp"), one.body)
			if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); want !=
				one.Get("Webhook-Signature") {
				t.Errorf("signed %q, want %q", one.Get("Webhook-Signature"), want)
			}
		}
		e := second.Event
		if e.Kind != Uploaded || e.User != "ann" || e.Remote != "192.0.2.7:99" || e.Written != 5 ||
			e.Path != "/in/../../etc/a" || e.File != "/srv/ann/etc/a" || e.Unconfirmed ||
			time.Since(e.Time) > time.Minute {
			t.Errorf("%+v", e)
		}
		h.Event(server.Event{Kind: server.LoggedIn, User: "bob"})
		h.Event(server.Event{Kind: server.LoggedIn, User: "ann"})
		if one := next(t, came); one.Kind != Login || one.User != "ann" {
			t.Errorf("%+v", one.Event)
		}
	})
}

// TestNothingWaits: a service that hangs holds up neither clients nor other hooks.
func TestNothingWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		release := make(chan struct{})
		hanging, _ := receiver(t, func(int, http.ResponseWriter, *http.Request) { <-release })
		defer close(release)
		url, came := receiver(t, nil)
		h := startHooks(t, openStore(t, database),
			&Hook{Name: "hangs", On: []Kind{Uploaded}, URL: hanging, Timeout: time.Hour, AtOnce: 1},
			&Hook{Name: "works", On: []Kind{Uploaded}, URL: url})
		for i := range 20 { // each would wait for an hour
			upload(t, h, fmt.Sprint("/", i))
		}
		for range 20 {
			next(t, came)
		}
	})
}

// TestTwoNodes: of two nodes one delivers each message.
func TestTwoNodes(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		const count = 60
		url, came := receiver(t, nil)
		var nodes []*Hooks
		for range 2 {
			nodes = append(nodes, startHooks(t, openStore(t, database),
				&Hook{Name: "h", On: []Kind{Uploaded}, URL: url}))
		}
		for i := range count {
			upload(t, nodes[i%2], fmt.Sprint("/", i))
		}
		seen := map[string]bool{}
		for range count {
			one := next(t, came)
			if seen[one.Path] {
				t.Errorf("%s came twice", one.Path)
			}
			seen[one.Path] = true
		}
	})
}

// TestEndGivesBack: a node that ends while a receiver hangs leaves the message to the others, at
// once.
func TestEndGivesBack(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	url, _ := receiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) { <-release })
	s := openStore(t, filepath.Join(t.TempDir(), "store.db"))
	h := New([]*Hook{{Name: "h", On: []Kind{Uploaded}, URL: url, Timeout: time.Hour}}, s,
		slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { h.Run(ctx) })
	upload(t, h, "/a")
	testenv.Until(t, "the message is taken", func() bool {
		taken, err := s.Take(t.Context(), "h", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(taken) == 0
	})
	stop()
	ended.Wait()
	taken, err := s.Take(t.Context(), "h", 1, time.Hour)
	if err != nil || len(taken) != 1 || taken[0].Tries != 0 {
		t.Errorf("the next node gets %+v, %v", taken, err)
	}
}

// TestDeadLetters: what cannot be delivered in time is kept, and delivered once it is replayed.
func TestDeadLetters(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		url, came := receiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 { // what is signed for one URL is not sent to another
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			}
		})
		s := openStore(t, database)
		outcomes := make(chan Outcome, 10)
		h := New([]*Hook{{Name: "h", On: []Kind{Uploaded}, URL: url, GiveUp: time.Nanosecond}}, s,
			slog.New(slog.DiscardHandler))
		h.Tell = func(_ string, outcome Outcome) { outcomes <- outcome }
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { h.Run(ctx) })
		defer func() { stop(); ended.Wait() }()
		upload(t, h, "/a")
		first := next(t, came)
		if outcome := next(t, outcomes); outcome != Dead {
			t.Fatalf("a redirect: %s", outcome)
		}
		var dead []store.Message
		if err := s.DeadLetters(t.Context(), func(m store.Message) {
			dead = append(dead, m)
		}); err != nil {
			t.Fatal(err)
		}
		if len(dead) != 1 || dead[0].ID != first.ID ||
			!strings.Contains(dead[0].Error, "answers 307 Temporary Redirect") {
			t.Errorf("dead letters: %+v", dead)
		}
		if _, err := s.Replay(t.Context(), "h"); err != nil {
			t.Fatal(err)
		}
		if again := next(t, came); again.ID != first.ID || again.Path != "/a" {
			t.Errorf("replayed: %+v", again.Event)
		}
		if outcome := next(t, outcomes); outcome != Delivered {
			t.Errorf("replayed: %s", outcome)
		}
	})
}

// TestOneClockGivesUp: a message is given up by the clock that says when it was made. The node's
// may be ahead of the database's.
func TestOneClockGivesUp(t *testing.T) {
	t.Parallel()
	url, _ := receiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	s := openStore(t, filepath.Join(t.TempDir(), "store.db"))
	hook := &Hook{Name: "h", On: []Kind{Uploaded}, URL: url}
	h := New([]*Hook{hook}, s, slog.New(slog.DiscardHandler))
	outcomes := make(chan Outcome, 1)
	h.Tell = func(_ string, outcome Outcome) { outcomes <- outcome }
	upload(t, h, "/a")
	taken, err := s.Take(t.Context(), "h", 1, time.Hour)
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	taken[0].Made = taken[0].Made.Add(-2 * UsualGiveUp)
	newWorker(h, hook).deliver(t.Context(), taken[0])
	if outcome := next(t, outcomes); outcome != Failed {
		t.Error(outcome)
	}
}

// TestFlappingHookFillsNoLog: clients choose the names for which a command may fail, and so how often
// a hook begins to fail, and works again.
func TestFlappingHookFillsNoLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorker(&Hooks{log: slog.New(slog.NewTextHandler(&log, nil))}, &Hook{Name: "h"})
		flap := func() {
			for range 50 {
				w.works(false, errors.New("exit status 1"))
				w.works(true, nil)
			}
		}
		lines := func(want int) {
			t.Helper()
			if n := strings.Count(log.String(), "\n"); n != want {
				t.Errorf("%d lines, want %d:\n%s", n, want, log.String())
			}
		}
		flap()
		lines(2)
		time.Sleep(time.Minute)
		flap()
		lines(4)
		if !strings.Contains(log.String(), "more=49") {
			t.Errorf("nothing tells of the others:\n%s", log.String())
		}
	})
}

// script writes a program that is no binary.
func script(t *testing.T, text string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "a script; exit")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestCommand: a command gets its arguments as they are, what happened in its environment and on
// standard input, and nothing else of the server's environment. Names have no meaning to a shell.
func TestCommand(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hidden")
	out := filepath.Join(t.TempDir(), "out")
	name := script(t, `{ printf '%s\n' "$1" "$USFTP_PATH" "$USFTP_FILE" "$USFTP_USER" "$USFTP_ID"
		cat; env; } >"$2.new" && mv "$2.new" "$2"`)
	hook := &Hook{Name: "run", On: []Kind{Uploaded}, Command: []string{name, "$(id) 'x", out}}
	hostile := "/d/$(touch /tmp/x);`id`\n\xff'\""
	done := make(chan Outcome, 1)
	h := New([]*Hook{hook}, openStore(t, filepath.Join(t.TempDir(), "s")),
		slog.New(slog.DiscardHandler))
	h.Root = func(user, _ string) (string, string) { return "s3://bucket/" + user, "/" }
	h.Tell = func(_ string, outcome Outcome) { done <- outcome }
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { h.Run(ctx) })
	defer func() { stop(); ended.Wait() }()
	upload(t, h, hostile)
	if outcome := next(t, done); outcome != Delivered {
		t.Fatal(outcome)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := "$(id) 'x\n" + hostile + "\ns3://bucket/ann" + hostile + "\nann\n"
	rest, ok := strings.CutPrefix(string(text), lines)
	if !ok || strings.Contains(rest, "hidden") {
		t.Fatalf("the command got\n%q", text)
	}
	id, rest, _ := strings.Cut(rest, "\n")
	var e Event
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&e); err != nil || e.ID != id ||
		string(e.PathBytes) != hostile {
		t.Errorf("standard input is %q, %v", rest, err)
	}
}

// TestCommandGoesOn: a command that ends well has been told, although something that it has started
// goes on.
func TestCommandGoesOn(t *testing.T) {
	t.Parallel()
	c := &commander{&Hook{Command: []string{script(t, "sleep 5 & exit 0")}}}
	if err := c.send(t.Context(), &Event{ID: "1", Kind: Uploaded}); err != nil {
		t.Error(err)
	}
}

// TestCommandFails: a command that fails is shown with the start of what it says; one that takes
// too long is killed with all that it has started.
func TestCommandFails(t *testing.T) {
	t.Parallel()
	e := &Event{ID: "1", Kind: Uploaded}
	c := &commander{&Hook{Command: []string{script(t,
		"echo it is broken; yes | head -c 10000000; exit 3")}}}
	if err := c.send(t.Context(), e); err == nil || !strings.Contains(err.Error(),
		`exit status 3: "it is broken\ny`) || len(err.Error()) > 1000 {
		t.Errorf("%v", err)
	}
	fifo := filepath.Join(t.TempDir(), "alive")
	if err := os.WriteFile(fifo, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{script(t, "sleep 1000 & echo $! >"+fifo+"; wait")}
	var pid []byte
	// On a busy machine the command may take longer to start something.
	for timeout := time.Second; len(pid) == 0; timeout *= 2 {
		w := newWorker(New(nil, nil, slog.New(slog.DiscardHandler)), &Hook{Timeout: timeout,
			Command: command})
		err := w.try(t.Context(), store.Message{Event: "{}"})
		if err == nil || err.Error() != fmt.Sprint("not done within ", timeout) {
			t.Fatalf("%v", err)
		}
		if pid, err = os.ReadFile(fifo); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Until(t, "what the command has started is gone", func() bool {
		return !alive(strings.TrimSpace(string(pid)))
	})
}

// TestCommandFailsAndLeaves: what a command has started does not go on if the command fails, since
// it is run again, and goes on if it succeeds.
func TestCommandFailsAndLeaves(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"", ">/dev/null 2>&1"} {
		for status := range 2 {
			file := filepath.Join(t.TempDir(), "pid")
			c := &commander{&Hook{Command: []string{script(t,
				fmt.Sprintf("sleep 1000 %s & echo $! >%s; exit %d", output, file, status))}}}
			if err := c.send(t.Context(), &Event{}); (err == nil) != (status == 0) {
				t.Errorf("status %d: %v", status, err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pid := strings.TrimSpace(string(text))
			if status == 0 {
				if !alive(pid) {
					t.Errorf("what the command has left behind was ended (output: %q)", output)
				}
				number, _ := strconv.Atoi(pid)
				syscall.Kill(number, syscall.SIGKILL)
			}
			testenv.Until(t, "it is gone", func() bool { return !alive(pid) })
		}
	}
}

// alive reports whether a process runs, and is not just waiting for its parent.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// TestKinds: what is told of what, and where temporary names do not count.
func TestKinds(t *testing.T) {
	t.Parallel()
	change := func(request, name, to string) server.Event {
		return server.Event{Kind: server.TreeChanged, Request: request, Path: name, To: to}
	}
	file := func(name string, upload bool) server.Event {
		return server.Event{Kind: server.FileClosed, Path: name, Upload: upload}
	}
	for _, one := range []struct {
		server.Event
		kind     Kind
		name, to string
	}{
		{file("/a", true), Uploaded, "/a", ""},
		{file("/a.filepart", true), "", "", ""},
		{file("/a", false), Downloaded, "/a", ""},
		{change("rename", "/a", "/b"), Renamed, "/a", "/b"},
		{change("posix-rename", "/.a.usftp-0123456789ab", "/a"), Uploaded, "/a", ""},
		{change("rename", "/a", "/a.filepart"), "", "", ""},
		{change("remove", "/a", ""), Removed, "/a", ""},
		{change("remove", "/a.filepart", ""), "", "", ""},
		{change("rmdir", "/a", ""), Removed, "/a", ""},
		{file("/d/.usftp-sync.lock", true), "", "", ""},
		{file("/d/.usftp-sync.lock", false), Downloaded, "/d/.usftp-sync.lock", ""},
		{change("remove", "/d/.usftp-sync.lock", ""), "", "", ""},
		{change("rename", "/d/.usftp-sync.lock", "/a"), Uploaded, "/a", ""},
		{change("mkdir", "/a", ""), "", "", ""},
		{change("setstat", "/a", ""), "", "", ""},
		{server.Event{Kind: server.LoggedIn}, Login, "", ""},
		{server.Event{Kind: server.FileAbandoned, Upload: true}, "", "", ""},
		{server.Event{Kind: server.LoginFailed}, "", "", ""},
	} {
		kind := kindOf(one.Event)
		if kind != one.kind {
			t.Errorf("%+v is %q, want %q", one.Event, kind, one.kind)
		}
		if made := newEvent(kind, one.Event, "", "/"); kind != "" && (made.Path != one.name ||
			made.To != one.to) {
			t.Errorf("%+v is of %q to %q", one.Event, made.Path, made.To)
		}
	}
}

// TestFailedChanges: what was not made is not told; what may have been made is, as unconfirmed.
func TestFailedChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		url, came := receiver(t, nil)
		h := startHooks(t, openStore(t, database), &Hook{Name: "h", On: []Kind{Uploaded, Removed},
			URL: url})
		for name, err := range map[string]error{"/exists": os.ErrExist,
			"/late": io.ErrUnexpectedEOF} {
			end, refused := h.Gate(server.Event{Kind: server.FileClosed, Upload: true, Path: name})
			if refused != nil {
				t.Fatal(refused)
			}
			end(err)
		}
		end, err := h.Gate(server.Event{Kind: server.TreeChanged, Request: "remove", Path: "/gone"})
		if err != nil {
			t.Fatal(err)
		}
		end(os.ErrNotExist)
		upload(t, h, "/last")
		seen := map[string]bool{}
		for range 2 {
			one := next(t, came)
			seen[one.Path] = one.Unconfirmed
		}
		if unconfirmed, ok := seen["/late"]; !ok || !unconfirmed || len(seen) != 2 ||
			seen["/last"] {
			t.Errorf("told: %v", seen)
		}
	})
}

// TestFileInFolder: of a path in a folder, the file is below the folder's root, whatever the path
// says.
func TestFileInFolder(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ root, folder, path, file string }{
		{"/srv/ann", "/", "/in/f", "/srv/ann/in/f"},
		{"/srv/prices", "/shared/prices", "/shared/prices/a/f", "/srv/prices/a/f"},
		{"/srv/prices", "/shared/prices", "/shared/prices", "/srv/prices"},
		{"/srv/prices", "/shared/prices", "/shared/prices/../../../f", "/srv/prices"},
		{"s3://b/prices", "/prices", "/prices/f", "s3://b/prices/f"},
	} {
		e := newEvent(Uploaded, server.Event{Path: one.path}, one.root, one.folder)
		if e.complete("id", false); e.File != one.file {
			t.Errorf("%s of %s at %s is %s, want %s", one.path, one.root, one.folder, e.File,
				one.file)
		}
	}
}
