package usftp

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/wire"
)

// File is a remote file, open or closed. [Client.Open] and its like return one that is open;
// [Client.ReadDir] returns closed ones that carry their attributes, and [NewFile] makes one of a
// name. A closed File can be opened, and an open one closed, any number of times.
//
// Its methods may be called from any number of goroutines. Those that use the file's offset (Read,
// Write, Seek, ReadFrom, WriteTo) take turns; ReadAt and WriteAt run side by side.
//
// A File keeps the attributes that it has heard of last. The accessors (Size, Mode, ModTime, IsDir,
// ...) tell what is kept and never ask the server; [File.Stat] always asks.
type File struct {
	*fileState
	ctx context.Context
}

// fileState is what all views of a file share.
type fileState struct {
	turn   sync.Mutex // held by those who use the offset
	offset int64      // guarded by turn
	// where the last Read ended, 0 where another would not be sequential; guarded by turn
	readEnd int64
	// bytes that the last Reads have read one after the other; guarded by turn
	readRun  int64
	asked    *openFile    // the opening for which a Read has asked for attributes; guarded by turn
	waited   atomic.Int64 // of all transfers, nanoseconds
	progress atomic.Int64 // of the transfer under way or the last
	writing  atomic.Pointer[behind]

	mu     sync.Mutex
	client *session
	path   string
	open   *openFile // nil when closed
	attrs  FileStat  // what was heard of the file last
	cached bool      // whether attrs was heard at all
	stash  any

	reading *prefetch // what is being read ahead
}

// openFile is one opening of a file; it never changes.
type openFile struct {
	client *session
	path   string // by which it was opened
	handle []byte
	flags  uint32          // of OPEN
	closed context.Context // done when this opening is closed
	shut   context.CancelCauseFunc
}

// NewFile returns a closed File for a name on the server, which need not exist. It asks nothing.
func NewFile(client *Client, name string) *File {
	return &File{&fileState{client: client.session, path: name}, client.ctx}
}

// WithContext returns a view of the file whose calls end when ctx is done, with ctx's cause. All
// else, the offset too, is shared.
func (f *File) WithContext(ctx context.Context) *File { return &File{f.fileState, ctx} }

// Client returns the client that the file belongs to, with the file's context.
func (f *File) Client() *Client { return &Client{f.session(), f.ctx} }

func (f *File) session() *session {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.client
}

// SetClient has a closed file belong to another client, to go on after the first has lost its
// connection. On an open file the error is one for which errors.Is(err, fs.ErrInvalid) holds.
func (f *File) SetClient(client *Client) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		return &fs.PathError{Op: "setclient", Path: f.path, Err: errIsOpen}
	}
	f.client = client.session
	return nil
}

// errIsOpen is why a file cannot be opened again, or be given another client.
var errIsOpen error = invalidError("the file is open")

// Name returns the path that the file was opened or listed by: a listed file's begins with the
// directory's.
func (f *File) Name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.path
}

// BaseName returns the last element of the path.
func (f *File) BaseName() string { return path.Base(f.Name()) }

// Stash returns what [File.SetStash] has put there, nil before.
func (f *File) Stash() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stash
}

// SetStash keeps a value of the caller's on the file. Nothing is done with it; all views of the
// file share it.
func (f *File) SetStash(value any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stash = value
}

// IsOpen tells whether the file is open.
func (f *File) IsOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open != nil
}

// opened returns the file's opening, once all that was written behind is acknowledged. Everything
// that uses the handle begins here, or is an operation that [run] settles; exempt are the
// asynchronous forms, Close and writing behind itself.
func (f *File) opened(op string) (*openFile, error) {
	open, err := f.opening(op)
	if err == nil {
		err = f.flushBehind()
	}
	return open, err
}

// opening is opened without the wait for what was written behind.
func (f *File) opening(op string) (*openFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		return nil, &fs.PathError{Op: op, Path: f.path, Err: fs.ErrClosed}
	}
	return f.open, nil
}

// onHandle makes an operation about the open file; on a closed one it fails. [run] settles what was
// written behind first.
func onHandle[T any](f *File, op string, make func(*openFile) operation[T]) operation[T] {
	open, err := f.opening(op)
	if err != nil {
		return operation[T]{name: op, path: f.Name(), err: fs.ErrClosed}
	}
	return make(open).after(f)
}

// Stat asks the server for the file's attributes, by FSTAT where the file is open and by STAT where
// it is not or where the server refuses FSTAT, and keeps them. One round trip.
func (f *File) Stat() (fs.FileInfo, error) {
	stat, err := run(f.ctx, f.statOperation())
	if err != nil {
		return nil, err
	}
	return fileInfo{f.BaseName(), stat}, nil
}

// statOperation asks for the attributes and keeps them.
func (f *File) statOperation() operation[*FileStat] {
	f.mu.Lock()
	s, open, name := f.client, f.open, f.path
	f.mu.Unlock()
	byPath := func() operation[*FileStat] {
		return ask(s, "stat", name, wire.TypeAttrs,
			wire.PathRequest{Type: wire.TypeStat, Path: name}, f.keepAttrs)
	}
	if open == nil || s.noFstat.Load() {
		return byPath().after(f)
	}
	op := ask(s, "stat", name, wire.TypeAttrs,
		wire.HandleRequest{Type: wire.TypeFstat, Handle: open.handle}, f.keepAttrs)
	op.instead = func(refusal error) *operation[*FileStat] {
		if !errors.Is(refusal, errors.ErrUnsupported) {
			return nil
		}
		s.differs(&s.noFstat, "it does not serve FSTAT; STAT is used instead")
		next := byPath()
		return &next
	}
	return op.after(f)
}

// Remove removes the file by its name, open or not. One round trip.
func (f *File) Remove() error {
	_, err := run(f.ctx, f.session().remove(f.Name()))
	return err
}

// Rename gives the file a new name, as [Client.Rename], which Name returns from then on.
func (f *File) Rename(newname string) error {
	_, err := run(f.ctx, f.session().rename(f.Name(), newname).after(f))
	return f.renamed(newname, err)
}

// PosixRename gives the file a new name, as [Client.PosixRename], which Name returns from then on.
func (f *File) PosixRename(newname string) error {
	_, err := run(f.ctx, f.session().posixRename(f.Name(), newname).after(f))
	return f.renamed(newname, err)
}

func (f *File) renamed(newname string, err error) error {
	if err == nil {
		f.mu.Lock()
		f.path = newname
		f.mu.Unlock()
		f.dropAhead() // it is known by the old name
	}
	return err
}

// Chmod sets the file's permissions. One round trip.
func (f *File) Chmod(mode fs.FileMode) error { return f.change("chmod", toMode(mode)) }

// Chown sets the numbers of the file's owner and group, as [Client.Chown]. One round trip.
func (f *File) Chown(uid, gid int) error { return f.change("chown", toOwner(uid, gid)) }

// Chtimes sets the file's times, as [Client.Chtimes] does. One round trip.
func (f *File) Chtimes(atime, mtime time.Time) error {
	return f.change("chtimes", toTimes(atime, mtime))
}

// Truncate sets the file's size; what is added reads as zeros. The offset stays. One round trip.
func (f *File) Truncate(size int64) error {
	f.session().changed(f.Name())
	defer f.session().changed(f.Name())
	return f.change("truncate", toSize(size))
}

// SetExtendedData sets attributes that the protocol does not define. The path is not used: the file
// is known by its handle. One round trip.
func (f *File) SetExtendedData(_ string, extended []StatExtended) error {
	return f.change("setstat", toExtended(extended))
}

func (f *File) change(op string, to change) error {
	_, err := run(f.ctx, f.fsetstat(op, to))
	return err
}

// fsetstat changes attributes by handle (draft-02, section 6.9).
func (f *File) fsetstat(op string, to change) operation[none] {
	return onHandle(f, op, func(open *openFile) operation[none] {
		if to.err != nil {
			return operation[none]{name: op, path: open.path, err: to.err}
		}
		command := open.client.command(op, f.Name(),
			wire.Fsetstat{Handle: open.handle, Attrs: to.Attrs})
		command.call.Ordered = true // behind the WRITEs of a transfer that was given up
		return command
	})
}

// Sync has the server write the file to its disk (fsync@openssh.com; OpenSSH's PROTOCOL, section
// 4.6). Without that extension the error is one for which errors.Is(err, errors.ErrUnsupported)
// holds. One round trip, which may be slow.
func (f *File) Sync() error {
	_, err := run(f.ctx, f.sync())
	return err
}

func (f *File) sync() operation[none] {
	return onHandle(f, "sync", func(open *openFile) operation[none] {
		op := open.client.command("sync", f.Name(),
			wire.ExtendedHandle{Name: wire.ExtFsync, Handle: open.handle})
		if op.call != nil {
			op.call.Ordered = true // behind the WRITEs that it is to make safe
		}
		return op.needs(wire.ExtFsync)
	})
}
