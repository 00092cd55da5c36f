//go:build linux || darwin

package sftpfs

import (
	"sync"
	"time"
)

const (
	// extentSize is the amount of data collected before it is sent: one WRITE of most servers.
	extentSize = 63 * 4096
	// idleTime is how long collected data waits for more.
	idleTime = time.Second
	// extentCost is an extent's share of the budget beyond its data. It bounds the number of extents:
	// a program may write single bytes here and there.
	extentCost = 4096
)

// An extent is written data that the host has not acknowledged. It is kept until then, to be sent
// again over a new connection, or saved in a rescue file if there is none.
type extent struct {
	handle  *handle
	off     int64
	data    []byte
	appends bool
	from    int64     // where it begins if it was appended and has arrived
	lost    time.Time // when the connection was lost before the answer to an append came
	sent    bool      // over the present connection
	tried   bool      // sent at some time
	full    bool      // nothing more is added
	done    bool      // no longer the file's: it arrived, was refused, or was given up
	ended   int       // sessions; see endedBy
}

// ends counts the session that has ended with an error, and reports whether the host has ended too
// many of them for the extent.
func (e *extent) ends(err error) bool {
	e.ended += endedBy(err)
	return e.ended >= mostFatal
}

// release frees the extent's memory. The extent must not be used afterwards.
func (e *extent) release() {
	if cap(e.data) == extentSize {
		e.handle.file.fs.blocks.put(e.data)
	}
	e.data = nil
}

func (e *extent) cost() int { return len(e.data) + extentCost }

func (e *extent) end() int64 { return e.off + int64(len(e.data)) }

// blocks are memory for extents that will probably become full. It is kept for the next extents
// while any data is being written: the garbage collector would need as much again.
type blocks struct {
	mu   sync.Mutex
	free [][]byte
}

func (b *blocks) get() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.free) - 1
	if last < 0 {
		return make([]byte, 0, extentSize)
	}
	block := b.free[last]
	b.free[last] = nil
	b.free = b.free[:last]
	return block
}

func (b *blocks) put(block []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, block[:0])
}

// drop leaves the free blocks to the garbage collector.
func (b *blocks) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = nil
}
