//go:build darwin || freebsd

package osfs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/wire"
)

const (
	openDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK
	openAny       = unix.O_RDONLY | unix.O_NONBLOCK
)

// withSlash returns the last element of a path that ends in a slash. These systems would follow a
// link there, so it checks that the element is a directory and drops the slash.
func withSlash(dir int, element string) (string, error) {
	st, err := statAt(dir, element)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", unix.ENOTDIR
	}
	return element, nil
}

// openWithin is not available.
func openWithin(int, string) (int, error) { return 0, unix.ENOSYS }

// renameNoReplace is not available.
func renameNoReplace(int, string, int, string) error { return unix.ENOSYS }

func chmodAt(dir int, base string, mode uint32, flags int) error {
	return unix.Fchmodat(dir, base, mode, flags)
}

func futimes(fd int, atime, mtime time.Time) error {
	return unix.Futimes(fd, []unix.Timeval{unix.NsecToTimeval(atime.UnixNano()),
		unix.NsecToTimeval(mtime.UnixNano())})
}

func statVFS(int) (wire.StatVFSReply, error) {
	return wire.StatVFSReply{}, errors.ErrUnsupported
}
