package ui

import (
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
	return newDetached(ctx, a.Stdin.Read)
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

// output is standard output for what a command prints. It keeps the first write error, so that the
// exit code reflects it whatever the command does with the error.
type output struct {
	file *os.File
	row  *rowOutput // of one host among several, instead of file

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
	n, err := 0, error(nil)
	if o.row != nil {
		n, err = o.row.Write(p)
	} else {
		n, err = o.file.Write(p)
	}
	if err == nil {
		return n, nil
	}
	if !errors.As(err, &o.err) {
		o.err = &OutputError{err: err}
	}
	if o.failed != nil {
		o.failed(o.err)
	}
	return n, o.err
}

// StopWhenLost calls stop after a failed write, for commands whose purpose is their output.
func (o *output) StopWhenLost(stop func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = stop
}

// Close closes the file and returns the first error of all writes. Some file systems report only at
// this point that they could not store the data.
func (o *output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.row != nil {
		o.row.flush()
		return nil
	}
	if o.wrote && o.err == nil {
		if err := o.file.Close(); err != nil {
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
	var output *OutputError
	return errors.As(err, &output) && errors.Is(output.err, syscall.EPIPE)
}

// A detached stream runs Read or Write, which may wait forever for another program or a person, on
// a separate goroutine with a separate buffer, so that the wait can end with the context. An
// abandoned call ends with the program.
type detached struct {
	ctx  context.Context
	do   func([]byte) (int, error)
	buf  []byte
	work chan []byte
	done chan result
}

type result struct {
	n   int
	err error
}

// detachedBuffer is as large as a pipe's.
const detachedBuffer = 64 << 10

func newDetached(ctx context.Context, do func([]byte) (int, error)) *detached {
	return &detached{ctx: ctx, do: do}
}

// start starts the goroutine at the first call, and makes sure that the stream is still usable.
func (d *detached) start() error {
	if d.ctx.Err() != nil { // an abandoned call may be using the buffer
		return context.Cause(d.ctx)
	}
	if d.work != nil {
		return nil
	}
	d.buf, d.work, d.done = make([]byte, detachedBuffer), make(chan []byte), make(chan result, 1)
	go func() {
		for {
			select {
			case p := <-d.work:
				n, err := d.do(p)
				d.done <- result{n, err}
			case <-d.ctx.Done():
				return
			}
		}
	}()
	return nil
}

// run handles one piece of at most len(d.buf) bytes.
func (d *detached) run(n int) result {
	select {
	case d.work <- d.buf[:n]:
	case <-d.ctx.Done():
		return result{0, context.Cause(d.ctx)}
	}
	select {
	case r := <-d.done:
		return r
	case <-d.ctx.Done():
		return result{0, context.Cause(d.ctx)}
	}
}

func (d *detached) Read(p []byte) (int, error) {
	if err := d.start(); err != nil {
		return 0, err
	}
	r := d.run(min(len(p), len(d.buf)))
	return copy(p, d.buf[:r.n]), r.err
}

func (d *detached) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if err := d.start(); err != nil {
			return written, err
		}
		n := copy(d.buf, p)
		r := d.run(n)
		written += r.n
		if r.err != nil {
			return written, &OutputError{err: r.err}
		}
		p = p[n:]
	}
	return written, nil
}

var _ io.ReadWriter = (*detached)(nil)
