package usftp

import (
	"context"
	"io"
	"io/fs"
	"os"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// operation is one request with what is needed to wait for it, to read its reply and to say what failed. Every operation of the
// package that is one request is made as such a value, and then run, or started.
type operation[T any] struct {
	name    string // for errors: "open"
	path    string
	newPath string // where there are two
	call    *conn.Call
	result  func(*conn.Call) (T, error)
}

// run sends the operation and waits for its result.
func run[T any](ctx context.Context, s *session, op operation[T]) (T, error) {
	err := s.conn.Do(ctx, op.call)
	if err != nil {
		var none T
		return none, op.wrap(err) // the call may still be the connection's: it is not used again
	}
	return finish(s, op)
}

// finish takes the result from a call that is complete.
func finish[T any](s *session, op operation[T]) (result T, err error) {
	if err = op.call.Err; err == nil {
		err = replyError(op.call)
	}
	if err == nil && op.result != nil {
		result, err = op.result(op.call)
	}
	s.conn.Recycle(op.call)
	return result, op.wrap(err)
}

// Pending is the result of an operation that has been started.
type pending[T any] struct {
	session *session
	op      operation[T]
	done    chan struct{}
	value   T
	err     error
}

// start sends the operation without waiting for its result, but where the budget of requests is full.
func start[T any](ctx context.Context, s *session, op operation[T]) *pending[T] {
	p := &pending[T]{session: s, op: op, done: make(chan struct{})}
	op.call.Done = p
	if err := s.conn.Start(ctx, op.call); err != nil {
		p.err = op.wrap(err)
		close(p.done)
	}
	return p
}

// Complete is called by the connection.
func (p *pending[T]) Complete(*conn.Call) {
	p.value, p.err = finish(p.session, p.op)
	close(p.done)
}

// wait waits for the result, or until ctx is done.
func (p *pending[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-p.done:
		return p.value, p.err
	case <-ctx.Done():
		var none T
		return none, p.op.wrap(context.Cause(ctx))
	}
}

// wrap names the operation and its file. End of file stays bare, as everybody compares it.
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

// request makes a call whose request is of a type that has been appended to the call's scratch memory.
func (s *session) request(expect wire.Type) *conn.Call {
	call := s.conn.NewCall()
	call.Expect = expect
	return call
}

// discard is the Completer of a call whose reply nobody wants.
type discard struct{ session *session }

func (d discard) Complete(call *conn.Call) { d.session.conn.Recycle(call) }

// parse adapts a message's Parse to an error that says which reply was broken.
func parse(err error) error {
	if err != nil {
		return &ProtocolError{What: err.Error()}
	}
	return nil
}
