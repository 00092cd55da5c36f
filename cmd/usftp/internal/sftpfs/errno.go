//go:build linux || darwin

package sftpfs

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// statusOf returns the errno that a program gets for an error. SFTP version 3 has few codes: a
// caller that knows what FAILURE must mean maps it before it calls statusOf.
func statusOf(err error) fuse.Status {
	var errno syscall.Errno
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &errno):
		return fuse.Status(errno)
	case errors.Is(err, usftp.ErrOneHandle):
		return fuse.Status(syscall.EMFILE)
	case errors.Is(err, errInterrupted):
		return fuse.EINTR
	case errors.Is(err, errTimeout), errors.Is(err, errFatal):
		return fuse.EIO
	case lost(err), errors.Is(err, context.Canceled):
		return fuse.Status(syscall.ENOTCONN)
	case errors.Is(err, fs.ErrNotExist):
		return fuse.ENOENT
	case errors.Is(err, fs.ErrExist):
		return fuse.Status(syscall.EEXIST)
	case errors.Is(err, fs.ErrPermission):
		return fuse.EACCES
	case errors.Is(err, errors.ErrUnsupported):
		return fuse.Status(syscall.ENOTSUP)
	case errors.Is(err, usftp.ErrSSHFxBadMessage), errors.Is(err, fs.ErrInvalid):
		return fuse.EINVAL // OpenSSH sends BAD_MESSAGE for EINVAL and ENAMETOOLONG
	}
	if status := new(usftp.StatusError); errors.As(err, &status) {
		if errno, known := errnos[wire.Code(status.Code)]; known {
			return fuse.Status(errno)
		}
	}
	return fuse.EIO
}

// errnos are what codes of later drafts mean. Apache MINA and others send them in version 3 too.
var errnos = map[wire.Code]syscall.Errno{
	wire.NoSpaceOnFilesystem: syscall.ENOSPC, wire.QuotaExceeded: syscall.EDQUOT,
	wire.DirNotEmpty: syscall.ENOTEMPTY, wire.NotADirectory: syscall.ENOTDIR,
	wire.FileIsADirectory: syscall.EISDIR, wire.LinkLoop: syscall.ELOOP,
	wire.InvalidFilename: syscall.EINVAL, wire.InvalidParameter: syscall.EINVAL,
}

// mayHoldNames reports whether a directory may not have been removed or replaced because there are
// names in it.
func mayHoldNames(err error) bool {
	return errors.Is(err, usftp.ErrSSHFxFailure) || errors.Is(err, usftp.FxCode(wire.DirNotEmpty))
}

// statusOfNode works like statusOf for a request about a node. If its file is gone, the name may
// belong to another one by now, or the program may be about to make it: Linux does not say so in
// OPEN, nor when it asks for the attributes of a file that it opens. After ESTALE it looks the name
// up again, and gives the program the answer to that.
func (f *FS) statusOfNode(n *node, err error) fuse.Status {
	status := statusOf(err)
	if status != fuse.ENOENT || runtime.GOOS != "linux" {
		return status
	}
	for _, p := range f.tree.placesOf(n) {
		f.dropName(p)
	}
	return fuse.Status(syscall.ESTALE)
}

// fullBelow is the free space below which a refused request means that the disk, or a quota, is
// full: some servers write all the data they were given or nothing.
const fullBelow = 1 << 20

// statusIfFull works like statusOf for a request that needs room on a file's or directory's disk.
func (f *FS) statusIfFull(ctx context.Context, n *node, err error) fuse.Status {
	if f.full(ctx, n, err) {
		return fuse.Status(syscall.ENOSPC)
	}
	return statusOf(err)
}

// full reports whether an error means that the disk is full, which servers report as FAILURE, or not
// at all.
func (f *FS) full(ctx context.Context, n *node, err error) (full bool) {
	if !errors.Is(err, usftp.ErrSSHFxFailure) && !errors.Is(err, private.ErrNotStored) ||
		errors.Is(err, fs.ErrExist) {
		return false
	}
	path, ok := f.tree.path(n)
	if !ok {
		return false
	}
	f.link.do(ctx, func(c *usftp.Client, _ bool) error {
		stat, err := c.StatVFS(path)
		full = err == nil && (stat.AvailableSpace() < fullBelow ||
			stat.Files > 0 && stat.Favail == 0)
		return err
	})
	return full
}
