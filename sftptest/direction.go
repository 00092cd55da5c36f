package sftptest

import (
	"errors"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	unlimited = math.MaxInt64

	// ratePiece is the most that a rate-limited link delivers at once.
	ratePiece = 16 << 10
)

// direction is one direction of a link. All its methods are called with the link's lock held; they
// wait on cond, which testing/synctest recognizes as durably blocked.
type direction struct {
	link        *linkState
	cond        sync.Cond
	delay, back time.Duration
	rate        int64
	buffer      int
	window      int
	maxPiece    int
	rng         *rand.Rand

	queue   []segment // sent and not yet read
	spare   [][]byte  // blocks that were read, to be used again
	queued  int       // bytes in queue
	credits []credit  // read, with the acknowledgement on its way
	unacked int       // queued plus credits
	writing bool      // a Write is in progress

	lineStart time.Time // rate: since when the line has been busy without a pause,
	lineBytes int64     // and with how many bytes

	left     int64  // bytes that may still pass
	whenGone func() // called, with the lock held, when the last of them arrives; nil for silence

	heldAt      time.Time // when delivery stopped
	writeClosed bool
	readClosed  bool
	goneAt      time.Time // when the writer learns that the reader closed; zero means never
}

// segment holds bytes that arrive together, or the end of the stream.
type segment struct {
	data  []byte
	block []byte // to be used again once data has been read; nil if data is not its end
	due   time.Time
	eof   bool
}

type credit struct {
	n   int
	due time.Time
}

func (d *direction) read(p []byte) (int, error) {
	for {
		switch {
		case d.readClosed:
			return 0, io.ErrClosedPipe
		case len(p) == 0:
			return 0, nil
		}
		if n := d.take(p); n > 0 {
			return n, nil
		}
		if len(d.queue) > 0 && d.queue[0].eof && d.arrived(d.queue[0]) {
			return 0, io.EOF
		}
		if d.link.cut {
			return 0, d.link.cutErr
		}
		if len(d.queue) > 0 && d.heldAt.IsZero() {
			d.waitUntil(d.queue[0].due)
		} else {
			d.cond.Wait()
		}
	}
}

// arrived reports whether a segment can be read: it is due, and was due before the link was held.
func (d *direction) arrived(s segment) bool {
	now := time.Now()
	if !d.heldAt.IsZero() {
		now = d.heldAt
	}
	return !s.due.After(now)
}

// take moves the bytes that have arrived into p.
func (d *direction) take(p []byte) (n int) {
	p = p[:d.piece(len(p))]
	for n < len(p) && len(d.queue) > 0 && !d.queue[0].eof && d.arrived(d.queue[0]) {
		s := &d.queue[0]
		m := move(p[n:], s.data)
		s.data = s.data[m:]
		n += m
		if len(s.data) == 0 {
			if s.block != nil && len(d.spare) < maxSpare {
				d.spare = append(d.spare, s.block)
			}
			d.queue[0] = segment{}
			d.queue = d.queue[1:]
		}
	}
	if n == 0 {
		return 0
	}
	raceWritten(p[:n])
	d.queued -= n
	if d.window > 0 {
		d.credits = append(d.credits, credit{n, time.Now().Add(d.back)})
	}
	d.cond.Broadcast()
	return n
}

// piece returns how many bytes a Read of up to n bytes may return.
func (d *direction) piece(n int) int {
	if d.maxPiece > 0 {
		n = min(n, d.maxPiece)
	}
	if d.rng != nil {
		n = 1 + d.rng.IntN(n)
	}
	return n
}

func (d *direction) write(p []byte) (n int, err error) {
	for d.writing {
		d.cond.Wait()
	}
	d.writing = true
	defer func() {
		d.writing = false
		d.cond.Broadcast()
	}()
	for {
		if err := d.writeError(); err != nil {
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
		m := min(d.room(), len(p)-n)
		if m > 0 {
			d.push(p[n : n+m])
			n += m
			if n == len(p) { // a cut caused by this write is reported by the next one
				return n, nil
			}
			continue
		}
		if len(d.credits) > 0 {
			d.waitUntil(d.credits[0].due)
		} else {
			d.cond.Wait()
		}
	}
}

func (d *direction) writeError() error {
	switch {
	case d.writeClosed:
		return io.ErrClosedPipe
	case d.link.cut && errors.Is(d.link.cutErr, io.EOF):
		return io.ErrClosedPipe
	case d.link.cut:
		return d.link.cutErr
	case !d.goneAt.IsZero() && !d.goneAt.After(time.Now()):
		return io.ErrClosedPipe
	}
	return nil
}

// room returns how many bytes may be written.
func (d *direction) room() int {
	if d.readClosed || d.left == 0 {
		return math.MaxInt // they vanish
	}
	room := d.buffer - d.queued
	if d.window > 0 {
		for len(d.credits) > 0 && !d.credits[0].due.After(time.Now()) {
			d.unacked -= d.credits[0].n
			d.credits = d.credits[1:]
		}
		room = min(room, d.window-d.unacked)
	}
	return max(room, 0)
}

// push sends bytes on their way.
func (d *direction) push(p []byte) {
	if d.readClosed || d.left == 0 {
		return
	}
	if d.left != unlimited {
		p = p[:min(int64(len(p)), d.left)]
		d.left -= int64(len(p))
	}
	block := d.block(len(p))
	raceRead(p)
	move(block, p)
	d.queued += len(p)
	d.unacked += len(p)
	for rest := block; len(rest) > 0; {
		n := len(rest)
		if d.rate > 0 {
			n = min(n, ratePiece)
		}
		s := segment{data: rest[:n], due: d.schedule(n)}
		if rest = rest[n:]; len(rest) == 0 {
			s.block = block
		}
		d.queue = append(d.queue, s)
	}
	d.cond.Broadcast()
	if d.left == 0 {
		d.runOut()
	}
}

// maxSpare limits the blocks kept to be used again.
const maxSpare = 4

// block returns n bytes with any contents.
func (d *direction) block(n int) []byte {
	for i, b := range d.spare {
		if cap(b) >= n && cap(b) <= 4*n {
			last := len(d.spare) - 1
			d.spare[i], d.spare[last] = d.spare[last], nil
			d.spare = d.spare[:last]
			return b[:n]
		}
	}
	if len(d.spare) == maxSpare {
		d.spare = d.spare[:0]
	}
	return make([]byte, n)
}

// schedule returns when n bytes sent now will arrive.
func (d *direction) schedule(n int) time.Time {
	now := time.Now()
	if d.rate <= 0 {
		return now.Add(d.delay)
	}
	if free := d.lineStart.Add(d.lineTime()); free.Before(now) {
		d.lineStart, d.lineBytes = now, 0
	}
	d.lineBytes += int64(n)
	return d.lineStart.Add(d.lineTime()).Add(d.delay)
}

// lineTime returns how long the line takes for lineBytes, rounded once rather than per segment.
func (d *direction) lineTime() time.Duration {
	hi, lo := bits.Mul64(uint64(d.lineBytes), uint64(time.Second))
	if hi >= uint64(d.rate) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(hi, lo, uint64(d.rate))
	return time.Duration(quotient)
}

// limit lets n more bytes pass.
func (d *direction) limit(n int64, whenGone func()) {
	d.left, d.whenGone = max(n, 0), whenGone
	d.cond.Broadcast()
	if d.left == 0 {
		d.runOut()
	}
}

// runOut calls whenGone when the last byte that may pass, which has been sent, arrives.
func (d *direction) runOut() {
	whenGone := d.whenGone
	d.whenGone = nil
	if whenGone == nil {
		return
	}
	wait := time.Duration(0)
	if len(d.queue) > 0 {
		wait = time.Until(d.queue[len(d.queue)-1].due)
	}
	if wait <= 0 {
		whenGone()
		return
	}
	time.AfterFunc(wait, func() {
		d.link.mu.Lock()
		defer d.link.mu.Unlock()
		whenGone()
	})
}

// closeWrite sends the end of the stream. It returns when that arrives; zero means never.
func (d *direction) closeWrite() time.Time {
	if !d.writeClosed {
		d.writeClosed = true
		if !d.link.cut && !d.readClosed && d.left != 0 {
			d.queue = append(d.queue, segment{eof: true, due: d.endDue()})
		}
		d.cond.Broadcast()
	}
	if d.left == 0 {
		return time.Time{}
	}
	return d.endDue()
}

// endDue returns when the end of the stream would arrive, after all bytes sent so far.
func (d *direction) endDue() time.Time {
	due := time.Now().Add(d.delay)
	if len(d.queue) > 0 && d.queue[len(d.queue)-1].due.After(due) {
		due = d.queue[len(d.queue)-1].due
	}
	return due
}

// closeRead drops undelivered bytes. goneAt is when the writer learns about that.
func (d *direction) closeRead(goneAt time.Time) {
	if d.readClosed {
		return
	}
	d.readClosed, d.goneAt = true, goneAt
	d.queue, d.queued, d.credits, d.spare = nil, 0, nil, nil
	d.cond.Broadcast()
}

func (d *direction) dropUndelivered() {
	for i, s := range d.queue {
		if !d.arrived(s) {
			clear(d.queue[i:])
			d.queue = d.queue[:i]
			return
		}
	}
}

// waitUntil waits for a change, or for the time.
func (d *direction) waitUntil(t time.Time) {
	timer := time.AfterFunc(time.Until(t), func() {
		d.link.mu.Lock()
		defer d.link.mu.Unlock()
		d.cond.Broadcast()
	})
	d.cond.Wait()
	timer.Stop()
}
