package usftp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// operation is a request with everything needed to wait for it, parse its reply and name it in
// errors. Every operation of the package that is a single request is such a value. It is run or
// started (see [Pending]), so the asynchronous form of an operation is the same value.
type operation[T any] struct {
	session *session
	name    string // for errors: "open"
	path    string
	newPath string // if there are two
	call    *conn.Call
	err     error                       // why it cannot even be sent
	result  func(*conn.Call) (T, error) // the error may be unfinished

	// instead returns the request to send after a refusal, or nil if the refusal stands: the
	// protocol has too few codes to give reasons, and servers refuse different things.
	instead func(refusal error) *operation[T]
	// refused is the first operation's refusal, to return if the server refuses this one too, or
	// settled, with the result that there is in any case.
	refused error
	// file is a file whose write-behind must be flushed before this is sent: a later WRITE would
	// undo the effect of this, or be missing from its result.
	file *File
	// orSuccess accepts a STATUS of OK besides the expected type.
	orSuccess bool
	// looks marks a question to which FAILURE means that the name does not exist.
	looks bool
	// orEOF turns a STATUS of EOF into io.EOF; for other operations it is a refusal.
	orEOF bool
}

// unfinished stands for the error of a result that another request completes. It is not a field of
// the operation, nor is settled: thousands of files in flight have operations on their stacks.
type unfinished[T any] struct{ next *operation[T] }

func (unfinished[T]) Error() string { return "another request follows" }

// settled stands for a refusal that leaves the result as it is.
type settled[T any] struct{ result T }

func (settled[T]) Error() string { return "the result is known" }

// fail makes the operation fail before anything is sent, unless err is nil.
func (op operation[T]) fail(err error) operation[T] {
	if err == nil {
		return op
	}
	if op.call != nil {
		op.session.conn.Recycle(op.call)
		op.call = nil
	}
	op.err = err
	return op
}

// on sets the handle that the operation uses.
func (op operation[T]) on(handle *conn.Handle) operation[T] {
	if op.call != nil {
		op.call.Handle = handle
	}
	return op
}

// after makes run flush the data written behind to a file before it sends the operation.
func (op operation[T]) after(f *File) operation[T] {
	op.file = f
	return op
}

// unlessWanted sends what undoes the operation if that succeeds after its caller has gone, who does
// not know the name that it made.
func (op operation[T]) unlessWanted(undo func() operation[none]) operation[T] {
	if op.err != nil {
		return op
	}
	s, orphan := op.session, op.call.Orphan
	op.call.Orphan = func(call *conn.Call) {
		if orphan != nil {
			orphan(call)
		}
		if call.Type != wire.TypeStatus || call.Status.Code == wire.OK {
			back := undo()
			back.call.Done = discard{s}
			s.conn.TryStart(back.call, true)
		}
	}
	return op
}

// run sends the operation and waits for its result.
func run[T any](ctx context.Context, op operation[T]) (nothing T, err error) {
	if op.file != nil && op.err == nil {
		if err := op.file.flushBehind(); err != nil {
			op.session.conn.Recycle(op.call)
			return nothing, err
		}
	}
	for {
		if op = op.fail(op.err); op.err != nil {
			return nothing, op.wrap(op.err)
		}
		if err := op.session.conn.Do(ctx, op.call); err != nil {
			// The call may still be the connection's: do not use it again.
			return nothing, op.wrap(err)
		}
		result, next, err := op.finish()
		if next == nil {
			return result, err
		}
		op = *next
	}
}

// finish takes the result from a complete call, or returns the next operation to try instead.
func (op *operation[T]) finish() (result T, next *operation[T], err error) {
	call := op.call
	refusal := replyError(call)
	if op.orSuccess && call.Type == wire.TypeStatus && call.Status.Code == wire.OK {
		refusal = nil
	}
	if op.looks && errors.Is(refusal, ErrSSHFxFailure) {
		refusal = &StatusError{Code: uint32(wire.NoSuchFile), Message: call.Status.Message}
	}
	switch {
	case call.Err != nil:
		err = call.Err
	case refusal != nil:
		if op.instead != nil {
			next = op.instead(refusal)
		}
		err = cmp.Or(op.refused, op.session.whyNotOpened(op.name, refusal))
		if known, ok := err.(settled[T]); ok {
			result, err = known.result, nil
		}
		if op.orEOF && call.Status.Code == wire.EOF {
			err = io.EOF
		}
	case op.result != nil:
		result, err = op.result(call)
		if more, ok := err.(unfinished[T]); ok {
			next, err = more.next, nil
		}
	}
	op.session.conn.Recycle(call)
	return result, next, op.wrap(err)
}

// do runs an operation that has no result.
func (c *Client) do(op operation[none]) error {
	_, err := run(c.ctx, op)
	return err
}

func (f *File) do(op operation[none]) error {
	_, err := run(f.ctx, op)
	return err
}

// wrap adds the operation and its file. io.EOF stays bare, since everybody compares it.
func (op *operation[T]) wrap(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case op.newPath != "":
		return &os.LinkError{Op: op.name, Old: op.path, New: op.newPath, Err: err}
	default:
		return &fs.PathError{Op: op.name, Path: op.path, Err: err}
	}
}

// request returns a call that expects a type of reply, without its message.
func (s *session) request(expect wire.Type) *conn.Call {
	call := s.conn.NewCall()
	call.Expect = expect
	return call
}

// readCall makes a READ.
func (s *session) readCall(handle *conn.Handle, off int64, length int) *conn.Call {
	call := s.request(wire.TypeData)
	call.Handle = handle
	call.Request = wire.Read{Handle: handle.Name, Offset: uint64(off),
		Length: uint32(length)}.Append(call.Scratch(), 0)
	call.Bytes = length
	return call
}

// writeCall makes a WRITE with a copy of p.
func (s *session) writeCall(handle *conn.Handle, off int64, p []byte) *conn.Call {
	block := s.conn.Pool().Get(wire.WriteHeaderSize(len(handle.Name)) + len(p))
	call := s.request(wire.TypeStatus)
	call.Handle = handle
	call.Request = wire.Write{Handle: handle.Name, Offset: uint64(off),
		Data: p}.Append(block.Bytes()[:0], 0)
	call.Payload = block
	call.Bytes = len(p)
	return call
}

// handleCall makes a request with a handle and nothing else.
func (s *session) handleCall(t wire.Type, handle *conn.Handle, expect wire.Type) *conn.Call {
	call := s.request(expect)
	call.Handle = handle
	call.Request = wire.HandleRequest{Type: t, Handle: handle.Name}.Append(call.Scratch(), 0)
	return call
}

// appender is a message that can be appended as a packet.
type appender interface {
	Append(b []byte, id uint32) []byte
}

// ask makes an operation from a message.
func ask[T any](s *session, op, name string, expect wire.Type, message appender,
	result func(*conn.Call) (T, error)) operation[T] {
	call := s.request(expect)
	o := operation[T]{session: s, name: op, path: name, call: call, result: result}
	if o.err = s.refusesName(name); o.err != nil {
		return o
	}
	encoded := message
	if s.options.names != nil {
		if encoded, o.err = s.encoded(message); o.err != nil {
			return o
		}
	}
	call.Request = encoded.Append(call.Scratch(), 0)
	if s.above != nil {
		call.Request = s.beneath(message, call.Request)
	}
	o.err = s.refusesLength(name, call.Request)
	return o
}

// errNUL is about a name that no system has. OpenSSH's server ends the session when it gets one,
// and with it everything else that is in flight.
var errNUL error = invalidError("the name contains a NUL")

// refusesName returns the error for a name that is not sent. Names in another encoding are checked
// when they are encoded.
func (s *session) refusesName(name string) error {
	if s.options.names == nil && strings.Contains(name, "\x00") {
		return errNUL
	}
	return nil
}

// everyPacket is the length of a packet that every server takes (draft-02, section 3).
const everyPacket = 34000

var errTooLongRequest error = invalidError("the request would be longer than the server takes")

// refusesLength returns the error for a request that is longer than the server takes, which would
// end the session, as a NUL does. Of servers that state no limit, the common ones take
// wire.MaxPacket; no system has names that need more than everyPacket.
func (s *session) refusesLength(name string, request []byte) error {
	length := uint64(len(request) - wire.LengthSize)
	if length <= everyPacket {
		return nil
	}
	s.mu.Lock()
	limit := s.limits.MaxPacket
	s.mu.Unlock()
	if limit == 0 && name == "" {
		limit = wire.MaxPacket
	}
	if length > limit {
		return errTooLongRequest
	}
	return nil
}

// none is the result of an operation without one.
type none = struct{}

// command returns an operation that is answered by a STATUS.
func (s *session) command(op, name string, message appender) operation[none] {
	return ask[none](s, op, name, wire.TypeStatus, message, nil)
}

// command2 is like command, with two names.
func (s *session) command2(op, oldname, newname string, message appender) operation[none] {
	o := s.command(op, oldname, message)
	o.newPath = newname
	o.err = cmp.Or(o.err, s.refusesName(newname))
	return o
}

// offered reports whether the server offers an extension in the version that this package speaks.
func (s *session) offered(extension string) bool {
	version := "1"
	switch extension {
	case wire.ExtStatVFS, wire.ExtFstatVFS, wire.ExtBeneath:
		version = "2"
	}
	return s.offers[extension] == version
}

// needs makes an operation fail at once if the server lacks the extension.
func (op operation[T]) needs(extension string) operation[T] {
	if op.session.offered(extension) {
		return op
	}
	return op.fail(&unsupported{extension})
}

// discard is the Completer of a call whose reply is not needed.
type discard struct{ session *session }

func (d discard) Complete(call *conn.Call) { d.session.conn.Recycle(call) }

// parse wraps an error of a message's Parse.
func parse(err error) error {
	if err != nil {
		return &ProtocolError{What: err.Error()}
	}
	return nil
}

// orExists looks into a refusal that says nothing but FAILURE: version 3 has no code for a name
// that exists, and callers that create something need to know.
func (op operation[T]) orExists(name string) operation[T] {
	op.instead = lookedInto[T](op.session, op.name, op.path, op.newPath, name)
	return op
}

// lookedInto is separate from orExists so that the closure does not keep the operation.
func lookedInto[T any](s *session, op, path, newPath, name string) func(error) *operation[T] {
	return func(refusal error) *operation[T] {
		if !errors.Is(refusal, ErrSSHFxFailure) {
			return nil
		}
		look := ask(s, op, path, wire.TypeAttrs, wire.PathRequest{Type: wire.TypeLstat, Path: name},
			func(*conn.Call) (nothing T, err error) { return nothing, &existsError{refusal} })
		look.newPath, look.refused = newPath, refusal
		return &look
	}
}
