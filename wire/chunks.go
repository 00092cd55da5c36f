package wire

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// ExtChunks is an extension of our own, version "1": a server lists the content-defined chunks of
// an open file, so that a client can find the common parts of two versions of a file.
// docs/chunks.md describes it. The answer is [ChunksReply].
const ExtChunks = "chunks@usftp"

// ChunkSumSize is the number of bytes sent of a chunk's hash. They find equal chunks but prove
// nothing.
const ChunkSumSize = 16

// The least length of a chunk is a power of two between these bounds.
const (
	MinChunk = 2 << 10
	MaxChunk = 64 << 10
)

// ValidChunk reports whether n may be the least length of a chunk.
func ValidChunk(n uint32) bool {
	return MinChunk <= n && n <= MaxChunk && bits.OnesCount32(n) == 1
}

// LongestChunk limits the length of a chunk: it is at most LongestChunk times the least length.
const LongestChunk = 3

// chunkSize is the size of one chunk in a reply.
const chunkSize = 4 + ChunkSumSize

// Chunks asks for the chunks of an open file. The first begins at Offset, and the last is the first
// one to end at or beyond Offset+Length; a Length of 0 means to the end of the file.
type Chunks struct {
	Handle     []byte
	Algorithms string // of the hash; names separated by commas, the most wanted first
	Offset     uint64
	Length     uint64
	Shortest   uint32 // the least length of a chunk, except for the last of a file; see ValidChunk
}

// Append appends the packet.
func (m Chunks) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendBytes(appendExtended(b, id, ExtChunks), m.Handle)
	b = appendString(b, m.Algorithms)
	b = binary.BigEndian.AppendUint64(b, m.Offset)
	b = binary.BigEndian.AppendUint64(b, m.Length)
	b = binary.BigEndian.AppendUint32(b, m.Shortest)
	return finish(b, start, 0)
}

// Parse parses the payload, which Handle aliases.
func (m *Chunks) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Handle, m.Algorithms = r.Bytes(), r.String()
	m.Offset, m.Length, m.Shortest = r.Uint64(), r.Uint64(), r.Uint32()
	return r.err
}

// Chunk is one chunk of a file. It begins where the one before it ends.
type Chunk struct {
	Length uint32
	Sum    [ChunkSumSize]byte // the beginning of its hash
}

// ChunksReply is the payload of the EXTENDED_REPLY to [Chunks]. A server may list fewer chunks than
// were asked for, but at least one unless the file ends at the offset.
type ChunksReply struct {
	Algorithm string // the one used
	End       bool   // the file ends after the last chunk
	List      []byte // of chunks, see AppendChunk and All
}

// AppendChunk appends a chunk to a List.
func AppendChunk(list []byte, c Chunk) []byte {
	return append(binary.BigEndian.AppendUint32(list, c.Length), c.Sum[:]...)
}

// All yields the chunks of the List.
func (m *ChunksReply) All() iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		for list := m.List; len(list) >= chunkSize; list = list[chunkSize:] {
			if !yield(Chunk{binary.BigEndian.Uint32(list), [ChunkSumSize]byte(list[4:])}) {
				return
			}
		}
	}
}

// Len returns how many chunks the List has.
func (m *ChunksReply) Len() int { return len(m.List) / chunkSize }

// Append appends the packet.
func (m ChunksReply) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendString(appendHeader(b, TypeExtendedReply, id), m.Algorithm)
	end := byte(0)
	if m.End {
		end = 1
	}
	b = appendBytes(append(b, end), m.List)
	return finish(b, start, 0)
}

// Parse parses the payload, which List aliases.
func (m *ChunksReply) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Algorithm, m.End, m.List = r.String(), r.Byte() != 0, r.Bytes()
	if len(m.List)%chunkSize != 0 {
		r.fail()
		m.List = nil
	}
	return r.err
}
