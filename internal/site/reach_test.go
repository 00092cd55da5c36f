package site

import (
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestReach: a file server that does not answer is waited for once, takes one thread, and is noticed
// when it answers again.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, looks := make(chan struct{}), atomic.Int32{}
		stat := func(name string) (fs.FileInfo, error) {
			looks.Add(1)
			<-answers
			return os.Stat(name)
		}
		for i, patience := range []time.Duration{reachPatience, 0, 0} {
			began := time.Now()
			_, err := reach("/", stat)
			if !errors.Is(err, errHangs) || time.Since(began) != patience {
				t.Errorf("try %d: %v after %v", i, err, time.Since(began))
			}
		}
		if looks.Load() != 1 {
			t.Errorf("%d looks at once", looks.Load())
		}
		close(answers)
		synctest.Wait()
		if info, err := reach("/", stat); err != nil || !info.IsDir() {
			t.Errorf("once it answers: %v", err)
		}
		if _, err := reach("/missing", stat); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing directory: %v", err)
		}
	})
}
