package transfer

import "testing"

// Held returns how many bytes a Shared's blocks hold.
func (s *Shared) Held() int64 { return s.pool.Out() }

// SetSpare makes this machine appear to have processor time to spare, or none, during a test.
func SetSpare(t *testing.T, spare bool) {
	was := newSpare
	newSpare = func() func() bool { return func() bool { return spare } }
	t.Cleanup(func() { newSpare = was })
}
