package ssh

import (
	"sync"
	"sync/atomic"
)

// blockSize holds a WRITE of 255 KiB, sealed in packets of 32 KiB: one system call sends it.
const blockSize = 288 << 10

// Buffers lends the blocks in which packets are opened and sealed. Connections that share one, as a
// server's do, hold no block while idle. The zero value is ready; it must not be copied.
type Buffers struct{ pool sync.Pool }

// block is lent memory. Its last holder's release returns it.
type block struct {
	mem   [blockSize]byte
	holds atomic.Int32
	from  *Buffers
	out   *atomic.Int32 // counts the input's blocks not yet returned; may be nil
}

func (b *Buffers) get(out *atomic.Int32) *block {
	k, _ := b.pool.Get().(*block)
	if k == nil {
		k = new(block)
	}
	k.from, k.out = b, out
	k.holds.Store(1)
	if out != nil {
		out.Add(1)
	}
	return k
}

func (k *block) hold() { k.holds.Add(1) }

func (k *block) release() {
	if k.holds.Add(-1) > 0 {
		return
	}
	from := k.from
	if k.out != nil {
		k.out.Add(-1)
	}
	k.from, k.out = nil, nil
	from.pool.Put(k)
}
