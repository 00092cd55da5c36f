package filecopy

import (
	"sync/atomic"

	"github.com/usftp/usftp/pool"
)

// A Reporter hears about a file while it is copied.
type Reporter interface {
	Started()
	Note(message string) // how it is done, where that may surprise
	Warn(message string) // a defect or a leftover, though nothing failed
	Retried(a pool.Attempt)
	Resumed(bytes int64) // of an earlier run's leftover
	Leaves()             // a temporary file may be left

	// Report follows how far the file has come until stop is called. Finishing does so once all of
	// it has arrived.
	Report(position func() int64) (stop func())
	Finishing() (stop func())
}

// A Phase is a step of a file of which all bytes have arrived.
type Phase uint32

const (
	Finishing Phase = iota // it gets its attributes and its name
	Waiting                // for the host, to store it or to answer the same
	Rereading              // its source had just been written to
	Hashing
	Verifying
)

// A meter says how far a file has come once all of its bytes have arrived.
type meter struct {
	// how far it has been checked, nil if it is not being checked
	checked atomic.Pointer[func() int64]
	phase   atomic.Uint32
}

// enters begins a phase.
func (m *meter) enters(phase Phase) { m.phase.Store(uint32(phase)) }

// Settling returns the phase in which the target finishes a copy.
func (r *Run) Settling() Phase {
	if r.Dst.Conn() == nil {
		return Finishing
	}
	return Waiting
}

// Phase returns the phase of a file of which all bytes have arrived.
func (m *meter) Phase() Phase { return Phase(m.phase.Load()) }

// Checked returns how far the file has been hashed or read again, nil if it is not being checked.
func (m *meter) Checked() func() int64 {
	if position := m.checked.Load(); position != nil {
		return *position
	}
	return nil
}

// checks makes Checked return position until done is called.
func (m *meter) checks(position func() int64) (done func()) {
	m.checked.Store(&position)
	return func() { m.checked.Store(nil) }
}
