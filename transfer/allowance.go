package transfer

import "sync"

// allowance bounds what many share: bytes of memory, handles of the server. Those who wait are
// served in the order in which they came, and woken when it is their turn: there may be thousands.
// A wait ends when others give back what they have, which all do in the end.
type allowance struct {
	mu      sync.Mutex
	free    int64
	waiting []share
}

// share is what somebody waits for.
type share struct {
	n     int64
	taken chan struct{}
}

func newAllowance(free int64) *allowance { return &allowance{free: free} }

func (a *allowance) take(n int64) {
	a.mu.Lock()
	if len(a.waiting) == 0 && a.free >= n {
		a.free -= n
		a.mu.Unlock()
		return
	}
	s := share{n, make(chan struct{})}
	a.waiting = append(a.waiting, s)
	a.mu.Unlock()
	<-s.taken
}

func (a *allowance) give(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free += n
	for len(a.waiting) > 0 && a.waiting[0].n <= a.free {
		a.free -= a.waiting[0].n
		close(a.waiting[0].taken)
		a.waiting[0] = share{}
		a.waiting = a.waiting[1:]
	}
}
