package status

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Access says who may use the admin address.
type Access struct {
	Token []byte // that is required, or nil: everyone who can reach the address, which is loopback
	TLS   bool
}

// loggedInFor is how long a browser stays logged in.
const loggedInFor = 12 * time.Hour

// mostBody limits requests.
const mostBody = 16 << 10

// guard lets in clients that may use the address. A browser obeys every page that its user looks
// at, so requests that change something are refused unless they come from our own page.
func (a *Access) guard(next, login http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; "+
				"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		switch {
		case a.Token == nil && !loopback(r.Host):
			// A page whose own name now points here (DNS rebinding) would have the same origin.
			http.Error(w, "this address is for this machine: use 127.0.0.1 or localhost",
				http.StatusMisdirectedRequest)
		case a.Token == nil, a.bearer(r), a.cookie(r):
			next.ServeHTTP(w, r)
		default:
			login.ServeHTTP(w, r)
		}
	})
	return crossOrigin.Handler(guarded)
}

// loopback reports whether the Host of a request can only mean this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}

// isToken compares in constant time, so that not even the length shows.
func (a *Access) isToken(given string) bool {
	want, got := sha256.Sum256(a.Token), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// bearer reports whether a request has the token in its header, as programs send it.
func (a *Access) bearer(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && a.isToken(given)
}

// cookieName returns the name of the cookie that a browser gets for the token. Over TLS its prefix
// keeps other hosts of the same domain from setting one.
func (a *Access) cookieName() string {
	if a.TLS {
		return "__Host-usftpd"
	}
	return "usftpd"
}

func (a *Access) newCookie(value string, age time.Duration) *http.Cookie {
	return &http.Cookie{Name: a.cookieName(), Value: value, Path: "/", HttpOnly: true,
		Secure: a.TLS, SameSite: http.SameSiteStrictMode, MaxAge: int(age.Seconds())}
}

// pass returns the value of a cookie that is valid until a time. It proves that its owner had the
// token, and becomes invalid when the token changes.
func (a *Access) pass(until time.Time) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(text, a.sum(text)...))
}

func (a *Access) sum(text []byte) []byte {
	h := hmac.New(sha256.New, a.Token)
	h.Write([]byte("usftpd's admin cookie"))
	h.Write(text)
	return h.Sum(nil)
}

// cookie reports whether a request has a valid cookie.
func (a *Access) cookie(r *http.Request) bool {
	cookie, err := r.Cookie(a.cookieName())
	if err != nil {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(text) != 8+sha256.Size || !hmac.Equal(text[8:], a.sum(text[:8])) {
		return false
	}
	return time.Now().Unix() < int64(binary.BigEndian.Uint64(text))
}
