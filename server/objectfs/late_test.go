package objectfs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// late stores a part as a server does that has slept while it sent the part, and that others have
// taken for dead: with other bytes than the part has by now, as many.
func (b *bench) late(name string, number int) {
	b.Helper()
	u, err := b.state.Find(b.Context(), name[1:])
	b.must(err)
	body := bytes.NewReader(bytes.Repeat([]byte("old"), partSize)[:partSize])
	_, err = b.bucket.UploadPart(b.Context(), u.Target, u.ID, number,
		io.NewSectionReader(body, 0, partSize))
	b.must(err)
}

// TestLatePart: a part that a server sends late replaces one that has been stored since. A file
// never appears with it, and nobody goes on with it.
func TestLatePart(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	want := text(5*partSize + 9)

	b.put("/f.filepart", want)
	b.late("/f.filepart", 3)
	if err := b.fs.PosixRename(ctx, "/f.filepart", "/f"); err == nil {
		t.Error("a finished upload has its name although a part was replaced")
	}
	b.missing("/f")
	b.put("/f.filepart", want)
	b.must(b.fs.PosixRename(ctx, "/f.filepart", "/f"))
	b.holds("/f", want)

	w := b.write("/g", truncate)
	b.at(w, 0, want)
	b.must(w.Setstat(sized(int64(len(want))))) // waits until whole parts are stored
	b.late("/g", 3)
	if err := w.Close(); err == nil {
		t.Error("a file is closed although a part was replaced")
	}
	if n := b.size("/g"); n > 2*partSize {
		t.Errorf("after CLOSE has failed, a client is to go on at %d", n)
	}

	for number, most := range map[int]int64{3: 0, 6: 4 * partSize} {
		w = b.write("/h", truncate)
		b.at(w, 0, want)
		b.must(w.Abandon())
		b.late("/h", number)
		b.late("/h", number+1)
		if n := b.size("/h"); n > most {
			t.Errorf("after part %d has come late, a client is to go on at %d", number, n)
		}
		from := b.size("/h")
		w = b.write("/h", create)
		b.at(w, from, text(2 * partSize)[:2*partSize])
		b.must(w.Abandon())
		if from == 0 { // and other parts are still stored
			b.missing("/h")
			continue
		}
		if n := b.size("/h"); n > from+partSize || n < from {
			t.Errorf("after two more parts, a client that went on at %d is to go on at %d", from, n)
		}
		w = b.write("/h", create) // and is cut off before it has sent a part
		b.at(w, b.size("/h"), "x")
		before := b.size("/h")
		b.must(w.Abandon())
		if n := b.size("/h"); n != before {
			t.Errorf("it goes on at %d instead of %d", n, before)
		}
		b.must(b.fs.Remove(ctx, "/h"))
	}

	w = b.write("/h", truncate)
	b.at(w, 0, want)
	b.must(w.Abandon())
	w = b.write("/h", create)
	b.at(w, b.size("/h"), text(2*partSize+9)) // and its server dies
	b.must(w.Setstat(sized(6*partSize + 9)))
	u, err := b.state.Find(ctx, "h")
	b.must(err)
	b.must(b.state.Unlock(ctx, u, true))
	if n := b.size("/h"); n < 4*partSize {
		t.Errorf("after its server died, the client is to go on at %d", n)
	}
}

// lastWords is a bucket whose server dies when it has completed an upload.
type lastWords struct {
	objectfs.Bucket
	dies func()
}

func (l lastWords) Complete(ctx context.Context, key, id string, parts []objectfs.Part,
	when objectfs.Condition) (objectfs.Object, error) {
	made, err := l.Bucket.Complete(ctx, key, id, parts, when)
	l.dies()
	return made, err
}

// TestRenameOfADeadServer: a server dies when the storage has completed the upload that it renames.
// The client renames it once more, and is told that it has its name.
func TestRenameOfADeadServer(t *testing.T) {
	type call = func(f *objectfs.FS, ctx context.Context, from, to string) error
	for name, rename := range map[string]call{
		"rename": (*objectfs.FS).Rename, "posix-rename": (*objectfs.FS).PosixRename,
	} {
		for _, old := range []string{"", "old"} {
			if old != "" && name == "rename" {
				continue
			}
			b, ctx := newBench(t), t.Context()
			if old != "" {
				b.put("/f", old)
			}
			want := text(5*partSize + 9)
			b.put("/f.filepart", want)
			dead := b.serve(lastWords{b.bucket, func() {
				for _, name := range []string{"f.filepart", "f"} { // as others do with a dead one's
					if u, err := b.state.Find(ctx, name); err == nil && u.Locked {
						b.must(b.state.Unlock(ctx, u, u.ID != ""))
					}
				}
			}})
			rename(dead, ctx, "/f.filepart", "/f")
			b.holds("/f", want)
			if err := rename(b.fs, ctx, "/f.filepart", "/f"); err != nil {
				t.Errorf("%s, in place of %q: %v", name, old, err)
			}
			b.holds("/f", want)
			b.missing("/f.filepart")

			b.put("/f.filepart", want) // the same again is another file
			b.is(b.fs.Rename(ctx, "/f.filepart", "/f"), fs.ErrExist)
			if n := b.size("/f.filepart"); n != int64(len(want)) {
				t.Errorf("%s: the other one has %d bytes", name, n)
			}
		}
	}
}

// TestStatWhileItCompletes: STAT of a new file that is closed meanwhile tells its length, at whatever
// moment that happens.
func TestStatWhileItCompletes(t *testing.T) {
	want := text(5*partSize + 9)
	for call, reached := 3, true; reached; call++ {
		for _, after := range []bool{false, true} {
			b := newBench(t)
			w := b.write("/f", truncate)
			b.at(w, 0, want)
			b.must(w.Setstat(sized(int64(len(want))))) // waits until whole parts are stored
			bucket := &faulty{Bucket: b.bucket, broken: call, after: after,
				sleep: func() { b.must(w.Close()) }}
			info, err := b.serve(bucket).Stat(t.Context(), "/f")
			if err != nil {
				t.Errorf("closed at call %d, %s (after: %t): %v", call, bucket.name, after, err)
			} else if n := info.Size(); n != int64(len(want)) && n != 4*partSize {
				t.Errorf("closed at call %d, %s (after: %t): %d bytes", call, bucket.name, after, n)
			}
			if reached = bucket.name != ""; !reached {
				b.must(w.Close())
			}
		}
	}
}

// TestListWhileItBecomesLong: a file under a temporary name that is replaced by a longer one, which
// is no object until it is renamed, is in each listing, once.
func TestListWhileItBecomesLong(t *testing.T) {
	for call, reached := 1, true; reached; call++ {
		for _, after := range []bool{false, true} {
			b := newBench(t)
			b.must(b.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
			b.put("/d/f.filepart", "short")
			w := b.write("/d/f.filepart", truncate)
			b.at(w, 0, text(5*partSize))
			closes := sync.OnceFunc(func() { b.must(w.Close()) })
			bucket := &faulty{Bucket: b.bucket, broken: call, after: after, sleep: closes}
			sound := b.fs
			b.fs = b.serve(bucket)
			if names := b.list("/d"); !slices.Equal(names, []string{"f.filepart"}) {
				t.Errorf("closed at call %d, %s (after: %t): %q", call, bucket.name, after, names)
			}
			b.fs, reached = sound, bucket.name != ""
			closes()
		}
	}
}

// TestStatWhileItGoes: STAT of a file that is removed or renamed meanwhile, or that is not there
// yet, tells of the file or of none, never of an empty one.
func TestStatWhileItGoes(t *testing.T) {
	for name, do := range map[string]step{
		"removed":   func(b *bench) error { return b.fs.Remove(b.Context(), "/f") },
		"renamed":   rename("/f", "/g"),
		"back":      rename("/g", "/f"),
		"to a name": plainRename("/g", "/f"),
	} {
		for call, reached := 1, true; reached; call++ {
			for _, after := range []bool{false, true} {
				b := newBench(t)
				b.put(map[bool]string{true: "/f", false: "/g"}[name[0] == 'r'], text(100))
				sound := b.fs
				bucket := &faulty{Bucket: b.bucket, broken: call, after: after, sleep: func() {
					info, err := sound.Stat(t.Context(), "/f")
					if err == nil && info.Size() != 100 ||
						err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s, call %d (after: %t): %v, %v", name, call, after, info, err)
					}
				}}
				b.fs = b.serve(bucket)
				b.must(do(b))
				reached = bucket.name != ""
			}
		}
	}
}
