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

// Stripes lets the contents of one file travel over several handles of it, on several connections:
// one SSH channel carries at most one window in a round trip. Handles may join while the transfer
// runs. The zero Stripes is ready for one transfer.
type Stripes struct {
	moved atomic.Int64

	mu      sync.Mutex
	joining []lane
	joined  int
	members map[*File]*member
	queue   *conn.Queue // of the transfer under way
	ended   bool
}

// Join gives the transfer another handle: f is the same file, opened through another client, for
// writing without os.O_CREATE and os.O_TRUNC. It must stay open until the transfer has ended. Join
// returns false where that is so already. When f's connection is lost the others do what was its.
// That f is the same file, and that each handle sees what others write, is for the caller to find
// out.
func (s *Stripes) Join(f *File) bool {
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

// Rest has a handle that has joined ask for nothing more, or, with false, take part again. So it
// can be found out whether it adds to the rate: what is in flight comes to its end, which Idle
// tells, and the other handles do the rest.
func (s *Stripes) Rest(f *File, rest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[f]; m != nil {
		m.rests.Store(rest)
		if s.queue != nil && !s.ended {
			s.queue.Wake()
		}
	}
}

// Idle tells whether nothing is in flight on a handle that rests.
func (s *Stripes) Idle(f *File) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[f]
	return m != nil && m.rests.Load() && m.inFlight.Load() == 0
}

// Moved returns how many bytes have been acknowledged or have arrived so far, over all handles and
// in any order.
func (s *Stripes) Moved() int64 { return s.moved.Load() }

// Joined returns how many handles have joined.
func (s *Stripes) Joined() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined
}

// begin has a loop take its lanes from s.
func (s *Stripes) begin(l *loop) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue != nil || s.ended {
		return errors.New("Stripes are for one transfer")
	}
	s.queue = l.queue
	l.joins = s
	return nil
}

func (s *Stripes) end() {
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

// WriteToAt writes the file from its offset to its end to w, at the same offsets and in any order,
// over the file's own handle and those that join stripes, if not nil, and moves the offset. w's WriteAt runs on
// the calling goroutine. It returns how many bytes have arrived without a gap; after an error there
// may be more behind one.
func (f *File) WriteToAt(w io.WriterAt, stripes *Stripes) (int64, error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	f.progress.Store(0)
	open, ctx, done, err := f.striped("read")
	if err != nil {
		return 0, err
	}
	defer done()
	defer stripes.end()
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
	if err := stripes.begin(d.loop); err != nil {
		return 0, f.wrap("read", err)
	}
	n, err := d.run()
	f.offset += n
	return n, f.ownError("read", err)
}

// SparseReaderAt is a source for [File.ReadFromAt] that knows where it has holes. They are not
// sent; so the file must read as zeros from its offset on, as one does that is new.
type SparseReaderAt interface {
	io.ReaderAt

	// Extent returns up to where the source is the same, data or a hole, from an offset on. The
	// source's last byte should not lie in a hole: it gives the file its size. It runs on the
	// goroutine that ReadAt does.
	Extent(off int64) (to int64, hole bool)
}

// ReadFromAt writes what r has, from the file's offset to r's end, to the file at the same offsets,
// over the file's own handle and those that join stripes, if not nil, and moves the offset. r's ReadAt runs on
// the calling goroutine. It returns how many bytes the server has acknowledged without a gap; after
// an error there may be more behind one. Holes of a [SparseReaderAt] count as acknowledged.
func (f *File) ReadFromAt(r io.ReaderAt, stripes *Stripes) (int64, error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	f.progress.Store(0)
	open, ctx, done, err := f.striped("write")
	if err != nil {
		return 0, err
	}
	defer done()
	defer stripes.end()
	_, request := open.client.dataSizes()
	u := &upload{
		loop: newLoop(ctx, flow.NewRanges(f.offset, flow.Unknown, request, false),
			lane{client: open.client, handle: open.handle}),
		from: f.offset, at: r, acked: f.progress.Store,
	}
	u.waited = &f.waited
	u.sparse, _ = r.(SparseReaderAt)
	if err := stripes.begin(u.loop); err != nil {
		return 0, f.wrap("write", err)
	}
	open.client.changed(f.Name())
	defer open.client.changed(f.Name())
	n, err := u.run()
	f.offset += n
	return n, f.ownError("write", err)
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
