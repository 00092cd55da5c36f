//go:build linux || darwin || freebsd

package osfs

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// uploads are the unfinished uploads of a tree whose files appear when they are closed. Each is a
// file next to its future place, with a name that clients cannot use. Its writer holds a system
// lock on it, which ends with the process: a file without a lock is the leftover of an upload. The
// holder of the lock, once it has checked that the name still belongs to the locked file, may
// rename and remove it.
type uploads struct {
	self uint32 // the owner of new files

	mu   sync.Mutex
	open map[identity]*upload
}

// identity is how the system identifies a file.
type identity struct{ dev, ino uint64 }

func identify(st *unix.Stat_t) identity { return identity{uint64(st.Dev), uint64(st.Ino)} }

const exclusive = wire.OpenCreate | wire.OpenExclusive

// errAgain means that the file found has been completed or removed meanwhile.
var errAgain = unix.EAGAIN

// opened is a file opened for writing: an upload, or else a file in place.
type opened struct {
	upload  *upload
	part    bool // see upload
	created bool
	file    *os.File
}

// openAt opens a file for writing: hidden if it is new or to be replaced, and otherwise in place.
// flags are those of OPEN. It follows no link.
func (u *uploads) openAt(ctx context.Context, dir int, base string,
	flags, perm uint32) (o opened, err error) {
	for i := range 10 {
		o, err = u.tryOpen(ctx, dir, base, flags, perm)
		if i == 0 && err == unix.ENOENT { // an upload may have got its name in the meantime
			o, err = u.tryOpen(ctx, dir, base, flags, perm)
		}
		if err != errAgain {
			o.created = o.created && i == 0 // not if it took the place of another upload
			return o, err
		}
	}
	return o, errBusy
}

func (u *uploads) tryOpen(ctx context.Context, dir int, base string,
	flags, perm uint32) (o opened, err error) {
	if flags&exclusive == exclusive {
		if _, err = statAt(dir, base); err == nil {
			err = unix.EEXIST
		}
	} else {
		var fd int
		flag := openFlags(flags&^(wire.OpenCreate|wire.OpenTruncate)) | unix.O_NONBLOCK
		if fd, err = openAt(dir, base, flag|unix.O_NOFOLLOW, 0); err == nil {
			return u.existing(ctx, dir, base, os.NewFile(uintptr(fd), base), flags)
		}
	}
	if err != unix.ENOENT {
		return o, err
	}
	if flags&wire.OpenCreate != 0 {
		up := &upload{all: u, base: base, alone: flags&exclusive == exclusive}
		if err := up.begin(dir, perm, nil); err != unix.EEXIST {
			return opened{upload: up, created: true}, err
		}
	}
	up, err := u.resume(ctx, dir, base, flags)
	return opened{upload: up, part: flags&wire.OpenCreate == 0}, err
}

// existing decides how to change an existing file, which has been opened. A truncated file is
// replaced by a new one. Opening it then without CREAT, as our own client does to send parts over
// other connections, opens the new one. Other changes are made in place.
func (u *uploads) existing(ctx context.Context, dir int, base string, file *os.File,
	flags uint32) (o opened, err error) {
	switch {
	case flags&wire.OpenTruncate != 0:
		o.upload, err = u.replace(ctx, dir, base, file, flags)
	case flags&wire.OpenCreate == 0:
		o.upload, err = u.replacing(dir, base)
		o.part = o.upload != nil
	}
	if o.upload == nil && err == nil {
		o.file, err = file, inPlace(flags)
	}
	if o.file == nil || err != nil {
		file.Close()
	}
	return o, err
}

// inPlace returns an error if nothing may be changed where it is.
func inPlace(flags uint32) error {
	if flags&notInPlace != 0 {
		return ErrInPlace
	}
	return nil
}

// replace begins an upload that will replace a file. It truncates the file instead, and returns
// nil, if that has other names or another owner, which would be lost, or no file can be made next
// to it.
func (u *uploads) replace(ctx context.Context, dir int, base string, file *os.File,
	flags uint32) (*upload, error) {
	var st unix.Stat_t
	err := control(file, func(fd int) error { return unix.Fstat(fd, &st) })
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG { // a pipe, say, which is never truncated
		return nil, err
	}
	if st.Nlink == 0 { // it has been replaced or removed
		return nil, errAgain
	}
	if st.Nlink == 1 && (st.Uid == u.self || u.self == 0) {
		up := &upload{all: u, base: base, replaces: true}
		err := up.begin(dir, uint32(st.Mode)&0o777, &st)
		if err == unix.EEXIST {
			if err = u.drop(ctx, dir, hiddenName(base), true, errSuperseded); err == nil ||
				err == unix.ENOENT {
				err = errAgain
			}
		}
		if err == nil {
			return up, nil
		}
		if err != unix.EACCES && err != unix.EPERM && err != unix.EROFS {
			return nil, err
		}
	}
	if err := inPlace(flags); err != nil {
		return nil, err
	}
	return nil, file.Truncate(0)
}

// replacing joins the upload in progress that will replace a file, if there is one.
func (u *uploads) replacing(dir int, base string) (*upload, error) {
	up, err := u.find(dir, hiddenName(base))
	if up == nil || err != nil {
		return nil, nil
	}
	return up, up.join(true)
}

// lockHidden locks a hidden file, and returns errAgain if the name no longer belongs to it.
func lockHidden(fd, dir int, hidden string) (st unix.Stat_t, err error) {
	err = retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK {
		return st, errBusy
	}
	if err != nil && err != unix.ENOLCK && err != unix.ENOTSUP && err != unix.ENOSYS {
		return st, err // without locks, only one server may serve the tree
	}
	if err = retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return st, err
	}
	now, err := statAt(dir, hidden)
	if err == unix.ENOENT || err == nil && identify(&now) != identify(&st) {
		err = errAgain
	}
	return st, err
}

// resume opens a file that has no name yet: an upload in progress, or the leftover of one.
func (u *uploads) resume(ctx context.Context, dir int, base string,
	flags uint32) (*upload, error) {
	hidden := hiddenName(base)
	alone := flags&exclusive == exclusive
	if alone || flags&wire.OpenTruncate != 0 {
		// A client that has lost its connection may begin again before the server notices, so it
		// takes over the name, except with EXCL.
		switch err := u.drop(ctx, dir, hidden, !alone, errSuperseded); {
		case err == nil, err == unix.ENOENT && flags&wire.OpenCreate != 0:
			return nil, errAgain
		case err == errBusy && alone:
			return nil, unix.EEXIST
		default:
			return nil, err
		}
	}
	up, err := u.find(dir, hidden)
	switch {
	case err == unix.ENOENT && flags&wire.OpenCreate != 0:
		return nil, errAgain
	case err != nil:
		return nil, err
	case up != nil:
		return up, up.join(flags&wire.OpenCreate == 0)
	}
	fd, err := openAt(dir, hidden, unix.O_RDWR|unix.O_NOFOLLOW, 0)
	if err == unix.ENOENT {
		err = errAgain
	}
	if err != nil {
		return nil, err
	}
	st, err := lockHidden(fd, dir, hidden)
	if up = (&upload{all: u, base: base}); err == nil {
		err = up.register(fd, dir, &st)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	if flags&wire.OpenCreate == 0 {
		up.parts = 1
	}
	return up, nil
}

// find returns the upload in progress that a hidden name belongs to, or nil if it is a leftover, or
// another server's upload.
func (u *uploads) find(dir int, hidden string) (*upload, error) {
	st, err := statAt(dir, hidden)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open[identify(&st)], nil
}

// ended is a closed channel, like done after the end of an upload.
var ended = func() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// unfinished returns the error for reading a file that is being uploaded.
func (u *uploads) unfinished(dir int, base string) error {
	switch up, err := u.find(dir, hiddenName(base)); {
	case err == unix.ENOENT: // it has just got its name, or was removed
		return &unfinishedError{errUnfinished, ended}
	case err == nil && up != nil:
		return &unfinishedError{errUnfinished, up.done}
	}
	return errUnfinished
}

// drop removes a hidden file. A file being written is removed only if take is set: its client gets
// lost as the answer to CLOSE.
func (u *uploads) drop(ctx context.Context, dir int, hidden string, take bool, lost error) error {
	up, err := u.find(dir, hidden)
	switch {
	case err != nil:
		return err
	case up != nil && take:
		return up.remove(lost)
	case up != nil:
		return errBusy
	}
	// NFS locks only files open for writing, but a client may have made the file read-only.
	fd, err := openAt(dir, hidden, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == unix.EACCES {
		fd, err = openAt(dir, hidden, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}
	if err == unix.EACCES { // nobody could resume it
		return dropLeftover(ctx, dir, hidden)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	switch _, err := lockHidden(fd, dir, hidden); err {
	case nil:
		return dropLeftover(ctx, dir, hidden)
	case errAgain:
		return unix.ENOENT // it has just got its name, or was removed
	default:
		return err
	}
}

// dropLeftover removes a hidden file that nobody writes, and tells the quota of the request.
func dropLeftover(ctx context.Context, dir int, hidden string) error {
	st, err := statAt(dir, hidden)
	if err == nil {
		err = unix.Unlinkat(dir, hidden, 0)
	}
	if err == nil {
		server.Dropped(ctx, &info{name: hidden, st: st})
	}
	return err
}

// vacant returns an error if an upload exists of the name at which something else is to be made.
// Renaming is different: clients give files their final names that way.
func (u *uploads) vacant(dir int, base string) error {
	if u != nil && existsAt(dir, hiddenName(strings.TrimSuffix(base, "/"))) {
		return unix.EEXIST
	}
	return nil
}

// settle publishes an upload that a client is about to rename after closing a handle. Handles still
// open belong to connections that the client has lost: it has sent their parts again, and the
// server has not noticed yet. The client means to rename the file that it has closed, not the one
// that was to be replaced.
func (u *uploads) settle(dir int, base string) error {
	if u == nil {
		return nil
	}
	up, err := u.find(dir, hiddenName(base))
	if up == nil || err != nil {
		return nil
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	if !up.closed || up.over {
		return nil
	}
	return up.publish(nil)
}

// renamed takes the result of a rename, and drops any upload of the new name: the file has now come
// another way, and a leftover must not turn up when that file is gone.
func (u *uploads) renamed(ctx context.Context, err error, from int, old string, to int,
	base string) error {
	switch {
	case u == nil:
	case err == nil:
		u.drop(ctx, to, hiddenName(strings.TrimSuffix(base, "/")), true, errSuperseded)
	case err == unix.ENOENT && existsAt(from, hiddenName(old)):
		return errUnfinished
	}
	return err
}

// unlinked takes the result of removing a file. If no file existed, it removes the upload, in
// progress or not; otherwise only a leftover.
func (u *uploads) unlinked(ctx context.Context, err error, dir int, base string) error {
	switch {
	case u == nil:
	case err == nil:
		u.drop(ctx, dir, hiddenName(base), false, nil)
	case err == unix.ENOENT:
		return u.drop(ctx, dir, hiddenName(base), true, nil)
	}
	return err
}

// emptied removes the leftovers of uploads from a directory that holds nothing else, so that it can
// be removed like an empty one, as clients expect. It reports whether it has.
func (u *uploads) emptied(ctx context.Context, dir int, base string) bool {
	if u == nil {
		return false
	}
	fd, err := openAt(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	file := os.NewFile(uintptr(fd), base)
	defer file.Close()
	names, err := file.Readdirnames(-1)
	if err != nil || slices.ContainsFunc(names, func(name string) bool { return !isHidden(name) }) {
		return false
	}
	for _, name := range names {
		if up, err := u.find(fd, name); up != nil || err != nil {
			return false // before anything is removed
		}
	}
	for _, name := range names {
		if err := u.drop(ctx, fd, name, false, nil); err != nil && err != unix.ENOENT {
			return false
		}
	}
	return true
}
