package conn

import "sync/atomic"

// Shared is a budget that several connections share, in addition to their own: it counts the bytes
// that their transfers have in flight, and limits Room. A transfer may still have one request in
// flight, as with its own connection's budget.
type Shared struct {
	most  int64
	taken atomic.Int64
}

// NewShared returns a budget of the given number of bytes.
func NewShared(bytes int64) *Shared { return &Shared{most: max(bytes, 1)} }

// Taken returns how many bytes are in flight.
func (s *Shared) Taken() int64 { return s.taken.Load() }

// room applies the rule of Conn.Room to this budget.
func (s *Shared) room(mine int64) int64 { return (s.most - s.taken.Load() + mine) / 2 }
