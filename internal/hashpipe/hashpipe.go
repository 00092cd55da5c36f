// Package hashpipe hashes files while they are copied.
package hashpipe

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/usftp/usftp/checksum"
)

// Digests are the hashes computed of one file.
type Digests []*checksum.Digest

func (all Digests) Write(p []byte) (int, error) {
	for _, d := range all {
		d.Write(p)
	}
	return len(p), nil
}

// Finish completes the sums.
func (all Digests) Finish() {
	for _, d := range all {
		d.Finish()
	}
}

// Whole returns the hash of the whole file, as the user asked for.
func (all Digests) Whole() checksum.Hash {
	return checksum.Hash{Algorithm: all[0].Algorithm, Sum: all[0].Sums[0]}
}

// Check returns the digest to compare with the host's.
func (all Digests) Check() *checksum.Digest { return all[len(all)-1] }

type readAtCloser = interface {
	io.ReaderAt
	io.Closer
}

// A Pipe hashes a file while it is copied, on its own goroutine, so that a second processor can do
// it. The goroutine that moves the bytes feeds it pieces with their offsets. Pieces that continue
// the bytes it has are copied into a few buffers; when all of them are full, Feed waits. So memory
// is bounded and the hash is never far behind.
//
// Pieces of a file that arrives over several connections come in any order, and the beginning
// copied by an earlier run does not come at all. The pipe is then behind: it reads the complete
// part of the local file, mostly from the system's cache, and takes pieces again once it has caught
// up. Only Finish waits for that.
//
// A nil Pipe hashes nothing.
type Pipe struct {
	digests Digests
	open    func() (readAtCloser, error)
	pool    *sync.Pool // of [bufferSize]byte, a tree's or its own
	ended   chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	next    int64 // everything before it is hashed or queued
	behind  bool  // the next bytes must be read from the file
	safe    int64 // the file is complete up to here
	queue   [][]byte
	lent    int  // buffers that are filled, queued or hashed
	last    bool // nothing more will be fed
	stopped bool // the hash is no longer wanted
	err     error
}

const (
	// bufferSize holds one packet's data; at most buffers of them are in use.
	bufferSize = 256 << 10
	buffers    = 8

	// step is the number of bytes to read from the file for which the goroutine is woken.
	step = 1 << 20
)

// errNotInOrder is a bug: a stream's bytes arrive in order.
var errNotInOrder = errors.New("the data arrived out of order; this is a bug in usftp")

// New starts hashing. The first present bytes are already in the file. open opens the local file
// once more; it is nil if there is no file and everything comes in order. pool may be nil.
func New(all Digests, present int64, open func() (readAtCloser, error), pool *sync.Pool) *Pipe {
	p := &Pipe{digests: all, open: open, pool: cmp.Or(pool, new(sync.Pool)),
		ended: make(chan struct{}), behind: present > 0, safe: present}
	p.changed.L = &p.mu
	go p.run()
	return p
}

// Digests returns the digests being computed.
func (p *Pipe) Digests() Digests { return p.digests }

// Ordered reports whether pieces must be fed in order.
func (p *Pipe) Ordered() bool { return p != nil && p.open == nil }

// FeedAt is Feed for a local file that is complete up to the end of data.
func (p *Pipe) FeedAt(data []byte, off int64) { p.Feed(data, off, off+int64(len(data))) }

// Feed hands over data that was copied at an offset. The local file, if there is one, is complete
// up to safe. Feed does not retain data. Only one goroutine may feed.
func (p *Pipe) Feed(data []byte, off, safe int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(data) > 0 && p.err == nil && !p.stopped {
		if !p.behind && off > p.next {
			p.behind = true
		}
		if p.behind {
			p.safe = max(p.safe, safe)
			if p.safe-p.next >= step {
				p.changed.Broadcast()
			}
			return
		}
		// these came before: a server made the transfer repeat them
		skip := min(p.next-off, int64(len(data)))
		data, off = data[skip:], off+skip
		if len(data) == 0 {
			return
		}
		if p.lent == buffers {
			p.changed.Wait()
			continue
		}
		p.lent++
		p.mu.Unlock()
		buffer := p.lend()
		n := copy(buffer, data)
		p.mu.Lock()
		p.queue = append(p.queue, buffer[:n])
		p.next += int64(n)
		data, off = data[n:], off+int64(n)
		p.changed.Broadcast()
	}
}

// Advance reports that the local file is complete up to safe, for data that is not fed.
func (p *Pipe) Advance(safe int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if safe > p.next {
		p.behind = true
	}
	p.safe = max(p.safe, safe)
	p.changed.Broadcast()
}

func (p *Pipe) lend() []byte {
	if buffer, ok := p.pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferSize)
}

func (p *Pipe) giveBack(buffer []byte) {
	p.pool.Put((*[bufferSize]byte)(buffer[:bufferSize]))
}

// run hashes until the file is done or the pipe is stopped.
func (p *Pipe) run() {
	defer close(p.ended)
	p.mu.Lock()
	defer p.mu.Unlock()
	var file readAtCloser
	var own []byte
	for !p.stopped && p.err == nil {
		switch {
		case len(p.queue) > 0:
			p.takeOne()
		case p.behind && p.next < p.safe && (p.last || p.safe-p.next >= step):
			if file == nil {
				if file = p.openFile(); file == nil {
					return
				}
				defer file.Close()
				own = p.lend()
				defer p.giveBack(own)
			}
			p.readOne(file, own)
		case p.behind && p.next >= p.safe && !p.last:
			p.behind = false
		case p.last:
			return
		default:
			p.changed.Wait()
		}
	}
}

// takeOne hashes the first buffer of the queue. The caller holds the lock, which takeOne releases
// while hashing.
func (p *Pipe) takeOne() {
	buffer := p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	p.mu.Unlock()
	p.digests.Write(buffer)
	p.giveBack(buffer)
	p.mu.Lock()
	p.lent--
	p.changed.Broadcast()
}

// openFile opens the file. The caller holds the lock, which openFile releases meanwhile: the file
// may be on a host that does not answer.
func (p *Pipe) openFile() readAtCloser {
	if p.open == nil {
		p.fail(errNotInOrder)
		return nil
	}
	p.mu.Unlock()
	file, err := p.open()
	p.mu.Lock()
	if err != nil {
		p.fail(err)
		return nil
	}
	return file
}

// readOne hashes the next bytes of the file. The caller holds the lock, which readOne releases
// while reading: while the pipe is behind nothing else moves p.next.
func (p *Pipe) readOne(file io.ReaderAt, buffer []byte) {
	off, n := p.next, min(p.safe-p.next, int64(len(buffer)))
	p.mu.Unlock()
	got, err := file.ReadAt(buffer[:n], off)
	p.digests.Write(buffer[:got])
	p.mu.Lock()
	p.next += int64(got)
	if int64(got) < n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		p.fail(err)
	}
}

func (p *Pipe) fail(err error) {
	p.err = cmp.Or(p.err, err)
	p.changed.Broadcast()
}

// Finish waits until all size bytes are hashed, and completes the digests.
func (p *Pipe) Finish(size int64) error {
	p.mu.Lock()
	if p.next > size {
		p.fail(errNotInOrder)
	}
	if p.next < size || p.behind {
		p.behind = true
		p.safe = size
	}
	p.last = true
	p.changed.Broadcast()
	p.mu.Unlock()
	<-p.ended
	if p.err == nil && p.next != size {
		p.err = errNotInOrder
	}
	if p.err == nil {
		p.digests.Finish()
	}
	return p.err
}

// Drain waits until everything fed is hashed, and returns the number of bytes. The digests may then
// be written to directly.
func (p *Pipe) Drain() int64 {
	p.mu.Lock()
	p.last = true
	p.changed.Broadcast()
	p.mu.Unlock()
	<-p.ended
	return p.next
}

func (p *Pipe) Progress() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// Stop ends the goroutine and waits for it. It may be called more than once.
func (p *Pipe) Stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.stopped = true
	p.changed.Broadcast()
	p.mu.Unlock()
	<-p.ended
}

// The readers and writers that feed a pipe. Without a pipe they are the originals.

func (p *Pipe) ReaderAt(r io.ReaderAt) io.ReaderAt {
	if p == nil {
		return r
	}
	return fedReaderAt{r, p}
}

func (p *Pipe) Writer(w io.Writer, at int64) io.Writer {
	if p == nil {
		return w
	}
	return Tee(w, p.FeedAt, at)
}

// WriterAt is for a file that arrives in any order; safe returns how far it is complete.
func (p *Pipe) WriterAt(w io.WriterAt, safe func() int64) io.WriterAt {
	if p == nil {
		return w
	}
	return fedWriterAt{w, p, safe}
}

type fedReaderAt struct {
	io.ReaderAt
	pipe *Pipe
}

func (r fedReaderAt) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, off)
	r.pipe.FeedAt(b[:n], off)
	return n, err
}

// Tee returns a Writer to w that feeds the bytes w takes, from an offset on.
func Tee(w io.Writer, feed func(data []byte, off int64), off int64) io.Writer {
	return &feedingWriter{w, feed, off}
}

type feedingWriter struct {
	io.Writer
	feed func(data []byte, off int64)
	off  int64
}

func (w *feedingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if n > 0 && n <= len(p) { // otherwise the writer is broken, which the transfer detects
		w.feed(p[:n], w.off)
		w.off += int64(n)
	}
	return n, err
}

type fedWriterAt struct {
	io.WriterAt
	pipe *Pipe
	safe func() int64
}

func (w fedWriterAt) WriteAt(b []byte, off int64) (int, error) {
	n, err := w.WriterAt.WriteAt(b, off)
	w.pipe.Feed(b[:n], off, w.safe())
	return n, err
}
