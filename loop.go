package usftp

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

// lane is one stream of a transfer: a handle of the file on one connection.
type lane struct {
	client *session
	handle *conn.Handle
	window flow.Window
	lost   bool    // its connection has ended; the other lanes take over its ranges
	member *member // nil for the first, which always takes part
}

// piece is a range in flight.
type piece struct {
	flow.Range
	stamp flow.Stamp
	lane  int
}

// loop runs the arithmetic of one transfer over its lanes, on the goroutine of its caller. Every
// transfer of more than one packet of a file's contents is a loop; they differ in where the data
// comes from or goes to.
type loop struct {
	ctx    context.Context
	file   *File // it counts the time spent waiting
	began  time.Time
	ranges *flow.Ranges
	lanes  []lane
	queue  *conn.Queue
	pieces []piece
	idle   []int    // pieces that are free
	joins  *stripes // source of further lanes; nil if none
	// receives the length that has moved without a gap, as it grows; may be nil
	progress *atomic.Int64
}

// mover is the part in which loops differ: a download or an upload.
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

	// writeAhead is the most of an upload that may wait for the connection's writer. More would
	// only take memory.
	writeAhead = 512 << 10
)

// maxInFlight limits the bytes that one lane has in flight, whatever the link: 64 requests of 255
// KiB, or thousands of small ones.
const maxInFlight = 64 * wire.MaxData

// newLoop makes a loop of one lane.
func newLoop(ctx context.Context, f *File, open *openFile, ranges *flow.Ranges) *loop {
	l := &loop{ctx: ctx, file: f, began: time.Now(), ranges: ranges, queue: conn.NewQueue()}
	l.addLane(lane{client: open.client, handle: open.handle})
	return l
}

func (l *loop) addLane(lane lane) {
	lane.resetWindow()
	l.lanes = append(l.lanes, lane)
}

// smallStart is the number of bytes in flight at first on a short link; see
// private.Client.StartSmall.
const smallStart = 256 << 10

// resetWindow prepares the window for a transfer that knows nothing about the link yet.
func (l *lane) resetWindow() {
	start, least := int64(maxInFlight), int64(leastInFlight)
	if window := l.client.options.channelWindow; window > 0 {
		start = int64(window)
	}
	if l.client.startsSmall.Load() {
		start, least = smallStart, smallStart
	}
	l.window.Reset(start, least, maxInFlight)
}

// claim takes the next range for a lane that has room for it.
func (l *loop) claim(i int) (flow.Range, bool) {
	lane := &l.lanes[i]
	if lane.lost || lane.resting() || !lane.window.Has(l.ranges.Request(), lane.room()) {
		return flow.Range{}, false
	}
	return l.ranges.Next()
}

// room returns the number of bytes that the lane may have in flight, by the budget.
func (l *lane) room() int64 { return l.client.conn.Room(l.window.InFlight()) }

// next waits for a complete call.
func (l *loop) next() (*conn.Call, error) {
	began := time.Now()
	call, err := l.queue.Next(l.ctx)
	l.file.waited.Add(int64(time.Since(began)))
	return call, err
}

// report stores the number of bytes moved without a gap.
func (l *loop) report(n int64) {
	if l.progress != nil {
		l.progress.Store(n)
	}
}

func (l *lane) resting() bool { return l.member != nil && l.member.rests.Load() }

func (l *lane) count(n int64) {
	if l.member != nil {
		l.member.inFlight.Add(n)
	}
}

// launch starts the call for a range. claim has found room for it, so it may overdraw the budget if
// another transfer was faster: data read from a source must not be lost, and a transfer with
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

// pass leaves a range whose lane is lost to the other lanes, unless that was the first.
func (l *loop) pass(p piece) bool {
	if p.lane == 0 {
		return false
	}
	l.lanes[p.lane].lost = true
	l.ranges.Again(p.Range)
	return true
}

// errUnfinished says that a transfer has stopped early without a reason: a bug in this package,
// which must not be silent.
var errUnfinished = errors.New("the transfer stopped early; this is a bug in usftp")

// verdict returns how a transfer with nothing in flight has ended. A failed request takes
// precedence over the source's error.
func (l *loop) verdict(source error) error {
	err := cmp.Or(l.ranges.Err(), source)
	if err == nil && !l.ranges.Finished() {
		err = errUnfinished
	}
	return err
}
