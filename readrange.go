package usftp

import (
	"context"
	"io"
	"io/fs"
	"math"

	"github.com/usftp/usftp/internal/flow"
)

// ReadRange returns a reader of length bytes of the file at an offset, or of all to its end where
// length is below 0. It is [File.WriteTo] for who wants to read and not to be written to: from the
// beginning as much is under way as the link holds, and what has come waits for the reader, within
// the client's budget. Where the file ends before, Read gives an error for which errors.Is(err,
// io.ErrUnexpectedEOF) holds.
//
// Close ends it, and must be called; the file stays open. The file's offset does not move. Several
// may be in use at a time.
func (f *File) ReadRange(off, length int64) io.ReadCloser {
	return f.readRangeOver(off, length, nil)
}

// readRangeOver is ReadRange over the handles that join stripes too, where it is not nil.
func (f *File) readRangeOver(off, length int64, stripes *stripes) io.ReadCloser {
	ctx, cancel := context.WithCancel(f.ctx)
	pipe, w := io.Pipe()
	r := &rangeReader{PipeReader: pipe, cancel: cancel, done: make(chan struct{})}
	go func() { // ends with the range, or with Close
		defer close(r.done)
		w.CloseWithError(f.WithContext(ctx).readRange(w, off, length, stripes))
	}()
	return r
}

// rangeReader is what ReadRange returns.
type rangeReader struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close waits for the goroutine, which uses the file's handle.
func (r *rangeReader) Close() error {
	r.PipeReader.Close()
	r.cancel()
	<-r.done
	return nil
}

// readRange gives a range of the file to a writer in order.
func (f *File) readRange(w io.Writer, off, length int64, stripes *stripes) error {
	if off < 0 {
		return f.wrap("read", fs.ErrInvalid)
	}
	if _, err := f.opened("read"); err != nil {
		return err
	}
	limit, size := int64(math.MaxInt64), f.expectedSize()
	if length >= 0 {
		limit, size = off+min(length, math.MaxInt64-off), flow.Unknown
	}
	n, err := f.downloadOver("read", off, limit, size, func(p []byte) error {
		_, err := w.Write(p)
		return err
	}, func(int64) {}, stripes)
	if err == nil && length >= 0 && n < length {
		err = f.wrap("read", io.ErrUnexpectedEOF)
	}
	return err
}
