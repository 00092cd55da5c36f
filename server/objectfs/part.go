package objectfs

import (
	"errors"
	"io"
	"slices"

	"github.com/usftp/usftp/internal/buffer"
)

// part is a part of a file while it is being filled or sent, in blocks that are leased on demand.
type part struct {
	start, length int64
	blocks        []*buffer.Block // nil where nothing has been written
	written       spans           // offsets within the part
	pool          *buffer.Pool
	held          int64 // Memory has granted memory for so many of its first bytes
	short         bool  // held comes from the limit for short files
	sending       bool
	used          int64 // when it was last written to, by the writer's count
}

const blockSize = buffer.Large

func newPart(start, length int64, pool *buffer.Pool) *part {
	return &part{start: start, length: length, pool: pool,
		blocks: make([]*buffer.Block, (length+blockSize-1)/blockSize)}
}

// span is a range of a part.
type span struct{ from, to int64 }

// spans are ranges in order that do not touch each other.
type spans []span

// mostSpans limits how many pieces a part may be written in, out of order, so that a client cannot
// make the bookkeeping expensive.
const mostSpans = 256

var errScattered = errors.New("the file is written in too many small pieces out of order")

// add adds a range.
func (s *spans) add(from, to int64) error {
	i, _ := slices.BinarySearchFunc(*s, from, func(e span, from int64) int {
		if e.to < from {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(*s) && (*s)[j].from <= to; j++ {
		from, to = min(from, (*s)[j].from), max(to, (*s)[j].to)
	}
	if i == j && len(*s) >= mostSpans {
		return errScattered
	}
	*s = slices.Replace(*s, i, j, span{from, to})
	return nil
}

// gaps returns the missing ranges of the first end bytes.
func (s spans) gaps(end int64) (gaps []span) {
	at := int64(0)
	for _, e := range s {
		if e.from >= end {
			break
		}
		if e.from > at {
			gaps = append(gaps, span{at, e.from})
		}
		at = e.to
	}
	if at < end {
		gaps = append(gaps, span{at, end})
	}
	return gaps
}

// cut drops the ranges beyond end.
func (s *spans) cut(end int64) {
	for i, e := range *s {
		if e.from >= end {
			*s = (*s)[:i]
			return
		}
		(*s)[i].to = min(e.to, end)
	}
}

// full reports whether the whole part has been written.
func (p *part) full() bool {
	return len(p.written) == 1 && p.written[0] == span{0, p.length}
}

// write copies data to an offset within the part, up to the part's end.
func (p *part) write(data []byte, offset int64) (int, error) {
	n := min(int64(len(data)), p.length-offset)
	if err := p.written.add(offset, offset+n); err != nil {
		return 0, err
	}
	p.fill(data[:n], offset)
	return int(n), nil
}

func (p *part) fill(data []byte, offset int64) {
	for len(data) > 0 {
		n := copy(p.block(offset)[offset%blockSize:], data)
		data, offset = data[n:], offset+int64(n)
	}
}

// block returns the memory of the block that holds an offset.
func (p *part) block(offset int64) []byte {
	i := offset / blockSize
	if p.blocks[i] == nil {
		p.blocks[i] = p.pool.Get(blockSize)
	}
	return p.blocks[i].Bytes()[:blockSize]
}

// fillGap fills an unwritten range with the bytes of source, or with zeros if source is nil.
func (p *part) fillGap(gap span, source io.Reader) error {
	for at := gap.from; at < gap.to; {
		to := min(gap.to, (at/blockSize+1)*blockSize)
		memory := p.block(at)[at%blockSize:][:to-at]
		if source == nil {
			clear(memory)
		} else if _, err := io.ReadFull(source, memory); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// ReadAt implements io.ReaderAt for a request's body.
func (p *part) ReadAt(b []byte, offset int64) (n int, err error) {
	for n < len(b) && offset < p.length {
		block := p.block(offset)[offset%blockSize:]
		m := copy(b[n:min(int64(len(b)), int64(n)+p.length-offset)], block)
		n, offset = n+m, offset+int64(m)
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

// WriteRange implements [RangeWriter].
func (p *part) WriteRange(w io.Writer, offset, length int64) error {
	for length > 0 {
		block := p.block(offset)[offset%blockSize:]
		n, err := w.Write(block[:min(length, int64(len(block)))])
		if err != nil {
			return err
		}
		offset, length = offset+int64(n), length-int64(n)
	}
	return nil
}

// body returns the first length bytes as a request's body.
func (p *part) body(length int64) *io.SectionReader { return io.NewSectionReader(p, 0, length) }

// drop releases the memory.
func (p *part) drop() {
	for _, b := range p.blocks {
		b.Release()
	}
	p.blocks = nil
}

// zeros is a body of zeros.
type zeros struct{}

func (zeros) ReadAt(b []byte, _ int64) (int, error) {
	clear(b)
	return len(b), nil
}
