package transfer

import (
	"testing"
	"time"

	"github.com/usftp/usftp/internal/filecopy"
)

// LockName is the name of the lock's file, and LockStale is how long a lock that is not renewed
// keeps others out.
const (
	LockName  = lockName
	LockStale = lockStale
)

// Held returns how many bytes a Shared's blocks hold.
func (s *Shared) Held() int64 { return s.pool.Out() }

// SetMostNames changes how many names of directories to sweep are kept in memory.
func SetMostNames(t *testing.T, most int64) {
	before := mostNames
	mostNames = most
	t.Cleanup(func() { mostNames = before })
}

// SetSpare makes this machine appear to have processor time to spare whenever spare says so, during
// a test.
func SetSpare(t *testing.T, spare func() bool) {
	was := filecopy.NewSpare
	filecopy.NewSpare = func(time.Duration) func() bool { return spare }
	t.Cleanup(func() { filecopy.NewSpare = was })
}

// SetProgressEvery sets the time between Progress events.
func (o *Options) SetProgressEvery(interval time.Duration) { o.progressEvery = interval }

// HelperBegun returns a channel that gets a value when a helper has started, or could not.
func HelperBegun(t *testing.T) <-chan struct{} {
	was, begun := filecopy.HelperBegun, make(chan struct{}, 1)
	filecopy.HelperBegun = func() { begun <- struct{}{} }
	t.Cleanup(func() { filecopy.HelperBegun = was })
	return begun
}

// SetHelperPatience changes how long a helper may take for anything.
func SetHelperPatience(t *testing.T, patience time.Duration) {
	was := filecopy.HelperPatience
	filecopy.HelperPatience = patience
	t.Cleanup(func() { filecopy.HelperPatience = was })
}
