package objectfs_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// sleeper is a bucket during one of whose requests the server sleeps, and others act.
type sleeper struct {
	objectfs.Bucket
	sleep func() // when a copy was made and looked at, or both parts were sent
	moves atomic.Bool
	key   string // of what is copied
	sent  atomic.Int32
}

func (s *sleeper) Copy(ctx context.Context, from, etag, to string,
	when objectfs.Condition) (objectfs.Object, error) {
	s.moves.Store(true)
	return s.Bucket.Copy(ctx, from, etag, to, when)
}

func (s *sleeper) Head(ctx context.Context, key string) (objectfs.Object, error) {
	o, err := s.Bucket.Head(ctx, key)
	if s.moves.Load() && key == s.key {
		s.sleep()
	}
	return o, err
}

func (s *sleeper) UploadPart(ctx context.Context, key, id string, number int,
	body *io.SectionReader) (objectfs.Part, error) {
	p, err := s.Bucket.UploadPart(ctx, key, id, number, body)
	if s.sent.Add(1) == 2 {
		s.sleep()
	}
	return p, err
}

// TestSleep: a server sleeps so long that others take it for dead, and store a file where it is
// about to delete one. It does not delete theirs.
func TestSleep(t *testing.T) {
	ctx := context.Background()
	for _, one := range []struct {
		name, file string
		do         func(b *bench, asleep *objectfs.FS) error
	}{
		{"rename", "/d/f", func(b *bench, asleep *objectfs.FS) error {
			return asleep.PosixRename(ctx, "/d/f", "/d/g")
		}},
		{"rename of a directory", "/d/f", func(b *bench, asleep *objectfs.FS) error {
			return asleep.Rename(ctx, "/d", "/e")
		}},
		{"a temporary file that becomes long", "/d/f.filepart",
			func(b *bench, asleep *objectfs.FS) error {
				f, err := asleep.Open(ctx, "/d/f.filepart", truncate, wire.Attrs{})
				b.must(err)
				b.at(f.(io.WriterAt), 0, text(2*partSize))
				return f.(writer).Close()
			}},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := newBench(t)
			b.must(b.fs.Mkdir(ctx, "/d", wire.Attrs{}))
			b.put(one.file, "old")
			act := sync.OnceFunc(func() {
				if _, err := b.open(one.file, truncate); !errors.Is(err, objectfs.ErrLocked) {
					t.Errorf("somebody else may write meanwhile: %v", err)
				}
				u, err := b.state.Find(ctx, one.file[1:])
				b.must(err)
				b.must(b.state.Unlock(ctx, u, u.ID != "")) // as others do with what a dead one had
				b.put(one.file, "newer")
			})
			asleep := b.serve(&sleeper{Bucket: b.bucket, sleep: act, key: one.file[1:]})
			if err := one.do(b, asleep); err == nil {
				t.Error("the server that has slept says that it has done it")
			}
			b.holds(one.file, "newer")
		})
	}
}

// TestSleepBeforeRemoval: a server that removes or moves a file because it is old sleeps at any
// moment until another one has stored a newer file there. That stays.
func TestSleepBeforeRemoval(t *testing.T) {
	for _, one := range []struct{ name, old string }{
		{"/f", "old"},
		{"/f.filepart", text(3 * partSize)}, // a finished upload
	} {
		for _, newer := range []string{"newer", text(4 * partSize)} {
			for _, moved := range []bool{false, true} {
				for call, reached := 1, true; reached; call++ {
					for _, after := range []bool{false, true} {
						reached = sleepBeforeRemoval(t, one.name, one.old, newer, moved, call, after)
					}
				}
			}
		}
	}
}

// sleepBeforeRemoval has the server sleep at a call of the bucket, before it or after it, and
// reports whether there is such a call.
func sleepBeforeRemoval(t *testing.T, name, old, newer string, moved bool, call int,
	after bool) (reached bool) {
	b := newBench(t)
	b.put(name, old)
	ctx := server.WithCondition(t.Context(), func(now fs.FileInfo) error {
		if now.Size() != int64(len(old)) {
			return errors.New("it is a newer one")
		}
		return nil
	})
	bucket := &faulty{Bucket: b.bucket, broken: call, after: after, sleep: func() {
		if u, err := b.state.Find(ctx, name[1:]); err == nil && u.Locked {
			b.must(b.state.Unlock(ctx, u, u.ID != "")) // as others do with a dead one's
		}
		b.put(name, newer)
	}}
	asleep := b.serve(bucket)
	var said error
	if moved {
		said = asleep.Rename(ctx, name, "/g")
	} else {
		said = asleep.Remove(ctx, name)
	}
	if bucket.name == "" {
		b.must(said)
		b.missing(name)
		return false
	}
	err := b.fs.PosixRename(t.Context(), name, "/f") // a finished upload cannot be read before
	if got, _ := b.get("/f"); err != nil || got != newer {
		t.Errorf("%s, moved: %t, asleep at call %d, %s (after: %t): %d bytes are there, %v; it says "+
			"%v", name, moved, call, bucket.name, after, len(got), err, said)
	}
	return true
}

// TestSleepOnCarelessStorage: a server finds a file, and sleeps until another one has stored a newer
// one there. It does not delete that even where the storage would.
func TestSleepOnCarelessStorage(t *testing.T) {
	b := newBench(t)
	b.put("/f", "old")
	found := func() {
		u, err := b.state.Find(t.Context(), "f")
		b.must(err)
		b.must(b.state.Unlock(t.Context(), u, false)) // as others do with a dead one's
		b.put("/f", "newer")
	}
	bucket := careless{&faulty{Bucket: b.bucket, broken: 1, after: true, sleep: found}, false}
	if err := b.serve(bucket).Remove(t.Context(), "/f"); err == nil {
		t.Error("the server that has slept says that it has removed the file")
	}
	b.holds("/f", "newer")
}

// TestHeldUpRemoval: the request that deletes a file is held up until somebody else has been given
// the right to write, and has stored a file there. It does not delete that.
func TestHeldUpRemoval(t *testing.T) {
	b := newBench(t)
	b.put("/f", "old")
	bucket := &faulty{Bucket: b.bucket, broken: 2, sleep: func() {
		u, err := b.state.Find(t.Context(), "f")
		b.must(err)
		b.must(b.state.Unlock(t.Context(), u, false)) // as others do with a dead one's
		b.put("/f", "newer")
	}}
	if err := b.serve(bucket).Remove(t.Context(), "/f"); err == nil ||
		errors.Is(err, server.ErrUnsure) {
		t.Errorf("the client is told %v", err)
	}
	if bucket.name != "Delete" {
		t.Errorf("it was held up at %s", bucket.name)
	}
	b.holds("/f", "newer")
}

// deleting is a bucket that tells when it has deleted an object.
type deleting struct {
	objectfs.Bucket
	deleted func()
}

func (d *deleting) Delete(ctx context.Context, key, etag string) error {
	err := d.Bucket.Delete(ctx, key, etag)
	d.deleted()
	return err
}

// TestRemovalLeavesNewerTime: an object was deleted, and before its time is cleared somebody else
// stores another there, with a time. That stays.
func TestRemovalLeavesNewerTime(t *testing.T) {
	for name, do := range map[string]func(f *objectfs.FS) error{
		"removed": func(f *objectfs.FS) error { return f.Remove(t.Context(), "/f") },
		"moved":   func(f *objectfs.FS) error { return f.Rename(t.Context(), "/f", "/g") },
	} {
		b := newBench(t)
		b.put("/f", "old")
		b.must(b.fs.Setstat(t.Context(), "/f", timed(1e9)))
		bucket := &deleting{Bucket: b.bucket, deleted: func() {
			if u, err := b.state.Find(t.Context(), "f"); err == nil {
				b.must(b.state.Unlock(t.Context(), u, false)) // as others do with a dead one's
			}
			w := b.write("/f", truncate)
			b.at(w, 0, "newer")
			b.must(w.Setstat(timed(2e9)))
			b.must(w.Close())
		}}
		b.must(do(b.serve(bucket)))
		info, err := b.fs.Stat(t.Context(), "/f")
		b.must(err)
		if got := info.ModTime().Unix(); got != 2e9 {
			t.Errorf("%s: the time of the newer file is %d", name, got)
		}
		b.must(b.fs.Remove(t.Context(), "/f"))
		if times, err := b.state.Times(t.Context(), []string{"f"}); err != nil || len(times) != 0 {
			t.Errorf("%s: times are left: %v, %v", name, times, err)
		}
	}
}

// TestSleeperLeavesUploadAlone: a server that slept so long that others go on with its upload does
// not drop that, however its own file ends.
func TestSleeperLeavesUploadAlone(t *testing.T) {
	for name, end := range map[string]func(w writer) error{
		"abandoned": writer.Abandon,
		"discarded": func(w writer) error { return w.(server.FileDiscarder).Discard() },
		"closed, shorter": func(w writer) error {
			if err := w.Setstat(wire.Attrs{Flags: wire.AttrSize}); err != nil {
				return err
			}
			return w.Close()
		},
	} {
		b := newBench(t)
		asleep := b.write("/f", truncate)
		b.at(asleep, 0, text(partSize))
		b.must(asleep.Setstat(wire.Attrs{Flags: wire.AttrSize, Size: partSize})) // waits for it
		u, err := b.state.Find(t.Context(), "f")
		b.must(err)
		b.must(b.state.Unlock(t.Context(), u, true)) // as others do that take it for dead
		awake := b.write("/f", create)
		b.at(awake, 0, text(4*partSize))
		if err := end(asleep); name == "closed, shorter" {
			b.is(err, objectfs.ErrLocked)
		}
		if err := awake.Close(); err != nil {
			t.Errorf("%s: who went on is told %v", name, err)
		}
		b.holds("/f", text(4*partSize))
	}
}
