package pace

import (
	"testing"
	"time"
)

// What several wait for at the same time is one wait.
func TestHeldByTheLimit(t *testing.T) {
	began := time.Now()
	l := NewLimiter(t.Context(), 1000)
	for _, wait := range []struct{ at, long time.Duration }{{0, 4}, {1, 2}, {3, 3}, {10, 5}} {
		l.hold(began.Add(wait.at*time.Second), wait.long*time.Second)
	}
	if held := l.HeldFor(); held != 11*time.Second {
		t.Errorf("it has held somebody for %v, want 11 s", held)
	}
	if held := (*Limiter)(nil).HeldFor(); held != 0 {
		t.Errorf("without a limit %v", held)
	}
}
