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
	raw, err := dir.SyscallConn()
	if err != nil {
		return err
	}
	var times [2]unix.Timespec
	for at, when := range []time.Time{atime, mtime} {
		if times[at], err = unix.TimeToTimespec(when); err != nil {
			return &fs.PathError{Op: "utimensat", Path: name, Err: err}
		}
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.UtimesNanoAt(int(fd), name, times[:],
			unix.AT_SYMLINK_NOFOLLOW)
	}); err != nil {
		return err
	}
	if failed != nil {
		return &fs.PathError{Op: "utimensat", Path: name, Err: failed}
	}
	return nil
}
