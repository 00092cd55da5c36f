package objectfs_test

import (
	"context"
	"testing"

	"github.com/usftp/usftp/server/objectfs"
)

// overtaken is storage whose first description of an object is old by the time that it comes.
type overtaken struct {
	objectfs.Bucket
	meanwhile func()
}

func (o *overtaken) Head(ctx context.Context, key string) (objectfs.Object, error) {
	object, err := o.Bucket.Head(ctx, key)
	if run := o.meanwhile; run != nil {
		o.meanwhile = nil
		run()
	}
	return object, err
}

// TestSetTimeOfReplacedFile: the time is set for the file that is there in the end, and no file
// loses its own.
func TestSetTimeOfReplacedFile(t *testing.T) {
	b := newBench(t)
	b.put("/f", "old")
	other := b.serve(&overtaken{b.bucket, func() {
		w := b.write("/f", truncate)
		b.at(w, 0, "new one")
		b.must(w.Setstat(timed(2001)))
		b.must(w.Close())
	}})
	b.must(other.Setstat(t.Context(), "/f", timed(1999)))
	info, err := b.fs.Stat(t.Context(), "/f")
	b.must(err)
	if at := info.ModTime().Unix(); at != 1999 { // the request ended last
		t.Errorf("the time is %d, want 1999", at)
	}
}
