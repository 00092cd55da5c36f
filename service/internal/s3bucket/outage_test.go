package s3bucket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
	"github.com/usftp/usftp/wire"
)

// away is the way to storage that is away for some time.
type away struct {
	until time.Time
	fails func(context.Context) error
	tries int
}

func (a *away) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.tries++; time.Now().Before(a.until) {
		return nil, a.fails(r.Context())
	}
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	answer := httptest.NewRecorder()
	answer.Header().Set("ETag", `"00000000000000000000000000000000"`)
	answer.WriteHeader(http.StatusOK)
	return answer.Result(), nil
}

// TestPatience: requests wait for storage that is away for two minutes, without many tries, and
// fail with a clear error if it is away for longer, also if it is only silent.
func TestPatience(t *testing.T) {
	refuses := func(context.Context) error { return syscall.ECONNREFUSED }
	says := func(ctx context.Context) error { // as ResponseHeaderTimeout
		select {
		case <-time.After(silent):
			return errors.New("timeout awaiting response headers")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, one := range []struct {
		name  string
		fails func(context.Context) error
		away  time.Duration
		ends  time.Duration // at most
		well  bool
	}{
		{"refuses for two minutes", refuses, 2 * time.Minute, 2*time.Minute + 5*time.Second, true},
		{"refuses for an hour", refuses, time.Hour, 3 * time.Minute, false},
		{"is silent for two minutes", says, 2 * time.Minute, 3*time.Minute + 5*time.Second, true},
		{"is silent for an hour", says, time.Hour, 5 * time.Minute, false},
	} {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				storage := &away{until: began.Add(one.away), fails: one.fails}
				endpoint := &url.URL{Scheme: "http", Host: "storage.example"}
				b, err := newBucket("bucket", config(endpoint.String()), endpoint, storage)
				if err != nil {
					t.Fatal(err)
				}
				body := strings.NewReader("text")
				_, err = b.UploadPart(t.Context(), "key", "id", 1, io.NewSectionReader(body, 0, 4))
				took := time.Since(began)
				if (err == nil) != one.well || took > one.ends || storage.tries > 1000 {
					t.Errorf("after %s and %d tries: %v", took, storage.tries, err)
				}
				if err != nil && !strings.Contains(err.Error(), "does not answer: see to it") {
					t.Errorf("it says %v", err)
				}
				if err != nil {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					began := time.Now()
					if b.Delete(ctx, "key", ""); time.Since(began) > 2*time.Second {
						t.Errorf("who has gone is waited for: %s", time.Since(began))
					}
				}
			})
		})
	}
}

// complaining is storage that answers with an error until some time.
type complaining struct {
	until time.Time
	code  string
}

func (c complaining) RoundTrip(r *http.Request) (*http.Response, error) {
	if !time.Now().Before(c.until) {
		return (&away{}).RoundTrip(r)
	}
	answer := httptest.NewRecorder()
	answer.WriteHeader(http.StatusBadRequest)
	io.WriteString(answer, "<Error><Code>"+c.code+"</Code></Error>")
	return answer.Result(), nil
}

// TestPassingCodes: a request whose body did not come, or not as it was sent, is not the client's
// fault, whose status it has.
func TestPassingCodes(t *testing.T) {
	for _, code := range []string{"RequestTimeout", "IncompleteBody", "BadDigest",
		"XAmzContentSHA256Mismatch", "SlowDown"} {
		synctest.Test(t, func(t *testing.T) {
			endpoint := &url.URL{Scheme: "http", Host: "storage.example"}
			b, err := newBucket("bucket", config(endpoint.String()), endpoint,
				complaining{time.Now().Add(usualPatience / 2), code})
			if err != nil {
				t.Fatal(err)
			}
			body := io.NewSectionReader(strings.NewReader("text"), 0, 4)
			if _, err := b.UploadPart(t.Context(), "key", "id", 1, body); err != nil {
				t.Errorf("%s: %v", code, err)
			}
		})
	}
}

// TestNoCode: a refusal without a code does not make clients wait.
func TestNoCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoint := &url.URL{Scheme: "http", Host: "storage.example"}
		b, err := newBucket("bucket", config(endpoint.String()), endpoint,
			complaining{time.Now().Add(time.Hour), ""})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := b.Delete(t.Context(), "key", ""); err == nil || time.Since(began) > pause {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// testOutage: an upload waits while the storage is away, and goes on. If that takes too long it
// fails, and is resumed when the storage is back.
func testOutage(t *testing.T, s storage) {
	var broken atomic.Bool
	refused, parts := make(chan struct{}, 1000), make(chan struct{}, 1000)
	proxy := s3test.Proxy(t, s.Endpoint)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Query().Has("partNumber") {
			parts <- struct{}{}
		}
		return nil
	}
	way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			select {
			case refused <- struct{}{}:
			default:
			}
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer way.Close()
	s.Config.Endpoint, s.Config.Patience = way.URL, time.Minute
	long := text(20 << 20)
	u := &user{t, objectfs.New(s.start(t), nil)}
	f := u.open("/waits", wire.OpenWrite|wire.OpenCreate)
	u.write(f, 0, long[:9<<20])
	broken.Store(true)
	go func() {
		<-refused
		<-refused
		broken.Store(false)
	}()
	u.write(f, 9<<20, long[9<<20:])
	u.must(f.Close())
	u.holds("/waits", long)

	s.Config.Patience = time.Millisecond
	u.fs = objectfs.New(s.start(t), nil)
	for range 4 { // of the first file
		<-parts
	}
	f = u.open("/fails", wire.OpenWrite|wire.OpenCreate)
	u.write(f, 0, long[:18<<20])
	for range 3 { // are full, and sent
		<-parts
	}
	broken.Store(true)
	_, err := f.WriteAt([]byte(long[18<<20:]), 18<<20)
	if err = errors.Join(err, f.Close()); err == nil ||
		!strings.Contains(err.Error(), "does not answer: see to it") {
		t.Errorf("the client is told %v", err)
	}
	broken.Store(false)
	info, err := u.fs.Stat(t.Context(), "/fails")
	if err != nil || info.Size() != 10<<20 {
		t.Fatalf("what is kept: %v, %v", info, err)
	}
	f = u.open("/fails", wire.OpenWrite|wire.OpenCreate)
	u.write(f, int(info.Size()), long[info.Size():])
	u.must(f.Close())
	u.holds("/fails", long)
}
