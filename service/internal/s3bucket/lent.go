package s3bucket

import (
	"io"
	"os"
	"sync"
)

// lent is a body that is lent to a request. If the storage answers before it has read it, or the
// request is given up, net/http goes on reading for a while, although the owner has it back.
type lent struct {
	size int64

	mu   sync.Mutex
	body io.ReaderAt // nil when it was given back
}

func lend(body *io.SectionReader) *lent { return &lent{size: body.Size(), body: body} }

// reader returns a reader of the whole body.
func (l *lent) reader() io.Reader { return io.NewSectionReader(l, 0, l.size) }

func (l *lent) ReadAt(p []byte, offset int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.body == nil {
		return 0, os.ErrClosed
	}
	return l.body.ReadAt(p, offset)
}

// giveBack ends the reading.
func (l *lent) giveBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.body = nil
}
