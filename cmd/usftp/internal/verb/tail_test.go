package verb

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"
)

// A screen keeps what is printed on both streams, in order, and signals when a text has arrived.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.text.Write(p)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
	return len(p), nil
}

// await waits until all that was shown is want.
func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	overdue := time.After(time.Minute)
	for {
		s.mu.Lock()
		got := s.text.String()
		s.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-s.news:
		case <-overdue:
			t.Fatalf("shown\n%s\nwant\n%s", got, want)
		}
	}
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	ok(t, err)
	_, err = f.WriteString(text)
	ok(t, errors.Join(err, f.Close()))
}

// startTail follows files until stop is called, which returns the result of Tail.
func startTail(t *testing.T, dir string, o TailOptions, names ...string) (s *screen,
	stop func() error) {
	t.Helper()
	s = &screen{news: make(chan struct{}, 1)}
	env := &Env{Client: startServer(t, dir), Out: s,
		Say: func(line string) { s.Write([]byte("! " + line + "\n")) }}
	o.Interval, o.Count = 10*time.Millisecond, 10
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Tail(ctx, env, o, names) }()
	return s, func() error {
		cancel()
		return <-done
	}
}

// TestTailFollows: several files as they grow, with headings, and one that is cut.
func TestTailFollows(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/a", "a1\n")
	writeFile(t, dir+"/b", "b1\n")
	s, stop := startTail(t, dir, TailOptions{Follow: true}, "a", "b")
	want := "==> a <==\na1\n\n==> b <==\nb1\n"
	s.await(t, want)
	appendTo(t, dir+"/b", "b2\n")
	want += "b2\n"
	s.await(t, want)
	appendTo(t, dir+"/a", "a2\na3")
	want += "\n==> a <==\na2\na3"
	s.await(t, want)
	ok(t, os.Truncate(dir+"/a", 0))
	want += "! a was truncated\n"
	s.await(t, want)
	appendTo(t, dir+"/a", "a4\n")
	s.await(t, want+"a4\n")
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTailFollowsNames: tail -F survives a rotation, and a time in which nothing has the name.
func TestTailFollowsNames(t *testing.T) {
	dir := t.TempDir()
	log := dir + "/log"
	writeFile(t, log, "1\n")
	s, stop := startTail(t, dir, TailOptions{Retry: true}, "log")
	want := "1\n"
	s.await(t, want)
	ok(t, os.Rename(log, log+".1"))
	want += "! cannot follow log: no such file or directory\n"
	s.await(t, want)
	ok(t, os.WriteFile(dir+"/new", []byte("2\n"), 0o644))
	ok(t, os.Rename(dir+"/new", log))
	want += "! log has appeared; following it\n2\n"
	s.await(t, want)
	appendTo(t, log, "3\n")
	want += "3\n"
	s.await(t, want)
	// replaced in one step
	ok(t, os.WriteFile(dir+"/new", []byte("a new and longer file\n"), 0o644))
	ok(t, os.Rename(dir+"/new", log))
	s.await(t, want+"! log was replaced; following the new file\na new and longer file\n")
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTailReportsOnce: what tail -F cannot follow is reported once, and not at each look; what
// takes its place is followed.
func TestTailReportsOnce(t *testing.T) {
	dir := t.TempDir()
	log := dir + "/log"
	ok(t, os.Mkdir(log, 0o755))
	writeFile(t, dir+"/clock", "")
	s, stop := startTail(t, dir, TailOptions{Retry: true, HeadOptions: HeadOptions{Quiet: true}},
		"log", "clock")
	want := "! cannot read log: is a directory\n"
	tick := func(text string) { // at least one more look at both files
		t.Helper()
		appendTo(t, dir+"/clock", text)
		want += text
		s.await(t, want)
	}
	s.await(t, want)
	tick("1\n")
	tick("2\n")
	ok(t, os.Remove(log))
	want += "! cannot follow log: no such file or directory\n"
	s.await(t, want)
	tick("3\n")
	ok(t, os.WriteFile(dir+"/new", []byte("a\n"), 0o644))
	ok(t, os.Rename(dir+"/new", log))
	want += "! log has appeared; following it\na\n"
	s.await(t, want)
	ok(t, os.Rename(log, dir+"/old"))
	want += "! cannot follow log: no such file or directory\n"
	s.await(t, want)
	ok(t, os.Mkdir(log, 0o755))
	want += "! cannot follow log: is a directory\n"
	s.await(t, want)
	tick("4\n")
	tick("5\n")
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTailEndsWithTheConnection: without a connection nothing more can arrive, so Tail must return.
func TestTailEndsWithTheConnection(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/a", "1\n")
	client := startServer(t, dir)
	s := &screen{news: make(chan struct{}, 1)}
	env := &Env{Client: client, Out: s, Say: func(string) {}}
	done := make(chan error, 1)
	go func() {
		done <- Tail(t.Context(), env, TailOptions{Follow: true, Interval: time.Hour,
			HeadOptions: HeadOptions{Count: 1}}, []string{"a"})
	}()
	s.await(t, "1\n")
	client.Close()
	if err := <-done; err == nil || codeOf(err) != -1 {
		t.Errorf("%v", err)
	}
}
