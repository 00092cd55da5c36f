package testenv

import (
	"testing"
	"time"
)

// Until waits for what only a look can tell, such as what another process has done. Where there is
// an event, a test waits for that.
func Until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	limit, look := time.After(Patience(tb)), time.NewTicker(10*time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-look.C:
		case <-limit:
			tb.Fatalf("not in time: %s", what)
		}
	}
}

// Patience is how long a test waits for what is to happen: at least a minute, and longer if the
// tests have the time. A busy machine makes nothing fail by itself.
func Patience(tb testing.TB) time.Duration {
	if t, ok := tb.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := t.Deadline(); ok {
			return max(time.Minute, time.Until(deadline)/2)
		}
	}
	return 5 * time.Minute
}
