// Package cdc uses FastCDC to cut contents into chunks at boundaries that the contents determine,
// and hashes them. What two versions of a file have in common falls into the same chunks in both,
// wherever it is.
//
// Both ends of a connection cut alike if they use the same version of FastCDC, which docs/chunks.md
// names. If they do not, they find nothing in common, but nothing else goes wrong.
package cdc

import (
	"errors"
	"hash"
	"io"

	chunkers "github.com/PlakarKorp/go-cdc-chunkers"
	_ "github.com/PlakarKorp/go-cdc-chunkers/chunkers/fastcdc" // registers its algorithms

	"github.com/usftp/usftp/wire"
)

// algorithm is FastCDC with masks that follow the average length, by the library's name.
const algorithm = "fastcdc-v1.0.0"

var errShortest = errors.New("chunks cannot have that length")

// A Cutter cuts a stream into chunks.
type Cutter struct {
	chunks *chunkers.Chunker
	hash   hash.Hash
	sum    []byte
	ended  bool
}

// NewCutter returns a Cutter of what r returns. The shortest chunk has the given length, and h
// hashes the chunks; its sums have at least wire.ChunkSumSize bytes. The buffer belongs to the
// Cutter until the Cutter is no longer used. It must hold at least the longest chunk; twice that is
// faster.
//
// A chunk has no boundary before the shortest length, so only the rest, a fifth of the contents, is
// searched for one. The average chunk is a quarter longer than the shortest, the longest three
// times as long.
func NewCutter(r io.Reader, shortest int, h hash.Hash, buffer []byte) (*Cutter, error) {
	if shortest < 0 || shortest > wire.MaxChunk || !wire.ValidChunk(uint32(shortest)) {
		return nil, errShortest
	}
	chunks, err := chunkers.NewChunkerBuffer(algorithm, r, &chunkers.ChunkerOpts{
		MinSize: shortest, NormalSize: shortest, MaxSize: wire.LongestChunk * shortest}, buffer)
	if err != nil {
		return nil, err
	}
	return &Cutter{chunks: chunks, hash: h}, nil
}

// Ended reports whether the last chunk is known to have been the last one. It always is if it is
// shorter than the shortest.
func (c *Cutter) Ended() bool { return c.ended }

// Next returns the next chunk, or io.EOF after the last one.
func (c *Cutter) Next() (chunk wire.Chunk, err error) {
	if c.ended {
		return chunk, io.EOF
	}
	data, err := c.chunks.Next()
	if err == io.EOF { // which the library also returns along with a short last chunk
		c.ended = true
	}
	if err != nil && len(data) == 0 || err != nil && err != io.EOF {
		return chunk, err
	}
	c.hash.Reset()
	c.hash.Write(data)
	c.sum = c.hash.Sum(c.sum[:0])
	chunk.Length = uint32(len(data))
	copy(chunk.Sum[:], c.sum)
	return chunk, nil
}
