//go:build linux || darwin || freebsd

package osfs

import (
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/wire"
)

// uploads are the unfinished uploads of a tree whose files appear when they are closed. Each is a
// file beside the one that it is to become, with a name that clients cannot use. Who writes to it
// holds a lock of the system on it, which ends with the process: a file without a lock is what was
// left of an upload. Whoever holds the lock, and has seen that the name still belongs to what he
// locked, may rename and remove it.
type uploads struct {
	self uint32 // the user that files made belong to

	mu   sync.Mutex
	open map[identity]*upload
}

// identity is how the system identifies a file.
type identity struct{ dev, ino uint64 }

func identify(st *unix.Stat_t) identity { return identity{uint64(st.Dev), uint64(st.Ino)} }

const exclusive = wire.OpenCreate | wire.OpenExclusive

// errAgain means that somebody else has completed or removed what was found.
var errAgain = unix.EAGAIN

// opened is a file opened for writing: an upload, or else a file where it is.
type opened struct {
	upload  *upload
	part    bool // see upload
	created bool
	file    *os.File
}

// openAt opens a file for writing: hidden if it is new or to be replaced, and otherwise where it
// is. flags are those of OPEN. It follows no link.
func (u *uploads) openAt(dir int, base string, flags, perm uint32) (o opened, err error) {
	for i := range 10 {
		o, err = u.tryOpen(dir, base, flags, perm)
		if i == 0 && err == unix.ENOENT { // an upload may have got its name in the meantime
			o, err = u.tryOpen(dir, base, flags, perm)
		}
		if err != errAgain {
			o.created = o.created && i == 0 // not if it took the place of another upload
			return o, err
		}
	}
	return o, errBusy
}

func (u *uploads) tryOpen(dir int, base string, flags, perm uint32) (o opened, err error) {
	if flags&exclusive == exclusive {
		if _, err = statAt(dir, base); err == nil {
			err = unix.EEXIST
		}
	} else {
		var fd int
		flag := openFlags(flags&^(wire.OpenCreate|wire.OpenTruncate)) | unix.O_NONBLOCK
		if fd, err = openAt(dir, base, flag|unix.O_NOFOLLOW, 0); err == nil {
			return u.existing(dir, base, os.NewFile(uintptr(fd), base), flags)
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
	up, err := u.resume(dir, base, flags)
	return opened{upload: up, part: flags&wire.OpenCreate == 0}, err
}

// existing decides how a file is changed that exists and has been opened. One that is emptied is
// replaced by a new one. Who then opens it without CREAT, which our own client does to send parts
// of it over other connections, gets the new one. What is only changed is changed where it is.
func (u *uploads) existing(dir int, base string, file *os.File, flags uint32) (o opened,
	err error) {
	switch {
	case flags&wire.OpenTruncate != 0:
		o.upload, err = u.replace(dir, base, file)
	case flags&wire.OpenCreate == 0:
		o.upload, err = u.replacing(dir, base)
		o.part = o.upload != nil
	}
	if o.upload == nil && err == nil {
		o.file = file
	} else {
		file.Close()
	}
	return o, err
}

// replace begins an upload that is to replace a file. It empties the file instead, and returns nil,
// if that has other names or another owner, which would be lost, or nothing can be made beside it.
func (u *uploads) replace(dir int, base string, file *os.File) (*upload, error) {
	var st unix.Stat_t
	err := control(file, func(fd int) error { return unix.Fstat(fd, &st) })
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG { // a pipe, say, which is never emptied
		return nil, err
	}
	if st.Nlink == 0 { // it has been replaced or removed
		return nil, errAgain
	}
	if st.Nlink == 1 && (st.Uid == u.self || u.self == 0) {
		up := &upload{all: u, base: base, replaces: true}
		err := up.begin(dir, uint32(st.Mode)&0o777, &st)
		if err == unix.EEXIST {
			if err = u.drop(dir, hiddenName(base), true, errSuperseded); err == nil ||
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
	return nil, file.Truncate(0)
}

// replacing joins the upload under way that is to replace a file, if there is one.
func (u *uploads) replacing(dir int, base string) (*upload, error) {
	up, err := u.find(dir, hiddenName(base))
	if up == nil || err != nil {
		return nil, nil
	}
	return up, up.join(true)
}

// lockHidden locks a hidden file, and returns errAgain if the name does not belong to it any more.
func lockHidden(fd, dir int, hidden string) (st unix.Stat_t, err error) {
	err = retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK {
		return st, errBusy
	}
	if err != nil && err != unix.ENOLCK && err != unix.ENOTSUP && err != unix.ENOSYS {
		return st, err // where there are no locks, one server has to do
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

// resume opens what there is of a file that has no name yet: an upload under way, or what was left
// of one.
func (u *uploads) resume(dir int, base string, flags uint32) (*upload, error) {
	hidden := hiddenName(base)
	alone := flags&exclusive == exclusive
	if alone || flags&wire.OpenTruncate != 0 {
		// A client that has lost its connection begins again before the server has noticed. Only
		// one that wants the name for itself does not take it from another.
		switch err := u.drop(dir, hidden, !alone, errSuperseded); {
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

// find returns the upload under way that a hidden name belongs to, or nil if it is what was left of
// one, or of another server.
func (u *uploads) find(dir int, hidden string) (*upload, error) {
	st, err := statAt(dir, hidden)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open[identify(&st)], nil
}

// ended is closed, as done is when an upload has ended.
var ended = func() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// unfinished returns the error for who wants to read a file of which there is an upload.
func (u *uploads) unfinished(dir int, base string) error {
	switch up, err := u.find(dir, hiddenName(base)); {
	case err == unix.ENOENT: // it has just got its name, or was removed
		return &unfinishedError{errUnfinished, ended}
	case err == nil && up != nil:
		return &unfinishedError{errUnfinished, up.done}
	}
	return errUnfinished
}

// drop removes a hidden file. One that is being written is removed only if take is set: its client
// gets lost as the answer to CLOSE.
func (u *uploads) drop(dir int, hidden string, take bool, lost error) error {
	up, err := u.find(dir, hidden)
	switch {
	case err != nil:
		return err
	case up != nil && take:
		return up.remove(lost)
	case up != nil:
		return errBusy
	}
	// NFS locks only what is open for writing, but a client may have made the file read-only.
	fd, err := openAt(dir, hidden, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == unix.EACCES {
		fd, err = openAt(dir, hidden, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}
	if err == unix.EACCES { // nobody could go on with it
		return unix.Unlinkat(dir, hidden, 0)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	switch _, err := lockHidden(fd, dir, hidden); err {
	case nil:
		return unix.Unlinkat(dir, hidden, 0)
	case errAgain:
		return unix.ENOENT // it has just got its name, or was removed
	default:
		return err
	}
}

// vacant returns an error if there is an upload of the name at which something else is to be made.
// Renaming is different: clients give files their final names that way.
func (u *uploads) vacant(dir int, base string) error {
	if u != nil && existsAt(dir, hiddenName(strings.TrimSuffix(base, "/"))) {
		return unix.EEXIST
	}
	return nil
}

// settle gives an upload its name that a client is about to rename after it has closed a handle.
// Handles that are still open belong to connections that the client has lost: it has sent their
// parts again, and the server has not noticed yet. What the client renames is what it has closed,
// and not the file that was to be replaced.
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

// renamed is called with the result of renaming something. An upload of a file that has now come by
// another way is given up, and what was left of one is not to turn up when that file is gone.
func (u *uploads) renamed(err error, from int, old string, to int, base string) error {
	switch {
	case u == nil:
	case err == nil:
		u.drop(to, hiddenName(base), true, errSuperseded)
	case err == unix.ENOENT && existsAt(from, hiddenName(old)):
		return errUnfinished
	}
	return err
}

// unlinked is called with the result of removing a file. If there was none, the upload of one is
// removed; if there was one, only what was left of an upload.
func (u *uploads) unlinked(err error, dir int, base string) error {
	switch {
	case u == nil:
	case err == nil:
		u.drop(dir, hiddenName(base), false, nil)
	case err == unix.ENOENT:
		return u.drop(dir, hiddenName(base), true, nil)
	}
	return err
}

// emptied removes what was left of uploads from a directory that holds nothing else, so that it can
// be removed as clients expect of an empty one. It reports whether it has.
func (u *uploads) emptied(dir int, base string) bool {
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
		if err := u.drop(fd, name, false, nil); err != nil && err != unix.ENOENT {
			return false
		}
	}
	return true
}
