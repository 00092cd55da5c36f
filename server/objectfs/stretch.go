package objectfs

import (
	"sync"

	"github.com/usftp/usftp/internal/buffer"
)

// stretch is a range of an object that is fetched ahead.
type stretch struct {
	start, length int64
	memory        *Memory
	blocks        []*buffer.Block

	// Under the source's lock.
	users int       // besides the stream itself
	got   int64     // bytes fetched so far
	taken int64     // bytes that READs have got
	err   error     // why fetching stopped
	came  sync.Cond // got or err has changed
}

func newStretch(source *source, start, length int64) *stretch {
	m := source.fs.memory
	s := &stretch{start: start, length: length, memory: m}
	s.came.L = &source.mu
	for at := int64(0); at < length; at += blockSize {
		s.blocks = append(s.blocks, m.blocks.Get(blockSize))
	}
	return s
}

// room returns the memory for the next bytes.
func (s *stretch) room() []byte {
	within := s.got % blockSize
	return s.blocks[s.got/blockSize].Bytes()[within:min(blockSize, within+s.length-s.got)]
}

// copy copies the bytes from offset at on into b, up to the first have bytes of s.
func (s *stretch) copy(b []byte, at, have int64) (n int) {
	for n < len(b) && at < have {
		within := at % blockSize
		block := s.blocks[at/blockSize].Bytes()[within:min(blockSize, within+have-at)]
		m := copy(b[n:], block)
		n, at = n+m, at+int64(m)
	}
	return n
}

// spent reports whether s has been read completely and is no longer used.
func (s *stretch) spent() bool { return s.users == 0 && s.taken >= s.length }

// drop releases the memory.
func (s *stretch) drop() {
	for _, b := range s.blocks {
		b.Release()
	}
	s.memory.ahead.Release(s.length)
}
