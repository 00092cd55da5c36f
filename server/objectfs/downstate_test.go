package objectfs_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/usftp/usftp/server/objectfs"
)

// downState is a state that does not answer from one of its calls on. That call may be done all the
// same.
type downState struct {
	objectfs.State

	mu   sync.Mutex
	call int // counts
	down int // the first call without an answer, from 1
	done bool
}

var errDown = errors.New("the state does not answer")

func (d *downState) change(do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.call++; d.call < d.down {
		return do()
	}
	if d.call == d.down && d.done {
		do()
	}
	return errDown
}

func (d *downState) Lock(ctx context.Context, name, target string) (u objectfs.Upload, err error) {
	err = d.change(func() error {
		u, err = d.State.Lock(ctx, name, target)
		return err
	})
	return u, err
}

func (d *downState) Find(ctx context.Context, name string) (u objectfs.Upload, err error) {
	err = d.change(func() error {
		u, err = d.State.Find(ctx, name)
		return err
	})
	return u, err
}

func (d *downState) Update(ctx context.Context, u objectfs.Upload) error {
	return d.change(func() error { return d.State.Update(ctx, u) })
}

func (d *downState) Unlock(ctx context.Context, u objectfs.Upload, keep bool) error {
	return d.change(func() error { return d.State.Unlock(ctx, u, keep) })
}

// TestTemporaryNameInAnOutage: a long file takes the place of a short one under a temporary name,
// and the state fails at any moment. One of the two is there afterwards, and can be renamed.
func TestTemporaryNameInAnOutage(t *testing.T) {
	ctx := t.Context()
	old, long := text(100), text(5*partSize+9)
	for call, reached := 1, true; reached; call++ {
		for _, done := range []bool{false, true} {
			b := newBench(t)
			b.put("/f.filepart", old)
			state := &downState{State: b.state, down: call, done: done}
			sound := b.fs
			b.fs = objectfs.NewSmall(b.bucket, objectfs.Options{State: state}, partSize,
				16*partSize)
			said := upload("/f.filepart", truncate, 0, long)(b)
			b.fs = sound
			if reached = state.call >= call; reached == (said == nil) {
				t.Errorf("down at call %d (done: %v): the client is told %v", call, done, said)
			}
			if u, err := b.state.Find(ctx, "f.filepart"); err == nil && u.Locked {
				b.must(b.state.Unlock(ctx, u, u.ID != "")) // as others do with what a dead one had
			}
			if err := b.fs.PosixRename(ctx, "/f.filepart", "/f"); err != nil {
				t.Errorf("down at call %d (done: %v): renaming says %v", call, done, err)
				continue
			}
			if got, err := b.get("/f"); got != long && (got != old || !reached) {
				t.Errorf("down at call %d (done: %v): %d bytes are there, %v", call, done, len(got),
					err)
			}
		}
	}
}

// TestRemoveInAnOutage: while the state does not answer, nothing is removed.
func TestRemoveInAnOutage(t *testing.T) {
	b := newBench(t)
	b.put("/f", "text")
	f := objectfs.New(b.bucket, &objectfs.Options{State: &downState{State: b.state, down: 1}})
	b.is(f.Remove(t.Context(), "/f"), errDown)
	b.holds("/f", "text")
	b.must(b.fs.Remove(t.Context(), "/f"))
	b.missing("/f")
}
