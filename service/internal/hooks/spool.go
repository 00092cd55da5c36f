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
		_, err := s.file.WriteAt(p, offset)
		s.fail(err)
	}
}

// resize copies a change of the length.
func (s *spool) resize(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grow(size) {
		s.fail(s.file.Truncate(size))
		s.size = size
	}
}

// grow reserves room for more and reports whether there is any. A file that is too large to be
// checked need not be kept.
func (s *spool) grow(end int64) bool {
	s.size = max(s.size, end)
	switch more := end - s.taken; {
	case s.err != nil:
		return false
	case end > s.most, more > 0 && !s.budget.take(s.user, more):
		s.fail(errSpool)
		return false
	case more > 0:
		s.taken = end
	}
	if s.file == nil {
		file, err := localfs.NewNamelessFile("usftpd-*")
		s.file = file
		s.fail(err)
	}
	return s.err == nil
}

// fail drops the copy for an error, if there is one: it takes no room until its client is done.
func (s *spool) fail(err error) {
	if err != nil {
		s.err = err
		s.drop()
	}
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
