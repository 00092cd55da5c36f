package s3bucket

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestTroubleIsLogged: whoever runs the server hears of storage that does not answer, or refuses
// everything, while clients wait for it, and that it works again, but not of each request, nor of
// what is about an object.
func TestTroubleIsLogged(t *testing.T) {
	refuses := func(context.Context) error { return syscall.ECONNREFUSED }
	for _, one := range []struct {
		name  string
		until time.Duration // from now on
		way   func(until time.Time) http.RoundTripper
		want  []string
	}{
		{"away for a minute", time.Minute, func(until time.Time) http.RoundTripper {
			return &away{until: until, fails: refuses}
		}, []string{"object storage fails", "object storage works again"}},
		{"away for a moment", 3 * time.Second, func(until time.Time) http.RoundTripper {
			return &away{until: until, fails: refuses}
		}, nil},
		{"no bucket", time.Minute, func(until time.Time) http.RoundTripper {
			return complaining{until, "NoSuchBucket"}
		}, []string{"object storage fails", "object storage works again"}},
		{"no upload", time.Minute, func(until time.Time) http.RoundTripper {
			return complaining{until, "NoSuchUpload"}
		}, nil},
		{"not allowed", time.Minute, func(until time.Time) http.RoundTripper {
			return complaining{until, "AccessDenied"}
		}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			endpoint := &url.URL{Scheme: "http", Host: "storage.example"}
			b, err := newBucket("bucket", config(endpoint.String()), endpoint,
				one.way(time.Now().Add(one.until)))
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			b.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
			for range 100 {
				body := io.NewSectionReader(strings.NewReader("text"), 0, 4)
				b.UploadPart(t.Context(), "key", "id", 1, body)
				time.Sleep(time.Second)
			}
			lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
			if len(one.want) == 0 && log.Len() == 0 {
				return
			}
			if len(lines) != len(one.want) {
				t.Fatalf("%s: the log has %q, want %q", one.name, lines, one.want)
			}
			for i, want := range one.want {
				if !strings.Contains(lines[i], `msg="`+want+`" bucket=bucket`) {
					t.Errorf("%s: the log has %q, want %q", one.name, lines[i], want)
				}
			}
		})
	}
}
