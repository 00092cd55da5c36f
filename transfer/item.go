package transfer

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// buffers are the memory of small files, of two sizes; what is larger is made anew. Those of
// passing are for hashing the large ones.
type buffers struct{ small, medium, passing sync.Pool }

const (
	smallBuffer  = 4<<10 + 1
	mediumBuffer = 32 << 10
)

// get lends n bytes; what they hold is whatever they held before.
func (b *buffers) get(n int) (memory []byte, release func()) {
	pool, size := &b.small, smallBuffer
	switch {
	case n > mediumBuffer:
		return make([]byte, n), func() {}
	case n > smallBuffer:
		pool, size = &b.medium, mediumBuffer
	}
	lent, _ := pool.Get().(*[]byte)
	if lent == nil {
		fresh := make([]byte, size)
		lent = &fresh
	}
	return (*lent)[:n], func() { pool.Put(lent) }
}

// takeHandle waits until the file of a tree may hold one of the server's handles, where it has none
// to hold.
func (r *run) takeHandle() {
	if r.item != nil && !r.handle {
		r.item.dir.tree.handles.take(1)
		r.handle = true
	}
}

// freeHandle tells the tree that the file holds no handle of the server's any more.
func (r *run) freeHandle() {
	if r.handle {
		r.handle = false
		r.item.dir.tree.handles.give(1)
	}
}

// isSmall tells whether the file is one of a tree that travels in one piece.
func (r *run) isSmall(size int64) bool { return r.item != nil && r.item.dir.tree.isSmall(size) }

// sendSmall reads, writes, finishes and closes a small file. It returns false where the file is not
// what it was when it was listed, which the usual way copes with.
func (r *run) sendSmall(f *usftp.File, from *source, target *remoteTarget) (done bool, err error) {
	size := r.item.facts.size
	if r.Direction != Relay { // whose source is read in one piece
		if err := from.open(r.ctx, r.Source); err != nil {
			return true, err
		}
		defer from.close()
		if from.before.Size() != size {
			return false, nil
		}
	} else if r.copiesThere() {
		return false, nil
	}
	memory := r.item.dir.tree.memory
	memory.take(size)
	defer memory.give(size)
	wait, err := r.startSmall(f, from, target)
	if err != nil || wait == nil {
		return err != nil, err
	}
	refused, err := wait()
	r.freeHandle()
	if err != nil {
		return true, err
	}
	r.result.Bytes = size
	if refused != nil && (r.Options.Preserve || r.Options.Owners) {
		return true, refused
	}
	if r.limiter != nil {
		return true, r.limiter.wait(int(size))
	}
	return true, nil
}

// startSmall reads the source of a small file and starts to write it. The memory for that is needed
// no longer then: what is in flight is the client's. wait is nil where the file is not what it was
// when it was listed.
func (r *run) startSmall(f *usftp.File, from *source,
	target *remoteTarget) (wait func() (refused, err error), err error) {
	size := int(r.item.facts.size)
	data, release := r.item.dir.tree.buffers.get(size + 1)
	defer release()
	if same, err := r.readSmall(from, data); err != nil || !same {
		return nil, err
	}
	r.hashSmall(data[:size])
	return private.OfFile(f).StartWriteClose(data[:size], r.remoteAttrs(f, from, target)), nil
}

// readSmall reads the source of a small file, for which data has a byte to spare. It returns false
// where it is not what it was when it was listed.
func (r *run) readSmall(from *source, data []byte) (same bool, err error) {
	size := len(data) - 1
	if r.Direction == Relay {
		return from.readRemote(r, data[:size])
	}
	n, err := io.ReadFull(from.file, data)
	if err != io.EOF && err != io.ErrUnexpectedEOF && err != nil {
		return false, err
	}
	if n != size {
		return false, nil
	}
	if err := from.changed(int64(size)); err != nil {
		return false, err
	}
	from.file.Close()
	return true, nil
}

// remoteAttrs are what an upload gives its target besides contents.
func (r *run) remoteAttrs(f *usftp.File, from *source, target *remoteTarget) (set usftp.NewAttrs) {
	if from.before == nil {
		return set
	}
	atime, mtime := timesOf(from.before)
	if seconds := mtime.Unix(); !mtime.IsZero() &&
		(r.Options.Preserve || r.item != nil && seconds >= 0 && seconds <= math.MaxUint32) {
		set.SetTimes, set.Atime, set.Mtime = true, atime, mtime
	}
	if r.Options.Preserve && hasMode(from.before) {
		// Setuid and setgid stay behind, as in every direction: the copy would run as whoever made it.
		set.SetMode, set.Mode = true, from.before.Mode().Perm()
	} else if target.before != nil && !r.result.InPlace {
		set.SetMode, set.Mode = true, r.keptMode(f, target.before)
	}
	// else the upload has failed before
	if whose := ownerOf(from.before); r.Options.Owners && whose.known {
		set.SetOwner, set.UID, set.GID = true, whose.uid, whose.gid
		// they would run as somebody who may never have said so
		set.Mode &^= fs.ModeSetuid | fs.ModeSetgid
	}
	return set
}

// downloadSmall copies a small file of a tree: what the server sends is in memory before anything
// is made here. It returns false where the file is not what it was when it was listed, which the
// usual way copes with.
func (r *run) downloadSmall() (done bool, err error) {
	f := usftp.NewFile(r.Host.Client, r.Source)
	if err := f.OpenRead(); err != nil {
		return true, err
	}
	size := r.item.facts.size
	memory := r.item.dir.tree.memory
	memory.take(size)
	var data []byte
	release := func() {}
	forget := sync.OnceFunc(func() { // what is in memory, before more is taken to verify it
		release()
		memory.give(size)
	})
	defer forget()
	before, err := private.OfFile(f).ReadClose(int(size), func() []byte {
		data, release = r.item.dir.tree.buffers.get(int(size))
		return data
	})
	if errors.Is(err, private.ErrOtherSize) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	r.freeHandle()
	if before == nil || !before.HasMode() || !before.FileMode().IsRegular() {
		return false, nil
	}
	if listed := r.item.facts; listed.hasTimes && before.HasTimes() &&
		!listed.mtime.Equal(before.ModTime()) {
		return false, nil // it was written to since it was listed, and perhaps just now
	}
	r.size = size
	target, err := r.itemTarget()
	if err != nil {
		return true, err
	}
	defer target.close()
	r.tellStarted()
	err = r.createLocal(target, before)
	if err != nil {
		return true, err
	}
	r.result.InPlace = target.temporary == ""
	r.hashSmall(data)
	if err = r.writeSmall(target.file, data); err == nil {
		r.result.Bytes = size
		if r.limiter != nil {
			err = r.limiter.wait(len(data))
		}
	}
	if err == nil {
		err = r.finishHashing()
	}
	forget()
	if err == nil {
		err = r.verify(r.Source, nil, target.again(target.written()))
	}
	if err == nil {
		err = r.finishLocal(target, before)
	}
	if err != nil {
		r.abandonLocal(target, err, before)
	}
	return true, err
}

// keptMode is the mode of a file that is replaced, for the new one. The bits by which a program
// runs as its owner, or its group, stay only where those do: else it would run as somebody who
// never said so.
func (r *run) keptMode(f *usftp.File, before fs.FileInfo) fs.FileMode {
	mode := before.Mode()
	if mode&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
		return mode
	}
	old, _ := before.Sys().(*usftp.FileStat)
	fresh := new(usftp.FileStat)
	if info, err := f.Stat(); err == nil {
		fresh = info.Sys().(*usftp.FileStat)
	}
	known := old != nil && old.HasOwner() && fresh.HasOwner()
	kept := mode
	if !known || old.UID != fresh.UID {
		kept &^= fs.ModeSetuid
	}
	if !known || old.GID != fresh.GID {
		kept &^= fs.ModeSetgid
	}
	if kept != mode {
		r.note("the new file has another owner than the one it replaces, and so not its setuid and setgid bits")
	}
	return kept
}

// errKept ends a job whose target is the source's copy already, by size and time.
var errKept = errors.New("it is there already")

// kept tells whether a tree that goes on after an interruption has copied a file before: by size
// and time, and where hashes are wanted by that of the file on this machine, as far as a list or
// the host knows it.
func (r *run) kept(before fs.FileInfo, remote string, local reopen) bool {
	if r.item == nil || !r.Options.Resume || before == nil || !before.Mode().IsRegular() {
		return false
	}
	source := r.item.facts
	_, mtime := source.localTimes()
	if !source.hasTimes || before.Size() != source.size || before.ModTime().Unix() != mtime.Unix() {
		return false
	}
	return !r.hashes() || r.keptSame(remote, source.size, local)
}

func (r *run) keptSame(remote string, size int64, local reopen) bool {
	if local == nil {
		return false
	}
	defer r.stopHashing()
	if err := r.hashKept(size, local); err != nil {
		r.hash = Hash{}
		return false
	}
	same, told := !r.Options.Verify, true
	if r.Options.Verify {
		same, told = r.sameAtHost(remote, nil)
	}
	return same || !told
}

// hashKept hashes the file on this machine.
func (r *run) hashKept(size int64, local reopen) error {
	if !r.isSmall(size) {
		r.passing = newPassing(r.newDigests(size), size, r.interruptedReopen(local),
			r.passingPool())
		r.result.Bytes = size
		defer func() { r.result.Bytes = 0 }()
		defer r.report(r.passing.progress)()
		return r.finishHashing()
	}
	file, free, err := local()
	if err != nil {
		return err
	}
	defer free()
	memory := r.item.dir.tree.memory
	memory.take(size)
	defer memory.give(size)
	data, release := r.item.dir.tree.buffers.get(int(size))
	defer release()
	if n, err := file.ReadAt(data, 0); n < len(data) {
		return errors.Join(errDiffers, err)
	}
	r.hashSmall(data)
	return r.finishHashing()
}

// itemTarget looks at where a file of a tree goes on this machine.
func (r *run) itemTarget() (*localTarget, error) {
	return r.item.dir.tree.target.(*localTree).place(r.item)
}
