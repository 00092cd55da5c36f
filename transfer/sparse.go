package transfer

import (
	"errors"
	"io"
	"math"
	"os"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/private"
)

// leastHole is the smallest hole that is not sent. What smaller ones save is less than the requests
// that they would cut in two cost.
const leastHole = 64 << 10

// holeySource is a local file that tells where its holes are.
type holeySource struct {
	*run
	file  *os.File
	holes *filecopy.Holes
	size  int64

	from, to int64 // of the hole that was found last
}

// holey returns a source that leaves its holes out, nil where the file has none or they have to be
// sent: only in a file that was empty, and is nobody else's, is what was not written zeros.
func (r *run) holey(from *source) *holeySource {
	file, ok := from.file.(*os.File)
	if !ok || r.result.InPlace || r.dense {
		return nil
	}
	holes := filecopy.FindHoles(file)
	if holes == nil {
		return nil
	}
	s := &holeySource{run: r, file: file, holes: holes, size: from.before.Size()}
	off := r.result.Resumed
	for range mostLooks {
		to, hole := s.Extent(off)
		if hole {
			return s
		}
		if off = to; off >= s.size { // it is only stored in less room
			s.file.Seek(r.result.Resumed, io.SeekStart)
			return nil
		}
	}
	return s
}

// mostLooks bounds the search for a first hole.
const mostLooks = 1000

// Extent implements private.SparseReaderAt. The last byte counts as data, so that writing it gives
// the file its size.
func (s *holeySource) Extent(off int64) (to int64, hole bool) {
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

func (s *holeySource) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.file.ReadAt(p, off)
	if s.passing != nil {
		s.passing.feed(p[:n], off, off+int64(n)) // behind a hole it reads on by itself
	}
	if s.limiter != nil {
		if waitErr := s.limiter.wait(n); waitErr != nil {
			return 0, waitErr
		}
	}
	return n, err
}

// errParts says that a server does not put what it gets where it belongs, or takes no WRITE behind
// the end.
var errParts = errors.New("the host does not take a file in parts")

// uploadWhole uploads a file, and once more with its holes where the host takes none.
func (r *run) uploadWhole() error {
	err := r.upload()
	if !errors.Is(err, errParts) {
		return err
	}
	r.note(errParts.Error() + ": its holes are sent too")
	r.dense, r.detail, r.temporary = true, "", ""
	r.forget()
	return r.upload()
}

// forget forgets the result of a try before.
func (r *run) forget() { r.result = Result{Target: r.Target} }

// sendHoley copies a file without its holes.
func (r *run) sendHoley(f *usftp.File, s *holeySource) (int64, error) {
	n, joined, err := r.sendParts(f, s)
	if err != nil {
		safe := max(0, s.holes.DataBefore(r.result.Resumed+n)-r.result.Resumed)
		if refused(err) && safe < n { // it has failed behind a hole
			err = errParts
		}
		return safe, err // without the hole in front of what is missing, which may not be there
	}
	info, err := f.Stat()
	switch {
	case err != nil && !refused(err):
		return n, err
	case err != nil || info.Size() != s.size && joined == 0:
		return n, errParts
	case info.Size() != s.size:
		return n, notJoined(info.Size(), s.size)
	}
	r.result.Stripes = joined
	return n, nil
}

// sendParts copies it over as many lanes as help: by what has to be sent, not by its size.
func (r *run) sendParts(f *usftp.File, s *holeySource) (n int64, joined int, err error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, 0, err
	}
	if !r.worthStriping(filecopy.Stored(info)) {
		n, err = private.NewStripes(f).ReadFromAt(s)
		return n, 0, err
	}
	stripes := r.stripe(f, os.O_WRONLY, s.size)
	r.striper = stripes // which send ends
	n, err = stripes.stripes.ReadFromAt(s)
	return n, stripes.stripes.Joined(), err
}

// sparseFile is a file of this machine's in which blocks of zeros become holes. It must have been
// empty from off on.
type sparseFile struct {
	file *os.File
	off  int64 // of the next Write
}

func (s *sparseFile) Write(p []byte) (int, error) {
	n, err := filecopy.WriteSparse(s.file, p, s.off)
	s.off += int64(n)
	return n, err
}

func (s *sparseFile) WriteAt(p []byte, off int64) (int, error) {
	return filecopy.WriteSparse(s.file, p, off)
}

// mayHaveHoles tells whether a download makes holes.
func (r *run) mayHaveHoles(file *os.File) bool {
	if !r.Options.Sparse {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// receiveSparse copies the contents over as many lanes as help, and makes holes of zeros.
func (r *run) receiveSparse(f *usftp.File, file *os.File,
	before *usftp.FileStat) (n int64, err error) {
	sink := &sparseFile{file, r.result.Resumed}
	if r.size > 0 { // what is hashed may be read from it
		if err := file.Truncate(r.size); err != nil {
			return 0, err
		}
	}
	if before == nil || !before.FileMode().IsRegular() ||
		!r.worthStriping(r.size-r.result.Resumed) {
		n, err = f.WriteTo(r.boundWriter(r.passWriter(r.limitWriter(sink))))
	} else {
		s := r.stripe(f, os.O_RDONLY, r.size)
		defer s.stop()
		n, err = s.stripes.WriteToAt(r.boundWriterAt(r.passWriterAt(sink, f)))
		r.result.Stripes = s.stripes.Joined()
		if err == nil {
			err = s.prove()
		}
	}
	if err == nil {
		err = file.Truncate(r.result.Resumed + n) // it may end in a hole
	}
	return n, err
}

// writeSmall writes a file that is in memory.
func (r *run) writeSmall(file *os.File, data []byte) error {
	if !r.mayHaveHoles(file) {
		_, err := file.Write(data)
		return err
	}
	if _, err := filecopy.WriteSparse(file, data, 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(data)))
}
