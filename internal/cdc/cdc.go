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

var errShortest = errors.New("chunks cannot have that length")

// A Cutter cuts what it reads.
type Cutter struct {
	chunks *chunkers.Chunker
	hash   hash.Hash
	sum    []byte
	ended  bool
}

// NewCutter returns a Cutter of what r gives, with chunks of a length or somewhat more and their
// hashes. The buffer is the Cutter's until it is no longer used, and holds at least the longest
// chunk; twice that is faster. The hash has at least wire.ChunkSumSize bytes.
//
// No boundary is looked for before a chunk has the length, which is most of it: chunks are a quarter
// longer than that on average, and only a fifth of what is cut is looked at. The longest are three
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

// Ended reports whether the last chunk is known to have been the last: one that is too short always
// is.
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
