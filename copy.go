package usftp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/usftp/usftp/wire"
)

// copyPiece limits the bytes that one request copies: a server is silent while it copies, and 64
// MiB take a moment even on a slow disk.
const copyPiece = 64 << 20

var (
	errSameFile error = invalidError("the source and the target are the same file")
	errOverlap  error = invalidError("the ranges overlap, in the same file")
)

// CopyFile copies a file on the server. If the server offers copy-data
// (draft-ietf-secsh-filexfer-extensions-00, section 7), the data does not pass through the client.
// newname is truncated, or created with the mode of oldname if the server tells it. CopyFile
// returns how many bytes were copied. It fails if either name is a named pipe's.
//
// Copying a file onto itself never empties it. If the server says that both names lead to the same
// file the error matches [fs.ErrInvalid]; SFTP cannot tell hard links from copies with the same
// attributes, and then the file keeps its contents.
func (c *Client) CopyFile(oldname, newname string) (n int64, err error) {
	if path.Clean(oldname) == path.Clean(newname) {
		return 0, &os.LinkError{Op: "copy", Old: oldname, New: newname, Err: errSameFile}
	}
	if c.conn.OneHandle() {
		return 0, &os.LinkError{Op: "copy", Old: oldname, New: newname, Err: ErrOneHandle}
	}
	from, err := c.OpenRead(oldname) // which does not wait for the writer of a named pipe
	if err != nil {
		return 0, err
	}
	defer from.Close()
	if _, err := from.Stat(); err != nil {
		return 0, err
	}
	other, err := c.isOther(from, newname)
	if err != nil {
		return 0, err
	}
	if !other && c.samePath(oldname, newname) {
		return 0, &os.LinkError{Op: "copy", Old: oldname, New: newname, Err: errSameFile}
	}
	to, err := c.createLike(newname, from.FileStat(), other)
	if err != nil {
		return 0, err
	}
	n, err = from.CopyRange(0, -1, to, 0)
	if err == nil && !other {
		err = to.cutTo(n)
	}
	if err != nil {
		return n, cmp.Or(err, to.Abandon())
	}
	return n, to.Close()
}

// isOther reports whether the file at name is certainly not f: it does not exist or has other
// attributes. f was asked before and is asked again after it, since a file that is being written to
// differs from itself. A named pipe is an error: to open one waits for its reader.
func (c *Client) isOther(f *File, name string) (bool, error) {
	info, err := c.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, c.fatal(err)
	}
	if info.Mode()&fs.ModeNamedPipe != 0 {
		return false, &fs.PathError{Op: "copy", Path: name, Err: errNamedPipe}
	}
	before := f.FileStat()
	if _, err := f.Stat(); err != nil {
		return false, err
	}
	return !f.FileStat().differs(before) && before.differs(info.Sys().(*FileStat)), nil
}

// samePath reports whether the server resolves both names to one path.
func (c *Client) samePath(a, b string) bool {
	realA, err := c.RealPath(a)
	if err != nil {
		return false
	}
	realB, err := c.RealPath(b)
	return err == nil && realA == realB
}

// createLike opens a file for writing, and gives a new one the mode of another.
func (c *Client) createLike(name string, stat *FileStat, truncate bool) (*File, error) {
	var attrs wire.Attrs
	if stat.HasMode() {
		attrs = toMode(stat.FileMode()).Attrs
	}
	flags := wire.OpenWrite | wire.OpenCreate
	if truncate {
		flags |= wire.OpenTruncate
	}
	return run(c.ctx, NewFile(c, name).openOperation(flags, attrs))
}

// cutTo cuts a file to n bytes if it is longer. A target that might be the source is not truncated
// before the copy; if it is the source, it has this size already.
func (f *File) cutTo(n int64) error {
	if _, err := f.Stat(); err != nil {
		return err
	}
	if stat := f.FileStat(); stat.HasSize() && stat.Size <= uint64(n) {
		return nil
	}
	return f.Truncate(n)
}

// CopyRange copies length bytes at an offset of the file to an offset of another, or everything up
// to its current end if length is negative. If the server offers copy-data and both files belong to
// one client, the data does not leave the server and is copied in pieces of 64 MiB; otherwise it
// passes through the client. CopyRange returns how many bytes were copied without a gap. If the
// file ends early the error matches [io.ErrUnexpectedEOF].
//
// Ranges of the same file must not overlap. If both files are known to be the same, by their handle
// or name, the error matches [fs.ErrInvalid].
func (f *File) CopyRange(off, length int64, to *File, at int64) (int64, error) {
	if off < 0 || at < 0 {
		return 0, f.wrap("copy", fs.ErrInvalid)
	}
	source, err := f.opened("copy", wire.OpenRead)
	if err != nil {
		return 0, err
	}
	target, err := to.opened("copy", wire.OpenWrite)
	if err != nil {
		return 0, err
	}
	to.progress.Store(0)
	// Up to the end as it is now: a file that is copied beyond its own end grows as it is copied.
	toEnd, known := length < 0, length >= 0
	if toEnd {
		if length, known, err = f.rest(off); err != nil {
			return 0, err
		}
	}
	alike := source.alike(target)
	if alike && off != at && (!known || max(off, at)-min(off, at) < length) {
		same, err := f.isSame(source, to, target)
		if err != nil {
			return 0, err
		}
		if same {
			return 0, f.wrap("copy", errOverlap)
		}
	}
	// OpenSSH's server refuses copy-data within one file.
	if known && !alike && source.client.shared == target.client.shared &&
		source.client.offered(wire.ExtCopyData) {
		n, err := f.copyData(source, off, length, to, target, at)
		switch {
		case err == errUnwritten: // a WRITE shows why
			rest, err := f.copyThrough(off+n, length-n, to, at+n)
			return n + rest, err
		case n > 0 || !errors.Is(err, errors.ErrUnsupported):
			return n, err
		}
	}
	if !known {
		return f.copyThrough(off, -1, to, at)
	}
	n, err := f.copyThrough(off, length, to, at)
	if toEnd && errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // the end is where reading ends, whatever FSTAT says
	}
	return n, err
}

// rest returns the number of bytes from an offset on. known is false for files that do not tell
// their size, such as those of /proc, where it is 0.
func (f *File) rest(off int64) (length int64, known bool, err error) {
	if _, err := f.Stat(); err != nil {
		return 0, false, err
	}
	stat := f.FileStat()
	return max(int64(stat.Size)-off, 0), stat.sized() && stat.Size > 0, nil
}

// alike reports whether two openings have the same handle or name.
func (o *openFile) alike(p *openFile) bool {
	return o.client.shared == p.client.shared &&
		(bytes.Equal(o.handle.Name, p.handle.Name) || path.Clean(o.path) == path.Clean(p.path))
}

// isSame reports whether two openings that are alike are of one file, and not of two that had the
// name one after the other.
func (f *File) isSame(a *openFile, to *File, b *openFile) (bool, error) {
	if bytes.Equal(a.handle.Name, b.handle.Name) {
		return true, nil
	}
	_, errA := f.Stat()
	_, errB := to.Stat()
	return !f.FileStat().differs(to.FileStat()), cmp.Or(errA, errB)
}

// errUnwritten reports that a server said that it had copied what the target does not have.
var errUnwritten = errors.New("the server has not written all that it copied")

// copyData copies on the server.
func (f *File) copyData(source *openFile, off, length int64, to *File, target *openFile,
	at int64) (n int64, err error) {
	source.client.changed(to.Name())
	defer source.client.changed(to.Name())
	for n < length {
		piece := min(length-n, copyPiece)
		copying := start(f.ctx, source.copyData(off+n, piece, target, at+n))
		if !source.client.inOrder {
			<-copying.Done()
		}
		left, there := f.statInTurn(), to.statInTurn()
		if _, err := copying.Wait(); err != nil {
			if err == io.EOF {
				err = f.wrap("copy", io.ErrUnexpectedEOF)
			}
			return n, err
		}
		n += piece
		to.progress.Store(n)
		if copied, err := f.arrived(n, left, off, there, at); err != nil {
			return copied, err
		}
	}
	return n, nil
}

// statInTurn starts to ask for the attributes after what was asked before.
func (f *File) statInTurn() *Pending[*FileStat] {
	op := f.statOperation()
	op.call.Ordered = true
	return start(f.ctx, op)
}

// arrived checks that n bytes have been copied. OpenSSH's server reports success if the file was
// too short for the last piece, or if there was no room for it. The file counts, too: the target
// may have been long enough before.
func (f *File) arrived(n int64, left *Pending[*FileStat], off int64, there *Pending[*FileStat],
	at int64) (copied int64, err error) {
	target, err := there.Wait()
	if err != nil {
		return n, err
	}
	if stat, lost := left.Wait(); lost == nil && stat.sized() && int64(stat.Size)-off < n {
		n, err = max(int64(stat.Size)-off, 0), f.wrap("copy", io.ErrUnexpectedEOF)
	}
	if have := max(int64(target.Size)-at, 0); target.HasSize() && have < n {
		n, err = have, cmp.Or(err, errUnwritten)
	}
	return n, err
}

// copyData copies part of a file on the server, in one request.
func (o *openFile) copyData(off, length int64, to *openFile, at int64) operation[none] {
	op := o.client.command2("copy", o.path, to.path, wire.CopyData{
		FromHandle: o.handle.Name, FromOffset: uint64(off), Length: uint64(length),
		ToHandle: to.handle.Name, ToOffset: uint64(at),
	})
	op.call.Ordered = true // after the WRITEs whose data it copies
	op.orEOF = true
	return op.on(o.handle) // they are lost together
}

// copyThrough copies through the client.
func (f *File) copyThrough(off, length int64, to *File, at int64) (int64, error) {
	r := f.ReadRange(off, length)
	defer r.Close()
	// The source may have another context, and be silent.
	defer context.AfterFunc(to.ctx, func() { r.Close() })()
	n, err := to.upload("copy", at, r, &to.progress)
	if err != nil && to.ctx.Err() != nil {
		return n, to.wrap("copy", context.Cause(to.ctx))
	}
	return n, ownError(err)
}
