package server

import (
	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/wire"
)

// The two sizes of buffers: one for the usual requests and replies (32 KiB of data and its header),
// and one for the longest possible packet with room to read a little further.
const (
	smallBuffer = buffer.Medium
	largeBuffer = buffer.Packet

	// lookahead is the number of bytes read beyond a long packet, so that the next one's beginning
	// comes with the same system call.
	lookahead = 4 << 10
)

// A large buffer must hold the longest packet and the lookahead.
var _ [largeBuffer - wire.LengthSize - wire.MaxPacket - lookahead]struct{}

// Pool lends buffers to sessions. Sessions that share a Pool share its spare buffers, which it
// frees after a while without use. The zero Pool is ready for use.
type Pool struct{ blocks buffer.Pool }

// lease lends a buffer of at least n bytes; n is at most largeBuffer.
func (p *Pool) lease(n int) *buffer.Block { return p.blocks.Get(bufferSize(n)) }

// bufferSize returns the size of a buffer for n bytes.
func bufferSize(n int) int {
	if n <= smallBuffer {
		return smallBuffer
	}
	return largeBuffer
}
