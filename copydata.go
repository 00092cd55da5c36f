package usftp

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/usftp/usftp/wire"
)

// copyPiece is how much one request copies at most: a server says nothing while it copies, and a
// piece of 64 MiB takes a moment even on a slow disk.
const copyPiece = 64 << 20

// CopyFile copies a file on the server, without its data passing through the client where the
// server offers copy-data (draft-ietf-secsh-filexfer-extensions-00, section 7), else through it.
// newname is truncated, or created with the mode of oldname, as far as it is known. It returns how
// many bytes were copied.
func (c *Client) CopyFile(oldname, newname string) (n int64, err error) {
	from, err := c.Open(oldname)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	if _, err := from.Stat(); err != nil {
		return 0, err
	}
	to, err := c.createLike(newname, from.FileStat())
	if err != nil {
		return 0, err
	}
	n, err = from.CopyRange(0, -1, to, 0)
	return n, errors.Join(err, to.Close())
}

// createLike opens a file for writing, with a mode for the case that it does not exist.
func (c *Client) createLike(name string, stat *FileStat) (*File, error) {
	var attrs wire.Attrs
	if stat.HasMode() {
		attrs = toMode(stat.FileMode()).Attrs
	}
	f := NewFile(c, name)
	return run(c.ctx, f.openOperation(wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate, attrs))
}

// CopyRange copies length bytes at an offset of the file to an offset of another, or all to its end
// where length is below 0. Where the server offers copy-data and both files belong to one client,
// the data does not leave the server, and travels in pieces of 64 MiB; else it passes through the
// client. It returns how many bytes were copied, from the beginning and without a gap. A file that
// ends before is an error for which errors.Is(err, io.ErrUnexpectedEOF) holds.
func (f *File) CopyRange(off, length int64, to *File, at int64) (int64, error) {
	if off < 0 || at < 0 {
		return 0, f.wrap("copy", fs.ErrInvalid)
	}
	source, err := f.opened("copy")
	if err != nil {
		return 0, err
	}
	target, err := to.opened("copy")
	if err != nil {
		return 0, err
	}
	to.progress.Store(0)
	if err := errors.Join(f.flushBehind(), to.flushBehind()); err != nil {
		return 0, err
	}
	if source.client == target.client && source.client.offered(wire.ExtCopyData) {
		n, err := f.copyData(source, off, length, to, target, at)
		if n > 0 || !errors.Is(err, errors.ErrUnsupported) {
			return n, err
		}
	}
	return f.copyThrough(off, length, to, at)
}

// copyData copies on the server.
func (f *File) copyData(source *openFile, off, length int64, to *File, target *openFile,
	at int64) (n int64, err error) {
	if length < 0 {
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		if !info.Sys().(*FileStat).HasSize() {
			return 0, f.wrap("copy", errNoSize)
		}
		length = max(info.Size()-off, 0)
	}
	s := source.client
	s.changed(to.Name())
	defer s.changed(to.Name())
	for n < length {
		piece := min(length-n, copyPiece)
		message := wire.CopyData{
			FromHandle: source.handle, FromOffset: uint64(off + n), Length: uint64(piece),
			ToHandle: target.handle, ToOffset: uint64(at + n),
		}
		op := s.command2("copy", source.path, target.path, message)
		op.call.Ordered = true // behind the WRITEs whose data it copies
		op.orEOF = true
		if _, err := run(f.ctx, op); err != nil {
			if err == io.EOF {
				err = f.wrap("copy", io.ErrUnexpectedEOF)
			}
			return n, err
		}
		n += piece
		to.progress.Store(n)
	}
	// OpenSSH's server answers well to a last piece that the file was too short for: what counts is
	// what is there.
	info, err := to.Stat()
	if err == nil && info.Sys().(*FileStat).HasSize() && info.Size() < at+n {
		n = max(info.Size()-at, 0)
		err = f.wrap("copy", io.ErrUnexpectedEOF)
	}
	return n, err
}

// copyThrough copies through the client.
func (f *File) copyThrough(off, length int64, to *File, at int64) (int64, error) {
	r := f.ReadRange(off, length)
	defer r.Close()
	// the source may have another context, and be silent
	defer context.AfterFunc(to.ctx, func() { r.Close() })()
	n, err := to.upload("copy", at, r, to.progress.Store)
	var source *sinkError
	switch {
	case err != nil && to.ctx.Err() != nil:
		err = to.wrap("copy", context.Cause(to.ctx))
	case errors.As(err, &source):
		err = source.error
	}
	return n, err
}
