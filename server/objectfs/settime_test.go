package objectfs_test

import (
	"context"
	"testing"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
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

// TestSetTimeOfReadHandle: a handle sets the time of the file that it reads, and not that of another
// that has its name by now.
func TestSetTimeOfReadHandle(t *testing.T) {
	b := newBench(t)
	b.put("/f", "old")
	r, err := b.open("/f", wire.OpenRead)
	b.must(err)
	defer r.Close()
	b.must(r.(file).Setstat(timed(1e9)))
	mtime := func() int64 {
		info, err := b.fs.Stat(t.Context(), "/f")
		b.must(err)
		return info.ModTime().Unix()
	}
	if got := mtime(); got != 1e9 {
		t.Errorf("the time is %d", got)
	}
	b.put("/f", "new")
	if err := r.(file).Setstat(timed(1e9)); err == nil || mtime() == 1e9 {
		t.Errorf("the new file has the time %d, and the client is told %v", mtime(), err)
	}
	b.must(b.fs.Remove(t.Context(), "/f"))
	w := b.write("/f", truncate)
	b.at(w, 0, text(4*partSize))
	b.must(w.Abandon())
	if err := r.(file).Setstat(timed(1e9)); err == nil || mtime() == 1e9 {
		t.Errorf("the upload has the time %d, and the client is told %v", mtime(), err)
	}
}

// TestSetTimeAfterSleep: a server that has slept so long that others were given the right to write,
// and have stored a file with a time, leaves that time alone.
func TestSetTimeAfterSleep(t *testing.T) {
	for name, handle := range map[string]bool{"by name": false, "by handle": true} {
		b := newBench(t)
		b.put("/f", "old")
		newer := func() {
			u, err := b.state.Find(t.Context(), "f")
			b.must(err)
			b.must(b.state.Unlock(t.Context(), u, false)) // as others do with a dead one's
			w := b.write("/f", truncate)
			b.at(w, 0, "newer")
			b.must(w.Setstat(timed(2e9)))
			b.must(w.Close())
		}
		var err error
		if handle {
			w := b.write("/f", wire.OpenWrite)
			b.must(w.Setstat(timed(1e9)))
			newer()
			err = w.Close()
		} else {
			bucket := &faulty{Bucket: b.bucket, broken: 2, after: true, sleep: newer}
			err = b.serve(bucket).Setstat(t.Context(), "/f", timed(1e9))
		}
		b.is(err, objectfs.ErrLocked)
		info, err := b.fs.Stat(t.Context(), "/f")
		b.must(err)
		if got := info.ModTime().Unix(); got != 2e9 {
			t.Errorf("%s: the time of the newer file is %d", name, got)
		}
	}
}
