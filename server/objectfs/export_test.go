package objectfs

import "time"

// NewSmall is New with short parts and waits, so that tests need little memory: the first ones are first
// bytes long, and memory is what is left for all of them together.
func NewSmall(bucket Bucket, options Options, first, memory int64) *FS {
	options.Memory = newMemory(memory, 2*first)
	f := New(bucket, &options)
	f.layout = layout{first: first, most: 2 * first}
	f.pause = time.Millisecond
	return f
}

// Parts returns the number of parts of a file of a size, and the length of the longest.
func Parts(size, longest int64) (n int, length int64) {
	l := layout{first: standard.first, most: longest}
	last := l.at(size - 1)
	_, length = l.span(last)
	return last + 1, length
}

// Span returns where a part begins, and its length.
func Span(index int) (start, length int64) { return standard.span(index) }

// At returns the part that holds an offset.
func At(offset int64) int { return standard.at(offset) }

// Out returns how many bytes the parts and stretches hold.
func (m *Memory) Out() int64 { return m.blocks.Out() }

// Memory returns what limits the FS.
func (f *FS) Memory() *Memory { return f.memory }

// ErrIdle is why an upload fails whose memory others needed.
var ErrIdle = errIdle
