package s3bucket

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/server/objectfs"
)

// TestClock: if this machine's clock is wrong, an error of the storage says so, and by how much,
// whatever the storage says; and so does Clock, before the storage refuses anything.
func TestClock(t *testing.T) {
	var ahead time.Duration
	var code string
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-ahead).UTC().Format(http.TimeFormat))
		if code == "" {
			w.Header().Set("ETag", `"0"`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		if r.Method != http.MethodHead {
			io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
		}
	}))
	defer storage.Close()
	c := config(storage.URL)
	c.Patience = time.Millisecond
	b, err := New("bucket", c)
	if err != nil {
		t.Fatal(err)
	}
	put := func() error {
		body := strings.NewReader("text")
		_, err := b.Put(t.Context(), "f", io.NewSectionReader(body, 0, 4), objectfs.Condition{})
		return err
	}
	head := func() error {
		_, err := b.Head(t.Context(), "f")
		return err
	}
	const way = 5 * time.Second // as a busy machine may need
	for _, one := range []struct {
		code  string
		ahead time.Duration
		do    func() error
		want  string
	}{
		{"RequestTimeTooSkewed", 16 * time.Minute, put, "this machine's clock is 16m"},
		{"SignatureDoesNotMatch", 16 * time.Minute, put, "ahead of the storage's: set it"},
		{"AccessDenied", -16 * time.Minute, put, "this machine's clock is 1"},
		{"AccessDenied", -16 * time.Minute, head, "behind the storage's: set it"},
		{"SignatureDoesNotMatch", time.Minute, put, "the secret key is not that"},
		{"AccessDenied", 0, put, "the keys do not allow this"},
	} {
		code, ahead = one.code, one.ahead
		if err := one.do(); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s, %s ahead: %v, want %s", one.code, one.ahead, err, one.want)
		}
	}
	code = ""
	for _, one := range []struct {
		ahead time.Duration
		want  string
	}{{0, ""}, {30 * time.Second, ""}, {2*time.Minute + way, "is 2m"}, {-2*time.Minute - way, "is 2m"}} {
		ahead = one.ahead
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if got := b.Clock(); !strings.Contains(got, one.want) || (got == "") != (one.want == "") {
			t.Errorf("%s ahead: %q, want %q", one.ahead, got, one.want)
		}
	}
}
