package filecopy

import (
	"errors"
	"io"
	"math"
	"os"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
)

// leastHole is the smallest hole that is left out. A smaller one saves less than it costs to split
// a request around it.
const leastHole = 64 << 10

// sparseSource is a local file whose holes are skipped. The hash pipe reads holes by itself.
type sparseSource struct {
	io.ReaderAt // the file's data
	copy        *Copy
	file        *os.File
	holes       *localfs.Holes
	size        int64

	from, to int64 // the hole found last
}

// mostLooks limits the search for the first hole.
const mostLooks = 1000

// findHoles returns a source whose holes are skipped, nil if it has none or they must be sent:
// unwritten parts read as zeros only in a new file that nobody else writes.
func findHoles(c *Copy, in *input, local *endpoint.LocalFile) *sparseSource {
	if c.Result.InPlace || c.known.tried[dense] > 0 {
		return nil
	}
	file := local.File
	holes := localfs.FindHoles(file)
	if holes == nil {
		return nil
	}
	s := &sparseSource{ReaderAt: in, copy: c, file: file, holes: holes, size: in.info().Size}
	off := c.Result.Resumed
	for range mostLooks {
		to, hole := s.extent(off)
		if hole {
			return s
		}
		if off = to; off >= s.size { // no holes, merely stored compactly
			s.file.Seek(c.Result.Resumed, io.SeekStart)
			return nil
		}
	}
	return s
}

// Extent implements private.SparseReaderAt. Under a rate limit data is read and sent piece by
// piece.
func (s *sparseSource) Extent(off int64) (to int64, hole bool) {
	to, hole = s.extent(off)
	if l := s.copy.Limiter; l != nil && !hole {
		to = min(to, off+int64(l.Piece))
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

// errParts reports that a server does not write data at the offset it was sent for, or accepts no
// WRITE beyond the end of the file.
var errParts = errors.New("the host does not accept a file in parts")

// sendSparse copies a file without its holes.
func (o onHost) sendSparse(c *Copy, s *sparseSource) (int64, error) {
	n, err := o.sendParts(c, s)
	resumed := c.Result.Resumed
	if err != nil {
		safe := max(0, s.holes.DataBefore(resumed+n)-resumed)
		if endpoint.Refused(err) && safe < n { // it failed after a hole
			err = errParts
		}
		return safe, err // the hole before the missing data may not have been created
	}
	if c.Result.Stripes > 0 { // the Striper looks at the size
		return n, nil
	}
	info, err := o.host().Stat()
	if endpoint.Refused(err) || err == nil && info.Size() != s.size {
		err = errParts
	}
	return n, err
}

// sendParts sends the data, over several handles if there is enough of it; holes do not count.
func (o onHost) sendParts(c *Copy, s *sparseSource) (n int64, err error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	if !c.to.worthStriping(c, localfs.Stored(info), false) {
		return private.NewStripes(o.host().File).ReadFromAt(s)
	}
	w := o.host()
	w.Striper = c.to.stripe(c, w.File,
		endpoint.Striping{Flag: os.O_WRONLY, From: c.Result.Resumed, Size: s.size})
	n, err = w.Striper.ReadFromAt(s)
	c.Result.Stripes = w.Striper.Joined()
	return n, err
}
