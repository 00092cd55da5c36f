package transfer

import (
	"errors"
	"io"

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
	return &feedingWriter{w, r.feed, off}
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
