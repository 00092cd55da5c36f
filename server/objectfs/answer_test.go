package objectfs_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// watched is a bucket that counts what is fetched from it. With breaks, each answer breaks off after
// so many bytes.
type watched struct {
	objectfs.Bucket
	contents      string // of its one object
	breaks        int
	gets          atomic.Int64
	fetched, open atomic.Int64
}

func (w *watched) Get(ctx context.Context, key, etag string, offset,
	length int64) (io.ReadCloser, error) {
	body, err := w.Bucket.Get(ctx, key, etag, offset, length)
	if err != nil {
		return nil, err
	}
	w.gets.Add(1)
	w.open.Add(1)
	return &watchedBody{body, w, 0}, nil
}

type watchedBody struct {
	io.ReadCloser
	bucket *watched
	came   int
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.bucket.breaks > 0 {
		if p = p[:min(len(p), b.bucket.breaks-b.came)]; len(p) == 0 {
			return 0, errors.New("the connection was reset")
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.came += n
	b.bucket.fetched.Add(int64(n))
	return n, err
}

func (b *watchedBody) Close() error {
	b.bucket.open.Add(-1)
	return b.ReadCloser.Close()
}

// readable is an open file that is read.
type readable interface {
	io.ReaderAt
	io.Closer
}

// watch opens a file of so many bytes in a watched bucket.
func watch(b *bench, size, breaks int) (*watched, readable) {
	w := &watched{Bucket: b.bucket, breaks: breaks}
	b.fs = objectfs.New(w, &objectfs.Options{State: b.state})
	w.contents = text(size)
	b.put("/f", w.contents)
	f, err := b.open("/f", wire.OpenRead)
	b.must(err)
	b.Cleanup(func() { f.Close() })
	return w, f.(readable)
}

// read reads what lies between two offsets, in order.
func (w *watched) read(b *bench, f io.ReaderAt, from, to int64) {
	b.Helper()
	got, err := io.ReadAll(io.NewSectionReader(f, from, to-from))
	if err != nil || string(got) != w.contents[from:to] {
		b.Fatalf("reading from %d to %d: %d bytes, %v", from, to, len(got), err)
	}
}

// TestLongAnswers: a client that reads in order gets many stretches from one request, which fetches
// no more than it will soon want, and ends with the file.
func TestLongAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, ahead = 90 << 20, 8 << 20
		b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
		w, f := watch(b, size, 0)
		for at := int64(0); at < size; at += 10 << 20 {
			w.read(b, f, at, at+10<<20)
			synctest.Wait()
			if n := w.fetched.Load() - at - 10<<20; n < 0 || n > ahead {
				t.Errorf("after %d bytes %d more have been fetched", at+10<<20, n)
			}
			if n := b.fs.Memory().Out(); n > 12<<20 {
				t.Errorf("after %d bytes %d are held", at+10<<20, n)
			}
		}
		if n := w.gets.Load(); n > 6 || w.fetched.Load() != size {
			t.Errorf("%d requests for %d bytes of %d", n, w.fetched.Load(), size)
		}
		b.must(f.Close())
		if w.open.Load() != 0 || b.fs.Memory().Out() != 0 {
			t.Errorf("%d answers and %d bytes are left", w.open.Load(), b.fs.Memory().Out())
		}
	})
}

// TestAnswerNoLongerWanted: an answer ends when the file is closed in the middle, or when the client
// goes on elsewhere.
func TestAnswerNoLongerWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 60 << 20
		b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
		w, f := watch(b, size, 0)
		w.read(b, f, 0, 20<<20)
		for _, at := range []int64{50 << 20, 30 << 20, 1 << 20} {
			w.read(b, f, at, at+5<<20)
			synctest.Wait()
			if n := w.open.Load(); n > 1 {
				t.Errorf("%d answers are open", n)
			}
		}
		if n := w.fetched.Load(); n > (20+3*5+4*8)<<20 {
			t.Errorf("%d bytes were fetched", n)
		}
		b.must(f.Close())
		if w.open.Load() != 0 || b.fs.Memory().Out() != 0 {
			t.Errorf("%d answers and %d bytes are left", w.open.Load(), b.fs.Memory().Out())
		}
	})
}

// TestAnswerBreaksOff: a file is read to its end though every answer breaks off, as long as something
// comes with each.
func TestAnswerBreaksOff(t *testing.T) {
	b := newBench(t)
	const size, breaks = 3<<20 + 5, 300_000
	w, f := watch(b, size, breaks)
	w.read(b, f, 0, size)
	b.must(f.Close())
	if n := w.gets.Load(); n > 2*size/breaks {
		t.Errorf("%d requests", n)
	}
	if w.open.Load() != 0 || b.fs.Memory().Out() != 0 {
		t.Errorf("%d answers and %d bytes are left", w.open.Load(), b.fs.Memory().Out())
	}
}
