package objectfs

import (
	"github.com/usftp/usftp/internal/buffer"
)

// stretch is a range of an object that is fetched in advance.
type stretch struct {
	start, length int64
	memory        *Memory
	blocks        []*buffer.Block

	// Under the reader's lock.
	users int   // besides the reader itself
	got   int64 // how much has come
	err   error // why no more comes
}

func newStretch(m *Memory, start, length int64) *stretch {
	s := &stretch{start: start, length: length, memory: m}
	for at := int64(0); at < length; at += blockSize {
		s.blocks = append(s.blocks, m.blocks.Get(blockSize))
	}
	return s
}

// room returns where the next bytes go.
func (s *stretch) room() []byte {
	within := s.got % blockSize
	return s.blocks[s.got/blockSize].Bytes()[within:min(blockSize, within+s.length-s.got)]
}

// copy copies what there is at an offset within the first have bytes.
func (s *stretch) copy(b []byte, at, have int64) (n int) {
	for n < len(b) && at < have {
		within := at % blockSize
		block := s.blocks[at/blockSize].Bytes()[within:min(blockSize, within+have-at)]
		m := copy(b[n:], block)
		n, at = n+m, at+int64(m)
	}
	return n
}

// drop gives the memory back.
func (s *stretch) drop() {
	for _, b := range s.blocks {
		b.Release()
	}
	s.memory.ahead.Release(s.length)
}
