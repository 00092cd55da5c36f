package objectfs_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
)

// careless is a bucket that checks no conditions, except for GET unless reads is set.
type careless struct {
	objectfs.Bucket
	reads bool
}

func (c careless) current(ctx context.Context, key string) string {
	o, _ := c.Bucket.Head(ctx, key)
	return o.ETag
}

func (c careless) Get(ctx context.Context, key, etag string, offset,
	length int64) (io.ReadCloser, error) {
	if c.reads {
		etag = c.current(ctx, key)
	}
	return c.Bucket.Get(ctx, key, etag, offset, length)
}

func (c careless) Put(ctx context.Context, key string, body *io.SectionReader,
	_ objectfs.Condition) (objectfs.Object, error) {
	return c.Bucket.Put(ctx, key, body, objectfs.Condition{})
}

func (c careless) Copy(ctx context.Context, from, _, to string,
	_ objectfs.Condition) (objectfs.Object, error) {
	return c.Bucket.Copy(ctx, from, c.current(ctx, from), to, objectfs.Condition{})
}

func (c careless) CopyPart(ctx context.Context, key, id string, number int, from, _ string,
	offset, length int64) (objectfs.Part, error) {
	return c.Bucket.CopyPart(ctx, key, id, number, from, c.current(ctx, from), offset, length)
}

func (c careless) Complete(ctx context.Context, key, id string, parts []objectfs.Part,
	_ objectfs.Condition) (objectfs.Object, error) {
	stored, _, _ := c.Bucket.ListParts(ctx, key, id, 0)
	parts = slices.Clone(parts)
	for i, p := range parts {
		for _, now := range stored {
			if now.Number == p.Number {
				parts[i].ETag = now.ETag
			}
		}
	}
	return c.Bucket.Complete(ctx, key, id, parts, objectfs.Condition{})
}

func (c careless) Delete(ctx context.Context, key, _ string) error {
	return c.Bucket.Delete(ctx, key, "")
}

func TestProbe(t *testing.T) {
	for _, one := range []struct {
		name   string
		wrap   func(b objectfs.Bucket) objectfs.Bucket
		lines  int
		unsafe string
	}{
		{"S3", func(b objectfs.Bucket) objectfs.Bucket { return b }, 0, ""},
		{"without conditions", func(b objectfs.Bucket) objectfs.Bucket {
			return careless{b, false}
		}, 8, ""},
		{"without conditions of GET", func(b objectfs.Bucket) objectfs.Bucket {
			return careless{b, true}
		}, 0, "If-Match"},
		{"short answers", func(b objectfs.Bucket) objectfs.Bucket { return liar{b} }, 0, "range"},
		{"no connection", func(b objectfs.Bucket) objectfs.Bucket {
			return &faulty{Bucket: b, broken: 1}
		}, 0, errFault.Error()},
		{"a lost part", func(b objectfs.Bucket) objectfs.Bucket {
			return &faulty{Bucket: b, broken: 12, after: true}
		}, 0, errFault.Error()},
	} {
		bucket := &membucket.Bucket{}
		lines, err := objectfs.Probe(context.Background(), one.wrap(bucket), "p/")
		if len(lines) != one.lines || (err != nil) != (one.unsafe != "") ||
			err != nil && !strings.Contains(err.Error(), one.unsafe) {
			t.Errorf("%s: %q, %v", one.name, lines, err)
		}
		if left := len(bucket.Objects()) + bucket.Uploads(); left != 0 {
			t.Errorf("%s: %d objects and uploads are left", one.name, left)
		}
	}
}
