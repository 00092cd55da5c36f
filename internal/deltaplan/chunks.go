package deltaplan

import (
	"context"
	"iter"

	"github.com/usftp/usftp/wire"
)

// A Chunk is part of a file, identified by its hash.
type Chunk struct {
	Off    int64
	Length int32
	Sum    [wire.ChunkSumSize]byte
}

func (c *Chunk) End() int64 { return c.Off + int64(c.Length) }

// A Lister yields the chunks in a part of a file, in order.
type Lister func(ctx context.Context, shortest int, from, to int64) iter.Seq2[Chunk, error]

// A listing is a file's chunks, while they are being listed.
type listing struct{ *growingList[Chunk] }

// fill lists the chunks.
func (l listing) fill(chunks iter.Seq2[Chunk, error]) {
	n := 0
	for c, err := range chunks {
		if n++; err == nil && n > mostChunks {
			err = ErrNotWorth
		}
		if err != nil {
			l.end(err)
			return
		}
		l.add(c)
	}
	l.end(nil)
}

// upTo waits until the chunks reach an offset.
func (l listing) upTo(off int64) ([]Chunk, error) {
	return l.wait(func(chunks []Chunk) bool {
		n := len(chunks)
		return n > 0 && chunks[n-1].End() >= off
	})
}

// first waits for the first chunks, and returns up to count of them.
func (l listing) first(count int) ([]Chunk, error) {
	chunks, err := l.wait(func(chunks []Chunk) bool { return len(chunks) >= count })
	return chunks[:min(len(chunks), count)], err
}

// all waits for the end.
func (l listing) all() ([]Chunk, error) {
	return l.wait(func([]Chunk) bool { return false })
}
