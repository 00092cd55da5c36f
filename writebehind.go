package usftp

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

// Writer is a pipelined writer to a file; see [File.Writer].
type Writer struct {
	file   *File
	failed atomic.Pointer[error] // of a Write
}

// Writer returns a pipelined writer at the file's offset, for loops of Write. Write copies its data
// and waits only while the link or the client's budget is full, so a loop of Writes of any size
// runs as fast as [File.ReadFrom]. Small Writes are collected until they fill a packet, or until
// Flush.
//
// A server's error is returned by a later call: the next Write, Flush, [File.Sync], or Close of the
// writer or the file, and by each of them from then on. The file's offset is then the length that
// is safe, without a gap. Any other error of Write, too, is returned by all later calls of the
// writer, as with [bufio.Writer]. All methods of the File that use its contents or attributes wait
// for the written data first; the methods of [File.Async] do not. Closing the writer does not close
// the file.
//
// If a server refuses WRITEs while another is in flight, or out of order, a Writer fails, since its
// data is gone. [File.ReadFrom] with a source that can seek finds out and recovers; from then on
// Writers of the client send one WRITE at a time.
func (f *File) Writer() *Writer { return &Writer{file: f} }

// Write passes p to the writer. It copies p before it returns.
func (w *Writer) Write(p []byte) (int, error) {
	w.file.turn.Lock()
	defer w.file.turn.Unlock()
	if failed := w.failed.Load(); failed != nil {
		return 0, *failed
	}
	n, err := w.file.writeBehind(p, maxInFlight)
	if err != nil {
		w.failed.Store(&err)
	}
	return n, err
}

// ReadFrom is [File.ReadFrom].
func (w *Writer) ReadFrom(r io.Reader) (int64, error) { return w.file.ReadFrom(r) }

// Flush sends the collected data and waits until the server has acknowledged everything.
func (w *Writer) Flush() error {
	err := w.file.flushBehind()
	if failed := w.failed.Load(); failed != nil {
		return *failed
	}
	return err
}

// Close is Flush. The file stays open.
func (w *Writer) Close() error { return w.Flush() }

// behind is an upload whose source is a program's Writes. They are collected into blocks, which are
// sent as the link takes them; a Write waits for answers only if too many are due. All of it runs
// within the program's calls. A File has at most one, from the first Write to the next call that
// needs everything to be written.
type behind struct {
	open *openFile

	mu    sync.Mutex
	u     *upload       // nil before the first byte
	block *buffer.Block // being filled, after the room for a header
	n     int           // bytes in it
	most  int64
	lost  error // why data was not sent; of data that was sent, the upload knows
}

// writeBehind writes at the offset without waiting for the answer. The caller holds the turn.
func (f *File) writeBehind(p []byte, most int64) (int, error) {
	open, err := f.opening("write", wire.OpenWrite)
	if err != nil {
		return 0, err
	}
	if err := open.client.awaitLimits(f.ctx); err != nil {
		return 0, f.wrap("write", err)
	}
	if len(p) > 0 {
		if err := f.toEnd(); err != nil {
			return 0, err
		}
	}
	if endOf(f.offset, len(p))-f.offset < int64(len(p)) {
		return 0, f.wrap("write", errTooLong)
	}
	b := f.lockBehind(open, most)
	if b == nil {
		return 0, f.wrap("write", fs.ErrClosed)
	}
	defer b.mu.Unlock()
	n, err := b.write(f, p)
	f.offset += int64(n)
	if b.failed() != nil {
		f.offset = b.u.ranges.Mark()
	}
	return n, f.wrap("write", err)
}

// lockBehind returns the file's writing behind, locked, or nil if the file was closed: another
// goroutine may end it, or close the file, before it is locked, and would not look at it again.
func (f *File) lockBehind(open *openFile, most int64) *behind {
	for {
		b := f.writing.Load()
		if b == nil || b.open != open {
			b = &behind{open: open, most: most}
			f.writing.Store(b)
		}
		b.mu.Lock()
		now, _ := f.opening("write", wire.OpenWrite)
		if now == open && f.writing.Load() == b {
			return b
		}
		b.mu.Unlock()
		if now != open {
			return nil
		}
	}
}

// failed returns why data is lost, or nil.
func (b *behind) failed() error { return cmp.Or(b.u.ranges.Err(), b.lost) }

// write collects p. The caller holds the lock.
func (b *behind) write(f *File, p []byte) (n int, err error) {
	if b.u == nil {
		b.begin(f)
	}
	b.u.collect()
	header, size := wire.WriteHeaderSize(len(b.open.handle.Name)), b.u.ranges.Request()
	for len(p) > 0 && b.failed() == nil {
		if b.block == nil {
			b.block = b.open.client.conn.Pool().Get(header + size)
		}
		got := copy(b.block.Bytes()[header+b.n:header+size], p)
		b.n += got
		n += got
		p = p[got:]
		if b.n < size {
			break
		}
		if err := b.send(f); err != nil {
			return n, err
		}
	}
	return n, b.failed()
}

// begin starts the upload at the file's offset.
func (b *behind) begin(f *File) {
	s := b.open.client
	_, size := s.dataSizes()
	ranges := flow.NewRanges(f.offset, flow.Unknown, size)
	b.u = &upload{loop: newLoop(b.open.closed, f, b.open, ranges), from: f.offset}
	b.u.progress = &f.progress
	switch window := &b.u.lanes[0].window; {
	case b.open.flags&wire.OpenAppend != 0 || s.oneWrite.Load():
		window.Reset(1, 1, 1)
	case b.most < maxInFlight:
		window.Reset(b.most, min(leastInFlight, b.most), b.most)
	}
}

// send sends the block as soon as it may be in flight. With nothing in flight that is at once: the
// connection's writer may be busy with others, and nothing would wake this wait.
func (b *behind) send(f *File) error {
	for {
		if err := b.failed(); err != nil {
			return err
		}
		if b.u.ranges.Out() == 0 || b.open.client.conn.Queued() < writeAhead {
			if r, ok := b.u.claim(0); ok {
				return b.sendRange(f, r)
			}
		}
		if err := b.wait(f); err != nil {
			return err
		}
	}
}

func (b *behind) sendRange(f *File, r flow.Range) error {
	b.open.client.changed(f.Name())
	if b.n < r.Len {
		r = b.u.ranges.Trim(r, b.n)
	}
	block := b.block
	b.block, b.n = nil, 0
	b.lost = b.u.sendBlock(0, r, block)
	return b.lost
}

// wait waits for an answer, for the connection's writer to catch up, or until the file is closed or
// its context is done.
func (b *behind) wait(f *File) error {
	ctx, done := f.during(b.open)
	defer done()
	call, err := b.u.queue.Next(ctx)
	if call != nil {
		b.u.handleReply(call)
	}
	b.u.collect()
	return err
}

// flush sends the collected data and waits for all answers. The caller holds the lock.
func (b *behind) flush(f *File) error {
	if b.u == nil {
		return nil
	}
	b.u.collect()
	if b.n > 0 {
		if err := b.send(f); err != nil && b.failed() == nil {
			return err
		}
	}
	for b.u.ranges.Out() > 0 {
		if err := b.wait(f); err != nil {
			return err
		}
	}
	b.open.client.changed(f.Name())
	b.open.wrote(b.u.from, b.u.done())
	return b.failed()
}

// flushBehind waits until everything written behind is acknowledged. An error stays.
func (f *File) flushBehind() error {
	b := f.writing.Load()
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.flush(f); err != nil {
		return f.wrap("write", err)
	}
	b.end()
	f.writing.CompareAndSwap(b, nil)
	return nil
}

// end frees everything held.
func (b *behind) end() {
	b.block.Release()
	b.block, b.n = nil, 0
	if b.u != nil {
		b.u.queue.Abandon()
	}
}

// endWith ends a file's writing behind, and sets the offset to the length that is safe, unless a
// method is using the offset.
func (f *File) endWith(b *behind) {
	b.end()
	if f.writing.CompareAndSwap(b, nil) && b.u != nil && f.turn.TryLock() {
		f.offset = b.u.ranges.Mark()
		f.turn.Unlock()
	}
}

// endBehind flushes before the file is closed. It interrupts a Write in another goroutine.
func (f *File) endBehind(open *openFile) error {
	b := f.writing.Load()
	if b == nil || b.open != open {
		return nil
	}
	if !b.mu.TryLock() {
		open.shut(fs.ErrClosed)
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	err := b.flush(&File{f.fileState, context.Background()})
	f.endWith(b)
	return f.wrap("write", err)
}

// dropBehind gives up data written behind, for Abandon. It interrupts a Write in another goroutine.
func (f *File) dropBehind(open *openFile) {
	b := f.writing.Load()
	if b == nil || b.open != open {
		return
	}
	if !b.mu.TryLock() {
		open.shut(fs.ErrClosed)
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	f.endWith(b)
}
