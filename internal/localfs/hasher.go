package localfs

import (
	"context"
	"io"
	"os"
)

// hasher feeds the copied data to a hash in order, on a separate goroutine if the plan says so.
type hasher struct {
	ctx    context.Context
	hash   io.Writer
	src    *os.File
	buffer []byte // for the data read once more
	size   int

	feed  chan portion // nil without a goroutine
	free  chan []byte  // buffers that may be read into
	ended chan struct{}
	err   error // the goroutine's until it has ended
}

// portion is the next part: data, zeros, or the source's data at an offset.
type portion struct {
	data  []byte
	zeros bool
	off   int64
	n     int64
}

// asideBuffers is how many buffers may be between the copy and the hash: enough that neither waits
// for short delays of the other.
const asideBuffers = 4

func newHasher(c *copier) *hasher {
	h := &hasher{ctx: c.ctx, hash: c.Hash, src: c.src, size: c.bufferSize()}
	if c.Plan.Hash == TeeAside {
		h.free = make(chan []byte, asideBuffers)
		for range asideBuffers {
			h.free <- make([]byte, h.size)
		}
		h.feed, h.ended = make(chan portion, asideBuffers), make(chan struct{})
		go h.run()
	}
	return h
}

func (h *hasher) run() {
	defer close(h.ended)
	for p := range h.feed {
		h.consume(p)
		if p.data != nil {
			h.free <- p.data[:cap(p.data)]
		}
	}
}

// take hashes a portion, here or on the other goroutine.
func (h *hasher) take(p portion) {
	if h.feed != nil {
		h.feed <- p
		return
	}
	h.consume(p)
}

// end waits for the other goroutine and returns the first error.
func (h *hasher) end() error {
	if h.feed != nil {
		close(h.feed)
		<-h.ended
		h.feed = nil
	}
	return h.err
}

func (h *hasher) consume(p portion) {
	switch {
	case h.err != nil:
	case p.data != nil:
		_, h.err = h.hash.Write(p.data)
	case p.zeros:
		for n := p.n; n > 0 && h.goesOn(); {
			piece := min(n, int64(len(nothing)))
			_, h.err = h.hash.Write(nothing[:piece])
			n -= piece
		}
	default:
		h.reread(p.off, p.n)
	}
}

// reread hashes the source's contents.
func (h *hasher) reread(off, n int64) {
	if h.buffer == nil {
		h.buffer = make([]byte, h.size)
	}
	for n > 0 && h.goesOn() {
		got, err := h.src.ReadAt(h.buffer[:min(n, int64(len(h.buffer)))], off)
		if got > 0 {
			_, h.err = h.hash.Write(h.buffer[:got])
		} else if err == io.EOF {
			h.err = io.ErrUnexpectedEOF // it has shrunk since it was copied
		} else if err != nil {
			h.err = err
		}
		off, n = off+int64(got), n-int64(got)
	}
}

func (h *hasher) goesOn() bool {
	if h.err == nil && h.ctx.Err() != nil {
		h.err = context.Cause(h.ctx)
	}
	return h.err == nil
}
