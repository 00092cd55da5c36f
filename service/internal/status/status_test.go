package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store"
)

const markup = `<script>alert(1)</script>"'&` + "\x1b[2J\u202e\xff"

// bench is a board with a store, in which everything has a name with markup.
type bench struct {
	t      *testing.T
	store  *store.Store
	board  *Board
	url    string
	access *Access
	ended  []uint64
	done   []string
}

func newBench(t *testing.T, access *Access) *bench {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"),
		slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(func() { s.Close() })
	b := &bench{t: t, store: s, access: access}
	logins := []sshd.Login{{ID: 7, User: markup, Client: markup, Remote: "192.0.2.1:5",
		Method: "publickey", Key: "SHA256:abcdefghijklmnopqrstuvwxyz", Since: time.Now(),
		Sessions: 2},
		{ID: 8, User: "ann", Remote: "192.0.2.1:6", Since: time.Now()}}
	b.board = NewBoard(Source{Store: s, Log: slog.New(slog.DiscardHandler), Tracker: NewTracker(),
		Logins: func() []sshd.Login { return logins },
		EndLogins: func(end func(sshd.Login) bool) (n int) {
			for _, l := range logins {
				if end(l) {
					b.ended = append(b.ended, l.ID)
					n++
				}
			}
			return n
		},
		Users: func() (all []User) {
			for _, u := range s.Users() {
				all = append(all, User{Name: u.Name, Root: u.Root, Stored: true,
					Disabled: u.Disabled, Bytes: 5, MaxBytes: 10})
			}
			return append(all, User{Name: markup, Root: "/" + markup})
		},
		Outsiders: func() []User {
			return []User{{Name: "away", Outside: true},
				{Name: markup, Group: markup, Outside: true},
				{Name: "counted", Outside: true, Bytes: 1}}
		},
		Outsider: func(name string) bool { return name == "guest" },
		Hooks:    []string{"web"},
		Done: func(_, what, user string, err error) {
			b.done = append(b.done, fmt.Sprint(what, " ", user, " ", err))
		},
	})
	must(t, s.PutUser(t.Context(), store.User{Name: "ann", Root: "/srv"}, false))
	must(t, s.Bans().Add(t.Context(), attacker, time.Hour))
	event, _ := json.Marshal(map[string]any{"kind": "uploaded", "user": markup, "path": markup})
	must(t, s.Post(t.Context(), store.Message{Hook: "web", Event: string(event)}))
	taken, err := s.Take(t.Context(), "web", 1, time.Minute)
	must(t, err)
	_, err = s.Failed(t.Context(), taken[0], 0, -time.Hour, errors.New(markup))
	must(t, err)
	b.board.Tracker.Event(server.Event{Kind: server.FileOpened, User: markup, Path: markup,
		Transfer: &server.Transfer{}, Time: time.Now(), Upload: true})
	b.board.Tracker.Event(server.Event{Kind: server.RequestDenied, User: markup, Path: markup,
		Time: time.Now(), Err: errors.New(markup)})
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "metrics 1\n")
	})
	h := httptest.NewServer(b.board.Handler(access, metrics))
	t.Cleanup(h.Close)
	b.url = h.URL
	return b
}

var attacker = sshd.Source{Network: netip.MustParsePrefix("192.0.2.7/32")}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends a request, whose headers are pairs, and returns the answer.
func (b *bench) ask(method, path, form string, headers ...string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form))
	must(b.t, err)
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	w, err := client.Do(r)
	must(b.t, err)
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	must(b.t, err)
	return w, string(text)
}

func (b *bench) want(code int, method, path, form string, headers ...string) string {
	b.t.Helper()
	w, text := b.ask(method, path, form, headers...)
	if w.StatusCode != code {
		b.t.Errorf("%s %s %s %q: %s, want %d\n%s", method, path, form, headers, w.Status, code,
			text)
	}
	return text
}

// TestMarkup: names that clients choose are text, on the page and in JSON, and control characters
// are seen and not obeyed.
func TestMarkup(t *testing.T) {
	b := newBench(t, &Access{})
	for _, path := range []string{"/", "/live"} {
		text := b.want(200, "GET", path, "")
		shown := `&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;\x1b[2J\u202e\xff`
		if n := strings.Count(text, shown); n < 8 {
			t.Errorf("%s shows names %d times:\n%s", path, n, text)
		}
		text = regexp.MustCompile(`value="[^"]*"`).ReplaceAllString(text, "") // is not shown
		if strings.Contains(text, "<script>") || strings.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("%s has a name as it is:\n%s", path, text)
		}
	}
	text := b.want(200, "GET", "/api/v1/status", "")
	if strings.ContainsAny(text, "\x1b\u202e<") {
		t.Errorf("JSON has a name as it is:\n%s", text)
	}
	var s Status
	must(t, json.Unmarshal([]byte(text), &s))
	if len(s.Nodes) != 1 || len(s.Nodes[0].Logins) != 2 || len(s.Nodes[0].Transfers) != 1 ||
		len(s.Users) != 3 || s.Users[2].Name != "counted" || !s.Users[2].Outside ||
		len(s.Bans) != 1 || len(s.Dead) != 1 || len(s.Nodes[0].Failures) != 1 ||
		len(s.Hooks) != 1 || s.Hooks[0].Dead != 1 || s.Nodes[0].Sessions != 2 {
		t.Errorf("%+v", s)
	}
	if b.want(200, "GET", "/metrics", "") != "metrics 1\n" {
		t.Error("there are no metrics")
	}
}

// TestOrders: sessions are ended, bans lifted, users disabled and let in, dead letters replayed, by
// the API and by forms; what is not there is said.
func TestOrders(t *testing.T) {
	b := newBench(t, &Access{})
	ctx, node := t.Context(), url.QueryEscape(b.store.Node())
	b.want(200, "POST", "/api/v1/sessions/end", "node="+node+"&id=7")
	if !slices.Equal(b.ended, []uint64{7}) {
		t.Errorf("ended: %v", b.ended)
	}
	b.want(303, "POST", "/do/bans/lift", "network=192.0.2.7")
	if bans, err := b.store.Bans().List(ctx); err != nil || len(bans) > 0 {
		t.Errorf("bans: %v, %v", bans, err)
	}
	must(t, b.store.Bans().Add(ctx, sshd.Source{Network: netip.MustParsePrefix("2001:db8::/64")},
		time.Hour))
	b.want(200, "POST", "/api/v1/bans/lift", "network=2001:db8::7/64")
	b.want(200, "POST", "/api/v1/users/disable", "user=ann")
	if !b.store.Users()[0].Disabled {
		t.Errorf("ann: %+v", b.store.Users())
	}
	b.want(303, "POST", "/do/users/enable", "user=ann")
	if b.store.Users()[0].Disabled {
		t.Error("ann is still disabled")
	}
	b.want(200, "POST", "/api/v1/hooks/replay", "which=web")
	if taken, err := b.store.Take(ctx, "web", 1, time.Minute); err != nil || len(taken) != 1 {
		t.Errorf("replayed: %v, %v", taken, err)
	}
	b.want(200, "POST", "/api/v1/users/disable", "user=guest")
	if all := b.store.Users(); len(all) != 2 || !all[1].Outsider() {
		t.Errorf("with a guest who is disabled: %+v", all)
	}
	b.want(200, "POST", "/api/v1/users/enable", "user=guest")
	if all := b.store.Users(); len(all) != 1 {
		t.Errorf("with a guest who is let in again: %+v", all)
	}
	if len(b.done) != 8 || !strings.HasPrefix(b.done[3], "disabled user ann ann <nil>") {
		t.Errorf("done: %q", b.done)
	}
	for form, code := range map[string]int{
		"/sessions/end node=" + node + "&id=9": 404, "/sessions/end node=none&id=7": 404,
		"/sessions/end node=" + node + "&id=x": 400, "/sessions/end node=" + node + "&id=0": 404,
		"/bans/lift network=192.0.2.7/32": 404, "/bans/lift network=x": 400,
		`/users/disable {"user":"ann"}`: 400, "/hooks/replay ": 400,
		"/users/disable user=bob": 404, "/hooks/replay which=none": 404,
		"/users/disable user=" + strings.Repeat("x", mostBody): 400, "/none x=y": 404,
	} {
		path, form, _ := strings.Cut(form, " ")
		b.want(code, "POST", "/api/v1"+path, form)
		if text := b.want(code, "POST", "/do"+path, form); path != "/none" &&
			!strings.Contains(text, `class="said"`) {
			t.Errorf("%s %.100s: the page does not say what is wrong", path, form)
		}
	}
}

// TestReadOnlyMethods: what is not POST changes nothing.
func TestReadOnlyMethods(t *testing.T) {
	b := newBench(t, &Access{})
	for path := range b.board.actions() {
		for _, prefix := range []string{"/api/v1/", "/do/"} {
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"} {
				b.want(405, method, prefix+path+"?user=ann&which=web&network=192.0.2.7/32&id=7"+
					"&node="+
					url.QueryEscape(b.store.Node()), "")
			}
			b.want(400, "POST", prefix+"sessions/end?id=7&node="+url.QueryEscape(b.store.Node()),
				"")
		}
	}
	bans, err := b.store.Bans().List(t.Context())
	if err != nil || len(bans) != 1 || b.store.Users()[0].Disabled || len(b.ended) > 0 {
		t.Errorf("%v, %v, %+v, %v", bans, err, b.store.Users(), b.ended)
	}
}

// TestOtherSites: no other page makes a browser do something here (CSRF), shows this one in a frame
// (clickjacking), or becomes the same origin by pointing its name here (DNS rebinding).
func TestOtherSites(t *testing.T) {
	for name, access := range map[string]*Access{"open": {}, "token": {Token: []byte(token)}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, access)
			bearer := []string{"Authorization", "Bearer " + token}
			for _, headers := range [][]string{
				{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
				{"Origin", "https://evil.example"}, {"Origin", "null"},
				{"Origin", "http://localhost:1"},
			} {
				b.want(403, "POST", "/api/v1/users/disable", "user=ann",
					append(headers, bearer...)...)
				b.want(403, "POST", "/do/users/disable", "user=ann", append(headers, bearer...)...)
				b.want(403, "POST", "/login", "token="+token, headers...)
			}
			if b.store.Users()[0].Disabled {
				t.Error("another site has disabled a user")
			}
			b.want(303, "POST", "/do/users/disable", "user=ann", append(bearer, "Sec-Fetch-Site",
				"same-origin")...)
			w, _ := b.ask("GET", "/", "", bearer...)
			policy := w.Header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "frame-ancestors 'none'") ||
				!strings.Contains(policy, "default-src 'none'") ||
				strings.Contains(policy, "unsafe") || w.Header.Get("X-Frame-Options") != "DENY" ||
				w.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("the page's headers: %v", w.Header)
			}
			if access.Token != nil {
				return
			}
			for _, host := range []string{"evil.example", "evil.example:80", "192.0.2.1",
				"127.0.0.1.evil.example", "localhost.evil.example:9722", "0.0.0.0"} {
				for _, path := range []string{"/", "/live", "/api/v1/status", "/metrics"} {
					b.want(421, "GET", path, "", "Host", host)
				}
				b.want(421, "POST", "/api/v1/users/enable", "user=ann", "Host", host)
			}
			for _, host := range []string{"localhost:9722", "127.0.0.1", "[::1]:9722",
				"127.1.2.3:1"} {
				b.want(200, "GET", "/", "", "Host", host)
			}
		})
	}
}

const token = "0123456789abcdef"

// TestToken: without the token there is nothing but a form for it; with it in a form there is a
// cookie, which is good for a while and for this token only.
func TestToken(t *testing.T) {
	b := newBench(t, &Access{Token: []byte(token)})
	for _, path := range []string{"/live", "/api/v1/status", "/metrics", "/none"} {
		if text := b.want(401, "GET", path, ""); strings.Contains(text, "ann") {
			t.Errorf("%s shows %s", path, text)
		}
	}
	for _, given := range []string{"", "x", token[:15], token + "x", strings.ToUpper(token)} {
		b.want(401, "GET", "/api/v1/status", "", "Authorization", "Bearer "+given)
		b.want(401, "POST", "/api/v1/users/disable", "user=ann", "Authorization", "Bearer "+given)
		b.want(401, "POST", "/login", "token="+given)
	}
	b.want(401, "POST", "/api/v1/users/disable", "user=ann&token="+token)
	if text := b.want(401, "GET", "/", ""); !strings.Contains(text, `name="token"`) ||
		strings.Contains(text, "ann") {
		t.Errorf("the form: %s", text)
	}
	b.want(200, "GET", "/status.css", "")
	b.want(200, "GET", "/api/v1/status", "", "Authorization", "Bearer "+token)
	b.want(200, "GET", "/metrics", "", "Authorization", "Bearer "+token)

	jar, _ := cookiejar.New(nil)
	browser := http.Client{Jar: jar}
	w, err := browser.PostForm(b.url+"/login", url.Values{"token": {token}})
	must(t, err)
	text, _ := io.ReadAll(w.Body)
	w.Body.Close()
	if w.StatusCode != 200 || !strings.Contains(string(text), "Log out") {
		t.Fatalf("after the login: %s\n%s", w.Status, text)
	}
	w, _ = b.ask("POST", "/login", "token="+token)
	if c := w.Cookies(); len(c) != 1 || !c[0].HttpOnly ||
		c[0].SameSite != http.SameSiteStrictMode ||
		c[0].Secure || strings.Contains(c[0].Value, token) {
		t.Errorf("the cookie: %v", c)
	}
	if c := (&Access{Token: []byte(token), TLS: true}).newCookie("", 0); !c.Secure ||
		c.Name != "__Host-usftpd" || c.Path != "/" || c.Domain != "" {
		t.Errorf("over TLS: %v", c)
	}
	other := &Access{Token: []byte("another token of length")}
	for _, value := range []string{"", "x", b.access.pass(time.Now().Add(-time.Second)),
		other.pass(time.Now().Add(time.Hour)), strings.Repeat("A", 54)} {
		b.want(401, "GET", "/live", "", "Cookie", "usftpd="+value)
	}
	w, err = browser.Post(b.url+"/logout", "", nil)
	must(t, err)
	w.Body.Close()
	if w.StatusCode != 401 {
		t.Errorf("after the logout: %s", w.Status)
	}
}

// TestGuessedTokens: whoever guesses tokens is in the log, whatever way they are sent.
func TestGuessedTokens(t *testing.T) {
	for _, guess := range []func(b *bench){
		func(b *bench) { b.want(401, "POST", "/login", "token=guess") },
		func(b *bench) { b.want(401, "GET", "/metrics", "", "Authorization", "Bearer guess") },
		func(b *bench) { b.want(401, "GET", "/", "", "Authorization", "Basic guess") },
	} {
		b := newBench(t, &Access{Token: []byte(token)})
		var log strings.Builder
		b.board.Log = slog.New(slog.NewTextHandler(&log, nil))
		b.want(401, "GET", "/api/v1/status", "")
		if log.Len() > 0 {
			t.Errorf("who sends no token: %s", &log)
		}
		guess(b)
		guess(b)
		if text := log.String(); strings.Count(text, "a wrong token for the status page") != 1 ||
			strings.Contains(text, "guess") {
			t.Errorf("the log: %s", text)
		}
	}
}

// TestProgress: files in progress have a size and a rate, which end with them; what is in memory is
// bounded.
func TestProgress(t *testing.T) {
	tracker, now := NewTracker(), time.Now()
	tracker.look(now)
	moved := &server.Transfer{}
	open := server.Event{Kind: server.FileOpened, Transfer: moved, Path: "/f", User: "ann",
		Time: now, Upload: true}
	tracker.Event(open)
	moved.Add(0, 4000)
	tracker.look(now.Add(2 * time.Second))
	all, more := tracker.Transfers()
	if len(all) != 1 || more != 0 || all[0].Bytes != 4000 || all[0].Rate != 2000 || !all[0].Upload {
		t.Errorf("in progress: %+v", all)
	}
	if _, written := tracker.Rates(); written != 2000 {
		t.Errorf("written at %v", written)
	}
	moved.Add(0, 1000)
	open.Kind, open.Written = server.FileClosed, 5000
	tracker.Event(open)
	tracker.look(now.Add(4 * time.Second))
	if _, written := tracker.Rates(); written != 500 {
		t.Errorf("then at %v", written)
	}
	for i := range 2 * mostFollowed {
		tracker.Event(server.Event{Kind: server.FileOpened, Transfer: &server.Transfer{},
			Time: now})
		tracker.Event(server.Event{Kind: server.RequestDenied, Path: fmt.Sprint(i)})
	}
	all, more = tracker.Transfers()
	failed := tracker.Failures()
	if len(all) != mostShown || more != mostFollowed-mostShown || len(failed) != mostFailures ||
		failed[0].Path != fmt.Sprint(2*mostFollowed-1) {
		t.Errorf("%d shown, %d more, %d failures", len(all), more, len(failed))
	}
}

// TestRefusedLogins: users who may not log in, or whose files cannot be served, are among the
// failures, with the reason.
func TestRefusedLogins(t *testing.T) {
	tracker := NewTracker()
	tracker.Event(server.Event{Kind: server.LoginRefused, User: "ann", Err: sshd.ErrNotAdmitted})
	if all := tracker.Failures(); len(all) != 1 || all[0].User != "ann" ||
		all[0].Error != sshd.ErrNotAdmitted.Error() {
		t.Errorf("failures: %+v", all)
	}
}

// TestHistory: graphs show the last hours, with their peaks, and nothing older.
func TestHistory(t *testing.T) {
	var h history
	h.graphs()
	h.add(sample{read: 1e9})
	for range samples {
		h.add(sample{read: 1000, sessions: 3})
	}
	rates, sessions := h.graphs()
	if !strings.Contains(string(rates), "at most 1.00 kB/s") ||
		!strings.Contains(string(sessions), "at most 3 ") {
		t.Errorf("%s\n%s", rates, sessions)
	}
	h.add(sample{read: 5e6})
	if rates, _ := h.graphs(); !strings.Contains(string(rates), "at most 5.00 MB/s") ||
		strings.Count(string(rates), ",") != 2*points+1 {
		t.Errorf("%s", rates)
	}
}

// TestNodes: one node shows all, and has a session ended on another one.
func TestNodes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "store.db")
	ended := make(chan sshd.Login, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	make := func(user string) *Board {
		s, err := store.Open(t.Context(), name, slog.New(slog.DiscardHandler))
		must(t, err)
		t.Cleanup(func() { s.Close() })
		login := sshd.Login{ID: 1, User: user, Since: time.Now()}
		b := NewBoard(Source{Store: s, Log: slog.New(slog.DiscardHandler), Tracker: NewTracker(),
			Logins: func() []sshd.Login { return []sshd.Login{login} },
			EndLogins: func(end func(sshd.Login) bool) int {
				if !end(login) {
					return 0
				}
				ended <- login
				return 1
			}, Users: func() []User { return nil }, Outsiders: func() []User { return nil }})
		go b.Run(ctx)
		return b
	}
	one, two := make("ann"), make("bob")
	testenv.Until(t, "the other node shows up", func() bool {
		nodes, err := one.nodes(ctx)
		if err != nil || len(nodes) != 2 {
			return false
		}
		if l := nodes[1].Logins; nodes[1].Node != two.node || len(l) != 1 || l[0].User != "bob" {
			t.Errorf("the other node: %+v", nodes[1])
		}
		return true
	})
	must(t, one.EndLogin(ctx, two.node, 1))
	if l := <-ended; l.User != "bob" {
		t.Errorf("ended: %+v", l)
	}
}
