package server

import (
	"context"
	"io"
	"io/fs"

	"github.com/usftp/usftp/wire"
)

// ViewFile is an open file as a view allows it: each method asks the policy, and there is no way
// around it to the backend's file. Its methods may be called concurrently; Close comes last.
type ViewFile struct {
	view   *View
	ctx    context.Context
	name   string
	file   File
	reader io.ReaderAt
	writer io.WriterAt
}

// Open opens a file as [Opener] has it. The context is that of what is done with the file later,
// too. It fails with errors.ErrUnsupported where the backend's file cannot be read or written as
// flags want it.
func (v *View) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (*ViewFile, error) {
	flags = openFlags(flags)
	file, err := v.open(ctx, name, flags, attrs)
	if err != nil {
		return nil, err
	}
	f := &ViewFile{view: v, ctx: ctx, name: name, file: file}
	ok := true
	if flags&wire.OpenRead != 0 {
		f.reader, ok = file.(io.ReaderAt)
	}
	if flags&wire.OpenWrite != 0 && ok {
		f.writer, ok = file.(io.WriterAt)
	}
	if !ok {
		file.Close()
		return nil, errUnsupported
	}
	return f, nil
}

// Create opens a file that is to be written from its beginning, or makes it. What it holds stays
// until it is overwritten: it may be just what the client is reading, under another name or on
// another host, and would be lost if it were cut first. Truncate cuts what is left in the end. Only
// where the backend cannot do that is the file emptied here.
func (v *View) Create(ctx context.Context, name string, attrs wire.Attrs) (*ViewFile, error) {
	flags := uint32(wire.OpenWrite | wire.OpenCreate)
	if _, ok := v.fs.(Setstater); !ok {
		flags |= wire.OpenTruncate
	}
	return v.Open(ctx, name, flags, attrs)
}

// ReadAt implements io.ReaderAt.
func (f *ViewFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.view.permit(opRead); err != nil {
		return 0, err
	}
	if f.reader == nil {
		return 0, errBadHandle
	}
	return f.reader.ReadAt(p, offset)
}

// WriteAt implements io.WriterAt.
func (f *ViewFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.view.permit(opWrite); err != nil {
		return 0, err
	}
	if f.writer == nil {
		return 0, errBadHandle
	}
	return f.writer.WriteAt(p, offset)
}

// Stat describes the open file: its name may have another by now.
func (f *ViewFile) Stat() (fs.FileInfo, error) {
	if err := f.view.permit(opFstat); err != nil {
		return nil, err
	}
	return f.view.statOpen(f.ctx, f.file, f.name)
}

// Setstat changes attributes. It needs the right to do so by handle and by path.
func (f *ViewFile) Setstat(attrs wire.Attrs) error {
	for _, o := range []operation{opSetstat, opFsetstat} {
		if err := f.view.permit(o); err != nil {
			return err
		}
	}
	return f.view.changed(f.setstat(attrs), opFsetstat, f.name, "", &attrs)
}

// Truncate cuts what is behind size, as opening the file with wire.OpenTruncate would have; who may
// write may do that.
func (f *ViewFile) Truncate(size int64) error {
	if err := f.view.permit(opWrite); err != nil {
		return err
	}
	info, err := f.view.statOpen(f.ctx, f.file, f.name)
	if err == nil && info.Size() <= size {
		return nil
	}
	return f.setstat(wire.Attrs{Flags: wire.AttrSize, Size: uint64(size)})
}

func (f *ViewFile) setstat(attrs wire.Attrs) error {
	if setstater, ok := f.file.(FileSetstater); ok {
		return setstater.Setstat(attrs)
	}
	return f.view.setstat(f.ctx, f.name, attrs)
}

// Close closes the file, and returns what the backend says.
func (f *ViewFile) Close() error { return f.file.Close() }
