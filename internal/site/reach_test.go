package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
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

// TestReachOfMany: many logins of one user take one thread, and a start does not wait for hundreds
// of directories on one file server as long as for one.
func TestReachOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, asked := make(chan struct{}), atomic.Int32{}
		stat := func(name string) (fs.FileInfo, error) {
			asked.Add(1)
			<-answers
			return nil, fs.ErrNotExist
		}
		began := time.Now()
		var logins sync.WaitGroup
		for range 100 {
			logins.Go(func() {
				if _, err := reach("/ann", stat); !errors.Is(err, errHangs) {
					t.Error(err)
				}
			})
		}
		logins.Wait()
		if took := time.Since(began); asked.Load() != 1 || took != reachPatience {
			t.Errorf("%d looks at once, %v", asked.Load(), took)
		}
		for i := range 500 {
			if _, err := reach(fmt.Sprint("/users/", i), stat); !errors.Is(err, errHangs) {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it takes %v", took)
		}
		close(answers)
	})
}

// TestReachLooksAgain: a look that began before a directory was made does not say that it is missing.
func TestReachLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early := make(chan struct{})
		go reach("/", func(string) (fs.FileInfo, error) {
			<-early
			return nil, fs.ErrNotExist
		})
		synctest.Wait()
		go func() {
			synctest.Wait()
			close(early)
		}()
		if _, err := reach("/", os.Stat); err != nil {
			t.Error(err)
		}
	})
}
