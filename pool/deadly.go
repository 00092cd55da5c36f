package pool

import "github.com/usftp/usftp/internal/private/pools"

// Some files end the connection each time: a server crashes on a name, or a middlebox cuts on
// content. Everything in progress is lost along with such a file, and nothing tells which one it was.
// So a file that was in progress at several losses in a row, without progress of its own, is
// suspected. Package filecopy then tries it with no other file in progress, and it fails, instead of
// everything, once it has been lost alone again and again, while all else got on.

// company returns how many losses in a row a file may share with others until it is suspected.
func (r Retry) company() int32 { return int32(min(3, max(2, r.Retries-1))) }

// alone returns how often it may then be lost alone. It must have failed before Retries attempts have
// been made without progress, since that ends everything.
func (r Retry) alone() int { return max(1, r.Retries-int(r.company())) }

// uses counts what is in progress over the connection: files and calls of Do. Conn's lock guards it.
type uses struct {
	now    int
	begun  int64
	failed int   // files in a row, with nothing done in between
	since  int64 // Conn.arrived, when the last one had failed
}

func (c *Conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow.uses.now++
	c.slow.uses.begun++
}

func (c *Conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow.uses.now--
}

// isAlone begins an attempt at a file, and finds out by its end whether anything else was in progress
// at any time in between. The caller holds the lock both times.
func (c *Conn) isAlone(p *pools.Progress) (end func()) {
	u := &c.slow.uses
	u.now++
	u.begun++
	alone, begun := u.now == 1, u.begun
	return func() {
		u.now--
		p.Losses.WasAlone = alone && u.begun == begun
	}
}

// Lose implements pools.Conn.
func (c privateConn) Lose(p *pools.Progress, reached int64) (failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.renews() {
		return false
	}
	l, u := &p.Losses, &c.slow.uses
	if reached > l.Reached {
		*l = pools.Losses{Reached: reached, WasAlone: l.WasAlone}
	}
	l.All++
	l.Suspected, l.Idle = l.All >= c.retry.company(), l.Arrived == c.arrived
	if l.WasAlone {
		l.Alone++
	}
	// A host over which nothing else has got on either may end every connection by now.
	if !l.Suspected || int(l.Alone) < c.retry.alone() || l.Idle {
		return false
	}
	if u.since != c.arrived {
		u.failed, u.since = 0, c.arrived
	}
	if u.failed++; u.failed > c.retry.Retries {
		return false
	}
	c.silent.again = true // all else has all its retries
	return true
}
