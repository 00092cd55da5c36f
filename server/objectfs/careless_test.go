package objectfs_test

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// meanwhile is a bucket that checks no conditions, and where somebody acts just before an object is
// made of parts or of another object.
type meanwhile struct {
	careless
	act func()
}

func (m meanwhile) Copy(ctx context.Context, from, etag, to string,
	when objectfs.Condition) (objectfs.Object, error) {
	m.act()
	return m.careless.Copy(ctx, from, etag, to, when)
}

func (m meanwhile) Complete(ctx context.Context, key, id string, parts []objectfs.Part,
	when objectfs.Condition) (objectfs.Object, error) {
	m.act()
	return m.careless.Complete(ctx, key, id, parts, when)
}

// TestOneOfTwo: of two servers that make the same new file at once, one fails, although the storage
// checks no conditions.
func TestOneOfTwo(t *testing.T) {
	ctx := context.Background()
	for _, one := range []struct {
		name, source string
		size         int
		do           func(b *bench, f *objectfs.FS) error
	}{
		{"rename of a finished upload", "/f.filepart", 5 * partSize,
			func(_ *bench, f *objectfs.FS) error { return f.Rename(ctx, "/f.filepart", "/f") }},
		{"rename of a finished upload to another name", "/g.filepart", 5 * partSize,
			func(_ *bench, f *objectfs.FS) error { return f.Rename(ctx, "/g.filepart", "/f") }},
		{"rename of a file", "/g", 5,
			func(_ *bench, f *objectfs.FS) error { return f.Rename(ctx, "/g", "/f") }},
		{"a new file", "/g", 5 * partSize, func(b *bench, f *objectfs.FS) error {
			b.fs, f = f, b.fs
			defer func() { b.fs = f }()
			b.put("/f", text(5*partSize))
			return nil
		}},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := newBench(t)
			b.put(one.source, text(one.size))
			other := b.fs
			act := sync.OnceFunc(func() {
				_, err := other.Open(ctx, "/f", create|wire.OpenExclusive, wire.Attrs{})
				b.is(err, objectfs.ErrLocked)
				if err := other.Rename(ctx, one.source, "/f"); err == nil {
					t.Error("it is renamed by another server, too")
				}
			})
			err := one.do(b, b.serve(meanwhile{careless{Bucket: b.bucket}, act}))
			b.must(err)
			b.holds("/f", text(one.size))
		})
	}
	t.Run("one that has just come", func(t *testing.T) {
		b := newBench(t)
		b.put("/g", "old")
		late := b.serve(&lateFound{Bucket: careless{Bucket: b.bucket}, come: sync.OnceFunc(func() {
			b.put("/f", "new")
		})})
		if err := late.Rename(ctx, "/g", "/f"); err == nil || errors.Is(err, objectfs.ErrLocked) {
			t.Errorf("renamed to a file that has just come: %v", err)
		}
		b.holds("/f", "new")
		b.holds("/g", "old")
	})
}

// TestOtherNameOfAnUpload: an upload under a temporary name that is renamed to another than its own
// replaces no file of that, although the storage checks no conditions.
func TestOtherNameOfAnUpload(t *testing.T) {
	b := newBench(t)
	b.put("/f", "old")
	b.put("/f.filepart", text(5*partSize))
	f := b.serve(careless{Bucket: b.bucket})
	b.is(f.Rename(t.Context(), "/f.filepart", "/g"), fs.ErrExist)
	b.is(f.PosixRename(t.Context(), "/f.filepart", "/g"), fs.ErrExist)
	b.holds("/f", "old")
	b.missing("/g")
	b.must(f.PosixRename(t.Context(), "/f.filepart", "/f"))
	b.holds("/f", text(5*partSize))
}

// lateFound is a bucket where a file comes just after it was looked for.
type lateFound struct {
	objectfs.Bucket
	come func()
}

func (l *lateFound) Head(ctx context.Context, key string) (objectfs.Object, error) {
	o, err := l.Bucket.Head(ctx, key)
	if key == "f" {
		l.come()
	}
	return o, err
}
