package s3bucket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
	"github.com/usftp/usftp/wire"
)

// spoiled returns a user of a storage whose answers a test spoils while lies is set: spoil returns
// where the answer goes, or nil if it has answered.
func spoiled(t *testing.T, spoil func(http.ResponseWriter, *http.Request) http.ResponseWriter) (
	u *user, lies *atomic.Bool) {
	lies = &atomic.Bool{}
	proxy := s3test.Proxy(t, s3test.Storage(t, "bucket"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lies.Load() {
			w = spoil(w, r)
		}
		if w != nil {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	impatient := config(server.URL)
	impatient.Patience = time.Millisecond
	b, err := New("bucket", impatient)
	if err != nil {
		t.Fatal(err)
	}
	return &user{t, objectfs.New(b, nil)}, lies
}

// TestListingsThatAreNone: an answer that is no listing is not taken for an empty one, and a lost
// one not for its end.
func TestListingsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"an error":      "<Error><Code>InternalError</Code></Error>",
		"a final error": "<Error><Code>InvalidRequest</Code></Error>",
		"a page":        "<!DOCTYPE html>\n<html><body>back soon</body></html>",
		"nothing":       "",
		"text":          "back soon",
		"no answer":     "abort",
	} {
		u, lies := spoiled(t, func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
			listing := r.Method == http.MethodGet && r.URL.Query().Has("list-type") ||
				r.URL.Query().Has("uploadId") || r.URL.Query().Has("uploads")
			if listing && answer == "abort" {
				panic(http.ErrAbortHandler)
			}
			if listing {
				io.WriteString(w, answer)
				return nil
			}
			return w
		})
		u.must(u.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
		u.put("/d/f", "text")
		u.put("/f.filepart", text(6<<20))
		lies.Store(true)
		for what, err := range map[string]error{
			"a listing": last(u, "/d"),
			"the root":  last(u, "/"),
			"a removal": u.fs.Rmdir(t.Context(), "/d"),
			"a count":   count(u),
			"a sweep":   u.fs.Sweep(t.Context(), 0),
			"a rename":  u.fs.PosixRename(t.Context(), "/f.filepart", "/f"),
		} {
			if err == nil || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "No such") {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		lies.Store(false)
		u.holds("/d/f", "text")
	}
}

// last returns the error of a listing.
func last(u *user, name string) (err error) {
	for _, err = range u.fs.List(u.Context(), name) {
	}
	return err
}

func count(u *user) error {
	_, _, err := u.fs.Count(context.Background(), "/")
	return err
}

// withoutHeader is a writer of an answer that leaves out one header.
type withoutHeader struct {
	http.ResponseWriter
	name string
}

func (w withoutHeader) WriteHeader(status int) {
	w.Header().Del(w.name)
	w.ResponseWriter.WriteHeader(status)
}

// TestObjectsWithoutFacts: storage that, behind a proxy perhaps, tells no length or no ETag of an
// object: it is not taken for an empty one, and nobody changes it without the condition that it is
// still the same.
func TestObjectsWithoutFacts(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"Content-Length", "ETag"} {
		u, lies := spoiled(t, func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
			if r.Method == http.MethodHead {
				w = withoutHeader{w, header}
			}
			return w
		})
		u.put("/f", "text")
		lies.Store(true)
		info, err := u.fs.Stat(t.Context(), "/f")
		if err == nil {
			t.Errorf("without %s: the file has %d bytes", header, info.Size())
		}
		for _, flags := range []uint32{wire.OpenRead, wire.OpenWrite,
			wire.OpenWrite | wire.OpenCreate | wire.OpenTruncate} {
			f, err := u.fs.Open(t.Context(), "/f", flags, wire.Attrs{})
			if err == nil {
				t.Errorf("without %s: opened with %#x", header, flags)
				f.Close()
			}
		}
		if u.fs.Remove(t.Context(), "/f") == nil || u.fs.Rename(t.Context(), "/f", "/g") == nil {
			t.Errorf("without %s: removed or renamed", header)
		}
		lies.Store(false)
		u.holds("/f", "text")
	}
}

// TestChangesWithoutResult: somebody in between answers a change well, or that there is no such
// thing, and the storage has never seen it. CLOSE does not succeed, and nothing is removed, unless
// another try has made it.
func TestChangesWithoutResult(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusNotFound} {
		for _, always := range []bool{true, false} {
			changesWithoutResult(t, status, always)
		}
	}
}

func changesWithoutResult(t *testing.T, status int, always bool) {
	var tries atomic.Int64
	u, lies := spoiled(t, func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
		if r.Method != http.MethodPut && r.Method != http.MethodPost ||
			tries.Add(1) > 1 && !always {
			return w
		}
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		io.WriteString(w, "<html><body>back soon</body></html>")
		return nil
	})
	put := func(size int) error {
		f := u.open("/f", wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate)
		if _, err := f.WriteAt([]byte(text(size)), 0); err != nil {
			return errors.Join(err, f.Abandon())
		}
		return f.Close()
	}
	u.put("/f", "old")
	for what, change := range map[string]func() error{
		"a short file": func() error { return put(10) },
		"a long file":  func() error { return put(6 << 20) },
		"a rename":     func() error { return u.fs.Rename(t.Context(), "/f", "/g") },
		"a directory":  func() error { return u.fs.Mkdir(t.Context(), "/d", wire.Attrs{}) },
	} {
		tries.Store(0)
		lies.Store(true)
		err := change()
		lies.Store(false)
		if (err != nil) != always {
			t.Errorf("status %d, always: %t: %s: %v", status, always, what, err)
		}
		if always {
			u.holds("/f", "old")
		} else if what == "a rename" {
			u.must(u.fs.Rename(t.Context(), "/g", "/f"))
		}
	}
}

// TestResumeBehindAPage: a page that a proxy sends in the storage's place, as not found, is not
// taken for the end of an upload that may be continued.
func TestResumeBehindAPage(t *testing.T) {
	t.Parallel()
	u, lies := spoiled(t, func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
		if !r.URL.Query().Has("uploadId") {
			return w
		}
		http.Error(w, "404 page not found", http.StatusNotFound)
		return nil
	})
	whole := text(18 << 20)
	f := u.open("/f", wire.OpenWrite|wire.OpenCreate)
	u.write(f, 0, whole[:17<<20])
	u.must(f.Abandon())
	lies.Store(true)
	if f, err := u.fs.Open(t.Context(), "/f", wire.OpenWrite|wire.OpenCreate,
		wire.Attrs{}); err == nil {
		f.Close()
		t.Error("opened")
	}
	u.fs.Remove(t.Context(), "/f")
	lies.Store(false)
	info, err := u.fs.Stat(t.Context(), "/f")
	if err != nil || info.Size() != 10<<20 {
		t.Errorf("what may be continued: %v, %v", info, err)
	}
}

// TestPutsWithoutETag: who runs the server learns what is wrong if a proxy takes out ETags.
func TestPutsWithoutETag(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(server.Close)
	impatient := config(server.URL)
	impatient.Patience = time.Millisecond
	b, err := New("bucket", impatient)
	if err != nil {
		t.Fatal(err)
	}
	body := io.NewSectionReader(strings.NewReader("text"), 0, 4)
	_, err = b.Put(t.Context(), "f", body, objectfs.Condition{})
	if err == nil || strings.Count(err.Error(), errWithoutETag) != 1 {
		t.Errorf("stored without an ETag: %v", err)
	}
}

// TestMarkersWithoutETag: SeaweedFS before 4.18 tells no ETag when it stores a directory's marker.
func TestMarkersWithoutETag(t *testing.T) {
	t.Parallel()
	var puts atomic.Int64
	u, lies := spoiled(t, func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
		if r.Method == http.MethodPut {
			puts.Add(1)
			return withoutHeader{w, "ETag"}
		}
		return w
	})
	lies.Store(true)
	u.must(u.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
	if n := puts.Load(); n != 1 {
		t.Errorf("the marker was stored %d times", n)
	}
}

// TestDeletesWithoutResult: somebody in between answers a DELETE with a page, and the storage has
// never seen it: nobody is told that it was done, unless another try has done it.
func TestDeletesWithoutResult(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusNotFound} {
		for _, always := range []bool{true, false} {
			var tries atomic.Int64
			u, lies := spoiled(t, func(w http.ResponseWriter,
				r *http.Request) http.ResponseWriter {
				if r.Method != http.MethodDelete || tries.Add(1) > 1 && !always {
					return w
				}
				w.WriteHeader(status)
				io.WriteString(w, "<html><body>back soon</body></html>")
				return nil
			})
			u.put("/f", "text")
			u.put("/g", "text")
			u.put("/u.filepart", text(6<<20))
			u.must(u.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
			for what, remove := range map[string]func() error{
				"a file":      func() error { return u.fs.Remove(t.Context(), "/f") },
				"an upload":   func() error { return u.fs.Remove(t.Context(), "/u.filepart") },
				"a rename":    func() error { return u.fs.PosixRename(t.Context(), "/g", "/h") },
				"a directory": func() error { return u.fs.Rmdir(t.Context(), "/d") },
			} {
				tries.Store(0)
				lies.Store(true)
				err := remove()
				lies.Store(false)
				if (err != nil) != always {
					t.Errorf("status %d, always: %t: %s: %v", status, always, what, err)
				}
			}
			if always {
				u.holds("/f", "text")
				u.holds("/g", "text")
			}
		}
	}
}

// TestCopiesWithoutETag: a rename deletes nothing if the answer to the copy does not say what was
// made, and nothing was.
func TestCopiesWithoutETag(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"<CopyObjectResult/>",
		"<CopyObjectResult><ETag>&quot;&quot;</ETag></CopyObjectResult>", "<ListBucketResult/>"} {
		u, lies := spoiled(t, func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
			if r.Method != http.MethodPut {
				return w
			}
			io.WriteString(w, answer)
			return nil
		})
		u.put("/f", "text")
		lies.Store(true)
		if err := u.fs.PosixRename(t.Context(), "/f", "/g"); err == nil {
			t.Errorf("%s: renamed", answer)
		}
		lies.Store(false)
		u.holds("/f", "text")
	}
}
