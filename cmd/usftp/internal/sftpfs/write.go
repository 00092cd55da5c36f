//go:build linux || darwin

package sftpfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

const (
	// extentSize is the amount of data collected before it is sent: one WRITE of most servers.
	extentSize = 63 * 4096
	// idleTime is how long collected data waits for more.
	idleTime = time.Second
	// extentCost is an extent's share of the budget beyond its data. It bounds the number of extents:
	// a program may write single bytes here and there.
	extentCost = 4096
)

// An extent is written data that the host has not acknowledged. It is kept until then, to be sent
// again over a new connection, or saved in a rescue file if there is none.
type extent struct {
	handle  *handle
	off     int64
	data    []byte
	appends bool
	from    int64     // where it begins if it was appended and has arrived
	lost    time.Time // when the connection was lost before the answer to an append came
	sent    bool      // over the present connection
	tried   bool      // sent at some time
	full    bool      // nothing more is added
	done    bool      // no longer the file's: it arrived, was refused, or was given up
	ended   int       // sessions; see endedBy
}

// ends counts the session that has ended with an error, and reports whether the host has ended too
// many of them for the extent.
func (e *extent) ends(err error) bool {
	e.ended += endedBy(err)
	return e.ended >= mostFatal
}

// blocks are memory for extents that will probably become full. It is kept for the next extents
// while any data is being written: the garbage collector would need as much again.
type blocks struct {
	mu   sync.Mutex
	free [][]byte
}

func (b *blocks) get() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.free) - 1
	if last < 0 {
		return make([]byte, 0, extentSize)
	}
	block := b.free[last]
	b.free[last] = nil
	b.free = b.free[:last]
	return block
}

func (b *blocks) put(block []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, block[:0])
}

// drop leaves the free blocks to the garbage collector.
func (b *blocks) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = nil
}

// release frees the extent's memory. The extent must not be used afterwards.
func (e *extent) release() {
	if cap(e.data) == extentSize {
		e.handle.file.fs.blocks.put(e.data)
	}
	e.data = nil
}

func (e *extent) cost() int  { return len(e.data) + extentCost }
func (e *extent) end() int64 { return e.off + int64(len(e.data)) }

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

// lateTime is how long a host may take to carry out a request from a lost connection: its server
// may have the request already, and be slower than the next login.
const lateTime = 2 * time.Second

// sendAppend appends an extent and waits for the answer. The host decides where the end is, so that
// data appended by others is not overwritten. The caller holds the handle's turn.
func (f *file) sendAppend(ctx context.Context, e *extent) error {
	h := e.handle
	if e.lost.IsZero() {
		f.mu.Lock()
		e.from = f.remoteSize
		f.mu.Unlock()
		// For servers that ignore the append flag, as pkg/sftp's does, and write at the offset. Write
		// asks most of them where the file ends: others may have appended, or cut it.
		_, err := h.remote.Seek(e.from, io.SeekStart)
		if f.fs.quirks.NoAppend.Load() {
			_, err = h.remote.Seek(0, io.SeekEnd)
		}
		if err == nil {
			_, err = h.remote.Write(e.data)
		}
		if err == nil {
			end, _ := h.remote.Seek(0, io.SeekCurrent)
			f.reaches(end)
		}
		if !lost(err) || e.ends(err) {
			f.answered(e, err)
			return nil
		}
		e.lost = time.Now() // kept for the next call if this one does not wait for a connection
	}
	// The data may have arrived or not. It has if the file grew by exactly its length and ends with
	// it.
	remote, err := h.open(ctx)
	if err != nil {
		return err
	}
	size := h.size
	if late := time.Until(e.lost.Add(lateTime)); size == e.from && late > 0 {
		select {
		case <-time.After(late):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		info, err := remote.Stat()
		if lost(err) {
			return nil // next asks again
		} else if err != nil {
			return err
		}
		size = info.Size()
	}
	arrived := size - e.from
	switch {
	case arrived == 0:
		e.lost = time.Time{} // next sends it again
		return nil
	case arrived == int64(len(e.data)), leastPart <= arrived && arrived < int64(len(e.data)):
		held, err := f.holds(ctx, e.data[:arrived], e.from)
		if err != nil {
			return err
		}
		if held {
			f.reaches(size)
			f.arrivedInPart(e, int(arrived))
			return nil
		}
	}
	f.answered(e, errors.New(
		"the connection was lost while data was appended, and others have appended too"))
	return nil
}

// leastPart is how much of lost data must have been appended to count as a part that a killed server
// has left: less may be what another program has appended, and a server leaves whole pages.
const leastPart = 4096

// arrivedInPart handles the arrival of the beginning of an appended extent. The rest is sent next.
func (f *file) arrivedInPart(e *extent, n int) {
	f.mu.Lock()
	if n == len(e.data) || e.done {
		f.mu.Unlock()
		f.answered(e, nil)
		return
	}
	e.data, e.off, e.lost = e.data[n:], e.off+int64(n), time.Time{}
	f.mu.Unlock()
	f.fs.budget.put(n)
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

// holds reports whether the file on the host contains data at an offset.
func (f *file) holds(ctx context.Context, data []byte, off int64) (bool, error) {
	got := make([]byte, len(data))
	err := f.fs.onPath(ctx, f.node, func(c *usftp.Client, path string, _ bool) error {
		remote, err := c.Open(path)
		if err != nil {
			return err
		}
		defer remote.Close()
		_, err = remote.ReadAt(got, off)
		return err
	})
	if err != nil && undecided(err) {
		return false, err
	}
	return err == nil && string(got) == string(data), nil
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

// flush waits until all written data is on the host.
func (f *file) flush(ctx context.Context) error {
	patience := f.fs.link.patience()
	before := 0
	for {
		f.mu.Lock()
		rest, changed := len(f.extents)+f.laneWrites, f.changed
		f.mu.Unlock()
		if rest == 0 {
			return nil
		}
		if rest != before {
			patience.arrived()
		}
		if rest < before {
			progress(ctx)
		}
		before = rest
		err := patience.over()
		if err == nil {
			err = f.send(ctx, true)
		}
		if err != nil {
			return f.gaveUp(err)
		}
		f.mu.Lock()
		rest, again := len(f.extents)+f.laneWrites, f.changed != changed
		f.mu.Unlock()
		if rest == 0 || again {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return f.gaveUp(context.Cause(ctx))
		}
	}
}

// gaveUp abandons the data that a call has waited for, unless the call was only interrupted: then
// the next call waits for it.
func (f *file) gaveUp(err error) error {
	if !errors.Is(err, errInterrupted) {
		f.abandon(err)
	}
	return err
}

// finish flushes the file and then sets the pending attributes.
func (f *file) finish(ctx context.Context) error {
	err := f.flush(ctx)
	if err == nil {
		err = f.setPending(ctx)
	}
	return err
}

// Flush implements fuse.RawFileSystem. The kernel calls it on close; it waits for the host.
func (f *FS) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	h := f.files.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	h.used()
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	err := h.flush(ctx)
	return f.statusIfFull(ctx, h.file.node, cmp.Or(h.failure.forClose(), err))
}

// flush flushes one handle. Where possible, it sends WRITE, FSETSTAT and CLOSE at once.
func (h *handle) flush(ctx context.Context) error {
	f := h.file
	f.mu.Lock()
	h.flushed = true
	dirty := h.written || len(f.extents) > 0 || f.hasPending()
	if h.written {
		h.flushes++
	}
	h.written = false
	f.mu.Unlock()
	if !h.writes() || !dirty {
		return nil
	}
	if done, err := h.writeAndClose(ctx); done {
		return err
	}
	if err := f.finish(ctx); err != nil {
		return err
	}
	f.fs.outdated(f.node)
	f.mu.Lock()
	first := h.flushes == 1
	f.mu.Unlock()
	if !first {
		return nil // other processes share the descriptor: another write would have to reopen the file
	}
	return h.close(ctx)
}

// close closes the file on the host; some servers report only then that they cannot store it. An
// upload whose CLOSE is lost is opened again and closed, or the file would not appear.
func (h *handle) close(ctx context.Context) error {
	if err := h.turn.lock(ctx); err != nil {
		return err
	}
	defer h.turn.unlock()
	for ended := 1; ; ended++ {
		if h.remote == nil && h.uploads() {
			if _, err := h.open(ctx); err != nil {
				if ctx.Err() == nil {
					h.failure.set(err)
				}
				return err
			}
		}
		remote := h.remote
		if remote == nil || !h.users.none() {
			return nil // Release closes a file in use
		}
		h.remote = nil
		prove := h.startStored(remote.WithContext(ctx))
		closing := h.end(remote)
		err := h.file.endLanes(ctx, h, !h.failure.remains())
		_, closed := closing.WaitContext(ctx)
		h.uploadEnds(closed)
		if closed == nil && err == nil {
			closed = prove()
		}
		if lost(closed) && err == nil && h.uploads() && ended < mostFatal {
			continue
		}
		if closed != nil && (!lost(closed) || h.uploads()) {
			err = closed // if it is only lost: all data was acknowledged
		}
		if err != nil && ctx.Err() == nil {
			h.failure.set(err)
		}
		return err
	}
}

// startStored starts to ask whether the host has all of a file that this handle alone has made: the
// host may have acknowledged what its disk had no room for. prove returns the answer once the file
// is closed.
func (h *handle) startStored(remote *usftp.File) (prove func() error) {
	f := h.file
	f.mu.Lock()
	size := f.remoteSize
	if !h.made || len(f.handles) > 1 || h.failure.remains() {
		size = 0
	}
	f.mu.Unlock()
	return private.OfFile(remote).StartStored(size)
}

// writeAndClose writes a small new file and closes it in one round trip. done is false if that is
// not possible or no answer came.
func (h *handle) writeAndClose(ctx context.Context) (done bool, err error) {
	f := h.file
	if err := h.turn.lock(ctx); err != nil {
		return true, err
	}
	defer h.turn.unlock()
	if h.remote == nil || !h.users.none() ||
		!private.OfClient(h.remote.Client()).WorksInOrder() {
		return false, nil
	}
	f.mu.Lock()
	var data []byte
	var only *extent
	switch {
	case !h.made || len(f.handles) != 1 || f.lanes != nil || len(f.proofs) > 0 ||
		len(f.extents) > 1 || h.failure.remains() ||
		h.appends() && f.remoteSize != 0: // data has arrived
		f.mu.Unlock()
		return false, nil
	case len(f.extents) == 1:
		only = f.extents[0]
		if only.sent || only.off != 0 || only.appends || only.handle != h {
			f.mu.Unlock()
			return false, nil
		}
		only.full, only.tried, data = true, true, only.data
	default:
		f.modified = true // the attributes change it
	}
	set := f.pending()
	if f.idle != nil {
		f.idle.Stop()
		f.idle = nil
	}
	h.made = false
	f.mu.Unlock()
	remote := h.remote
	h.remote = nil
	wait := private.OfFile(remote.WithContext(ctx)).StartWriteClose(data, set)
	refused, err := wait()
	h.uploadEnds(err)
	switch {
	case lost(err):
		return false, nil
	case err != nil && ctx.Err() != nil:
		return true, f.gaveUp(context.Cause(ctx)) // an interrupted call keeps the data to be sent again
	case err == nil:
		f.node.grew(int64(len(data))) // before the extent is gone
	}
	f.mu.Lock()
	f.modified = true
	again := err == nil && refused != nil && (f.set.SetMode || f.set.SetTimes)
	if !again {
		f.set, f.lastWrite, f.shownMtime = usftp.NewAttrs{}, time.Time{}, 0
	}
	if err != nil {
		f.fail(err)
	}
	var extents []*extent
	if only != nil && !only.done {
		only.done = true
		extents = []*extent{only}
		f.remove(only)
	}
	f.mu.Unlock()
	for _, e := range extents {
		f.fs.budget.put(e.cost())
	}
	f.fs.outdated(f.node)
	if err != nil {
		f.rescue(err, extents)
		return true, err
	}
	if refused != nil {
		return !again, nil // finish sets one attribute after the other
	}
	if set.SetTimes {
		f.node.learnWritten(uint64(len(data)), set)
		f.mu.Lock()
		f.modified = false
		f.mu.Unlock()
	}
	return true, nil
}

// learnWritten records a file's attributes after it was written and its times were set.
func (n *node) learnWritten(size uint64, set usftp.NewAttrs) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attrs.size, n.attrs.mtime, n.attrs.atime = size, uint32(set.Mtime.Unix()),
		uint32(set.Atime.Unix())
	if set.SetMode {
		n.attrs.mode = n.attrs.mode&typeMask | wire.PermissionBits(set.Mode)
	}
	n.fetched, n.changed = time.Now(), time.Now()
	n.learnVersion(n.fetched)
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

func (f *FS) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	h := f.files.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	err := h.sync(ctx)
	return f.statusIfFull(ctx, h.file.node, cmp.Or(h.failure.forFsync(), err))
}

func (h *handle) sync(ctx context.Context) error {
	if err := h.file.finish(ctx); err != nil {
		return err
	}
	err := h.file.fs.link.do(ctx, func(*usftp.Client, bool) error {
		remote, done, err := h.use(ctx)
		if err != nil {
			return err
		}
		defer done()
		return remote.WithContext(ctx).Sync()
	})
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil // the host has the data; this server cannot be made to store it durably
	}
	return err
}

// budget limits the bytes that are not on the host yet.
type budget struct {
	mu      sync.Mutex
	free    int64
	changed chan struct{}
}

func newBudget(bytes int64) *budget { return &budget{free: bytes, changed: make(chan struct{})} }

// take waits until there is room. It may take more than is free, so that one request always fits.
func (b *budget) take(ctx context.Context, l *link, n int) error {
	began := time.Now()
	patience := l.patience()
	for {
		b.mu.Lock()
		if b.free > 0 {
			b.free -= int64(n)
			b.mu.Unlock()
			return nil
		}
		changed := b.changed
		b.mu.Unlock()
		if err := patience.over(); err != nil {
			return err
		}
		if !l.isUp() {
			if _, err := l.get(ctx, latest(began, l.heard())); err != nil {
				return err
			}
		}
		select {
		case <-changed:
			patience.arrived()
			progress(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second): // look at the link again
		}
	}
}

// charge takes bytes without waiting. The next call of take waits instead.
func (b *budget) charge(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free -= int64(n)
}

func (b *budget) put(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += int64(n)
	close(b.changed)
	b.changed = make(chan struct{})
}
