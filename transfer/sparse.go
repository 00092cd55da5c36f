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

// leastHole is the smallest hole that is not sent. What smaller ones save is less than what the
// requests cost that they would cut in two.
const leastHole = 64 << 10

// sparseSource is a local file that knows where its holes are.
type sparseSource struct {
	copy  *fileCopy
	file  *os.File
	data  io.ReaderAt // of the file
	holes *localfs.Holes
	size  int64

	from, to int64 // of the hole that was found last
}

// mostLooks limits the search for a first hole.
const mostLooks = 1000

// findHoles returns a source without its holes, nil if it has none or they must be sent: only in a
// file that was empty, and is nobody else's, what was not written reads as zeros.
func findHoles(c *fileCopy, in input) *sparseSource {
	data := in.contents()
	file, ok := data.(*os.File)
	if shared, isShared := data.(*sharedFile); isShared {
		file, ok = shared.file, true
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
		if off = to; off >= s.size { // it is only stored in less room
			s.file.Seek(c.result.Resumed, io.SeekStart)
			return nil
		}
	}
	return s
}

// Extent implements private.SparseReaderAt. Under a limit data is read, and sent, piece by piece.
func (s *sparseSource) Extent(off int64) (to int64, hole bool) {
	to, hole = s.extent(off)
	if l := s.copy.limiter; l != nil && !hole {
		to = min(to, off+int64(l.piece))
	}
	return to, hole
}

// extent counts the last byte as data, so that writing it gives the file its size.
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
	s.copy.hashing.pipe.feed(p[:n], off, off+int64(n)) // it reads holes by itself
	if waitErr := s.copy.limiter.wait(n); waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

// errParts reports that a server does not put what it gets where it belongs, or takes no WRITE
// behind the end.
var errParts = errors.New("the host does not accept a file in parts")

// sendSparse copies a file without its holes.
func (o *remoteOutput) sendSparse(c *fileCopy, s *sparseSource) (int64, error) {
	n, err := o.sendParts(c, s)
	resumed, joined := c.result.Resumed, c.result.Stripes
	if err != nil {
		safe := max(0, s.holes.DataBefore(resumed+n)-resumed)
		if refused(err) && safe < n { // it failed behind a hole
			err = errParts
		}
		return safe, err // without the hole in front of what is missing, which may not be there
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

// sendParts copies it over as many handles as help: by what has to be sent, not by its size.
func (o *remoteOutput) sendParts(c *fileCopy, s *sparseSource) (n int64, err error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	if !o.session.worthStriping(c, localfs.Stored(info), false) {
		return private.NewStripes(o.file).ReadFromAt(s)
	}
	o.striper = o.session.stripe(c, o.file, os.O_WRONLY, c.result.Resumed, s.size) // until seal
	n, err = o.striper.stripes.ReadFromAt(s)
	c.result.Stripes = o.striper.stripes.Joined()
	return n, err
}

// sparseFile is a local file in which blocks of zeros become holes. It must have been empty from off
// on.
type sparseFile struct {
	file *os.File
	off  int64 // of the next Write
}

func (s *sparseFile) Write(p []byte) (int, error) {
	n, err := localfs.WriteSparse(s.file, p, s.off)
	s.off += int64(n)
	return n, err
}

func (s *sparseFile) WriteAt(p []byte, off int64) (int, error) {
	return localfs.WriteSparse(s.file, p, off)
}

// A sink is what a target on this machine is written through: a stream, or a regular file that can
// be written anywhere.
type sink struct {
	io.Writer
	file   *os.File // nil unless it is a regular file
	reread reopen   // opens the file for reading, nil unless it is one

	// old opens the file that is replaced, nil if there is none
	old func() (*os.File, error)
}

// open returns what to write to, in order or in any order. Zeros become holes if that is asked for.
func (s sink) open(c *fileCopy) (io.Writer, io.WriterAt, error) {
	if s.file == nil {
		return s.Writer, nil, nil
	}
	if !c.options.Sparse {
		return s.file, s.file, nil
	}
	if c.size > 0 { // what is hashed may be read from it
		if err := s.file.Truncate(c.size); err != nil {
			return nil, nil, err
		}
	}
	sparse := &sparseFile{s.file, c.result.Resumed}
	return sparse, sparse, nil
}

// end gives a file of a size its end if it may be a hole.
func (s sink) end(c *fileCopy, size int64) error {
	if s.file == nil || !c.options.Sparse {
		return nil
	}
	return s.file.Truncate(size)
}

// small writes a file that is in memory.
func (s sink) small(c *fileCopy, data []byte) error {
	if s.file == nil || !c.options.Sparse {
		_, err := s.Write(data)
		return err
	}
	if _, err := localfs.WriteSparse(s.file, data, 0); err != nil {
		return err
	}
	return s.file.Truncate(int64(len(data)))
}

// A server that sends more of a file than it said could fill a disk with a file that looked small. A
// file that has grown is no copy in the end anyway, so what goes far beyond its size is not taken.
// Files without a size, as in /proc, may have any.

// mostGrown is how far a file is read beyond its size: that it has grown, and to what, is better
// said when everything has come.
const mostGrown = 1 << 20

// sizeGuard returns where a source of a size is read to at most.
func sizeGuard(size int64) int64 {
	if size <= 0 || size > math.MaxInt64-mostGrown {
		return math.MaxInt64
	}
	return size + mostGrown
}

// within fails if n bytes at an offset lie beyond a guard.
func within(guard, off int64, n int) error {
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
	if err := within(w.guard, w.at, len(p)); err != nil {
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
	if err := within(w.guard, off, len(p)); err != nil {
		return 0, err
	}
	return w.WriterAt.WriteAt(p, off)
}
