//go:build linux || darwin

package sftpfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

func (f *FS) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := f.tree.get(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	a, left, ok := f.known(n)
	open := false
	if !ok {
		ctx, stop := f.request(cancel, &in.InHeader)
		defer stop()
		if a, open = f.statOpen(ctx, in); open {
			left = f.options.Cache
		} else {
			var err error
			if a, left, err = f.stat(ctx, n); err != nil {
				return f.statusOfNode(n, err)
			}
		}
	}
	f.fill(n, a, &out.Attr)
	if open {
		out.Size = a.size
	}
	n.tell(&out.Attr)
	out.SetTimeout(max(left, 0))
	return fuse.OK
}

// statOpen returns the attributes of an open file for the kernel, which asks for its size while a
// program reads it. By now the name may belong to another file on the host, and the program would
// read parts of both. A file written here keeps its name there.
func (f *FS) statOpen(ctx context.Context, in *fuse.GetAttrIn) (a attrs, ok bool) {
	if in.Flags()&fuse.FUSE_GETATTR_FH == 0 {
		return a, false
	}
	h := f.files.get(in.Fh())
	if h == nil || !h.file.isRead() {
		return a, false
	}
	if err := h.turn.lock(ctx); err != nil {
		return a, false
	}
	remote := h.remote
	h.turn.unlock()
	if remote == nil || pool.Lost(remote.Client()) || private.OfClient(remote.Client()).StatsByName() {
		return a, false
	}
	info, err := remote.WithContext(ctx).Stat()
	if err != nil || !h.file.isRead() || // it was written meanwhile
		private.OfClient(remote.Client()).StatsByName() { // which this answer has shown
		return a, false
	}
	a = attrsOfInfo(info)
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	if h.client.Done() == remote.Client().Done() && h.seen != a.version() {
		h.saw(a.version())
		h.reader.drop()
	}
	return a, true
}

// adjust adds the data written and the attributes set here that are not on the host yet.
func (f *file) adjust(a *attrs) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timesHere(a)
	a.size = max(a.size, uint64(f.size))
	if !f.lastWrite.IsZero() {
		// The program may remember this time, as git does, so it becomes the file's time.
		f.shownMtime = max(a.mtime, 1)
	}
	if f.set.SetMode {
		a.mode = a.mode&typeMask | wire.PermissionBits(f.set.Mode)
	}
}

// timesHere adds the times of the last write and of changes here that are not on the host yet. The
// caller holds the lock.
func (f *file) timesHere(a *attrs) {
	f.hide(a)
	if !f.lastWrite.IsZero() {
		a.mtime = uint32(f.fs.hostTime(f.lastWrite).Unix())
	}
	if f.set.SetTimes {
		a.atime, a.mtime = uint32(f.set.Atime.Unix()), uint32(f.set.Mtime.Unix())
	}
}

// hasPending reports whether attributes remain to be set. The caller holds the lock.
func (f *file) hasPending() bool { return f.set.SetMode || f.set.SetTimes || f.shownMtime != 0 }

// pending returns the attributes that remain to be set. The caller holds the lock.
func (f *file) pending() usftp.NewAttrs {
	set := f.set
	if !set.SetTimes && f.shownMtime != 0 {
		set.SetTimes = true
		set.Mtime = f.fs.hostTime(f.lastWrite)
		set.Atime = set.Mtime
	}
	return set
}

// setMode makes the next flush set a mode.
func (f *file) setMode(mode uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set.SetMode, f.set.Mode = true, modeOf(mode)
}

// setPending sets the pending attributes on the host.
func (f *file) setPending(ctx context.Context) error {
	if err := f.turn.lock(ctx); err != nil {
		return err
	}
	defer f.turn.unlock() // or attributes set first could arrive last
	f.mu.Lock()
	if !f.hasPending() {
		f.lastWrite = time.Time{}
		f.mu.Unlock()
		return nil
	}
	f.modified = true
	set, program := f.pending(), f.set
	f.retimed = f.retimed || set.SetTimes
	f.mu.Unlock()
	try := func(set usftp.NewAttrs) error {
		return f.fs.link.do(ctx, func(c *usftp.Client, _ bool) error {
			setting, err := f.startSet(ctx, c, set)
			if err != nil {
				return err
			}
			if setting != nil {
				_, err := setting.Wait()
				return err
			}
			return f.fs.withPath(ctx, f.node, func(path string) error {
				return c.SetAttrs(path, set)
			})
		})
	}
	err := try(set)
	if endpoint.Refused(err) && !(errors.Is(err, fs.ErrNotExist) && f.fs.isGone(ctx, f.node)) {
		err = f.fs.setEach(set, try)
	}
	if err != nil && !program.SetMode && !program.SetTimes && !lost(err) {
		err = nil // it only concerns the time that a program saw; the file may have another owner
	}
	if err != nil {
		return err
	}
	f.fs.outdated(f.node) // while pending attributes still show the change
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lastWrite, f.shownMtime = (time.Time{}), 0; f.set == program {
		f.set = usftp.NewAttrs{}
	} // else a program has set others meanwhile
	return nil
}

// startSet sets attributes by a handle that is open for writing, since another file may have the
// name by now, and has it where a new one appears when it is closed. It returns nil if there is
// none, or if the server is not known: some set the time again when the handle is closed. An upload
// is opened again, since the name still has the old file.
func (f *file) startSet(ctx context.Context, c *usftp.Client,
	set usftp.NewAttrs) (setting *usftp.Pending[struct{}], err error) {
	for _, h := range f.all() {
		if setting != nil || err != nil || !h.writes() || h.turn.lock(ctx) != nil {
			continue
		}
		if h.uploads() {
			if _, err = h.open(ctx); err != nil && !undecided(err) && ctx.Err() == nil {
				h.failure.set(err)
				f.abandon(err)
			}
		}
		server := private.OfClient(c)
		if err == nil && h.isOpenOver(c) && (server.WorksInOrder() || server.KeepsUploads()) {
			setting = h.remote.WithContext(ctx).Async().SetAttrs(set)
		}
		h.turn.unlock()
	}
	return setting, err
}

// isGone reports whether the host says that a node's path does not exist.
func (f *FS) isGone(ctx context.Context, n *node) bool {
	err := f.lookOnPath(ctx, n, func(c *usftp.Client, path string) error {
		_, err := f.look(c, path)
		return err
	})
	return errors.Is(err, fs.ErrNotExist)
}

// setEach sets attributes one by one, after the host has refused them together. The program that
// set them was told that it succeeded, and its close must not fail for that: all data has arrived.
// From then on the host is asked at once when a program sets them.
func (f *FS) setEach(set usftp.NewAttrs, try func(usftp.NewAttrs) error) error {
	unset, err := endpoint.SetEach(&f.quirks, set, 0, true, try)
	if unset.Times {
		f.options.Logger.Warn("the host does not set the times of files")
	}
	if unset.Modes {
		f.options.Logger.Warn("the host does not set the permissions of files")
	}
	return err
}

// others are the permissions of others than the owner.
const others = 0o077

// defers reports whether attributes may wait for the flush, and if so keeps them for it. They may
// if a program has just made the file and not closed it, unless they keep others from what it
// writes next. The kernel does not say through which descriptor they are set.
func (f *file) defers(set usftp.NewAttrs, now attrs) bool {
	closes := set.SetMode && now.mode&^wire.PermissionBits(set.Mode)&others != 0
	if closes || set.SetTimes && f.fs.quirks.NoTimes.Load() ||
		set.SetMode && f.fs.quirks.NoModes.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.handles) != 1 {
		return false
	}
	for h := range f.handles {
		if !h.made || h.flushed || !h.writes() {
			return false
		}
	}
	if set.SetMode {
		f.set.SetMode, f.set.Mode = true, set.Mode
	}
	if set.SetTimes {
		f.set.SetTimes, f.set.Atime, f.set.Mtime = true, set.Atime, set.Mtime
	}
	return true
}

func (f *FS) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := f.tree.get(in.NodeId)
	switch {
	case n == nil:
		return fuse.Status(syscall.ESTALE)
	case f.options.ReadOnly:
		return fuse.EROFS
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	var h *handle
	if fh, ok := in.GetFh(); ok {
		h = f.files.get(fh)
	}
	if err := f.setAttr(ctx, n, h, &in.SetAttrInCommon); err != nil {
		return f.statusOfNode(n, err)
	}
	a, left, err := f.stat(ctx, n)
	if err != nil {
		return f.statusOfNode(n, err)
	}
	f.fill(n, a, &out.Attr)
	n.tell(&out.Attr)
	out.SetTimeout(max(left, 0))
	return fuse.OK
}

// setAttr sets the requested attributes.
func (f *FS) setAttr(ctx context.Context, n *node, h *handle, in *fuse.SetAttrInCommon) error {
	file := n.openFile()
	if file == nil && h != nil {
		file = h.file
	}
	size, resizes := in.GetSize()
	if resizes && file != nil { // first, as written data changes the size
		if err := file.beforeChange(ctx); err != nil {
			return err
		}
		file.endUploads(ctx, h)
	}
	now, _, err := f.stat(ctx, n)
	if err != nil {
		return err
	}
	if file != nil {
		file.mu.Lock()
		file.timesHere(&now)
		file.mu.Unlock()
	}
	if resizes {
		if err := f.truncate(ctx, n, file, h, now, size); err != nil {
			return err
		}
	}
	set, err := f.newAttrs(now, in)
	if err != nil || !set.SetMode && !set.SetTimes && !set.SetOwner {
		return err
	}
	if file != nil && !set.SetOwner && file.defers(set, now) {
		return nil
	}
	if file != nil {
		if err := file.drain(ctx); err != nil {
			return err
		}
		if err := file.setPending(ctx); err != nil {
			return err
		}
		f.publish(ctx, n)
		file.markModified(set.SetTimes)
	}
	err = f.onPath(ctx, n, func(c *usftp.Client, path string, _ bool) error {
		if now.isLink() {
			return c.LsetAttrs(path, set)
		}
		return c.SetAttrs(path, set)
	})
	if now.isLink() && set.SetTimes && !set.SetOwner && errors.Is(err, errors.ErrUnsupported) {
		// Few hosts can, and cp -a and rsync would fail for want of a time that hardly matters.
		f.plainLinks.Do(func() {
			f.options.Logger.Warn("the host does not set the times of symbolic links")
		})
		return nil
	}
	if err != nil {
		return err
	}
	f.statusChanged(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	if set.SetTimes {
		n.touched = time.Time{} // the time is no guess
	}
	const special = fs.ModeSetuid | fs.ModeSetgid // bits that a host may clear
	if !set.SetOwner && set.Mode&special == 0 && now.complete && file == nil {
		n.attrs = now
		if set.SetTimes {
			n.attrs.atime, n.attrs.mtime = uint32(set.Atime.Unix()), uint32(set.Mtime.Unix())
		}
		if set.SetMode {
			n.attrs.mode = now.mode&typeMask | wire.PermissionBits(set.Mode)
		}
		n.fetched = n.changed
		n.learnVersion(n.fetched)
	}
	return nil
}

// newAttrs returns the attributes to set, without an owner that the file already has: programs such
// as tar set the owner too.
func (f *FS) newAttrs(now attrs, in *fuse.SetAttrInCommon) (set usftp.NewAttrs, err error) {
	if mode, ok := in.GetMode(); ok && f.options.Umask == nil {
		if now.isLink() {
			return set, syscall.ENOTSUP
		}
		set.SetMode, set.Mode = true, modeOf(mode)
	}
	uid, setsUID := in.GetUID()
	gid, setsGID := in.GetGID()
	if setsUID || setsGID {
		hereUID, hereGID := f.ids.local(now.uid, now.gid)
		toUID, toGID := f.ids.host(uid, gid)
		set.UID, set.GID = int(now.uid), int(now.gid) // the protocol sets both or none
		if setsUID && uid != hereUID {
			set.SetOwner, set.UID = true, int(toUID)
		}
		if setsGID && gid != hereGID {
			set.SetOwner, set.GID = true, int(toGID)
		}
	}
	mtime, setsMtime := in.GetMTime()
	atime, setsAtime := in.GetATime()
	if setsMtime || setsAtime {
		// The protocol sets both or none.
		switch {
		case !setsMtime:
			mtime = wire.Time(now.mtime)
		case in.Valid&fuse.FATTR_MTIME_NOW != 0:
			mtime = f.hostTime(mtime)
		}
		switch {
		case !setsAtime:
			atime = wire.Time(now.atime)
		case in.Valid&fuse.FATTR_ATIME_NOW != 0:
			atime = f.hostTime(atime)
		}
		set.SetTimes = true
		set.Mtime = endpoint.Nearest(mtime, f.link.conn)
		set.Atime = endpoint.Nearest(atime, f.link.conn)
	}
	return set, nil
}

// markModified records that the file is about to change: its size and time may change even if no
// answer arrives.
func (f *file) markModified(retimed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.modified = true
	f.retimed = f.retimed || retimed
}

// beforeChange drains the file before its contents change in another way than by writing. What has
// arrived proves nothing then, and times that remain to be set are dropped.
func (f *file) beforeChange(ctx context.Context) error {
	if err := f.drain(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.modified, f.proofs, f.set.SetTimes = true, nil, false
	return nil
}

// truncate sets the size of a file that had other attributes before. Written data must be on the
// host.
func (f *FS) truncate(ctx context.Context, n *node, file *file, h *handle, before attrs,
	size uint64) error {
	by := h // the handle by which the size is set, nil if it is by name
	if h != nil && !h.writes() {
		by = nil
	}
	var err error
	end := file.mayEnd(int64(size))
	if by != nil {
		err = f.onHandle(ctx, by, func(remote *usftp.File) error {
			if private.OfClient(remote.Client()).SetsByName() {
				by = nil // another file may have that name by now
				return nil
			}
			return remote.Truncate(int64(size))
		})
	}
	if by == nil || errors.Is(err, fs.ErrNotExist) || // from a server like Apache MINA
		h.appends() && endpoint.Refused(err) && !lost(err) { // or like Windows
		err = f.onPath(ctx, n, func(c *usftp.Client, path string, _ bool) error {
			return c.Truncate(path, int64(size))
		})
	}
	if err != nil && !undecided(err) {
		file.reaches(end)
	}
	if errors.Is(err, usftp.ErrSSHFxFailure) {
		err = syscall.EFBIG // or the disk is full
	}
	f.outdated(n)
	refused := errors.Is(err, errors.ErrUnsupported)
	if before.complete && (refused || err == nil && size != before.size) {
		err = f.verifySize(ctx, n, by, before.size, size, refused)
	}
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.attrs.size = size // until the attributes are next requested
	if n.view != nil {
		n.view.most = size
	}
	n.mu.Unlock()
	if file != nil {
		file.mu.Lock()
		file.lastWrite, file.remoteSize = time.Now(), int64(size)
		for other := range file.handles {
			other.made = other.made && size == 0
		}
		if h != nil {
			h.written = true
		}
		file.mu.Unlock()
		file.dropReaders()
	}
	return nil
}

// mayEnd notes that the host is about to cut its file to size, and returns where it ended before. If
// the answer is lost, a handle that appends must not take the shorter file for another one.
func (f *file) mayEnd(size int64) (before int64) {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before = f.remoteSize
	f.remoteSize = min(before, size)
	return before
}

// onHandle makes a request on an open file; see [link.do].
func (f *FS) onHandle(ctx context.Context, h *handle, ask func(*usftp.File) error) error {
	return f.link.do(ctx, func(*usftp.Client, bool) error {
		remote, done, err := h.use(ctx)
		if err != nil {
			return err
		}
		defer done()
		return ask(remote.WithContext(ctx))
	})
}

// verifySize makes sure that a file has the size that was to be set by a handle or, if that is nil,
// by name. Apache MINA and Maverick use Java's channels, and succeed without making a file longer;
// Twisted refuses to set sizes. The byte at its end makes a file longer there, and opening it can
// empty it. The name of an open file may be another's by now, which must not be changed.
func (f *FS) verifySize(ctx context.Context, n *node, h *handle, before, size uint64,
	refused bool) error {
	a, _, err := f.renew(ctx, n)
	if err != nil || a.complete && a.size == size {
		return err
	}
	defer f.outdated(n)
	named := a
	if h != nil {
		f.onHandle(ctx, h, func(remote *usftp.File) error {
			info, err := remote.Stat()
			if err == nil {
				a = attrsOfInfo(info)
			}
			return err
		})
	}
	changed := !a.complete || a.size != before // perhaps by another program
	switch {
	case a.complete && a.size == size, changed && !refused:
		return nil
	case size == 0 && a.version() == named.version():
		return f.onPath(ctx, n, func(c *usftp.Client, path string, _ bool) error {
			remote, err := c.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				return err
			}
			return remote.Close()
		})
	case changed, size < before:
		return syscall.ENOTSUP
	}
	lengthen := func(remote *usftp.File) error {
		_, err := remote.WriteAt([]byte{0}, int64(size)-1)
		return err
	}
	if h != nil {
		return f.onHandle(ctx, h.inPlace(), lengthen)
	}
	return f.onPath(ctx, n, func(c *usftp.Client, path string, _ bool) error {
		remote, err := c.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(lengthen(remote), remote.Close())
	})
}
