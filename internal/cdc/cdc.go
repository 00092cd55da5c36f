// Package cdc cuts contents into chunks whose boundaries the contents decide, with FastCDC, and
// hashes them. What two versions of a file have in common falls into the same chunks in both,
// wherever it lies.
//
// Both ends of a connection cut alike if they have the same version of FastCDC, which docs/chunks.md
// names. If they do not, they find nothing in common, and nothing else goes wrong.
package cdc

import (
	"errors"
	"hash"
	"io"

	chunkers "github.com/PlakarKorp/go-cdc-chunkers"
	_ "github.com/PlakarKorp/go-cdc-chunkers/chunkers/fastcdc" // registers its algorithms

	"github.com/usftp/usftp/wire"
)

// algorithm is FastCDC with masks that follow the average length, as the library calls it.
const algorithm = "fastcdc-v1.0.0"

var errAverage = errors.New("chunks cannot have that average length")

// A Cutter cuts what it reads.
type Cutter struct {
	chunks *chunkers.Chunker
	hash   hash.Hash
	sum    []byte
	ended  bool
}

// NewCutter returns a Cutter of what r gives, with chunks of an average length and their hashes. The
// buffer is the Cutter's until it is no longer used, and holds at least the longest chunk; twice
// that is faster. The hash has at least wire.ChunkSumSize bytes.
func NewCutter(r io.Reader, average int, h hash.Hash, buffer []byte) (*Cutter, error) {
	if average < 0 || average > wire.MostChunkAverage || !wire.ValidChunkAverage(uint32(average)) {
		return nil, errAverage
	}
	chunks, err := chunkers.NewChunkerBuffer(algorithm, r, &chunkers.ChunkerOpts{
		MinSize: int(wire.LeastChunk(uint32(average))), NormalSize: average,
		MaxSize: int(wire.MostChunk(uint32(average)))}, buffer)
	if err != nil {
		return nil, err
	}
	return &Cutter{chunks: chunks, hash: h}, nil
}

// Ended reports whether the last chunk is known to have been the last: one that is shorter than
// wire.LeastChunk always is.
func (c *Cutter) Ended() bool { return c.ended }

// Next returns the next chunk, or io.EOF behind the last one.
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
