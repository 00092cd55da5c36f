package ssh

import (
	"runtime"
	"sync/atomic"
)

// A crew seals or opens several packets at once if more processors are free. The caller does its
// share, and waits only for packets that a helper has taken, so helpers that get no processor cost
// nothing. Helpers start with the first large batch, and end with the connection.
type crew struct {
	// do handles packet i of the batch with the given scratch. It is set once.
	do func(s *scratch, i int)

	own      scratch
	helpers  int
	tokens   chan struct{}
	state    atomic.Uint64 // count<<32 | next
	left     atomic.Int64
	finished chan struct{}
	ended    <-chan struct{}
}

const (
	// maxHelpers suffices for any link: each helper adds about 4 GB/s.
	maxHelpers = 3

	// parallelFrom is the size from which waking a helper, which takes a few microseconds, pays
	// off.
	parallelFrom = 64 << 10
)

func newCrew(ended <-chan struct{}, do func(s *scratch, i int)) *crew {
	return &crew{do: do, ended: ended, helpers: min(runtime.GOMAXPROCS(0)-1, maxHelpers)}
}

// run handles count packets of size bytes in total.
func (c *crew) run(count, size int, parallel bool) {
	if !parallel || count < 2 || size < parallelFrom || c.helpers == 0 {
		for i := range count {
			c.do(&c.own, i)
		}
		return
	}
	if c.tokens == nil {
		c.tokens, c.finished = make(chan struct{}, c.helpers), make(chan struct{}, 1)
		for range c.helpers {
			go c.help()
		}
	}
	c.left.Store(int64(count))
	c.state.Store(uint64(count) << 32)
	for range min(c.helpers, count-1) {
		select {
		case c.tokens <- struct{}{}:
		default:
		}
	}
	if !c.share(&c.own) {
		<-c.finished
	}
}

// share handles packets until all have been taken. It reports whether it completed the last one.
func (c *crew) share(s *scratch) (last bool) {
	for {
		// A helper may come late, during a later batch than the one it was woken for: it then takes
		// a packet of the current batch, and everything that do reads was written before state.
		state := c.state.Load()
		if state>>32 == state&0xffffffff {
			return last
		}
		if !c.state.CompareAndSwap(state, state+1) {
			continue
		}
		c.do(s, int(state&0xffffffff))
		last = c.left.Add(-1) == 0
	}
}

func (c *crew) help() {
	var s scratch
	for {
		select {
		case <-c.tokens:
			if c.share(&s) {
				c.finished <- struct{}{}
			}
		case <-c.ended:
			return
		}
	}
}
