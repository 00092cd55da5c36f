package s3bucket

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/server/objectfs"
)

// answering returns a bucket of a storage that answers like this.
func answering(t *testing.T, region string, answer http.HandlerFunc) *Bucket {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	impatient := config(server.URL)
	impatient.Patience = time.Millisecond
	impatient.Region = region
	b, err := New("bucket", impatient)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReasonsOfHead: the answer to HEAD has no body, and so no reason: it is found out, since what
// is to be done is not the same for all.
func TestReasonsOfHead(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		status     int
		code, want string
	}{
		{http.StatusForbidden, "ExpiredToken", "the keys have expired: renew them"},
		{http.StatusForbidden, "InvalidAccessKeyId", "does not know the access key: correct it"},
		{http.StatusForbidden, "AccessDenied", "the keys do not allow this: change their policy"},
		{http.StatusBadRequest, "ExpiredToken", "the keys have expired: renew them"},
		{http.StatusMovedPermanently, "PermanentRedirect", "correct the endpoint and the region"},
		{http.StatusTemporaryRedirect, "TemporaryRedirect", "correct the endpoint and the region"},
		{http.StatusBadRequest, "AuthorizationHeaderMalformed",
			"correct the endpoint and the region"},
	} {
		b := answering(t, "us-east-1", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(one.status)
			if r.Method != http.MethodHead {
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>No.</Message></Error>", one.code)
			}
		})
		if _, err := b.Head(t.Context(), "key"); err == nil || isAbsent(err) ||
			!strings.Contains(err.Error(), one.want) {
			t.Errorf("%d, %s: %v", one.status, one.code, err)
		}
	}
	denies := answering(t, "us-east-1", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusForbidden)
		}
		io.WriteString(w, "<ListBucketResult/>")
	})
	if _, err := denies.Head(t.Context(), "key"); err == nil ||
		!strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("where listing is allowed: %v", err)
	}
}

// TestArchived: who reads an object that a rule of the bucket has archived learns what to do.
func TestArchived(t *testing.T) {
	t.Parallel()
	b := answering(t, "us-east-1", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "<Error><Code>InvalidObjectState</Code></Error>")
	})
	if _, err := b.Get(t.Context(), "key", "etag", 0, 1); err == nil ||
		!strings.Contains(err.Error(), "restore it") {
		t.Error(err)
	}
}

// TestEndlessAnswers: an answer that does not end takes neither the memory nor the log.
func TestEndlessAnswers(t *testing.T) {
	t.Parallel()
	const much, longest = 128 << 20, 2000
	for begins, goesOn := range map[string]string{
		"<!-- ":                             "it goes on and on ",
		"":                                  " \n",
		"<ListBucketResult>":                "<Contents><Key>k</Key></Contents>",
		"<Error><Code>InternalError</Code>": "<Message>it goes on</Message>",
	} {
		t.Run(begins, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			b := answering(t, "us-east-1", func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, begins)
				for some := strings.Repeat(goesOn, 10_000); sent.Load() < much; {
					n, err := io.WriteString(w, some)
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			})
			_, err := b.List(t.Context(), objectfs.Query{Prefix: "k", Max: 1})
			if err == nil || sent.Load() >= much || len(err.Error()) > longest {
				t.Errorf("a listing, of which %d bytes came: %.2000v", sent.Load(), err)
			}
			sent.Store(0)
			err = b.Delete(t.Context(), "k", "")
			if err == nil || sent.Load() >= much || len(err.Error()) > longest {
				t.Errorf("a removal, of whose answer %d bytes came: %.2000v", sent.Load(), err)
			}
		})
	}
}

// TestRegionOfAPage: a page that does not end, or that a proxy sends in the storage's place, does not
// say where the bucket is.
func TestRegionOfAPage(t *testing.T) {
	t.Parallel()
	const much = 128 << 20
	for what, length := range map[string]int64{"a page": 1000, "one without an end": much} {
		var sent atomic.Int64
		var asked atomic.Bool // for anything else
		b := answering(t, "", func(w http.ResponseWriter, r *http.Request) {
			if !r.URL.Query().Has("location") {
				asked.Store(true)
			}
			io.WriteString(w, "<html>")
			for some := strings.Repeat("it goes on and on ", 10_000); sent.Load() < length; {
				n, err := io.WriteString(w, some)
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
			io.WriteString(w, "</html>")
		})
		if _, err := b.List(t.Context(), objectfs.Query{Prefix: "k", Max: 1}); err == nil ||
			asked.Load() || sent.Load() >= much {
			t.Errorf("%s: %v, taken for a region: %t; %d bytes came", what, err,
				asked.Load(), sent.Load())
		}
	}
}

// TestAnotherETagIsSent: a range of another object, from a proxy's memory perhaps, is not taken for
// one of the object that was asked for.
func TestAnotherETagIsSent(t *testing.T) {
	t.Parallel()
	for etag, right := range map[string]bool{`"one"`: true, `one`: true, `W/"one"`: true,
		`"another"`: false} {
		b := answering(t, "us-east-1", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", etag)
			w.Header().Set("Content-Range", "bytes 0-3/4")
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, "text")
		})
		body, err := b.Get(t.Context(), "key", "one", 0, 4)
		if err == nil {
			body.Close()
		}
		if (err == nil) != right || !right && !errors.Is(err, objectfs.ErrPrecondition) {
			t.Errorf("ETag %s: %v", etag, err)
		}
	}
}
