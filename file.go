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
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// File is a remote file, open or closed. [Client.Open], [Client.Create] and [Client.OpenFile]
// return open files. [Client.ReadDir] returns closed ones that carry their attributes, and
// [NewFile] makes one from a name. A closed File can be opened, and an open one closed, any number
// of times.
//
// Its methods may be called concurrently. Methods that use the file's offset (Read, Write, Seek,
// ReadFrom, WriteTo) take turns; ReadAt and WriteAt run concurrently.
//
// A File caches the attributes it last received. The accessors (Size, Mode, ModTime, IsDir, ...)
// return the cached ones and send no request; [File.Stat] always asks the server.
type File struct {
	*fileState
	ctx context.Context
}

// fileState is the state that all views of a file share.
type fileState struct {
	turn   sync.Mutex // held by methods that use the offset
	offset int64      // guarded by turn
	// where the last Read ended, 0 if another would not be sequential; guarded by turn
	readEnd int64
	// bytes read by the last sequential Reads; guarded by turn
	readRun  int64
	asked    *openFile    // the opening for which a Read has asked for attributes; guarded by turn
	waited   atomic.Int64 // of all transfers, nanoseconds
	answers  atomic.Int64 // DATA replies that have arrived
	progress atomic.Int64 // of the current or last transfer
	writing  atomic.Pointer[behind]

	mu     sync.Mutex
	client *session
	path   string
	open   *openFile // nil when closed
	attrs  FileStat  // as last received
	stash  any

	reading *prefetch // data being read ahead
}

// openFile is one opening of a file. Nothing but end ever changes.
type openFile struct {
	client *session
	path   string // as given to OPEN
	handle *conn.Handle
	flags  uint32          // of OPEN
	closed context.Context // done when this opening is closed
	shut   context.CancelCauseFunc
	end    atomic.Int64 // where the last of the data ends that the server has acknowledged
	cuts   int64        // how many files had got another size before
}

// NewFile returns a closed File for a name on the server, which need not exist. It sends no
// request.
func NewFile(client *Client, name string) *File {
	return newFile(client.ctx, client.session, name)
}

func newFile(ctx context.Context, s *session, name string) *File {
	return &File{&fileState{client: s, path: name}, ctx}
}

// WithContext returns a view of the file whose calls end with ctx's cause when ctx is done.
// Everything else, including the offset, is shared. WithContext panics if ctx is nil.
func (f *File) WithContext(ctx context.Context) *File { return &File{f.fileState, notNil(ctx)} }

// Client returns the client that the file belongs to, with the file's context.
func (f *File) Client() *Client { return &Client{f.session(), f.ctx} }

func (f *File) session() *session {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.client
}

// SetClient moves a closed file to another client, to continue after the first has lost its
// connection. For an open file the error matches [fs.ErrInvalid].
func (f *File) SetClient(client *Client) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		return &fs.PathError{Op: "setclient", Path: f.path, Err: errIsOpen}
	}
	f.client = client.session
	return nil
}

// Name returns the path by which the file was opened or listed. A listed file's path begins with
// the directory's.
func (f *File) Name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.path
}

// BaseName returns the last element of the path.
func (f *File) BaseName() string { return path.Base(f.Name()) }

// Stash returns the value set by [File.SetStash], or nil.
func (f *File) Stash() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stash
}

// SetStash stores a value of the caller's with the file, for all its views. The package does not
// use it.
func (f *File) SetStash(value any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stash = value
}

// IsOpen reports whether the file is open.
func (f *File) IsOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open != nil
}

// Handle returns the open file's handle, valid until the file is closed. For a closed file the
// error matches [fs.ErrClosed].
func (f *File) Handle() ([]byte, error) {
	open, err := f.opened("handle", 0)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(open.handle.Name), nil
}

// errIsOpen says that a file cannot be opened again or moved to another client.
var errIsOpen error = invalidError("the file is open")

// opened returns the file's opening after everything written behind has been acknowledged. Every
// use of the handle begins here or is an operation for which [run] flushes, except for the
// asynchronous forms, Close and writing behind itself. need is wire.OpenRead, wire.OpenWrite or 0.
func (f *File) opened(op string, need uint32) (*openFile, error) {
	open, err := f.opening(op, need)
	if err == nil {
		err = f.flushBehind()
	}
	return open, err
}

// opening is like opened, but does not wait for data written behind.
func (f *File) opening(op string, need uint32) (*openFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	switch {
	case f.open == nil:
		err = fs.ErrClosed
	case f.open.flags&need == need:
		return f.open, nil
	case need == wire.OpenRead:
		err = errOnlyWrites
	default:
		err = errOnlyReads
	}
	return nil, &fs.PathError{Op: op, Path: f.path, Err: err}
}

// A file that is not open for an operation is not left to the server: OpenSSH's answers that there
// is no such file.
var (
	errOnlyReads  error = invalidError("the file is open for reading only")
	errOnlyWrites error = invalidError("the file is open for writing only")
)

// onHandle makes an operation on the open file, which fails on a closed one. [run] first flushes
// data written behind.
func onHandle[T any](f *File, op string, make func(*openFile) operation[T]) operation[T] {
	open, err := f.opening(op, 0)
	if err != nil {
		return failing[T](f, op, fs.ErrClosed)
	}
	return make(open).on(open.handle).after(f)
}

// failing returns an operation on a file that fails before anything is sent.
func failing[T any](f *File, op string, err error) operation[T] {
	return operation[T]{session: f.session(), name: op, path: f.Name(), err: err}
}

// during returns a context for a transfer of the file, which ends with the file's own context and
// when the file is closed.
func (f *File) during(open *openFile) (context.Context, func()) {
	if f.ctx.Done() == nil {
		return open.closed, func() {}
	}
	ctx, cancel := context.WithCancelCause(f.ctx)
	stop := context.AfterFunc(open.closed, func() { cancel(fs.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

func (f *File) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if op == "read" && refusal(err) && f.IsDir() { // most servers only say FAILURE
		err = directoryError{err}
	}
	return &fs.PathError{Op: op, Path: f.Name(), Err: err}
}

// A directoryError says why a server refused to read a directory as a file.
type directoryError struct{ refusal error }

func (directoryError) Error() string     { return syscall.EISDIR.Error() }
func (e directoryError) Unwrap() []error { return []error{syscall.EISDIR, e.refusal} }

// Open opens a file for reading. It takes one round trip.
func (c *Client) Open(name string) (*File, error) { return c.OpenFile(name, os.O_RDONLY, 0) }

// OpenRead opens a file for reading and fetches its attributes in the same round trip. Most
// programs ask for them first, and a transfer that knows the size saves a request. It is not an
// error if the server sends no attributes. OpenRead fails if they say that the file is a named pipe
// while the server still waits for a writer of the pipe.
func (c *Client) OpenRead(name string) (*File, error) {
	f, stat, err := c.openRead(name)
	if err != nil {
		return nil, err
	}
	stat.WaitContext(c.ctx)
	return f, nil
}

// openRead implements OpenRead, and does not wait for the attributes if the file is opened first.
func (c *Client) openRead(name string) (f *File, stat *Pending[*FileStat], err error) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	f = NewFile(c, name)
	stat = start(c.ctx, f.statOperation())
	stat.whenEnded(func() {
		if stat.err == nil && stat.value.FileMode()&fs.ModeNamedPipe != 0 {
			cancel(errNamedPipe)
		}
	})
	_, err = run(ctx, f.openWith(os.O_RDONLY, 0))
	return f, stat, err
}

// errNamedPipe says why a named pipe is not opened: READ has an offset, a pipe has none.
var errNamedPipe = errors.New("it is a named pipe, which SFTP can neither read nor write")

// Create opens a file for reading and writing, truncating it or creating it with the server's
// default permissions. If the server refuses to open a file for both it is opened for writing only.
// It takes one round trip, one more the first time that a server refuses, and two more for a file
// that exists but may not be read.
func (c *Client) Create(name string) (*File, error) {
	return run(c.ctx, c.create(c.ctx, name))
}

// OpenFile opens a file with the flags of package os. perm is sent only with O_CREATE, and the
// server applies its umask. With O_CREATE and O_EXCL the error matches [fs.ErrExist] if the name
// exists. O_SYNC is not supported: the error matches [errors.ErrUnsupported]. It takes one round
// trip.
func (c *Client) OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	f := NewFile(c, name)
	return run(c.ctx, f.openWith(flag, perm))
}

// Open opens a closed file like [Client.OpenFile]. The offset stays where it was; it is 0 in a File
// that was never open. If the file is open already, the error matches [fs.ErrInvalid]. It takes one
// round trip.
func (f *File) Open(flag int, perm fs.FileMode) error {
	_, err := run(f.ctx, f.openWith(flag, perm))
	return err
}

// OpenRead opens a closed file for reading. It takes one round trip.
func (f *File) OpenRead() error { return f.Open(os.O_RDONLY, 0) }

// openWith and openOperation fill in a named result: thousands of goroutines may be opening files,
// and each copy of an operation would enlarge every stack.
func (f *File) openWith(flag int, perm fs.FileMode) (op operation[*File]) {
	flags, err := openFlags(flag)
	if err != nil {
		op.session, op.name, op.path, op.err = f.session(), "open", f.Name(), err
		return op
	}
	var attrs wire.Attrs
	if flag&os.O_CREATE != 0 {
		attrs = toMode(perm).Attrs
	}
	sent := flags
	makes := flags&(wire.OpenCreate|wire.OpenWrite) == wire.OpenCreate && !f.session().opensAsPOSIX()
	if makes { // Java's channels make no file without it, and Apache MINA says that there is none
		sent |= wire.OpenWrite
	}
	op = f.openAs(sent, flags, attrs)
	if flags&wire.OpenExclusive != 0 && op.err == nil {
		op.instead = lookedInto[*File](op.session, op.name, op.path, op.newPath, op.path)
	}
	if makes {
		f.insteadOfWriting(&op, flags, attrs)
	}
	version := f.session().options.serverVersion
	if flags&wire.OpenExclusive != 0 && perm&0o077 == 0 && (isMaverick(version) || isErlang(version)) {
		op.result = f.keepPrivate(op.result, perm)
	}
	return op
}

// keepPrivate has a request follow an OPEN that has made a file for its owner alone, where the
// server ignores the mode in OPEN: otherwise others could read what is written.
func (f *File) keepPrivate(opened func(*conn.Call) (*File, error),
	perm fs.FileMode) func(*conn.Call) (*File, error) {
	return func(call *conn.Call) (*File, error) {
		if _, err := opened(call); err != nil {
			return nil, err
		}
		set := f.fsetstat("open", toMode(perm))
		if set.call != nil {
			set.call.Orphan = func(*conn.Call) { f.Close() } // nobody waits for the file any more
		}
		return f, unfinished[*File]{&operation[*File]{session: set.session, name: set.name,
			path: set.path, call: set.call, err: set.err, refused: settled[*File]{f},
			result: func(*conn.Call) (*File, error) { return f, nil }}}
	}
}

// insteadOfWriting opens a file that need not be written, after all, as it may only be read. Servers
// that have no status for a read-only file system, or for a file that others use, say FAILURE.
func (f *File) insteadOfWriting(op *operation[*File], flags uint32, attrs wire.Attrs) {
	other := op.instead
	op.instead = func(refusal error) *operation[*File] {
		failed := errors.Is(refusal, ErrSSHFxFailure) && flags&wire.OpenExclusive == 0
		switch {
		case failed, errors.Is(refusal, fs.ErrPermission), errors.Is(refusal, errors.ErrUnsupported):
			reads := f.openAs(flags, flags, attrs)
			reads.instead = other
			return &reads
		case other != nil:
			return other(refusal)
		}
		return nil
	}
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
	if flags == wire.OpenRead {
		flag &^= os.O_APPEND // AsyncSSH takes it for writing alone
	}
	if flag&os.O_CREATE == 0 {
		flag &^= os.O_EXCL // draft-02, section 6.3
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

// create opens for reading and writing, or for writing only on servers that refuse both, as AWS
// Transfer does in front of S3. Only a new file shows that the server is one of them: it can be
// written but not opened for both, while a file that exists may just not be readable.
func (s *session) create(ctx context.Context, name string) operation[*File] {
	const write = wire.OpenWrite | wire.OpenCreate | wire.OpenTruncate
	f := newFile(ctx, s, name)
	if s.noReadWrite.Load() {
		return f.openOperation(write, wire.Attrs{})
	}
	op := f.openOperation(write|wire.OpenRead, wire.Attrs{})
	op.instead = func(refusal error) *operation[*File] {
		if errors.Is(refusal, fs.ErrNotExist) {
			return nil
		}
		fresh := f.openOperation(write|wire.OpenExclusive, wire.Attrs{})
		result := fresh.result
		fresh.result = func(call *conn.Call) (*File, error) {
			s.differs(&s.noReadWrite,
				"it refuses to open files for both reading and writing; creating them for writing only")
			return result(call)
		}
		fresh.instead = func(error) *operation[*File] {
			old := f.openOperation(write, wire.Attrs{})
			old.refused = refusal
			return &old
		}
		return &fresh
	}
	return op
}

// openOperation opens a file. A handle that arrives after its caller has gone is closed.
func (f *File) openOperation(flags uint32, attrs wire.Attrs) (op operation[*File]) {
	return f.openAs(flags, flags, attrs)
}

// appendsItself reports whether a file that is opened with flags is appended to by toEnd alone.
// Maverick's server ends the session when one is to be read or emptied, too: Java's channels have
// neither together with appending.
func (s *session) appendsItself(flags uint32) bool {
	return flags&wire.OpenAppend != 0 && flags&(wire.OpenRead|wire.OpenTruncate) != 0 &&
		isMaverick(s.options.serverVersion)
}

// openAs works like openOperation, but sends other flags than those that the file has afterwards.
func (f *File) openAs(sent, flags uint32, attrs wire.Attrs) (op operation[*File]) {
	f.mu.Lock()
	s, name, open := f.client, f.path, f.open
	f.mu.Unlock()
	if open != nil {
		op.session, op.name, op.path, op.err = s, "open", name, errIsOpen
		return op
	}
	if s.appendsItself(sent) {
		sent &^= wire.OpenAppend
	}
	if sent&wire.OpenTruncate != 0 && !s.opensAsPOSIX() {
		sent |= wire.OpenWrite // emptying takes the permission; Java's channels do not without it
	}
	sent, twice := s.sentFlags(sent)
	op = ask(s, "open", name, wire.TypeHandle, wire.Open{Path: name, Flags: sent, Attrs: attrs},
		func(call *conn.Call) (*File, error) {
			if twice {
				return f.openEmptied(s, call.Handle, flags)
			}
			return f.becomeOpen(s, name, call.Handle, flags)
		})
	op.call.Orphan = s.orphaned(flags)
	return op
}

// sentFlags returns the flags for an OPEN, and whether that OPEN only empties the file, to be opened
// once more: Erlang's server empties a file if it is opened for writing alone, and only then.
func (s *session) sentFlags(flags uint32) (sent uint32, twice bool) {
	const otherwise = wire.OpenRead | wire.OpenAppend
	switch {
	case !isErlang(s.options.serverVersion):
	case flags&wire.OpenExclusive != 0: // the server takes it for reading
	case flags&wire.OpenTruncate != 0 && flags&otherwise != 0:
		return wire.OpenWrite | wire.OpenTruncate | flags&wire.OpenCreate, true
	case flags&(wire.OpenWrite|wire.OpenTruncate|otherwise) == wire.OpenWrite:
		return flags | wire.OpenRead, false
	}
	return flags, false
}

// openEmptied closes a file that an OPEN has emptied, and opens it again.
func (f *File) openEmptied(s *session, handle *conn.Handle, flags uint32) (*File, error) {
	s.closeHandle(handle)
	next := f.openAs(flags&^(wire.OpenTruncate|wire.OpenExclusive), flags, wire.Attrs{})
	return nil, unfinished[*File]{&next}
}

// becomeOpen gives the file its handle, unless another call has opened it in the meantime.
func (f *File) becomeOpen(s *session, name string, handle *conn.Handle,
	flags uint32) (*File, error) {
	open := &openFile{client: s, path: name, handle: handle, flags: flags, cuts: s.cuts.Load()}
	open.closed, open.shut = context.WithCancelCause(context.Background())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		s.dropHandle(handle, flags)
		return nil, errIsOpen
	}
	f.open = open
	if flags&wire.OpenTruncate != 0 {
		defer s.changed(name)
	}
	return f, nil
}

// orphaned returns a function that closes the handle in a reply that nobody waits for any more.
// flags are those of OPEN, or 0 for other requests.
func (s *session) orphaned(flags uint32) func(*conn.Call) {
	return func(call *conn.Call) {
		if call.Type == wire.TypeHandle {
			s.dropHandle(call.Handle, flags)
		}
	}
}

// dropHandle closes the handle of a file that was opened in vain, without waiting. A file that was
// to be written must not appear empty.
func (s *session) dropHandle(handle *conn.Handle, flags uint32) {
	if flags&wire.OpenWrite == 0 || !s.offered(wire.ExtAbandon) {
		s.closeHandle(handle)
		return
	}
	call := s.abandonCall(handle)
	call.Done = discard{s}
	s.conn.TryStart(call, true)
}

// closeHandle closes a handle without waiting, which is fine if nothing was written.
func (s *session) closeHandle(handle *conn.Handle) {
	call := s.handleCall(wire.TypeClose, handle, wire.TypeStatus)
	call.Done = discard{s}
	s.conn.TryStart(call, true) // on a connection that has ended there is nothing to close
}

// Close closes the file and ends its transfers with [fs.ErrClosed]. If the file was open for
// writing, Close waits for the server's answer, whatever f's context says: some servers store the
// file only now and report only now that they cannot. If it was open for reading only, Close does
// not wait. If it is closed already, the error matches [fs.ErrClosed], and if f is nil,
// [fs.ErrInvalid].
//
// If data passed to a [Writer] could not be written, Close gives the file up as [File.Abandon]
// does.
//
// Many servers acknowledge data of which their disk had room for a part only. If Open, Create or
// OpenFile has made or truncated the file, and the server now has less than it acknowledged, the
// error matches [io.ErrShortWrite]. That takes no further round trip if all is well.
func (f *File) Close() error {
	if f == nil { // as in package os, for a deferred Close before the check of Open's error
		return fs.ErrInvalid
	}
	open := f.letGo()
	behind := f.endBehind(open)
	prove := f.WithContext(context.Background()).startStored(open, open.made())
	err := f.end(open, behind != nil)
	// If data was not written, the result of closing the handle matters less.
	if err = cmp.Or(behind, err); err == nil {
		err = prove()
	}
	return err
}

// Abandon closes a file that is not complete, for whatever reason. Servers on which files appear as
// a whole when they are closed, such as usftpd, then do not show it, and keep the file it was to
// replace; they may keep the data of a new file for the next opening without O_TRUNC. That takes
// the extension abandon@usftp. On other servers Abandon does the same as [File.Close]. It drops
// data that was passed to a [Writer] and not sent yet.
func (f *File) Abandon() error {
	open := f.letGo()
	f.dropBehind(open)
	return f.end(open, true)
}

// end closes what the file has let go, or gives it up.
func (f *File) end(open *openFile, giveUp bool) error {
	op := f.closeOperation(open, giveUp)
	if open != nil && open.flags&wire.OpenWrite == 0 {
		op.call.Done = discard{open.client}
		open.client.conn.TryStart(op.call, true)
		return nil
	}
	_, err := run(context.Background(), op)
	return err
}

// closeOperation closes what the file has let go, or gives it up, and ends its transfers.
func (f *File) closeOperation(open *openFile, giveUp bool) operation[none] {
	if open == nil {
		return failing[none](f, "close", fs.ErrClosed)
	}
	f.endTransfers(open)
	op := operation[none]{session: open.client, name: "close", path: f.Name()}
	if giveUp && open.flags&wire.OpenWrite != 0 && open.client.offered(wire.ExtAbandon) {
		op.call = open.client.abandonCall(open.handle)
	} else {
		op.call = open.closeCall()
	}
	return op
}

// letGo takes the opening from the file, which is closed to further calls then. It returns nil if
// the file was closed.
func (f *File) letGo() *openFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := f.open
	f.open = nil
	return open
}

// endTransfers ends the transfers of an opening that the file has let go.
func (f *File) endTransfers(open *openFile) {
	open.shut(fs.ErrClosed)
	f.dropAhead() // a Read that starts to read ahead only now finds the file closed
}

// closeCall makes a CLOSE.
func (o *openFile) closeCall() *conn.Call {
	call := o.client.handleCall(wire.TypeClose, o.handle, wire.TypeStatus)
	call.Ordered = true // after the WRITEs of a transfer that this ends
	return call
}

// abandonCall makes the request that gives up a file being written.
func (s *session) abandonCall(handle *conn.Handle) *conn.Call {
	call := s.request(wire.TypeStatus)
	call.Handle = handle
	call.Request = wire.ExtendedHandle{Name: wire.ExtAbandon,
		Handle: handle.Name}.Append(call.Scratch(), 0)
	call.Closes = true
	call.Ordered = true // after the WRITEs of a transfer that this ends
	return call
}

// Seek sets the offset for the next Read or Write. Relative to the end of a file that is open for
// reading only, it uses the cached size if there is one: where the file may have grown since, call
// [File.Stat] first, or use [WithStatStrategy]. Otherwise Seek from the end takes a round trip.
// Seeking to before the start of the file is an error, beyond its end is not.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	open, err := f.opened("seek", 0)
	if err != nil {
		return 0, err
	}
	f.dropAhead()
	f.readEnd = 0
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		size, err := f.size(open)
		if err != nil {
			return 0, err
		}
		offset += size
	default:
		return 0, f.wrap("seek", fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, f.wrap("seek", fs.ErrInvalid)
	}
	f.offset = offset
	return offset, nil
}

// size returns the file's size, cached or from the server, as the strategy says.
func (f *File) size(open *openFile) (int64, error) {
	f.mu.Lock()
	size, known := f.attrs.Size, f.attrs.HasSize()
	f.mu.Unlock()
	strategy := open.client.options.statStrategy
	if strategy == StatAlways || strategy == StatLazy &&
		(!known || open.flags&wire.OpenWrite != 0) {
		stat, err := run(f.ctx, f.statOperation())
		if err != nil {
			return 0, err
		}
		size, known = stat.Size, stat.HasSize()
	}
	if !known {
		return 0, f.wrap("seek", errNoSize)
	}
	return int64(size), nil
}

// errNoSize says why nothing is found at the end of a file whose size is not known.
var errNoSize = errors.New("the file's size is not known")

// appends reports whether the file is open with O_APPEND.
func (f *File) appends() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open != nil && f.open.flags&wire.OpenAppend != 0
}

// Progress returns how many bytes the current or last ReadFrom or WriteTo has finished without a
// gap: acknowledged by the server or passed to the writer.
func (f *File) Progress() int64 { return f.progress.Load() }

// Sync makes the server write the file to its disk (fsync@openssh.com; OpenSSH's PROTOCOL, section
// 4.6). Without that extension the error matches [errors.ErrUnsupported]. It takes one round trip,
// which may be slow.
func (f *File) Sync() error { return f.do(f.sync()) }

func (f *File) sync() operation[none] {
	return onHandle(f, "sync", func(open *openFile) operation[none] {
		op := open.client.command("sync", f.Name(),
			wire.ExtendedHandle{Name: wire.ExtFsync, Handle: open.handle.Name})
		op.call.Ordered = true // after the WRITEs that it must make safe
		return op.needs(wire.ExtFsync)
	})
}
