package usftp

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/flow"
)

// stripes is one transfer of a file over several handles, as private.Stripes describes it.
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

// Join implements private.Stripes.
func (s *stripes) Join(f *File) bool {
	open, err := f.opened("join")
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

// member is what is known of a handle outside of the loop.
type member struct {
	rests    atomic.Bool  // it is to ask for nothing more
	inFlight atomic.Int64 // requests
}

// Rest implements private.Stripes.
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

// Idle implements private.Stripes.
func (s *stripes) Idle(f *File) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[f]
	return m != nil && m.rests.Load() && m.inFlight.Load() == 0
}

// Moved implements private.Stripes.
func (s *stripes) Moved() int64 { return s.moved.Load() }

// Joined implements private.Stripes.
func (s *stripes) Joined() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined
}

// begin has a loop take its lanes from s.
func (s *stripes) begin(l *loop) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue != nil || s.ended {
		return errors.New("stripes are for one transfer")
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

// adopt takes the lanes that have joined.
func (l *loop) adopt() {
	if l.joins == nil {
		return
	}
	l.joins.mu.Lock()
	defer l.joins.mu.Unlock()
	for _, lane := range l.joins.joining {
		lane.window = newWindow(lane.client)
		l.lanes = append(l.lanes, lane)
		l.joins.joined++
	}
	l.joins.joining = nil
}

// WriteToAt implements private.Stripes.
func (s *stripes) WriteToAt(w io.WriterAt) (int64, error) {
	f := s.file
	f.turn.Lock()
	defer f.turn.Unlock()
	f.progress.Store(0)
	open, ctx, done, err := f.striped("read")
	if err != nil {
		return 0, err
	}
	defer done()
	defer s.end()
	request, _ := open.client.dataSizes()
	d := &download{
		loop: newLoop(ctx, flow.NewRanges(f.offset, f.expectedSize(), request, false),
			lane{client: open.client, handle: open.handle}),
		from: f.offset, given: f.offset,
		wrote: f.progress.Store,
		place: func(p []byte, off int64) error {
			_, err := w.WriteAt(p, off)
			return err
		},
	}
	d.waited = &f.waited
	d.ranges.Limit(math.MaxInt64)
	if err := s.begin(d.loop); err != nil {
		return 0, f.wrap("read", err)
	}
	n, err := d.run()
	f.offset += n
	return n, f.ownError("read", err)
}

// sparseReaderAt is private.SparseReaderAt.
type sparseReaderAt interface {
	io.ReaderAt
	Extent(off int64) (to int64, hole bool)
}

// ReadFromAt implements private.Stripes.
func (s *stripes) ReadFromAt(r io.ReaderAt) (int64, error) {
	f := s.file
	f.turn.Lock()
	defer f.turn.Unlock()
	f.progress.Store(0)
	open, ctx, done, err := f.striped("write")
	if err != nil {
		return 0, err
	}
	defer done()
	defer s.end()
	_, request := open.client.dataSizes()
	u := &upload{
		loop: newLoop(ctx, flow.NewRanges(f.offset, flow.Unknown, request, false),
			lane{client: open.client, handle: open.handle}),
		from: f.offset, at: r, acked: f.progress.Store,
	}
	u.waited = &f.waited
	u.sparse, _ = r.(sparseReaderAt)
	if err := s.begin(u.loop); err != nil {
		return 0, f.wrap("write", err)
	}
	open.client.changed(f.Name())
	defer open.client.changed(f.Name())
	n, err := u.run()
	f.offset += n
	return n, f.ownError("write", err)
}

// ReadRange implements private.Stripes.
func (s *stripes) ReadRange(off, length int64) io.ReadCloser {
	return s.file.readRangeOver(off, length, s)
}

// striped looks at the file for a transfer of several lanes.
func (f *File) striped(op string) (*openFile, context.Context, func(), error) {
	open, err := f.opened(op)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := open.client.awaitLimits(f.ctx); err != nil {
		return nil, nil, nil, f.wrap(op, err)
	}
	if f.appends() {
		return nil, nil, nil, f.wrap(op, errAppendAt)
	}
	ctx, done := f.during(open)
	return open, ctx, done, nil
}

// ownError gives an error of the user's reader or writer as it came.
func (f *File) ownError(op string, err error) error {
	var ours *sinkError
	if errors.As(err, &ours) {
		return ours.error
	}
	return f.wrap(op, err)
}
