package sftptest

import (
	"reflect"

	"github.com/usftp/usftp/wire"
)

// Fault spoils the replies to chosen requests: of the requests that match On, Extension, Path and
// the range, it spares the first Skip and hits the next Times. Its String is a Go literal that
// repeats it.
type Fault struct {
	On        wire.Type // the request's type; 0 means any but INIT
	Extension string    // the extension's name; "" means any
	Path      string    // the path as sent, or by which the handle was opened; "" means any
	// From and To select READs and WRITEs that touch at least one byte in [From, To). A To of 0 means
	// any.
	From, To uint64

	Skip  int // how many matching requests are spared first
	Times int // how many are hit after that; 0 means all
	Do    Action
}

// String returns the fault as a Go literal.
func (f Fault) String() string { return "sftptest.Fault" + literal(reflect.ValueOf(f)) }

func (f *Fault) matches(r *Request) bool {
	switch {
	case f.On != r.Type && (f.On != 0 || r.Type == wire.TypeInit):
		return false
	case f.Extension != "" && f.Extension != r.Extension, f.Path != "" && f.Path != r.Path:
		return false
	case f.To == 0:
		return true
	case r.Type != wire.TypeRead && r.Type != wire.TypeWrite:
		return false
	}
	return r.Offset < f.To && r.Offset+r.Length > f.From
}

// armed is a fault with its count.
type armed struct {
	Fault
	matched int
}

// hits counts a matching request, and reports whether to spoil it.
func (a *armed) hits(r *Request) bool {
	if !a.matches(r) {
		return false
	}
	a.matched++
	return a.matched > a.Skip && (a.Times == 0 || a.matched <= a.Skip+a.Times)
}
