package server

import (
	"sync"
	"time"

	"github.com/usftp/usftp/wire"
)

// The two sizes of buffers: one for requests and replies as most clients make them (32 KiB of data
// and its header), one for the longest packet there may be with room to read on a little.
const (
	smallBuffer = 40 << 10
	largeBuffer = 264 << 10

	// lookahead is what is read beyond the end of a long packet: the head of the next one comes
	// with the same system call.
	lookahead = 4 << 10
)

// A large buffer must hold the longest packet and the lookahead.
var _ [largeBuffer - wire.LengthSize - wire.MaxPacket - lookahead]struct{}

// poolIdle is how long a pool keeps buffers that nobody needed.
const poolIdle = 2 * time.Second

// Pool lends buffers to sessions. It knows how many bytes are out, keeps what comes back for the
// next one, and gives up what went unused for a while. Sessions that share a Pool share its spare
// buffers. The zero Pool is ready for use.
type Pool struct {
	mu      sync.Mutex
	classes [2]bufferClass
	out     int64
	timer   *time.Timer
	ticking bool
}

type bufferClass struct {
	free   []*buffer
	unused int // the fewest that lay free since the timer last ran: so many were not needed
}

// buffer is a lent piece of memory. Bytes start to end of it are waiting to be written.
type buffer struct {
	data       []byte
	class      uint8
	charge     int // what it counts in its session's budget
	start, end int
}

func classFor(n int) uint8 {
	if n <= smallBuffer {
		return 0
	}
	return 1
}

func classSize(class uint8) int {
	if class == 0 {
		return smallBuffer
	}
	return largeBuffer
}

// lease lends a buffer of at least n bytes, which is at most largeBuffer.
func (p *Pool) lease(n int) *buffer {
	class := classFor(n)
	p.mu.Lock()
	c := &p.classes[class]
	p.out += int64(classSize(class))
	last := len(c.free) - 1
	if last < 0 {
		p.mu.Unlock()
		return &buffer{data: make([]byte, classSize(class)), class: class}
	}
	b := c.free[last]
	c.free[last] = nil
	c.free = c.free[:last]
	c.unused = min(c.unused, last)
	p.mu.Unlock()
	return b
}

// release takes a buffer back.
func (p *Pool) release(b *buffer) {
	b.start, b.end, b.charge = 0, 0, 0
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.classes[b.class]
	c.free = append(c.free, b)
	p.out -= int64(len(b.data))
	if !p.ticking {
		p.ticking = true
		for i := range p.classes {
			p.classes[i].unused = 0
		}
		if p.timer == nil {
			p.timer = time.AfterFunc(poolIdle, p.shrink)
		} else {
			p.timer.Reset(poolIdle)
		}
	}
}

// shrink gives up the buffers that nobody needed since it last ran.
func (p *Pool) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ticking = false
	for i := range p.classes {
		c := &p.classes[i]
		keep := len(c.free) - c.unused
		clear(c.free[keep:])
		c.free = c.free[:keep]
		c.unused = keep
		p.ticking = p.ticking || keep > 0
	}
	if p.ticking {
		p.timer.Reset(poolIdle)
	}
}

// Out returns the bytes that are lent.
func (p *Pool) Out() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// Kept returns the bytes that lie free.
func (p *Pool) Kept() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(len(p.classes[0].free)*smallBuffer + len(p.classes[1].free)*largeBuffer)
}
