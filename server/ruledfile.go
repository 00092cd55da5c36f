package server

import (
	"context"
	"errors"
	"io"
	"math"
	"reflect"
	"sync"

	"github.com/usftp/usftp/wire"
)

// ErrTooLarge refuses requests that would make a file larger than [Policy].MaxFileSize.
var ErrTooLarge = &StatusError{Code: wire.Failure,
	Message: "the file would be larger than the server accepts"}

// ruledFile is a File with the rules of its view: it enforces the view's limits, and the handle's
// owner asks permitOn which operations are allowed. It has every method that a File may have.
type ruledFile struct {
	wrappedFile
	v      *View
	append bool
	most   int64   // the size that the file may have, or 0
	growth *growth // unless nothing is written, or a file within sees to most
	ended  sync.Once
}

// ruled returns a file with the view's rules, if it has any that a session does not enforce.
func (v *View) ruled(file File, name string, flags uint32) File {
	if file == nil || !v.inner && v.maxFileSize == 0 {
		return file
	}
	f := &ruledFile{wrappedFile: wrappedFile{file}, v: v, append: flags&wire.OpenAppend != 0,
		most: v.maxFileSize}
	switch within := limitedWithin(file); {
	case f.most == 0 || flags&wire.OpenWrite == 0:
	case within != nil:
		within.most = min(within.most, f.most)
	default:
		if info, err := f.Stat(); err == nil {
			f.growth = growths.use(identityOf(info, name))
		}
	}
	return f
}

// limitedWithin returns the file within that has a limit of its own, if any.
func limitedWithin(file File) *ruledFile {
	for ok := true; ok; file, ok = unwrap(file) {
		if f, ruled := file.(*ruledFile); ruled && f.growth != nil {
			return f
		}
	}
	return nil
}

// fits returns an error if a file may not have that size.
func (v *View) fits(size uint64) error {
	if v.maxFileSize > 0 && size > uint64(v.maxFileSize) {
		return ErrTooLarge
	}
	return nil
}

// begin begins a write of length bytes at offset, unless it would make the file too large. The size
// at which an appending one begins stays the same until its end.
func (f *ruledFile) begin(offset, length int64) (end func(), err error) {
	end = f.growth.enter(f.append)
	try(func() bool {
		err = f.fits(offset, length)
		return err == nil
	}, end)
	return end, err
}

// fits returns an error if length bytes at offset would make the file too large.
func (f *ruledFile) fits(offset, length int64) error {
	if f.most > 0 && f.append {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		offset = info.Size()
	}
	if offset > math.MaxInt64-length {
		return ErrTooLarge
	}
	if f.most > 0 && offset+length > f.most {
		return ErrTooLarge
	}
	return nil
}

func (f *ruledFile) WriteAt(p []byte, offset int64) (int, error) {
	writer, ok := f.File.(io.WriterAt)
	if !ok {
		return 0, errUnsupported
	}
	end, err := f.begin(offset, int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer end()
	return writer.WriteAt(p, offset)
}

func (f *ruledFile) CopyFrom(ctx context.Context, source File, from, length,
	to int64) (int64, error) {
	copier, ok := f.File.(FileCopier)
	other, ruled := source.(*ruledFile)
	if !ok || !ruled || !sameFS(other.v.fs, f.v.fs) {
		return 0, errors.ErrUnsupported // the session reads and writes
	}
	if f.most > 0 { // the bytes that exist, not those requested, must fit
		info, err := other.Stat()
		if err != nil {
			return 0, errors.ErrUnsupported
		}
		length = min(length, max(0, info.Size()-from))
	}
	end, err := f.begin(to, length)
	if err != nil {
		return 0, err
	}
	defer end()
	return copier.CopyFrom(ctx, other.File, from, length, to)
}

// sameFS reports whether two backends are the same. Incomparable ones are not.
func sameFS(a, b FS) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

func (f *ruledFile) Setstat(attrs wire.Attrs) error {
	setstater, ok := f.File.(FileSetstater)
	if !ok {
		return errUnsupported
	}
	if attrs.Has(wire.AttrSize) {
		if f.most > 0 && attrs.Size > uint64(f.most) {
			return ErrTooLarge
		}
		defer f.growth.enter(false)()
	}
	return setstater.Setstat(attrs)
}

func (f *ruledFile) StatVFS() (wire.StatVFSReply, error) {
	reply, err := f.wrappedFile.StatVFS()
	return f.v.limitStatVFS(reply), err
}

// Close implements io.Closer.
func (f *ruledFile) Close() error { return f.end(Closed) }

// Abandon implements [FileAbandoner].
func (f *ruledFile) Abandon() error { return f.end(Abandoned) }

// Discard implements [FileDiscarder].
func (f *ruledFile) Discard() error { return f.end(Discarded) }

func (f *ruledFile) end(how Ending) error {
	f.ended.Do(f.growth.leave)
	return end(f.File, how)
}

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
