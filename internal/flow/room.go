package flow

// A Room is how many files, or other things, may be in flight at once. A refusal lowers it. Since a
// refusal need not mean that there were too many, it grows again.
type Room struct {
	Most  int
	Limit int // of Most
	grown int // how many have succeeded since Most changed
}

// NewRoom returns a Room for as many as limit.
func NewRoom(limit int) Room { return Room{Most: limit, Limit: limit} }

// Grow records that one has succeeded. Each time that twice Most have, it allows one more.
func (r *Room) Grow() {
	if r.grown++; r.grown >= 2*r.Most && r.Most < r.Limit {
		r.Most, r.grown = r.Most+1, 0
	}
}

// Lower records that one was refused, and allows so many, but at least one.
func (r *Room) Lower(most int) { r.Most, r.grown = min(max(1, most), r.Limit), 0 }
