package server

import (
	"errors"
	"time"
)

// A Gate is asked before a change that a client wants takes effect. It gets the event that is going
// to report it: a [TreeChanged] of names (not of attributes), or the [FileClosed] of a file that
// was written. An error refuses the change, and is what the client is told; a file is then
// abandoned. Otherwise end is called with what came of it, before the client is told. A gate is
// called by several goroutines at once, and the request that it is asked about waits for it.
type Gate func(e Event) (end func(err error), err error)

// ErrUnsure is matched by the errors of changes that may have been made all the same, wholly or in
// part, by [Unsure]. Who is told of changes has to look then.
var ErrUnsure = errors.New("the change may have been made")

// Unsure returns an error of a backend, which also matches [ErrUnsure]; for nil it returns nil.
func Unsure(err error) error {
	if err == nil {
		return nil
	}
	return unsure{err}
}

type unsure struct{ error }

func (u unsure) Is(target error) bool { return target == ErrUnsure }
func (u unsure) Unwrap() error        { return u.error }

// nothing is the end of what no gate was asked about.
func nothing(error) {}

// Begin asks the gate about an event that is going to be reported. Unless it returns an error, end
// must be called.
func (r *Reporter) Begin(e Event) (end func(error), err error) {
	if r == nil || r.Gate == nil {
		return nothing, nil
	}
	e.Time = time.Now()
	if e.Protocol == "" {
		e.Protocol = r.Protocol
	}
	return r.Gate(e)
}
