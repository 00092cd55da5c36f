package usftp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"sync/atomic"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

// ReadAt reads len(p) bytes at an offset, with as many requests at once as they need. It returns
// io.EOF, unwrapped, if the file ends before that. Calls may run concurrently. It takes one round
// trip if the link holds the data.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.wrap("read", fs.ErrInvalid)
	}
	if len(p) == 0 {
		return 0, nil
	}
	open, err := f.opened("read", wire.OpenRead)
	if err != nil {
		return 0, err
	}
	n, err := f.readPacket(open, p, off)
	if n == len(p) || err != nil {
		return n, err
	}
	d := &download{from: off + int64(n), sink: func(data []byte) (int, error) {
		got := copy(p[n:], data)
		n += got
		return got, nil
	}}
	_, err = f.download(d, endOf(off, len(p)), flow.Unknown, nil, nil)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Data that fits one packet needs no transfer loop. readPacket and writePacket serve the many small
// reads and writes, and allocate nothing.

// readPacket reads at most as much as one READ may ask for. It does nothing if p is longer and may
// return less than asked, which the transfer loop then handles.
func (f *File) readPacket(open *openFile, p []byte, off int64) (int, error) {
	s := open.client
	if size, _ := s.dataSizes(); len(p) > size {
		return 0, nil
	}
	call := s.readCall(open.handle, off, len(p))
	ctx, done := f.during(open)
	defer done()
	if err := s.conn.Do(ctx, call); err != nil {
		// The call may still be the connection's: do not use it again.
		return 0, f.wrap("read", err)
	}
	defer s.conn.Recycle(call)
	if err := readError(call); err != nil {
		return 0, f.wrap("read", err)
	}
	f.answers.Add(1)
	return copy(p, call.Body), nil
}

var errNoData = errors.New("the server answered READ with no data")

// readError returns the reason why a READ has brought no data: io.EOF at the end of the file.
func readError(call *conn.Call) error {
	switch {
	case call.Err == nil && call.Type == wire.TypeData && len(call.Body) == 0:
		return errNoData
	case call.Err == nil && call.Type == wire.TypeStatus && call.Status.Code == wire.EOF:
		return io.EOF
	}
	return failed(call)
}

// WriteTo writes the file to w, from its offset to its end, and moves the offset. It keeps as much
// in flight as the link holds and does not need to know the size: the file ends where the server
// says so. w's Write is called on the calling goroutine, in order. WriteTo returns how many bytes w
// has taken. If w is a File it takes them by [File.ReadFrom], which need not wait for each piece.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	if f.is(w) {
		return 0, f.wrap("read", errSelf)
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	f.dropAhead()
	if _, err := f.opened("read", wire.OpenRead); err != nil {
		return 0, err
	}
	f.progress.Store(0)
	if to, ok := w.(*File); ok {
		r := &restReader{f: f, from: f.offset, at: f.offset, ReadCloser: f.ReadRange(f.offset, -1)}
		n, err := to.ReadFrom(r)
		r.Close()
		f.offset += n
		f.progress.Store(n)
		return n, err
	}
	d := &download{from: f.offset, sink: w.Write}
	n, err := f.download(d, math.MaxInt64, f.expectedSize(), &f.progress, nil)
	f.offset += n
	return n, ownError(err)
}

// restReader reads the rest of a file for another, and notes the progress. It can go back: the
// other file's server may refuse more than one WRITE at a time.
type restReader struct {
	io.ReadCloser
	f        *File
	from, at int64
}

func (r *restReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.at += int64(n)
	r.f.progress.Store(r.at - r.from)
	return n, err
}

func (r *restReader) Seek(by int64, _ int) (int64, error) {
	r.Close()
	r.at += by
	r.ReadCloser = r.f.ReadRange(r.at, -1)
	return r.at, nil
}

// ReadRange returns a reader of length bytes of the file at an offset, or of the rest of it if
// length is negative. Like [File.WriteTo] it keeps as much in flight as the link holds, from the
// start; data that has arrived waits for the reader, within the client's budget. If the file ends
// early, Read returns an error matching [io.ErrUnexpectedEOF].
//
// The reader must be closed, also after the client: until then, or until the file is closed or its
// context has ended, a goroutine serves it. The file stays open, and its offset does not move.
// Several readers may be in use at a time.
func (f *File) ReadRange(off, length int64) io.ReadCloser {
	return f.readRangeOver(off, length, nil)
}

// readRangeOver is like ReadRange, but also uses the handles of stripes, which may be nil.
func (f *File) readRangeOver(off, length int64, stripes *stripes) io.ReadCloser {
	ctx, cancel := context.WithCancel(f.ctx)
	pipe, w := io.Pipe()
	r := &rangeReader{PipeReader: pipe, cancel: cancel, done: make(chan struct{})}
	go func() { // ends with the range, or with Close
		defer close(r.done)
		w.CloseWithError(f.WithContext(ctx).readRange(w, off, length, stripes))
	}()
	return r
}

// rangeReader is the reader returned by ReadRange.
type rangeReader struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close waits for the goroutine, which uses the file's handle.
func (r *rangeReader) Close() error {
	r.PipeReader.Close()
	r.cancel()
	<-r.done
	return nil
}

// readRange writes a range of the file to w in order. Nobody may read from the pipe any more, but
// what ends the file's calls ends this one, too.
func (f *File) readRange(w *io.PipeWriter, off, length int64, stripes *stripes) error {
	if off < 0 {
		return f.wrap("read", fs.ErrInvalid)
	}
	open, err := f.opened("read", wire.OpenRead)
	if err != nil {
		return err
	}
	ctx, done := f.during(open)
	defer done()
	defer context.AfterFunc(ctx, func() {
		w.CloseWithError(f.wrap("read", context.Cause(ctx)))
	})()
	limit, size := int64(math.MaxInt64), f.expectedSize()
	if length >= 0 {
		limit, size = off+min(length, math.MaxInt64-off), flow.Unknown
	}
	d := &download{from: off, sink: w.Write}
	n, err := f.download(d, limit, size, nil, stripes)
	if err == nil && length >= 0 && n < length {
		err = f.wrap("read", io.ErrUnexpectedEOF)
	}
	return err
}

// ReadFile reads a whole file. It opens the file like [Client.OpenRead], and takes two round trips
// for any file that the link holds.
func (c *Client) ReadFile(name string) ([]byte, error) {
	f, err := c.OpenRead(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data bytes.Buffer
	data.Grow(int(min(max(f.Size(), 0), mostTrusted)) + 1) // only a guess: the file ends at EOF
	_, err = f.WriteTo(&data)
	return data.Bytes(), err
}

// mostTrusted limits the memory allocated at once because a server claims that size for a file.
const mostTrusted = 4 << 20

// expectedSize returns the cached size of the file.
func (f *File) expectedSize() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.attrs.sized() {
		return flow.Unknown
	}
	return int64(f.attrs.Size)
}

// ready returns the file's opening once the server's limits are known.
func (f *File) ready(op string, need uint32) (*openFile, error) {
	open, err := f.opened(op, need)
	if err != nil {
		return nil, err
	}
	return open, f.wrap(op, open.client.awaitLimits(f.ctx))
}

// download reads from d.from up to a limit and returns the number of bytes the sink has taken.
// progress may be nil, and so may stripes, whose handles are used too.
func (f *File) download(d *download, limit, size int64, progress *atomic.Int64,
	stripes *stripes) (int64, error) {
	defer stripes.end()
	open, err := f.ready("read", wire.OpenRead)
	if err != nil {
		return 0, err
	}
	ctx, done := f.during(open)
	defer done()
	request, _ := open.client.dataSizes()
	d.given = d.from
	d.loop = newLoop(ctx, f, open, flow.NewRanges(d.from, size, request))
	d.ranges.Limit(limit)
	d.progress = progress
	if err := stripes.begin(d.loop); err != nil {
		return 0, f.wrap("read", err)
	}
	if size == flow.Unknown && limit == math.MaxInt64 && !open.client.noFstat.Load() {
		d.askSize()
	}
	n, err := d.run()
	return n, f.wrap("read", err)
}

// download is a loop that reads a file and passes it to a sink in order, or to place in any order.
type download struct {
	*loop
	from   int64 // where it began
	given  int64 // the offset up to which the sink has everything
	sink   func(p []byte) (int, error)
	parked []*conn.Call // data that arrived ahead of its predecessor, by offset
	place  io.WriterAt
	broken error // the error of place
	// gives back the budget of a reply that nobody takes; nil unless data counts until it is used
	kept func(*conn.Call)
}

// run reads until the end of the file or of the ranges and returns how many bytes the sink has
// taken. The error is nil at the end of the file.
func (d *download) run() (int64, error) {
	defer d.release()
	err := d.move(d)
	if err == nil {
		err = d.verdict(nil)
	}
	return d.given - d.from, err
}

// afterReplies passes on the data that has arrived.
func (d *download) afterReplies() error {
	if err := d.deliver(); err != nil {
		return err
	}
	return d.broken
}

// fill requests as much as may be in flight. For a sink in order it looks ahead at most twice as
// far, since replies that arrive early wait in memory.
func (d *download) fill() error {
	if d.place == nil {
		ahead := int64(0)
		for i := range d.lanes {
			if lane := &d.lanes[i]; !lane.lost {
				ahead += 2 * max(min(lane.window.Limit(), lane.room()), int64(d.ranges.Request()))
			}
		}
		d.ranges.Reach(d.given + min(ahead, math.MaxInt64-d.given))
	}
	for i := range d.lanes {
		for {
			r, ok := d.claim(i)
			if !ok {
				break
			}
			if err := d.ask(i, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask requests a range.
func (d *download) ask(i int, r flow.Range) error {
	lane := &d.lanes[i]
	call := lane.client.readCall(lane.handle, r.Off, r.Len)
	call.Keep, call.Orphan = d.kept != nil, d.kept
	return d.launch(i, r, call)
}

// sizeTag marks the request for the size among the calls of a download.
const sizeTag = -1

// askSize asks for the file's size along with the first READs. That takes no round trip and saves
// one at the end, where the last READ returns less than asked and only the size shows that nothing
// is missing.
func (d *download) askSize() {
	lane := &d.lanes[0]
	call := lane.client.handleCall(wire.TypeFstat, lane.handle, wire.TypeAttrs)
	call.Done = d.queue
	call.Tag = sizeTag
	if ok, _ := lane.client.conn.TryStart(call, false); !ok {
		lane.client.conn.Recycle(call)
	}
}

// handleSize takes the answer, if any.
func (d *download) handleSize(call *conn.Call) {
	if call.Err == nil && call.Type == wire.TypeAttrs {
		if stat, err := d.file.keepAttrs(call); err == nil && stat.sized() {
			d.ranges.SetSize(int64(stat.Size))
		}
	}
	d.lanes[0].client.conn.Recycle(call)
}

// handleReply takes a complete call.
func (d *download) handleReply(call *conn.Call) {
	if call.Tag == sizeTag {
		d.handleSize(call)
		return
	}
	p := d.landed(call, len(call.Body))
	switch err := readError(call); {
	case call.Err != nil && d.pass(p):
	case err == io.EOF:
		d.ranges.EOF(p.Range)
	case err != nil:
		d.ranges.Fail(p.Range, err)
	case d.place != nil:
		d.file.answers.Add(1)
		d.putAt(call, p)
	default:
		d.file.answers.Add(1)
		d.ranges.Done(p.Range, len(call.Body))
		d.park(call, p)
		return
	}
	d.lanes[p.lane].client.conn.Recycle(call)
}

// park keeps data until its turn comes. Its call's tag is then a piece that is not in flight.
func (d *download) park(call *conn.Call, p piece) {
	call.Tag = d.takePiece() // a piece of its own, which holds the offset and the lane
	d.pieces[call.Tag] = p
	at, _ := slices.BinarySearchFunc(d.parked, p.Off,
		func(c *conn.Call, off int64) int { return cmp.Compare(d.pieces[c.Tag].Off, off) })
	d.parked = slices.Insert(d.parked, at, call)
}

// deliver passes on data that has arrived in order. If the sink fails or panics, only data that it
// has not taken stays parked.
func (d *download) deliver() error {
	n := 0
	defer func() { d.parked = slices.Delete(d.parked, 0, n) }()
	for _, call := range d.parked {
		if d.pieces[call.Tag].Off != d.given {
			break
		}
		size := len(call.Body)
		took, err := d.sink(call.Body)
		if err == nil && took != size {
			err = io.ErrShortWrite
		}
		d.given += int64(min(max(took, 0), size))
		d.report(d.given - d.from)
		if err != nil {
			return &sinkError{err}
		}
		n++
		d.drop(call)
	}
	return nil
}

// putAt passes data to a sink that takes it in any order.
func (d *download) putAt(call *conn.Call, p piece) {
	if _, err := d.place.WriteAt(call.Body, p.Off); err != nil {
		d.broken = cmp.Or[error](d.broken, &sinkError{err})
		d.ranges.Again(p.Range)
		return
	}
	d.ranges.Done(p.Range, len(call.Body))
	d.given = d.ranges.Mark()
	d.report(d.given - d.from)
}

func (d *download) drop(call *conn.Call) {
	d.idle = append(d.idle, call.Tag)
	d.lanes[d.pieces[call.Tag].lane].client.conn.Recycle(call)
}

// release frees everything the transfer holds if it ends before its replies have arrived.
func (d *download) release() {
	for _, call := range d.parked {
		d.drop(call)
	}
	d.parked = nil
	d.queue.Abandon()
}

// endOf returns the offset n bytes after off, or the largest possible offset.
func endOf(off int64, n int) int64 { return off + min(int64(n), math.MaxInt64-off) }

// sinkError marks an error of the caller's reader or writer.
type sinkError struct{ error }

// ownError returns an error of the caller's reader or writer unwrapped.
func ownError(err error) error {
	if own, ok := errors.AsType[*sinkError](err); ok {
		return own.error
	}
	return err
}

// errSelf says why a file cannot be read from and written to in one call: it has one offset.
var errSelf error = invalidError("the file cannot be copied to itself")

// is reports whether a reader or writer is a view of the file.
func (f *File) is(stream any) bool {
	switch other := stream.(type) {
	case *File:
		return other.fileState == f.fileState
	case *Writer:
		return other.file.fileState == f.fileState
	}
	return false
}
