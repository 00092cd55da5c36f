package objectfs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// TestTemporaryNames: an upload under a temporary name is completed by its rename, and nothing is
// copied.
func TestTemporaryNames(t *testing.T) {
	long := text(5*partSize + 1)
	for _, temporary := range []string{
		"/d/f.txt.filepart", "/d/f.txt.a1B2c3D4.partial", "/d/.f.txt.usftp-0123456789ab",
	} {
		for _, old := range []string{"", "old"} {
			b := newBench(t)
			b.must(b.fs.Mkdir(context.Background(), "/d", wire.Attrs{}))
			if old != "" {
				b.put("/d/f.txt", old)
			}
			b.put(temporary, long)
			if got := b.size(temporary); got != int64(len(long)) {
				t.Errorf("%s has %d bytes", temporary, got)
			}
			_, err := b.get(temporary)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("reading %s: %v", temporary, err)
			}
			if listed := strings.Join(b.list("/d"), " "); !strings.Contains(listed, temporary[3:]) {
				t.Errorf("%s is not listed: %s", temporary, listed)
			}
			if old != "" {
				b.is(b.fs.Rename(context.Background(), temporary, "/d/f.txt"), fs.ErrExist)
				b.holds("/d/f.txt", old)
			}
			b.bucket.Calls()
			b.must(b.fs.PosixRename(context.Background(), temporary, "/d/f.txt"))
			calls := b.bucket.Calls()
			if calls["Complete"] != 1 || calls["Copy"]+calls["CopyPart"] > 0 {
				t.Errorf("the rename took %v", calls)
			}
			b.holds("/d/f.txt", long)
			b.missing(temporary)
			if got := b.list("/d"); !reflect.DeepEqual(got, []string{"f.txt"}) {
				t.Errorf("listed: %q", got)
			}
		}
	}
}

// TestTemporaryNameRenamedOtherwise: the promise that a temporary name makes need not be kept.
func TestTemporaryNameRenamedOtherwise(t *testing.T) {
	b := newBench(t)
	long := text(5 * partSize)
	b.put("/f.filepart", long)
	b.must(b.fs.Rename(context.Background(), "/f.filepart", "/g"))
	b.holds("/g", long)
	b.missing("/f")
	b.put("/f", "old")
	b.put("/f.filepart", long)
	if err := b.fs.PosixRename(context.Background(), "/f.filepart", "/g"); err == nil {
		t.Error("it was renamed, although that would have replaced /f")
	}
	b.holds("/f", "old")
	b.holds("/g", long)
	b.must(b.fs.PosixRename(context.Background(), "/f.filepart", "/f"))
	b.holds("/f", long)
}

// copyState keeps what was copied last.
type copyState struct {
	objectfs.State
	from objectfs.Object
}

func (c *copyState) CopyTime(ctx context.Context, from objectfs.Object, to, etag string) error {
	c.from = from
	return c.State.CopyTime(ctx, from, to, etag)
}

// TestUploadCopiedAsItIs: an upload that is renamed to another name than its own is copied by its
// length, which decides how, and has the time at which it was stored.
func TestUploadCopiedAsItIs(t *testing.T) {
	b := newBench(t)
	b.put("/f.filepart", text(5*partSize))
	state := &copyState{State: b.state}
	f := objectfs.NewSmall(b.bucket, objectfs.Options{State: state}, partSize, 16*partSize)
	began := time.Now()
	b.must(f.Rename(t.Context(), "/f.filepart", "/g"))
	b.holds("/g", text(5*partSize))
	if state.from.Size != 5*partSize || state.from.Modified.Before(began) {
		t.Errorf("copied: %+v", state.from)
	}
}

// TestTemporaryNameReused: of several uploads under one name the last one counts.
func TestTemporaryNameReused(t *testing.T) {
	b := newBench(t)
	for _, size := range []int{10, 5 * partSize, 3, 4 * partSize, partSize} {
		b.put("/f.filepart", text(size))
		if got := b.list("/"); !reflect.DeepEqual(got, []string{"f.filepart"}) {
			t.Fatalf("with %d bytes %q are listed", size, got)
		}
		if got := b.size("/f.filepart"); got != int64(size) {
			t.Errorf("%d bytes, want %d", got, size)
		}
	}
	b.put("/f.filepart", text(4*partSize))
	b.must(b.fs.Remove(context.Background(), "/f.filepart"))
	b.missing("/f.filepart")
	if n := b.bucket.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// TestUnfinishedIsNotRenamed: half a file does not get its final name.
func TestUnfinishedIsNotRenamed(t *testing.T) {
	b := newBench(t)
	w := b.write("/f.filepart", truncate)
	b.at(w, 0, text(5*partSize))
	for range 2 {
		if err := b.fs.Rename(context.Background(), "/f.filepart", "/f"); err == nil {
			t.Error("it was renamed")
		}
		b.must(w.Abandon())
	}
	b.missing("/f")
}

func TestRename(t *testing.T) {
	b := newBench(t)
	b.must(b.fs.Mkdir(context.Background(), "/d", wire.Attrs{}))
	b.put("/d/f", "text")
	b.put("/d/g", "other")
	rename := func(from, to string) error { return b.fs.Rename(context.Background(), from, to) }
	replace := func(from, to string) error {
		return b.fs.PosixRename(context.Background(), from, to)
	}
	b.is(rename("/d/none", "/d/h"), fs.ErrNotExist)
	b.is(rename("/d/f", "/none/f"), fs.ErrNotExist)
	b.is(rename("/d/f", "/d/g"), fs.ErrExist)
	b.must(replace("/d/f", "/d/f"))
	b.must(replace("/d/f", "/d/g"))
	b.holds("/d/g", "text")
	b.missing("/d/f")
	b.must(b.fs.Mkdir(context.Background(), "/e", wire.Attrs{}))
	b.put("/e/x", "x")
	for _, one := range [][2]string{{"/d", "/e"}, {"/d", "/e/x"}, {"/e/x", "/d"}, {"/d", "/d/d"},
		{"/", "/x"}, {"/d", "/"}} {
		if err := replace(one[0], one[1]); err == nil {
			t.Errorf("%s was renamed to %s", one[0], one[1])
		}
	}
	b.must(b.fs.Remove(context.Background(), "/e/x"))
	b.must(replace("/d", "/e"))
	b.holds("/e/g", "text")
	b.missing("/d")
	if got := b.list("/"); !reflect.DeepEqual(got, []string{"e/"}) {
		t.Errorf("listed: %q", got)
	}
}

func TestRenameLargeDirectory(t *testing.T) {
	b := newBench(t)
	b.must(b.fs.Mkdir(context.Background(), "/d", wire.Attrs{}))
	for i := range 999 {
		b.put(fmt.Sprintf("/d/%d", i), "x")
	}
	b.must(b.fs.Rename(context.Background(), "/d", "/e"))
	b.put("/e/999", "x")
	before := b.bucket.Objects()
	if err := b.fs.Rename(context.Background(), "/e", "/f"); err == nil {
		t.Error("a directory of 1001 objects was renamed")
	}
	if !maps.Equal(before, b.bucket.Objects()) {
		t.Error("something has changed")
	}
}

// TestForeignKeys: keys that no path leads to, and files and directories of one name, come from
// other programs.
func TestForeignKeys(t *testing.T) {
	b := newBench(t)
	put := func(key string) {
		body := io.NewSectionReader(strings.NewReader(key), 0, int64(len(key)))
		_, err := b.bucket.Put(context.Background(), key, body, objectfs.Condition{})
		b.must(err)
	}
	for _, key := range []string{"a", "a/below", "a-b", "a.b/c", "b/c", "d//e", "d/f", "A"} {
		put(key)
	}
	if got := b.list("/"); !reflect.DeepEqual(got, []string{"A", "a", "a-b", "a.b/", "b/", "d/"}) {
		t.Errorf("listed: %q", got)
	}
	if got := b.list("/d"); !reflect.DeepEqual(got, []string{"f"}) {
		t.Errorf("listed: %q", got)
	}
	b.holds("/a", "a")
	b.holds("/a/below", "a/below")
	put("data/") // looks like a marker
	b.must(b.fs.Mkdir(context.Background(), "/e", wire.Attrs{}))
	for what, err := range map[string]error{"rmdir": b.fs.Rmdir(context.Background(), "/data"),
		"rename": b.fs.PosixRename(context.Background(), "/e", "/data")} {
		if err == nil || b.bucket.Objects()["data/"] == "" {
			t.Errorf("%s has removed data: %v", what, err)
		}
	}
	b.must(b.bucket.Delete(context.Background(), "data/", ""))
	b.must(b.fs.Rmdir(context.Background(), "/e"))
	for i := range 2500 { // more than two pages, between the file and the directory
		put(fmt.Sprintf("a-%04d", i))
	}
	if got := b.list("/"); len(got) != 2506 {
		t.Errorf("%d names are listed", len(got))
	}
}

// TestPrefix: what is not below the prefix is neither seen nor touched.
func TestPrefix(t *testing.T) {
	bucket := &membucket.Bucket{}
	all := &bench{T: t, bucket: bucket, fs: objectfs.New(bucket, nil)}
	all.must(all.fs.Mkdir(context.Background(), "/users", wire.Attrs{}))
	all.put("/users/x", "other")
	one := &bench{T: t, bucket: bucket, fs: objectfs.New(bucket,
		&objectfs.Options{Prefix: "users/u/"})}
	if got := one.list("/"); len(got) != 0 {
		t.Errorf("listed: %q", got)
	}
	one.put("/f", "text")
	if got := one.list("/"); !reflect.DeepEqual(got, []string{"f"}) {
		t.Errorf("listed: %q", got)
	}
	all.holds("/users/u/f", "text")
	for _, err := range []error{one.fs.Rmdir(context.Background(), "/"),
		one.fs.Rename(context.Background(), "/", "/x"),
		one.fs.Mkdir(context.Background(), "/", wire.Attrs{})} {
		if err == nil {
			t.Error("the top was changed")
		}
	}
}

func TestLongName(t *testing.T) {
	b := newBench(t)
	name := "/" + strings.Repeat("n", objectfs.MaxKey)
	_, err := b.open(name, create)
	if b.is(err, fs.ErrInvalid); b.fs.Mkdir(context.Background(), name, wire.Attrs{}) == nil {
		t.Error("a directory was made")
	}
	b.put(name[:objectfs.MaxKey], "text")
}

// TestLongNamesBelow: a directory is not renamed if a name below it would become too long, and
// nothing of it is copied.
func TestLongNamesBelow(t *testing.T) {
	b := newBench(t)
	b.must(b.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
	b.put("/d/a", "text")
	long := "/d/" + strings.Repeat("n", objectfs.MaxKey-3)
	b.put(long, "text")
	b.is(b.fs.Rename(t.Context(), "/d", "/ddd"), fs.ErrInvalid)
	b.missing("/ddd")
	b.holds(long, "text")
	b.must(b.fs.Rename(t.Context(), "/d", "/e"))
	b.holds("/e/a", "text")
}

func TestModes(t *testing.T) {
	mode := wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o600}
	b := newBench(t)
	b.put("/f", "text")
	b.must(b.fs.Setstat(context.Background(), "/f", mode))
	b.is(b.fs.Setstat(context.Background(), "/none", mode), fs.ErrNotExist)
	b.fs = objectfs.New(b.bucket, &objectfs.Options{RefuseModes: true})
	b.is(b.fs.Setstat(context.Background(), "/f", mode), errors.ErrUnsupported)
	w := b.write("/f", create)
	b.is(w.Setstat(mode), errors.ErrUnsupported)
	b.must(w.Close())
}
