package transfer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
)

// leastHole is the smallest hole that is left out. A smaller one saves less than it costs to split
// a request around it.
const leastHole = 64 << 10

// sparseSource is a local file whose holes are skipped.
type sparseSource struct {
	copy  *fileCopy
	file  *os.File
	data  io.ReaderAt // of the file
	holes *localfs.Holes
	size  int64

	from, to int64 // the hole found last
}

// mostLooks limits the search for the first hole.
const mostLooks = 1000

// findHoles returns a source whose holes are skipped, nil if it has none or they must be sent:
// unwritten parts read as zeros only in a new file that nobody else writes.
func findHoles(c *fileCopy, in input) *sparseSource {
	data := in.contents()
	file, ok := data.(*os.File)
	if shared, isShared := data.(*sharedFile); isShared {
		file, ok = shared.own.(*os.File)
	}
	if !ok || c.result.InPlace || c.flags.dense {
		return nil
	}
	holes := localfs.FindHoles(file)
	if holes == nil {
		return nil
	}
	s := &sparseSource{copy: c, file: file, data: data, holes: holes, size: in.facts().size}
	off := c.result.Resumed
	for range mostLooks {
		to, hole := s.extent(off)
		if hole {
			return s
		}
		if off = to; off >= s.size { // no holes, merely stored compactly
			s.file.Seek(c.result.Resumed, io.SeekStart)
			return nil
		}
	}
	return s
}

// Extent implements private.SparseReaderAt. Under a rate limit data is read and sent piece by
// piece.
func (s *sparseSource) Extent(off int64) (to int64, hole bool) {
	to, hole = s.extent(off)
	if l := s.copy.limiter; l != nil && !hole {
		to = min(to, off+int64(l.piece))
	}
	return to, hole
}

// extent counts the last byte as data, so that writing it sets the file's size.
func (s *sparseSource) extent(off int64) (to int64, hole bool) {
	if s.from <= off && off < s.to {
		return s.to, true
	}
	for to = off; to-off < 1<<20; {
		end, hole := s.holes.Extent(to)
		if end = min(end, s.size-1); !hole && end >= s.size-1 || end <= to {
			return math.MaxInt64, false
		}
		if !hole || end-to < leastHole {
			to = end
			continue
		}
		if to > off {
			return to, false
		}
		s.from, s.to = off, end
		return end, true
	}
	return to, false
}

func (s *sparseSource) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.data.ReadAt(p, off)
	s.copy.hashing.pipe.feedAt(p[:n], off) // the pipe reads holes by itself
	if waitErr := s.copy.limiter.wait(n); waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

// errParts reports that a server does not write data at the offset it was sent for, or accepts no
// WRITE beyond the end of the file.
var errParts = errors.New("the host does not accept a file in parts")

// sendSparse copies a file without its holes.
func (o *remoteOutput) sendSparse(c *fileCopy, s *sparseSource) (int64, error) {
	n, err := o.sendParts(c, s)
	resumed, joined := c.result.Resumed, c.result.Stripes
	if err != nil {
		safe := max(0, s.holes.DataBefore(resumed+n)-resumed)
		if refused(err) && safe < n { // it failed after a hole
			err = errParts
		}
		return safe, err // the hole before what is missing may not have been created
	}
	info, err := o.file.Stat()
	switch {
	case err != nil && !refused(err):
		return n, err
	case err != nil || info.Size() != s.size && joined == 0:
		return n, errParts
	case info.Size() != s.size:
		return n, notJoined(info.Size(), s.size)
	}
	return n, nil
}

// sendParts sends the data, over several handles if there is enough of it; holes do not count.
func (o *remoteOutput) sendParts(c *fileCopy, s *sparseSource) (n int64, err error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	if !o.session.worthStriping(c, localfs.Stored(info), false) {
		return private.NewStripes(o.file).ReadFromAt(s)
	}
	o.striper = o.session.stripe(c, o.file, os.O_WRONLY, c.result.Resumed, s.size, 0) // until seal
	n, err = o.striper.stripes.ReadFromAt(s)
	c.result.Stripes = o.striper.stripes.Joined()
	return n, err
}

// sparseFile is a local file in which blocks of zeros become holes.
type sparseFile struct {
	file *os.File
	over bool // it was not empty
}

func (s sparseFile) WriteAt(p []byte, off int64) (int, error) {
	if s.over {
		return localfs.WriteSparseOver(s.file, p, off)
	}
	return localfs.WriteSparse(s.file, p, off)
}

// A sink is how data reaches a target on this machine: a stream, or a regular file that can be
// written at any offset.
type sink struct {
	io.Writer
	file   *os.File // nil unless it is a regular file
	reread reopen   // opens the file for reading, nil unless it is a regular file
	over   bool     // the file is an old one that is written over

	// old opens the file to be replaced, nil if there is none
	old func() (*os.File, error)
}

// open returns the writers to use, for data in order and in any order. Blocks of zeros become holes
// if Options.Sparse is set.
func (s sink) open(c *fileCopy) (io.Writer, io.WriterAt, error) {
	if s.file == nil {
		return s.Writer, nil, nil
	}
	if !c.options.Sparse {
		return s.file, s.file, nil
	}
	if c.size > 0 { // a hash may read from it before all has arrived
		if err := s.end(c, c.size); err != nil {
			return nil, nil, err
		}
	}
	sparse := sparseFile{s.file, s.over}
	return io.NewOffsetWriter(sparse, c.result.Resumed), sparse, nil
}

// end sets the file's size, since it may end in a hole. An old file that is longer is truncated
// only when the copy is sealed.
func (s sink) end(c *fileCopy, size int64) error {
	if s.file == nil || !c.options.Sparse {
		return nil
	}
	if s.over {
		if info, err := s.file.Stat(); err != nil || info.Size() >= size {
			return err
		}
	}
	return s.file.Truncate(size)
}

// small writes a file held in memory.
func (s sink) small(c *fileCopy, data []byte) error {
	if s.file == nil || !c.options.Sparse {
		_, err := s.Write(data)
		return err
	}
	if _, err := (sparseFile{s.file, s.over}).WriteAt(data, 0); err != nil {
		return err
	}
	return s.end(c, int64(len(data)))
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
