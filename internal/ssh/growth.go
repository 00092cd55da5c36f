package ssh

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// Windows limits how far the windows of all connections that share it may grow beyond the initial 2
// MiB each: their sum is what the peers can make us hold in memory.
type Windows struct{ left atomic.Int64 }

// NewWindows allows growth by a total of bytes.
func NewWindows(bytes int64) *Windows {
	w := new(Windows)
	w.left.Store(bytes)
	return w
}

// take takes up to n bytes.
func (w *Windows) take(n int64) int64 {
	if w == nil {
		return n
	}
	for {
		have := w.left.Load()
		n = min(n, have)
		if n <= 0 {
			return 0
		}
		if w.left.CompareAndSwap(have, have-n) {
			return n
		}
	}
}

func (w *Windows) give(n int64) {
	if w != nil {
		w.left.Add(n)
	}
}

// growth records how far one connection's windows have grown and may still grow.
type growth struct {
	shared *Windows
	kept   *atomic.Int32 // how many blocks channels may hold

	mu    sync.Mutex
	left  int64
	taken int64
	ended bool
}

// limit lowers the limit, before any window grows.
func (g *growth) limit(bytes int64) { g.left = min(g.left, bytes) }

// take returns by how much a window that wants n more bytes may grow.
func (g *growth) take(n int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n = min(n, g.left); g.ended || n <= 0 {
		return 0
	}
	n = g.shared.take(n)
	g.left -= n
	g.taken += n
	g.keep()
	return n
}

// give returns the growth of an ended channel's window.
func (g *growth) give(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.left += n
	g.taken -= n
	g.keep()
	g.shared.give(n)
}

// keep lets channels hold blocks of twice the windows' size.
func (g *growth) keep() { g.kept.Store(int32(keptBlocks + 2*(firstWindow+g.taken)/blockSize)) }

// end returns everything.
func (g *growth) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	g.shared.give(g.taken)
	g.taken = 0
}

const openSSH = "SSH-2.0-OpenSSH_"

// openSSHWindow limits windows for OpenSSH. Its client and its server queue as much as the window
// allows, and move the whole queue for each piece they add. Over 100 ms its client sends at half
// the rate with a window of 16 MiB compared to 4 MiB, and its server takes twice the processor
// time.
const openSSHWindow = 4 << 20

// limitGrowth limits how far windows grow for this peer.
func (c *Conn) limitGrowth() {
	if bytes.HasPrefix(c.t.theirs, []byte(openSSH)) {
		c.mux.growth.limit(openSSHWindow - firstWindow)
	}
}
