package transfer

import (
	"errors"
	"io"
	"math"
	"os"

	"github.com/usftp/usftp"
)

// buffer lends the worker's memory.
func (w *worker) buffer(n int) []byte {
	const kept = 16 << 10
	if n > kept {
		return make([]byte, n)
	}
	if w.memory == nil {
		w.memory = make([]byte, kept)
	}
	return w.memory[:n]
}

// isSmall tells whether the file is one of a tree that travels in one piece.
func (r *run) isSmall(size int64) bool { return r.item != nil && r.item.dir.tree.isSmall(size) }

// readSmall reads a small local file whole. It returns nil where the file turns out to have another size than it said, which the usual way
// copes with.
func (r *run) readSmall(f *os.File, size int64) ([]byte, error) {
	data := r.worker.buffer(int(size) + 1)
	n, err := io.ReadFull(f, data)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
	case err != nil:
		return nil, err
	}
	if int64(n) == size {
		return data[:n], nil
	}
	_, err = f.Seek(0, io.SeekStart)
	return nil, err
}

// sendSmall writes, finishes and closes a small file.
func (r *run) sendSmall(f *usftp.File, from *source, target *remoteTarget) error {
	refused, err := f.WriteClose(from.data, r.remoteAttrs(from, target))
	if err != nil {
		return err
	}
	r.result.Bytes = int64(len(from.data))
	if refused != nil && r.Options.Preserve {
		return refused
	}
	if r.limiter != nil {
		return r.limiter.wait(len(from.data))
	}
	return nil
}

// remoteAttrs are what an upload gives its target besides contents.
func (r *run) remoteAttrs(from *source, target *remoteTarget) (set usftp.NewAttrs) {
	if from.file == nil {
		return set
	}
	if seconds := from.before.ModTime().Unix(); r.Options.Preserve || r.item != nil && seconds >= 0 && seconds <= math.MaxUint32 {
		set.SetTimes, set.Atime, set.Mtime = true, from.before.ModTime(), from.before.ModTime()
	}
	if r.Options.Preserve {
		set.SetMode, set.Mode = true, from.before.Mode()
	} else if target.before != nil && !r.result.InPlace {
		set.SetMode, set.Mode = true, target.before.Mode()
	}
	return set
}

// downloadSmall copies a small file of a tree: what the server sends is in memory before anything is made here. It returns false where
// the file is not what it was when it was listed, which the usual way copes with.
func (r *run) downloadSmall() (done bool, err error) {
	size := r.item.facts.size
	memory := r.item.dir.tree.memory
	memory.take(size)
	defer memory.give(size)
	f := usftp.NewFile(r.Host.Client, r.Source)
	if err := f.OpenRead(); err != nil {
		return true, err
	}
	data := r.worker.buffer(int(size))
	before, err := f.ReadClose(data)
	if errors.Is(err, usftp.ErrOtherSize) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	if before == nil || !before.HasMode() || !before.FileMode().IsRegular() {
		return false, nil
	}
	r.size = size
	target, err := r.itemTarget()
	if err != nil {
		return true, err
	}
	defer target.close()
	r.tell(Event{Kind: Started, Size: r.size})
	err = r.createLocal(target, before)
	if err != nil {
		return true, err
	}
	r.result.InPlace = target.temporary == ""
	if _, err = target.file.Write(data); err == nil {
		r.result.Bytes = size
		if r.limiter != nil {
			err = r.limiter.wait(len(data))
		}
	}
	if err == nil {
		err = r.finishLocal(target, before)
	}
	if err != nil {
		r.abandonLocal(target, err)
	}
	return true, err
}

// itemTarget looks at where a file of a tree goes on this machine.
func (r *run) itemTarget() (*localTarget, error) {
	return r.item.dir.tree.target.(*localTree).place(r.item)
}
