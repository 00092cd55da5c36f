package usftp

import (
	"errors"
	"io"
	"io/fs"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

var errAppendAt = errors.New("WriteAt on a file that was opened with O_APPEND")

// rangeAt is a ReadAt or WriteAt that was started: the arithmetic of a transfer, driven by the
// completions of its own requests and not by a goroutine. Its pending result's lock guards it, and
// the buffer: once the result is there, nothing touches it.
type rangeAt struct {
	pending *Pending[int]
	open    *openFile
	ranges  *flow.Ranges
	buf     []byte
	off     int64
	write   bool

	starting bool // the caller has not sent all yet
	err      error
	errOff   int64
}

// rangeCall is one request of a rangeAt, as its Completer.
type rangeCall struct {
	at *rangeAt
	flow.Range
}

func (f *File) startAt(op string, p []byte, off int64, write bool) *Pending[int] {
	o := operation[int]{name: op, path: f.Name()}
	open, err := f.opening(op)
	switch {
	case err != nil:
		o.err = fs.ErrClosed
	case off < 0:
		o.err = fs.ErrInvalid
	case write && endOf(off, len(p))-off < int64(len(p)):
		o.err = errTooLong
	}
	if o.err != nil || len(p) == 0 {
		result := &Pending[int]{session: f.session(), op: o, done: make(chan struct{})}
		result.end(0, o.wrap(o.err))
		return result
	}
	// where the limits are not known yet, what every server takes
	read, request := open.client.dataSizes()
	if !write {
		request = read
	}
	at := &rangeAt{
		pending: &Pending[int]{session: open.client, op: o, done: make(chan struct{})},
		open:    open, buf: p, off: off, write: write, starting: true,
		ranges: flow.NewRanges(off, flow.Unknown, request, false),
	}
	at.ranges.Limit(endOf(off, len(p)))
	at.pending.watch(f.ctx, o)
	at.pending.watch(open.closed, o)
	at.sendAll(f)
	return at.pending
}

// sendAll sends all ranges, waiting for the budget where it is full.
func (at *rangeAt) sendAll(f *File) {
	p := at.pending
	for {
		p.mu.Lock()
		r, more := at.ranges.Next(0)
		if !more || p.ended {
			at.starting = false
			p.mu.Unlock()
			break
		}
		call := at.call(r)
		p.mu.Unlock()
		if err := at.open.client.conn.Start(f.ctx, call); err != nil {
			p.mu.Lock()
			at.fail(r, err)
			p.mu.Unlock()
		}
	}
	at.finish()
}

// call makes the request for a range. The caller holds the lock.
func (at *rangeAt) call(r flow.Range) *conn.Call {
	s := at.open.client
	var call *conn.Call
	if at.write {
		data := at.buf[r.Off-at.off:][:r.Len]
		header := wire.WriteHeaderSize(len(at.open.handle))
		block := s.conn.Pool().Get(header + r.Len)
		call = s.request(wire.TypeStatus)
		call.Request = wire.Write{Handle: at.open.handle, Offset: uint64(r.Off),
			Data: data}.Append(block.Bytes()[:0], 0)
		call.Payload = block
	} else {
		call = s.request(wire.TypeData)
		call.Request = wire.Read{Handle: at.open.handle, Offset: uint64(r.Off),
			Length: uint32(r.Len)}.Append(call.Scratch(), 0)
	}
	call.Bytes = r.Len
	call.Done = &rangeCall{at, r}
	return call
}

// Complete takes a reply, and asks again for what it was short of.
func (c *rangeCall) Complete(call *conn.Call) {
	at, p := c.at, c.at.pending
	p.mu.Lock()
	if !p.ended {
		at.settle(c.Range, call)
		for !at.write && !at.starting {
			r, more := at.ranges.Next(0)
			if !more {
				break
			}
			again := at.call(r)
			if ok, err := at.open.client.conn.TryStart(again, true); !ok {
				if err == nil {
					err = errTooMany
				}
				at.fail(r, err)
				at.open.client.conn.Recycle(again)
			}
		}
	}
	p.mu.Unlock()
	at.open.client.conn.Recycle(call)
	at.finish()
}

var errTooMany = errors.New("too many requests are in flight")

// settle takes a reply. The caller holds the lock.
func (at *rangeAt) settle(r flow.Range, call *conn.Call) {
	switch {
	case call.Err != nil:
		at.fail(r, call.Err)
	case at.write && call.Status.Code == wire.OK:
		at.ranges.Done(r, r.Len)
	case call.Type == wire.TypeData && len(call.Body) > 0:
		copy(at.buf[r.Off-at.off:], call.Body)
		at.ranges.Done(r, len(call.Body))
	case call.Type == wire.TypeData:
		at.fail(r, errNoData)
	case !at.write && call.Status.Code == wire.EOF:
		at.ranges.EOF(r)
	default:
		at.fail(r, replyError(call))
	}
}

func (at *rangeAt) fail(r flow.Range, err error) {
	if at.err == nil || r.Off < at.errOff {
		at.err, at.errOff = err, r.Off
	}
	at.ranges.Again(r)
	at.ranges.Limit(r.Off)
}

// finish ends the pending result when all has been answered.
func (at *rangeAt) finish() {
	p := at.pending
	p.mu.Lock()
	if at.starting || at.ranges.Out() > 0 || p.ended {
		p.mu.Unlock()
		return
	}
	n := int(at.ranges.Mark() - at.off)
	err := at.err
	if err == nil && n < len(at.buf) && !at.write {
		err = io.EOF
	}
	p.mu.Unlock()
	p.end(n, p.op.wrap(err))
}
