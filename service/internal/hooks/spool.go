package hooks

import (
	"errors"
	"io"
	"sync"

	"github.com/usftp/usftp/internal/localfs"
)

// spoolFactor is how many files of the largest size may be spooled at once on each node; half as
// many if one user has them all.
const spoolFactor = 32

var errSpool = errors.New("too much waits to be checked")

// spool keeps a copy of a file written to object storage until it is checked: the storage returns
// nothing before the file appears, and scanners do not wait for slow clients. The copy is a file
// without a name, and no longer than the checks allow.
type spool struct {
	budget *budget
	user   string
	most   int64

	mu    sync.Mutex
	file  *localfs.NamelessFile
	size  int64
	taken int64
	err   error // why it is useless
}

// WriteAt copies a write. One of nothing, as of one that failed, does not make the file longer.
func (s *spool) WriteAt(p []byte, offset int64) {
	if len(p) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := offset + int64(len(p)); s.grow(end) {
		_, s.err = s.file.WriteAt(p, offset)
	}
}

// resize copies a change of the length.
func (s *spool) resize(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grow(size) {
		s.err = s.file.Truncate(size)
		s.size = size
	}
}

// grow reserves room for more and reports whether there is any. A file that is too large to be
// checked need not be kept.
func (s *spool) grow(end int64) bool {
	if s.err != nil || end > s.most {
		s.size = max(s.size, end)
		if s.err == nil {
			s.err = errSpool
			s.drop()
		}
		return false
	}
	if more := end - s.taken; more > 0 {
		if !s.budget.take(s.user, more) {
			s.err = errSpool
			return false
		}
		s.taken = end
	}
	if s.file == nil {
		s.file, s.err = localfs.NewNamelessFile("usftpd-*")
	}
	s.size = max(s.size, end)
	return s.err == nil
}

// tooLong reports whether the file was longer than is checked.
func (s *spool) tooLong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size > s.most
}

// contents returns the copy.
func (s *spool) contents() (r io.ReaderAt, size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil && s.err == nil {
		return eof{}, 0, nil
	}
	return s.file, s.size, s.err
}

// drop frees the file and its budget. The caller holds the lock.
func (s *spool) drop() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
	s.budget.give(s.user, s.taken)
	s.taken = 0
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

// eof has no contents.
type eof struct{}

func (eof) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }
