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

// Stored returns how many bytes a file occupies, or its size if unknown.
func Stored(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}

// copyRange lets the kernel copy. It returns 0 and no error at the end of src, and
// errors.ErrUnsupported if the kernel cannot copy.
func copyRange(dst, src *os.File, to, from, length int64) (n int64, err error) {
	err = withFDs(dst, src, func(out, in int) error {
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
		return n, errors.ErrUnsupported // reading and writing will show the real error
	case nil:
		return n, nil
	}
	return n, &fs.PathError{Op: "copy", Path: dst.Name(), Err: err}
}

// clone makes dst share all of src's blocks.
func clone(dst, src *os.File) error {
	return withFDs(dst, src, unix.IoctlFileClone)
}

// remote reports whether a file is, or may be, on another machine: FUSE may hide anything.
func remote(f *os.File) bool {
	var st unix.Statfs_t
	if withFD(f, func(fd int) error { return unix.Fstatfs(fd, &st) }) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.V9FS_MAGIC,
		unix.FUSE_SUPER_MAGIC:
		return true
	}
	return false
}

// punch turns a range of a file into a hole.
func punch(f *os.File, off, n int64) error {
	return withFD(f, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}

// withFDs calls do like withFD, with two descriptors.
func withFDs(dst, src *os.File, do func(out, in int) error) error {
	return withFD(dst, func(out int) error {
		return withFD(src, func(in int) error { return do(out, in) })
	})
}
