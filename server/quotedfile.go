package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/usftp/usftp/wire"
)

// quotedFile is a File under a quota. It has every method that a File may have.
type quotedFile struct {
	wrappedFile
	ctx    context.Context // of the session
	v      *View
	f      *quotaFile
	name   string
	append bool
	once   sync.Once
}

// reserve reserves space for length bytes at offset or, for a file opened for appending, at the end
// of all reservations. A range that several handles write to is reserved once. When the write has
// ended, written must be called with the same offset and length.
func (f *quotedFile) reserve(offset, length int64) error {
	f.f.mu.Lock()
	defer f.f.mu.Unlock()
	end := offset + length
	if f.append {
		end = f.f.size + length
	}
	if growth := end - f.f.size; growth > 0 {
		if err := f.v.quota.account.Reserve(f.ctx, growth, 0); err != nil {
			return err
		}
		f.f.resized(f.v.quota, end)
	}
	if f.append {
		f.f.appended += length
	} else {
		f.f.ends = append(f.f.ends, end)
	}
	return nil
}

func (f *quotedFile) written(offset, length int64) {
	f.f.mu.Lock()
	defer f.f.mu.Unlock()
	if f.append {
		f.f.appended -= length
	} else if i := slices.Index(f.f.ends, offset+length); i >= 0 {
		f.f.ends = slices.Delete(f.f.ends, i, i+1)
	}
}

// WriteAt keeps the reservation if a write fails: the amount written is unknown until Close.
func (f *quotedFile) WriteAt(p []byte, offset int64) (int, error) {
	writer, ok := f.File.(io.WriterAt)
	if !ok {
		return 0, errUnsupported
	}
	if err := f.reserve(offset, int64(len(p))); err != nil {
		return 0, err
	}
	defer f.written(offset, int64(len(p)))
	return writer.WriteAt(p, offset)
}

func (f *quotedFile) CopyFrom(ctx context.Context, source File, from, length,
	to int64) (int64, error) {
	copier, ok := f.File.(FileCopier)
	if !ok || f.append { // its writes reserve what they append
		return 0, errors.ErrUnsupported
	}
	if quoted, ok := source.(*quotedFile); ok {
		source = quoted.File
	}
	stater, ok := source.(FileStater)
	if !ok {
		return 0, errors.ErrUnsupported // the session copies piece by piece
	}
	info, err := stater.Stat()
	if err != nil {
		return 0, err
	}
	length = min(length, max(0, info.Size()-from))
	if err := f.reserve(to, length); err != nil {
		return 0, err
	}
	defer f.written(to, length)
	return copier.CopyFrom(ctx, source, from, length, to)
}

func (f *quotedFile) Setstat(attrs wire.Attrs) error {
	setstater, ok := f.File.(FileSetstater)
	if !ok {
		return errUnsupported
	}
	if !attrs.Has(wire.AttrSize) {
		return setstater.Setstat(attrs)
	}
	f.f.mu.Lock()
	defer f.f.mu.Unlock()
	set := func() error { return setstater.Setstat(attrs) }
	return f.v.quota.resize(f.ctx, f.f, attrs.Size, set, f.Stat)
}

// Close corrects the count to the file's actual size, if the backend can report it.
func (f *quotedFile) Close() error { return f.end(Closed) }

// end ends a handle, and with the last one corrects the count.
func (f *quotedFile) end(how Ending) (err error) {
	again := true
	f.once.Do(func() {
		again = false
		err = f.endOnce(how)
	})
	if again {
		return end(f.File, how)
	}
	return err
}

func (f *quotedFile) endOnce(how Ending) (err error) {
	q, file := f.v.quota, f.f
	if file.tally != nil {
		return f.endCounted(how)
	}
	defer q.files.leave(file)
	var at grip // the file that it may replace
	release := file.mu.Unlock
	ender, ends := f.File.(FileEnder)
	if ends {
		var grips []grip
		look := func(string) (fs.FileInfo, error) { return ender.Replaces() }
		grips, release = q.grip(look, file, f.name)
		at = grips[0]
	} else {
		file.mu.Lock()
	}
	defer func() { release() }()
	info, statErr := f.Stat()
	if !ends {
		err = end(f.File, how)
	} else {
		var gone fs.FileInfo
		gone, err = ender.End(how)
		switch {
		case gone == nil:
		case statErr == nil && identityOf(gone, f.name) != identityOf(info, f.name):
			f.replaced(gone, &at)
		case !file.unlinked:
			q.gone(&grip{info: gone, file: file})
		}
	}
	if file.handles--; file.handles > 0 {
		return err
	}
	now := file.size
	switch name, named := q.files.keyOf(file).(string); {
	case file.unlinked:
		now = 0
	case named:
		now = f.kept(name)
	case statErr == nil && info.Mode().IsRegular():
		now = info.Size()
	}
	q.account.Settle(now-file.size, 0)
	file.size = now
	return err
}

// replaced subtracts the file whose name this one took over. at is the file there before.
func (f *quotedFile) replaced(gone fs.FileInfo, at *grip) {
	q := f.v.quota
	if at.file != nil && identityOf(gone, f.name) == q.files.keyOf(at.file) {
		q.gone(at)
	} else { // a link, or a file that another program has just put there
		q.account.Settle(0, -1)
	}
}

// kept returns the size of a file that is known by its name, after its last handle has ended. It
// may have appeared only now, and an abandoned file may be kept wholly, in part or not at all.
func (f *quotedFile) kept(name string) int64 {
	info, err := lastLook(WithBeneath(f.ctx, ""), name, f.v.fs.Stat)
	switch {
	case err == nil:
		return info.Size()
	case errors.Is(err, fs.ErrNotExist):
		f.v.quota.account.Settle(0, -1)
		f.f.unlinked = true // others may have seen it before they waited for it
		f.v.quota.files.unlink(f.f)
		return 0
	}
	return f.f.size
}
