package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"reflect"

	"github.com/usftp/usftp/wire"
)

// ErrTooLarge refuses requests that would make a file larger than [Policy].MaxFileSize.
var ErrTooLarge = &StatusError{Code: wire.Failure,
	Message: "the file would be larger than the server accepts"}

// ruledFile is a File with the rules of its view: it enforces the view's limits, and the handle's
// owner asks permitOn which operations are allowed. It has every method that a File may have.
type ruledFile struct {
	File
	v      *View
	append bool
}

// ruled returns a file with the view's rules, if it has any that a session does not enforce.
func (v *View) ruled(file File, flags uint32) File {
	if file == nil || !v.inner && v.maxFileSize == 0 {
		return file
	}
	return &ruledFile{File: file, v: v, append: flags&wire.OpenAppend != 0}
}

// fits returns an error if a file may not have that size.
func (v *View) fits(size uint64) error {
	if v.maxFileSize > 0 && size > uint64(v.maxFileSize) {
		return ErrTooLarge
	}
	return nil
}

// fits returns an error if length bytes at offset would make the file too large.
func (f *ruledFile) fits(offset, length int64) error {
	if f.v.maxFileSize > 0 && f.append {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		offset = info.Size()
	}
	if offset > math.MaxInt64-length {
		return ErrTooLarge
	}
	return f.v.fits(uint64(offset + length))
}

func (f *ruledFile) ReadAt(p []byte, offset int64) (int, error) {
	if reader, ok := f.File.(io.ReaderAt); ok {
		return reader.ReadAt(p, offset)
	}
	return 0, errUnsupported
}

func (f *ruledFile) WriteAt(p []byte, offset int64) (int, error) {
	writer, ok := f.File.(io.WriterAt)
	if !ok {
		return 0, errUnsupported
	}
	if err := f.fits(offset, int64(len(p))); err != nil {
		return 0, err
	}
	return writer.WriteAt(p, offset)
}

func (f *ruledFile) CopyFrom(ctx context.Context, source File, from, length,
	to int64) (int64, error) {
	copier, ok := f.File.(FileCopier)
	other, ruled := source.(*ruledFile)
	if !ok || !ruled || !sameFS(other.v.fs, f.v.fs) {
		return 0, errors.ErrUnsupported // the session reads and writes
	}
	if f.v.maxFileSize > 0 { // the bytes that exist, not those requested, must fit
		info, err := other.Stat()
		if err != nil {
			return 0, errors.ErrUnsupported
		}
		length = min(length, max(0, info.Size()-from))
	}
	if err := f.fits(to, length); err != nil {
		return 0, err
	}
	return copier.CopyFrom(ctx, other.File, from, length, to)
}

// sameFS reports whether two backends are the same. Incomparable ones are not.
func sameFS(a, b FS) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

func (f *ruledFile) Stat() (fs.FileInfo, error) {
	if stater, ok := f.File.(FileStater); ok {
		return stater.Stat()
	}
	return nil, errUnsupported
}

func (f *ruledFile) Setstat(attrs wire.Attrs) error {
	setstater, ok := f.File.(FileSetstater)
	if !ok {
		return errUnsupported
	}
	if attrs.Has(wire.AttrSize) {
		if err := f.v.fits(attrs.Size); err != nil {
			return err
		}
	}
	return setstater.Setstat(attrs)
}

func (f *ruledFile) Hash(algorithm string, offset, length int64) ([]byte, error) {
	if hasher, ok := f.File.(FileHasher); ok {
		return hasher.Hash(algorithm, offset, length)
	}
	return nil, errors.ErrUnsupported
}

func (f *ruledFile) Sync() error {
	if syncer, ok := f.File.(FileSyncer); ok {
		return syncer.Sync()
	}
	return errUnsupported
}

func (f *ruledFile) StatVFS() (reply wire.StatVFSReply, err error) {
	stater, ok := f.File.(FileStatVFSer)
	if !ok {
		return reply, errUnsupported
	}
	reply, err = stater.StatVFS()
	return f.v.limitStatVFS(reply), err
}

// Abandon implements [FileAbandoner].
func (f *ruledFile) Abandon() error { return end(f.File, Abandoned) }

// Discard implements [FileDiscarder].
func (f *ruledFile) Discard() error { return end(f.File, Discarded) }

// permitOn returns an error if the rules of an open file, which may be in a part of the view with
// rules of its own, forbid an operation on its handle.
func permitOn(file File, o operation, more effect) error {
	for ruled, ok := file.(*ruledFile); ok; ruled, ok = ruled.File.(*ruledFile) {
		if err := ruled.v.permitTo(o, more); err != nil {
			return err
		}
	}
	return nil
}

// permitCopyFrom permits, or denies, the source of copy-data, which is only read.
func permitCopyFrom(file File) error {
	for ruled, ok := file.(*ruledFile); ok; ruled, ok = ruled.File.(*ruledFile) {
		if ruled.v.forbidden.has(opCopyData) || ruled.v.withheld&readsContents != 0 {
			return errForbidden
		}
	}
	return nil
}
