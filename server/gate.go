package server

import "errors"

// A Gate is asked before a client's change takes effect. It gets the event that will report the
// change: a [TreeChanged] of names (not of attributes), or the [FileClosed] of an upload. An error
// refuses the change, and is the client's answer; a file is then abandoned. Otherwise end is called
// with the change's error or nil, before the client is told, or with [ErrUnsure] if the backend
// panics; it may be nil. A gate is called by several goroutines at once, and the request in
// question waits for it.
type Gate func(e Event) (end func(err error), err error)

// ErrUnsure is matched by errors from [Unsure]: the change may have been made all the same, wholly
// or in part. A program that tracks changes then has to check.
var ErrUnsure = errors.New("the change may have been made")

// Unsure returns a backend's error that also matches [ErrUnsure]; for nil it returns nil.
func Unsure(err error) error {
	if err == nil {
		return nil
	}
	return unsure{err}
}

type unsure struct{ error }

func (u unsure) Is(target error) bool { return target == ErrUnsure }
func (u unsure) Unwrap() error        { return u.error }

// nothing is the end function if no gate was asked.
func nothing(error) {}

// permitted makes a change that a gate has permitted, and tells it the outcome, also if the backend
// panics.
func permitted(end func(error), change func() error) (err error) {
	err = ErrUnsure
	defer func() { end(err) }()
	return change()
}

// Begin asks the gate about an event that will be reported. Unless it returns an error, end must be
// called.
func (r *Reporter) Begin(e Event) (end func(error), err error) {
	if r == nil || r.Gate == nil {
		return nothing, nil
	}
	e.complete(r)
	if end, err = r.Gate(e); end == nil {
		end = nothing
	}
	return end, err
}
