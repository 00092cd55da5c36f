package objectfs_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// silent is a bucket that does not answer uploads of parts.
type silent struct{ objectfs.Bucket }

func (silent) UploadPart(ctx context.Context, _, _ string, _ int,
	_ *io.SectionReader) (objectfs.Part, error) {
	<-ctx.Done()
	return objectfs.Part{}, context.Cause(ctx)
}

// TestSilentStorage: a session that ends does not wait for storage that says nothing, and leaves
// nothing locked.
func TestSilentStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.fs = b.serve(silent{b.bucket})
		session, end := context.WithCancel(context.Background())
		f, err := b.fs.Open(session, "/f", truncate, wire.Attrs{})
		b.must(err)
		done := make(chan error)
		go func() {
			_, err := f.(writer).WriteAt([]byte(text(4*partSize)), 0)
			done <- err
		}()
		synctest.Wait() // two parts are on their way, and a third one is to be written
		end()
		began := time.Now()
		if err := <-done; err == nil {
			t.Error("the write has succeeded")
		}
		b.must(f.(writer).Abandon())
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the end of the session took %v", took)
		}
		if n := b.fs.Memory().Out(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
		b.fs = b.serve(b.bucket)
		b.put("/f", "text")
		b.holds("/f", "text")
	})
}

// mute is a bucket whose first answers stop after a while, though their connections stay.
type mute struct {
	objectfs.Bucket
	says  int   // bytes, before an answer stops
	stops int64 // so many answers do
	gets  atomic.Int64
}

func (m *mute) Get(ctx context.Context, key, etag string, offset,
	length int64) (io.ReadCloser, error) {
	from, err := m.Bucket.Get(ctx, key, etag, offset, length)
	if m.gets.Add(1) > m.stops || err != nil {
		return from, err
	}
	return &muteBody{from, ctx, m.says}, nil
}

type muteBody struct {
	io.ReadCloser
	ctx  context.Context
	left int
}

func (m *muteBody) Read(p []byte) (int, error) {
	if m.left == 0 {
		<-m.ctx.Done()
		return 0, m.ctx.Err()
	}
	n, err := m.ReadCloser.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}

// TestSilentAnswer: a READ goes on elsewhere if the storage stops in the middle of an answer, and
// fails before long if that does not help.
func TestSilentAnswer(t *testing.T) {
	for _, one := range []struct {
		name  string
		from  int64
		says  int
		stops int64
		well  bool
		takes time.Duration // at most
	}{
		{"once, in order", 0, 100_000, 1, true, time.Minute},
		{"once, anywhere", 5 << 20, 100_000, 1, true, time.Minute},
		{"at once", 0, 0, 1, false, time.Minute},
		{"always, in order", 0, 10_000, 100, false, 5 * time.Minute},
		{"always, anywhere", 5 << 20, 10_000, 100, false, 5 * time.Minute},
	} {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
				contents := text(10 << 20)
				b.fs = objectfs.New(&mute{Bucket: b.bucket, says: one.says, stops: one.stops},
					&objectfs.Options{State: b.state})
				b.put("/f", contents)
				f, err := b.open("/f", wire.OpenRead)
				b.must(err)
				began, got := time.Now(), make([]byte, longRead)
				n, err := f.(readable).ReadAt(got, one.from)
				if took := time.Since(began); (err == nil) != one.well || took > one.takes ||
					string(got[:n]) != contents[one.from:][:n] {
					t.Errorf("after %s %d bytes, %v", took, n, err)
				}
				if err != nil && !strings.Contains(err.Error(), "has sent nothing for a minute") {
					t.Errorf("it says %v", err)
				}
				b.must(f.Close())
				if n := b.fs.Memory().Out(); n != 0 {
					t.Errorf("%d bytes are left", n)
				}
			})
		})
	}
}

// TestSilentAnswerOfMany: READs that wait for one answer fail together if it stops, and one whose
// session ends does not wait for it. A change to a file does not wait for ever either.
func TestSilentAnswerOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, bucket: &membucket.Bucket{}, state: &objectfs.MemoryState{}}
		b.fs = objectfs.New(&mute{Bucket: b.bucket, stops: 100}, &objectfs.Options{State: b.state})
		b.put("/f", text(10<<20))
		session, end := context.WithCancel(context.Background())
		began := time.Now()
		var group sync.WaitGroup
		for at := range int64(4) {
			ctx := context.Background()
			if at == 3 {
				ctx = session
			}
			f, err := b.fs.Open(ctx, "/f", wire.OpenRead, wire.Attrs{})
			b.must(err)
			group.Go(func() {
				defer f.Close()
				_, err := f.(readable).ReadAt(make([]byte, longRead), at*longRead)
				took := time.Since(began)
				if err == nil || took > time.Minute || at == 3 && took > 0 {
					t.Errorf("READ %d, after %s: %v", at, took, err)
				}
			})
			synctest.Wait()
		}
		end()
		group.Wait()
		if n := b.fs.Memory().Out(); n != 0 {
			t.Errorf("%d bytes are left", n)
		}
		began = time.Now()
		w := b.write("/f", wire.OpenWrite)
		b.at(w, 10, "changed")
		if err := w.Close(); err == nil || time.Since(began) > 5*time.Minute {
			t.Errorf("CLOSE of a changed file, after %s: %v", time.Since(began), err)
		}
	})
}
