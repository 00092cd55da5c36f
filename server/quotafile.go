package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/usftp/usftp/wire"
)

// quotaFile is a file that is open, by however many handles and names.
type quotaFile struct {
	key      any // in Quota.open
	size     int64
	handles  int
	unlinked bool // its last name is gone
}

// opened notes that a file has been opened, for which so many bytes have been counted; the caller
// holds the lock.
func (q *Quota) opened(file File, info fs.FileInfo, name string, charged int64, flags uint32) File {
	size := int64(0)
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	key := identityOf(info, name)
	f := q.open[key]
	switch {
	case f == nil:
		q.add(size-charged, 0) // opening it may have cut it short
		f = &quotaFile{key: key, size: size}
		q.open[key] = f
	case flags&wire.OpenTruncate != 0:
		q.add(size-f.size, 0)
		f.size = size
	}
	f.handles++
	return &quotedFile{File: file, q: q, f: f, append: flags&wire.OpenAppend != 0}
}

// quotedFile is a File under a quota. It has a method for all that a File can do.
type quotedFile struct {
	File
	q      *Quota
	f      *quotaFile
	append bool
	once   sync.Once
}

func (f *quotedFile) ReadAt(p []byte, offset int64) (int, error) {
	if reader, ok := f.File.(io.ReaderAt); ok {
		return reader.ReadAt(p, offset)
	}
	return 0, errUnsupported
}

// reserve asks for the room for length bytes at offset, which for a file that is appended to is the
// end of what all have asked for. Room that several write to is asked for once.
func (f *quotedFile) reserve(offset, length int64) error {
	f.q.mu.Lock()
	defer f.q.mu.Unlock()
	if f.append {
		offset = f.f.size
	}
	growth := offset + length - f.f.size
	if growth <= 0 {
		return nil
	}
	if err := f.q.take(growth, 0); err != nil {
		return err
	}
	f.f.size += growth
	return nil
}

// WriteAt keeps what was asked for when a write fails: how far it came is not known, and closing
// tells.
func (f *quotedFile) WriteAt(p []byte, offset int64) (int, error) {
	writer, ok := f.File.(io.WriterAt)
	if !ok {
		return 0, errUnsupported
	}
	if err := f.reserve(offset, int64(len(p))); err != nil {
		return 0, err
	}
	return writer.WriteAt(p, offset)
}

func (f *quotedFile) CopyFrom(ctx context.Context, source File, from, length,
	to int64) (int64, error) {
	copier, ok := f.File.(FileCopier)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if quoted, ok := source.(*quotedFile); ok {
		source = quoted.File
	}
	stater, ok := source.(FileStater)
	if !ok {
		return 0, errors.ErrUnsupported // written piece by piece, each is asked for
	}
	info, err := stater.Stat()
	if err != nil {
		return 0, err
	}
	length = min(length, max(0, info.Size()-from))
	if err := f.reserve(to, length); err != nil {
		return 0, err
	}
	return copier.CopyFrom(ctx, source, from, length, to)
}

func (f *quotedFile) Stat() (fs.FileInfo, error) {
	if stater, ok := f.File.(FileStater); ok {
		return stater.Stat()
	}
	return nil, errUnsupported
}

func (f *quotedFile) Setstat(attrs wire.Attrs) error {
	setstater, ok := f.File.(FileSetstater)
	if !ok {
		return errUnsupported
	}
	if !attrs.Has(wire.AttrSize) {
		return setstater.Setstat(attrs)
	}
	f.q.mu.Lock()
	defer f.q.mu.Unlock()
	return f.q.resize(f.f, attrs.Size, func() error { return setstater.Setstat(attrs) }, f.Stat)
}

func (f *quotedFile) Sync() error {
	if syncer, ok := f.File.(FileSyncer); ok {
		return syncer.Sync()
	}
	return errUnsupported
}

func (f *quotedFile) StatVFS() (wire.StatVFSReply, error) {
	if stater, ok := f.File.(FileStatVFSer); ok {
		return stater.StatVFS()
	}
	return wire.StatVFSReply{}, errUnsupported
}

// Close corrects what was counted by what the file is, where that can be told.
func (f *quotedFile) Close() error {
	info, statErr := f.Stat()
	err := f.File.Close()
	f.once.Do(func() {
		f.q.mu.Lock()
		defer f.q.mu.Unlock()
		if f.f.handles--; f.f.handles > 0 {
			return
		}
		delete(f.q.open, f.f.key)
		switch {
		case f.f.unlinked:
			f.q.add(-f.f.size, 0)
		case statErr == nil && info.Mode().IsRegular():
			f.q.add(info.Size()-f.f.size, 0)
		}
	})
	return err
}
