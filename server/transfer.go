package server

import "sync/atomic"

// A Transfer is an open file that events refer to: all events of the file have the same one. It is
// safe for concurrent use.
type Transfer struct{ read, written atomic.Int64 }

// Add counts bytes that the client has read and written.
func (t *Transfer) Add(read, written int64) {
	t.read.Add(read)
	t.written.Add(written)
}

// Moved returns the bytes that the client has read and written so far.
func (t *Transfer) Moved() (read, written int64) { return t.read.Load(), t.written.Load() }
