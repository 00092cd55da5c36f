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

// errAgain means that the file found has been completed or removed meanwhile.
var errAgain = unix.EAGAIN

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
