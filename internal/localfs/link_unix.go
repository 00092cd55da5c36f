//go:build linux || darwin || freebsd

package localfs

import (
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lchtimes sets the times of a name in a directory without following it if it is a symbolic link,
// which os.Root cannot do.
func Lchtimes(in *os.Root, name string, atime, mtime time.Time) error {
	dir, err := in.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	var times [2]unix.Timespec
	for at, when := range []time.Time{atime, mtime} {
		if times[at], err = unix.TimeToTimespec(when); err != nil {
			return &fs.PathError{Op: "utimensat", Path: name, Err: err}
		}
	}
	err = withFD(dir, func(fd int) error {
		return unix.UtimesNanoAt(fd, name, times[:], unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return &fs.PathError{Op: "utimensat", Path: name, Err: err}
	}
	return nil
}

// withFD calls do with the descriptor of a file, which stays open until do returns.
func withFD(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if raw.Control(func(fd uintptr) { failed = do(int(fd)) }) != nil {
		return os.ErrClosed // the only reason, but not under this name
	}
	return failed
}
