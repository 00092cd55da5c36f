package usftp

import (
	"cmp"
	"io/fs"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/private/hook"
	"github.com/usftp/usftp/wire"
)

// burst is several requests on one open file that are sent together.
type burst struct {
	file  *File
	open  *openFile
	queue *conn.Queue
	out   int
	errs  [4]error // by tag
}

// The tags that tell the replies of a burst apart.
const (
	burstData = iota
	burstEnd
	burstAttrs
	burstClose
)

// begin starts a burst on an open file.
func (f *File) begin(op string, need uint32) (*burst, error) {
	open, err := f.ready(op, need)
	if err != nil {
		return nil, err
	}
	f.dropAhead()
	return &burst{file: f, open: open, queue: conn.NewQueue()}, nil
}

// send starts one request.
func (b *burst) send(tag int, call *conn.Call) error {
	call.Tag, call.Done = tag, b.queue
	if err := b.open.client.conn.Start(b.file.ctx, call); err != nil {
		return err
	}
	b.out++
	return nil
}

// close sends the CLOSE after the WRITEs. The file is closed for other calls at once.
func (b *burst) close() error {
	open := b.file.letGo()
	if open == nil {
		return fs.ErrClosed
	}
	b.file.endTransfers(open)
	call := open.closeCall()
	call.Tag, call.Done = burstClose, b.queue
	if ok, err := open.client.conn.TryStart(call, true); !ok {
		return cmp.Or(err, errTooMany)
	}
	b.out++
	return nil
}

// wait passes each reply to take, which returns the reply's error.
func (b *burst) wait(take func(call *conn.Call) error) error {
	for b.out > 0 {
		call, err := b.queue.Next(b.file.ctx)
		if err != nil {
			b.queue.Abandon()
			return err
		}
		for ; call != nil; call = b.queue.Take() {
			b.out--
			b.errs[call.Tag] = take(call)
			b.open.client.conn.Recycle(call)
		}
	}
	return nil
}

// StartWriteClose implements private.File. It copies p, so a caller with thousands of files in
// flight needs the memory of one.
func (f privateFile) StartWriteClose(p []byte, attrs NewAttrs) (wait func() (refused, err error)) {
	b, err := f.begin("write", wire.OpenWrite)
	if err != nil {
		return func() (error, error) { return nil, err }
	}
	s := b.open.client
	s.changed(f.Name())
	if _, most := s.dataSizes(); !s.inOrder || len(p) > most {
		refused, err := f.writeThenClose(p, attrs)
		s.changed(f.Name())
		return func() (error, error) { return refused, err }
	}
	if err := b.writeAndClose(p, &attrs); err != nil {
		s.changed(f.Name())
		return func() (error, error) { return nil, err }
	}
	return func() (refused, err error) {
		defer s.changed(f.Name())
		lost := b.wait(failed)
		err = f.wrap("write", cmp.Or(lost, b.errs[burstData]))
		return f.wrap("setstat", b.errs[burstAttrs]), cmp.Or(err,
			f.wrap("close", b.errs[burstClose]))
	}
}

// writeAndClose starts all requests of StartWriteClose. It does not fail if only the request for
// the attributes cannot be sent.
func (b *burst) writeAndClose(p []byte, attrs *NewAttrs) error {
	f := b.file
	if len(p) > 0 {
		if err := b.send(burstData, b.open.client.writeCall(b.open.handle, 0, p)); err != nil {
			f.Async().Abandon()
			return f.wrap("write", err)
		}
	}
	if !attrs.empty() {
		b.errs[burstAttrs] = b.setAttrs(attrs)
	}
	return f.wrap("close", b.close())
}

func (b *burst) setAttrs(attrs *NewAttrs) error {
	set := attrs.change()
	if set.err != nil {
		return set.err
	}
	call := b.open.client.request(wire.TypeStatus)
	call.Handle = b.open.handle
	call.Request = wire.Fsetstat{Handle: call.Handle.Name,
		Attrs: set.Attrs}.Append(call.Scratch(), 0)
	call.Ordered = true
	return b.send(burstAttrs, call)
}

// writeThenClose takes the steps of StartWriteClose one by one.
func (f *File) writeThenClose(p []byte, attrs NewAttrs) (refused, err error) {
	if _, err := f.writeAt(p, 0); err != nil {
		f.Async().Abandon()
		return nil, err
	}
	prove := privateFile{f}.StartStored(int64(len(p)))
	refused = f.SetAttrs(attrs)
	if _, err = f.Async().Close().WaitContext(f.ctx); err == nil {
		err = prove()
	}
	return refused, err
}

// ReadClose implements private.File.
func (f privateFile) ReadClose(size int, memory func() []byte,
	closing func()) (after *FileStat, err error) {
	b, err := f.begin("read", wire.OpenRead)
	if err != nil {
		return nil, err
	}
	defer func() {
		if f.IsOpen() {
			f.Async().Close() // a file that was only read needs no waiting
		}
	}()
	s := b.open.client
	askAttrs := func() error {
		if s.noFstat.Load() {
			return nil
		}
		return b.send(burstAttrs, s.handleCall(wire.TypeFstat, b.open.handle, wire.TypeAttrs))
	}
	if size > 0 {
		err = b.send(burstData, s.readCall(b.open.handle, 0, size))
	}
	if err == nil {
		err = b.send(burstEnd, s.readCall(b.open.handle, int64(size), 1))
	}
	if err == nil && s.inOrder {
		if err = cmp.Or(askAttrs(), b.close()); err == nil {
			closing()
		}
	}
	if err != nil {
		b.queue.Abandon()
		return nil, f.wrap("read", err)
	}
	take := func(call *conn.Call) error {
		if call.Tag == burstAttrs && call.Err == nil && call.Type == wire.TypeAttrs {
			after, _ = f.keepAttrs(call)
		}
		return readReply(call, size, memory)
	}
	err = b.wait(take)
	if err == nil && !s.inOrder && cmp.Or(b.errs[:]...) == nil {
		if err = askAttrs(); err == nil {
			err = b.wait(take)
		}
	}
	return after, f.wrap("read", cmp.Or(err, cmp.Or(b.errs[:]...)))
}

// readReply takes one reply of ReadClose.
func readReply(call *conn.Call, size int, memory func() []byte) error {
	status := call.Err == nil && call.Type == wire.TypeStatus
	ended := status && call.Status.Code == wire.EOF
	switch {
	case call.Err != nil, call.Tag == burstAttrs, call.Tag == burstClose:
		return call.Err
	case ended && call.Tag == burstEnd:
		return nil
	case status && !ended:
		return replyError(call)
	case ended, call.Tag == burstEnd, len(call.Body) != size:
		return hook.ErrOtherSize // or the server gives less at once
	}
	copy(memory(), call.Body)
	return nil
}
