//go:build unix

package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// links returns how many names a file has.
func links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}

// keepOwner gives the temporary file the owner of the file that it replaces, where that is another
// and we may.
func (t *localTarget) keepOwner() error {
	old, ok := t.before.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	// In some directories files do not get their maker's group.
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if fresh, ok := info.Sys().(*syscall.Stat_t); ok && fresh.Uid == old.Uid &&
		fresh.Gid == old.Gid {
		return nil
	}
	return t.file.Chown(int(old.Uid), int(old.Gid))
}

// localOwner returns whose a file is.
func localOwner(info fs.FileInfo) owner {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}
	}
	return owner{int(stat.Uid), int(stat.Gid), true}
}

// fileID is what tells a file from others, whatever their names.
func fileID(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(stat.Dev), 16) + ":" +
			strconv.FormatUint(uint64(stat.Ino), 16)
	}
	return ""
}

// openOurs opens a file of the journal, making it where it is not there. It is taken only where it
// is nobody else's: the directory may be another's whose home is still set (sudo), and a link in it
// lead to any file that we may write.
func openOurs(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || links(info) > 1 ||
		localOwner(info).uid != os.Geteuid()) {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is somebody else's")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openListed opens a regular file of a tree that is read. Where a link has taken its place since it
// was listed that is not followed, and a pipe is not waited for.
func openListed(name string) (*os.File, error) {
	return notFollowed(os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0))
}

// openListedDir opens a directory of a tree that is read, in the same way.
func openListedDir(name string) (*os.File, error) {
	return notFollowed(os.OpenFile(name,
		os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0))
}

// notFollowed says what the kernel's word for a link that is not followed means: ELOOP, or EMLINK
// on FreeBSD.
func notFollowed(f *os.File, err error) (*os.File, error) {
	var path *fs.PathError
	if errors.As(err, &path) && (path.Err == syscall.ELOOP || path.Err == syscall.EMLINK) {
		path.Err = fmt.Errorf("%w: it is a symbolic link now", ErrSourceChanged)
	}
	return f, err
}
