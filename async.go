package usftp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"sync"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

// Pending is the result of an operation that was started and may not be complete yet. It costs no
// goroutine. Its methods may be called concurrently.
//
// A Pending completes when its operation does, when the context of the view that started it is
// done, or when the connection ends, whichever comes first. Until then buffers given to the
// operation must not be used.
type Pending[T any] struct {
	done chan struct{}

	mu     sync.Mutex
	op     operation[T]
	ended  bool
	value  T
	err    error
	hooks  []func() // called when it is complete; they do not block
	forgot bool
}

// Done returns a channel that is closed when the operation is complete.
func (p *Pending[T]) Done() <-chan struct{} { return p.done }

// Wait waits until the operation is complete and returns its result. It may be called again.
func (p *Pending[T]) Wait() (T, error) {
	<-p.done
	return p.value, p.err
}

// WaitContext is like Wait, but gives up with ctx's cause when ctx is done. The operation
// continues; to cancel it, start it through [Client.WithContext].
func (p *Pending[T]) WaitContext(ctx context.Context) (T, error) {
	select {
	case <-p.done:
		return p.value, p.err
	case <-ctx.Done():
		var none T
		p.mu.Lock()
		defer p.mu.Unlock()
		return none, p.op.wrap(context.Cause(ctx))
	}
}

// Then calls f with the result when the operation is complete. Functions of one client are called
// one at a time, in the order in which their operations completed, on a goroutine that exists only
// while there are any to call, and never on one of the connection's goroutines: a slow one delays
// other functions but no transfer. A function may start operations and wait for them, but must not
// wait for another function.
func (p *Pending[T]) Then(f func(T, error)) {
	p.whenEnded(func() {
		p.op.session.dispatcher.run(func() { f(p.value, p.err) })
	})
}

// Forget tells the client that nobody will wait for the result: an error goes to the function set
// by [WithErrorFunc].
func (p *Pending[T]) Forget() {
	p.mu.Lock()
	again := p.forgot
	p.forgot = true
	p.mu.Unlock()
	if again {
		return
	}
	p.whenEnded(func() {
		if p.err != nil {
			p.op.session.report("an operation that nobody waits for failed", p.err)
		}
	})
}

// start sends the operation without waiting for its result. It waits only while the budget of
// bytes, requests or handles is full.
func start[T any](ctx context.Context, op operation[T]) *Pending[T] {
	op = op.fail(op.err)
	p := &Pending[T]{op: op, done: make(chan struct{})}
	err := op.err
	if err == nil {
		op.call.Done = (*completion[T])(p)
		err = op.session.conn.Start(ctx, op.call)
	}
	if err != nil {
		p.end(p.value, op.wrap(err))
		return p
	}
	p.watch(ctx, op)
	return p
}

// startChange starts an operation that changes a file's contents: it drops data read ahead of the
// file, now and when the operation is complete.
func startChange[T any](ctx context.Context, op operation[T], name string) *Pending[T] {
	op.session.changed(name)
	p := start(ctx, op)
	p.whenEnded(func() { op.session.changed(name) })
	return p
}

// watch completes the pending operation when a context is done. It costs no goroutine until then.
func (p *Pending[T]) watch(ctx context.Context, op operation[T]) {
	if ctx.Done() == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		var none T
		p.end(none, op.wrap(context.Cause(ctx)))
	})
	p.whenEnded(func() { stop() })
}

// complete takes the reply of the current call.
func (p *Pending[T]) complete(call *conn.Call) {
	p.mu.Lock()
	if p.ended { // cancelled: drop the reply and leave the buffers alone
		p.mu.Unlock()
		if call.Orphan != nil && call.Err == nil {
			call.Orphan(call)
		}
		p.op.session.conn.Recycle(call)
		return
	}
	value, next, err := p.op.finish()
	if next != nil && next.err == nil {
		p.op = *next
		next.call.Done = (*completion[T])(p)
		ok, failed := p.op.session.conn.TryStart(next.call, true)
		switch {
		case failed != nil:
			err = next.wrap(failed)
		case ok:
			p.mu.Unlock()
			return
		default: // it opens a file, and waits until others are closed
			p.mu.Unlock()
			go p.startLater(value, *next)
			return
		}
	}
	p.settle(value, err)
}

// startLater starts the next operation when it is its turn.
func (p *Pending[T]) startLater(value T, next operation[T]) {
	if err := next.session.conn.Start(context.Background(), next.call); err != nil {
		p.end(value, next.wrap(err))
	}
}

// completion is a Pending as its call's Completer.
type completion[T any] Pending[T]

func (c *completion[T]) Complete(call *conn.Call) { (*Pending[T])(c).complete(call) }

// end completes the pending operation without a reply, once.
func (p *Pending[T]) end(value T, err error) {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	if call := p.op.call; call != nil {
		call.Abandon()
	}
	p.settle(value, err)
}

// settle completes the pending operation, which has not ended. The caller holds the lock, so that a
// result that was taken, such as an open file, is not dropped for a context that ends just then;
// settle unlocks it.
func (p *Pending[T]) settle(value T, err error) {
	p.ended, p.value, p.err = true, value, err
	hooks := p.hooks
	p.hooks = nil
	close(p.done)
	p.mu.Unlock()
	for _, hook := range hooks {
		hook()
	}
}

// whenEnded calls a function that does not block when the operation is complete, or now if it is.
func (p *Pending[T]) whenEnded(hook func()) {
	p.mu.Lock()
	if !p.ended {
		p.hooks = append(p.hooks, hook)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	hook()
}

// dispatcher calls users' functions one at a time, on a goroutine that exists only while there are
// any to call.
type dispatcher struct {
	mu      sync.Mutex
	queue   []func()
	running bool
}

func (d *dispatcher) run(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append(d.queue, f)
	if !d.running {
		d.running = true
		go d.work()
	}
}

func (d *dispatcher) work() {
	for {
		d.mu.Lock()
		queue := d.queue
		d.queue = nil
		d.running = len(queue) > 0
		d.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, f := range queue {
			f()
		}
	}
}

// report passes an error that nobody waits for to the function set by WithErrorFunc.
func (s *session) report(what string, err error) {
	if f := s.options.errorFunc; f != nil {
		s.dispatcher.run(func() { f(err) })
	} else if logger := s.options.conn.Logger; logger != nil && !errors.Is(err, ErrClosed) {
		s.dispatcher.run(func() { logger.Info(what, "error", err) })
	}
}

// AsyncClient is a client whose operations are started without waiting for them; see [Pending]. A
// method waits only while the budget is full: [WithMaxInFlight] bytes of file contents, or 32,768
// requests. If only one file can be open (see [ErrSharedHandle]), opening one waits for that, too.
//
// Operations are sent in the order in which they were started, except that requests without data
// overtake WRITEs. Many servers execute them in another order, so an operation that depends on
// another must wait for it.
type AsyncClient struct {
	session *session
	ctx     context.Context
}

// Async returns the asynchronous form of the client. Operations started through it end when the
// context of c is done.
func (c *Client) Async() AsyncClient { return AsyncClient{c.session, c.ctx} }

// Open opens a file for reading. The caller must take the result; otherwise the file stays open
// until the client is closed.
func (a AsyncClient) Open(name string) *Pending[*File] { return a.OpenFile(name, 0, 0) }

// OpenFile is [Client.OpenFile].
func (a AsyncClient) OpenFile(name string, flag int, perm fs.FileMode) *Pending[*File] {
	return start(a.ctx, newFile(a.ctx, a.session, name).openWith(flag, perm))
}

// Create is [Client.Create].
func (a AsyncClient) Create(name string) *Pending[*File] {
	return start(a.ctx, a.session.create(a.ctx, name))
}

// Stat is [Client.Stat].
func (a AsyncClient) Stat(name string) *Pending[fs.FileInfo] {
	return start(a.ctx, a.session.stat("stat", wire.TypeStat, name))
}

// Lstat is [Client.Lstat].
func (a AsyncClient) Lstat(name string) *Pending[fs.FileInfo] {
	return start(a.ctx, a.session.stat("lstat", wire.TypeLstat, name))
}

// Chmod is [Client.Chmod].
func (a AsyncClient) Chmod(name string, mode fs.FileMode) *Pending[struct{}] {
	return start(a.ctx, a.session.setstat("chmod", name, toMode(mode)))
}

// Chown is [Client.Chown].
func (a AsyncClient) Chown(name string, uid, gid int) *Pending[struct{}] {
	return start(a.ctx, a.session.setstat("chown", name, toOwner(uid, gid)))
}

// Chtimes is [Client.Chtimes].
func (a AsyncClient) Chtimes(name string, atime, mtime time.Time) *Pending[struct{}] {
	return start(a.ctx, a.session.setstat("chtimes", name, toTimes(atime, mtime)))
}

// Truncate is [Client.Truncate], but makes no file longer on servers in Java.
func (a AsyncClient) Truncate(name string, size int64) *Pending[struct{}] {
	return startChange(a.ctx, a.session.setstat("truncate", name, toSize(size)), name)
}

// SetExtendedData is [Client.SetExtendedData].
func (a AsyncClient) SetExtendedData(name string, extended []StatExtended) *Pending[struct{}] {
	return start(a.ctx, a.session.setstat("setstat", name, toExtended(extended)))
}

// Lchmod is [Client.Lchmod].
func (a AsyncClient) Lchmod(name string, mode fs.FileMode) *Pending[struct{}] {
	return start(a.ctx, a.session.lsetstat("lchmod", name, toMode(mode)))
}

// Lchown is [Client.Lchown].
func (a AsyncClient) Lchown(name string, uid, gid int) *Pending[struct{}] {
	return start(a.ctx, a.session.lsetstat("lchown", name, toOwner(uid, gid)))
}

// Lchtimes is [Client.Lchtimes].
func (a AsyncClient) Lchtimes(name string, atime, mtime time.Time) *Pending[struct{}] {
	return start(a.ctx, a.session.lsetstat("lchtimes", name, toTimes(atime, mtime)))
}

// SetAttrs is [Client.SetAttrs]. It sends a request even if attrs is empty.
func (a AsyncClient) SetAttrs(name string, attrs NewAttrs) *Pending[struct{}] {
	return start(a.ctx, a.session.setstat("setstat", name, attrs.change()))
}

// LsetAttrs is [Client.LsetAttrs]. It sends a request even if attrs is empty.
func (a AsyncClient) LsetAttrs(name string, attrs NewAttrs) *Pending[struct{}] {
	return start(a.ctx, a.session.lsetstat("lsetstat", name, attrs.change()))
}

// Remove is [Client.Remove].
func (a AsyncClient) Remove(name string) *Pending[struct{}] {
	return start(a.ctx, a.session.remove(name))
}

// RemoveDirectory is [Client.RemoveDirectory].
func (a AsyncClient) RemoveDirectory(name string) *Pending[struct{}] {
	return start(a.ctx, a.session.removeDirectory("rmdir", name))
}

// Mkdir is [Client.Mkdir].
func (a AsyncClient) Mkdir(name string) *Pending[struct{}] {
	return start(a.ctx, a.session.mkdir(name, wire.Attrs{}).orExists(name))
}

// Rename is [Client.Rename].
func (a AsyncClient) Rename(oldname, newname string) *Pending[struct{}] {
	return start(a.ctx, a.session.rename(oldname, newname))
}

// PosixRename is [Client.PosixRename].
func (a AsyncClient) PosixRename(oldname, newname string) *Pending[struct{}] {
	return start(a.ctx, a.session.posixRename(oldname, newname))
}

// Link is [Client.Link].
func (a AsyncClient) Link(oldname, newname string) *Pending[struct{}] {
	return start(a.ctx, a.session.link(oldname, newname))
}

// Symlink makes a symbolic link. Unlike [Client.Symlink] it does not find out the order in which a
// server takes the two paths: for an unknown server it uses OpenSSH's order.
func (a AsyncClient) Symlink(oldname, newname string) *Pending[struct{}] {
	return start(a.ctx, a.session.symlink(oldname, newname, a.session.symlinks.Load()))
}

// ReadLink is [Client.ReadLink].
func (a AsyncClient) ReadLink(name string) *Pending[string] {
	return start(a.ctx, a.session.name("readlink", name,
		wire.PathRequest{Type: wire.TypeReadlink, Path: name}))
}

// RealPath is [Client.RealPath].
func (a AsyncClient) RealPath(name string) *Pending[string] {
	return start(a.ctx, a.session.name("realpath", name,
		wire.PathRequest{Type: wire.TypeRealpath, Path: name}))
}

// StatVFS is [Client.StatVFS].
func (a AsyncClient) StatVFS(name string) *Pending[*StatVFS] {
	return start(a.ctx, a.session.statVFS(name))
}

// Extended is [Client.Extended].
func (a AsyncClient) Extended(name string, payload []byte) *Pending[[]byte] {
	return start(a.ctx, a.session.extended(wire.TypeExtendedReply, name, payload))
}

// AsyncFile is a file whose operations are started without waiting for them; see [AsyncClient].
// Except for Close they do not wait for data written behind, some of which may not have been sent:
// data from a [File.Writer] may overwrite the data of a later WriteAt. Call [Writer.Flush] in
// between.
type AsyncFile struct{ file *File }

// Async returns the asynchronous form of the file. Operations started through it end when the
// context of f is done.
func (f *File) Async() AsyncFile { return AsyncFile{f} }

// Open is [File.Open]. The result is the file.
func (a AsyncFile) Open(flag int, perm fs.FileMode) *Pending[*File] {
	return start(a.file.ctx, a.file.openWith(flag, perm))
}

// OpenRead is [File.OpenRead].
func (a AsyncFile) OpenRead() *Pending[*File] { return a.Open(0, 0) }

// Close is [File.Close]: the file is closed for further calls at once, and the result is the
// server's answer. The file's context does not end it. Close waits for data written behind (see
// [File.Writer]) before it starts. It does not look whether the server has stored what it has
// acknowledged.
func (a AsyncFile) Close() *Pending[struct{}] {
	open := a.file.letGo()
	err := a.file.endBehind(open)
	op := a.file.closeOperation(open, err != nil)
	if err != nil {
		op.refused = err
		op.result = func(*conn.Call) (none, error) { return none{}, err }
	}
	return start(context.Background(), op)
}

// Abandon is [File.Abandon]. The file's context does not end it.
func (a AsyncFile) Abandon() *Pending[struct{}] {
	open := a.file.letGo()
	a.file.dropBehind(open)
	return start(context.Background(), a.file.closeOperation(open, true))
}

// Stat is [File.Stat].
func (a AsyncFile) Stat() *Pending[*FileStat] { return start(a.file.ctx, a.file.statOperation()) }

// Chmod is [File.Chmod].
func (a AsyncFile) Chmod(mode fs.FileMode) *Pending[struct{}] {
	return start(a.file.ctx, a.file.fsetstat("chmod", toMode(mode)))
}

// Chown is [File.Chown].
func (a AsyncFile) Chown(uid, gid int) *Pending[struct{}] {
	return start(a.file.ctx, a.file.fsetstat("chown", toOwner(uid, gid)))
}

// Chtimes is [File.Chtimes].
func (a AsyncFile) Chtimes(atime, mtime time.Time) *Pending[struct{}] {
	return start(a.file.ctx, a.file.fsetstat("chtimes", toTimes(atime, mtime)))
}

// Truncate is [File.Truncate], but makes no file longer on servers in Java.
func (a AsyncFile) Truncate(size int64) *Pending[struct{}] {
	return startChange(a.file.ctx, a.file.fsetstat("truncate", toSize(size)), a.file.Name())
}

// CopyData has the server copy length bytes at an offset of the file to an offset of another, in
// one request (copy-data); see [File.CopyRange]. Nothing passes through the client, and length is
// at most 64 MiB. If the two files are not of one client, or the server lacks copy-data, the error
// matches [errors.ErrUnsupported]; io.EOF means that the file ends early, after the bytes copied.
func (a AsyncFile) CopyData(off, length int64, to *File, at int64) *Pending[struct{}] {
	source, err := a.file.opening("copy", wire.OpenRead)
	target, toErr := to.opening("copy", wire.OpenWrite)
	switch {
	case err != nil || toErr != nil:
		err = errors.Unwrap(cmp.Or(err, toErr))
	case off < 0 || at < 0 || length <= 0 || length > copyPiece:
		err = fs.ErrInvalid
	case source.client.shared != target.client.shared || !source.client.offered(wire.ExtCopyData):
		err = &unsupported{wire.ExtCopyData}
	default:
		return startChange(a.file.ctx, source.copyData(off, length, target, at), to.Name())
	}
	return start(a.file.ctx, failing[none](a.file, "copy", err))
}

// SetExtendedData is [File.SetExtendedData].
func (a AsyncFile) SetExtendedData(extended []StatExtended) *Pending[struct{}] {
	return start(a.file.ctx, a.file.fsetstat("setstat", toExtended(extended)))
}

// SetAttrs is [File.SetAttrs]. It sends a request even if attrs is empty.
func (a AsyncFile) SetAttrs(attrs NewAttrs) *Pending[struct{}] {
	return start(a.file.ctx, a.file.fsetstat("setstat", attrs.change()))
}

// Sync is [File.Sync]. It covers operations that were complete before it started and, on servers
// that work in order, operations that were started before it.
func (a AsyncFile) Sync() *Pending[struct{}] { return start(a.file.ctx, a.file.sync()) }

// StatVFS is [File.StatVFS].
func (a AsyncFile) StatVFS() *Pending[*StatVFS] { return start(a.file.ctx, a.file.statVFS()) }

// Remove is [File.Remove].
func (a AsyncFile) Remove() *Pending[struct{}] {
	return start(a.file.ctx, a.file.session().remove(a.file.Name()))
}

// ReadAt is [File.ReadAt]. p must not be used until the operation is complete, even after
// cancellation.
func (a AsyncFile) ReadAt(p []byte, off int64) *Pending[int] {
	return a.file.startAt("read", p, off, false)
}

// WriteAt is [File.WriteAt]. It copies p before it returns. Writes are not ordered: if ranges
// overlap, wait for one before starting the next. Servers that accept one WRITE at a time, or only
// in order, refuse writes started in the meantime, so wait for each write there too.
func (a AsyncFile) WriteAt(p []byte, off int64) *Pending[int] {
	if a.file.appends() {
		return start(a.file.ctx, failing[int](a.file, "write", errAppendAt))
	}
	return a.file.startAt("write", p, off, true)
}

var errAppendAt = errors.New("WriteAt on a file opened with O_APPEND")

// rangeAt is a ReadAt or WriteAt that was started. It is a transfer driven by the completions of
// its own requests, without a goroutine. Its pending result's lock guards it and the buffer;
// nothing touches them once the operation is complete.
type rangeAt struct {
	pending *Pending[int]
	open    *openFile
	ranges  *flow.Ranges
	buf     []byte
	off     int64
	write   bool

	starting bool // the caller has not sent all yet
}

// rangeCall is one request of a rangeAt, as its Completer.
type rangeCall struct {
	at *rangeAt
	flow.Range
}

func (f *File) startAt(op string, p []byte, off int64, write bool) *Pending[int] {
	need := uint32(wire.OpenRead)
	if write {
		need = wire.OpenWrite
	}
	open, err := f.opening(op, need)
	switch {
	case err != nil:
		err = errors.Unwrap(err)
	case off < 0:
		err = fs.ErrInvalid
	case write && endOf(off, len(p))-off < int64(len(p)):
		err = errTooLong
	}
	pending := &Pending[int]{op: failing[int](f, op, err), done: make(chan struct{})}
	if err != nil || len(p) == 0 {
		pending.end(0, pending.op.wrap(err))
		return pending
	}
	if write {
		open.client.changed(f.Name())
		pending.whenEnded(func() { open.client.changed(f.Name()) })
	}
	// If the limits are not known yet, these are sizes that every server takes.
	read, request := open.client.dataSizes()
	if !write {
		request = read
	}
	at := &rangeAt{
		pending: pending,
		open:    open, buf: p, off: off, write: write, starting: true,
		ranges: flow.NewRanges(off, flow.Unknown, request),
	}
	at.ranges.Limit(endOf(off, len(p)))
	pending.watch(f.ctx, pending.op)
	pending.watch(open.closed, pending.op)
	at.sendAll(f)
	return pending
}

// sendAll sends all ranges and waits while the budget is full.
func (at *rangeAt) sendAll(f *File) {
	p := at.pending
	for {
		p.mu.Lock()
		r, more := at.ranges.Next()
		if !more || p.ended {
			at.starting = false
			p.mu.Unlock()
			break
		}
		call := at.call(r)
		p.mu.Unlock()
		if err := at.open.client.conn.Start(f.ctx, call); err != nil {
			p.mu.Lock()
			at.ranges.Fail(r, err)
			p.mu.Unlock()
		}
	}
	at.finish()
}

// call makes the request for a range. The caller holds the lock.
func (at *rangeAt) call(r flow.Range) *conn.Call {
	s, handle := at.open.client, at.open.handle
	var call *conn.Call
	if at.write {
		call = s.writeCall(handle, r.Off, at.buf[r.Off-at.off:][:r.Len])
	} else {
		call = s.readCall(handle, r.Off, r.Len)
	}
	call.Done = &rangeCall{at, r}
	return call
}

// Complete takes a reply and requests the missing part again.
func (c *rangeCall) Complete(call *conn.Call) {
	at, p := c.at, c.at.pending
	p.mu.Lock()
	if !p.ended {
		at.handleReply(c.Range, call)
		for !at.write && !at.starting {
			r, more := at.ranges.Next()
			if !more {
				break
			}
			again := at.call(r)
			if ok, err := at.open.client.conn.TryStart(again, true); !ok {
				at.ranges.Fail(r, cmp.Or(err, errTooMany))
				at.open.client.conn.Recycle(again)
			}
		}
	}
	p.mu.Unlock()
	at.open.client.conn.Recycle(call)
	at.finish()
}

var errTooMany = errors.New("too many requests are in flight")

// handleReply takes a reply. The caller holds the lock.
func (at *rangeAt) handleReply(r flow.Range, call *conn.Call) {
	err := readError(call)
	if at.write {
		err = failed(call)
	}
	switch {
	case err == io.EOF:
		at.ranges.EOF(r)
	case err != nil:
		at.ranges.Fail(r, err)
	case at.write:
		at.ranges.Done(r, r.Len)
	default:
		copy(at.buf[r.Off-at.off:], call.Body)
		at.ranges.Done(r, len(call.Body))
	}
}

// finish completes the pending result when all requests are answered.
func (at *rangeAt) finish() {
	p := at.pending
	p.mu.Lock()
	if at.starting || at.ranges.Out() > 0 || p.ended {
		p.mu.Unlock()
		return
	}
	n := int(at.ranges.Mark() - at.off)
	if at.write {
		at.open.wrote(at.off, int64(n))
	}
	err := at.ranges.Err()
	if err == nil && n < len(at.buf) && !at.write {
		err = io.EOF
	}
	p.settle(n, p.op.wrap(err))
}

// Result is the outcome of one item of a batch.
type Result[K, T any] struct {
	Item  K
	Value T
	Err   error
}

// defaultBatch is the default number of operations in flight in a batch: thousands of small
// requests in one round trip, for a few MiB of memory.
const defaultBatch = 4096

// Batch starts an operation for each item, with at most limit of them in flight (0 means 4096), and
// yields the results as they complete, in any order. An error concerns its item alone. start
// usually calls a method of an [AsyncClient] or [AsyncFile]; items and start run on the goroutine
// of the loop. After a break Batch starts no more operations, but those in flight continue unless
// their context is cancelled.
func Batch[K, T any](items iter.Seq[K], limit int,
	start func(K) *Pending[T]) iter.Seq[Result[K, T]] {
	if limit <= 0 {
		limit = defaultBatch
	}
	return func(yield func(Result[K, T]) bool) {
		b := &batch[K, T]{wake: make(chan struct{}, 1)}
		for item := range items {
			for b.out >= limit {
				if !b.wait(yield) {
					return
				}
			}
			b.out++
			p := start(item)
			p.whenEnded(func() { b.add(Result[K, T]{item, p.value, p.err}) })
		}
		for b.out > 0 {
			if !b.wait(yield) {
				return
			}
		}
	}
}

// batch collects completed operations for the goroutine of the loop.
type batch[K, T any] struct {
	out  int // started and not yielded; the loop's own
	mu   sync.Mutex
	done []Result[K, T]
	wake chan struct{} // holds one token when done may have become non-empty
}

func (b *batch[K, T]) add(r Result[K, T]) {
	b.mu.Lock()
	b.done = append(b.done, r)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// wait waits until an operation is complete and yields its result. It returns false when the loop
// has ended.
func (b *batch[K, T]) wait(yield func(Result[K, T]) bool) bool {
	<-b.wake
	b.mu.Lock()
	done := b.done
	b.done = nil
	b.mu.Unlock()
	for _, r := range done {
		b.out--
		if !yield(r) {
			return false
		}
	}
	return true
}
