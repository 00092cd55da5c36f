package objectfs_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// liar is a bucket that does not keep to what S3 promises.
type liar struct{ objectfs.Bucket }

// Get ends early.
func (l liar) Get(ctx context.Context, key, etag string, offset,
	length int64) (io.ReadCloser, error) {
	if length == 1 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	return l.Bucket.Get(ctx, key, etag, offset, length/2)
}

// UploadPart says nothing of the part.
func (l liar) UploadPart(ctx context.Context, key, id string, number int,
	body *io.SectionReader) (objectfs.Part, error) {
	part, err := l.Bucket.UploadPart(ctx, key, id, number, body)
	return objectfs.Part{ETag: part.ETag}, err
}

// List repeats its first page.
func (l liar) List(ctx context.Context, q objectfs.Query) (objectfs.Page, error) {
	q.Token = ""
	page, err := l.Bucket.List(ctx, q)
	page.Next = "again"
	return page, err
}

func TestLies(t *testing.T) {
	b := newBench(t)
	b.put("/f", text(300<<10))
	b.fs = b.serve(liar{b.bucket})
	f, err := b.open("/f", wire.OpenRead)
	b.must(err)
	defer f.Close()
	for _, offset := range []int64{0, 1, 200 << 10, 300<<10 - 1} {
		n, err := f.(io.ReaderAt).ReadAt(make([]byte, 1), offset)
		if n == 0 && (err == nil || err == io.EOF) {
			t.Errorf("a READ at %d that ends early is taken for the end of the file", offset)
		}
	}
	if got, err := b.get("/f"); err == nil {
		t.Errorf("%d of %d bytes were read, and no error", len(got), 300<<10)
	}
	b.put("/g", text(5*partSize))
	if got := b.bucket.Objects()["g"]; got != text(5*partSize) {
		t.Errorf("/g has %d bytes", len(got))
	}
	var last error
	for _, last = range b.fs.List(context.Background(), "/") {
	}
	if last == nil {
		t.Error("a listing that repeats itself has no error")
	}
}

// gappy is a bucket whose listings have an empty page before each other one, as some storage does
// when it has looked for the next key for long.
type gappy struct{ objectfs.Bucket }

func (g gappy) List(ctx context.Context, q objectfs.Query) (objectfs.Page, error) {
	token, filled := strings.CutPrefix(q.Token, "filled ")
	if !filled {
		return objectfs.Page{Next: "filled " + strings.TrimPrefix(q.Token, "empty ")}, nil
	}
	q.Token = token
	page, err := g.Bucket.List(ctx, q)
	if page.Next != "" {
		page.Next = "empty " + page.Next
	}
	return page, err
}

// TestEmptyPages: an empty page is not the end of a listing.
func TestEmptyPages(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for _, dir := range []string{"/d", "/e"} {
		b.must(b.fs.Mkdir(ctx, dir, wire.Attrs{}))
		b.put(dir+"/f", dir)
	}
	b.fs = b.serve(gappy{b.bucket})
	if info, err := b.fs.Stat(ctx, "/d"); err != nil || !info.IsDir() {
		t.Errorf("the directory is %+v, %v", info, err)
	}
	b.missing("/none")
	for dir, want := range map[string]string{"/": "d/ e/", "/d": "f"} {
		if got := strings.Join(b.list(dir), " "); got != want {
			t.Errorf("%s holds %q, want %q", dir, got, want)
		}
	}
	if err := b.fs.Rmdir(ctx, "/d"); err == nil {
		t.Error("a directory with a file is empty")
	}
	if err := b.fs.PosixRename(ctx, "/e", "/d"); err == nil {
		t.Error("a directory with a file is replaced")
	}
	b.holds("/d/f", "/d")
	b.holds("/e/f", "/e")
}

// circular is a bucket whose listings start over after some pages.
type circular struct {
	objectfs.Bucket
	pages  int
	filled bool
	asked  *int
}

func (c circular) next(token string) string {
	*c.asked++
	n, _ := strconv.Atoi(token)
	return strconv.Itoa(n%c.pages + 1)
}

func (c circular) List(ctx context.Context, q objectfs.Query) (page objectfs.Page, err error) {
	next := c.next(q.Token)
	if q.Token = ""; c.filled {
		page, err = c.Bucket.List(ctx, q)
	}
	page.Next = next
	if *c.asked > 10*c.pages {
		err = errors.New("asked far too often")
	}
	return page, err
}

func (c circular) ListUploads(ctx context.Context, prefix,
	token string) (list []objectfs.Started, next string, err error) {
	if next = c.next(token); *c.asked > 10*c.pages {
		err = errors.New("asked far too often")
	}
	return nil, next, err
}

// TestCircularListings: a listing that starts over, after one page or several, ends with an error.
func TestCircularListings(t *testing.T) {
	for _, pages := range []int{1, 2, 3, 7, 100} {
		for _, filled := range []bool{false, true} {
			b := newBench(t)
			b.put("/f", "text")
			asked := 0
			fs := b.serve(circular{b.bucket, pages, filled, &asked})
			for what, do := range map[string]func() error{
				"a listing": func() (err error) {
					for _, err = range fs.List(t.Context(), "/") {
					}
					return err
				},
				"a count": func() error {
					_, _, err := fs.Count(t.Context(), "/")
					return err
				},
				"a sweep": func() error { return fs.Sweep(t.Context(), 0) },
			} {
				asked = 0
				if err := do(); err == nil || !strings.Contains(err.Error(), "repeats") {
					t.Errorf("%d pages, filled: %t: %s: %v", pages, filled, what, err)
				}
			}
		}
	}
}

// forgetful is a bucket that acknowledges copies and makes none, or only half of each.
type forgetful struct {
	objectfs.Bucket
	etag string // that it tells
	half bool
}

func (f forgetful) Copy(ctx context.Context, from, _, to string,
	when objectfs.Condition) (objectfs.Object, error) {
	made := objectfs.Object{Key: to, ETag: f.etag}
	if !f.half {
		return made, nil
	}
	o, err := f.Head(ctx, from)
	if err == nil {
		half := io.NewSectionReader(strings.NewReader(text(int(o.Size))), 0, o.Size/2)
		made, err = f.Put(ctx, to, half, when)
	}
	return made, err
}

// TestCopiesThatAreNone: a rename deletes nothing of which there is no whole copy.
func TestCopiesThatAreNone(t *testing.T) {
	const size = 300
	for _, one := range []struct {
		name   string
		bucket forgetful
	}{
		{"no ETag", forgetful{}},
		{"an ETag", forgetful{etag: "0123456789abcdef0123456789abcdef"}},
		{"half", forgetful{half: true}},
	} {
		for _, old := range []bool{true, false} {
			for _, dir := range []bool{true, false} {
				b := newBench(t)
				b.must(b.fs.Mkdir(t.Context(), "/a", wire.Attrs{}))
				b.put("/a/f", text(size))
				b.put("/u.filepart", text(5*partSize))
				from, to := "/a/f", "/g"
				if dir {
					from, to = "/a", "/b"
				}
				if old && !dir {
					b.put(to, "old")
				}
				one.bucket.Bucket = b.bucket
				lying := b.serve(one.bucket)
				if err := lying.PosixRename(t.Context(), from, to); !errors.Is(err, server.ErrUnsure) {
					t.Errorf("%s, old: %t, directory: %t: %v", one.name, old, dir, err)
				}
				if err := lying.PosixRename(t.Context(), "/u.filepart", "/v"); err == nil {
					t.Errorf("%s: an upload got another name", one.name)
				}
				b.holds("/a/f", text(size))
				b.holds("/u", text(5*partSize))
				if old && !dir && !one.bucket.half {
					b.holds(to, "old")
				}
			}
		}
	}
}
