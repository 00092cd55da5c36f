package usftp

import (
	"errors"
	"fmt"
	"sync"
)

// whyNotOpened returns the error of a refused operation. It tells a FAILURE that most likely means
// that too much is open: the program may have forgotten to close its files.
func (s *session) whyNotOpened(op string, refusal error) error {
	if op != "open" && op != "opendir" || !errors.Is(refusal, ErrSSHFxFailure) {
		return refusal
	}
	// What is refused here was in flight together with the last that were closed.
	most := s.openHandles()
	if most == 0 || uint64(s.conn.OpenHandles()) < most-most/8 {
		return refusal
	}
	return &fullError{refusal, most}
}

// A fullError says that a server opens nothing more.
type fullError struct {
	refusal error
	most    uint64
}

func (e *fullError) Error() string {
	return fmt.Sprintf("%v; the server allows %d open files and directories, and most are open",
		e.refusal, e.most)
}

func (e *fullError) Unwrap() error { return e.refusal }

// A crowd is directories that are listed at the same time. Servers limit the open handles, and SFTP
// has no status for that: a FAILURE may mean that too much was open. A directory that is refused so
// is listed once more when no other is, and from then on fewer are listed at once.
type crowd struct {
	mu     sync.Mutex
	left   sync.Cond
	most   int // are listed at once
	active int
	begun  int
	alone  int // want to be, or are, the only one
}

func (s *session) newCrowd(most int) *crowd {
	if handles := s.openHandles(); handles > 0 {
		most = int(min(uint64(most), max(1, handles/2)))
	}
	c := &crowd{most: most}
	c.left.L = &c.mu
	return c
}

// list calls list, which lists a directory, when it is its turn, and perhaps once more.
func (c *crowd) list(list func() error) error {
	crowded, err := c.enter(false, list)
	if crowded && errors.Is(err, ErrSSHFxFailure) {
		_, err = c.enter(true, list)
	}
	return err
}

// enter calls list when there is room. crowded reports whether others were listed meanwhile.
func (c *crowd) enter(alone bool, list func() error) (crowded bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if alone {
		c.alone++
		c.most = max(1, c.most/2)
	}
	for alone && c.active > 0 || !alone && (c.alone > 0 || c.active >= c.most) {
		c.left.Wait()
	}
	c.active++
	c.begun++
	others, begun := c.active > 1, c.begun
	c.mu.Unlock()
	err = list()
	c.mu.Lock()
	c.active--
	if alone {
		c.alone--
	}
	c.left.Broadcast()
	return others || c.begun > begun, err
}
