package objectfs_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// text returns text that is different everywhere.
func text(size int) string {
	block, err := aes.NewCipher(fmt.Appendf(nil, "%016d", size))
	if err != nil {
		panic(err)
	}
	b := make([]byte, size)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(b, b)
	return string(b)
}

var sizes = []int{0, 1, partSize - 1, partSize, partSize + 1, 2 * partSize, 5*partSize + 77}

func TestFileAppearsWhenClosed(t *testing.T) {
	for _, size := range sizes {
		b := newBench(t)
		b.put("/f", "old")
		w := b.write("/f", truncate)
		b.at(w, 0, text(size))
		b.holds("/f", "old")
		b.must(w.Close())
		b.holds("/f", text(size))
		if n := b.bucket.Uploads(); n != 0 {
			t.Errorf("%d uploads are left", n)
		}
	}
}

func TestAbandonedFileNeverAppears(t *testing.T) {
	for _, size := range sizes {
		b := newBench(t)
		b.put("/old", "old")
		for _, name := range []string{"/old", "/new", "/new.filepart"} {
			w := b.write(name, truncate)
			b.at(w, 0, text(size))
			b.must(w.Abandon())
		}
		b.holds("/old", "old")
		if _, err := b.get("/new"); err == nil {
			t.Error("an abandoned file can be read")
		}
		if got := b.bucket.Objects(); len(got) != 1 {
			t.Errorf("%d objects, want only the old one", len(got))
		}
		if n := b.fs.Memory().Out(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
	}
}

// TestResume: a client that comes back learns where to go on, and never that nothing is missing.
func TestResume(t *testing.T) {
	b := newBench(t)
	whole := text(7*partSize + 5)
	for _, name := range []string{"/f", "/f.filepart"} {
		for _, cut := range []int{partSize, 2*partSize + 9, 4 * partSize, 7*partSize + 5} {
			w := b.write(name, truncate)
			b.at(w, 0, whole[:cut])
			b.must(w.Abandon())
			if cut < 2*partSize {
				b.missing(name)
				continue
			}
			mark := b.size(name)
			if want := int64(cut/partSize-1) * partSize; mark != want {
				t.Fatalf("%d bytes came of %s, and %d are kept, want %d", cut, name, mark, want)
			}
			b.bucket.Calls()
			w = b.write(name, create)
			b.at(w, mark, whole[mark:])
			b.must(w.Close())
			if n := b.bucket.Calls()["UploadPart"]; n != 8-int(mark)/partSize {
				t.Errorf("%d parts were sent", n)
			}
			if name != "/f" {
				b.must(b.fs.PosixRename(context.Background(), name, "/f"))
			}
			b.holds("/f", whole)
			b.must(b.fs.Remove(context.Background(), "/f"))
		}
	}
	if n := b.bucket.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// TestResumeFromEarlier: a client need not go on where it could.
func TestResumeFromEarlier(t *testing.T) {
	whole := text(7*partSize + 5)
	for _, from := range []int{0, 1, 2, 3, 4} {
		b := newBench(t)
		w := b.write("/f", truncate)
		b.at(w, 0, whole[:5*partSize])
		b.must(w.Abandon())
		w = b.write("/f", create)
		b.at(w, int64(from)*partSize, whole[from*partSize:])
		b.must(w.Close())
		b.holds("/f", whole)
	}
	b := newBench(t)
	w := b.write("/f", truncate)
	b.at(w, 0, whole[:5*partSize])
	b.must(w.Abandon())
	w = b.write("/f", create)
	b.must(w.Setstat(wire.Attrs{Flags: wire.AttrSize, Size: 9 * partSize}))
	b.at(w, 0, whole[:partSize])
	b.must(w.Close())
	b.holds("/f", whole[:partSize]+strings.Repeat("\x00", 8*partSize))
	b.must(b.fs.Remove(context.Background(), "/f"))
	w = b.write("/f", truncate)
	b.at(w, 0, whole[:5*partSize])
	b.must(w.Abandon())
	b.bucket.Calls()
	w = b.write("/f", create)
	b.at(w, 0, "short")
	b.must(w.Close())
	b.holds("/f", "short")
	if n := b.bucket.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// TestResumeAfterStartingOver: a client that gave up what it had sent goes on with what it has sent
// since, and not with what is still stored of the other.
func TestResumeAfterStartingOver(t *testing.T) {
	other, whole := strings.Repeat("x", 7*partSize), text(7*partSize)
	for _, one := range []struct {
		name  string
		start func(b *bench) writer
	}{
		{"emptied", func(b *bench) writer {
			w := b.write("/f", truncate)
			b.at(w, 0, other)
			b.must(w.Setstat(wire.Attrs{Flags: wire.AttrSize}))
			return w
		}},
		{"opened again", func(b *bench) writer {
			w := b.write("/f", truncate)
			b.at(w, 0, other)
			b.must(w.Abandon())
			return b.write("/f", create)
		}},
	} {
		for _, parts := range []int{0, 1, 3} {
			b := newBench(t)
			w := one.start(b)
			b.at(w, 0, whole[:parts*partSize+9])
			b.must(w.Abandon())
			mark := 0
			for range 3 {
				if info, err := b.fs.Stat(t.Context(), "/f"); err == nil {
					mark = int(info.Size())
				}
				if want := max(parts-1, 0) * partSize; mark != want {
					t.Fatalf("%s: %d parts were sent, and %d bytes are kept, want %d", one.name, parts,
						mark, want)
				}
				w = b.write("/f", create)
				b.at(w, int64(mark), whole[mark:][:2*partSize])
				b.must(w.Abandon())
				parts = mark/partSize + 2
			}
			w = b.write("/f", create)
			mark = int(b.size("/f"))
			b.at(w, int64(mark), whole[mark:])
			b.must(w.Close())
			b.holds("/f", whole)
		}
	}
}

// TestResumeWithoutWriting: closing what was opened to go on with, without going on, publishes
// nothing.
func TestResumeWithoutWriting(t *testing.T) {
	b := newBench(t)
	w := b.write("/f", truncate)
	b.at(w, 0, text(4*partSize))
	b.must(w.Abandon())
	b.must(b.write("/f", create).Close())
	if got := b.bucket.Objects(); len(got) != 0 {
		t.Errorf("%d objects", len(got))
	}
	if got := b.size("/f"); got != 3*partSize {
		t.Errorf("%d bytes are kept", got)
	}
	b.put("/f", "other")
	b.holds("/f", "other")
	if n := b.bucket.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

func TestSecondWriterIsRefused(t *testing.T) {
	b := newBench(t)
	w := b.write("/f", truncate)
	_, err := b.open("/f", create)
	b.is(err, objectfs.ErrLocked)
	_, err = b.serve(b.bucket).Open(context.Background(), "/f", create, wire.Attrs{})
	b.is(err, objectfs.ErrLocked)
	b.must(w.Close())
	b.must(b.write("/f", create).Close())
}

func TestExclusive(t *testing.T) {
	b := newBench(t)
	w := b.write("/f", create|wire.OpenExclusive)
	b.at(w, 0, "mine")
	// Somebody who does not ask the state.
	other := objectfs.New(b.bucket, nil)
	o, err := other.Open(context.Background(), "/f", truncate, wire.Attrs{})
	b.must(err)
	b.at(o.(writer), 0, "mine")
	b.must(o.Close())
	b.is(w.Close(), fs.ErrExist)
	_, err = b.open("/f", create|wire.OpenExclusive)
	b.is(err, fs.ErrExist)
}

// TestChangeStored: what is not written comes from what is stored, most of it without passing
// through the server.
func TestChangeStored(t *testing.T) {
	old := text(9*partSize + 100)
	for _, one := range []struct {
		name   string
		change func(b *bench, w writer)
		want   func() string
		calls  map[string]int
	}{
		{"nothing", func(*bench, writer) {}, func() string { return old }, nil},
		{"append", func(b *bench, w writer) { b.at(w, int64(len(old)), "more") },
			func() string { return old + "more" }, map[string]int{"CopyPart": 1, "Get": 1,
				"UploadPart": 1, "CreateUpload": 1, "Complete": 1}},
		{"the middle", func(b *bench, w writer) { b.at(w, 4*partSize+10, "middle") },
			func() string { return old[:4*partSize+10] + "middle" + old[4*partSize+16:] },
			map[string]int{"CopyPart": 2, "Get": 2, "UploadPart": 1, "CreateUpload": 1,
				"Complete": 1}},
		{"far apart", func(b *bench, w writer) {
			for i := 8; i >= 0; i -= 2 {
				b.at(w, int64(i)*partSize, "here")
			}
		}, func() string {
			changed := []byte(old)
			for i := 0; i < 10; i += 2 {
				copy(changed[i*partSize:], "here")
			}
			return string(changed)
		}, map[string]int{"CopyPart": 5, "Get": 5, "UploadPart": 5, "CreateUpload": 1,
			"Complete": 1}},
		{"shorter", func(b *bench, w writer) { b.must(w.Setstat(sized(5*partSize + 3))) },
			func() string { return old[:5*partSize+3] },
			map[string]int{"CopyPart": 1, "CreateUpload": 1, "Complete": 1}},
		{"much shorter", func(b *bench, w writer) { b.must(w.Setstat(sized(7))) },
			func() string { return old[:7] }, map[string]int{"Get": 1, "Put": 1}},
		{"longer", func(b *bench, w writer) { b.must(w.Setstat(sized(12 * partSize))) },
			func() string { return old + string(make([]byte, 12*partSize-len(old))) },
			map[string]int{"CopyPart": 1, "Get": 1, "UploadPart": 3, "CreateUpload": 1,
				"Complete": 1}},
		{"empty", func(b *bench, w writer) { b.must(w.Setstat(sized(0))) },
			func() string { return "" }, map[string]int{"Put": 1}},
		{"shorter and longer", func(b *bench, w writer) {
			b.must(w.Setstat(sized(10)))
			b.at(w, 20, "x")
		}, func() string { return old[:10] + string(make([]byte, 10)) + "x" },
			map[string]int{"Get": 1, "Put": 1}},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := newBench(t)
			b.put("/f", old)
			w := b.write("/f", wire.OpenWrite)
			b.bucket.Calls()
			one.change(b, w)
			b.must(w.Close())
			if got := b.bucket.Calls(); !maps.Equal(got, one.calls) {
				t.Errorf("requests: %v, want %v", got, one.calls)
			}
			b.holds("/f", one.want())
		})
	}
}

func sized(size int64) wire.Attrs { return wire.Attrs{Flags: wire.AttrSize, Size: uint64(size)} }

func timed(seconds uint32) wire.Attrs {
	return wire.Attrs{Flags: wire.AttrACModTime, MTime: seconds}
}

// TestChangedMeanwhile: a change is made to what was there when the file was opened, or not at all.
func TestChangedMeanwhile(t *testing.T) {
	for _, size := range []int{10, 5 * partSize} {
		b := newBench(t)
		b.put("/f", text(size))
		w := b.write("/f", wire.OpenWrite)
		b.at(w, 3, "change")
		if _, err := b.bucket.Copy(context.Background(), "/f"[1:], "", "f2",
			objectfs.Condition{}); err != nil {
			t.Fatal(err)
		}
		other := objectfs.New(b.bucket, nil)
		o, err := other.Open(context.Background(), "/f", truncate, wire.Attrs{})
		b.must(err)
		b.must(o.Close())
		b.is(w.Close(), objectfs.ErrPrecondition)
		b.holds("/f", "")
		if n := b.bucket.Uploads(); n != 0 {
			t.Errorf("%d uploads are left", n)
		}
	}
}

// interrupted is a bucket in which something happens just before an object is made.
type interrupted struct {
	objectfs.Bucket
	before func()
}

func (i *interrupted) happen() {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
}

func (i *interrupted) Put(ctx context.Context, key string, body *io.SectionReader,
	when objectfs.Condition) (objectfs.Object, error) {
	i.happen()
	return i.Bucket.Put(ctx, key, body, when)
}

func (i *interrupted) Complete(ctx context.Context, key, id string, parts []objectfs.Part,
	when objectfs.Condition) (objectfs.Object, error) {
	i.happen()
	made, err := i.Bucket.Complete(ctx, key, id, parts, when)
	if errors.Is(err, fs.ErrNotExist) { // as versitygw does, if there is another object
		return objectfs.Object{ETag: "none"}, nil
	}
	return made, err
}

// TestHeldUp: a request that is held up in the network for so long that somebody else has got the
// right to write, and has written, changes nothing any more. What somebody without that right does
// meanwhile comes first.
func TestHeldUp(t *testing.T) {
	for _, size := range []int{10, 5 * partSize} {
		for _, old := range []string{"", "old"} {
			for _, fate := range []string{"lost", "changed", "removed"} {
				b := newBench(t)
				if old != "" {
					b.put("/f", old)
				}
				held := &interrupted{Bucket: b.bucket}
				f, err := b.serve(held).Open(t.Context(), "/f", truncate, wire.Attrs{})
				b.must(err)
				w := f.(writer)
				b.at(w, 0, text(size))
				held.before = func() {
					switch fate {
					case "lost":
						u, err := b.state.Find(t.Context(), "f")
						b.must(err)
						b.must(b.state.Unlock(t.Context(), u, true))
						b.put("/f", "other")
					case "changed":
						body := strings.NewReader("foreign")
						_, err := b.bucket.Put(t.Context(), "f", io.NewSectionReader(body, 0, 7),
							objectfs.Condition{})
						b.must(err)
					case "removed":
						b.must(b.bucket.Delete(t.Context(), "f", ""))
					}
				}
				err = w.Close()
				if fate == "lost" {
					if err == nil {
						t.Errorf("%d bytes over %q: it says that they are stored", size, old)
					}
					b.holds("/f", "other")
					continue
				}
				b.must(err)
				b.holds("/f", text(size))
			}
		}
	}
}

// TestHoles: what is skipped is zeros, and a part that has been sent does not change.
func TestHoles(t *testing.T) {
	b := newBench(t)
	w := b.write("/f", truncate)
	want := make([]byte, 9*partSize+1)
	for _, i := range []int{0, 3, 1, 8, 6} {
		b.at(w, int64(i)*partSize+50, "here")
		copy(want[i*partSize+50:], "here")
	}
	b.at(w, 9*partSize, "\x00")
	b.must(w.Close())
	b.holds("/f", string(want))

	w = b.write("/f", truncate)
	b.at(w, 0, text(partSize))
	_, err := w.WriteAt([]byte("again"), 10)
	b.is(err, errors.ErrUnsupported)
	b.must(w.Abandon())
	b.holds("/f", string(want))

	w = b.write("/f", truncate)
	if _, err := w.WriteAt([]byte("x"), 1<<31); err == nil {
		t.Error("a hole of 2 GiB is to be filled with zeros")
	}
	b.must(w.Abandon())
}

// TestUpload: what is not complete is told from files by its own request.
func TestUpload(t *testing.T) {
	b := newBench(t)
	size := func(name string, want int64) {
		t.Helper()
		got := int64(-1)
		info, err := b.fs.Upload(t.Context(), name)
		if err == nil {
			got = info.Size()
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if got != want {
			t.Errorf("the upload of %s has %d bytes, want %d", name, got, want)
		}
	}
	size("/f", -1)
	w := b.write("/f", create|wire.OpenExclusive)
	size("/f", 0)
	b.at(w, 0, text(5*partSize))
	b.must(w.Abandon())
	size("/f", 4*partSize)
	w = b.write("/f", create|wire.OpenExclusive) // begins again
	b.at(w, 0, "new")
	b.must(w.Close())
	size("/f", -1)
	w = b.write("/f", truncate)
	b.at(w, 0, text(5*partSize))
	size("/f", -1)
	b.must(w.Abandon())
	size("/f", -1)
	b.holds("/f", "new")
	w = b.write("/g.filepart", truncate) // complete, but for its name
	b.at(w, 0, text(5*partSize))
	b.must(w.Close())
	size("/g.filepart", -1)
}

// TestHolesCannotBeResumed: a client that comes back would take zeros for what it has sent.
func TestHolesCannotBeResumed(t *testing.T) {
	b := newBench(t)
	w := b.write("/f", truncate)
	for i := range int64(6) {
		b.at(w, i*partSize+50, "here")
	}
	b.must(w.Abandon())
	b.missing("/f")
	if n := b.bucket.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

func TestTimes(t *testing.T) {
	b := newBench(t)
	mtime := func(name string) int64 {
		info, err := b.fs.Stat(context.Background(), name)
		b.must(err)
		for listed, err := range b.fs.List(context.Background(), "/") {
			if b.must(err); "/"+listed.Name() == name && !listed.ModTime().Equal(info.ModTime()) {
				t.Errorf("%s is listed with another time", name)
			}
		}
		return info.ModTime().Unix()
	}
	for _, size := range []int{5, 5 * partSize} {
		for _, name := range []string{"/f", "/f.filepart"} {
			w := b.write(name, truncate)
			b.at(w, 0, text(size))
			b.must(w.Setstat(timed(1e9)))
			b.must(w.Close())
			if got := mtime(name); got != 1e9 {
				t.Errorf("%s of %d bytes, set before CLOSE: %d", name, size, got)
			}
			b.must(b.fs.Setstat(context.Background(), name, timed(2e9)))
			if got := mtime(name); got != 2e9 {
				t.Errorf("%s of %d bytes, set after CLOSE: %d", name, size, got)
			}
			b.must(b.fs.PosixRename(context.Background(), name, "/g"))
			if got := mtime("/g"); got != 2e9 {
				t.Errorf("%s of %d bytes, renamed: %d", name, size, got)
			}
		}
	}
	b.put("/g", "new")
	if got := mtime("/g"); time.Since(time.Unix(got, 0)) > time.Hour {
		t.Errorf("a new file has an old one's time: %d", got)
	}
}

func TestSweep(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"/abandoned", "/closed.filepart", "/open"} {
		w := b.write(name, truncate)
		b.at(w, 0, text(4*partSize))
		switch name {
		case "/abandoned":
			b.must(w.Abandon())
		case "/closed.filepart":
			b.must(w.Close())
		}
	}
	if _, err := b.bucket.CreateUpload(context.Background(), "orphan"); err != nil {
		t.Fatal(err)
	}
	b.must(b.fs.Sweep(context.Background(), time.Hour))
	if n := b.bucket.Uploads(); n != 4 {
		t.Errorf("%d uploads, want 4: none is an hour old", n)
	}
	failing := b.serve(&faulty{Bucket: b.bucket, broken: 1})
	if err := failing.Sweep(context.Background(), -time.Hour); !errors.Is(err, errFault) {
		t.Errorf("one upload cannot be removed, and the sweep returns %v", err)
	}
	if n := b.bucket.Uploads(); n != 2 {
		t.Errorf("%d uploads, want those of the open file and of the one that cannot be removed", n)
	}
	b.must(b.fs.Sweep(context.Background(), -time.Hour))
	if n := b.bucket.Uploads(); n != 1 {
		t.Errorf("%d uploads, want only that of the open file", n)
	}
	b.missing("/abandoned")
	b.missing("/closed.filepart")
}

// returning is a state whose clients come back while a sweep looks at its uploads.
type returning struct {
	*objectfs.MemoryState
	back func()
}

func (r returning) Pending(ctx context.Context, prefix string) ([]objectfs.Upload, error) {
	list, err := r.MemoryState.Pending(ctx, prefix)
	r.back()
	return list, err
}

// TestSweepLeavesWhatGoesOn: the age of an upload is counted from when its client has last gone on
// with it.
func TestSweepLeavesWhatGoesOn(t *testing.T) {
	const week = 7 * 24 * time.Hour
	ctx := t.Context()
	rest := func(b *bench, name string) writer {
		w := b.write(name, create)
		b.at(w, 3*partSize, text(2*partSize))
		return w
	}
	for _, one := range []struct {
		name, file string
		goOn       func(b *bench, name string)
	}{
		{"abandoned again", "/f", func(b *bench, name string) { b.must(rest(b, name).Abandon()) }},
		{"opened and closed", "/f", func(b *bench, name string) {
			b.must(b.write(name, create).Close())
		}},
		{"closed under a temporary name", "/f.filepart",
			func(b *bench, name string) { b.must(rest(b, name).Close()) }},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := newBench(t)
			w := b.write(one.file, truncate)
			b.at(w, 0, text(4*partSize))
			b.must(w.Abandon())
			ages := func() {
				u, err := b.state.Lock(ctx, one.file[1:], "")
				b.must(err)
				u.Begun = time.Now().Add(-week - time.Hour)
				b.must(b.state.Unlock(ctx, u, true))
			}
			ages()
			one.goOn(b, one.file)
			b.must(b.fs.Sweep(ctx, week))
			if b.bucket.Uploads() != 1 {
				t.Error("what was gone on with is swept")
			}
			ages()
			if one.file == "/f" { // what is closed cannot be gone on with
				state := returning{b.state, func() { one.goOn(b, one.file) }}
				sweeping := objectfs.New(b.bucket, &objectfs.Options{State: state})
				b.must(sweeping.Sweep(ctx, week))
				if b.bucket.Uploads() != 1 {
					t.Error("what is gone on with meanwhile is swept")
				}
				ages()
			}
			b.must(b.fs.Sweep(ctx, week))
			if b.bucket.Uploads() != 0 {
				t.Error("what nobody goes on with is not swept")
			}
		})
	}
}

// TestNoDirectoryOverAnUpload: a name that a file is about to get, or that a client may go on with,
// is no directory's, whose files it would hide.
func TestNoDirectoryOverAnUpload(t *testing.T) {
	b := newBench(t)
	mkdir := func() error { return b.fs.Mkdir(t.Context(), "/f", wire.Attrs{}) }
	b.must(b.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
	w := b.write("/f", truncate)
	b.is(mkdir(), objectfs.ErrLocked)
	b.is(b.fs.Rename(t.Context(), "/d", "/f"), objectfs.ErrLocked)
	b.is(b.fs.PosixRename(t.Context(), "/d", "/f"), objectfs.ErrLocked)
	b.at(w, 0, text(4*partSize))
	b.is(mkdir(), objectfs.ErrLocked)
	b.must(w.Abandon())
	b.is(mkdir(), fs.ErrExist)
	b.must(b.fs.PosixRename(t.Context(), "/d", "/f")) // which gives the upload up
	b.must(b.fs.Rmdir(t.Context(), "/f"))
	b.must(mkdir())
}
