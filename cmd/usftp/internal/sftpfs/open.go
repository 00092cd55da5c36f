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
	"github.com/usftp/usftp/wire"
)

// opening opens a file on the host and requests its attributes, in one round trip where the server
// allows it.
func (f *FS) opening(c *usftp.Client, path string, flags int, perm fs.FileMode) (*usftp.File, attrs,
	time.Time, error) {
	if f.quirks.NoAppend.Load() {
		flags &^= os.O_APPEND
	}
	if private.OfClient(c).OneHandle() {
		f.letGo() // those that were open when that was found out
	}
	asked := time.Now()
	open := c.Async().OpenFile(path, flags, perm)
	inOrder := private.OfClient(c).WorksInOrder()
	var stat *usftp.Pending[fs.FileInfo]
	upload := flags&os.O_TRUNC != 0 && private.OfClient(c).KeepsUploads() // the old file has the name
	if !upload && (inOrder || flags&(os.O_CREATE|os.O_TRUNC) == 0) {
		stat = c.Async().Stat(path)
	}
	if stat != nil && !inOrder && overtakes(stat, open) {
		stat = nil // another file may have had the path then
	}
	remote, err := open.Wait()
	if err != nil && flags&os.O_APPEND != 0 && !inOrder && refused(err) {
		stat = nil
		if remote, err = c.OpenFile(path, flags&^os.O_APPEND, perm); err == nil {
			f.quirks.NoAppend.Store(true)
		}
	}
	if err != nil {
		return nil, attrs{}, asked, err
	}
	if stat == nil && !upload {
		stat = c.Async().Stat(path)
	}
	var info fs.FileInfo
	if upload {
		info, err = remote.Stat()
	} else if info, err = stat.Wait(); errors.Is(err, fs.ErrNotExist) { // removed since it was opened
		info, err = remote.Stat()
	}
	if err != nil {
		remote.Async().Abandon().Forget()
		return nil, attrs{}, asked, err
	}
	return remote.WithContext(context.Background()), attrsOfInfo(info), asked, nil
}

// overtakes waits for the first of two answers, and reports whether it is that to the second
// request.
func overtakes(second *usftp.Pending[fs.FileInfo], first *usftp.Pending[*usftp.File]) bool {
	select {
	case <-first.Done():
	case <-second.Done():
	}
	select {
	case <-first.Done():
		return false
	default:
		return true
	}
}

// refused reports whether a server may refuse to append to a file, which ProFTPD does as it is
// installed (AllowStoreRestart), rather than to write to it.
func refused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) ||
		errors.Is(err, usftp.ErrSSHFxFailure)
}

// osFlags returns the flags that matter to the host, in terms of package os.
func osFlags(flags uint32) int {
	const kept = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_TRUNC | os.O_EXCL
	return int(flags) & kept
}

// Open implements fuse.RawFileSystem. In the same round trip it fetches the attributes, because a
// program that opens a file must see all that others wrote before they closed it.
func (f *FS) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := f.tree.get(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	flags := osFlags(in.Flags) &^ os.O_EXCL
	if f.options.ReadOnly && flags&(os.O_WRONLY|os.O_RDWR|os.O_TRUNC) != 0 {
		return fuse.EROFS
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	if file := n.openFile(); file != nil {
		prepare := file.flush
		if flags&os.O_TRUNC != 0 {
			prepare = file.beforeChange
		}
		if err := prepare(ctx); err != nil {
			return statusOf(err)
		}
		f.publish(ctx, n)
	}
	var remote *usftp.File
	var a attrs
	var asked time.Time
	var replaced version
	open := func(path string) error {
		return f.link.do(ctx, func(c *usftp.Client, _ bool) (err error) {
			before := f.versionBefore(c, n, path)
			if remote, a, asked, err = f.opening(c, path, flags, 0); err != nil {
				return err
			}
			if replaced = before(); a.version() == replaced {
				return nil
			}
			if a, err = f.verify(ctx, c, remote, n, path, a, flags); err != nil {
				remote.Async().Abandon().Forget()
			}
			return err
		})
	}
	var h *handle
	for try := 1; h == nil; try++ { // while other programs keep replacing it
		var err error
		if flags&os.O_TRUNC != 0 {
			err = f.withPath(ctx, n, open)
		} else {
			err = f.lookOrDrop(ctx, n, open, func() { remote.Async().Abandon().Forget() })
		}
		if err != nil {
			return f.statusOfNode(n, err)
		}
		if flags&os.O_TRUNC != 0 {
			f.outdated(n)
			asked = time.Now()
		}
		n.learnAttrs(a, asked)
		if flags&os.O_TRUNC != 0 {
			h = f.attach(n, flags, remote, nil, a.size == 0)
		} else if h = f.attach(n, flags, remote, &a, false); h == nil {
			remote.Async().Abandon().Forget()
		}
		if h == nil && try == 5 {
			return fuse.Status(syscall.ESTALE)
		}
	}
	f.showOpened(h)
	if flags&os.O_TRUNC != 0 {
		h.file.dropReaders()
	}
	h.replaces = replaced
	h.opened(flags)
	out.Fh = f.files.add(h)
	if n.keepsPages(h) {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	return fuse.OK
}

// versionBefore returns the version that a path has before it is opened: the one that its node is
// known to have, or what the host says to a request that is sent now. A file opened between two
// moments at which the path has the same version is of that version. Without the first moment, the
// attributes could be those of a file that took the place of the opened one just after.
func (f *FS) versionBefore(c *usftp.Client, n *node, path string) func() version {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.version
	if !n.fetched.IsZero() {
		return func() version { return v }
	}
	stat := c.Async().Stat(path)
	return func() version {
		if info, err := stat.Wait(); err == nil {
			v = attrsOfInfo(info).version()
		}
		return v
	}
}

// verify returns the attributes of a file that was just opened by a path that had another version
// before: those of the handle, unless opening it was the change. It returns ESTALE if the file is
// not its node's: the kernel then looks the name up again and finds the other file's node.
func (f *FS) verify(ctx context.Context, c *usftp.Client, remote *usftp.File, n *node, path string,
	a attrs, flags int) (attrs, error) {
	file, open := n.statReader(ctx, c)
	if open == nil && flags&os.O_TRUNC != 0 && a.size == 0 {
		n.noteOpenVersion(file, a.version()) // handles of a lost connection know the one before
		return a, nil
	}
	stat, err := remote.WithContext(ctx).Async().Stat().Wait()
	if err != nil {
		return a, err
	}
	a = attrsOf(stat)
	switch {
	case open == nil && f.takeLost(c, n, path, a):
		return a, syscall.ESTALE
	case open == nil:
		return a, nil
	}
	other, err := open.Wait()
	switch {
	case err != nil:
		return a, err
	case attrsOf(other).version() == a.version():
		n.noteOpenVersion(file, a.version())
	case f.takePath(ctx, c, n, path, a):
		return a, syscall.ESTALE
	}
	return a, nil
}

func (f *FS) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string,
	out *fuse.CreateOut) fuse.Status {
	dir, status := f.changing(in.NodeId, name)
	if status != fuse.OK {
		return status
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	flags := osFlags(in.Flags) | os.O_CREATE
	perm := modeOf(in.Mode)
	var remote *usftp.File
	var a, named attrs // of the open file, and of the one that has the name
	var asked time.Time
	var alone bool // this call has made the file
	err := f.onPath(ctx, dir, func(c *usftp.Client, path string, _ bool) (err error) {
		at := join(path, name)
		first := flags
		if mayIgnoreMode(c) {
			first |= os.O_EXCL
		}
		remote, named, asked, err = f.opening(c, at, first, perm)
		if first != flags && endpoint.Refused(err) {
			first = flags
			remote, named, asked, err = f.opening(c, at, flags, perm)
		}
		if err != nil {
			return err
		}
		alone = first&os.O_EXCL != 0
		if a = named; a.size != 0 { // made by another program, which may have replaced ours
			var stat *usftp.FileStat
			if stat, err = remote.WithContext(ctx).Async().Stat().Wait(); err != nil {
				remote.Async().Abandon().Forget()
				return err
			}
			a = attrsOf(stat)
		}
		if old := f.tree.child(dir, name); old.differs(&a) {
			f.takePath(ctx, c, old, at, named)
		}
		return nil
	})
	if err != nil {
		f.dropIfWrong(place{dir, name}, err)
		return f.statusIfFull(ctx, dir, err)
	}
	fresh := alone || flags&os.O_TRUNC != 0 && a.size == 0
	if fresh {
		f.learnClock(a.mtime, asked)
	}
	if old := f.tree.child(dir, name); old != nil && alone {
		f.tree.unlinked(dir, name) // another program has removed it
	} else if old != nil && old.openFile() == nil {
		old.forgetAttrs()
	}
	n := f.tree.learn(dir, name, &a)
	n.learnAttrs(a, asked)
	f.note(dir, name, change{exists: true, attrs: a})
	f.touched(dir)
	h := f.attach(n, flags, remote, nil, fresh)
	if a.version() != named.version() {
		f.outdated(n) // the next lookup asks whose the name is
	}
	// The host has applied its own umask in addition to ours, or has ignored the mode.
	if want := in.Mode & 0o7777; alone && a.mode&0o7777 != want && f.options.Umask == nil {
		h.file.setMode(want)
		if a.mode&^want&others != 0 { // the host has given more than asked for
			h.file.setPending(ctx) // or the next flush does it
		}
	}
	f.answer(n, a, &out.EntryOut)
	h.opened(flags)
	out.Fh = f.files.add(h)
	return fuse.OK
}

// mayIgnoreMode reports whether a host may ignore the mode in OPEN, as Maverick does: then others
// could read what a program writes to a file that it made for itself. The mode must be set again,
// but not that of a file that another program has made meanwhile, so such hosts are asked for a new
// file first. That costs nothing, since the kernel only creates names that it believes are free. It
// is not done where uploads can be resumed: O_EXCL would discard what has arrived.
func mayIgnoreMode(c *usftp.Client) bool {
	private := private.OfClient(c)
	return !private.WorksInOrder() && !private.KeepsUploads()
}

// modeOf converts POSIX permissions to those of package fs, without the type.
func modeOf(mode uint32) fs.FileMode { return wire.FileMode(mode & 0o7777) }
