package conn

import "sync/atomic"

// Shared is a budget that several connections share, in addition to their own: it counts what their
// transfers have in flight, and Room leaves no more than it has. A transfer may have one request in
// flight all the same, as with its own connection's.
type Shared struct {
	most  int64
	taken atomic.Int64
}

// NewShared returns a budget of so many bytes.
func NewShared(bytes int64) *Shared { return &Shared{most: max(bytes, 1)} }

// Taken returns how many bytes are in flight.
func (s *Shared) Taken() int64 { return s.taken.Load() }

// room is Conn.Room by this budget.
func (s *Shared) room(mine int64) int64 { return (s.most - s.taken.Load() + mine) / 2 }

// move takes bytes out of the budget, or with a number below 0 gives them back.
func (b *budget) move(bytes int64) {
	b.free -= bytes
	if b.shared != nil {
		b.shared.taken.Add(bytes)
	}
}

// endShared gives back what the connection has in flight when it ends.
func (b *budget) endShared() {
	if b.shared != nil {
		b.shared.taken.Add(b.free - b.most)
		b.shared = nil
	}
}
