package s3bucket

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
	"github.com/usftp/usftp/wire"
)

// storage is where a test has a bucket of its own, and how to log in.
type storage struct {
	Config
	bucket  string
	ignores []string // conditions, as the probe says
}

// What storages are known to ignore.
var (
	ofVersitygw = []string{"a copy ignores If-None-Match"}
	ofRadosgw   = []string{"a copy ignores its source's ETag", "a copy ignores If-None-Match",
		"DELETE ignores If-Match", "the copy of a part ignores its source's ETag",
		"completing ignores If-None-Match"}
)

// suite is what every storage must do.
var suite = map[string]func(t *testing.T, s storage){
	"files": testFiles, "pages": testPages, "conditions": testConditions, "errors": testErrors,
	"nodes": testNodes, "an outage": testOutage, "a late part": testLatePart}

func TestVersitygw(t *testing.T) {
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			test(t, storage{config(s3test.Storage(t, "bucket")), "bucket", ofVersitygw})
		})
	}
}

// TestVersions: nobody notices that a bucket keeps versions.
func TestVersions(t *testing.T) {
	endpoint := s3test.Storage(t, "bucket")
	s3test.KeepVersions(t, endpoint, "bucket")
	s := storage{config(endpoint), "bucket", ofVersitygw}
	testFiles(t, s)
	testConditions(t, s)
}

func TestRadosgw(t *testing.T) {
	endpoint, number := s3test.Radosgw(t), 0
	for name, test := range suite {
		number++
		bucket := fmt.Sprintf("bucket%d", number)
		s3test.MakeBucket(t, endpoint, bucket)
		t.Run(name, func(t *testing.T) { test(t, storage{config(endpoint), bucket, ofRadosgw}) })
	}
}

func config(endpoint string) Config {
	return Config{Endpoint: endpoint, Region: "us-east-1", PathStyle: true,
		AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey}
}

// start returns the bucket.
func (s storage) start(t *testing.T) *Bucket {
	b, err := New(s.bucket, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return b
}

type writer interface {
	server.File
	server.FileAbandoner
	io.WriterAt
}

// user is a client of the bucket.
type user struct {
	*testing.T
	fs *objectfs.FS
}

func (u *user) open(name string, flags uint32) writer {
	u.Helper()
	f, err := u.fs.Open(u.Context(), name, flags, wire.Attrs{})
	if err != nil {
		u.Fatalf("opening %s: %v", name, err)
	}
	return f.(writer)
}

func (u *user) write(f writer, offset int, data string) {
	u.Helper()
	if _, err := f.WriteAt([]byte(data), int64(offset)); err != nil {
		u.Fatal(err)
	}
}

func (u *user) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

func (u *user) put(name, data string) {
	u.Helper()
	f := u.open(name, wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate)
	u.write(f, 0, data)
	u.must(f.Close())
}

func (u *user) holds(name, want string) {
	u.Helper()
	f, err := u.fs.Open(u.Context(), name, wire.OpenRead, wire.Attrs{})
	if err != nil {
		u.Errorf("opening %s: %v", name, err)
		return
	}
	defer f.Close()
	got, err := io.ReadAll(io.NewSectionReader(f.(io.ReaderAt), 0, 1<<40))
	if err != nil || string(got) != want {
		u.Errorf("%s holds %d bytes, %v; want %d", name, len(got), err, len(want))
	}
}

func (u *user) list(name string) (names []string) {
	u.Helper()
	for info, err := range u.fs.List(u.Context(), name) {
		u.must(err)
		names = append(names, info.Name())
	}
	slices.Sort(names)
	return names
}

func text(size int) string {
	block, err := aes.NewCipher(fmt.Appendf(nil, "%016d", size))
	if err != nil {
		panic(err)
	}
	b := make([]byte, size)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(b, b)
	return string(b)
}

// testFiles: what objectfs needs of the storage, with a real one.
func testFiles(t *testing.T, s storage) {
	b := s.start(t)
	u := &user{t, objectfs.New(b, &objectfs.Options{Prefix: "users/u/"})}
	long := text(20 << 20)

	for _, size := range []int{0, 1, 5 << 20, 5<<20 + 1, 20 << 20} {
		for _, name := range []string{"/new" + fmt.Sprint(size), "/replaced"} {
			u.put(name, text(size))
			u.holds(name, text(size))
		}
	}

	f := u.open("/replaced", wire.OpenWrite|wire.OpenAppend) // the last one is long
	u.write(f, 0, "more")
	u.must(f.Close())
	u.holds("/replaced", long+"more")
	f = u.open("/replaced", wire.OpenWrite)
	u.write(f, 10<<20, "middle")
	u.must(f.Close())
	u.holds("/replaced", long[:10<<20]+"middle"+long[10<<20+6:]+"more")

	f = u.open("/cut", wire.OpenWrite|wire.OpenCreate)
	u.write(f, 0, long[:18<<20])
	u.must(f.Abandon())
	info, err := u.fs.Stat(t.Context(), "/cut")
	if err != nil || info.Size() != 10<<20 {
		t.Fatalf("what is kept: %v, %v", info, err)
	}
	f = u.open("/cut", wire.OpenWrite|wire.OpenCreate)
	u.write(f, 10<<20, long[10<<20:])
	u.must(f.Close())
	u.holds("/cut", long)

	u.put("/cut.filepart", long[1:])
	u.must(u.fs.PosixRename(t.Context(), "/cut.filepart", "/cut"))
	u.holds("/cut", long[1:])
	u.must(u.fs.Rename(t.Context(), "/cut", "/copied"))
	u.holds("/copied", long[1:])
	if err := u.fs.Rename(t.Context(), "/copied", "/replaced"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("renaming to a name that exists: %v", err)
	}

	u.must(u.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
	names := []string{"A", "a", "a b", "a+b", "a%20b", "naïve", "~", "q?&=#", `"quoted"`, "(x)!",
		`back\slash`, "a%2Fb", "a:b;c,d@e$f", "<a>'*|^`{}[]", " a ", ".a", "a.", "😀", "e\u0301"}
	for _, name := range names {
		u.put("/d/"+name, name)
		u.holds("/d/"+name, name)
	}
	for _, name := range []string{"caf\xe9", "a\x01b", "\uffff"} {
		if _, err := u.fs.Open(t.Context(), "/d/"+name, wire.OpenWrite|wire.OpenCreate,
			wire.Attrs{}); !errors.Is(err, errOddName) {
			t.Errorf("%q, which no listing can carry, was made: %v", name, err)
		}
		if err := u.fs.Rename(t.Context(), "/d/a", "/d/"+name); !errors.Is(err, errOddName) {
			t.Errorf("a file was renamed to %q: %v", name, err)
		}
	}
	slices.Sort(names)
	if got := u.list("/d"); !reflect.DeepEqual(got, names) {
		t.Errorf("listed: %q", got)
	}
	u.must(u.fs.Rename(t.Context(), "/d", "/e"))
	if got := u.list("/e"); !reflect.DeepEqual(got, names) {
		t.Errorf("listed: %q", got)
	}
	for _, name := range names {
		u.holds("/e/"+name, name)
		u.must(u.fs.Remove(t.Context(), "/e/"+name))
	}
	u.must(u.fs.Rmdir(t.Context(), "/e"))
	if _, err := u.fs.Stat(t.Context(), "/e"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed directory: %v", err)
	}

	u.must(u.fs.Sweep(t.Context(), -time.Hour))
	left, _, err := b.ListUploads(t.Context(), "", "")
	if err != nil || len(left) != 0 {
		t.Errorf("uploads that are left: %v, %v", left, err)
	}
}

// testPages: a listing of more than one page.
func testPages(t *testing.T, s storage) {
	b := s.start(t)
	u := &user{t, objectfs.New(b, nil)}
	for i := range 1200 {
		body := strings.NewReader("x")
		if _, err := b.Put(t.Context(), fmt.Sprintf("d/%04d", i), io.NewSectionReader(body, 0, 1),
			objectfs.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := u.list("/d"); len(got) != 1200 {
		t.Errorf("%d names are listed", len(got))
	}
}

// testConditions: the storage refuses what must not happen.
func testConditions(t *testing.T, s storage) {
	b := s.start(t)
	body := func() *io.SectionReader { return io.NewSectionReader(strings.NewReader("text"), 0, 4) }
	put := func(when objectfs.Condition) error {
		_, err := b.Put(t.Context(), "f", body(), when)
		return err
	}
	if err := put(objectfs.Condition{Absent: true}); err != nil {
		t.Fatal(err)
	}
	o, err := b.Head(t.Context(), "f")
	if err != nil || o.Size != 4 || o.ETag == "" {
		t.Fatalf("%+v, %v", o, err)
	}
	const other = "00000000000000000000000000000000"
	_, getErr := b.Get(t.Context(), "f", other, 0, 4)
	for what, err := range map[string]error{
		"PUT of a new one":     put(objectfs.Condition{Absent: true}),
		"PUT in place of none": put(objectfs.Condition{ETag: other}),
		"GET":                  getErr,
	} {
		if !errors.Is(err, objectfs.ErrPrecondition) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := put(objectfs.Condition{ETag: o.ETag}); err != nil {
		t.Errorf("PUT in place of the right one: %v", err)
	}
	unchecked, err := objectfs.Probe(t.Context(), b, "probe/")
	for i, line := range unchecked {
		unchecked[i], _, _ = strings.Cut(line, ":")
	}
	if err != nil || !slices.Equal(unchecked, s.ignores) {
		t.Errorf("the storage of the tests: %q, %v; want %q", unchecked, err, s.ignores)
	}
	if _, err := b.Head(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("HEAD of none: %v", err)
	}
	for _, etag := range []string{"", other} {
		if err := b.Delete(t.Context(), "none", etag); err != nil {
			t.Errorf("DELETE of none: %v", err)
		}
	}
	err = b.Delete(t.Context(), "f", other)
	_, there := b.Head(t.Context(), "f")
	if (err == nil) != errors.Is(there, fs.ErrNotExist) ||
		err != nil && !errors.Is(err, objectfs.ErrPrecondition) {
		t.Errorf("DELETE of another one: %v, and then %v", err, there)
	}
	if err := b.Delete(t.Context(), "f", o.ETag); err != nil {
		t.Errorf("DELETE of the right one: %v", err)
	}
	if _, err := b.Head(t.Context(), "f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("HEAD of what was deleted: %v", err)
	}
}

// testErrors: wrong settings are one line each that says what to do.
func testErrors(t *testing.T, s storage) {
	s.start(t)
	c := s.Config
	c.Patience = time.Millisecond
	none := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(none, []byte("very-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	skewed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "<Error><Code>RequestTimeTooSkewed</Code></Error>")
	}))
	defer skewed.Close()
	overloaded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "<Error><Code>SlowDown</Code></Error>")
	}))
	defer overloaded.Close()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer untrusted.Close()
	refused := fmt.Sprintf("http://127.0.0.1:%d", testenv.RefusedPort(t))
	for _, one := range []struct {
		name   string
		change func(c *Config)
		bucket string
		want   string
	}{
		{"key", func(c *Config) { c.AccessKey = "other" }, s.bucket,
			"the storage does not know the access key"},
		{"secret", func(c *Config) { c.SecretKey = "other" }, s.bucket, "secret key"},
		{"bucket", func(*Config) {}, "another", "make the bucket, or correct its name"},
		{"file of keys", func(c *Config) { c.AccessKey, c.Keys = "", none }, s.bucket,
			"no keys in " + none},
		{"clock", func(c *Config) { c.Endpoint = skewed.URL }, s.bucket,
			"this machine's clock is wrong: set it"},
		{"too many requests", func(c *Config) { c.Endpoint = overloaded.URL }, s.bucket,
			"the storage is overloaded: try again later"},
		{"certificate", func(c *Config) { c.Endpoint = untrusted.URL }, s.bucket,
			"has a certificate that is not trusted"},
		{"port", func(c *Config) { c.Endpoint = refused }, s.bucket,
			refused + " does not answer: see to it, or correct the endpoint"},
	} {
		wrong := c
		one.change(&wrong)
		b, err := New(one.bucket, wrong)
		if err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(b.Check(t.Context(), ""))
		if !strings.Contains(said, one.want) || strings.Contains(said, "\n") ||
			strings.Contains(said, "very-secret") {
			t.Errorf("wrong %s: %s", one.name, said)
		}
	}
	for _, endpoint := range []string{"s3.example.com", "ftp://x", "http://x/y", "://"} {
		if _, err := New("bucket", Config{Endpoint: endpoint}); err == nil {
			t.Errorf("endpoint %q is accepted", endpoint)
		}
	}
}

// TestAnotherIsSent: storage that has compared an ETag may send what has come since. The length of
// the whole object, or its time, gives it away.
func TestAnotherIsSent(t *testing.T) {
	made := time.Now().UTC().Truncate(time.Second)
	for _, one := range []struct {
		name     string
		size     string
		modified time.Time
		etag     string // of what is there after the GET
		wrong    bool
	}{
		{"the right one", "3", made, "old", false},
		{"one of an unknown length", "*", made, "old", false},
		{"a longer one", "6", made, "new", true},
		{"a newer one", "3", made.Add(time.Second), "new", true},
		{"a newer one that is equal", "3", made.Add(time.Second), "old", false},
	} {
		etag := "old"
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			header := w.Header()
			header.Set("ETag", `"`+etag+`"`)
			header.Set("Last-Modified", made.Format(http.TimeFormat))
			header.Set("Content-Length", "3")
			if r.Method == http.MethodGet {
				header.Set("Last-Modified", one.modified.Format(http.TimeFormat))
				header.Set("Content-Range", "bytes 0-2/"+one.size)
				etag = one.etag
				w.WriteHeader(http.StatusPartialContent)
				io.WriteString(w, "abc")
			}
		}))
		b, err := New("bucket", config(server.URL))
		if err != nil {
			t.Fatal(err)
		}
		f, err := objectfs.New(b, nil).Open(t.Context(), "/f", wire.OpenRead, wire.Attrs{})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 3)
		n, err := f.(io.ReaderAt).ReadAt(got, 0)
		if one.wrong != (err != nil && strings.Contains(err.Error(), "replaced")) ||
			!one.wrong && (err != nil || string(got[:n]) != "abc") {
			t.Errorf("%s: %q, %v", one.name, got[:n], err)
		}
		f.Close()
		server.Close()
	}
}

// TestFailedCopy: storage begins to answer a copy well, and then an error comes. The file keeps the
// name that it has.
func TestFailedCopy(t *testing.T) {
	var removed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Amz-Copy-Source") != "":
			io.WriteString(w, xml.Header+"\n\n<Error><Code>InternalError</Code></Error>")
		case r.Method == http.MethodDelete:
			removed.Store(true)
		case r.Method == http.MethodGet:
			io.WriteString(w, xml.Header+"<ListBucketResult/>")
		case r.URL.Path == "/bucket/f":
			w.Header().Set("ETag", `"old"`)
			w.Header().Set("Content-Length", "3")
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	impatient := config(server.URL)
	impatient.Patience = time.Millisecond
	b, err := New("bucket", impatient)
	if err != nil {
		t.Fatal(err)
	}
	if err := objectfs.New(b, nil).Rename(t.Context(), "/f", "/g"); err == nil || removed.Load() {
		t.Errorf("renamed: %v; the old name is removed: %t", err, removed.Load())
	}
	if p, err := b.CopyPart(t.Context(), "g", "id", 1, "f", "old", 0, 3); err == nil {
		t.Errorf("copied as a part: %+v", p)
	}
}

// TestErrorsInGoodAnswers: storage that has begun to answer well sends the error in the body. One
// that is final is not tried again, and one that may pass is.
func TestErrorsInGoodAnswers(t *testing.T) {
	t.Parallel()
	for code, final := range map[string]bool{"PreconditionFailed": true, "InvalidRequest": true,
		"InternalError": false} {
		var requests atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if n := requests.Add(1); final || n <= attempts {
				fmt.Fprintf(w, "%s<Error><Code>%s</Code></Error>", xml.Header, code)
				return
			}
			io.WriteString(w, xml.Header+`<Result><Bucket>bucket</Bucket><ETag>"new"</ETag></Result>`)
		}))
		b, err := New("bucket", config(server.URL))
		if err != nil {
			t.Fatal(err)
		}
		for name, request := range map[string]func() error{
			"copy": func() error {
				_, err := b.Copy(t.Context(), "f", "old", "g", objectfs.Condition{Absent: true})
				return err
			},
			"copy of a part": func() error {
				_, err := b.CopyPart(t.Context(), "g", "id", 1, "f", "old", 0, 3)
				return err
			},
			"completion": func() error {
				parts := []objectfs.Part{{Number: 1, ETag: "one"}}
				_, err := b.Complete(t.Context(), "g", "id", parts, objectfs.Condition{})
				return err
			},
		} {
			requests.Store(0)
			err := request()
			if n := requests.Load(); (err != nil) != final || final && n != 1 ||
				errors.Is(err, objectfs.ErrPrecondition) != (code == "PreconditionFailed") {
				t.Errorf("%s, %s: %v after %d requests", code, name, err, n)
			}
		}
		server.Close()
	}
}

// TestCutAnswers: the connection is lost in the middle of a good answer. The request is repeated,
// and a refusal is not sure if an earlier try may have made the change.
func TestCutAnswers(t *testing.T) {
	t.Parallel()
	answer := xml.Header + `<Result><Bucket>bucket</Bucket><ETag>"new"</ETag></Result>`
	for name, request := range map[string]func(b *Bucket) error{
		"copy": func(b *Bucket) error {
			_, err := b.Copy(t.Context(), "f", "old", "g", objectfs.Condition{Absent: true})
			return err
		},
		"copy of a part": func(b *Bucket) error {
			_, err := b.CopyPart(t.Context(), "g", "id", 1, "f", "old", 0, 3)
			return err
		},
		"completion": func(b *Bucket) error {
			parts := []objectfs.Part{{Number: 1, ETag: "one"}}
			_, err := b.Complete(t.Context(), "g", "id", parts, objectfs.Condition{Absent: true})
			return err
		},
		"list": func(b *Bucket) error {
			_, err := b.List(t.Context(), objectfs.Query{})
			return err
		},
		"parts": func(b *Bucket) error {
			_, _, err := b.ListParts(t.Context(), "g", "id", 0)
			return err
		},
		"upload": func(b *Bucket) error {
			_, err := b.CreateUpload(t.Context(), "g")
			return err
		},
	} {
		for _, cut := range []int{0, len(xml.Header) + 20} {
			for _, refused := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%t", name, cut, refused), func(t *testing.T) {
					t.Parallel()
					b, tries := cutting(t, answer, cut, refused)
					err := request(b)
					changes := name == "copy" || name == "completion"
					if tries.Load() < 2 || errors.Is(err, objectfs.ErrPrecondition) != refused ||
						!refused && err != nil ||
						errors.Is(err, server.ErrUnsure) != (refused && changes) {
						t.Errorf("after %d tries: %v", tries.Load(), err)
					}
				})
			}
		}
	}
}

// cutting returns a bucket whose first answer ends after some bytes. The later ones are whole, or
// refusals.
func cutting(t *testing.T, answer string, cut int, refuses bool) (*Bucket, *atomic.Int64) {
	var tries atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch n := tries.Add(1); {
		case n == 1:
			w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
			io.WriteString(w, answer[:cut])
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case refuses:
			w.WriteHeader(http.StatusPreconditionFailed)
			io.WriteString(w, "<Error><Code>PreconditionFailed</Code></Error>")
		default:
			io.WriteString(w, answer)
		}
	}))
	t.Cleanup(web.Close)
	b, err := New("bucket", config(web.URL))
	if err != nil {
		t.Fatal(err)
	}
	return b, &tries
}

// TestRepeatedChanges: a refusal of a change is sure if there was one try, and of no use if an
// earlier try may have made it.
func TestRepeatedChanges(t *testing.T) {
	t.Parallel()
	contents := io.NewSectionReader(strings.NewReader("abc"), 0, 3)
	for name, change := range map[string]func(b *Bucket) error{
		"put": func(b *Bucket) error {
			_, err := b.Put(t.Context(), "f", contents, objectfs.Condition{Absent: true})
			return err
		},
		"replace": func(b *Bucket) error {
			_, err := b.Put(t.Context(), "f", contents, objectfs.Condition{ETag: "old"})
			return err
		},
		"copy": func(b *Bucket) error {
			_, err := b.Copy(t.Context(), "f", "old", "g", objectfs.Condition{Absent: true})
			return err
		},
		"complete": func(b *Bucket) error {
			_, err := b.Complete(t.Context(), "f", "id", []objectfs.Part{{Number: 1, ETag: "1"}},
				objectfs.Condition{Absent: true})
			return err
		},
		"delete": func(b *Bucket) error { return b.Delete(t.Context(), "f", "old") },
	} {
		for _, lost := range []bool{false, true} {
			var tries atomic.Int64
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
				r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if r.Method == http.MethodHead {
					w.Header().Set("ETag", `"new"`)
					w.Header().Set("Content-Length", "3")
					w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
					return
				}
				if tries.Add(1) == 1 && lost {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(http.StatusPreconditionFailed)
				io.WriteString(w, "<Error><Code>PreconditionFailed</Code></Error>")
			}))
			b, err := New("bucket", config(web.URL))
			if err != nil {
				t.Fatal(err)
			}
			err = change(b)
			if !errors.Is(err, objectfs.ErrPrecondition) ||
				errors.Is(err, server.ErrUnsure) != lost {
				t.Errorf("%s, an answer is lost: %t: %v", name, lost, err)
			}
			web.Close()
		}
	}
}

// TestBodiesAreGivenBack: storage answers before it has read what it is sent, and then reads on.
// The owner of the body has it back with the answer.
func TestBodiesAreGivenBack(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 1)
	address := testenv.Listen(t, func(conn net.Conn) {
		defer func() { ended <- struct{}{} }()
		defer conn.Close()
		r := bufio.NewReader(conn)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		const denied = "<Error><Code>AccessDenied</Code></Error>"
		fmt.Fprintf(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%s", len(denied),
			denied)
		io.Copy(io.Discard, r)
	})
	unsigned := config("http://" + address.String())
	unsigned.Unsigned = true
	b, err := New("bucket", unsigned)
	if err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func(body *io.SectionReader) error{
		"Put": func(body *io.SectionReader) error {
			_, err := b.Put(t.Context(), "key", body, objectfs.Condition{})
			return err
		},
		"UploadPart": func(body *io.SectionReader) error {
			_, err := b.UploadPart(t.Context(), "key", "id", 1, body)
			return err
		},
	} {
		var body owned
		if err := send(io.NewSectionReader(&body, 0, 1<<32)); !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("%s: %v", name, err)
		}
		body.back.Store(true)
		<-ended
		if body.late.Load() {
			t.Errorf("%s: the body is read after the answer", name)
		}
	}
}

// owned is a long body that notices when it is read after it was given back.
type owned struct{ back, late atomic.Bool }

func (o *owned) ReadAt(p []byte, _ int64) (int, error) {
	if o.back.Load() {
		o.late.Store(true)
	}
	return len(p), nil
}

// TestConditionsNotImplemented: storage that has no conditions for what makes an object, and says
// so, is used as storage that ignores them.
func TestConditionsNotImplemented(t *testing.T) {
	t.Parallel()
	proxy := s3test.Proxy(t, s3test.Storage(t, "bucket"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Match") != "" &&
			r.Method != http.MethodGet {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusNotImplemented)
			io.WriteString(w, "<Error><Code>NotImplemented</Code></Error>")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b, err := New("bucket", config(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	unchecked, err := objectfs.Probe(t.Context(), b, "")
	if err != nil || len(unchecked) == 0 {
		t.Errorf("unchecked: %q, %v", unchecked, err)
	}
	u := &user{t, objectfs.New(b, nil)}
	for _, size := range []int{10, 6 << 20} {
		for range 2 {
			u.put("/f", text(size))
		}
		u.must(u.fs.Rename(t.Context(), "/f", "/g"))
		u.holds("/g", text(size))
		u.must(u.fs.Remove(t.Context(), "/g"))
	}
}

// testLatePart: the storage does not complete an upload of which a part was replaced by another one
// as long, and an object that is completed has the ETag that is expected.
func testLatePart(t *testing.T, s storage) {
	b, state := s.start(t), &objectfs.MemoryState{}
	u := &user{t, objectfs.New(b, &objectfs.Options{State: state})}
	late := func(name string) objectfs.Upload {
		pending, err := state.Find(t.Context(), name)
		u.must(err)
		body := strings.NewReader(text(5 << 20))
		_, err = b.UploadPart(t.Context(), pending.Target, pending.ID, 2,
			io.NewSectionReader(body, 0, body.Size()))
		u.must(err)
		return pending
	}
	long := text(20 << 20)
	u.put("/f.filepart", long)
	pending, err := state.Find(t.Context(), "f.filepart")
	u.must(err)
	u.must(u.fs.PosixRename(t.Context(), "/f.filepart", "/f"))
	if o, err := b.Head(t.Context(), "f"); err != nil || o.ETag != pending.ETag {
		t.Errorf("the object has the ETag %s, %v; want %s", o.ETag, err, pending.ETag)
	}
	u.put("/f.filepart", long[1:])
	late("f.filepart")
	if err := u.fs.PosixRename(t.Context(), "/f.filepart", "/f"); err == nil {
		t.Error("a finished upload has its name although a part was replaced")
	}
	u.holds("/f", long)
	w := u.open("/g", wire.OpenWrite|wire.OpenCreate)
	u.write(w, 0, long)
	u.must(w.(server.FileSetstater).Setstat(wire.Attrs{Flags: wire.AttrSize, Size: 20 << 20}))
	late("g")
	if err := w.Close(); err == nil {
		t.Error("a file is closed although a part was replaced")
	}
}
