package server

import (
	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/wire"
)

// The two sizes of buffers: one for requests and replies as most clients make them (32 KiB of data
// and its header), one for the longest packet there may be with room to read on a little.
const (
	smallBuffer = buffer.Medium
	largeBuffer = buffer.Packet

	// lookahead is what is read beyond the end of a long packet: the head of the next one comes
	// with the same system call.
	lookahead = 4 << 10
)

// A large buffer must hold the longest packet and the lookahead.
var _ [largeBuffer - wire.LengthSize - wire.MaxPacket - lookahead]struct{}

// Pool lends buffers to sessions. Sessions that share a Pool share its spare buffers, which it frees
// when they are not used for a while. The zero Pool is ready for use.
type Pool struct{ blocks buffer.Pool }

// Out returns the bytes that are lent.
func (p *Pool) Out() int64 { return p.blocks.Out() }

// Kept returns the bytes that lie free.
func (p *Pool) Kept() int64 { return p.blocks.Kept() }

// lease lends a buffer of at least n bytes, which is at most largeBuffer.
func (p *Pool) lease(n int) *buffer.Block { return p.blocks.Get(bufferSize(n)) }

// bufferSize is the size of a buffer for n bytes.
func bufferSize(n int) int {
	if n <= smallBuffer {
		return smallBuffer
	}
	return largeBuffer
}
