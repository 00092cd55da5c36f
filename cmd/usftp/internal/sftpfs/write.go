//go:build linux || darwin

package sftpfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// Write implements fuse.RawFileSystem. It returns once the data is buffered; fsync and close wait
// for the host.
func (f *FS) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	h := f.files.get(in.Fh)
	if h == nil {
		return 0, fuse.EBADF
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	if err := h.failure.forWrite(); err != nil {
		return 0, f.statusIfFull(ctx, h.file.node, err)
	}
	h.file.endUploads(ctx, h)
	if err := f.budget.take(ctx, f.link, len(data)); err != nil {
		return 0, statusOf(err)
	}
	over := h
	mapped := in.WriteFlags&fuse.WRITE_CACHE != 0 // the program wrote to mapped memory earlier
	if !mapped {
		h.file.dropTimes()
	}
	if mapped || runtime.GOOS == "linux" && in.Flags&syscall.O_APPEND == 0 { // others do not say it
		over = h.inPlace()
	}
	ready, err := h.file.write(h, over, int64(in.Offset), data)
	if err != nil {
		f.budget.put(len(data))
		return 0, f.statusIfFull(ctx, h.file.node, err)
	}
	if ready {
		f.work.Go(func() { h.file.push(f.ctx, false) }) // it may have to wait for the link
	}
	return uint32(len(data)), fuse.OK
}

// inPlace returns the handle over which data is written that has its place in the file, which a
// handle that appends would not keep: data in mapped memory, and that of a program that has taken
// O_APPEND back.
func (h *handle) inPlace() *handle {
	if !h.appends() {
		return h
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.plain == nil { // it is opened when it is used
		f.plain = &handle{file: f, flags: h.flags &^ os.O_APPEND, turn: newCtxMutex(),
			users: new(users), single: true}
		f.plain.reader.reset(&f.fs.reading)
	}
	f.plain.client, f.plain.seen, f.plain.notBefore = h.client, h.seen, h.notBefore
	return f.plain
}

// endPlain closes the handle of inPlace on the host, and unless the file is whole abandons it.
func (f *file) endPlain(ctx context.Context, whole bool) {
	f.mu.Lock()
	h := f.plain
	f.mu.Unlock()
	if h == nil || h.turn.lock(ctx) != nil {
		return
	}
	defer h.turn.unlock()
	switch {
	case h.remote == nil:
	case whole:
		h.remote.Async().Close().Forget()
	default:
		h.remote.Async().Abandon().Forget()
	}
}

// dropTimes drops times that remain to be set: the program has written since it set them.
func (f *file) dropTimes() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set.SetTimes = false
}

// write buffers data written to a handle, to be sent over another or the same, and reports whether
// an extent can be sent: it is full, or has stopped growing. It buffers nothing if an earlier write
// has failed meanwhile.
func (f *file) write(h, over *handle, off int64, data []byte) (ready bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := h.failure.forWrite(); err != nil {
		return false, err
	}
	for other := range f.handles {
		other.reader.drop()
	}
	for len(data) > 0 {
		before := f.last()
		e := f.tail(over, off)
		ready = ready || before != nil && before != e && !before.sent
		n := min(len(data), extentSize-int(e.end()%extentSize)) // see lanes
		e.data = append(e.data, data[:n]...)
		e.full = e.end()%extentSize == 0
		ready = ready || e.full
		data, off = data[n:], off+int64(n)
		f.size = max(f.size, e.end())
	}
	f.lastWrite, h.written = time.Now(), true
	if !f.last().full && f.idle == nil {
		f.idle = time.AfterFunc(idleTime, func() { f.push(f.fs.ctx, true) })
	}
	f.fs.setDirty(f, true)
	return ready, nil
}

// tail returns the extent to which data at an offset is added. Appended data needs no offset, and
// stays in order whichever handle appends it. The caller holds the lock.
func (f *file) tail(h *handle, off int64) *extent {
	e := f.last()
	if e != nil && !e.full && (e.appends && h.appends() || e.handle == h && e.end() == off) {
		return e
	}
	f.fs.budget.charge(extentCost)
	var block []byte
	if e != nil {
		if !e.full {
			e.full = true
		} else if e.end() == off {
			block = f.fs.blocks.get() // more will probably follow
		}
	}
	e = &extent{handle: h, off: off, appends: h.appends(), data: block}
	f.extents = append(f.extents, e)
	return e
}

func (f *file) last() *extent {
	if len(f.extents) == 0 {
		return nil
	}
	return f.extents[len(f.extents)-1]
}

// dropReaders discards the read-ahead of all handles.
func (f *file) dropReaders() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for h := range f.handles {
		h.reader.drop()
	}
}

// overlaps reports whether a range includes data that is not on the host yet.
func (f *file) overlaps(off int64, n int) bool {
	there := int64(f.node.size())
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.extents {
		if e.appends || off < e.end() && e.off < off+int64(n) {
			return true
		}
	}
	// Zeros beyond the end of the host's file are right only once its size is.
	return len(f.extents) > 0 && off+int64(n) > there
}

func (n *node) size() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attrs.size
}

// send sends the full extents, or all of them, without waiting for answers.
func (f *file) send(ctx context.Context, all bool) error {
	if err := f.turn.lock(ctx); err != nil {
		return err
	}
	defer f.turn.unlock()
	patience := f.fs.link.patience()
	var last *extent
	for {
		e := f.next(all)
		if e == nil {
			return nil
		}
		if e != last { // appended extents are sent again here
			patience.arrived()
			if last != nil && last.appends {
				progress(ctx)
			}
		}
		err := patience.over()
		if err == nil {
			err = f.sendOne(ctx, e)
		}
		if err != nil {
			return err
		}
		last = e
	}
}

// next returns the next extent to send, or nil.
func (f *file) next(all bool) *extent {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.extents {
		if e.sent {
			continue
		}
		if !e.full && !all {
			return nil
		}
		e.full = true
		if e == f.last() && f.idle != nil {
			f.idle.Stop()
			f.idle = nil
		}
		return e
	}
	return nil
}

func (f *file) sendOne(ctx context.Context, e *extent) error {
	h := e.handle
	if err := h.turn.lock(ctx); err != nil {
		return err
	}
	defer h.turn.unlock()
	remote, err := h.open(ctx)
	if err != nil {
		return err
	}
	over, err := h.lane(ctx, e, remote)
	if err != nil {
		return err
	}
	if e.appends || !private.OfClient(remote.Client()).WorksInOrder() {
		if err := f.awaitOverlap(ctx, e); err != nil {
			return err
		}
	}
	further := 0
	if over != remote {
		further = 1
	}
	f.mu.Lock()
	givenUp := e.done                                   // while this waited for a connection
	early := !givenUp && e.appends && f.extents[0] != e // an earlier extent must be sent again
	if !givenUp && !e.appends {
		e.sent, e.tried = true, true
		f.laneWrites += further
	}
	f.mu.Unlock()
	switch {
	case givenUp, early:
		return nil
	case e.appends:
		err := f.sendAppend(ctx, e)
		if oneHandle(remote) {
			h.pause()
		}
		return err
	}
	writing := over.Async().WriteAt(e.data, e.off)
	writing.Then(func(_ int, err error) {
		f.mu.Lock()
		if f.laneWrites -= further; f.laneWrites == 0 && further > 0 {
			f.wake()
		}
		f.mu.Unlock()
		f.answered(e, err)
	})
	if oneHandle(remote) {
		writing.WaitContext(ctx)
		h.pause()
	}
	return nil
}

// awaitOverlap waits until earlier writes to the same place have been acknowledged, for servers
// that may carry out a later WRITE first. Before data is appended it waits for all: the end of the
// file depends on them.
func (f *file) awaitOverlap(ctx context.Context, e *extent) error {
	return f.await(ctx, func() bool {
		return !slices.ContainsFunc(f.extents, func(other *extent) bool {
			overlaps := other.off < e.end() && e.off < other.end()
			return other != e && other.sent && (e.appends || overlaps)
		})
	})
}

// reaches records that the host's file is at least that long, as by a write from here.
func (f *file) reaches(end int64) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remoteSize = max(f.remoteSize, end)
}

// answered handles the host's answer for an extent.
func (f *file) answered(e *extent, err error) {
	if err == nil {
		// First: once the extent is gone, only the node says that the file is this long.
		f.node.grew(e.end())
	}
	f.mu.Lock()
	if e.done {
		f.mu.Unlock()
		return
	}
	switch {
	case lost(err) && e.ends(err):
		err = fmt.Errorf("%w: %w", errFatal, err)
	case lost(err):
		e.sent = false
		f.wake()
		f.mu.Unlock()
		if f.fs.link.isUp() {
			go f.push(f.fs.ctx, true) // resume has not seen this extent
		}
		return
	}
	if err == nil {
		f.modified = true
		f.arrived += len(e.data)
		if !e.appends {
			f.remoteSize = max(f.remoteSize, e.end())
		}
		if len(f.proofs) == maxProofs {
			f.proofs = f.proofs[1:]
		}
		f.proofs = without(f.proofs, e) // overwritten data proves nothing
		if !e.appends {
			f.proofs = append(f.proofs, e.proof())
		}
		for h := range f.handles {
			h.reader.dropOld(e)
			h.made = h.made && h == e.handle
		}
	}
	e.done = true
	if err != nil { // before the extent is gone, or fsync would report success
		f.fail(err)
		f.mu.Unlock()
		f.rescue(err, []*extent{e})
		f.mu.Lock()
	}
	f.remove(e)
	f.mu.Unlock()
	cost := e.cost()
	if err == nil {
		e.release()
	} else {
		f.fs.outdated(f.node)
	}
	f.fs.budget.put(cost)
}

// remove takes out an extent. The caller holds the lock.
func (f *file) remove(e *extent) {
	if i := slices.Index(f.extents, e); i >= 0 {
		f.extents = slices.Delete(f.extents, i, i+1)
	}
	if len(f.extents) == 0 {
		f.size = 0
		f.fs.setDirty(f, false)
	}
	f.wake()
}

// wake wakes the callers that wait for extents to leave. The caller holds the lock.
func (f *file) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// grew records that the host's file reaches at least to an offset. Attributes requested earlier may
// say otherwise.
func (n *node) grew(end int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attrs.size, n.changed = max(n.attrs.size, uint64(end)), time.Now()
	n.untold()
}

// fail makes the calls on each handle return an error. The caller holds the lock.
func (f *file) fail(err error) {
	for h := range f.handles {
		h.failure.set(err)
	}
}

// abandon gives up data that is not on the host. The program learns that it was not written, so it
// must not appear later.
func (f *file) abandon(err error) {
	f.mu.Lock()
	var given, rest []*extent
	for _, e := range f.extents {
		if e.done { // answered is about to remove it
			rest = append(rest, e)
			continue
		}
		e.done = true
		given = append(given, e)
	}
	f.extents, f.size = rest, 0
	f.set, f.lastWrite, f.shownMtime = usftp.NewAttrs{}, time.Time{}, 0
	if len(given) > 0 {
		f.fail(err)
	}
	f.wake()
	f.fs.setDirty(f, len(rest) > 0)
	f.mu.Unlock()
	if len(given) == 0 {
		return
	}
	for _, e := range given {
		f.fs.budget.put(e.cost())
	}
	f.fs.outdated(f.node)
	f.rescue(err, given)
}

// push sends in the background. While there is no connection, the data waits for the next one. But
// if the host refuses the file, push gives the data up at once, to make room for other writes.
func (f *file) push(ctx context.Context, all bool) {
	if all {
		f.mu.Lock()
		f.idle = nil
		f.mu.Unlock()
	}
	err := f.send(ctx, all)
	if errors.Is(err, errFatal) || err != nil && !undecided(err) {
		f.abandon(err)
	}
}

// setDirty records whether a file has data that is not on the host.
func (f *FS) setDirty(file *file, dirty bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if dirty {
		f.dirty[file] = true
	} else {
		delete(f.dirty, file)
	}
	if len(f.dirty) == 0 {
		f.blocks.drop()
	}
}
