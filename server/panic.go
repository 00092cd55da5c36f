package server

import (
	"fmt"
	"runtime/debug"
)

// A panicked is a panic in the backend, or in another function of the program that a session calls.
// It is an error whose text has the stack, since Serve repeats the panic on another goroutine.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

func (p *panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// caught, which is deferred, ends the session if there is a panic: who called Serve could not
// recover it on our goroutine, and it would end all other sessions with the program.
func (s *session) caught() {
	if value := recover(); value != nil {
		s.end(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.panicked(value)
	}
}

// panicked notes the first panic of the session, whatever else ended it. The caller holds the lock.
func (s *session) panicked(value any) {
	if _, known := s.err.(*panicked); !known {
		s.err = &panicked{value, debug.Stack()}
	}
}

// unless, which is deferred, undoes what would hold up other sessions if a backend panics.
func unless(done *bool, undo func()) {
	if !*done {
		undo()
	}
}

// try runs do, and undo if that returns false or panics.
func try(do func() bool, undo func()) (done bool) {
	defer unless(&done, undo)
	return do()
}

// closeLast closes a handle at the session's end. The others are closed, whatever that does. The
// caller holds the lock.
func (s *session) closeLast(h *handle) {
	defer func() {
		s.open.give()
		if value := recover(); value != nil {
			s.panicked(value)
		}
	}()
	h.turns.drop()
	s.closeHandle(h, errNoClose)
}
