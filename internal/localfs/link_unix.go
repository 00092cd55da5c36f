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

// RenameNew gives a file another name in another directory. It fails with fs.ErrExist if that name
// exists, even if it appeared just now. Where the system cannot ensure that, it does as OpenSSH's
// server does: it links the new name, and then removes the old one.
func RenameNew(in *os.Root, old string, to *os.Root, name string) error {
	return between(in, old, to, name, "rename", func(in, to int) error {
		err := renameNoReplace(in, old, to, name)
		if err != unix.EINVAL && err != unix.ENOSYS {
			return err
		}
		var st unix.Stat_t
		if err = unix.Fstatat(in, old, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Linkat(in, old, to, name, 0) == nil {
			return unix.Unlinkat(in, old, 0)
		}
		if err = unix.Fstatat(to, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			return unix.EEXIST
		}
		return unix.Renameat(in, old, to, name)
	})
}

// LinkInto gives a file a second name in another directory, which os.Root cannot do.
func LinkInto(in *os.Root, old string, to *os.Root, name string) error {
	return between(in, old, to, name, "link", func(in, to int) error {
		return unix.Linkat(in, old, to, name, 0)
	})
}

// between calls do with the descriptors of two directories.
func between(in *os.Root, old string, to *os.Root, name, op string,
	do func(in, to int) error) error {
	from, err := in.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()
	into, err := to.Open(".")
	if err != nil {
		return err
	}
	defer into.Close()
	err = withFD(from, func(from int) error {
		return withFD(into, func(into int) error { return do(from, into) })
	})
	if err != nil {
		return &os.LinkError{Op: op, Old: old, New: name, Err: err}
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
