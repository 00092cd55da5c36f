package wire

import (
	"bytes"
	"slices"
	"testing"
)

// chunksPackets are those of our own extension; see docs/chunks.md.
func chunksPackets() []packetCase {
	return []packetCase{
		{name: "chunks", packet: `
			00 00 00 3d
			c8
			01 02 03 04
			00 00 00 0c "chunks@usftp"
			00 00 00 01 "h"
			00 00 00 0b "sha256,sha1"  # algorithms
			00 00 00 00 00 00 00 10    # offset
			00 00 00 01 00 00 00 00    # length
			00 00 80 00                # shortest`,
			message: &Chunks{Handle: []byte("h"), Algorithms: "sha256,sha1", Offset: 16,
				Length: 1 << 32, Shortest: 32768}},

		{name: "reply to chunks", packet: `
			00 00 00 3c
			c9
			01 02 03 04
			00 00 00 06 "sha256"
			01                         # the file ends there
			00 00 00 28                # two chunks
			00 00 40 00 "0123456789abcdef"
			00 00 00 01 "ghijklmnopqrstuv"`,
			message: &ChunksReply{Algorithm: "sha256", End: true,
				List: []byte("\x00\x00\x40\x000123456789abcdef\x00\x00\x00\x01ghijklmnopqrstuv")}},

		{name: "reply to chunks behind the end", packet: `
			00 00 00 11
			c9
			01 02 03 04
			00 00 00 03 "md5"
			00
			00 00 00 00`,
			message: &ChunksReply{Algorithm: "md5", List: []byte{}}},
	}
}

func TestListOfChunks(t *testing.T) {
	want := []Chunk{{Length: 16384, Sum: [ChunkSumSize]byte([]byte("0123456789abcdef"))},
		{Length: 1<<32 - 1, Sum: [ChunkSumSize]byte([]byte("ghijklmnopqrstuv"))}}
	var reply ChunksReply
	for _, c := range want {
		reply.List = AppendChunk(reply.List, c)
	}
	if got := slices.Collect(reply.All()); !slices.Equal(got, want) || reply.Len() != 2 {
		t.Errorf("%d: %v, want %v", reply.Len(), got, want)
	}
	for range reply.All() {
		break
	}
	if !bytes.Equal(reply.List[20:24], []byte{0xff, 0xff, 0xff, 0xff}) {
		t.Errorf("% x", reply.List)
	}
}
