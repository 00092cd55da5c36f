package usftp

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// File is a remote file. Its methods may be called from any number of goroutines. Those that use the file's offset (Read, Write, Seek,
// ReadFrom, WriteTo) take turns; ReadAt and WriteAt run side by side.
type File struct {
	*fileState
	ctx context.Context
}

// fileState is what all views of a file share.
type fileState struct {
	client *session
	path   string
	flags  uint32          // of OPEN
	closed context.Context // done when the file is closed
	shut   context.CancelCauseFunc

	turn     sync.Mutex   // held by those who use the offset
	offset   int64        // guarded by turn
	progress atomic.Int64 // of the transfer under way or the last

	mu     sync.Mutex
	handle []byte    // nil when closed; it is never changed in place
	stat   *FileStat // what was heard of the file last; nil before
}

// Open opens a file for reading. One round trip.
func (c *Client) Open(name string) (*File, error) {
	return c.OpenFile(name, os.O_RDONLY, 0)
}

// Create opens a file for reading and writing, truncated to nothing or created with the permissions that the server gives new files. On
// a server that refuses to open for both it opens for writing only. One round trip.
func (c *Client) Create(name string) (*File, error) {
	return run(c.ctx, c.session, c.openOperation(c.ctx, name, wire.OpenRead|wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate, wire.Attrs{}))
}

// OpenFile opens a file with the flags of package os. perm travels only with O_CREATE, and the server applies its umask. O_SYNC is
// an error for which errors.Is(err, errors.ErrUnsupported) holds. One round trip.
func (c *Client) OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	flags, err := openFlags(flag)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var attrs wire.Attrs
	if flag&os.O_CREATE != 0 {
		attrs = wire.Attrs{Flags: wire.AttrPermissions, Permissions: wire.PermissionBits(perm)}
	}
	return run(c.ctx, c.session, c.openOperation(c.ctx, name, flags, attrs))
}

func openFlags(flag int) (flags uint32, err error) {
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_RDONLY:
		flags = wire.OpenRead
	case os.O_WRONLY:
		flags = wire.OpenWrite
	case os.O_RDWR:
		flags = wire.OpenRead | wire.OpenWrite
	default:
		return 0, fs.ErrInvalid
	}
	for _, f := range []struct {
		os   int
		wire uint32
	}{{os.O_APPEND, wire.OpenAppend}, {os.O_CREATE, wire.OpenCreate}, {os.O_TRUNC, wire.OpenTruncate}, {os.O_EXCL, wire.OpenExclusive}} {
		if flag&f.os != 0 {
			flags |= f.wire
		}
	}
	if flag&os.O_SYNC != 0 {
		return 0, errors.ErrUnsupported
	}
	return flags, nil
}

// openOperation opens a file. A handle that comes after its caller has gone is closed.
func (s *session) openOperation(ctx context.Context, name string, flags uint32, attrs wire.Attrs) operation[*File] {
	call := s.request(wire.TypeHandle)
	call.Request = wire.Open{Path: name, Flags: flags, Attrs: attrs}.Append(call.Scratch(), 0)
	call.Orphan = s.closeOrphan
	return operation[*File]{name: "open", path: name, call: call, result: func(call *conn.Call) (*File, error) {
		var reply wire.Handle
		if err := reply.Parse(call.Body); err != nil {
			return nil, parse(err)
		}
		f := &fileState{client: s, path: name, flags: flags, handle: append([]byte{}, reply.Handle...)}
		f.closed, f.shut = context.WithCancelCause(context.Background())
		return &File{f, ctx}, nil
	}}
}

// closeOrphan closes the handle in a reply that nobody waits for any more.
func (s *session) closeOrphan(call *conn.Call) {
	var reply wire.Handle
	if call.Type != wire.TypeHandle || reply.Parse(call.Body) != nil {
		return
	}
	s.closeHandle(reply.Handle)
}

// closeHandle closes a handle without waiting, which is all right where nothing was written.
func (s *session) closeHandle(handle []byte) {
	call := s.request(wire.TypeStatus)
	call.Request = wire.HandleRequest{Type: wire.TypeClose, Handle: handle}.Append(call.Scratch(), 0)
	call.Done = discard{s}
	s.conn.TryStart(call, true) // on a connection that has ended there is nothing to close
}

// WithContext returns a view of the file whose calls end when ctx is done, with ctx's cause. All else, the offset too, is shared.
func (f *File) WithContext(ctx context.Context) *File { return &File{f.fileState, ctx} }

// Name returns the path that the file was opened by.
func (f *File) Name() string { return f.path }

// BaseName returns the last element of the path.
func (f *File) BaseName() string { return path.Base(f.path) }

// opened returns the file's handle.
func (f *File) opened(op string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handle == nil {
		return nil, &fs.PathError{Op: op, Path: f.path, Err: fs.ErrClosed}
	}
	return f.handle, nil
}

// Close closes the file. A transfer that is under way ends with fs.ErrClosed. Where the file was open for writing, Close waits for the
// server's answer, whatever f's context says: some servers store the file only now, and say only now that they could not. Where
// it was open for reading only, Close costs no wait.
func (f *File) Close() error {
	f.mu.Lock()
	handle := f.handle
	f.handle = nil
	f.mu.Unlock()
	if handle == nil {
		return &fs.PathError{Op: "close", Path: f.path, Err: fs.ErrClosed}
	}
	f.shut(fs.ErrClosed)
	if f.flags&wire.OpenWrite == 0 {
		f.client.closeHandle(handle)
		return nil
	}
	call := f.client.request(wire.TypeStatus)
	call.Request = wire.HandleRequest{Type: wire.TypeClose, Handle: handle}.Append(call.Scratch(), 0)
	call.Ordered = true // behind the WRITEs of a transfer that this ends
	_, err := run(context.Background(), f.client, operation[struct{}]{name: "close", path: f.path, call: call})
	return err
}

// Stat asks the server for the file's attributes. One round trip.
func (f *File) Stat() (fs.FileInfo, error) {
	op, err := f.statOperation()
	if err != nil {
		return nil, err
	}
	stat, err := run(f.ctx, f.client, op)
	if err != nil {
		return nil, err
	}
	return fileInfo{f.BaseName(), stat}, nil
}

// statOperation is an FSTAT whose result is remembered.
func (f *File) statOperation() (operation[*FileStat], error) {
	handle, err := f.opened("stat")
	if err != nil {
		return operation[*FileStat]{}, err
	}
	call := f.client.request(wire.TypeAttrs)
	call.Request = wire.HandleRequest{Type: wire.TypeFstat, Handle: handle}.Append(call.Scratch(), 0)
	return operation[*FileStat]{name: "stat", path: f.path, call: call, result: func(call *conn.Call) (*FileStat, error) {
		stat, err := attrsReply(call)
		if err == nil {
			f.mu.Lock()
			f.stat = stat
			f.mu.Unlock()
		}
		return stat, err
	}}, nil
}

// Chmod sets the file's permissions. One round trip.
func (f *File) Chmod(mode fs.FileMode) error {
	return f.setstat("chmod", wire.Attrs{Flags: wire.AttrPermissions, Permissions: wire.PermissionBits(mode)})
}

// Chtimes sets the file's times, as [Client.Chtimes] does. One round trip.
func (f *File) Chtimes(atime, mtime time.Time) error {
	attrs, err := timeAttrs(atime, mtime)
	if err != nil {
		return &fs.PathError{Op: "chtimes", Path: f.path, Err: err}
	}
	return f.setstat("chtimes", attrs)
}

// Truncate sets the file's size; what is added reads as zeros. One round trip.
func (f *File) Truncate(size int64) error {
	if size < 0 {
		return &fs.PathError{Op: "truncate", Path: f.path, Err: fs.ErrInvalid}
	}
	return f.setstat("truncate", wire.Attrs{Flags: wire.AttrSize, Size: uint64(size)})
}

func (f *File) setstat(op string, attrs wire.Attrs) error {
	handle, err := f.opened(op)
	if err != nil {
		return err
	}
	return f.status(op, wire.Fsetstat{Handle: handle, Attrs: attrs})
}

// Sync has the server write the file to its disk (fsync@openssh.com). Without that extension the error is one for which
// errors.Is(err, errors.ErrUnsupported) holds. One round trip, which may be slow.
func (f *File) Sync() error {
	handle, err := f.opened("sync")
	if err != nil {
		return err
	}
	if f.client.offers[wire.ExtFsync] != "1" {
		return &fs.PathError{Op: "sync", Path: f.path, Err: errors.ErrUnsupported}
	}
	return f.status("sync", wire.ExtendedHandle{Name: wire.ExtFsync, Handle: handle})
}

// status sends a request about the file whose good answer is success.
func (f *File) status(op string, message appender) error {
	operation := f.client.statusOperation(op, f.path, "", message)
	operation.call.Ordered = true // behind the WRITEs of a transfer that has just been given up
	_, err := run(f.ctx, f.client, operation)
	return err
}

// Seek sets the offset of the next Read or Write. From the end it costs a round trip unless the size is known from before, and a size
// that is known may be old.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	if _, err := f.opened("seek"); err != nil {
		return 0, err
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		size, err := f.size()
		if err != nil {
			return 0, err
		}
		offset += size
	default:
		return 0, &fs.PathError{Op: "seek", Path: f.path, Err: fs.ErrInvalid}
	}
	if offset < 0 {
		return 0, &fs.PathError{Op: "seek", Path: f.path, Err: fs.ErrInvalid}
	}
	f.offset = offset
	return offset, nil
}

// size returns the file's size, from what is known or else from the server.
func (f *File) size() (int64, error) {
	f.mu.Lock()
	stat := f.stat
	f.mu.Unlock()
	if stat == nil || !stat.HasSize() || f.flags&wire.OpenWrite != 0 {
		op, err := f.statOperation()
		if err == nil {
			stat, err = run(f.ctx, f.client, op)
		}
		if err != nil {
			return 0, err
		}
		if !stat.HasSize() {
			return 0, &fs.PathError{Op: "seek", Path: f.path, Err: errors.New("the server does not tell the file's size")}
		}
	}
	return int64(stat.Size), nil
}

// Progress returns how many bytes, from its beginning and without a gap, the ReadFrom or WriteTo under way, or the last one, has
// behind it: acknowledged by the server, or handed to the writer.
func (f *File) Progress() int64 { return f.progress.Load() }
