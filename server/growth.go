package server

import "sync"

// growth orders what may make a file larger, where that is limited: an appending write, which first
// looks how large the file is, excludes all others.
type growth struct {
	sync.RWMutex
	key   any
	users int // under the lock of allGrowth
}

// allGrowth holds the files of limited size that are open for writing, by identity.
type allGrowth struct {
	mu  sync.Mutex
	all map[any]*growth
}

var growths allGrowth

// use returns the growth of a file; leave ends the use.
func (a *allGrowth) use(key any) *growth {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.all[key]
	if g == nil {
		g = &growth{key: key}
		if a.all == nil {
			a.all = map[any]*growth{}
		}
		a.all[key] = g
	}
	g.users++
	return g
}

// leave does nothing if there is no limit.
func (g *growth) leave() {
	if g == nil {
		return
	}
	growths.mu.Lock()
	defer growths.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(growths.all, g.key)
	}
}

// enter begins a change of the file, alone if it appends. Without a limit nobody waits.
func (g *growth) enter(appends bool) (leave func()) {
	switch {
	case g == nil:
		return func() {}
	case appends:
		g.Lock()
		return g.Unlock
	}
	g.RLock()
	return g.RUnlock
}
