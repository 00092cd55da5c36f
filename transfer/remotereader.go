package transfer

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/usftp/usftp/internal/hashpipe"

	"github.com/usftp/usftp"
)

// remoteReader reads a file on a host. Data read in order, by Read or ReadAt, comes from a stream
// that runs ahead of its reader; other ReadAts make their own requests. It is for one goroutine.
type remoteReader struct {
	file    *usftp.File
	off     int64 // of the next Read
	stream  io.ReadCloser
	at      int64                // of the stream
	lanes   func(int64) *striper // opens further handles for a stream at an offset, or nil
	striper *striper             // of the stream
	guard   int64                // nothing is read beyond it
	mixed   error                // the first failed proof of a stream's handles

	racy   *racySource // about what a target on another host reads, or nil
	prefix *prefixHash // everything such a target reads, nil unless needed
}

// feed gives what was read at an offset to those that hash it.
func (r *remoteReader) feed(data []byte, off int64) {
	r.racy.feed(data, off)
	r.prefix.feed(data, off)
}

// writer returns a writer that feeds what w is given, starting at an offset.
func (r *remoteReader) writer(w io.Writer, off int64) io.Writer {
	if r.racy == nil && r.prefix == nil {
		return w
	}
	return hashpipe.Tee(w, r.feed, off)
}

func (r *remoteReader) Read(p []byte) (int, error) {
	n, err := r.next(r.off).Read(p)
	if err := checkGuard(r.guard, r.off, n); err != nil {
		return 0, ofSource(err)
	}
	r.feed(p[:n], r.off)
	r.at += int64(n)
	r.off += int64(n)
	return n, ofSource(err)
}

// ReadAt is for callers who read everything once in order, starting anywhere, and reread a few
// pieces.
func (r *remoteReader) ReadAt(p []byte, off int64) (n int, err error) {
	if r.stream != nil && r.at != off {
		n, err = r.file.ReadAt(p, off)
	} else {
		n, err = io.ReadFull(r.next(off), p)
		r.feed(p[:n], off)
		r.at += int64(n)
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
	}
	if err := checkGuard(r.guard, off, n); err != nil {
		return 0, ofSource(err)
	}
	return n, ofSource(err)
}

// next returns a stream that continues at an offset.
func (r *remoteReader) next(off int64) io.Reader {
	if r.stream == nil || r.at != off {
		r.end()
		read := r.file.ReadRange
		if r.lanes != nil {
			if r.striper = r.lanes(off); r.striper != nil {
				read = r.striper.stripes.ReadRange
			}
		}
		r.stream, r.at = read(off, -1), off
	}
	return r.stream
}

// end closes the stream.
func (r *remoteReader) end() {
	if r.stream != nil {
		r.stream.Close()
		r.stream = nil
	}
	if r.striper != nil {
		if err := r.striper.prove(); err != nil && r.mixed == nil {
			r.mixed = err
		}
		r.striper.stop()
		r.striper = nil
	}
}

// Seek sets the offset of the next Read. It cannot seek from the end.
func (r *remoteReader) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += r.off
	case io.SeekEnd:
		return r.off, ofSource(errors.ErrUnsupported)
	}
	r.off = off
	if r.at != off { // otherwise the stream is already at the right place
		r.end()
	}
	_, err := r.file.Seek(off, io.SeekStart)
	return off, ofSource(err)
}

// A server that sends more of a file than it announced could fill the disk with a file that looked
// small. A file that has grown makes no valid copy anyway, so what goes far beyond its size is
// refused. Files without a size, as in /proc, may have any length.

// mostGrown is how far a file is read beyond its size. A file that has grown a little is read to
// its end, so that the error can say to what size.
const mostGrown = 1 << 20

// sizeGuard returns the offset beyond which a source of this size is not read.
func sizeGuard(size int64) int64 {
	if size <= 0 || size > math.MaxInt64-mostGrown {
		return math.MaxInt64
	}
	return size + mostGrown
}

// checkGuard fails if n bytes at an offset go beyond a guard.
func checkGuard(guard, off int64, n int) error {
	if off > guard-int64(n) {
		return fmt.Errorf("%w: there is more than the %d bytes that it had", ErrSourceChanged,
			guard-mostGrown)
	}
	return nil
}

type guarded struct {
	io.Writer
	at, guard int64
}

func (w *guarded) Write(p []byte) (int, error) {
	if err := checkGuard(w.guard, w.at, len(p)); err != nil {
		return 0, err
	}
	n, err := w.Writer.Write(p)
	w.at += int64(n)
	return n, err
}

type guardedAt struct {
	io.WriterAt
	guard int64
}

func (w guardedAt) WriteAt(p []byte, off int64) (int, error) {
	if err := checkGuard(w.guard, off, len(p)); err != nil {
		return 0, err
	}
	return w.WriterAt.WriteAt(p, off)
}
