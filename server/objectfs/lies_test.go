package objectfs_test

import (
	"context"
	"io"
	"strings"
	"testing"

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
