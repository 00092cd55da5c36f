//go:build unix

package daemon

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
)

// A gate is what all requests of a node to the storage and the store go through, and their answers.
// At one of these moments something happens.
type gate struct {
	storage, store link

	mu     sync.Mutex
	armed  bool
	which  string // of the moments, or "" if all count
	left   int    // moments that pass before it
	after  bool   // it happens when the answer has come, otherwise before the request is sent
	happen func() (gone bool)
	hit    string // at which moment it has happened

	happening sync.Mutex
}

var errGone = errors.New("the other end is gone")

// arm lets something happen at a moment; gone says that the node is no longer there.
func (g *gate) arm(which string, left int, after bool, happen func() (gone bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed, g.which, g.left, g.after, g.happen = true, which, left, after, happen
}

// at is called at each moment.
func (g *gate) at(what string, after bool) error {
	g.mu.Lock()
	if !g.armed || g.after != after || g.which != "" && g.which != what {
		g.mu.Unlock()
		return nil
	}
	if g.left--; g.left >= 0 {
		g.mu.Unlock()
		return nil
	}
	g.armed, g.hit = false, what
	g.happening.Lock()
	defer g.happening.Unlock()
	g.mu.Unlock()
	if g.happen() {
		return errGone
	}
	return nil
}

// disarm waits until it has happened. If the moment has not come, it happens now: the node was done
// before.
func (g *gate) disarm() (hit string) {
	g.mu.Lock()
	late, hit := g.armed, g.hit
	g.armed = false
	g.mu.Unlock()
	g.happening.Lock()
	defer g.happening.Unlock()
	if late {
		g.happen()
		hit = "the end"
	}
	return hit
}

// A link is the way to the storage or the store.
type link struct {
	mu     sync.Mutex
	broken bool
	held   chan struct{}
}

// stop stops a link until start: data is held back, or connections break.
func (l *link) stop(broken bool) (start func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	l.broken, l.held = broken, held
	return func() {
		l.mu.Lock()
		l.broken = false
		l.mu.Unlock()
		close(held)
	}
}

// pass waits while data is held back, and returns an error while connections break.
func (l *link) pass() error {
	l.mu.Lock()
	broken, held := l.broken, l.held
	l.mu.Unlock()
	if broken {
		return errGone
	}
	if held != nil {
		<-held
	}
	return nil
}

// proxyStorage returns the URL of the storage that goes through the gate.
func (g *gate) proxyStorage(t *testing.T, endpoint string) string {
	t.Helper()
	both := func(what string, after bool) error {
		return errors.Join(g.at(what, after), g.storage.pass())
	}
	proxy := s3test.Proxy(t, endpoint)
	proxy.Transport = &http.Transport{DisableCompression: true}
	proxy.ModifyResponse = func(r *http.Response) error {
		return both(describeRequest(r.Request), true)
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {
		panic(http.ErrAbortHandler)
	}
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if both(describeRequest(r), false) != nil {
				panic(http.ErrAbortHandler)
			}
			proxy.ServeHTTP(w, r)
		})}
	served := make(chan struct{})
	go func() {
		server.Serve(l)
		close(served)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return "http://" + l.Addr().String()
}

// The requests that change what is stored.
const (
	whole    = "PUT"
	begin    = "POST uploads"
	part     = "PUT uploadId partNumber"
	complete = "POST uploadId"
	copied   = "PUT copy"
	deleted  = "DELETE"
	commit   = "commit"

	statement = "statement"
)

// describeRequest tells requests to the storage apart.
func describeRequest(r *http.Request) string {
	what := []string{r.Method}
	for _, key := range []string{"uploads", "uploadId", "partNumber", "list-type"} {
		if r.URL.Query().Has(key) {
			what = append(what, key)
		}
	}
	if r.Header.Get("X-Amz-Copy-Source") != "" {
		what = append(what, "copy")
	}
	return strings.Join(what, " ")
}

// proxyStore returns the URL of a store in PostgreSQL that goes through the gate. Each side waits
// for the other, so that a piece of data is a request, or an answer.
func (g *gate) proxyStore(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pg") // short, as the path of a socket must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const socket = ".s.PGSQL.5432"
	query := u.Query()
	real := filepath.Join(query.Get("host"), socket)
	query.Set("host", dir)
	query.Set("default_query_exec_mode", "exec") // not prepared, so that they can be told apart
	u.RawQuery = query.Encode()
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", real)
			if err != nil {
				client.Close()
				continue
			}
			var last atomic.Value
			last.Store("")
			work.Go(func() { g.relay(server, client, false, &last) })
			work.Go(func() { g.relay(client, server, true, &last) })
		}
	})
	t.Cleanup(func() { // the node has ended by now, and with it its connections
		l.Close()
		work.Wait()
	})
	return u.String()
}

// describeQuery tells what is sent to the store apart, by what came before it on the connection. It
// returns "" for what comes from the background.
func describeQuery(query []byte, before string) string {
	if bytes.Contains(query, []byte(commit)) && before == statement {
		return commit
	}
	for _, words := range []string{" uploads SET", "INTO uploads", " stamps", "INTO outbox",
		"UPDATE outbox SET node = '', until", " quotas SET", "INTO places", "INTO sessions"} {
		if bytes.Contains(query, []byte(words)) {
			return statement
		}
	}
	return ""
}

// relay passes on requests, or answers. last is what was last asked for.
func (g *gate) relay(to, from net.Conn, answers bool, last *atomic.Value) {
	defer to.Close()
	defer from.Close()
	data := make([]byte, 64<<10)
	for {
		n, err := from.Read(data)
		if err != nil {
			return
		}
		if !answers {
			last.Store(describeQuery(data[:n], last.Load().(string)))
		}
		if what := last.Load().(string); what != "" && g.at(what, answers) != nil ||
			g.store.pass() != nil {
			return
		}
		if _, err := to.Write(data[:n]); err != nil {
			return
		}
	}
}
