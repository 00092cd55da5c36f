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

// isNoData tells whether SEEK_DATA has found none.
func isNoData(err error) bool { return errors.Is(err, unix.ENXIO) }

// roomy tells whether a file has room for holes: whether it takes fewer blocks, of 512 bytes each,
// than it has bytes.
func roomy(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Blocks < (info.Size()+511)/512
}

// Stored is how many bytes of room a file takes, its size where that is not known.
func Stored(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}

// copyRange has the kernel copy. It returns 0 and no error at the end of src, and
// errors.ErrUnsupported where the kernel cannot.
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
		return n, errors.ErrUnsupported // what is really wrong, reading and writing will say
	case nil:
		return n, nil
	}
	return n, &fs.PathError{Op: "copy", Path: dst.Name(), Err: err}
}

// clone has dst share all of src's blocks.
func clone(dst, src *os.File) error {
	return both(dst, src, unix.IoctlFileClone)
}

// remote tells whether a file lies on another machine, or may: what is behind FUSE nobody knows.
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
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC,
		unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC:
		return true
	}
	return false
}

// punch makes a hole of a range within a file.
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

// both lends the descriptors of two files, which stay open meanwhile.
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
		return os.ErrClosed // it is the one reason, under a name of its own
	}
	return failed
}
