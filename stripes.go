package usftp

import (
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

// stripes is a transfer of a file over several handles; see private.Stripes.
type stripes struct {
	file  *File
	moved atomic.Int64

	mu      sync.Mutex
	joining []lane
	joined  int
	members map[*File]*member
	queue   *conn.Queue // of the transfer under way
	ended   bool
}

func (s *stripes) Join(f *File) bool {
	open, err := f.opened("join", 0)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if s.members == nil {
		s.members = make(map[*File]*member)
	}
	s.members[f] = new(member)
	s.joining = append(s.joining, lane{client: open.client, handle: open.handle,
		member: s.members[f]})
	if s.queue != nil {
		s.queue.Wake()
	}
	return true
}

// member is the state of a handle that is kept outside the loop.
type member struct {
	rests    atomic.Bool  // it must not request more
	inFlight atomic.Int64 // requests
}

func (s *stripes) Rest(f *File, rest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[f]; m != nil {
		m.rests.Store(rest)
		if s.queue != nil && !s.ended {
			s.queue.Wake()
		}
	}
}

func (s *stripes) Idle(f *File) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[f]
	return m != nil && m.rests.Load() && m.inFlight.Load() == 0
}

func (s *stripes) Moved() int64 { return s.moved.Load() }

func (s *stripes) Joined() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined
}

// begin makes a loop take its lanes from s.
func (s *stripes) begin(l *loop) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue != nil || s.ended {
		return errors.New("the stripes have already been used")
	}
	s.queue = l.queue
	l.joins = s
	return nil
}

func (s *stripes) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// adopt adds the lanes that have joined.
func (l *loop) adopt() {
	if l.joins == nil {
		return
	}
	l.joins.mu.Lock()
	defer l.joins.mu.Unlock()
	for _, lane := range l.joins.joining {
		l.addLane(lane)
	}
	l.joins.joined += len(l.joins.joining)
	l.joins.joining = nil
}

func (s *stripes) WriteToAt(w io.WriterAt) (int64, error) {
	f := s.file
	f.turn.Lock()
	defer f.turn.Unlock()
	f.progress.Store(0)
	n, err := f.download(&download{from: f.offset, place: w}, math.MaxInt64, f.expectedSize(),
		&f.progress, s)
	f.offset += n
	return n, ownError(err)
}

// sparseReaderAt is private.SparseReaderAt.
type sparseReaderAt interface {
	io.ReaderAt
	Extent(off int64) (to int64, hole bool)
}

func (s *stripes) ReadFromAt(r io.ReaderAt) (int64, error) {
	f := s.file
	f.turn.Lock()
	defer f.turn.Unlock()
	f.progress.Store(0)
	open, err := f.ready("write", wire.OpenWrite)
	if err != nil {
		return 0, err
	}
	if f.appends() {
		return 0, f.wrap("write", errAppendAt)
	}
	ctx, done := f.during(open)
	defer done()
	_, request := open.client.dataSizes()
	u := &upload{
		loop: newLoop(ctx, f, open, flow.NewRanges(f.offset, flow.Unknown, request)),
		from: f.offset, at: r,
	}
	u.progress = &f.progress
	u.sparse, _ = r.(sparseReaderAt)
	defer s.end()
	if err := s.begin(u.loop); err != nil {
		return 0, f.wrap("write", err)
	}
	open.client.changed(f.Name())
	defer open.client.changed(f.Name())
	n, err := u.run()
	f.offset += n
	return n, ownError(f.wrap("write", err))
}

func (s *stripes) ReadRange(off, length int64) io.ReadCloser {
	return s.file.readRangeOver(off, length, s)
}
