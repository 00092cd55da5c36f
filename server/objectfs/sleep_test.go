package objectfs_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// sleeper is a bucket during one of whose requests the server sleeps, and others act.
type sleeper struct {
	objectfs.Bucket
	sleep func() // when a copy was made and looked at, or both parts were sent
	moves atomic.Bool
	key   string // of what is copied
	sent  atomic.Int32
}

func (s *sleeper) Copy(ctx context.Context, from, etag, to string,
	when objectfs.Condition) (objectfs.Object, error) {
	s.moves.Store(true)
	return s.Bucket.Copy(ctx, from, etag, to, when)
}

func (s *sleeper) Head(ctx context.Context, key string) (objectfs.Object, error) {
	o, err := s.Bucket.Head(ctx, key)
	if s.moves.Load() && key == s.key {
		s.sleep()
	}
	return o, err
}

func (s *sleeper) UploadPart(ctx context.Context, key, id string, number int,
	body *io.SectionReader) (objectfs.Part, error) {
	p, err := s.Bucket.UploadPart(ctx, key, id, number, body)
	if s.sent.Add(1) == 2 {
		s.sleep()
	}
	return p, err
}

// TestSleep: a server sleeps so long that others take it for dead, and store a file where it is
// about to delete one. It does not delete theirs.
func TestSleep(t *testing.T) {
	ctx := context.Background()
	for _, one := range []struct {
		name, file string
		do         func(b *bench, asleep *objectfs.FS) error
	}{
		{"rename", "/d/f", func(b *bench, asleep *objectfs.FS) error {
			return asleep.PosixRename(ctx, "/d/f", "/d/g")
		}},
		{"rename of a directory", "/d/f", func(b *bench, asleep *objectfs.FS) error {
			return asleep.Rename(ctx, "/d", "/e")
		}},
		{"a temporary file that becomes long", "/d/f.filepart",
			func(b *bench, asleep *objectfs.FS) error {
				f, err := asleep.Open(ctx, "/d/f.filepart", truncate, wire.Attrs{})
				b.must(err)
				b.at(f.(io.WriterAt), 0, text(2*partSize))
				return f.(writer).Close()
			}},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := newBench(t)
			b.must(b.fs.Mkdir(ctx, "/d", wire.Attrs{}))
			b.put(one.file, "old")
			act := sync.OnceFunc(func() {
				if _, err := b.open(one.file, truncate); !errors.Is(err, objectfs.ErrLocked) {
					t.Errorf("somebody else may write meanwhile: %v", err)
				}
				u, err := b.state.Find(ctx, one.file[1:])
				b.must(err)
				b.must(b.state.Unlock(ctx, u, u.ID != "")) // as others do with what a dead one had
				b.put(one.file, "newer")
			})
			asleep := b.serve(&sleeper{Bucket: b.bucket, sleep: act, key: one.file[1:]})
			if err := one.do(b, asleep); err == nil {
				t.Error("the server that has slept says that it has done it")
			}
			b.holds(one.file, "newer")
		})
	}
}
