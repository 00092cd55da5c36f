package objectfs_test

import (
	"context"
	"io"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

func TestRead(t *testing.T) {
	b := newBench(t)
	const size = 9<<20 + 777
	want := text(size)
	b.put("/f", want)
	small := b.fs
	b.fs = objectfs.New(b.bucket, nil)
	open := func() io.ReaderAt {
		f, err := b.open("/f", wire.OpenRead)
		b.must(err)
		t.Cleanup(func() { f.Close() })
		return f.(io.ReaderAt)
	}
	check := func(f io.ReaderAt, offset, length int64) {
		got := make([]byte, length)
		n, err := f.ReadAt(got, offset)
		left := min(length, max(size-offset, 0))
		if int64(n) != left || (err == io.EOF) != (left < length) || err != nil && err != io.EOF ||
			string(got[:n]) != want[min(offset, size):min(offset, size)+left] {
			t.Errorf("%d bytes at %d: %d, %v", length, offset, n, err)
		}
	}
	t.Run("in order", func(t *testing.T) {
		for _, length := range []int64{32768, 261120} {
			for _, from := range []int64{0, 100_000} {
				b.bucket.Calls()
				f := open()
				for offset := from; offset < size+length; offset += length {
					check(f, offset, length)
				}
				if n := b.bucket.Calls()["Get"]; n > 8 {
					t.Errorf("READs of %d bytes from %d: %d requests", length, from, n)
				}
			}
		}
	})
	t.Run("the beginning", func(t *testing.T) {
		b.bucket.Calls()
		check(open(), 0, 1000)
		if calls := b.bucket.Calls(); calls["Get"] != 1 {
			t.Errorf("requests: %v", calls)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		f := open()
		var group sync.WaitGroup
		for start := range int64(8) {
			group.Go(func() {
				for offset := start * 32768; offset < size; offset += 8 * 32768 {
					check(f, offset, 32768)
				}
			})
		}
		group.Wait()
	})
	t.Run("anywhere", func(t *testing.T) {
		f, r := open(), rand.New(rand.NewSource(1))
		for range 300 {
			offset := r.Int63n(size + 1000)
			for range r.Intn(4) {
				check(f, offset, 1+r.Int63n(300_000))
				offset += 32768
			}
		}
	})
	t.Run("little memory", func(t *testing.T) {
		b.fs = objectfs.NewSmall(b.bucket, objectfs.Options{}, partSize, 1<<20) // half of it is for this
		b.bucket.Calls()
		f := open()
		for offset := int64(0); offset < size; offset += 32768 {
			check(f, offset, 32768)
		}
		const stretch = 256 << 10 // two of them fit; what comes before there is room is asked for alone
		if n := b.bucket.Calls()["Get"]; n > size/stretch*3/2 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("no memory for reading ahead", func(t *testing.T) {
		b.fs = small
		files := make([]io.ReaderAt, 20)
		for i := range files {
			files[i] = open()
			check(files[i], 0, 1000)
		}
		if got := b.fs.Memory().Out(); got > 8*partSize+1<<20 {
			t.Errorf("%d bytes are held", got)
		}
		for _, f := range files {
			check(f, size/2, 50_000)
		}
	})
}

// TestReadOfReplaced: a reader gets the file that it has opened, or an error.
func TestReadOfReplaced(t *testing.T) {
	b := newBench(t)
	b.put("/f", text(4<<20))
	f, err := b.open("/f", wire.OpenRead)
	b.must(err)
	defer f.Close()
	if _, err := f.(io.ReaderAt).ReadAt(make([]byte, 10), 0); err != nil {
		t.Fatal(err)
	}
	b.put("/f", text(4<<20+1))
	for _, offset := range []int64{3 << 20, 1<<20 + 5} {
		if _, err := f.(io.ReaderAt).ReadAt(make([]byte, 10), offset); err == nil {
			t.Error("the new file was read")
		}
	}
	b.must(b.fs.Remove(context.Background(), "/f"))
	if _, err := f.(io.ReaderAt).ReadAt(make([]byte, 10), 2<<20); err == nil {
		t.Error("a removed file was read")
	}
}

// hasty is a bucket that looks at what has a name twice for one request, as versitygw does: first
// at the length or the ETag, and then at the rest.
type hasty struct {
	objectfs.Bucket
	inHead, inGet func() // happens in between
}

func (h *hasty) Head(ctx context.Context, key string) (objectfs.Object, error) {
	o, err := h.Bucket.Head(ctx, key)
	h.inHead()
	if now, err := h.Bucket.Head(ctx, key); err == nil {
		o.ETag = now.ETag
	}
	return o, err
}

func (h *hasty) Get(ctx context.Context, key, etag string, offset,
	length int64) (io.ReadCloser, error) {
	body, err := h.Bucket.Get(ctx, key, etag, offset, length)
	if err != nil {
		return nil, err
	}
	body.Close()
	h.inGet()
	o, err := h.Bucket.Head(ctx, key)
	if err != nil {
		return nil, err
	}
	body, err = h.Bucket.Get(ctx, key, o.ETag, offset, length)
	return described{body, o}, err
}

type described struct {
	io.ReadCloser
	object objectfs.Object
}

func (d described) Describe() (size int64, modified time.Time) {
	return d.object.Size, d.object.Modified
}

// TestReplacedInBetween: a file is replaced while the storage looks for what it is to send. It is
// not read as the old one, nor is it changed as that.
func TestReplacedInBetween(t *testing.T) {
	ctx := context.Background()
	const size = 5000
	old := text(size)
	for _, one := range []struct {
		name    string
		replace string
		inHead  bool
		reads   bool // it is seen to be the new one, as a whole
	}{
		{name: "a longer one in GET", replace: text(2 * size)},
		{name: "a longer one in HEAD", replace: text(2 * size), inHead: true},
		{name: "one of the same length in GET", replace: text(size + 1)[1:]},
		{name: "one of the same length in HEAD", replace: text(size + 1)[1:], inHead: true,
			reads: true},
		{name: "an equal one in GET", replace: old, reads: true},
	} {
		for _, change := range []bool{false, true} {
			name := "reading: "
			if change {
				name = "changing: "
			}
			t.Run(name+one.name, func(t *testing.T) {
				b := newBench(t)
				b.put("/f", old)
				b.put("/g", one.replace)
				sound := b.fs
				replace := sync.OnceFunc(func() {
					if err := sound.PosixRename(ctx, "/g", "/f"); err != nil {
						t.Error(err)
					}
				})
				h := &hasty{b.bucket, func() {}, replace}
				if one.inHead {
					h.inHead, h.inGet = replace, func() {}
				}
				b.fs = b.serve(h)
				want := one.replace
				var err error
				if change {
					f := b.write("/f", wire.OpenWrite|wire.OpenAppend)
					b.at(f, 0, "more")
					if err = f.Close(); err == nil {
						want += "more"
					}
				} else {
					var got string
					if got, err = b.get("/f"); err == nil && got != want {
						t.Errorf("%d bytes were read that are not the new file", len(got))
					}
				}
				if (err == nil) != one.reads || !change && err != nil &&
					!strings.Contains(err.Error(), "while it was read") {
					t.Errorf("it ended with: %v", err)
				}
				b.fs = sound
				b.holds("/f", want)
			})
		}
	}
}
