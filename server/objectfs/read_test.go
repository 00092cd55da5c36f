package objectfs_test

import (
	"context"
	"io"
	"math/rand"
	"sync"
	"testing"

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
