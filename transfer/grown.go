package transfer

import (
	"fmt"
	"io"
	"math"
)

// A server that sends more of a file than it has said could fill a disk with a file that looked
// small. A file that has grown is no copy in the end in any case; so what goes much beyond the size
// that it had is not taken. Files of no size, as those of /proc, may have any.

// mostGrown is how far a file is read beyond its size: that it has grown, and to what, is said
// better when all has come.
const mostGrown = 1 << 20

// grownBound returns where a source of a size is read to at most.
func grownBound(size int64) int64 {
	if size <= 0 || size > math.MaxInt64-mostGrown {
		return math.MaxInt64
	}
	return size + mostGrown
}

// within returns an error where n bytes at an offset lie beyond a bound.
func within(bound, off int64, n int) error {
	if off > bound-int64(n) {
		return fmt.Errorf("%w: more comes than the %d bytes that it had", ErrSourceChanged,
			bound-mostGrown)
	}
	return nil
}

// boundedWriter is a sink that takes so many bytes, and boundedWriterAt one that takes them in any
// order.
type (
	boundedWriter struct {
		io.Writer
		at, bound int64
	}
	boundedWriterAt struct {
		io.WriterAt
		bound int64
	}
)

func (w *boundedWriter) Write(p []byte) (int, error) {
	if err := within(w.bound, w.at, len(p)); err != nil {
		return 0, err
	}
	n, err := w.Writer.Write(p)
	w.at += int64(n)
	return n, err
}

func (w boundedWriterAt) WriteAt(p []byte, off int64) (int, error) {
	if err := within(w.bound, off, len(p)); err != nil {
		return 0, err
	}
	return w.WriterAt.WriteAt(p, off)
}

// boundWriter keeps a download from taking much more than the source's size.
func (r *run) boundWriter(sink io.Writer) io.Writer {
	return &boundedWriter{sink, r.result.Resumed, grownBound(r.size)}
}

func (r *run) boundWriterAt(sink io.WriterAt) io.WriterAt {
	return boundedWriterAt{sink, grownBound(r.size)}
}
