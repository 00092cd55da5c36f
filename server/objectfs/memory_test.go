package objectfs_test

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// TestManyUploads: many uploads at once, in order and out of order, get by with memory for a few
// parts, and none waits for ever.
func TestManyUploads(t *testing.T) {
	const uploads, memory = 32, 8 * partSize
	bucket := &membucket.Bucket{MinPart: partSize}
	f := objectfs.NewSmall(bucket, objectfs.Options{}, partSize, memory)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var most atomic.Int64
	var group sync.WaitGroup
	for i := range uploads {
		group.Go(func() {
			file, err := f.Open(ctx, fmt.Sprintf("/%d", i), truncate, wire.Attrs{})
			if err != nil {
				t.Error(err)
				return
			}
			w, data := file.(writer), text(6*partSize+i)
			order := rand.New(rand.NewSource(int64(i)))
			const packet = 4000
			for at := 0; at < len(data); at += 4 * packet { // up to four packets change places
				for _, k := range order.Perm(4) {
					from := at + k*packet
					if from >= len(data) {
						continue
					}
					to := min(from+packet, len(data))
					if _, err := w.WriteAt([]byte(data[from:to]), int64(from)); err != nil {
						t.Errorf("upload %d at %d: %v", i, from, err)
						w.Abandon()
						return
					}
					for out := f.Memory().Out(); ; {
						now := most.Load()
						if out <= now || most.CompareAndSwap(now, out) {
							break
						}
					}
				}
			}
			if err := w.Close(); err != nil {
				t.Errorf("upload %d: %v", i, err)
			}
		})
	}
	group.Wait()
	// Blocks are longer than parts here: one block stands for a part.
	const block = 256 << 10
	if got := most.Load(); got > block*memory/partSize {
		t.Errorf("%d bytes were held at once", got)
	}
	if got := f.Memory().Out(); got != 0 {
		t.Errorf("%d bytes are still held", got)
	}
	for key, data := range bucket.Objects() {
		var i int
		fmt.Sscan(key, &i)
		if data != text(6*partSize+i) {
			t.Errorf("%s holds %d other bytes", key, len(data))
		}
	}
}

// TestShortFiles: many short files at once need no memory for a part each, and grow into it.
func TestShortFiles(t *testing.T) {
	const block, part = 256 << 10, 1 << 20
	bucket := &membucket.Bucket{MinPart: part}
	f := objectfs.NewSmall(bucket, objectfs.Options{}, part, 16*part)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	put := func(i, size int) (writer, string) {
		file, err := f.Open(ctx, fmt.Sprint("/", i), truncate, wire.Attrs{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.(writer).WriteAt([]byte(text(size)), 0); err != nil {
			t.Fatal(err)
		}
		return file.(writer), text(size)
	}
	open, want := []writer{}, []string{}
	for i := range 8 + 12 { // as many as there are short blocks for, and some with parts
		w, data := put(i, block-i)
		open, want = append(open, w), append(want, data)
	}
	for i, w := range open {
		if err := w.Close(); err != nil || bucket.Objects()[fmt.Sprint(i)] != want[i] {
			t.Errorf("file %d: %v", i, err)
		}
	}
	for i, size := range []int{block + 1, part - 1, part, 3*part + 5} {
		w, data := put(i, block/2)
		if _, err := w.WriteAt([]byte(text(size)), 0); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil || bucket.Objects()[fmt.Sprint(i)] != text(size) {
			t.Errorf("a file that grows from %d to %d bytes: %v", len(data), size, err)
		}
	}
	// What changes of a longer file is little; the file is long all the same.
	old := text(part - 7)
	w, _ := put(0, part-7)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := f.Open(ctx, "/0", wire.OpenWrite, wire.Attrs{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.(writer).WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil || bucket.Objects()["0"] != "x"+old[1:] {
		t.Errorf("a changed file: %v", err)
	}
	if got := f.Memory().Out(); got != 0 {
		t.Errorf("%d bytes are still held", got)
	}
}

// TestWaitEndsWithSession: a writer that waits for memory gives up when its session ends.
func TestWaitEndsWithSession(t *testing.T) {
	f := objectfs.NewSmall(&membucket.Bucket{}, objectfs.Options{}, partSize, 8*partSize)
	for i := range 7 { // which take all there is, but for one part that lets one of them go on
		file, err := f.Open(context.Background(), fmt.Sprint("/", i), truncate, wire.Attrs{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.(writer).WriteAt([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		defer file.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	file, err := f.Open(ctx, "/f", truncate, wire.Attrs{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := file.(writer).WriteAt([]byte("x"), 0)
		done <- err
	}()
	cancel()
	if err := <-done; err == nil {
		t.Error("it got memory that nobody has given back")
	}
	if err := file.(writer).Abandon(); err != nil {
		t.Error(err)
	}
}

// slowBucket stores no part before go is closed.
type slowBucket struct {
	membucket.Bucket
	stores chan struct{}
}

func (b *slowBucket) UploadPart(ctx context.Context, key, id string, number int,
	body *io.SectionReader) (objectfs.Part, error) {
	<-b.stores
	return b.Bucket.UploadPart(ctx, key, id, number, body)
}

// TestGoneWhileClosing: while one part of an upload that is being closed is on its way, and another
// waits for memory, the client goes away. The memory of the first is in use until it has arrived.
func TestGoneWhileClosing(t *testing.T) {
	const part, memory = 2 << 20, 8
	for range 8 { // either part may be first
		synctest.Test(t, func(t *testing.T) {
			b := &slowBucket{Bucket: membucket.Bucket{MinPart: part}, stores: make(chan struct{})}
			f := objectfs.NewSmall(b, objectfs.Options{}, part, memory*part)
			write := func(ctx context.Context, name string, length int, offsets ...int64) writer {
				file, err := f.Open(ctx, name, truncate, wire.Attrs{})
				if err != nil {
					t.Fatal(err)
				}
				for _, offset := range offsets {
					if _, err := file.(writer).WriteAt([]byte(text(length)), offset); err != nil {
						t.Fatal(err)
					}
				}
				return file.(writer)
			}
			ctx, leave := context.WithCancel(t.Context())
			gone := write(ctx, "/gone", 1, 0, part)
			var others []writer
			for i := range memory - 1 {
				others = append(others, write(t.Context(), fmt.Sprint("/", i), part, 0))
			}
			closed := make(chan error, 1)
			go func() { closed <- gone.Close() }()
			synctest.Wait()
			leave()
			synctest.Wait()
			close(b.stores)
			if err := <-closed; err == nil {
				t.Error("it was closed without memory")
			}
			for _, other := range others {
				if err := other.Close(); err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
			if got := f.Memory().Out(); got != 0 {
				t.Errorf("%d bytes are still held", got)
			}
		})
	}
}

// TestIdleUploadsGiveWay: uploads to which nobody writes do not keep others waiting, and those that
// go on keep their memory.
func TestIdleUploadsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, bucket: &membucket.Bucket{MinPart: partSize},
			state: &objectfs.MemoryState{}}
		b.fs = objectfs.NewSmall(b.bucket, objectfs.Options{State: b.state}, partSize, 8*partSize)
		var idle []writer
		for i := range 6 {
			idle = append(idle, b.write(fmt.Sprint("/", i), truncate))
			b.at(idle[i], 0, "idle")
		}
		busy := b.write("/busy", truncate) // the last for which there is memory
		b.at(busy, 0, "bus")
		time.Sleep(40 * time.Second)
		b.at(busy, 3, "y")
		began := time.Now()
		b.put("/new", "new")
		if waited := time.Since(began); waited < 20*time.Second || waited > 40*time.Second {
			t.Errorf("an upload waited %v for the memory of those that are idle", waited)
		}
		b.at(busy, 4, "!")
		b.must(busy.Close())
		b.holds("/busy", "busy!")
		b.holds("/new", "new")
		for i, w := range idle {
			if _, err := w.WriteAt([]byte("x"), 4); i == 0 {
				b.is(err, objectfs.ErrIdle)
			}
			b.is(w.Close(), objectfs.ErrIdle)
			b.missing(fmt.Sprint("/", i))
		}
		if got := b.fs.Memory().Out(); got != 0 {
			t.Errorf("%d bytes are still held", got)
		}
	})
}

// TestWhereLengthsChange: many files that are written out of order where parts become longer get
// memory for both, although together they want more than there is.
func TestWhereLengthsChange(t *testing.T) {
	f := objectfs.NewSmall(&membucket.Bucket{MinPart: partSize}, objectfs.Options{}, partSize,
		8*partSize)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const last = 499 * partSize // where the last short part begins
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			file, err := f.Open(ctx, fmt.Sprint("/", i), truncate, wire.Attrs{})
			if err != nil {
				t.Error(err)
				return
			}
			w := file.(writer)
			for _, one := range []struct{ offset, length int }{{last, 1}, {last + partSize, 1},
				{last + 1, partSize - 1}, {last + 3*partSize, 1}} {
				if _, err := w.WriteAt([]byte(text(one.length)), int64(one.offset)); err != nil {
					t.Errorf("writing at %d: %v", one.offset, err)
				}
			}
			if err := w.Abandon(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := f.Memory().Out(); got != 0 {
		t.Errorf("%d bytes are still held", got)
	}
}

// TestSlowUploads: uploads that go on at the same pace need half of a part each on the way, and so
// more of them go on at once than there is memory for whole parts.
func TestSlowUploads(t *testing.T) {
	const part, uploads, memory = 2 << 20, 10, 8
	f := objectfs.NewSmall(&membucket.Bucket{MinPart: part}, objectfs.Options{}, part, memory*part)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var open []writer
	for i := range uploads {
		file, err := f.Open(ctx, fmt.Sprint("/", i), truncate, wire.Attrs{})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, file.(writer))
	}
	data := []byte(text(part))
	for at := 0; at < part/2; at += 1 << 18 {
		for i, w := range open {
			if _, err := w.WriteAt(data[at:at+1<<18], int64(at)); err != nil {
				t.Fatalf("upload %d at %d: %v", i, at, err)
			}
		}
	}
	if got := f.Memory().Out(); got != uploads*part/2 {
		t.Errorf("%d bytes are held, want those that came: %d", got, uploads*part/2)
	}
	for i, w := range open {
		if _, err := w.WriteAt(data[part/2:], part/2); err != nil {
			t.Errorf("upload %d: %v", i, err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("upload %d: %v", i, err)
		}
	}
}

// TestLayout: the parts of the largest object that S3 allows, and how long they are.
func TestLayout(t *testing.T) {
	const mib, tib = 1 << 20, 1 << 40
	for _, one := range []struct{ size, longest, parts, length int64 }{
		{1, 1280 * mib, 1, 5 * mib}, {5 * mib, 1280 * mib, 1, 5 * mib},
		{5*mib + 1, 1280 * mib, 2, 5 * mib},
		{20_000_000_000, 1280 * mib, 1540, 40 * mib},
		{5 * tib, 1280 * mib, 7598, 1280 * mib},
		{357_500 * mib, 40 * mib, 10000, 40 * mib},
	} {
		n, length := objectfs.Parts(one.size, one.longest)
		if n != int(one.parts) || length != one.length {
			t.Errorf("%d bytes: %d parts, the last of %d bytes; want %d, %d", one.size, n, length,
				one.parts, one.length)
		}
	}
	end := int64(0)
	for i := range objectfs.MaxParts {
		start, length := objectfs.Span(i)
		if start != end || objectfs.At(start) != i || objectfs.At(start+length-1) != i {
			t.Fatalf("part %d begins at %d, want %d", i, start, end)
		}
		end = start + length
	}
	if end < 5*tib {
		t.Errorf("%d parts hold %d bytes, less than S3 allows", objectfs.MaxParts, end)
	}
}
