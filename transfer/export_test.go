package transfer

import "testing"

// Held returns how many bytes a Shared's blocks take.
func (s *Shared) Held() int64 { return s.pool.Out() }

// SetSpare has this machine have processor time to spare, or none, for a test.
func SetSpare(t *testing.T, spare bool) {
	was := newSpare
	newSpare = func() func() bool { return func() bool { return spare } }
	t.Cleanup(func() { newSpare = was })
}
