// Package buffer lends the memory for file contents in transit. Each client and each server has its
// own pool, which counts the memory lent, reuses returned blocks, and frees blocks that are not
// used for a while.
package buffer

import (
	"slices"
	"sync"
	"time"
	"weak"
)

// The sizes of blocks. Packet holds the longest packet that the protocol allows and the beginning
// of the next one in the stream. Large holds a WRITE packet of 255 KiB with its header, Medium one
// of 32 KiB, and Small one of 4 KiB, enough for replies without data.
const (
	Small  = 4608
	Medium = 40 << 10
	Large  = 256 << 10
	Packet = 264 << 10
)

var classes = [...]int{Small, Medium, Large, Packet}

// idleAfter is how long a pool keeps unused blocks.
const idleAfter = 5 * time.Second

// Pool lends blocks. The zero Pool is ready to use. It must not be copied.
type Pool struct {
	mu    sync.Mutex
	free  [len(classes)][]*Block
	least [len(classes)]int // the fewest free blocks since the last trim: these were not needed
	// gone are blocks that trim has dropped. Until the garbage collector frees them, using them
	// again costs nothing, and new ones would take more memory.
	gone  [len(classes)][]weak.Pointer[Block]
	out   int64
	timer *time.Timer
	armed bool
	shut  bool // by Close
}

// Block is lent memory. It has exactly one owner at a time, who returns it once.
type Block struct {
	// For the owner to use; zero at first. Bytes Start to End are waiting to be written, and Charge
	// is the block's charge to a budget.
	Start, End, Charge int

	pool  *Pool
	class int // -1 if the size fits no class; such a block is not reused
	mem   []byte
}

// Get lends a block of at least n bytes. The memory is not cleared.
func (p *Pool) Get(n int) *Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	for class, size := range classes {
		if n > size {
			continue
		}
		p.out += int64(size)
		free := p.free[class]
		if len(free) == 0 {
			if b := p.recall(class); b != nil {
				return b
			}
			return &Block{pool: p, class: class, mem: make([]byte, size)}
		}
		last := len(free) - 1
		b := free[last]
		free[last] = nil
		p.free[class] = free[:last]
		p.least[class] = min(p.least[class], last)
		return b
	}
	p.out += int64(n)
	return &Block{pool: p, class: -1, mem: make([]byte, n)}
}

// recall returns a block that trim has dropped and that is not collected yet, or nil.
func (p *Pool) recall(class int) *Block {
	for gone := p.gone[class]; len(gone) > 0; {
		last := len(gone) - 1
		b := gone[last].Value()
		gone = gone[:last]
		p.gone[class] = gone
		if b != nil {
			return b
		}
	}
	return nil
}

// Bytes returns all of the block's memory.
func (b *Block) Bytes() []byte { return b.mem }

// Release returns the block. On a nil Block it does nothing.
func (b *Block) Release() {
	if b == nil {
		return
	}
	b.Start, b.End, b.Charge = 0, 0, 0
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out -= int64(len(b.mem))
	if b.class < 0 || p.shut {
		return
	}
	p.free[b.class] = append(p.free[b.class], b)
	if !p.armed {
		p.armed = true
		if p.timer == nil {
			p.timer = time.AfterFunc(idleAfter, p.trim)
		} else {
			p.timer.Reset(idleAfter)
		}
	}
}

// Forget stops counting a block without taking its memory back, for a block that a stream's Write,
// which cannot be interrupted, may still be reading.
func (b *Block) Forget() {
	if b == nil {
		return
	}
	b.pool.mu.Lock()
	b.pool.out -= int64(len(b.mem))
	b.pool.mu.Unlock()
}

// Out returns how many bytes are lent.
func (p *Pool) Out() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// Kept returns how many bytes are kept for reuse.
func (p *Pool) Kept() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kept int64
	for class, size := range classes {
		kept += int64(size) * int64(len(p.free[class]))
	}
	return kept
}

// trim frees the blocks that were not used for a whole period, and runs again as long as any are
// kept.
func (p *Pool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := 0
	for class := range classes {
		free := p.free[class]
		keep := len(free) - min(p.least[class], len(free))
		p.gone[class] = slices.DeleteFunc(p.gone[class], collected)
		for _, b := range free[keep:] {
			p.gone[class] = append(p.gone[class], weak.Make(b))
		}
		clear(free[keep:])
		p.free[class] = free[:keep]
		if keep == 0 {
			p.free[class] = nil
		}
		p.least[class] = keep
		kept += keep
	}
	p.armed = kept > 0 && !p.shut
	if p.armed {
		p.timer.Reset(idleAfter)
	}
}

func collected(b weak.Pointer[Block]) bool { return b.Value() == nil }

// Close frees the kept blocks and stops the pool's timer. Lent blocks may still be released, but
// are not kept.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = [len(classes)][]*Block{}
	p.gone = [len(classes)][]weak.Pointer[Block]{}
	p.least = [len(classes)]int{}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.armed, p.shut = false, true
}
