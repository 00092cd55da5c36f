package server

import "testing"

// TestWritesApart: requests write at the same time where they neither overlap nor lie further apart
// than a part of what is stored in parts.
func TestWritesApart(t *testing.T) {
	h := new(handle)
	write := func(offset uint64) *request {
		return &request{op: opWrite, handle: h, offset: offset, length: 100}
	}
	for _, test := range []struct {
		first, second uint64
		follows       bool
	}{
		{0, 0, true},
		{0, 99, true},
		{0, 100, false},
		{0, mostApart + 99, false},
		{0, mostApart + 100, true},
		{1 << 40, 0, true},
		{100, 0, false},
	} {
		if mustFollow(write(test.second), write(test.first), h) != test.follows {
			t.Errorf("a WRITE at %d after one at %d: want to follow: %v", test.second, test.first,
				test.follows)
		}
	}
}
