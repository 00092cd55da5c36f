package objectfs_test

import (
	"io"
	"math/rand"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// lanes are several handles of one file, each on a connection of its own.
type lanes struct {
	*bench
	bucket *watched
	files  []readable
	size   int64
}

// lanes opens a file several times.
func (b *bench) lanes(n int, size int64) *lanes {
	w, first := watch(b, int(size), 0)
	l := &lanes{b, w, []readable{first}, size}
	for range n - 1 {
		f, err := b.open("/f", wire.OpenRead)
		b.must(err)
		b.Cleanup(func() { f.Close() })
		l.files = append(l.files, f.(readable))
	}
	return l
}

// deal reads the file as usftp does: each lane asks for what comes next as soon as one of its READs
// has been answered. The lanes join one after the other, and one is slower than the other.
func (l *lanes) deal(atOnce int) {
	var mu sync.Mutex
	var next int64
	claim := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		next += longRead
		return next - longRead
	}
	var group sync.WaitGroup
	for i, f := range l.files {
		time.Sleep(50 * time.Millisecond)
		for range atOnce {
			group.Go(func() {
				for at := claim(); at < l.size; at = claim() {
					time.Sleep(time.Duration(10+i) * time.Millisecond) // the request and its answer
					l.bucket.read(l.bench, f, at, min(at+longRead, l.size))
				}
			})
		}
	}
	group.Wait()
}

// segments reads the file as others do: each lane reads its share in order, with so many READs at
// once.
func (l *lanes) segments(atOnce int64) {
	share := (l.size/int64(len(l.files)) + longRead - 1) / longRead * longRead
	var group sync.WaitGroup
	for i, f := range l.files {
		from := int64(i) * share
		to := min(from+share, l.size)
		for j := range atOnce {
			group.Go(func() {
				for at := from + j*longRead; at < to; at += atOnce * longRead {
					l.bucket.read(l.bench, f, at, min(at+longRead, to))
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
	}
	group.Wait()
}

// together reads all of the file with each lane; one begins later, and a little is slower.
func (l *lanes) together() {
	var group sync.WaitGroup
	for i, f := range l.files {
		group.Go(func() {
			time.Sleep(time.Duration(i) * time.Second / 2)
			for at := int64(0); at < l.size; at += longRead {
				l.bucket.read(l.bench, f, at, min(at+longRead, l.size))
				time.Sleep(time.Duration(200+i) * time.Millisecond / 20)
			}
		})
	}
	group.Wait()
}

// TestSeveralHandles: a file that is read through several handles takes few requests, however they
// share it, and little is fetched twice.
func TestSeveralHandles(t *testing.T) {
	const size = 96<<20 + 12345
	for _, one := range []struct {
		name  string
		lanes int
		read  func(l *lanes)
		gets  int64
		bytes float64 // fetched, of the size
	}{
		{"dealt out", 8, func(l *lanes) { l.deal(8) }, 100, 1.3},
		{"dealt out, two lanes", 2, func(l *lanes) { l.deal(4) }, 80, 1.3},
		{"in segments", 5, func(l *lanes) { l.segments(1) }, 45, 1.5},
		{"in segments, many at once", 5, func(l *lanes) { l.segments(8) }, 100, 1.5},
		{"together", 3, (*lanes).together, 40, 3.2},
	} {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
				l := b.lanes(one.lanes, size)
				one.read(l)
				gets, share := l.bucket.gets.Load(), float64(l.bucket.fetched.Load())/size
				if gets > one.gets || share > one.bytes {
					t.Errorf("%d requests for %.2f times the file", gets, share)
				}
				for _, f := range l.files {
					b.must(f.Close())
				}
				if l.bucket.open.Load() != 0 || b.fs.Memory().Out() != 0 {
					t.Errorf("%d answers and %d bytes are left", l.bucket.open.Load(),
						b.fs.Memory().Out())
				}
			})
		})
	}
}

// TestHandlesOfTwoVersions: handles that were opened before and after a file was replaced get
// their own version or an error, whatever they share.
func TestHandlesOfTwoVersions(t *testing.T) {
	b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
	const size = 8 << 20
	l := b.lanes(4, size)
	old, random := l.bucket.contents, rand.New(rand.NewSource(1))
	newer := old[1:] + "x" // of the same length
	var group sync.WaitGroup
	replaced := make(chan struct{})
	for _, f := range l.files {
		offsets := random.Perm(size / longRead)
		group.Go(func() {
			for i, at := range offsets {
				if i == len(offsets)/2 {
					<-replaced
				}
				got := make([]byte, 2*longRead)
				n, _ := f.ReadAt(got, int64(at)*longRead)
				if string(got[:n]) != old[at*longRead:][:n] {
					t.Errorf("other bytes at %d", at*longRead)
				}
			}
		})
	}
	b.put("/f", newer)
	close(replaced)
	for range 4 {
		group.Go(func() {
			f, err := b.open("/f", wire.OpenRead)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			got, err := io.ReadAll(io.NewSectionReader(f.(io.ReaderAt), 0, size))
			if err != nil || string(got) != newer {
				t.Errorf("of the new version: %d bytes, %v", len(got), err)
			}
		})
	}
	group.Wait()
}

// TestReadAfterClose: a handle that is used once more after its end gets nothing of what others have
// fetched, and does not keep them from ending.
func TestReadAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
		l := b.lanes(2, 8<<20)
		const end = 4 * longRead
		for _, f := range l.files {
			l.bucket.read(b, f, 0, end)
		}
		b.must(l.files[0].Close())
		if n, err := l.files[0].ReadAt(make([]byte, 10), end-10); err == nil {
			t.Errorf("%d bytes are read of a closed file", n)
		}
		b.must(l.files[1].Close())
		if n := b.fs.Memory().Out(); n != 0 || l.bucket.open.Load() != 0 {
			t.Errorf("%d bytes and %d answers are left", n, l.bucket.open.Load())
		}
	})
}

// TestIdleHandles: open files that nobody reads keep no memory from those that are read, and go on
// when their clients do.
func TestIdleHandles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, read = 14 << 20, 6 << 20
		b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
		w := &watched{Bucket: b.bucket, contents: text(size)}
		b.fs = objectfs.New(w, &objectfs.Options{State: b.state,
			Memory: objectfs.NewMemory(32 << 20)})
		open := func(name string) readable {
			b.put(name, w.contents)
			f, err := b.open(name, wire.OpenRead)
			b.must(err)
			b.Cleanup(func() { f.Close() })
			return f.(readable)
		}
		var idle []readable
		for i := range 6 { // each holds 4 MiB or more of 16
			idle = append(idle, open("/"+string(rune('a'+i))))
			w.read(b, idle[i], 0, read)
		}
		gets := func(f readable, from int64) int64 {
			before := w.gets.Load()
			w.read(b, f, from, size)
			return w.gets.Load() - before
		}
		f := open("/f")
		if n := gets(f, 0); n < size/longRead/2 {
			t.Errorf("%d requests while all memory is in use: nothing is shown here", n)
		}
		time.Sleep(time.Minute)
		if n := gets(open("/g"), 0); n > 10 {
			t.Errorf("%d requests while others have been idle for a minute", n)
		}
		for i, f := range idle {
			time.Sleep(time.Minute)
			if n := gets(f, read); n > 10 {
				t.Errorf("%d requests when idle file %d goes on", n, i)
			}
		}
		if n := b.fs.Memory().Out(); n > 32<<20 {
			t.Errorf("%d bytes are held", n)
		}
	})
}
