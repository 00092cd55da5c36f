package localfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	seekData = unix.SEEK_DATA
	seekHole = unix.SEEK_HOLE
)

// isNoData reports whether SEEK_DATA found no data.
func isNoData(err error) bool { return errors.Is(err, unix.ENXIO) }

// mayHaveHoles reports whether a file may have holes: whether its blocks, of 512 bytes each, hold
// fewer bytes than its size.
func mayHaveHoles(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Blocks < (info.Size()+511)/512
}

// Stored returns how many bytes a file occupies, or its size if that is not known.
func Stored(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}

// copyRange lets the kernel copy. It returns 0 and no error at the end of src, and
// errors.ErrUnsupported if the kernel cannot copy.
func copyRange(dst, src *os.File, to, from, length int64) (n int64, err error) {
	err = both(dst, src, func(out, in int) error {
		for {
			got, err := unix.CopyFileRange(in, &from, out, &to, int(length), 0)
			if err == unix.EINTR {
				continue
			}
			n = int64(max(got, 0))
			return err
		}
	})
	switch err {
	case unix.EXDEV, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EBADF, unix.EPERM:
		return n, errors.ErrUnsupported // reading and writing will show what is really wrong
	case nil:
		return n, nil
	}
	return n, &fs.PathError{Op: "copy", Path: dst.Name(), Err: err}
}

// clone makes dst share all of src's blocks.
func clone(dst, src *os.File) error {
	return both(dst, src, unix.IoctlFileClone)
}

// remote reports whether a file is, or may be, on another machine: nobody knows what is behind
// FUSE.
func remote(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var st unix.Statfs_t
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Fstatfs(int(fd), &st) }); err != nil ||
		failed != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.CEPH_SUPER_MAGIC,
		unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC:
		return true
	}
	return false
}

// punch turns a range of a file into a hole.
func punch(f *os.File, off, n int64) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.Fallocate(int(fd), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	return errors.Join(err, failed)
}

// both calls f with the descriptors of two files, which stay open until it returns.
func both(dst, src *os.File, do func(out, in int) error) error {
	out, err := dst.SyscallConn()
	if err != nil {
		return err
	}
	in, err := src.SyscallConn()
	if err != nil {
		return err
	}
	var failed, inner error
	err = out.Control(func(outFD uintptr) {
		inner = in.Control(func(inFD uintptr) { failed = do(int(outFD), int(inFD)) })
	})
	if err != nil || inner != nil {
		return os.ErrClosed // the only reason, but not under this name
	}
	return failed
}
