package objectfs_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// faulty is a bucket one of whose calls fails: before the storage has done anything, or after it
// has done it all. With sleep, the server sleeps then, and the call does not fail. With twice, its
// answer is lost, and the call is made again, as s3bucket does.
type faulty struct {
	objectfs.Bucket

	mu     sync.Mutex
	call   int // counts
	broken int // the call that fails, from 1
	after  bool
	twice  bool
	gone   bool   // no later call is answered
	name   string // of the call that has failed
	sleep  func()
}

var errFault = errors.New("the connection to the storage was lost")

func faultyCall[T any](b *faulty, name string, call func() (T, error)) (result T, err error) {
	b.mu.Lock()
	b.call++
	breaks, gone := b.call == b.broken, b.gone && b.call > b.broken
	if breaks {
		b.name = name
	}
	b.mu.Unlock()
	if gone {
		return *new(T), errFault
	}
	if !breaks {
		return call()
	}
	if b.sleep != nil && !b.after {
		b.sleep()
		return call()
	}
	if b.after {
		result, err = call()
	}
	if b.twice {
		if result, err = call(); name != "Head" && name != "Get" &&
			(errors.Is(err, objectfs.ErrPrecondition) || errors.Is(err, fs.ErrNotExist)) {
			err = server.Unsure(err)
		}
		return result, err
	}
	if b.sleep != nil {
		b.sleep()
		return result, err
	}
	return *new(T), errFault
}

type none struct{}

func (b *faulty) Head(ctx context.Context, key string) (objectfs.Object, error) {
	return faultyCall(b, "Head", func() (objectfs.Object, error) { return b.Bucket.Head(ctx, key) })
}

func (b *faulty) Get(ctx context.Context, key, etag string, offset,
	length int64) (io.ReadCloser, error) {
	return faultyCall(b, "Get", func() (io.ReadCloser, error) {
		return b.Bucket.Get(ctx, key, etag, offset, length)
	})
}

func (b *faulty) Put(ctx context.Context, key string, body *io.SectionReader,
	when objectfs.Condition) (objectfs.Object, error) {
	return faultyCall(b, "Put", func() (objectfs.Object, error) {
		return b.Bucket.Put(ctx, key, io.NewSectionReader(body.Outer()), when)
	})
}

func (b *faulty) Delete(ctx context.Context, key, etag string) error {
	_, err := faultyCall(b, "Delete", func() (none, error) {
		return none{}, b.Bucket.Delete(ctx, key, etag)
	})
	return err
}

func (b *faulty) List(ctx context.Context, q objectfs.Query) (objectfs.Page, error) {
	return faultyCall(b, "List", func() (objectfs.Page, error) { return b.Bucket.List(ctx, q) })
}

func (b *faulty) Copy(ctx context.Context, from, etag, to string,
	when objectfs.Condition) (objectfs.Object, error) {
	return faultyCall(b, "Copy", func() (objectfs.Object, error) {
		return b.Bucket.Copy(ctx, from, etag, to, when)
	})
}

func (b *faulty) CreateUpload(ctx context.Context, key string) (string, error) {
	return faultyCall(b, "CreateUpload", func() (string, error) {
		return b.Bucket.CreateUpload(ctx, key)
	})
}

func (b *faulty) UploadPart(ctx context.Context, key, id string, number int,
	body *io.SectionReader) (objectfs.Part, error) {
	return faultyCall(b, "UploadPart", func() (objectfs.Part, error) {
		return b.Bucket.UploadPart(ctx, key, id, number, io.NewSectionReader(body.Outer()))
	})
}

func (b *faulty) CopyPart(ctx context.Context, key, id string, number int, from, etag string,
	offset, length int64) (objectfs.Part, error) {
	return faultyCall(b, "CopyPart", func() (objectfs.Part, error) {
		return b.Bucket.CopyPart(ctx, key, id, number, from, etag, offset, length)
	})
}

func (b *faulty) ListParts(ctx context.Context, key, id string,
	after int) (parts []objectfs.Part, more bool, err error) {
	parts, err = faultyCall(b, "ListParts", func() (list []objectfs.Part, err error) {
		list, more, err = b.Bucket.ListParts(ctx, key, id, after)
		return list, err
	})
	return parts, more, err
}

func (b *faulty) Complete(ctx context.Context, key, id string, parts []objectfs.Part,
	when objectfs.Condition) (objectfs.Object, error) {
	return faultyCall(b, "Complete", func() (objectfs.Object, error) {
		return b.Bucket.Complete(ctx, key, id, parts, when)
	})
}

func (b *faulty) Abort(ctx context.Context, key, id string) error {
	_, err := faultyCall(b, "Abort", func() (none, error) {
		return none{}, b.Bucket.Abort(ctx, key, id)
	})
	return err
}

// step is what a client does; err is what it is told.
type step func(b *bench) error

// upload writes a file as a session does: it abandons it if a WRITE fails.
func upload(name string, flags uint32, offset int64, data string) step {
	return func(b *bench) error {
		f, err := b.open(name, flags)
		if err != nil {
			return err
		}
		w := f.(writer)
		for at := 0; at < len(data); {
			n := min(10_000, len(data)-at)
			if _, err := w.WriteAt([]byte(data[at:at+n]), offset+int64(at)); err != nil {
				w.Abandon()
				return err
			}
			at += n
		}
		return w.Close()
	}
}

func rename(from, to string) step {
	return func(b *bench) error { return b.fs.PosixRename(context.Background(), from, to) }
}

func plainRename(from, to string) step {
	return func(b *bench) error { return b.fs.Rename(context.Background(), from, to) }
}

func (s step) then(next step) step {
	return func(b *bench) error {
		if err := s(b); err != nil {
			return err
		}
		return next(b)
	}
}

func abandonUpload(name, data string) func(b *bench) {
	return func(b *bench) {
		w := b.write(name, truncate)
		b.at(w, 0, data)
		b.must(w.Abandon())
	}
}

// TestFaults: whichever call fails, before or after it was done, what is visible is the old file or
// the new one; if the client was told that all is well it is the new one; and the client can try
// again.
func TestFaults(t *testing.T) {
	short, other, long, longer := text(100), text(101), text(5*partSize+9), text(6*partSize+8)
	has := func(name, data string) func(b *bench) {
		return func(b *bench) { b.put(name, data) }
	}
	for _, one := range []struct {
		name   string
		before func(b *bench)
		do     step
		file   string
		old    string // "" if there is none
		new    string
	}{
		{"short, new", func(*bench) {}, upload("/f", truncate, 0, short), "/f", "", short},
		{"short, exclusive", func(*bench) {}, upload("/f", create|wire.OpenExclusive, 0, short),
			"/f", "", short},
		{"short, replacing", has("/f", other), upload("/f", truncate, 0, short), "/f", other,
			short},
		{"long, new", func(*bench) {}, upload("/f", truncate, 0, long), "/f", "", long},
		{"one part, replacing", has("/f", other), upload("/f", truncate, 0, text(partSize)), "/f",
			other, text(partSize)},
		{"long, replacing", has("/f", longer), upload("/f", truncate, 0, long), "/f", longer,
			long},
		{"long, replacing one as long", has("/f", long[1:]+"x"), upload("/f", truncate, 0, long),
			"/f", long[1:] + "x", long},
		{"appended", has("/f", long), upload("/f", wire.OpenWrite|wire.OpenAppend, 0, short), "/f",
			long, long + short},
		{"changed", has("/f", long), upload("/f", wire.OpenWrite, 3*partSize, short), "/f", long,
			long[:3*partSize] + short + long[3*partSize+100:]},
		{"short, changed", has("/f", other), upload("/f", wire.OpenWrite, 1, "x"), "/f", other,
			other[:1] + "x" + other[2:]},
		{"resumed", abandonUpload("/f", long[:4*partSize]),
			upload("/f", create, 3*partSize, long[3*partSize:]), "/f", "", long},
		{"short, renamed", has("/f", other), upload("/f.filepart", truncate, 0, short).then(
			rename("/f.filepart", "/f")), "/f", other, short},
		{"long, renamed", has("/f", longer), upload("/f.filepart", truncate, 0, long).then(
			rename("/f.filepart", "/f")), "/f", longer, long},
		{"long, in place of a short temporary one, renamed", has("/f.filepart", other),
			upload("/f.filepart", truncate, 0, long).then(rename("/f.filepart", "/f")), "/f", "",
			long},
		{"long, renamed to a new name", func(*bench) {},
			upload("/f.filepart", truncate, 0, long).then(rename("/f.filepart", "/f")), "/f", "",
			long},
		{"long, renamed to a name that is free", func(*bench) {}, upload("/f.filepart", truncate, 0,
			long).then(plainRename("/f.filepart", "/f")), "/f", "", long},
		{"copied", func(b *bench) { b.put("/f", other); b.put("/g", short) }, rename("/g", "/f"),
			"/f", other, short},
		{"a new name, copied", has("/g", short), plainRename("/g", "/f"), "/f", "", short},
		{"a long one, copied", has("/g", long), plainRename("/g", "/f"), "/f", "", long},
	} {
		t.Run(one.name, func(t *testing.T) {
			calls := 0
			for call, failed := 1, true; failed; call++ {
				for _, broken := range []*faulty{{}, {after: true}, {after: true, twice: true},
					{after: true, twice: true, gone: true}} {
					broken.broken = call
					failed = runFault(t, broken, one.before, one.do, one.file, one.old, one.new)
				}
				calls = call
			}
			if calls < 2 {
				t.Error("no call has failed")
			}
		})
	}
}

func runFault(t *testing.T, broken *faulty, before func(*bench), do step, file, old,
	want string) (failed bool) {
	b := newBench(t)
	before(b)
	broken.Bucket = b.bucket
	call, after := broken.broken, broken.after
	sound := b.fs
	b.fs = b.serve(broken)
	err := do(b)
	memory := b.fs.Memory()
	b.fs = sound
	got, readErr := b.get(file)
	switch {
	case readErr == nil && got == want:
	case err != nil && (got == old && readErr == nil || old == "" && readErr != nil):
	default:
		t.Errorf("call %d, %s, fails (after it was done: %v), the client is told %v, "+
			"and reads %d bytes, %v", call, broken.name, after, err, len(got), readErr)
	}
	renames := strings.Contains(t.Name(), "renamed") || strings.HasSuffix(t.Name(), "copied")
	refused := renames || errors.Is(err, fs.ErrExist) // as hooks take it
	if refused && err != nil && got == want && !errors.Is(err, server.ErrUnsure) {
		t.Errorf("call %d, %s (after: %v, twice: %v): the file has its name, and %q says that it"+
			" has not", call, broken.name, after, broken.twice, err)
	}
	if n := memory.Out(); n != 0 {
		t.Errorf("call %d, %s: %d bytes are still held", call, broken.name, n)
	}
	if err != nil {
		if strings.HasPrefix(t.Name(), "TestFaults/short") {
			err = do(b)
		} else {
			err = upload(file, truncate, 0, want)(b)
		}
		if got, _ := b.get(file); got != want && err == nil || err != nil && got != want {
			t.Errorf("call %d, %s: the client tries again and is told %v", call, broken.name, err)
		}
	}
	b.must(b.fs.Sweep(context.Background(), -time.Hour))
	if n := b.bucket.Uploads(); n != 0 {
		t.Errorf("call %d, %s (after: %v): %d uploads are left after sweeping", call, broken.name,
			after, n)
	}
	return broken.name != ""
}

// TestSameFileAgain: a client sends a file that is there already, and the answer to the request
// that completes it is lost.
func TestSameFileAgain(t *testing.T) {
	for _, do := range []step{upload("/f", truncate, 0, text(5*partSize)),
		upload("/f.filepart", truncate, 0, text(5*partSize)).then(rename("/f.filepart", "/f"))} {
		for call, broken := 1, (&faulty{}); broken.name != "Complete"; call++ {
			b := newBench(t)
			b.put("/f", text(5*partSize))
			broken = &faulty{Bucket: b.bucket, broken: call, after: true, twice: true}
			b.fs = b.serve(broken)
			if err := do(b); err != nil {
				t.Errorf("call %d, %s, is made twice, and the client is told %v", call, broken.name,
					err)
			}
		}
	}
}

// vast is a bucket with an object, g, that takes several requests to copy, and the answer to the
// last of them is lost.
type vast struct{ objectfs.Bucket }

func (v vast) Head(ctx context.Context, key string) (objectfs.Object, error) {
	o, err := v.Bucket.Head(ctx, key)
	if key == "g" {
		o.Size += objectfs.MaxCopy
	}
	return o, err
}

func (v vast) CopyPart(ctx context.Context, key, id string, number int, from, etag string, _,
	_ int64) (objectfs.Part, error) {
	return v.Bucket.CopyPart(ctx, key, id, number, from, etag, 0, partSize)
}

func (v vast) Complete(ctx context.Context, key, id string, parts []objectfs.Part,
	when objectfs.Condition) (objectfs.Object, error) {
	v.Bucket.Complete(ctx, key, id, parts, when)
	return v.Bucket.Complete(ctx, key, id, parts, when)
}

// TestVastCopy: the copy of a file in several parts may have been made although the storage says
// that there is no such upload.
func TestVastCopy(t *testing.T) {
	for _, do := range []step{rename("/g", "/f"), plainRename("/g", "/f")} {
		b := newBench(t)
		b.put("/g", text(partSize))
		b.fs = b.serve(vast{b.bucket})
		err := do(b)
		if _, there := b.bucket.Objects()["f"]; !there || !errors.Is(err, server.ErrUnsure) {
			t.Errorf("the copy is there: %v, and the client is told %v", there, err)
		}
	}
}

// TestStorageGivesUp: a client starts over where the storage has given up what was left of its
// upload, as a rule of the bucket may say.
func TestStorageGivesUp(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	w := b.write("/f", truncate)
	b.at(w, 0, text(4*partSize))
	b.must(w.Abandon())
	list, _, err := b.bucket.ListUploads(ctx, "", "")
	b.must(err)
	b.must(b.bucket.Abort(ctx, list[0].Key, list[0].ID))
	if _, err := b.open("/f", wire.OpenWrite); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening nothing: %v", err)
	}
	w = b.write("/f", truncate)
	b.must(w.Setstat(wire.Attrs{Flags: wire.AttrACModTime, MTime: 1e9}))
	b.at(w, 0, text(4*partSize))
	b.must(w.Abandon())
	list, _, err = b.bucket.ListUploads(ctx, "", "")
	b.must(err)
	b.must(b.bucket.Abort(ctx, list[0].Key, list[0].ID))
	w = b.write("/f", create)
	b.at(w, 0, text(3*partSize))
	b.must(w.Close())
	b.holds("/f", text(3*partSize))
	info, err := b.fs.Stat(ctx, "/f")
	b.must(err)
	if info.ModTime().Unix() == 1e9 {
		t.Error("the file has the time of the one that was given up")
	}
	b.put("/g.filepart", text(4*partSize))
	list, _, err = b.bucket.ListUploads(ctx, "", "")
	b.must(err)
	b.must(b.bucket.Abort(ctx, list[0].Key, list[0].ID))
	err = b.fs.Rename(ctx, "/g.filepart", "/g")
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("renaming what the storage has given up: %v", err)
	}
	b.must(b.fs.Remove(ctx, "/g.filepart"))
	b.missing("/g.filepart")
}

// silentParts is a bucket that does not list parts for a while.
type silentParts struct {
	objectfs.Bucket
	silent bool
}

func (s *silentParts) ListParts(ctx context.Context, key, id string, after int) ([]objectfs.Part,
	bool, error) {
	if s.silent {
		return nil, false, errFault
	}
	return s.Bucket.ListParts(ctx, key, id, after)
}

// TestResumeInAnOutage: who wants to continue an upload while the storage does not answer can do so
// later.
func TestResumeInAnOutage(t *testing.T) {
	b := newBench(t)
	silent := &silentParts{Bucket: b.bucket}
	b.fs = b.serve(silent)
	abandonUpload("/f", text(5*partSize))(b)
	size := b.size("/f")
	silent.silent = true
	if f, err := b.open("/f", wire.OpenWrite|wire.OpenCreate); err == nil {
		f.Close()
		t.Error("it is open")
	}
	silent.silent = false
	if now := b.size("/f"); now != size || size == 0 {
		t.Errorf("%d bytes may be continued, and %d before", now, size)
	}
}

// TestStorageGivesUpMeanwhile: a client whose upload the storage gives up while it writes is not
// told that there is no such file, which it has open, and can send the file again. Nor is one told
// that whose file is removed while it is read.
func TestStorageGivesUpMeanwhile(t *testing.T) {
	for name, finish := range map[string]func(b *bench, w writer) error{
		"writing": func(b *bench, w writer) error { return b.finish(w, 4*partSize, 2*partSize) },
		"closing": func(_ *bench, w writer) error { return w.Close() },
		"a gap":   func(b *bench, w writer) error { return b.finish(w, 8*partSize, 1) },
	} {
		b, ctx := newBench(t), t.Context()
		w := b.write("/f", truncate)
		b.at(w, 0, text(4*partSize))
		testenv.Until(t, "there is an upload", func() bool {
			list, _, err := b.bucket.ListUploads(ctx, "", "")
			b.must(err)
			return len(list) == 1
		})
		list, _, err := b.bucket.ListUploads(ctx, "", "")
		b.must(err)
		b.must(b.bucket.Abort(ctx, list[0].Key, list[0].ID))
		if err := finish(b, w); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		b.put("/f", text(4*partSize))
		b.holds("/f", text(4*partSize))
	}
	b := newBench(t)
	b.put("/f", text(4*partSize))
	f, err := b.open("/f", wire.OpenRead)
	b.must(err)
	b.must(b.fs.Remove(t.Context(), "/f"))
	if _, err := f.(io.ReaderAt).ReadAt(make([]byte, 4), 2*partSize); err == nil ||
		errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading what was removed: %v", err)
	}
}

// finish writes at an offset, and closes the file.
func (b *bench) finish(w writer, offset int64, length int) error {
	_, err := w.WriteAt([]byte(text(length)), offset)
	return errors.Join(err, w.Close())
}
