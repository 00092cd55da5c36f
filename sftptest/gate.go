package sftptest

import (
	"slices"
	"sync"
)

// Gate holds replies until a test lets them pass; see [Hold]. The zero value is a closed gate.
type Gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	held    []func()
	open    bool
}

// cond returns the condition for changes. The caller holds the lock.
func (g *Gate) cond() *sync.Cond {
	if g.changed == nil {
		g.changed = sync.NewCond(&g.mu)
	}
	return g.changed
}

// arrive takes a reply; calling send sends it.
func (g *Gate) arrive(send func()) {
	g.mu.Lock()
	if !g.open {
		g.held = append(g.held, send)
		send = func() {}
	}
	g.cond().Broadcast()
	g.mu.Unlock()
	send()
}

// Held returns how many replies are waiting.
func (g *Gate) Held() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held)
}

// Wait waits until n replies are waiting, or the gate is open.
func (g *Gate) Wait(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.held) < n && !g.open {
		g.cond().Wait()
	}
}

// Release lets the n oldest replies pass, or as many as there are.
func (g *Gate) Release(n int) { g.release(n, false) }

// ReleaseNewest lets the n newest replies pass, the newest first.
func (g *Gate) ReleaseNewest(n int) { g.release(n, true) }

// Open lets all waiting replies pass, oldest first, and all that follow.
func (g *Gate) Open() {
	g.mu.Lock()
	g.open = true
	n := len(g.held)
	g.cond().Broadcast()
	g.mu.Unlock()
	g.Release(n)
}

func (g *Gate) release(n int, newest bool) {
	for range n {
		g.mu.Lock()
		last := len(g.held) - 1
		if last < 0 {
			g.mu.Unlock()
			return
		}
		i := 0
		if newest {
			i = last
		}
		send := g.held[i]
		g.held = slices.Delete(g.held, i, i+1)
		g.cond().Broadcast()
		g.mu.Unlock()
		send()
	}
}
