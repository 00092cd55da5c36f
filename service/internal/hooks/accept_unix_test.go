//go:build unix

package hooks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/service/internal/hooks/clamdtest"
	"github.com/usftp/usftp/service/internal/outside"
	"github.com/usftp/usftp/service/internal/s3bucket"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
	"github.com/usftp/usftp/wire"
)

const virus = clamdtest.Virus

// fakeClamd answers what answer says to contents that came in correct chunks, over TCP.
func fakeClamd(t *testing.T, answer func(contents []byte) string) (address string) {
	t.Helper()
	return "tcp://" + testenv.Listen(t, func(conn net.Conn) {
		defer conn.Close()
		contents, err := instream(conn)
		if err != nil {
			t.Log(err)
			return
		}
		io.WriteString(conn, answer(contents))
	}).String()
}

func instream(conn io.Reader) (contents []byte, err error) {
	command := make([]byte, len("zINSTREAM\x00"))
	if _, err := io.ReadFull(conn, command); err != nil || string(command) != "zINSTREAM\x00" {
		return nil, fmt.Errorf("command %q, %v", command, err)
	}
	for {
		var length uint32
		if err := binary.Read(conn, binary.BigEndian, &length); err != nil || length == 0 {
			return contents, err
		}
		chunk := make([]byte, length)
		if _, err := io.ReadFull(conn, chunk); err != nil {
			return nil, err
		}
		contents = append(contents, chunk...)
	}
}

// check asks a hook about contents.
func check(t *testing.T, hook Hook, contents string) error {
	t.Helper()
	hook.Name, hook.On = "check", []Kind{Accept}
	h := New([]*Hook{&hook}, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
	g := &guard{user: "ann", all: h, gates: h.gates}
	return g.ask(t.Context(), "/in/a", strings.NewReader(contents), int64(len(contents)), nil)
}

// closing is a web service that answers one request of its first connection, and closes it when the
// next one has come, as one does whose connection was idle for too long just then.
func closing(t *testing.T, answer string) (url string) {
	t.Helper()
	var connections atomic.Int64
	return "http://" + testenv.Listen(t, func(conn net.Conn) {
		defer conn.Close()
		first := connections.Add(1) == 1
		from := bufio.NewReader(conn)
		for n := 0; n == 0 || !first; n++ {
			r, err := http.ReadRequest(from)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer),
				answer)
		}
		from.Peek(1)
	}).String()
}

// TestClosedConnection: a question is asked again if the web service has closed the connection, of
// which it had said that it would stay open.
func TestClosedConnection(t *testing.T) {
	t.Parallel()
	hook := &Hook{Name: "check", On: []Kind{Accept}, URL: closing(t, "")}
	h := New([]*Hook{hook}, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
	g := &guard{user: "ann", all: h, gates: h.gates}
	login := NewLoginHook(&Hook{URL: closing(t, `{"accept": true}`)})
	event := newPoster(&Hook{URL: closing(t, "")})
	contents := strings.Repeat("x", 3<<20)
	for i := range 2 {
		if err := g.ask(t.Context(), "/a", strings.NewReader(contents), int64(len(contents)),
			nil); err != nil {
			t.Errorf("question %d: %v", i, err)
		}
		if _, err := login.Ask(t.Context(), outside.Question{User: "ann"}); err != nil {
			t.Errorf("login %d: %v", i, err)
		}
		if err := event.send(t.Context(), &Event{}); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
}

// TestCheckers: each way of asking accepts, refuses with a reason, or could not check.
func TestCheckers(t *testing.T) {
	t.Parallel()
	clean := strings.Repeat("clean", 30_000)
	scanner := fakeClamd(t, func(contents []byte) string {
		switch {
		case bytes.Contains(contents, []byte(virus)):
			return "stream: Usftp.\x1bTest FOUND\x00"
		case string(contents) == clean:
			return "stream: OK\x00"
		}
		return "INSTREAM size limit exceeded. ERROR\x00"
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		contents, _ := io.ReadAll(r.Body)
		text, _ := base64.StdEncoding.DecodeString(r.Header.Get("Usftp-Event"))
		var e Event
		if err := json.Unmarshal(text, &e); err != nil || e.Kind != Accept || e.User != "ann" ||
			e.Path != "/in/a" || e.Written != int64(len(contents)) ||
			e.ID != r.Header.Get("Webhook-Id") || r.Header.Get("Webhook-Signature") == "" {
			t.Errorf("asked about %s, %v", text, err)
		}
		switch {
		case bytes.Contains(contents, []byte(virus)):
			http.Error(w, "it is ill\nvery", http.StatusForbidden)
		case string(contents) != clean:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(web.Close)
	command := script(t, `case "$(head -c 2000)" in *`+virus+`*) echo it is ill; exit 1;;
		clean*) exit 0;; esac; exit 2`)
	for name, one := range map[string]struct {
		hook Hook
		says string
	}{
		"clamd":   {Hook{Clamd: clamdtest.Start(t)}, "Usftp.Test.UNOFFICIAL"},
		"a fake":  {Hook{Clamd: scanner}, "Usftp.?Test"},
		"a URL":   {Hook{URL: web.URL, Secret: []byte("0123456789abcdef")}, "it is ill"},
		"command": {Hook{Command: []string{command}}, "it is ill"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := check(t, one.hook, clean); err != nil {
				t.Errorf("clean: %v", err)
			}
			err := check(t, one.hook, "a "+virus)
			if !errors.Is(err, fs.ErrPermission) || err.Error() != "refused by check: "+one.says {
				t.Errorf("a virus: %v", err)
			}
			err = check(t, one.hook, strings.Repeat("broken", 1<<20))
			if err == nil || errors.Is(err, fs.ErrPermission) ||
				!strings.Contains(err.Error(), "could not be checked by check") {
				t.Errorf("a scanner that fails: %v", err)
			}
			if one.hook.AcceptUnchecked = true; check(t, one.hook,
				strings.Repeat("b", 2<<20)) != nil {
				t.Error("what could not be checked is refused")
			}
			if err := check(t, one.hook, "a "+virus); err == nil {
				t.Error("a virus is accepted")
			}
			one.hook.AcceptUnchecked, one.hook.MaxSize = false, 10
			if err := check(t, one.hook, clean); err == nil {
				t.Error("what is too long to be checked is accepted")
			}
		})
	}
}

// unreadable is a file whose disk fails.
type unreadable struct{}

var errDisk = errors.New("the disk fails")

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, errDisk }

// TestUnreadable: a file that cannot be read fails at once, and the log says why.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	url := closing(t, "")
	clean := fakeClamd(t, func([]byte) string { return "stream: OK\x00" })
	for name, hook := range map[string]Hook{"clamd": {Clamd: clean}, "url": {URL: url},
		"command": {Command: []string{script(t, "cat >/dev/null")}}} {
		hook.Timeout, hook.AtOnce = 10*time.Second, 1
		err := newGatekeeper(&Hooks{}, &hook).check(t.Context(), &Event{}, unreadable{}, 100)
		if !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// lateChecker refuses when its time is over.
type lateChecker struct{}

func (lateChecker) check(ctx context.Context, _ *Event, _ *io.SectionReader) error {
	<-ctx.Done()
	return &refusal{"it is ill"}
}

// TestLateRefusal: a refusal counts although its sender goes on until the time is over, as a web
// service does that does not end its answer.
func TestLateRefusal(t *testing.T) {
	h := New([]*Hook{{Name: "check", On: []Kind{Accept}, URL: "http://127.0.0.1:1",
		AcceptUnchecked: true, Timeout: time.Millisecond}}, nil,
		slog.New(slog.NewTextHandler(t.Output(), nil)))
	h.gates[0].checker = lateChecker{}
	g := &guard{user: "ann", all: h, gates: h.gates}
	err := g.ask(t.Context(), "/in/a", strings.NewReader("contents"), 8, nil)
	if err == nil || !strings.Contains(err.Error(), "refused by check: it is ill") {
		t.Errorf("got %v", err)
	}
}

// TestCheckersThatHang: a scanner that is not there, hangs, or hangs up decides nothing, and nobody
// waits for it for longer than the timeout.
func TestCheckersThatHang(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // which reads nothing either
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hang := make(chan struct{})
	defer close(hang)
	for name, hook := range map[string]Hook{
		"not there":  {Clamd: "/none"},
		"silent":     {Clamd: "tcp://" + silent.Addr().String()},
		"silent web": {URL: "http://" + silent.Addr().String()},
		"no answer":  {Clamd: fakeClamd(t, func([]byte) string { return "" })},
		"half an answer": {Clamd: fakeClamd(t,
			func([]byte) string { return "stream: OK" })},
		"another answer": {Clamd: fakeClamd(t,
			func([]byte) string { return "stream: OK?\x00" })},
		"an endless answer": {Clamd: fakeClamd(t,
			func([]byte) string { return strings.Repeat("x", 1<<20) })},
		"a command that is not there": {Command: []string{"/none"}},
		"a command that hangs":        {Command: []string{script(t, "sleep 1000")}},
	} {
		t.Run(name, func(t *testing.T) {
			hook.Timeout = 300 * time.Millisecond
			began := time.Now()
			err := check(t, hook, strings.Repeat("x", 10<<20))
			if err == nil || !strings.Contains(err.Error(), "could not be checked") {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("that took %s", took)
			}
		})
	}
}

// served is what clients see of a bucket that is guarded.
type served struct {
	*testing.T
	h  *Hooks
	fs server.FS // guarded
}

// serve guards files.
func serve(t *testing.T, h *Hooks, files server.FS) *served {
	t.Helper()
	guarded, err := h.Guard("ann", "/", files)
	if err != nil {
		t.Fatal(err)
	}
	return &served{t, h, guarded}
}

func serveObjects(t *testing.T, h *Hooks) *served {
	t.Helper()
	bucket, err := s3bucket.New("bucket", s3bucket.Config{Endpoint: s3test.Storage(t, "bucket"),
		Region: "us-east-1", PathStyle: true, AccessKey: s3test.AccessKey,
		SecretKey: s3test.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, h, objectfs.New(bucket, nil))
}

// client returns a client, which ends with the test.
func (s *served) client() *usftp.Client {
	s.Helper()
	ours, theirs := net.Pipe()
	var ended sync.WaitGroup
	gate := func(e server.Event) (func(error), error) {
		e.User = "ann"
		return s.h.Gate(e)
	}
	ended.Go(func() {
		server.Serve(context.Background(), theirs, s.fs, &server.Options{Gate: gate})
	})
	client, err := usftp.NewClientPipe(ours, ours)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { client.Close(); ended.Wait() })
	return client
}

// put writes a file in pieces from the end to the beginning, and returns the error of CLOSE.
func (s *served) put(client *usftp.Client, name string, data []byte) error {
	s.Helper()
	f, err := client.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		s.Fatal(err)
	}
	const piece = 300_000
	for at := len(data) / piece * piece; at >= 0; at -= piece {
		if _, err := f.WriteAt(data[at:min(at+piece, len(data))], int64(at)); err != nil {
			s.Fatal(err)
		}
	}
	return f.Close()
}

func (s *served) absent(name string) {
	s.Helper()
	if _, err := s.fs.Stat(s.Context(), "/"+name); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("there is something of %s: %v", name, err)
	}
}

// TestGuardedObjects: an object appears once it was checked as a whole, whatever way it was
// written, and hooks are told only of those that do.
func TestGuardedObjects(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[int]int{}
	scanner := fakeClamd(t, func(contents []byte) string {
		mu.Lock()
		defer mu.Unlock()
		seen[len(contents)]++
		if bytes.Contains(contents, []byte(virus)) {
			return "stream: Usftp.Test FOUND\x00"
		}
		return "stream: OK\x00"
	})
	url, came := receiver(t, nil)
	h := startHooks(t, openStore(t, filepath.Join(t.TempDir(), "store.db")),
		&Hook{Name: "clamd", On: []Kind{Accept}, Clamd: scanner, MaxSize: 19 << 19},
		&Hook{Name: "told", On: []Kind{Uploaded}, URL: url})
	s := serveObjects(t, h)
	client := s.client()
	data := bytes.Repeat([]byte("0123456789abcdef"), 9<<16) // more than a part
	if err := s.put(client, "good", data); err != nil {
		t.Fatal(err)
	}
	if got, err := client.ReadFile("good"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	bad := append(bytes.Clone(data), virus...)
	if err := s.put(client, "bad", bad); !errors.Is(err, fs.ErrPermission) ||
		!strings.Contains(err.Error(), "refused by clamd: Usftp.Test") {
		t.Errorf("a virus: %v", err)
	}
	s.absent("bad")
	if seen[len(data)] != 1 || seen[len(bad)] != 1 {
		t.Errorf("the scanner saw %v", seen)
	}
	if err := s.put(client, "good", []byte(virus)); err == nil {
		t.Error("a virus replaces a file")
	}
	if got, err := client.ReadFile("good"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("of the old file %d bytes came back, %v", len(got), err)
	}
	if err := s.put(client, "long", make([]byte, 39<<18)); err == nil ||
		errors.Is(err, fs.ErrPermission) {
		t.Errorf("longer than is checked: %v", err)
	}
	s.absent("long")

	// What was checked is not changed piece by piece.
	if _, err := client.OpenFile("good", os.O_WRONLY, 0); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("opened: %v", err)
	}
	if err := client.Truncate("good", 5); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("truncated: %v", err)
	}
	if got, err := client.ReadFile("good"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("after that %d bytes came back, %v", len(got), err)
	}
	// Our client would open it for writing, too.
	_, err := s.fs.(server.Opener).Open(t.Context(), "/empty", wire.OpenRead|wire.OpenCreate,
		wire.Attrs{})
	if s.absent("empty"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("made without being checked: %v", err)
	}
	// To empty it is to upload it again.
	emptied, err := client.OpenFile("good", os.O_RDONLY|os.O_TRUNC, 0)
	if err == nil {
		err = emptied.Close()
	}
	if info, statErr := client.Stat("good"); err != nil || statErr != nil || info.Size() != 0 ||
		seen[0] != 1 {
		t.Errorf("emptied: %v, %v, %v, the scanner saw %v", err, info, statErr, seen)
	}
	// Nor is one gone on with that was abandoned.
	other := s.client()
	f, err := other.Create("half")
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil { // so that a whole part could be kept
		_, err = f.WriteAt(data, int64(len(data)))
	}
	if err == nil {
		err = f.Truncate(20 << 20) // grows
	}
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	if err := s.put(client, "small.filepart", []byte("small")); err != nil {
		t.Fatal(err)
	}
	if err := client.Rename("small.filepart", "small"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/good", "/good", "/small"} {
		if one := next(t, came); one.Path != name || one.Unconfirmed {
			t.Errorf("told of %+v, want %s", one.Event, name)
		}
	}
	select {
	case one := <-came:
		t.Errorf("told of %+v", one.Event)
	default:
	}
	spooled := h.gates[0].spooled
	testenv.Until(t, "what an abandoned file has spooled is free", func() bool {
		spooled.mu.Lock()
		defer spooled.mu.Unlock()
		return spooled.left == spoolFactor*19<<19 && len(spooled.has) == 0
	})
	testenv.Until(t, "nothing is kept of it", func() bool {
		_, err := s.fs.Stat(t.Context(), "/half")
		return errors.Is(err, fs.ErrNotExist)
	})
}

// TestGuardedAppends: of a file that is appended to, what is checked is what appears, whatever
// offsets the client gives.
func TestGuardedAppends(t *testing.T) {
	t.Parallel()
	scanner := fakeClamd(t, func(contents []byte) string {
		if bytes.Contains(contents, []byte(virus)) {
			return "stream: Usftp.Test FOUND\x00"
		}
		return fmt.Sprintf("stream: %s FOUND\x00", contents)
	})
	h := startHooks(t, openStore(t, filepath.Join(t.TempDir(), "store.db")),
		&Hook{Name: "clamd", On: []Kind{Accept}, Clamd: scanner, MaxSize: 1 << 20})
	s := serveObjects(t, h)
	for name, one := range map[string]struct {
		offsets [3]int64
		pieces  [3]string
		says    string
	}{
		"at 0":         {[3]int64{}, [3]string{virus[:7], virus[7:], "clean"}, "Usftp.Test"},
		"far ahead":    {[3]int64{0, 9 << 20, 5}, [3]string{"one", "two", "six"}, "onetwosix"},
		"where it was": {[3]int64{0, 3, 6}, [3]string{"one", "two", "six"}, "onetwosix"},
	} {
		f, err := s.fs.(server.Opener).Open(t.Context(), "/"+name,
			wire.OpenWrite|wire.OpenCreate|wire.OpenAppend, wire.Attrs{})
		if err != nil {
			t.Fatal(err)
		}
		for i, piece := range one.pieces {
			if _, err := f.(io.WriterAt).WriteAt([]byte(piece), one.offsets[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err == nil || err.Error() != "refused by clamd: "+one.says {
			t.Errorf("%s: %v", name, err)
		}
		s.absent(name)
	}
}

// refusing is a file that takes no writes.
type refusing struct{ objectWriter }

func (refusing) WriteAt([]byte, int64) (int, error) { return 0, errors.New("refused") }

// TestSpoolHasWhatWasWritten: a write that failed, or that has nothing, does not make the copy
// longer than the file.
func TestSpoolHasWhatWasWritten(t *testing.T) {
	t.Parallel()
	s := &spool{budget: newBudget(1000), most: 80}
	defer s.close()
	s.WriteAt([]byte("hello"), 0)
	w := &guardedObject{objectWriter: refusing{}, spool: s}
	for _, offset := range []int64{50, 500} {
		if _, err := w.WriteAt([]byte("more"), offset); err == nil {
			t.Error("a write is not refused")
		}
		if _, size, err := s.contents(); size != 5 || err != nil || s.tooLong() {
			t.Errorf("the copy has %d bytes, %v", size, err)
		}
	}
}

// TestUselessCopyIsDropped: a copy that cannot be completed, for want of room among those that wait
// or on the disk, takes no room from others until its client is done.
func TestUselessCopyIsDropped(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	long := &spool{budget: b, user: "a", most: 100}
	long.WriteAt(make([]byte, 40), 0)
	long.WriteAt(make([]byte, 40), 40)
	if _, _, err := long.contents(); err == nil || b.left != 100 {
		t.Errorf("80 bytes of 100: %v, %d are left", err, b.left)
	}
	for what, more := range map[string]func(s *spool){
		"written":   func(s *spool) { s.WriteAt(make([]byte, 1), 0) },
		"truncated": func(s *spool) { s.resize(1) },
	} {
		s := &spool{budget: b, user: "a", most: 100}
		s.WriteAt(make([]byte, 40), 0)
		s.file.Close() // as good as a full disk
		more(s)
		if _, _, err := s.contents(); err == nil || b.left != 100 {
			t.Errorf("%s in vain: %v, %d are left", what, err, b.left)
		}
		s.close()
	}
	if long.close(); b.left != 100 || len(b.has) != 0 {
		t.Errorf("%d of 100 are left; users have %v", b.left, b.has)
	}
}

// TestSpoolIsBounded: what waits to be checked takes so much of the disk and no more, and a user
// has no more of that than is left for others; files beyond that are not checked.
func TestSpoolIsBounded(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	one, two := &spool{budget: b, user: "a", most: 49}, &spool{budget: b, user: "a", most: 49}
	one.WriteAt(make([]byte, 40), 0)
	one.WriteAt(make([]byte, 40), 0)
	two.WriteAt(make([]byte, 10), 1)
	if _, _, err := two.contents(); err == nil || b.left != 60 {
		t.Errorf("11 bytes beside 40 of 100: %v, %d are left", err, b.left)
	}
	other := &spool{budget: b, user: "b", most: 80}
	other.WriteAt(make([]byte, 30), 0)
	if _, _, err := other.contents(); err != nil || b.left != 30 {
		t.Errorf("another user's 30 bytes: %v, %d are left", err, b.left)
	}
	other.close()
	one.WriteAt(make([]byte, 30), 40)
	if _, size, err := one.contents(); err == nil || size != 70 || b.left != 100 {
		t.Errorf("70 bytes of 49: %d, %v, %d are left", size, err, b.left)
	}
	three := &spool{budget: b, most: 80}
	three.WriteAt([]byte("hello"), 2)
	three.resize(4)
	r, size, err := three.contents()
	if err != nil || size != 4 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	got, _ := io.ReadAll(io.NewSectionReader(r, 0, size))
	if string(got) != "\x00\x00he" {
		t.Errorf("%q", got)
	}
	for _, s := range []*spool{one, two, three} {
		s.close()
	}
	if b.left != 100 || len(b.has) != 0 {
		t.Errorf("%d of 100 are left; users have %v", b.left, b.has)
	}
}

// TestLongFileStaysLong: a file that was too long to be checked is not cut to one that would have
// been refused, where files that could not be checked appear.
func TestLongFileStaysLong(t *testing.T) {
	t.Parallel()
	h := startHooks(t, openStore(t, filepath.Join(t.TempDir(), "store.db")), &Hook{Name: "clamd",
		On: []Kind{Accept}, Clamd: "/none", MaxSize: 1000, AcceptUnchecked: true})
	s := serveObjects(t, h)
	f, err := s.fs.(server.Opener).Open(t.Context(), "/f",
		wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate, wire.Attrs{})
	if err == nil {
		_, err = f.(io.WriterAt).WriteAt([]byte(virus+strings.Repeat(" ", 1000)), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.(server.FileSetstater).Setstat(wire.Attrs{Flags: wire.AttrSize,
		Size: uint64(len(virus))}); err != errInPlace {
		t.Errorf("it is cut: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if info, err := s.fs.Stat(t.Context(), "/f"); err != nil ||
		info.Size() != int64(len(virus))+1000 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestHooksOfDifferentSizes: a file that is too long for the first hook is checked by the second,
// to which much longer ones may go.
func TestHooksOfDifferentSizes(t *testing.T) {
	t.Parallel()
	scanner := fakeClamd(t, func([]byte) string { return "stream: Usftp.Test FOUND\x00" })
	h := startHooks(t, openStore(t, filepath.Join(t.TempDir(), "store.db")),
		&Hook{Name: "short", On: []Kind{Accept}, Clamd: "/none", MaxSize: 10, AcceptUnchecked: true},
		&Hook{Name: "long", On: []Kind{Accept}, Clamd: scanner, MaxSize: 1 << 20})
	s := serveObjects(t, h)
	err := s.put(s.client(), "f", make([]byte, 1000))
	if err == nil || !strings.Contains(err.Error(), "refused by long: Usftp.Test") {
		t.Errorf("1000 bytes, of which the first hook checks 10: %v", err)
	}
	s.absent("f")
}

// TestGuardNeedsHiding: where files are seen while they are written, nothing could be promised.
func TestGuardNeedsHiding(t *testing.T) {
	t.Parallel()
	h := New([]*Hook{{Name: "c", On: []Kind{Accept}, Users: []string{"ann"}, Clamd: "/none"}}, nil,
		slog.New(slog.DiscardHandler))
	dir, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, files := range []server.FS{dir, memfs.New(0)} {
		if _, err := h.Guard("ann", "/", files); err == nil {
			t.Errorf("%T is guarded", files)
		}
		if same, err := h.Guard("bob", "/", files); err != nil || same != files {
			t.Errorf("bob, whom no hook guards, sees %T, %v", same, err)
		}
	}
}

// TestGuardedDirectory: a file appears in a directory once it was checked as a whole, whoever has
// written what of it.
func TestGuardedDirectory(t *testing.T) {
	t.Parallel()
	checking, goOn := make(chan struct{}), make(chan struct{})
	scanner := fakeClamd(t, func(contents []byte) string {
		if bytes.HasPrefix(contents, []byte("slow")) {
			checking <- struct{}{}
			<-goOn
		}
		if bytes.Contains(contents, []byte(virus)) {
			return "stream: Usftp.Test FOUND\x00"
		}
		return "stream: OK\x00"
	})
	h := New([]*Hook{{Name: "clamd", On: []Kind{Accept}, Clamd: scanner}}, nil,
		slog.New(slog.NewTextHandler(t.Output(), nil)))
	dir := t.TempDir()
	files, err := osfs.NewAtomic(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	s := serve(t, h, files)
	client := s.client()
	is := func(name, text string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s has %d other bytes, %v; want %d", name, len(got), err, len(text))
		}
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := s.put(client, "good", data); err != nil {
		t.Fatal(err)
	}
	is("good", string(data))
	for _, name := range []string{"bad", "good"} {
		err := s.put(client, name, append(bytes.Clone(data), virus...))
		if !errors.Is(err, fs.ErrPermission) ||
			!strings.Contains(err.Error(), "clamd: Usftp.Test") {
			t.Errorf("a virus: %v", err)
		}
	}
	is("good", string(data))
	if _, err := os.Stat(filepath.Join(dir, "bad")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the virus is there: %v", err)
	}

	// What was checked is not changed piece by piece, nor emptied to be refused then.
	if err := os.Link(filepath.Join(dir, "good"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []int{os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND,
		os.O_WRONLY | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC} {
		if _, err := client.OpenFile("good", flags, 0); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("opened with %x: %v", flags, err)
		}
	}
	if err := client.Truncate("good", 5); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("truncated: %v", err)
	}
	is("good", string(data))

	// An upload that is gone on with is checked from its beginning.
	other := s.client()
	f, err := other.Create("half")
	if err == nil {
		_, err = f.WriteAt([]byte(virus[:5]), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.OpenFile("half", os.O_WRONLY, 0); err == nil {
		t.Error("a second one may write")
	}
	other.Close()
	testenv.Until(t, "the abandoned file is free", func() bool {
		f, err = client.OpenFile("half", os.O_WRONLY|os.O_CREATE, 0o644)
		return err == nil
	})
	if _, err := f.WriteAt([]byte(virus[5:]), 5); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a virus in two pieces: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "half")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}

	// While a file is checked, nobody writes to it.
	ended := make(chan error)
	go func() { ended <- s.put(client, "slow", []byte("slow")) }()
	<-checking
	if _, err := s.client().OpenFile("slow", os.O_WRONLY|os.O_CREATE, 0o644); err == nil {
		t.Error("what is being checked is written to")
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	is("slow", "slow")
	var names []string
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if err != nil || !slices.Equal(names, []string{"good", "link", "slow"}) {
		t.Errorf("in the directory are %q, %v", names, err)
	}
}

// TestGuardKeepsNothingOpen: a directory that nobody uses any more is closed, though its files were
// checked.
func TestGuardKeepsNothingOpen(t *testing.T) {
	t.Parallel()
	h := New([]*Hook{{Name: "clamd", On: []Kind{Accept}, Clamd: "/none"}}, nil,
		slog.New(slog.DiscardHandler))
	files, err := osfs.NewAtomic(t.TempDir())
	if err == nil {
		_, err = h.Guard("ann", "/", files)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := weak.Make(files)
	testenv.Until(t, "the directory is free", func() bool {
		runtime.GC()
		return at.Value() == nil
	})
	runtime.KeepAlive(h)
}

// slowChecker takes a while for each file, and accepts it.
type slowChecker time.Duration

func (c slowChecker) check(context.Context, *Event, *io.SectionReader) error {
	time.Sleep(time.Duration(c))
	return nil
}

// TestUsersTakeTurns: a user who has hundreds of files checked at once does not keep those of
// others from being checked in time; those who have given up take no turn.
func TestUsersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &Hook{Name: "slow", On: []Kind{Accept}, Command: []string{"true"}, AtOnce: 2,
			Timeout: time.Hour}
		h := New([]*Hook{hook}, nil, slog.New(slog.DiscardHandler))
		g := h.gates[0]
		g.checker = slowChecker(10 * time.Second)
		ask := func(ctx context.Context, user string) error {
			return g.ask(ctx, Event{User: user}, strings.NewReader("x"), 1, nil)
		}
		var failed atomic.Int64
		gone, leave := context.WithCancel(t.Context())
		for range 200 {
			go func() {
				if ask(t.Context(), "busy") != nil {
					failed.Add(1)
				}
			}()
			go ask(gone, "gone")
		}
		synctest.Wait()
		leave()
		time.Sleep(afterSession + time.Second)
		began := time.Now()
		if err := ask(t.Context(), "ann"); err != nil || time.Since(began) > 30*time.Second {
			t.Errorf("another user's file: %v after %v", err, time.Since(began))
		}
		time.Sleep(2 * mostWait)
		if n := failed.Load(); n < 100 || n > 150 {
			t.Errorf("%d of one user's 200 files had no turn in time", n)
		}
		began = time.Now()
		if err := ask(t.Context(), "busy"); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("when all are done: %v after %v", err, time.Since(began))
		}
	})
}
