//go:build linux || darwin

package sftpfs

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

// maxCopy limits the bytes that one call copies. The server sends nothing until it is done.
const maxCopy = 64 << 20

// CopyFileRange implements fuse.RawFileSystem. If the host can copy, the data does not leave it;
// otherwise the kernel falls back to reading and writing.
func (f *FS) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	from, to := f.files.get(in.FhIn), f.files.get(in.FhOut)
	switch {
	case from == nil || to == nil || !to.writes() || from.flags&os.O_WRONLY != 0:
		return 0, fuse.EBADF
	case f.options.ReadOnly:
		return 0, fuse.EROFS
	case to.appends() || from.file == to.file:
		return 0, fuse.Status(syscall.ENOTSUP)
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	if err := from.file.drain(ctx); err != nil {
		return 0, statusOf(err)
	}
	from.file.endUploads(ctx, from)
	length := min(int64(in.Len), maxCopy)
	if size := int64(from.file.node.size()); int64(in.OffIn)+length > size {
		length = max(0, size-int64(in.OffIn))
	}
	if length == 0 {
		return 0, fuse.OK
	}
	file := to.file
	if err := file.beforeChange(ctx); err != nil {
		return 0, statusOf(err)
	}
	file.endUploads(ctx, to)
	var n int64
	err := f.link.do(ctx, func(c *usftp.Client, _ bool) error {
		if _, ok := c.HasExtension(wire.ExtCopyData); !ok {
			return errors.ErrUnsupported
		}
		source, done, err := from.use(ctx)
		if err != nil {
			return err
		}
		defer done()
		target, done, err := to.use(ctx)
		if err != nil {
			return err
		}
		defer done()
		n, err = source.WithContext(ctx).CopyRange(int64(in.OffIn), length, target,
			int64(in.OffOut))
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		return err
	})
	if err != nil && n == 0 {
		return 0, statusOf(err)
	}
	file.mu.Lock()
	for h := range file.handles {
		h.made = false
	}
	to.written = true
	file.mu.Unlock()
	end := int64(in.OffOut) + n
	file.reaches(end)
	file.dropReaders()
	file.node.grew(end) // or a read would stop at the previous size
	f.outdated(file.node)
	return uint32(n), fuse.OK
}
