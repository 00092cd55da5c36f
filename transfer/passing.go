package transfer

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/usftp/usftp"
)

// passing hashes what passes, on a goroutine of its own and so on another processor where one is
// free. Whoever moves the bytes feeds it pieces with their offsets. Pieces that continue what it
// has are copied into a few buffers that wait for the goroutine; where all of them wait, so does
// the one who feeds: memory is bounded, and the hash is never far behind.
//
// Where pieces come that do not continue what it has (a file that arrives over several connections
// comes in any order; of one that an earlier run has copied in part the beginning does not pass at
// all), it is behind: it reads the file on this machine up to where that is complete, from the
// system's cache mostly, and takes the pieces again as soon as it has caught up. Nobody waits for
// that but the end.
type passing struct {
	digests digests
	open    reopen     // the file on this machine; nil where there is none, and all comes in order
	pool    *sync.Pool // of a tree, for buffers; nil where there is one file
	ended   chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	next    int64 // what lies before it is hashed, or waits in the queue
	behind  bool  // what comes next must be read from the file, which holds all
	safe    int64 // before this
	ahead   [][]byte
	idle    [][]byte
	made    int  // buffers
	last    bool // no more comes
	stopped bool // nobody wants it any more
	err     error
}

const (
	// passingBuffer holds a packet's data, and passingBuffers of them are as much as may wait.
	passingBuffer  = 256 << 10
	passingBuffers = 8

	// passingStep is how much must be there to be read before the goroutine is woken for it.
	passingStep = 1 << 20
)

// errNotInOrder is a mistake of ours: a stream's bytes come one after the other.
var errNotInOrder = errors.New("what has passed cannot be hashed: it did not come in order; this is a mistake in usftp")

// newPassing begins to hash. The first present bytes are in the file already.
func newPassing(all digests, present int64, open reopen, pool *sync.Pool) *passing {
	p := &passing{digests: all, open: open, pool: pool, ended: make(chan struct{}),
		behind: present > 0, safe: present}
	p.changed.L = &p.mu
	go p.run()
	return p
}

// feed hands over what has passed at an offset. The file on this machine, if there is one, holds
// all before safe. It keeps nothing of data. One goroutine feeds.
func (p *passing) feed(data []byte, off, safe int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(data) > 0 && p.err == nil && !p.stopped {
		if !p.behind && off > p.next {
			p.behind = true
		}
		if p.behind {
			p.safe = max(p.safe, safe)
			if p.safe-p.next >= passingStep {
				p.changed.Broadcast()
			}
			return
		}
		skip := min(p.next-off, int64(len(data))) // it was here before: a server had it sent again
		data, off = data[skip:], off+skip
		if len(data) == 0 {
			return
		}
		buffer := p.buffer()
		if buffer == nil {
			p.changed.Wait()
			continue
		}
		p.mu.Unlock()
		n := copy(buffer[:passingBuffer], data)
		p.mu.Lock()
		p.ahead = append(p.ahead, buffer[:n])
		p.next += int64(n)
		data, off = data[n:], off+int64(n)
		p.changed.Broadcast()
	}
}

// buffer returns a buffer that is free, nil where there is none. The caller holds the lock.
func (p *passing) buffer() []byte {
	if n := len(p.idle); n > 0 {
		b := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return b
	}
	if p.made == passingBuffers {
		return nil
	}
	p.made++
	return p.lend()
}

// lend returns a buffer, maybe one that another file of the tree has used.
func (p *passing) lend() []byte {
	if p.pool != nil {
		if lent, _ := p.pool.Get().(*[]byte); lent != nil {
			return *lent
		}
	}
	return make([]byte, passingBuffer)
}

func (p *passing) giveBack(buffer []byte) {
	if p.pool != nil && buffer != nil {
		buffer = buffer[:passingBuffer]
		p.pool.Put(&buffer)
	}
}

// run hashes until all has been, or nobody wants it any more.
func (p *passing) run() {
	defer close(p.ended)
	p.mu.Lock()
	defer p.mu.Unlock()
	var file io.ReaderAt
	var own []byte
	defer func() {
		p.giveBack(own)
		for _, buffer := range p.idle {
			p.giveBack(buffer)
		}
		p.idle, p.made = nil, passingBuffers
	}()
	for !p.stopped && p.err == nil {
		switch {
		case len(p.ahead) > 0:
			p.takeOne()
		case p.behind && p.next < p.safe && (p.last || p.safe-p.next >= passingStep):
			if file == nil {
				var free func()
				if file, free = p.openFile(); file == nil {
					return
				}
				defer free()
				own = p.lend()
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

// takeOne hashes the first buffer of the queue. The caller holds the lock, which is let go
// meanwhile.
func (p *passing) takeOne() {
	buffer := p.ahead[0]
	p.ahead = append(p.ahead[:0], p.ahead[1:]...)
	p.mu.Unlock()
	p.digests.write(buffer)
	p.mu.Lock()
	p.idle = append(p.idle, buffer)
	p.changed.Broadcast()
}

func (p *passing) openFile() (file io.ReaderAt, free func()) {
	if p.open == nil {
		p.fail(errNotInOrder)
		return nil, nil
	}
	file, free, err := p.open()
	if err != nil {
		p.fail(err)
		return nil, nil
	}
	return file, free
}

// readOne hashes what comes next as the file has it. The caller holds the lock, which is let go
// meanwhile: while it is behind nobody else moves p.next.
func (p *passing) readOne(file io.ReaderAt, buffer []byte) {
	off, n := p.next, min(p.safe-p.next, int64(len(buffer)))
	p.mu.Unlock()
	got, err := file.ReadAt(buffer[:n], off)
	p.digests.write(buffer[:got])
	p.mu.Lock()
	p.next += int64(got)
	if int64(got) < n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		p.fail(err)
	}
}

func (p *passing) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.changed.Broadcast()
}

// finish waits until all of a file of a size is hashed, and completes the digests.
func (p *passing) finish(size int64) error {
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
		p.digests.finish()
	}
	return p.err
}

// progress is how far it has come.
func (p *passing) progress() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// stop ends the goroutine, which it waits for. It may be called twice, and on nil.
func (p *passing) stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.stopped = true
	p.changed.Broadcast()
	p.mu.Unlock()
	<-p.ended
}

// interruptedReopen opens what ends with the run's context.
func (r *run) interruptedReopen(local reopen) reopen {
	return func() (io.ReaderAt, func(), error) {
		file, free, err := local()
		return interruptedReaderAt{r.ctx, file}, free, err
	}
}

type interruptedReaderAt struct {
	ctx context.Context
	io.ReaderAt
}

func (r interruptedReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.ReaderAt.ReadAt(p, off)
}

// The readers and writers that feed what passes through them.

type passingReader struct {
	io.Reader
	to *passing
	at int64
}

func (r *passingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 && n <= len(b) { // else it is a reader's mistake, which the transfer finds
		r.to.feed(b[:n], r.at, r.at+int64(n))
		r.at += int64(n)
	}
	return n, err
}

// passingSeeker can be taken back, as some servers need.
type passingSeeker struct {
	*passingReader
	seeker io.Seeker
}

func (r passingSeeker) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent {
		return 0, errors.ErrUnsupported
	}
	pos, err := r.seeker.Seek(offset, whence)
	if err == nil {
		r.at += offset
	}
	return pos, err
}

// passingReaderAt is for a file that is sent over several connections: pieces are handed out in
// order, but for those that are sent again.
type passingReaderAt struct {
	io.ReaderAt
	to *passing
}

func (r passingReaderAt) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, off)
	r.to.feed(b[:n], off, off+int64(n))
	return n, err
}

type passingWriter struct {
	io.Writer
	to *passing
	at int64
}

func (w *passingWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if n > 0 && n <= len(b) {
		w.to.feed(b[:n], w.at, w.at+int64(n))
		w.at += int64(n)
	}
	return n, err
}

// passingWriterAt is for a file that arrives over several connections, in any order; mark tells up
// to where it is complete.
type passingWriterAt struct {
	io.WriterAt
	to   *passing
	mark func() int64
}

func (w passingWriterAt) WriteAt(b []byte, off int64) (int, error) {
	n, err := w.WriterAt.WriteAt(b, off)
	w.to.feed(b[:n], off, w.mark())
	return n, err
}

// What follows puts them in where something is hashed, and else leaves things as they are.

func (r *run) passReader(source io.Reader) io.Reader {
	if r.passing == nil {
		return source
	}
	reader := &passingReader{Reader: source, to: r.passing, at: r.result.Resumed}
	if seeker, ok := source.(io.Seeker); ok {
		return passingSeeker{reader, seeker}
	}
	return reader
}

func (r *run) passReaderAt(source io.ReaderAt) io.ReaderAt {
	if r.passing == nil {
		return source
	}
	return passingReaderAt{source, r.passing}
}

func (r *run) passWriter(sink io.Writer) io.Writer {
	if r.passing == nil {
		return sink
	}
	return &passingWriter{Writer: sink, to: r.passing, at: r.result.Resumed}
}

func (r *run) passWriterAt(sink io.WriterAt, f *usftp.File) io.WriterAt {
	if r.passing == nil {
		return sink
	}
	return passingWriterAt{sink, r.passing, func() int64 { return r.result.Resumed + f.Progress() }}
}
