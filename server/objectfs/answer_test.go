package objectfs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
	answers       chan struct{} // if not nil, nothing is answered before it is closed
	gets          atomic.Int64
	fetched, open atomic.Int64
}

func (w *watched) Get(ctx context.Context, key, etag string, offset,
	length int64) (io.ReadCloser, error) {
	if w.answers != nil {
		<-w.answers
	}
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

// longRead is as much as a READ asks for.
const longRead = 255 << 10

// read reads what lies between two offsets, in order.
func (w *watched) read(b *bench, f io.ReaderAt, from, to int64) {
	b.Helper()
	got := make([]byte, to-from)
	for at := int64(0); at < to-from; at += longRead {
		if n, err := f.ReadAt(got[at:min(at+longRead, to-from)], from+at); err != nil {
			b.Fatalf("reading at %d: %d bytes, %v", from+at, n, err)
		}
	}
	if string(got) != w.contents[from:to] {
		b.Fatalf("other bytes between %d and %d", from, to)
	}
}

// TestLongAnswers: a client that reads in order gets many stretches from one request, which fetches
// no more than it will soon want, and ends with the file.
func TestLongAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, step, ahead = 40 << 20, 5 << 20, 8 << 20
		b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
		w, f := watch(b, size, 0)
		for at := int64(step); at <= size; at += step {
			w.read(b, f, at-step, at)
			synctest.Wait()
			if n := w.fetched.Load() - at; n < 0 || n > ahead {
				t.Errorf("after %d bytes %d more have been fetched", at, n)
			}
			if n := b.fs.Memory().Out(); n > 12<<20 {
				t.Errorf("after %d bytes %d are held", at, n)
			}
		}
		if n := w.gets.Load(); n > 5 || w.fetched.Load() != size {
			t.Errorf("%d requests for %d bytes of %d", n, w.fetched.Load(), size)
		}
		b.must(f.Close())
		if w.open.Load() != 0 || b.fs.Memory().Out() != 0 {
			t.Errorf("%d answers and %d bytes are left", w.open.Load(), b.fs.Memory().Out())
		}
	})
}

// TestEarlyReads: of the READs that a client sends at once, later ones may be executed first. They
// take nothing away from the others, and need no requests of their own. A READ that runs alone is
// not taken for one of those.
func TestEarlyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 3 << 20
		b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
		w, f := watch(b, size, 0)
		w.answers = make(chan struct{})
		var group sync.WaitGroup
		for _, i := range []int64{0, 2, 6, 1, 4, 5, 3, 7} {
			group.Go(func() { w.read(b, f, i*longRead, (i+1)*longRead) })
			synctest.Wait()
		}
		close(w.answers)
		group.Wait()
		w.read(b, f, 8*longRead, size)
		if n := w.gets.Load(); n > 4 || w.fetched.Load() != size {
			t.Errorf("%d requests for %d bytes of %d", n, w.fetched.Load(), size)
		}
		b.must(f.Close())

		w, f = watch(b, size, 0)
		w.read(b, f, 0, longRead)
		w.read(b, f, 2*longRead, 2*longRead+1)
		if n := w.fetched.Load(); n > 256<<10+longRead {
			t.Errorf("%d bytes were fetched for two READs apart", n)
		}
		b.must(f.Close())
	})
}

// TestAnswerNoLongerWanted: an answer ends when the file is closed in the middle, or when the client
// goes on elsewhere.
func TestAnswerNoLongerWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 40 << 20
		b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
		w, f := watch(b, size, 0)
		w.read(b, f, 0, 20<<20)
		for _, at := range []int64{34 << 20, 26 << 20, 1 << 20} {
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

// TestIdleAnswer: a client that pauses does not keep the storage busy, and can go on.
func TestIdleAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, first = 40 << 20, 9 << 20
		b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
		w, f := watch(b, size, 0)
		w.read(b, f, 0, first)
		time.Sleep(time.Minute)
		if w.open.Load() != 0 {
			t.Errorf("%d answers are open", w.open.Load())
		}
		w.read(b, f, first, size)
		if n := w.fetched.Load(); n > size+(8<<20) {
			t.Errorf("%d bytes were fetched of %d", n, size)
		}
		b.must(f.Close())
	})
}

// TestDripping: a storage that ends each connection after a few bytes is not asked for ever.
func TestDripping(t *testing.T) {
	for name, from := range map[string]int64{"in order": 0, "anywhere": 5 << 20} {
		t.Run(name, func(t *testing.T) {
			b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
			w, f := watch(b, 10<<20, 10)
			if n, err := f.ReadAt(make([]byte, longRead), from); err == nil || n > 200 {
				t.Errorf("%d bytes, %v", n, err)
			}
			b.must(f.Close())
			if n := w.gets.Load(); n > 20 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// endless fails as connections that end do, before there is an answer.
type endless struct{ objectfs.Bucket }

func (endless) Get(context.Context, string, string, int64, int64) (io.ReadCloser, error) {
	return nil, fmt.Errorf("asking the storage: %w", io.EOF)
}

// TestFailedRequestIsNotTheEnd: what fails in that way is not taken for the end of the file.
func TestFailedRequestIsNotTheEnd(t *testing.T) {
	b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
	b.fs = objectfs.New(endless{b.bucket}, &objectfs.Options{State: b.state})
	b.put("/f", text(10<<20))
	f, err := b.open("/f", wire.OpenRead)
	b.must(err)
	defer f.Close()
	for _, at := range []int64{0, 5 << 20} {
		_, err := f.(readable).ReadAt(make([]byte, longRead), at)
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("at %d: %v", at, err)
		}
	}
}
