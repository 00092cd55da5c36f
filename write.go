package usftp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

// Write writes p at the file's offset, or at its end with O_APPEND, and moves the offset by the
// number of bytes the server has acknowledged. It waits for the server, so a loop of Writes takes a
// round trip for each, and with O_APPEND two on servers that may ignore it. See [File.Writer],
// [File.ReadFrom] and [WithWriteBehind], which do not wait.
func (f *File) Write(p []byte) (int, error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	if most := f.session().options.writeBehind; most > 0 {
		return f.writeBehind(p, most)
	}
	// What a Writer has collected goes first.
	if _, err := f.opened("write", wire.OpenWrite); err != nil {
		return 0, err
	}
	before := f.offset
	if err := f.toEnd(); err != nil {
		return 0, err
	}
	n, err := f.writeAt(p, f.offset)
	if f.offset += int64(n); n == 0 {
		f.offset = before
	}
	return n, err
}

// toEnd moves the offset of a file opened with O_APPEND to the file's end. OpenSSH's server and ours
// ignore the offset then, but others, such as pkg/sftp's, ignore O_APPEND and would write at the
// offset, over what others have appended since the last Write. What a Writer has collected has its
// place already. If only the offset appends, a server that does not tell the size is an error. The
// caller holds the turn.
func (f *File) toEnd() error {
	open, err := f.opening("write", wire.OpenWrite)
	if err != nil || open.flags&wire.OpenAppend == 0 || f.writing.Load() != nil ||
		open.client.opensAsPOSIX() {
		return nil
	}
	stat, err := run(f.ctx, f.statOperation())
	switch {
	case err == nil && stat.HasSize():
		f.offset = int64(stat.Size)
	case open.client.appendsItself(open.flags):
		return cmp.Or(err, f.wrap("write", errNoSize))
	}
	return nil
}

// WriteAt writes p at an offset, with as many requests at once as it needs, and returns how many
// bytes the server has acknowledged without a gap. It fails on a file opened with O_APPEND, as in
// package os.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if f.appends() {
		return 0, f.wrap("write", errAppendAt)
	}
	return f.writeAt(p, off)
}

func (f *File) writeAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.wrap("write", fs.ErrInvalid)
	}
	open, err := f.opened("write", wire.OpenWrite)
	if err != nil || len(p) == 0 {
		return 0, err
	}
	if n, err := f.writePacket(open, p, off); n > 0 || err != nil {
		return n, err
	}
	n, err := f.upload("write", off, memory{bytes.NewReader(p)}, nil)
	return int(n), err
}

// writePacket writes p if it fits one WRITE, and nothing if p is longer.
func (f *File) writePacket(open *openFile, p []byte, off int64) (int, error) {
	s := open.client
	if _, size := s.dataSizes(); len(p) > size {
		return 0, nil
	}
	s.changed(f.Name())
	defer s.changed(f.Name())
	call := s.request(wire.TypeStatus)
	call.Handle = open.handle
	call.Request = wire.Write{Handle: call.Handle.Name, Offset: uint64(off),
		Data: p}.AppendHeader(call.Scratch(), 0)
	call.Data = p
	call.Bytes = len(p)
	ctx, done := f.during(open)
	defer done()
	if err := s.conn.Do(ctx, call); err != nil {
		return 0, f.wrap("write", err)
	}
	defer s.conn.Recycle(call)
	if err := replyError(call); err != nil {
		return 0, f.wrap("write", err)
	}
	open.wrote(off, int64(len(p)))
	return len(p), nil
}

// ReadFrom copies the data of r to the file, starting at its offset, and moves the offset. It keeps
// as much in flight as the link holds, for any reader; r's Read is called on the calling goroutine.
// It returns how many bytes the server has acknowledged without a gap. After an error more may have
// been read from r, and more may have been written after a gap.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	if f.is(r) {
		return 0, f.wrap("write", errSelf)
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	if _, err := f.opened("write", wire.OpenWrite); err != nil {
		return 0, err
	}
	before := f.offset
	if err := f.toEnd(); err != nil {
		return 0, err
	}
	f.progress.Store(0)
	n, err := f.upload("write", f.offset, r, &f.progress)
	if f.offset += n; n == 0 {
		f.offset = before
	}
	return n, ownError(err)
}

// ReadFromWithConcurrency is [File.ReadFrom]: the number of requests in flight depends on the link
// and not on concurrency.
func (f *File) ReadFromWithConcurrency(r io.Reader, concurrency int) (int64, error) {
	return f.ReadFrom(r)
}

// WriteFile writes a whole file, truncating it or creating it with perm, to which the server
// applies its umask. After an error the file may hold part of the data, see [File.Abandon]. It
// takes three round trips if the link holds the data.
func (c *Client) WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := c.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	if _, err = f.ReadFrom(bytes.NewReader(data)); err != nil {
		return cmp.Or(err, f.Abandon())
	}
	return f.Close()
}

// memory is a source in memory. It returns io.EOF along with its last bytes, which saves a Read.
type memory struct{ *bytes.Reader }

func (m memory) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.Len() == 0 {
		err = io.EOF
	}
	return n, err
}

// upload writes the source's data from an offset on. progress may be nil.
func (f *File) upload(op string, from int64, source io.Reader,
	progress *atomic.Int64) (int64, error) {
	open, err := f.ready(op, wire.OpenWrite)
	if err != nil {
		return 0, err
	}
	ctx, done := f.during(open)
	defer done()
	open.client.changed(f.Name())
	defer open.client.changed(f.Name())
	orderly := open.flags&wire.OpenAppend != 0 || open.client.oneWrite.Load()
	u := f.newUpload(ctx, open, from, source, orderly)
	defer open.client.uploads.put(u)
	u.progress = progress
	n, err := u.run()
	if !orderly && int64(u.ranges.Request()) < u.consumed && refusal(err) &&
		rewind(source, u.consumed-n) {
		// Some servers refuse a WRITE while another one is in flight, but do not say why.
		again := f.newUpload(ctx, open, from+n, source, true)
		again.from, again.progress = from, progress
		if m, err2 := again.run(); m > n {
			open.client.differs(&open.client.oneWrite,
				"it refuses concurrent WRITEs; sending one at a time")
			n, err = m, err2
		}
	}
	open.wrote(from, n)
	return n, f.wrap(op, err)
}

// refusal reports whether an error is a server's answer.
func refusal(err error) bool {
	return errors.As(err, new(*StatusError))
}

// rewind moves a source back by n bytes, if it can seek.
func rewind(source io.Reader, n int64) bool {
	seeker, ok := source.(io.Seeker)
	if !ok {
		return false
	}
	_, err := seeker.Seek(-n, io.SeekCurrent)
	return err == nil
}

// upload is a loop that reads a source and writes it to a file. It slides: each acknowledgement
// lets the next request go, and the stream is never drained before it is filled again.
type upload struct {
	*loop
	from     int64 // where it began
	source   io.Reader
	ended    bool           // the source has ended or failed
	broken   error          // the source's error
	filling  *buffer.Block  // the block that the source is reading into
	consumed int64          // bytes that the source has returned
	at       io.ReaderAt    // the source, if it can be read anywhere, or nil
	sparse   sparseReaderAt // the source, if it knows its holes, or nil
}

// errTooLong says that data would extend beyond the largest offset.
var errTooLong = errors.New("the file would be too long")

// run writes until the source ends and returns how many bytes the server has acknowledged without a
// gap.
func (u *upload) run() (int64, error) {
	defer func() {
		u.filling.Release() // if the source has panicked
		if u.ranges.Out() > 0 {
			u.queue.Abandon()
		}
	}()
	err := u.move(u)
	switch {
	case err != nil:
	case !u.ended && (u.at == nil || !u.ranges.Finished()):
		err = errTooLong // the ranges have run out before the source
	default:
		err = u.verdict(u.broken)
	}
	return u.done(), err
}

func (u *upload) afterReplies() error {
	u.report(u.done())
	return nil
}

func (u *upload) done() int64 { return u.ranges.Mark() - u.from }

// fill sends as much as may be in flight, unless the connection's writer is behind. With nothing in
// flight it sends anyway: the writer may be busy with others, and nothing would wake this transfer.
func (u *upload) fill() error {
	counted := time.Now()
	for i := range u.lanes {
		lane := &u.lanes[i]
		for !u.ended && (lane.window.InFlight() == 0 || lane.client.conn.Queued() < writeAhead) {
			r, ok := u.claim(i)
			if !ok {
				break
			}
			if u.sparse != nil {
				if r, ok = u.data(r); !ok {
					continue
				}
			}
			if err := u.send(i, r); err != nil {
				return err
			}
			if time.Since(counted) >= slowSource {
				u.collect()
				counted = time.Now()
			}
		}
	}
	return nil
}

// slowSource is how long a source may take before data that it has already returned is sent, and
// acknowledgements are counted.
const slowSource = 50 * time.Millisecond

// collect counts the acknowledgements that have arrived. Otherwise, a slow source would delay that
// until it has filled the window.
func (u *upload) collect() {
	for call := u.queue.Take(); call != nil; call = u.queue.Take() {
		u.handleReply(call)
	}
	u.report(u.done())
}

// data returns the part of a range that must be sent and gives back the rest. It skips a hole at
// the start of the range.
func (u *upload) data(r flow.Range) (flow.Range, bool) {
	to, hole := u.sparse.Extent(r.Off)
	if to > r.Off && to < r.End() {
		r = u.ranges.Trim(r, int(to-r.Off))
	}
	if hole && to > r.Off {
		u.ranges.Done(r, r.Len)
		u.collect() // Extent may take long
		return r, false
	}
	return r, true
}

// send reads the source into a block, after room for the request's header, and starts the WRITE.
func (u *upload) send(i int, r flow.Range) error {
	lane := &u.lanes[i]
	header := wire.WriteHeaderSize(len(lane.handle.Name))
	block := lane.client.conn.Pool().Get(header + r.Len)
	u.filling = block
	n, err := u.readInto(block.Bytes()[header:header+r.Len], r.Off)
	u.filling = nil
	if err != nil && err != io.EOF {
		u.broken = &sinkError{err}
	}
	// A source that can be read anywhere goes on: ranges that another lane has lost are read again.
	u.ended = err != nil && (u.at == nil || err != io.EOF)
	switch {
	case err != nil:
		r = u.ranges.Shorten(r, n)
	case n < r.Len:
		r = u.ranges.Trim(r, n)
	}
	if n == 0 {
		block.Release()
		return nil
	}
	return u.sendBlock(i, r, block)
}

// readInto reads the data of an offset. Only data that ends with the source comes with an error.
func (u *upload) readInto(p []byte, off int64) (int, error) {
	if u.at == nil {
		return u.read(p)
	}
	n, err := u.at.ReadAt(p, off)
	if n == len(p) {
		err = nil
	}
	return n, err
}

// sendBlock starts the WRITE of a range whose data lies in a block, after room for the header.
func (u *upload) sendBlock(i int, r flow.Range, block *buffer.Block) error {
	lane := &u.lanes[i]
	header := wire.WriteHeaderSize(len(lane.handle.Name))
	call := lane.client.request(wire.TypeStatus)
	call.Handle = lane.handle
	packet := wire.Write{Handle: call.Handle.Name, Offset: uint64(r.Off),
		Data: block.Bytes()[header : header+r.Len]}.AppendHeader(block.Bytes()[:0], 0)
	call.Request = packet[:header+r.Len]
	call.Payload = block
	call.Sent = u.queue
	return u.launch(i, r, call)
}

// read fills p from the source. With nothing in flight it returns the data of one Read, and it
// waits no longer than slowSource for more, so that a slow source's data does not wait.
func (u *upload) read(p []byte) (n int, err error) {
	began := time.Now()
	for empty := 0; n < len(p) && err == nil; {
		var got int
		got, err = u.source.Read(p[n:])
		if got < 0 || got > len(p)-n {
			return n, errors.New("the source's Read returned an invalid count")
		}
		n += got
		u.consumed += int64(got)
		if n > 0 && (u.ranges.Out() == 1 || // only the range being filled
			n < len(p) && time.Since(began) >= slowSource) {
			break
		}
		if got > 0 {
			empty = 0
		} else if empty++; empty == 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

// handleReply takes a complete call.
func (u *upload) handleReply(call *conn.Call) {
	err := failed(call)
	got := u.pieces[call.Tag].Len
	if err != nil {
		got = 0
	}
	p := u.landed(call, got)
	switch {
	case call.Err != nil && u.pass(p):
	case err != nil:
		u.ranges.Fail(p.Range, err)
		u.ended = true
	default:
		u.ranges.Done(p.Range, p.Len)
	}
	u.lanes[p.lane].client.conn.Recycle(call)
}

// newUpload prepares a transfer to an open file. Orderly means at most one WRITE in flight, for
// servers that cannot do more and for files opened with O_APPEND, where the order of the WRITEs
// decides where data lands.
func (f *File) newUpload(ctx context.Context, open *openFile, from int64, source io.Reader,
	orderly bool) *upload {
	_, request := open.client.dataSizes()
	u := open.client.uploads.take()
	if u == nil {
		ranges := flow.NewRanges(from, flow.Unknown, request)
		u = &upload{loop: newLoop(ctx, f, open, ranges)}
	} else {
		u.ctx, u.file, u.began = ctx, f, time.Now()
		u.ranges.Reset(from, flow.Unknown, request)
		u.lanes[0].handle = open.handle
		u.lanes[0].resetWindow()
	}
	u.from, u.source = from, source
	if orderly {
		u.lanes[0].window.Reset(1, 1, 1)
	}
	return u
}

// uploads keeps the memory of an upload for the next: programs that write a few packets at a time
// run many.
type uploads struct {
	mu    sync.Mutex
	spare *upload
}

func (s *uploads) take() *upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.spare
	s.spare = nil
	return u
}

// put takes back an upload that has run, if nothing of it is in flight and so nothing can come to
// its queue. The memory of a large one is not kept.
func (s *uploads) put(u *upload) {
	const mostPieces = 16
	if u.ranges.Out() > 0 || cap(u.pieces) > mostPieces {
		return
	}
	*u = upload{loop: u.loop}
	u.ctx, u.file, u.progress = nil, nil, nil
	u.pieces, u.idle, u.lanes[0].handle = u.pieces[:0], u.idle[:0], nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = u
}
