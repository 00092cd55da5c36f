package objectfs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// listed is a bucket to which something happens when it is listed, for the first time.
type listed struct {
	objectfs.Bucket
	happens func()
}

func (l *listed) List(ctx context.Context, q objectfs.Query) (objectfs.Page, error) {
	if happens := l.happens; happens != nil {
		l.happens = nil
		happens()
	}
	return l.Bucket.List(ctx, q)
}

// TestMkdirFaults: whichever call of MKDIR fails, a client that is told that there is a directory
// already has not made it, and the quota counts what is there.
func TestMkdirFaults(t *testing.T) {
	for call, failed := 1, true; failed; call++ {
		for _, broken := range []*faulty{{}, {after: true}, {after: true, twice: true},
			{after: true, twice: true, gone: true}} {
			b := newBench(t)
			broken.Bucket = b.bucket
			view, quota := b.quoted(broken)
			broken.call, broken.broken = 0, call
			err := view.Mkdir(t.Context(), "/d", wire.Attrs{})
			failed = broken.name != ""
			_, made := b.bucket.Objects()["d/"]
			if err == nil && !made || errors.Is(err, fs.ErrExist) || err != nil && broken.twice && !broken.gone {
				t.Errorf("call %d, %s (after: %t, twice: %t): the client is told %v", call,
					broken.name, broken.after, broken.twice, err)
			}
			bytes, files := quota.Usage()
			b.must(quota.Recount(t.Context(), b.fs, "/"))
			if nowBytes, now := quota.Usage(); !errors.Is(err, server.ErrUnsure) &&
				(nowBytes != bytes || now != files) {
				t.Errorf("call %d, %s (after: %t, twice: %t): %d files are kept, %d are there", call,
					broken.name, broken.after, broken.twice, files, now)
			}
		}
	}
}

// TestMkdirOfAnUpload: no directory is made beside a file whose upload ends just then.
func TestMkdirOfAnUpload(t *testing.T) {
	for _, later := range []bool{false, true} {
		b := newBench(t)
		w := b.write("/d", truncate)
		b.at(w, 0, "text")
		end := func() { b.must(w.Close()) }
		storage := &listed{b.bucket, end}
		if later {
			storage.happens = nil
		}
		err := b.serve(storage).Mkdir(t.Context(), "/d", wire.Attrs{})
		if later || storage.happens != nil { // or nothing was listed
			end()
		}
		if _, both := b.bucket.Objects()["d/"]; both || err == nil {
			t.Errorf("later: %t: there are a file and a directory of one name: %t, %v", later, both,
				err)
		}
	}
}

// TestMkdirTwice: of two servers that make one directory, the one that sleeps and wakes late does
// not say that it has made it.
func TestMkdirTwice(t *testing.T) {
	b := newBench(t)
	slow := &faulty{Bucket: b.bucket}
	late := b.serve(slow)
	for slow.broken = 1; slow.name != "Put"; slow.broken++ {
		slow.call = 0
		b.bucket.Delete(t.Context(), "d/", "")
		slow.sleep = func() {
			u, err := b.state.Find(t.Context(), "d")
			if err == nil {
				b.must(b.state.Unlock(t.Context(), u, false)) // as others do with a dead one's
			}
			b.must(b.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
		}
		if err := late.Mkdir(t.Context(), "/d", wire.Attrs{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: the late one is told %v", slow.name, err)
		}
	}
}

// TestRenameOntoAnUpload: no directory gets the name of a file whose upload begins just then.
func TestRenameOntoAnUpload(t *testing.T) {
	b := newBench(t)
	b.must(b.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
	var w writer
	storage := &listed{b.bucket, func() { w = b.write("/f", truncate) }}
	err := b.serve(storage).PosixRename(t.Context(), "/d", "/f")
	b.must(w.Close())
	if _, both := b.bucket.Objects()["f/"]; both || !errors.Is(err, objectfs.ErrLocked) {
		t.Errorf("there are a file and a directory of one name: %t, %v", both, err)
	}
}

// TestStatDuringMkdir: what is about to be a directory is no file, and if the server that makes it
// dies then, its name is free for one.
func TestStatDuringMkdir(t *testing.T) {
	b := newBench(t)
	b.must(b.fs.Mkdir(t.Context(), "/old", wire.Attrs{}))
	for name, makes := range map[string]step{
		"/d": func(b *bench) error { return b.fs.Mkdir(t.Context(), "/d", wire.Attrs{}) },
		"/e": rename("/old", "/e"),
	} {
		sound := b.fs
		b.fs = b.serve(&putting{b.bucket, func() {
			if _, err := sound.Stat(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("while %s is made: %v", name, err)
			}
		}})
		b.must(makes(b))
		b.fs = sound
	}
	u, err := b.state.Lock(t.Context(), "f", "")
	b.must(err)
	u.Target = "f/"
	b.must(b.state.Update(t.Context(), u))
	b.must(b.state.Unlock(t.Context(), u, true)) // as others do with a dead one's
	b.put("/f", text(5*partSize))
	b.holds("/f", text(5*partSize))
}

// putting is a bucket to which something happens before each PUT.
type putting struct {
	objectfs.Bucket
	happens func()
}

func (p *putting) Put(ctx context.Context, key string, body *io.SectionReader,
	when objectfs.Condition) (objectfs.Object, error) {
	p.happens()
	return p.Bucket.Put(ctx, key, body, when)
}

// TestStatDuringRename: while a directory is renamed, its files that have gone are not there as
// uploads.
func TestStatDuringRename(t *testing.T) {
	b := newBench(t)
	const files, atOnce = 40, 8
	b.must(b.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
	for i := range files {
		b.put(fmt.Sprint("/d/", i), "text")
	}
	var mu sync.Mutex
	storage := &intruder{b.bucket, "Delete", false, func() {
		mu.Lock()
		defer mu.Unlock()
		objects, seen := b.bucket.Objects(), 0
		for i := range files {
			_, err := b.fs.Stat(t.Context(), fmt.Sprint("/d/", i))
			if _, there := objects[fmt.Sprint("d/", i)]; err == nil && !there {
				seen++
			}
		}
		if seen > atOnce {
			t.Errorf("%d files that have gone are still seen", seen)
		}
	}}
	b.must(b.serve(storage).PosixRename(t.Context(), "/d", "/e"))
}
