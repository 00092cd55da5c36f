package status

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp/internal/ui"
)

//go:embed page
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"show":  ui.Printable, // makes control characters and such visible and harmless
	"bytes": func(n any) string { return ui.Amount(toFloat(n)) },
	"rate":  func(n float64) string { return ui.Amount(n) + "/s" },
	"ago":   func(t time.Time) string { return ui.Clock(time.Since(t)) },
	"clock": func(s float64) string { return ui.Clock(time.Duration(s * float64(time.Second))) },
	"local": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
	"short": func(key string) string {
		return fmt.Sprintf("%.12s", strings.TrimPrefix(key, "SHA256:"))
	},
	"full":   func(used, most int64) int64 { return 100 * used / max(most, 1) },
	"moving": moving,
}).ParseFS(files, "page/*.html"))

func toFloat(n any) float64 {
	switch n := n.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

// moving returns how many files are in progress on all nodes.
func moving(nodes []Node) (n int) {
	for _, node := range nodes {
		n += len(node.Transfers) + node.MoreTransfers
	}
	return n
}

// view has the data of pages.
type view struct {
	*Status
	Rates, Sessions template.HTML
	Token           bool // is required, so that one can log out
	Said            string
	Wrong           bool
}

// Handler serves the page and the API, and metrics unless that is nil, to clients with access.
func (b *Board) Handler(access *Access, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	show := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			b.page(w, http.StatusOK, name, b.view(r.Context(), access))
		}
	}
	mux.HandleFunc("GET /{$}", show("index.html"))
	mux.HandleFunc("GET /live", show("live.html"))
	mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, b.Status(r.Context()))
	})
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	for path, act := range b.actions() {
		mux.HandleFunc("POST /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			done, err := b.act(r, act)
			if err != nil {
				writeJSON(w, statusOf(err), map[string]string{"error": err.Error()})
				return
			}
			writeJSON(w, http.StatusOK, map[string]string{"done": done})
		})
		mux.HandleFunc("POST /do/"+path, func(w http.ResponseWriter, r *http.Request) {
			done, err := b.act(r, act)
			if err == nil {
				http.Redirect(w, r, "/", http.StatusSeeOther)
				return
			}
			v := b.view(r.Context(), access)
			if v.Said, v.Wrong = done, true; err != nil {
				v.Said = err.Error()
			}
			b.page(w, statusOf(err), "index.html", v)
		})
	}
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) { // once more
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, access.newCookie("", -time.Second))
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	all := http.NewServeMux() // with the files that anybody may have
	static, _ := fs.Sub(files, "page")
	for _, name := range []string{"status.css", "status.js"} {
		all.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, static, name)
		})
	}
	all.Handle("/", mux)
	return access.guard(all, b.login(access, all))
}

// login answers clients without access.
func (b *Board) login(access *Access, all http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			b.wrongToken(r.RemoteAddr)
		}
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/status.css":
			all.ServeHTTP(w, r)
		case r.Method == http.MethodPost && r.URL.Path == "/login":
			if !access.isToken(r.PostFormValue("token")) {
				b.wrongToken(r.RemoteAddr)
				b.page(w, http.StatusUnauthorized, "login.html",
					view{Said: "That is not the token.", Wrong: true})
				return
			}
			http.SetCookie(w, access.newCookie(access.pass(time.Now().Add(loggedInFor)),
				loggedInFor))
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case r.Method == http.MethodGet && r.URL.Path == "/":
			b.page(w, http.StatusUnauthorized, "login.html", view{})
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a token is required", http.StatusUnauthorized)
		}
	})
}

func (b *Board) view(ctx context.Context, access *Access) view {
	v := view{Status: b.Status(ctx), Token: access.Token != nil}
	v.Rates, v.Sessions = b.history.graphs()
	return v
}

// page writes a whole page, or an error if it cannot be made.
func (b *Board) page(w http.ResponseWriter, code int, name string, v view) {
	var text bytes.Buffer
	if err := pages.ExecuteTemplate(&text, name, v); err != nil {
		b.Log.Error("the status page cannot be made", "error", err)
		http.Error(w, "the page cannot be made; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	text.WriteTo(w)
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(ui.EscapeJSON(text), '\n'))
}

// An action carries out a form with these fields. It returns a text that describes the change, and
// the user whom it affects.
type action func(ctx context.Context, field func(string) string) (what, user string, err error)

// actions returns all actions, by path.
func (b *Board) actions() map[string]action {
	disable := func(disabled bool, verb string) action {
		return func(ctx context.Context, field func(string) string) (string, string, error) {
			name := field("user")
			return verb + " user " + name, name, b.DisableUser(ctx, name, disabled)
		}
	}
	return map[string]action{
		"sessions/end": func(ctx context.Context, field func(string) string) (string, string,
			error) {
			id, err := strconv.ParseUint(field("id"), 10, 64)
			if err != nil {
				return "", "", fmt.Errorf("id: %q is not a number", field("id"))
			}
			node := field("node")
			user := b.userOf(ctx, node, id)
			return fmt.Sprintf("ended session %d on %s", id, node), user, b.EndLogin(ctx, node, id)
		},
		"bans/lift": func(ctx context.Context, field func(string) string) (string, string, error) {
			return "lifted the ban of " + field("network"), field("user"),
				b.LiftBan(ctx, field("network"), field("user"))
		},
		"users/disable": disable(true, "disabled"),
		"users/enable":  disable(false, "enabled"),
		"hooks/replay": func(ctx context.Context, field func(string) string) (string, string,
			error) {
			return "replayed " + field("which"), "", b.Replay(ctx, field("which"))
		},
	}
}

// act runs an action and reports it to Done.
func (b *Board) act(r *http.Request, act action) (what string, err error) {
	if err := r.ParseForm(); err != nil {
		return "", err
	}
	if !slices.ContainsFunc([]string{"user", "node", "network", "which"}, r.PostForm.Has) {
		return "", errors.New("the body has none of the order's form fields, such as user=ann")
	}
	what, user, err := act(r.Context(), r.PostForm.Get)
	b.stale()
	if what != "" && b.Done != nil {
		b.Done(r.RemoteAddr, what, user, err)
	}
	return what, err
}

func statusOf(err error) int {
	if errors.Is(err, ErrNotThere) {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}
