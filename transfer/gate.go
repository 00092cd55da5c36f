package transfer

import (
	"context"
	"sync"
)

// gate bounds how many files are under way at once after a connection that has brought nothing.
// What many have in flight together may be more than such a connection carries before it breaks,
// and so none would ever get through; one at a time each gets its chance, and as soon as something
// arrives there may be twice as many. Large files are counted apart from small ones: a small one
// need not wait for gigabytes. The lifeline's lock guards it.
type gate struct {
	wider sync.Cond
	width int // 0 is no bound
	under [2]int
}

// gateOpen is from when on nothing is bound: more are never under way.
const gateOpen = 4096

func (g *gate) narrow() { g.width = 1 }

func (g *gate) widen() {
	if g.width == 0 {
		return
	}
	if g.width *= 2; g.width > gateOpen {
		g.width = 0
	}
	g.wider.Broadcast()
}

// enter waits until a file may be under way, or the run is over.
func (l *lifeline) enter(large bool) (leave func()) {
	kind := 0
	if large {
		kind = 1
	}
	g := &l.gate
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.width > 0 {
		defer context.AfterFunc(l.ctx, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			g.wider.Broadcast()
		})()
	}
	for g.width > 0 && g.under[kind] >= g.width && l.gaveUp == nil && l.ctx.Err() == nil {
		g.wider.Wait()
	}
	g.under[kind]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		g.under[kind]--
		g.wider.Broadcast()
	}
}
