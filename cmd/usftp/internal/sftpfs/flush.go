//go:build linux || darwin

package sftpfs

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

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

// finish flushes the file and then sets the pending attributes.
func (f *file) finish(ctx context.Context) error {
	err := f.flush(ctx)
	if err == nil {
		err = f.setPending(ctx)
	}
	return err
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
