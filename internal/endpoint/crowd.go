package endpoint

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/private"
)

// A crowd lists directories on a host that may allow few handles without saying how many. Version 3
// has no status for that: a host that has no more says FAILURE, which may mean anything. So a
// directory that was refused while something else was open is asked for again, one at a time, until
// others have been closed. Where that never helps, FAILURE means something else.
type crowd struct {
	turn   chan struct{} // holds the one that asks again
	helped atomic.Bool   // asking again did
	vain   atomic.Int32  // how often it did not
}

const (
	// mostAsked is how often a directory is asked for again, fewAsked as long as that has not
	// helped, and fewInVain how many directories try it then.
	mostAsked, fewAsked, fewInVain = 200, 10, 3

	// askPause and longPause are how long it waits before that, at first and at most.
	askPause, longPause = 20 * time.Millisecond, 160 * time.Millisecond
)

func newCrowd() crowd { return crowd{turn: make(chan struct{}, 1)} }

// patience returns how often a directory is asked for again.
func (c *crowd) patience() int {
	switch {
	case c.helped.Load():
		return mostAsked
	case c.vain.Load() >= fewInVain:
		return 0
	}
	return fewAsked
}

// entries is [usftp.Client.Entries].
func (c *crowd) entries(ctx context.Context, client *usftp.Client,
	dir string) iter.Seq2[*usftp.File, error] {
	return func(yield func(*usftp.File, error) bool) {
		if !c.list(client, dir, c.patience() > 0, func(error) {}, yield) {
			return
		}
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return
		}
		release := sync.OnceFunc(func() { <-c.turn })
		defer release()
		opened := func(err error) {
			if release(); errors.Is(err, usftp.ErrSSHFxFailure) {
				c.vain.Add(1)
			} else {
				c.helped.Store(true)
			}
		}
		for asked := 1; ; asked++ {
			if err := pace.Sleep(ctx, min(askPause<<min(asked-1, 10), longPause)); err != nil {
				yield(nil, err)
				return
			}
			if !c.list(client, dir, asked < c.patience(), opened, yield) {
				return
			}
		}
	}
}

// list lists a directory, and calls opened when it is open, or why it is not. again is true if it
// is to be asked for again; then nothing was yielded.
func (c *crowd) list(client *usftp.Client, dir string, mayAsk bool, opened func(error),
	yield func(*usftp.File, error) bool) (again bool) {
	handles := private.OfClient(client).OpenHandles
	others, begun := handles() > 0, false
	for f, err := range client.Entries(dir) {
		if !begun {
			if mayAsk && errors.Is(err, usftp.ErrSSHFxFailure) && (others || handles() > 0) {
				return true
			}
			begun = true
			opened(err)
		}
		if !yield(f, err) {
			return false
		}
	}
	if !begun {
		opened(nil)
	}
	return false
}
