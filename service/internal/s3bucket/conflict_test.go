package s3bucket

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
	"github.com/usftp/usftp/wire"
)

// TestConflict: storage that refuses a request since another one is under way says nothing about
// what there is, and is asked again.
func TestConflict(t *testing.T) {
	proxy, tried := s3test.Proxy(t, s3test.Storage(t, "bucket")), map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := fmt.Sprint(r.Method, r.URL.Path, r.Header["If-None-Match"], r.Header["If-Match"])
		conditional := r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Match") != ""
		if conditional && r.Method != http.MethodGet && !tried[request] {
			tried[request] = true
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, "<Error><Code>ConditionalRequestConflict</Code></Error>")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b, err := New("bucket", config(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t, objectfs.New(b, nil)}
	for name, size := range map[string]int{"/short": 10, "/long": 6 << 20} {
		w := u.open(name, wire.OpenWrite|wire.OpenCreate|wire.OpenExclusive)
		u.write(w, 0, text(size))
		u.must(w.Close())
		u.put(name, text(size))
		u.must(u.fs.Rename(t.Context(), name, name+"2"))
		u.must(u.fs.Remove(t.Context(), name+"2"))
	}
	u.must(u.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
	if len(tried) < 9 {
		t.Errorf("only these requests have conditions: %v", tried)
	}
}
