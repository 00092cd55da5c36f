package ui

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// StandardInput returns the reader for "-".
func (a *App) StandardInput(ctx context.Context) io.Reader {
	info, err := a.Stdin.Stat()
	if err == nil && info.Mode().IsRegular() {
		if at, err := a.Stdin.Seek(0, io.SeekCurrent); err == nil {
			return sizedFile{a.Stdin, int(max(0, info.Size()-at))}
		}
		return a.Stdin
	}
	return newDetached(ctx, func(p []byte) (int, error) {
		n, err := a.Stdin.Read(p)
		if err == io.EOF { // or a signal to all of a pipeline has ended the program that writes
			err = cmp.Or(a.ending(ctx, 2*sameWish), err)
		}
		return n, err
	})
}

// sizedFile is a file that knows how many bytes are left in it.
type sizedFile struct {
	*os.File
	left int
}

// Len returns how many bytes are left; see package transfer's Reader.
func (f sizedFile) Len() int { return f.left }

// StandardOutput returns the writer for "-".
func (a *App) StandardOutput(ctx context.Context) io.Writer {
	info, err := a.Stdout.Stat()
	if err == nil && info.Mode().IsRegular() {
		return a.Stdout
	}
	return newDetached(ctx, a.Stdout.Write)
}

// output is standard output for a command's results. It keeps the first write error, so that the
// exit code reflects it whatever the command does with the error.
type output struct {
	w io.WriteCloser

	mu     sync.Mutex
	wrote  bool
	err    *OutputError
	failed func(error) // called once, with the first error
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	o.wrote = true
	n, err := o.w.Write(p)
	if err == nil {
		return n, nil
	}
	return n, o.fail(err)
}

func (o *output) fail(err error) error {
	if !errors.As(err, &o.err) {
		o.err = &OutputError{err: err}
	}
	if o.failed != nil {
		o.failed(o.err)
	}
	return o.err
}

// CheckReader fails like a write if the reader of a pipe has gone, for a command that may not write
// for a long time.
func (o *output) CheckReader() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, ok := o.w.(*os.File); ok && o.err == nil && readerGone(f) {
		o.fail(syscall.EPIPE)
	}
}

// WhileHeard returns a context that a failed write ends, for commands whose purpose is their
// output.
func (o *output) WhileHeard(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = cancel
	return ctx, func() { cancel(nil) }
}

// Close closes the file and returns the first error of all writes. Some file systems report only at
// this point that they could not store the data.
func (o *output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wrote && o.err == nil {
		if err := o.w.Close(); err != nil {
			o.err = &OutputError{err: err}
		}
	}
	if o.err == nil {
		return nil
	}
	return o.err
}

// An OutputError reports a failed write to standard output.
type OutputError struct{ err error }

func (e *OutputError) Error() string {
	return "cannot write to standard output: " + ReasonOf(e.err)
}

func (e *OutputError) Unwrap() error { return e.err }

// ReaderGone reports whether err means that the reader of standard output closed it, as head does.
// That needs no message.
func ReaderGone(err error) bool {
	output, ok := errors.AsType[*OutputError](err)
	return ok && errors.Is(output.err, syscall.EPIPE)
}

// Await returns f's results, or the cause of ctx if that ends first. A read from a pipe or a
// terminal may wait forever for another program or a person, and not every system can interrupt it:
// f is then left behind, and ends with the program.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// A detached stream awaits each Read or Write. It has a buffer of its own, which an abandoned call
// may still be using.
type detached struct {
	ctx context.Context
	do  func([]byte) (int, error)
	buf []byte
}

// detachedBuffer is as large as a pipe's.
const detachedBuffer = 64 << 10

func newDetached(ctx context.Context, do func([]byte) (int, error)) *detached {
	return &detached{ctx, do, make([]byte, detachedBuffer)}
}

// run handles one piece of at most len(d.buf) bytes.
func (d *detached) run(n int) (int, error) {
	if d.ctx.Err() != nil {
		return 0, context.Cause(d.ctx)
	}
	return Await(d.ctx, func() (int, error) { return d.do(d.buf[:n]) })
}

func (d *detached) Read(p []byte) (int, error) {
	n, err := d.run(min(len(p), len(d.buf)))
	return copy(p, d.buf[:n]), err
}

func (d *detached) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		n, err := d.run(copy(d.buf, p))
		written += n
		if err != nil {
			return written, &OutputError{err: err}
		}
		p = p[n:]
	}
	return written, nil
}
