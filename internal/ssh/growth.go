package ssh

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// Windows limits how far the windows of all connections that share it may grow beyond the initial 2
// MiB each: their sum is the memory that the peers can tie up.
type Windows struct {
	mu    sync.Mutex
	left  int64
	each  int64
	users map[string]int64 // the growth of each user's windows
}

// NewWindows allows growth by a total of bytes, and by each for all connections of one user.
func NewWindows(bytes, each int64) *Windows {
	return &Windows{left: bytes, each: each, users: map[string]int64{}}
}

// take takes up to n bytes.
func (w *Windows) take(user string, n int64) int64 {
	if w == nil {
		return n
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n = max(0, min(n, w.left, w.each-w.users[user]))
	w.add(user, n)
	return n
}

func (w *Windows) give(user string, n int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(user, -n)
}

// add records growth by n. The caller holds mu.
func (w *Windows) add(user string, n int64) {
	w.left -= n
	if w.users[user] += n; w.users[user] == 0 {
		delete(w.users, user)
	}
}

// growth records how far one connection's windows have grown and may still grow.
type growth struct {
	shared *Windows
	user   string
	kept   *atomic.Int32 // the number of blocks channels may hold

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
	n = g.shared.take(g.user, n)
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
	g.shared.give(g.user, n)
}

// keep lets channels hold blocks of twice the windows' size.
func (g *growth) keep() { g.kept.Store(int32(keptBlocks + 2*(firstWindow+g.taken)/blockSize)) }

// end returns all growth.
func (g *growth) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	g.shared.give(g.user, g.taken)
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
