package usftp

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Open opens a file for reading. One round trip.
func (c *Client) Open(name string) (*File, error) { return c.OpenFile(name, os.O_RDONLY, 0) }

// OpenRead opens a file for reading and asks for its attributes in the same round trip, so that
// they are at hand: they are the first that most programs ask for, and a transfer that knows the
// size sends no request too many. A server that tells no attributes is no error.
func (c *Client) OpenRead(name string) (*File, error) {
	f := NewFile(c, name)
	stat := start(c.ctx, c.session, ask(c.session, "stat", name, wire.TypeAttrs,
		wire.PathRequest{Type: wire.TypeStat, Path: name}, f.keepAttrs))
	if _, err := run(c.ctx, f.openWith(os.O_RDONLY, 0)); err != nil {
		return nil, err
	}
	stat.WaitContext(c.ctx)
	return f, nil
}

// Create opens a file for reading and writing, truncated to nothing or created with the permissions
// that the server gives new files. On a server that refuses to open for both it opens for writing
// only. One round trip, and one more the first time that a server refuses so.
func (c *Client) Create(name string) (*File, error) {
	return run(c.ctx, c.create(c.ctx, name))
}

// OpenFile opens a file with the flags of package os. perm travels only with O_CREATE, and the
// server applies its umask. O_SYNC is an error for which errors.Is(err, errors.ErrUnsupported)
// holds. With O_CREATE and O_EXCL errors.Is(err, fs.ErrExist) holds where the name is taken. One
// round trip.
func (c *Client) OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	f := NewFile(c, name)
	return run(c.ctx, f.openWith(flag, perm))
}

// Open opens a closed file with the flags of package os, as [Client.OpenFile]. The offset is where
// it was: 0 on a File that was never open. One round trip.
func (f *File) Open(flag int, perm fs.FileMode) error {
	_, err := run(f.ctx, f.openWith(flag, perm))
	return err
}

// OpenRead opens a closed file for reading. One round trip.
func (f *File) OpenRead() error { return f.Open(os.O_RDONLY, 0) }

func (f *File) openWith(flag int, perm fs.FileMode) (op operation[*File]) {
	flags, err := openFlags(flag)
	if err != nil {
		op.name, op.path, op.err = "open", f.Name(), err
		return op
	}
	var attrs wire.Attrs
	if flag&os.O_CREATE != 0 {
		attrs = toMode(perm).Attrs
	}
	op = f.openOperation(flags, attrs)
	if flags&wire.OpenExclusive != 0 && op.err == nil {
		op.instead = lookedInto[*File](op.session, op.name, op.path, op.newPath, op.path)
	}
	return op
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
	}{{os.O_APPEND, wire.OpenAppend}, {os.O_CREATE, wire.OpenCreate},
		{os.O_TRUNC, wire.OpenTruncate}, {os.O_EXCL, wire.OpenExclusive}} {
		if flag&f.os != 0 {
			flags |= f.wire
		}
	}
	if flag&os.O_SYNC != 0 {
		return 0, errors.ErrUnsupported
	}
	return flags, nil
}

// create opens for both ways, and for writing alone where the server refuses that: AWS Transfer
// does, in front of S3.
func (s *session) create(ctx context.Context, name string) operation[*File] {
	const write = wire.OpenWrite | wire.OpenCreate | wire.OpenTruncate
	f := &File{&fileState{client: s, path: name}, ctx}
	if s.noReadWrite.Load() {
		return f.openOperation(write, wire.Attrs{})
	}
	op := f.openOperation(write|wire.OpenRead, wire.Attrs{})
	op.instead = func(refusal error) *operation[*File] {
		if errors.Is(refusal, fs.ErrNotExist) {
			return nil
		}
		next := f.openOperation(write, wire.Attrs{})
		next.refused = refusal
		result := next.result
		next.result = func(call *conn.Call) (*File, error) {
			s.differs(&s.noReadWrite, "it opens no file for reading and writing; files are created for writing only")
			return result(call)
		}
		return &next
	}
	return op
}

// openOperation opens a file. A handle that comes after its caller has gone is closed.
func (f *File) openOperation(flags uint32, attrs wire.Attrs) (op operation[*File]) {
	f.mu.Lock()
	s, name, open := f.client, f.path, f.open
	f.mu.Unlock()
	if open != nil {
		op.name, op.path, op.err = "open", name, errIsOpen
		return op
	}
	op = ask(s, "open", name, wire.TypeHandle, wire.Open{Path: name, Flags: flags, Attrs: attrs},
		func(call *conn.Call) (*File, error) {
			var reply wire.Handle
			if err := reply.Parse(call.Body); err != nil {
				return nil, parse(err)
			}
			return f.becomeOpen(s, name, reply.Handle, flags)
		})
	op.call.Orphan = s.closeOrphan
	return op
}

// becomeOpen gives the file its handle, unless another call has opened it meanwhile.
func (f *File) becomeOpen(s *session, name string, handle []byte, flags uint32) (*File, error) {
	open := &openFile{client: s, path: name, handle: append([]byte{}, handle...), flags: flags}
	open.closed, open.shut = context.WithCancelCause(context.Background())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		s.closeHandle(handle)
		return nil, errIsOpen
	}
	f.open = open
	if flags&wire.OpenTruncate != 0 {
		defer s.changed(name)
	}
	return f, nil
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
	call.Request = wire.HandleRequest{Type: wire.TypeClose, Handle: handle}.Append(call.Scratch(),
		0)
	call.Done = discard{s}
	s.conn.TryStart(call, true) // on a connection that has ended there is nothing to close
}

// Close closes the file. A transfer that is under way ends with fs.ErrClosed. Where the file was
// open for writing, Close waits for the server's answer, whatever f's context says: some servers
// store the file only now, and say only now that they could not. Where it was open for reading
// only, Close costs no wait. Closing a closed file is an error for which errors.Is(err,
// fs.ErrClosed) holds.
func (f *File) Close() error {
	behind := f.beforeClose()
	op, open := f.closeOperation()
	if open != nil && open.flags&wire.OpenWrite == 0 {
		op.call.Done = discard{open.client}
		open.client.conn.TryStart(op.call, true)
		return nil
	}
	_, err := run(context.Background(), op)
	if behind != nil {
		return behind // what was written is not there; what became of the handle matters less
	}
	return err
}

// beforeClose finishes what was written behind and drops what was read ahead.
func (f *File) beforeClose() error {
	f.mu.Lock()
	open := f.open
	f.mu.Unlock()
	f.dropAhead()
	return f.endBehind(open)
}

// closeOperation takes the handle from the file and closes it.
func (f *File) closeOperation() (operation[none], *openFile) {
	open, name := f.letGo()
	if open == nil {
		return operation[none]{name: "close", path: name, err: fs.ErrClosed}, nil
	}
	return operation[none]{session: open.client, name: "close", path: name,
		call: open.closeCall()}, open
}

// letGo takes the handle from the file, which is closed by that; nil where it was.
func (f *File) letGo() (open *openFile, name string) {
	f.mu.Lock()
	open, name = f.open, f.path
	f.open = nil
	f.mu.Unlock()
	if open != nil {
		open.shut(fs.ErrClosed)
	}
	return open, name
}

// closeCall makes a CLOSE.
func (o *openFile) closeCall() *conn.Call {
	call := o.client.request(wire.TypeStatus)
	call.Request = wire.HandleRequest{Type: wire.TypeClose, Handle: o.handle}.Append(call.Scratch(),
		0)
	call.Ordered = true // behind the WRITEs of a transfer that this ends
	return call
}
