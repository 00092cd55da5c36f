package objectfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// longestSilence is how long a Read waits for the storage to send something.
const longestSilence = time.Minute

var errSilent = errors.New("the storage has sent nothing for a minute, in the middle of an" +
	" object: see to it, and try again")

// body is the storage's answer to a GET. It fails if the storage falls silent, even with the
// connection open, and if it ends too early, which must not look like the end of the file.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	left   int64
}

// get requests a range of an object.
func (f *FS) get(ctx context.Context, o *Object, offset, length int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	from, err := f.bucket.Get(ctx, o.Key, o.ETag, offset, length)
	if err == nil {
		if err = f.same(ctx, from, o); err != nil {
			from.Close()
		}
	}
	if err != nil {
		cancel(nil)
		switch {
		case errors.Is(err, io.EOF): // of the connection
			err = fmt.Errorf("%v: %w", err, io.ErrUnexpectedEOF)
		case absent(err): // it was there when the file was opened
			err = ErrPrecondition
		}
		return nil, err
	}
	b := &body{ReadCloser: from, ctx: ctx, cancel: cancel, left: length}
	b.timer = time.AfterFunc(longestSilence, func() { cancel(errSilent) })
	b.timer.Stop()
	return b, nil
}

// same returns ErrPrecondition if the storage sends an object other than o. An object that is only
// newer may have the same contents, so its ETag decides.
func (f *FS) same(ctx context.Context, from io.ReadCloser, o *Object) error {
	d, ok := from.(Described)
	if !ok {
		return nil
	}
	switch size, modified := d.Describe(); {
	case size != o.Size:
		return ErrPrecondition
	case modified.Equal(o.Modified):
		return nil
	}
	return f.unchanged(ctx, *o)
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(longestSilence)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	b.left -= int64(n)
	switch {
	case err == nil:
	case context.Cause(b.ctx) == errSilent:
		err = errSilent
	case err == io.EOF && b.left > 0:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
