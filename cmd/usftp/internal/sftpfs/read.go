//go:build linux || darwin

package sftpfs

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/flow"
)

const (
	// chunkSize is the unit of read-ahead: the data that most servers return for one READ, in pages.
	chunkSize = 63 * 4096
	// firstReadAhead is the read-ahead for a program that has begun to read in order.
	firstReadAhead = 2 * chunkSize
	// maxReadAhead limits the read-ahead in one open file.
	maxReadAhead = 12 << 20
	// maxReadMemory limits the read-ahead of all open files together.
	maxReadMemory = 16 << 20
	// idleReader is the time without a read after which a program's read-ahead makes room for others.
	idleReader = time.Second
	// swapped is how far out of order the requests of a program that reads in order may be: the kernel
	// sends several at once.
	swapped = 1 << 20
	// nearReads is how far apart the first requests may be, in multiples of their size, and still
	// count as reading in order.
	nearReads = 8
)

// A reader reads ahead in one open file. It watches the kernel's requests, which come several at a
// time and slightly out of order, and requests the next chunks from the host, as many at once as
// fill the link.
type reader struct {
	mu      sync.Mutex
	next    int64 // the end of the furthest request
	run     int64 // bytes read in order so far
	chunks  map[int64]*chunk
	waiting int // calls that wait for chunks
	window  *flow.Window
	began   time.Time
	used    time.Time
	all     *readMemory
}

// readMemory is the memory that all readers use for read-ahead, including chunks that were dropped
// before their answers arrived.
type readMemory struct {
	bytes atomic.Int64
	swept atomic.Int64 // when idle readers were last dropped, in Unix nanoseconds
}

func (m *readMemory) full() bool { return m.bytes.Load() >= maxReadMemory }

// makeRoom drops the read-ahead of programs that have stopped reading, if memory is short.
func (f *FS) makeRoom() {
	m, now := &f.reading, time.Now()
	last := m.swept.Load()
	if !m.full() || now.UnixNano()-last < int64(idleReader)/10 ||
		!m.swept.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	for _, h := range f.files.all() {
		h.reader.dropIdle(now.Add(-idleReader))
	}
}

// dropIdle drops the read-ahead of a reader that has not been used since a time. A program that
// waits for the host is using it.
func (r *reader) dropIdle(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == 0 && r.used.Before(since) {
		r.forget()
	}
}

// A chunk is a requested part of the file.
type chunk struct {
	data []byte
	done chan struct{} // closed when the answer has arrived
	n    int
	err  error

	// The reader's lock guards these. A chunk holds memory until both are true.
	arrived, dropped bool
}

func (r *reader) reset(all *readMemory) { r.began, r.all = time.Now(), all }

// drop discards the read-ahead, because the file may have changed.
func (r *reader) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
}

// forget works like drop for callers that hold the lock.
func (r *reader) forget() {
	r.discard(0, 0)
	r.chunks, r.run, r.window = nil, 0, nil
}

// dropOld discards chunks that may have been read before an extent arrived. Until then a program
// that reads next to the written data has the host's old contents in its read-ahead.
func (r *reader) dropOld(e *extent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, c := range r.chunks {
		if e.appends || at*chunkSize < e.end() && e.off < (at+1)*chunkSize {
			r.discardOne(at, c)
		}
	}
}

func (f *FS) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult,
	fuse.Status) {
	h := f.files.get(in.Fh)
	if h == nil {
		return nil, fuse.EBADF
	}
	h.used()
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	off := int64(in.Offset)
	buf = buf[:min(len(buf), int(in.Size))]
	f.makeRoom()
	if h.file.overlaps(off, len(buf)) {
		if err := h.file.flush(ctx); err != nil {
			return nil, statusOf(err)
		}
	}
	h.file.endUploads(ctx, h)
	var n int
	err := f.link.do(ctx, func(*usftp.Client, bool) (err error) {
		n, err = h.readAt(ctx, buf, off)
		return err
	})
	if err != nil && err != io.EOF {
		return nil, statusOf(err)
	}
	if n < len(buf) {
		h.file.node.tellEnd(off + int64(n))
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

// readOnce reads from the host's file as it is open, which it also returns.
func (h *handle) readOnce(ctx context.Context, p []byte, off int64) (n int, remote *usftp.File,
	err error) {
	remote, done, err := h.use(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer done()
	if chunks := h.reader.plan(remote, off, len(p), h.file.node); chunks != nil {
		n, err = collect(ctx, chunks, p, off)
		h.reader.collected(chunks)
		if n == len(p) || err != nil {
			return n, remote, err
		}
	}
	// Else the file seems to end here, or the server returned less than it was asked for.
	m, err := remote.WithContext(ctx).ReadAt(p[n:], off+int64(n))
	return n + m, remote, err
}

// knownSize returns the size that the kernel may have been told: it fills what a read leaves out of
// it with zeros. See statOpen for those that only a handle knows.
func (h *handle) knownSize() int64 {
	n := h.file.node
	n.mu.Lock()
	size := max(n.attrs.size, n.view.most)
	n.mu.Unlock()
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	if !h.writes() || !h.file.modified {
		size = max(size, h.seen.size)
	}
	return int64(size)
}

// plan returns the chunks that hold a range if the file is read in order, after requesting them and
// those that come next; collected must be called after waiting for them. Otherwise plan returns
// nil.
func (r *reader) plan(remote *usftp.File, off int64, n int, node *node) map[int64]*chunk {
	if oneHandle(remote) { // the file is closed again at once
		return nil
	}
	size := int64(node.size())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = time.Now()
	end := off + int64(n)
	near := int64(swapped)
	if len(r.chunks) == 0 { // random reads can be this close to each other by chance
		near = min(near, nearReads*int64(n))
	}
	inOrder := off <= r.next+near && end > r.next-near && r.next > 0
	if !inOrder {
		r.next, r.run = end, 0
		r.discard(0, 0)
		return nil
	}
	if end > r.next {
		r.run += end - r.next
		r.next = end
	}
	if r.run < int64(n) || size <= chunkSize && len(r.chunks) == 0 {
		return nil
	}
	if r.chunks == nil {
		r.chunks = make(map[int64]*chunk)
		r.window = flow.NewWindow(firstReadAhead, firstReadAhead, maxReadAhead)
	}
	ahead := min(firstReadAhead+2*r.run, max(r.window.Limit(), firstReadAhead))
	wanted := make(map[int64]*chunk)
	for at := off / chunkSize; at*chunkSize < min(end+ahead, max(size, end)); at++ {
		c := r.chunks[at]
		if c == nil && at*chunkSize >= end && r.all.full() {
			break
		}
		if c == nil {
			c = r.ask(remote, at)
			r.chunks[at] = c
		}
		if at*chunkSize < end {
			wanted[at] = c
		}
	}
	r.discard(r.next-swapped, r.next+2*maxReadAhead)
	r.waiting++
	return wanted
}

// collected notes that a call has taken the chunks that plan returned, or has given up.
func (r *reader) collected(chunks map[int64]*chunk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
	r.used = time.Now()
	for at, c := range chunks { // the program may retry failed chunks
		if c.failed() && r.chunks[at] == c {
			r.discardOne(at, c)
		}
	}
}

// discard drops chunks outside a range. The caller holds the lock.
func (r *reader) discard(from, to int64) {
	for at, c := range r.chunks {
		if (at+1)*chunkSize <= from || at*chunkSize >= to {
			r.discardOne(at, c)
		}
	}
}

func (r *reader) discardOne(at int64, c *chunk) {
	delete(r.chunks, at)
	c.dropped = true
	if c.arrived {
		r.all.bytes.Add(-chunkSize)
	}
}

// ask requests a chunk. The caller holds the lock.
func (r *reader) ask(remote *usftp.File, at int64) *chunk {
	c := &chunk{data: make([]byte, chunkSize), done: make(chan struct{})}
	r.all.bytes.Add(chunkSize)
	window := r.window
	stamp := window.Sent(time.Since(r.began), chunkSize)
	pending := remote.Async().ReadAt(c.data, at*chunkSize)
	go func() {
		c.n, c.err = pending.Wait()
		defer close(c.done)
		r.mu.Lock()
		defer r.mu.Unlock()
		window.Acked(time.Since(r.began), stamp, chunkSize, c.n)
		if c.arrived = true; c.dropped {
			r.all.bytes.Add(-chunkSize)
		}
	}()
	return c
}

// failed reports whether the answer is here and is an error. The caller holds the reader's lock.
func (c *chunk) failed() bool { return c.arrived && c.err != nil && !errors.Is(c.err, io.EOF) }

// collect copies a range out of chunks. It stops at the first gap.
func collect(ctx context.Context, chunks map[int64]*chunk, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := (off + int64(n)) / chunkSize
		c := chunks[at]
		if c == nil {
			return n, nil
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
		from := int(off + int64(n) - at*chunkSize)
		if from < c.n {
			n += copy(p[n:], c.data[from:c.n])
		}
		switch {
		case c.n == chunkSize:
		case c.err != nil && !errors.Is(c.err, io.EOF):
			return n, c.err
		default:
			return n, nil
		}
	}
	return n, nil
}
