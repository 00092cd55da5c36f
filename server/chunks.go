package server

import (
	"io"
	"math"

	"github.com/usftp/usftp/internal/cdc"
	"github.com/usftp/usftp/wire"
)

const (
	// mostChunks limits the chunks that a reply lists, and so the work per request: at the longest
	// chunk length that is 384 MiB.
	mostChunks = 2048

	// chunkList is the part of a request's buffer that holds the list; the rest is for reading the
	// file.
	chunkList = 48 << 10
)

// The list and the longest chunk fit in the buffer. Chunks are found faster if two fit.
var _ [chunkList - mostChunks*(4+wire.ChunkSumSize)]struct{}
var _ [largeBuffer - chunkList - wire.LongestChunk*wire.MaxChunk]struct{}

// chunks returns the reply to [wire.ExtChunks], which docs/chunks.md describes.
func (s *session) chunks(r *request) (reply wire.ChunksReply, err error) {
	name, h, err := chooseHash(r.text)
	switch {
	case err != nil:
		return reply, err
	case !wire.ValidChunk(r.blockSize):
		return reply, &StatusError{Code: wire.BadMessage, Message: "invalid chunk length"}
	case r.offset > math.MaxInt64:
		return reply, errOffset
	case r.handle.readerAt == nil:
		return reply, errBadHandle
	}
	to := uint64(math.MaxUint64)
	if r.length != 0 && r.length < to-r.offset {
		to = r.offset + r.length
	}
	buf := r.reply.Bytes()
	// The list is built at the buffer's end, so that it can then be appended to the reply.
	list := buf[len(buf)-chunkList:][:0:chunkList]
	source := &chunkSource{s: s, request: r, at: int64(r.offset)}
	cutter, err := cdc.NewCutter(source, int(r.blockSize), h, buf[:len(buf)-chunkList])
	if err != nil {
		return reply, err
	}
	defer source.stop()
	reply.Algorithm = name
	for at := r.offset; at < to && len(list) < mostChunks*(4+wire.ChunkSumSize); {
		chunk, err := cutter.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return reply, err
		}
		list = wire.AppendChunk(list, chunk)
		at += uint64(chunk.Length)
	}
	reply.List, reply.End = list, cutter.Ended()
	return reply, nil
}

// A chunkSource reads the file whose chunks are listed. It holds a turn for expensive work, except
// during reads.
type chunkSource struct {
	s       *session
	request *request
	at      int64
	working bool
}

func (c *chunkSource) Read(p []byte) (int, error) {
	c.stop()
	if err := c.s.ctx.Err(); err != nil {
		return 0, err
	}
	if c.at == math.MaxInt64 {
		return 0, io.EOF
	}
	n, err := readAt(c.request.handle.readerAt,
		p[:min(int64(len(p)), math.MaxInt64-c.at)], c.at)
	c.at += int64(n)
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	if n > 0 && err != io.EOF && err != nil { // the next Read will fail again
		err = nil
	}
	if turnErr := c.s.costly.begin(c.s.ctx, c.s.view.user, c.request); turnErr != nil {
		return 0, turnErr
	}
	c.working = true
	return n, err
}

// stop gives up the turn.
func (c *chunkSource) stop() {
	if c.working {
		c.working = false
		c.s.costly.end()
	}
}
