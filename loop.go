package usftp

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

// lane is one stream of a transfer: a handle of the file on one connection.
type lane struct {
	client *session
	handle []byte
	window *flow.Window
	lost   bool    // its connection has ended; the other lanes take over its ranges
	member *member // nil for the first, which always takes part
}

// piece is a range in flight.
type piece struct {
	flow.Range
	stamp flow.Stamp
	lane  int
}

// loop runs the arithmetic of one transfer over its lanes, on the goroutine of its caller.
// Everything that moves more than one packet of a file's contents is a loop; what differs is where
// the data comes from or goes to.
type loop struct {
	ctx    context.Context
	began  time.Time
	ranges *flow.Ranges
	lanes  []lane
	queue  *conn.Queue
	pieces []piece
	idle   []int // pieces that are free
	// nanoseconds for which it had nothing to do but wait for an answer; nil if nobody asks
	waited *atomic.Int64
	joins  *stripes // where further lanes come from; nil if there are none
	// why the transfer ends early: the error of the lowest range that failed
	err    error
	errOff int64
}

// mover is what differs between loops: a download or an upload.
type mover interface {
	fill() error                 // sends as much as may be in flight
	handleReply(call *conn.Call) // takes a complete call
	afterReplies() error         // follows the calls that were complete together
}

// move sends requests and handles replies until nothing is in flight and nothing more is sent.
func (l *loop) move(m mover) error {
	for {
		l.adopt()
		if err := m.fill(); err != nil || l.ranges.Out() == 0 {
			return err
		}
		call, err := l.next()
		if err != nil {
			return err
		}
		for ; call != nil; call = l.queue.Take() {
			m.handleReply(call)
		}
		if err := m.afterReplies(); err != nil {
			return err
		}
	}
}

const (
	// leastInFlight keeps a server busy on a link whose round trip is too short to measure.
	leastInFlight = 1 << 20

	// writeAhead is how much of an upload may wait for the connection's writer. More would only
	// take memory.
	writeAhead = 512 << 10
)

// maxInFlight limits what one lane has in flight, whatever the link: 64 requests of 255 KiB, or
// thousands of small ones.
const maxInFlight = 64 * wire.MaxData

func newLoop(ctx context.Context, ranges *flow.Ranges, lanes ...lane) *loop {
	l := &loop{ctx: ctx, began: time.Now(), ranges: ranges, lanes: lanes, queue: conn.NewQueue()}
	for i := range l.lanes {
		l.lanes[i].window = newWindow(l.lanes[i].client)
	}
	return l
}

func newWindow(s *session) *flow.Window {
	w := new(flow.Window)
	s.resetWindow(w)
	return w
}

// smallStart is how much is in flight at first on a short link; see private.Client.StartSmall.
const smallStart = 256 << 10

// resetWindow prepares a window for a transfer that knows nothing about the link yet.
func (s *session) resetWindow(w *flow.Window) {
	start, least := int64(maxInFlight), int64(leastInFlight)
	if window := s.options.channelWindow; window > 0 {
		start = int64(window)
	}
	if s.startsSmall.Load() {
		start, least = smallStart, smallStart
	}
	w.Reset(start, least, maxInFlight)
}

// claim takes the next range for a lane that has room for it.
func (l *loop) claim(i int) (flow.Range, bool) {
	w := l.lanes[i].window
	if l.lanes[i].lost || l.lanes[i].resting() ||
		!w.Has(l.ranges.Request(), l.lanes[i].client.conn.Room(w.InFlight())) {
		return flow.Range{}, false
	}
	return l.ranges.Next(i)
}

// next waits for a complete call.
func (l *loop) next() (*conn.Call, error) {
	if l.waited == nil {
		return l.queue.Next(l.ctx)
	}
	began := time.Now()
	call, err := l.queue.Next(l.ctx)
	l.waited.Add(int64(time.Since(began)))
	return call, err
}

func (l *lane) resting() bool { return l.member != nil && l.member.rests.Load() }

func (l *lane) count(n int64) {
	if l.member != nil {
		l.member.inFlight.Add(n)
	}
}

// launch starts the call for a range. claim has found room for it, so it may overdraw the budget if
// another transfer was faster: what was read from a source must not be lost, and a transfer with
// nothing in flight must not wait for others, which may be waiting for their callers.
func (l *loop) launch(i int, r flow.Range, call *conn.Call) error {
	call.Bytes = r.Len
	call.Done = l.queue
	call.Tag = l.takePiece()
	lane := &l.lanes[i]
	l.pieces[call.Tag] = piece{Range: r, stamp: lane.window.Sent(time.Since(l.began), r.Len),
		lane: i}
	lane.count(1) // before the lane may be found idle
	ok, err := lane.client.conn.TryStart(call, true)
	if !ok && err == nil { // more requests are in flight than there are ids
		err = lane.client.conn.Start(l.ctx, call)
	}
	if err != nil {
		lane.window.Lost(r.Len)
		lane.count(-1)
		l.idle = append(l.idle, call.Tag)
		l.ranges.Again(r)
		call.Payload.Release()
		lane.client.conn.Recycle(call)
		if i > 0 && l.ctx.Err() == nil {
			lane.lost = true
			return nil
		}
	}
	return err
}

func (l *loop) takePiece() int {
	if n := len(l.idle); n > 0 {
		tag := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return tag
	}
	l.pieces = append(l.pieces, piece{})
	return len(l.pieces) - 1
}

// landed takes the piece of a complete call, of which got bytes have moved.
func (l *loop) landed(call *conn.Call, got int) piece {
	p := l.pieces[call.Tag]
	l.idle = append(l.idle, call.Tag)
	l.lanes[p.lane].count(-1)
	l.lanes[p.lane].window.Acked(time.Since(l.began), p.stamp, p.Len, got)
	if l.joins != nil {
		l.joins.moved.Add(int64(got))
	}
	return p
}

// pass leaves a range to the other lanes if it failed because its own lane, and not the first, has
// gone.
func (l *loop) pass(p piece, err error) bool {
	if p.lane == 0 || err == nil {
		return false
	}
	l.lanes[p.lane].lost = true
	l.ranges.Again(p.Range)
	return true
}

// fail records that a range has failed: what lies before it still counts, what lies after it does
// not.
func (l *loop) fail(r flow.Range, err error) {
	if l.err == nil || r.Off < l.errOff {
		l.err, l.errOff = err, r.Off
	}
	l.ranges.Again(r)
	l.ranges.Limit(r.Off)
}

// errUnfinished says that a transfer has stopped early without a reason: a bug in this package,
// which must not be silent.
var errUnfinished = errors.New("the transfer stopped early; this is a bug in usftp")

// verdict returns how a transfer with nothing in flight has ended. A failed request counts before
// the source's error.
func (l *loop) verdict(source error) error {
	switch {
	case l.err != nil:
		return l.err
	case source != nil:
		return source
	case !l.ranges.Finished():
		return errUnfinished
	}
	return nil
}

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

// member is what is known about a handle outside the loop.
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

// begin makes a loop take its lanes from s.
func (s *stripes) begin(l *loop) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue != nil || s.ended {
		return errors.New("stripes were used already")
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
	d.waited, d.answers = &f.waited, &f.answers
	d.ranges.Limit(math.MaxInt64)
	if err := s.begin(d.loop); err != nil {
		return 0, f.wrap("read", err)
	}
	n, err := d.run()
	f.offset += n
	return n, ownError(f.wrap("read", err))
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
	return n, ownError(f.wrap("write", err))
}

// ReadRange implements private.Stripes.
func (s *stripes) ReadRange(off, length int64) io.ReadCloser {
	return s.file.readRangeOver(off, length, s)
}

// striped prepares a file for a transfer over several lanes.
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
