package usftp

import (
	"errors"
	"io/fs"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// WorksInOrder tells whether the server is known to carry requests out one at a time, in the order
// in which they came, as OpenSSH's does: what depends on one another may then be sent at once.
func (c *Client) WorksInOrder() bool { return c.inOrder }

// ReadsOnce tells whether the server is known to count how often a file is read, so that none
// should be read without need.
func (c *Client) ReadsOnce() bool { return readsOnce(c.options.serverVersion) }

// DataSizes returns how many bytes one READ and one WRITE may carry, waiting for the server's
// limits where they are still on their way.
func (c *Client) DataSizes() (read, write int, err error) {
	if err := c.awaitLimits(c.ctx); err != nil {
		return 0, 0, err
	}
	read, write = c.dataSizes()
	return read, write, nil
}

// burst is several requests about one open file that travel together.
type burst struct {
	file  *File
	open  *openFile
	queue *conn.Queue
	out   int
}

// The tags by which the replies of a burst are told apart.
const (
	burstData = iota
	burstEnd
	burstAttrs
	burstClose
)

// begin starts a burst on an open file.
func (f *File) begin(op string) (*burst, error) {
	open, err := f.opened(op)
	if err != nil {
		return nil, err
	}
	f.dropAhead()
	if err := open.client.awaitLimits(f.ctx); err != nil {
		return nil, f.wrap(op, err)
	}
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

// close sends the CLOSE, behind the WRITEs. The file is closed for others at once.
func (b *burst) close() error {
	open, _ := b.file.letGo()
	if open == nil {
		return fs.ErrClosed
	}
	call := open.closeCall()
	call.Tag, call.Done = burstClose, b.queue
	if ok, err := open.client.conn.TryStart(call, true); !ok {
		if err == nil {
			err = errTooMany
		}
		return err
	}
	b.out++
	return nil
}

// wait hands each reply to take.
func (b *burst) wait(take func(call *conn.Call)) error {
	for b.out > 0 {
		call, err := b.queue.Next(b.file.ctx)
		if err != nil {
			b.queue.Abandon()
			return err
		}
		for ; call != nil; call = b.queue.Take() {
			b.out--
			take(call)
			b.open.client.conn.Recycle(call)
		}
	}
	return nil
}

// failed returns what a reply says against it.
func failed(call *conn.Call) error {
	if call.Err != nil {
		return call.Err
	}
	return replyError(call)
}

// WriteClose writes p, which must fit one request (see [Client.DataSizes]), at the beginning of a
// file that is open for writing, gives it attributes and closes it. Closed it is in any case.
// refused is why it could not be given the attributes; the file may be complete all the same, and
// err nil.
//
// To servers that work strictly in order all of it goes at once and takes one round trip; elsewhere
// it takes three.
func (f *File) WriteClose(p []byte, attrs NewAttrs) (refused, err error) {
	return f.StartWriteClose(p, attrs)()
}

// StartWriteClose is WriteClose in two steps: p is the caller's again when it returns, and wait,
// which must be called, gives the result. So who has thousands of files in flight needs memory for
// one of them. It waits while the budget is full ([WithMaxInFlight]), and for servers that are not
// known to work strictly in order.
func (f *File) StartWriteClose(p []byte, attrs NewAttrs) (wait func() (refused, err error)) {
	b, err := f.begin("write")
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
	unset, err := b.writeAndClose(p, &attrs)
	if err != nil {
		s.changed(f.Name())
		return func() (error, error) { return nil, err }
	}
	return func() (refused, err error) {
		defer s.changed(f.Name())
		return b.written(unset)
	}
}

// writeAndClose starts all that WriteClose asks for. unset is why the attributes could not be asked
// for.
func (b *burst) writeAndClose(p []byte, attrs *NewAttrs) (unset, err error) {
	f := b.file
	if len(p) > 0 {
		if err := b.send(burstData, b.writeCall(p)); err != nil {
			f.Async().Close()
			return nil, f.wrap("write", err)
		}
	}
	if !attrs.empty() {
		unset = b.setAttrs(attrs)
	}
	return unset, f.wrap("close", b.close())
}

func (b *burst) setAttrs(attrs *NewAttrs) error {
	set := attrs.change()
	if set.err != nil {
		return set.err
	}
	call := b.open.client.request(wire.TypeStatus)
	call.Request = wire.Fsetstat{Handle: b.open.handle, Attrs: set.Attrs}.Append(call.Scratch(), 0)
	call.Ordered = true
	return b.send(burstAttrs, call)
}

// written waits for the replies to it.
func (b *burst) written(unset error) (refused, err error) {
	f := b.file
	var wrote, closed error
	err = b.wait(func(call *conn.Call) {
		switch call.Tag {
		case burstData:
			wrote = f.wrap("write", failed(call))
		case burstAttrs:
			unset = failed(call)
		case burstClose:
			closed = f.wrap("close", failed(call))
		}
	})
	switch {
	case err != nil:
		err = f.wrap("write", err)
	case wrote != nil:
		err = wrote
	default:
		err = closed
	}
	return f.wrap("setstat", unset), err
}

// writeCall makes a WRITE at the beginning, with a copy of p: the caller's memory is its own again
// when it likes.
func (b *burst) writeCall(p []byte) *conn.Call {
	s := b.open.client
	block := s.conn.Pool().Get(wire.WriteHeaderSize(len(b.open.handle)) + len(p))
	call := s.request(wire.TypeStatus)
	call.Request = wire.Write{Handle: b.open.handle, Data: p}.Append(block.Bytes()[:0], 0)
	call.Payload = block
	call.Bytes = len(p)
	return call
}

// writeThenClose is WriteClose one after the other.
func (f *File) writeThenClose(p []byte, attrs NewAttrs) (refused, err error) {
	if _, err := f.writeAt(p, 0); err != nil {
		f.Async().Close()
		return nil, err
	}
	refused = f.SetAttrs(attrs)
	_, err = f.Async().Close().WaitContext(f.ctx)
	return refused, err
}

// ErrOtherSize says that a file does not have the size that it was expected to have.
var ErrOtherSize = errors.New("the file has another size than expected")

// ReadClose reads into p a file that is open for reading and should have exactly len(p) bytes,
// which must fit one request (see [Client.DataSizes]), makes sure that it ends there, asks for its
// attributes after that, and closes it. Where it ends elsewhere errors.Is(err, ErrOtherSize) holds.
// after is nil where the server does not tell attributes.
//
// From servers that work strictly in order all of it comes in one round trip; elsewhere it takes
// two.
func (f *File) ReadClose(p []byte) (after *FileStat, err error) {
	return f.ReadCloseInto(len(p), func() []byte { return p })
}

// ReadCloseInto is ReadClose of a file that should have size bytes, into memory that is asked for
// when they have arrived, at most once and not where there are none: who has thousands of files in
// flight need not have it for all of them.
func (f *File) ReadCloseInto(size int, memory func() []byte) (after *FileStat, err error) {
	b, err := f.begin("read")
	if err != nil {
		return nil, err
	}
	defer func() {
		if f.IsOpen() {
			f.Async().Close() // what was only read need not be waited for
		}
	}()
	s := b.open.client
	reads := []*conn.Call{b.readCall(int64(size), 1)}
	tags := []int{burstEnd}
	if size > 0 {
		reads, tags = []*conn.Call{b.readCall(0, size), reads[0]}, []int{burstData, burstEnd}
	}
	for i, call := range reads {
		if err := b.send(tags[i], call); err != nil {
			b.queue.Abandon()
			return nil, f.wrap("read", err)
		}
	}
	ask := func() error {
		if s.noFstat.Load() {
			return nil
		}
		call := s.request(wire.TypeAttrs)
		call.Request = wire.HandleRequest{Type: wire.TypeFstat,
			Handle: b.open.handle}.Append(call.Scratch(), 0)
		return b.send(burstAttrs, call)
	}
	if s.inOrder {
		if err := errors.Join(ask(), b.close()); err != nil {
			b.queue.Abandon()
			return nil, f.wrap("read", err)
		}
	}
	var result error
	take := func(call *conn.Call) {
		if err := readReply(call, size, memory); err != nil && result == nil {
			result = err
		}
		if call.Tag == burstAttrs && call.Err == nil && call.Type == wire.TypeAttrs {
			after, _ = f.keepAttrs(call)
		}
	}
	err = b.wait(take)
	if err == nil && !s.inOrder && result == nil {
		if err = ask(); err == nil {
			err = b.wait(take)
		}
	}
	if err == nil {
		err = result
	}
	return after, f.wrap("read", err)
}

func (b *burst) readCall(off int64, length int) *conn.Call {
	call := b.open.client.request(wire.TypeData)
	call.Request = wire.Read{Handle: b.open.handle, Offset: uint64(off),
		Length: uint32(length)}.Append(call.Scratch(), 0)
	call.Bytes = length
	return call
}

// readReply takes one reply of ReadClose.
func readReply(call *conn.Call, size int, memory func() []byte) error {
	ended := call.Err == nil && call.Type == wire.TypeStatus && call.Status.Code == wire.EOF
	switch call.Tag {
	case burstData:
		switch {
		case ended:
			return ErrOtherSize
		case call.Err != nil || call.Type == wire.TypeStatus:
			return failed(call)
		case len(call.Body) != size:
			return ErrOtherSize // or the server gives less at once
		}
		copy(memory(), call.Body)
	case burstEnd:
		switch {
		case ended:
		case call.Err != nil || call.Type == wire.TypeStatus:
			return failed(call)
		default:
			return ErrOtherSize
		}
	default:
		return call.Err
	}
	return nil
}
