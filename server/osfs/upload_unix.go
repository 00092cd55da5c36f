//go:build linux || darwin || freebsd

package osfs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
)

// upload is a file that is hidden from clients until it is complete.
//
// Several handles may write to it. Handles opened without CREAT are parts of a file that another
// handle has begun: it is complete when one is closed and no part is open any more. A handle opened
// with CREAT is not waited for: its client may have lost the connection, and resume the upload over
// another one, before the server knows.
type upload struct {
	all      *uploads
	file     *os.File // holds the lock
	dir      int      // a descriptor of the directory
	base     string
	id       identity
	replaces bool          // a file of that name exists
	alone    bool          // no file may have that name when the upload is complete
	done     chan struct{} // closed when the upload can no longer be found

	mu        sync.Mutex
	handles   int
	parts     int   // of these, opened without CREAT
	closed    bool  // a handle was closed
	over      bool  // it has its name, or was removed
	published bool  // it has its name
	synced    bool  // its client has asked for fsync
	lost      error // the answer to CLOSE once it was removed
}

// begin makes the hidden file. old is the file that it will replace, or nil.
func (up *upload) begin(dir int, perm uint32, old *unix.Stat_t) error {
	hidden := hiddenName(up.base)
	fd, err := openAt(dir, hidden, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, perm)
	if err != nil {
		return err
	}
	st, err := lockHidden(fd, dir, hidden)
	if err != nil { // another process found it before it was locked
		unix.Close(fd)
		if err == errBusy {
			err = errAgain
		}
		return err
	}
	if old != nil {
		err = resemble(fd, &st, old)
	}
	if err == nil {
		err = up.register(fd, dir, &st)
	}
	if err != nil {
		unix.Unlinkat(dir, hidden, 0)
		unix.Close(fd)
	}
	return err
}

// resemble gives a new file the mode and the group of the file it will replace, and as root the
// owner, too. A group that the server is not in is lost.
func resemble(fd int, st, old *unix.Stat_t) error {
	if st.Uid != old.Uid || st.Gid != old.Gid {
		err := unix.Fchown(fd, int(old.Uid), int(old.Gid))
		if err != nil && st.Uid != old.Uid {
			return err
		}
	}
	if mode := uint32(old.Mode) & 0o777; uint32(st.Mode)&0o7777 != mode {
		return unix.Fchmod(fd, mode)
	}
	return nil
}

// register lets others find the upload, whose hidden file was opened and locked.
func (up *upload) register(fd, dir int, st *unix.Stat_t) (err error) {
	// The directory may be renamed until the upload is complete.
	if up.dir, err = unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return err
	}
	up.file, up.id, up.handles = os.NewFile(uintptr(fd), up.base), identify(st), 1
	up.done = make(chan struct{})
	up.all.mu.Lock()
	defer up.all.mu.Unlock()
	if up.all.open == nil {
		up.all.open = map[identity]*upload{}
	}
	up.all.open[up.id] = up
	return nil
}

// join adds a handle.
func (up *upload) join(part bool) error {
	up.mu.Lock()
	defer up.mu.Unlock()
	if up.over {
		return errAgain
	}
	up.handles++
	if part {
		up.parts++
	}
	return nil
}

// publish gives the file its name, and so makes it visible; nothing else does. It describes the
// replaced file, if any, in replaced unless that is nil. The caller holds the lock.
func (up *upload) publish(replaced *fs.FileInfo) error {
	if err := up.flush(); err != nil {
		return err
	}
	if replaced != nil {
		if st, err := statAt(up.dir, up.base); err == nil {
			*replaced = &info{name: up.base, st: st}
		}
	}
	hidden := hiddenName(up.base)
	// Where locks do not work, another server may have begun the file again.
	if now, err := up.all.find(up.dir, hidden); err == nil && now != up || err == unix.ENOENT {
		return errSuperseded
	}
	err := retry(func() error {
		if up.alone {
			return renameFresh(up.dir, hidden, up.dir, up.base)
		}
		return unix.Renameat(up.dir, hidden, up.dir, up.base)
	})
	if err != nil {
		if replaced != nil {
			*replaced = nil
		}
		return named("rename", up.base, err)
	}
	up.finish()
	up.published = true
	if up.synced {
		return up.syncName()
	}
	return nil
}

// syncName commits the name to disk, where the directory may be read.
func (up *upload) syncName() error {
	fd, err := openAt(up.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	err = retry(func() error { return unix.Fsync(fd) })
	if unflushable(err) {
		return nil
	}
	return named("fsync", up.base, err)
}

// unflushable reports whether an error of fsync only says that there is none, as of directories on
// some file systems.
func unflushable(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EINVAL)
}

// flush returns the error that closing the file would return: network file systems report lost data
// then. The file itself stays open, since the lock must last until it has its name. The caller holds
// the lock of up.
func (up *upload) flush() error {
	lost := false
	err := control(up.file, func(fd int) error { // again if a signal interrupts it
		other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(other)
			lost = err != nil && err != unix.EINTR
		}
		return err
	})
	err = named("close", up.base, err)
	if lost {
		up.discard(err)
	}
	return err
}

// finish ends the upload, so that it is no longer found. The caller holds the lock.
func (up *upload) finish() {
	up.over = true
	up.all.mu.Lock()
	defer up.all.mu.Unlock()
	delete(up.all.open, up.id)
	close(up.done)
}

// remove removes an upload in progress.
func (up *upload) remove(lost error) error {
	up.mu.Lock()
	defer up.mu.Unlock()
	if up.over {
		return unix.ENOENT
	}
	err := unix.Unlinkat(up.dir, hiddenName(up.base), 0)
	if err == nil {
		up.lost = lost
		up.finish()
	}
	return err
}

// discard removes an upload of which the system has lost something, without saying what. Nobody may
// go on with it, nor complete it through another handle: the system says so once. The caller holds
// the lock.
func (up *upload) discard(lost error) {
	if up.over {
		return
	}
	hidden := hiddenName(up.base)
	if now, _ := up.all.find(up.dir, hidden); now == up {
		unix.Unlinkat(up.dir, hidden, 0)
	}
	up.lost = lost
	up.finish()
}

// end ends a handle. If gone is not nil it describes the file that has no name any more, as
// [server.FileEnder] does.
func (up *upload) end(part bool, how server.Ending, gone *fs.FileInfo) (err error) {
	up.mu.Lock()
	defer up.mu.Unlock()
	up.handles--
	if part {
		up.parts--
	}
	closed := how == server.Closed
	up.closed = up.closed || closed
	switch {
	case up.over && closed:
		err = up.lost
	case !up.over && closed && up.parts == 0:
		err = up.publish(gone)
	}
	if up.handles > 0 {
		return err
	}
	if !up.over {
		// If another file has the name, clients could not resume this upload.
		hidden := hiddenName(up.base)
		if now, _ := up.all.find(up.dir, hidden); now == up &&
			(up.replaces || how == server.Discarded) {
			unix.Unlinkat(up.dir, hidden, 0)
		}
		up.finish()
	}
	if gone != nil && !up.published {
		up.nameless(gone)
	}
	unix.Close(up.dir)
	return cmp.Or(err, up.file.Close())
}

// nameless describes the hidden file if it was removed.
func (up *upload) nameless(gone *fs.FileInfo) {
	if i, err := statOpen(up.file); err == nil && i.(*info).st.Nlink == 0 {
		*gone = i
	}
}

// uploadFile is a handle of an upload.
type uploadFile struct {
	*file
	upload *upload
	part   bool
}

// Close implements io.Closer: the file appears, unless Close fails.
func (f *uploadFile) Close() error { return f.upload.end(f.part, server.Closed, nil) }

// Abandon implements server.FileAbandoner: the file does not appear. A new one is kept for the
// client to resume.
func (f *uploadFile) Abandon() error { return f.upload.end(f.part, server.Abandoned, nil) }

// Replaces implements server.FileEnder.
func (f *uploadFile) Replaces() (fs.FileInfo, error) {
	st, err := statAt(f.upload.dir, f.upload.base)
	if err != nil {
		return nil, err
	}
	return &info{name: f.upload.base, st: st}, nil
}

// End implements server.FileEnder.
func (f *uploadFile) End(how server.Ending) (gone fs.FileInfo, err error) {
	err = f.upload.end(f.part, how, &gone)
	return gone, err
}

// Sync implements server.FileSyncer. The name, made later, is then committed, too.
func (f *uploadFile) Sync() error {
	err := f.File.Sync()
	f.upload.mu.Lock()
	defer f.upload.mu.Unlock()
	switch {
	case err == nil:
		f.upload.synced = true
	case !unflushable(err):
		f.upload.discard(err)
	}
	return err
}

// uploadAppend is a handle whose writes go to the end.
type uploadAppend struct{ *uploadFile }

func (f uploadAppend) WriteAt(p []byte, _ int64) (int, error) {
	f.upload.mu.Lock()
	defer f.upload.mu.Unlock()
	info, err := f.File.Stat()
	if err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, info.Size())
}

// CopyFrom leaves the copy to the session, whose writes go to the end.
func (f uploadAppend) CopyFrom(context.Context, server.File, int64, int64, int64) (int64, error) {
	return 0, errors.ErrUnsupported
}

// atomic reports whether files appear when they are complete.
func (t tree) atomic() bool { return t.uploads != nil }

// statUpload describes the unfinished upload of a new file.
func (t tree) statUpload(ctx context.Context, name string) (fs.FileInfo, error) {
	i := &info{name: path.Base(name)}
	err := t.toParent(ctx, "stat", name, func(dir int, base string) (err error) {
		if t.uploads == nil {
			return unix.ENOENT
		}
		// In this order: it may get its name at any time.
		if i.st, err = statAt(dir, hiddenName(base)); err == nil && existsAt(dir, base) {
			err = unix.ENOENT
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}
