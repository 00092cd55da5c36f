package objectfs

import (
	"sync"

	"github.com/usftp/usftp/internal/buffer"
)

// stretch is a range of an object that is fetched in advance.
type stretch struct {
	start, length int64
	memory        *Memory
	blocks        []*buffer.Block

	// Under the source's lock.
	users int       // besides the stream itself
	got   int64     // how much has come
	taken int64     // how much READs have had
	err   error     // why no more comes
	came  sync.Cond // more has come, or err
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

// spent reports whether all of it has been read.
func (s *stretch) spent() bool { return s.users == 0 && s.taken >= s.length }

// drop gives the memory back.
func (s *stretch) drop() {
	for _, b := range s.blocks {
		b.Release()
	}
	s.memory.ahead.Release(s.length)
}
