package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
)

// digests are the hashes computed of one file.
type digests []*checksum.Digest

func (all digests) Write(p []byte) (int, error) {
	for _, d := range all {
		d.Write(p)
	}
	return len(p), nil
}

func (all digests) finish() {
	for _, d := range all {
		d.Finish()
	}
}

// whole returns the whole file's hash that the user asked for; check returns the digest to compare
// with the host's.
func (all digests) whole() checksum.Hash {
	return checksum.Hash{Algorithm: all[0].Algorithm, Sum: all[0].Sums[0]}
}

func (all digests) check() *checksum.Digest { return all[len(all)-1] }

const (
	// hashPiece is how much of a file the host hashes per request, so that no answer takes long and
	// a stuck server can be told from a busy one.
	hashPiece = 64 << 20

	// wholePiece replaces it if the hash of the whole file is wanted too. A file of one piece needs
	// no second digest, and hashing it takes the host only seconds.
	wholePiece = 1 << 30
)

// newDigests returns what to hash of a file, whose size is -1 if unknown: the whole file for the
// user, and pieces to verify with a host.
func newDigests(c *fileCopy, size int64) (all digests) {
	wanted := c.options.Hash
	if wanted != "" {
		all = append(all, checksum.NewDigest(wanted, 0))
	}
	s := c.main()
	if !c.verifies() || s == nil { // on this machine bytes are compared
		return all
	}
	algorithm, piece := s.checkAlgorithm(wanted), int64(hashPiece)
	if c.delta != nil {
		algorithm = c.delta.algorithm
	}
	if wanted == algorithm {
		piece = wholePiece
		if size >= 0 && size <= piece {
			return all
		}
	}
	return append(all, checksum.NewDigest(algorithm, piece))
}

// fastest returns the fastest algorithm on this processor: the linked BLAKE3 is vectorized for
// x86-64 only, and other processors have instructions for SHA-256.
func fastest() checksum.Algorithm {
	if runtime.GOARCH == "amd64" {
		return checksum.BLAKE3
	}
	return checksum.SHA256
}

// checkAlgorithm chooses how to verify what the host stores: by the hash that is computed anyway if
// the host may know it, else by the fastest if the host announces it, else by SHA-256.
func (s *session) checkAlgorithm(wanted checksum.Algorithm) checksum.Algorithm {
	known := s.client.CheckFileAlgorithms()
	has := func(a checksum.Algorithm) bool { return slices.Contains(known, hostName(a)) }
	switch {
	case !s.client.HasCheckFile():
		if wanted != "" {
			return wanted
		}
		return fastest() // what is read back is hashed here
	case wanted != "" && has(wanted), wanted == checksum.SHA256:
		return wanted
	case has(fastest()):
		return fastest()
	}
	return checksum.SHA256
}

// hostName returns an algorithm's name in the check-file extension.
func hostName(a checksum.Algorithm) string {
	if a == checksum.BLAKE3 {
		return usftp.AlgorithmBLAKE3
	}
	return string(a)
}

// verifies reports whether the copy is compared with what the target stores.
func (c *fileCopy) verifies() bool { return c.options.Verify || c.attempts.delta }

// hashes reports whether anything is hashed.
func (c *fileCopy) hashes() bool { return c.options.Hash != "" || c.verifies() }

// hashing is what is known about a file's hash.
type hashing struct {
	pipe     *hashPipe // while a large file is in progress
	digests  digests   // of everything that was copied
	hash     checksum.Hash
	verified Verification
}

// start begins to hash the data as it passes, after what an earlier run copied. local rereads the
// file; it is nil if that is impossible.
func (h *hashing) start(c *fileCopy, local reopen) {
	h.stop()
	if c.hashes() {
		h.pipe = newHashPipe(newDigests(c, c.size), c.result.Resumed, local, c.pipeBuffers())
	}
}

func (j *job) pipeBuffers() *sync.Pool {
	if j.tree == nil {
		return nil
	}
	return &j.tree.budget.buffers.pipe
}

func (h *hashing) stop() {
	h.pipe.stop()
	h.pipe = nil
}

// small hashes a file held in memory, on the worker that copies it: many run side by side.
func (h *hashing) small(c *fileCopy, data []byte) {
	if c.hashes() {
		h.digests = newDigests(c, int64(len(data)))
		h.digests.Write(data)
		h.digests.finish()
	}
}

// finish completes the hash and compares it with the list.
func (h *hashing) finish(c *fileCopy) error {
	if err := h.complete(c); err != nil {
		return err
	}
	return h.checkList(c)
}

// complete waits until everything is hashed.
func (h *hashing) complete(c *fileCopy) error {
	if p := h.pipe; p != nil {
		defer c.checks(p.progress)()
		if err := p.finish(c.result.Bytes); err != nil {
			return fmt.Errorf("what was copied cannot be hashed: %w", err)
		}
		h.digests, h.pipe = p.digests, nil
	}
	if c.options.Hash != "" {
		h.hash = h.digests.whole()
	}
	return nil
}

// checkList compares the hash with the list. A file that is not listed is reported but does not
// fail: a list seldom contains itself.
func (h *hashing) checkList(c *fileCopy) error {
	if c.options.List == nil {
		return nil
	}
	for _, name := range c.listNames() {
		if listed, err := c.options.List.Check(name, h.hash); listed {
			return err
		}
	}
	c.warn("it is not in the list of hashes")
	return nil
}

// meetList marks a failed file as seen, so that it is not reported as missing as well.
func (h *hashing) meetList(c *fileCopy) {
	if c.options.List == nil {
		return
	}
	for _, name := range c.listNames() {
		if listed, _, _ := c.options.List.Find(name); listed {
			return
		}
	}
}

// listNames returns the names by which a list may know the file, the likeliest first: its path
// below the directory named as the target, below the source, or below the source's parent, as in a
// list made when the source was copied there.
func (c *fileCopy) listNames() []string {
	base, err := c.src.base(c.src.join(c.route.Source, ""))
	switch {
	case err != nil:
		base = ""
	case c.entry == nil:
		return []string{c.name, base}
	}
	return []string{c.name, c.entry.rel(), path.Join(base, c.entry.rel())}
}

// keptSame reports whether an existing file need not be copied, judging by its hash if the list or
// the host knows it.
func (h *hashing) keptSame(c *fileCopy, in input, out output) bool {
	local := out.rereads(c, in)
	if local == nil {
		return false
	}
	defer h.stop()
	err := h.reread(c, c.entry.facts.size, local)
	if err == nil {
		err = h.checkList(c)
	}
	if err != nil {
		h.hash = checksum.Hash{}
		return false
	}
	if !c.verifies() {
		return true
	}
	same, known := out.holds(c, in)
	return same || !known
}

// reread hashes a file of the given size that is not being copied.
func (h *hashing) reread(c *fileCopy, size int64, local reopen) error {
	if !c.tree.budget.isSmall(size) {
		h.pipe = newHashPipe(newDigests(c, size), size, interruptible(c.ctx, local),
			c.pipeBuffers())
		c.result.Bytes = size
		defer func() { c.result.Bytes = 0 }()
		defer c.report(h.pipe.progress)()
		return h.complete(c)
	}
	file, free, err := local()
	if err != nil {
		return err
	}
	defer free()
	budget := c.tree.budget
	budget.memory.take(size)
	defer budget.memory.give(size)
	data, release := budget.buffers.get(int(size))
	defer release()
	if n, err := file.ReadAt(data, 0); n < len(data) {
		return errors.Join(errDiffers, err)
	}
	h.small(c, data)
	return h.complete(c)
}

// interruptible makes reads of a file stop when ctx ends.
func interruptible(ctx context.Context, open reopen) reopen {
	return func() (io.ReaderAt, func(), error) {
		file, free, err := open()
		return interruptibleAt{ctx, file}, free, err
	}
}

type interruptibleAt struct {
	ctx context.Context
	io.ReaderAt
}

func (r interruptibleAt) ReadAt(p []byte, off int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, interruption(r.ctx)
	}
	return r.ReaderAt.ReadAt(p, off)
}

// A hashPipe hashes a file while it is copied, on its own goroutine, so that a second processor can
// do it. The goroutine that moves the bytes feeds it pieces with their offsets. Pieces that
// continue what it has are copied into a few buffers; when all of them are full, feed waits. So
// memory is bounded and the hash is never far behind.
//
// Pieces of a file that arrives over several connections come in any order, and the beginning that
// an earlier run copied does not come at all. The pipe is then behind: it reads the local file up
// to where that is complete, mostly from the system's cache, and takes pieces again once it has
// caught up. Only finish waits for that.
//
// A nil hashPipe hashes nothing.
type hashPipe struct {
	digests digests
	open    reopen     // the local file; nil if there is none and everything comes in order
	pool    *sync.Pool // of [pipeBuffer]byte, a tree's or its own
	ended   chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	next    int64 // everything before it is hashed or queued
	behind  bool  // what comes next must be read from the file
	safe    int64 // the file is complete up to here
	queue   [][]byte
	lent    int  // buffers that are filled, queued or hashed
	last    bool // nothing more will be fed
	stopped bool // the hash is no longer wanted
	err     error
}

const (
	// pipeBuffer holds one packet's data; at most pipeBuffers of them are in use.
	pipeBuffer  = 256 << 10
	pipeBuffers = 8

	// pipeStep is how much there must be to read from the file before the goroutine is woken.
	pipeStep = 1 << 20
)

// errNotInOrder is a bug: a stream's bytes arrive in order.
var errNotInOrder = errors.New("the data arrived out of order; this is a bug in usftp")

// newHashPipe starts hashing. The first present bytes are already in the file. pool may be nil.
func newHashPipe(all digests, present int64, open reopen, pool *sync.Pool) *hashPipe {
	p := &hashPipe{digests: all, open: open, pool: cmp.Or(pool, new(sync.Pool)),
		ended: make(chan struct{}), behind: present > 0, safe: present}
	p.changed.L = &p.mu
	go p.run()
	return p
}

// ordered reports whether pieces must be fed in order.
func (p *hashPipe) ordered() bool { return p != nil && p.open == nil }

// feedAt is feed where the local file is complete up to the end of data.
func (p *hashPipe) feedAt(data []byte, off int64) { p.feed(data, off, off+int64(len(data))) }

// feed hands over what was copied at an offset. The local file, if there is one, is complete up to
// safe. feed does not retain data. Only one goroutine may feed.
func (p *hashPipe) feed(data []byte, off, safe int64) {
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
			if p.safe-p.next >= pipeStep {
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
		if p.lent == pipeBuffers {
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

// advance reports that the local file is complete up to safe, for data that is not fed.
func (p *hashPipe) advance(safe int64) {
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

func (p *hashPipe) lend() []byte {
	if buffer, ok := p.pool.Get().(*[pipeBuffer]byte); ok {
		return buffer[:]
	}
	return make([]byte, pipeBuffer)
}

func (p *hashPipe) giveBack(buffer []byte) {
	p.pool.Put((*[pipeBuffer]byte)(buffer[:pipeBuffer]))
}

// run hashes until the file is done or the pipe is stopped.
func (p *hashPipe) run() {
	defer close(p.ended)
	p.mu.Lock()
	defer p.mu.Unlock()
	var file io.ReaderAt
	var own []byte
	for !p.stopped && p.err == nil {
		switch {
		case len(p.queue) > 0:
			p.takeOne()
		case p.behind && p.next < p.safe && (p.last || p.safe-p.next >= pipeStep):
			if file == nil {
				var free func()
				if file, free = p.openFile(); file == nil {
					return
				}
				defer free()
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
func (p *hashPipe) takeOne() {
	buffer := p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	p.mu.Unlock()
	p.digests.Write(buffer)
	p.giveBack(buffer)
	p.mu.Lock()
	p.lent--
	p.changed.Broadcast()
}

func (p *hashPipe) openFile() (file io.ReaderAt, free func()) {
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

// readOne hashes what comes next in the file. The caller holds the lock, which readOne releases
// while reading: while the pipe is behind nothing else moves p.next.
func (p *hashPipe) readOne(file io.ReaderAt, buffer []byte) {
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

func (p *hashPipe) fail(err error) {
	p.err = cmp.Or(p.err, err)
	p.changed.Broadcast()
}

// finish waits until all size bytes are hashed, and completes the digests.
func (p *hashPipe) finish(size int64) error {
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

// drain waits until everything that was fed is hashed, and returns how much that is. The digests
// may then be written to directly.
func (p *hashPipe) drain() int64 {
	p.mu.Lock()
	p.last = true
	p.changed.Broadcast()
	p.mu.Unlock()
	<-p.ended
	return p.next
}

func (p *hashPipe) progress() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// stop ends the goroutine and waits for it. It may be called more than once.
func (p *hashPipe) stop() {
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

func (p *hashPipe) reader(r io.Reader, at int64) io.Reader {
	if p == nil {
		return r
	}
	return &fedReader{r, p, at}
}

func (p *hashPipe) readerAt(r io.ReaderAt) io.ReaderAt {
	if p == nil {
		return r
	}
	return fedReaderAt{r, p}
}

func (p *hashPipe) writer(w io.Writer, at int64) io.Writer {
	if p == nil {
		return w
	}
	return &feedingWriter{w, p.feedAt, at}
}

// writerAt is for a file that arrives in any order; safe returns how far it is complete.
func (p *hashPipe) writerAt(w io.WriterAt, safe func() int64) io.WriterAt {
	if p == nil {
		return w
	}
	return fedWriterAt{w, p, safe}
}

type fedReader struct {
	io.Reader
	pipe *hashPipe
	at   int64
}

func (r *fedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 && n <= len(b) { // otherwise the reader is broken, which the transfer detects
		r.pipe.feedAt(b[:n], r.at)
		r.at += int64(n)
	}
	return n, err
}

func (r *fedReader) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent {
		return 0, errors.ErrUnsupported
	}
	pos, err := seek(r.Reader, offset, whence)
	if err == nil {
		r.at += offset
	}
	return pos, err
}

type fedReaderAt struct {
	io.ReaderAt
	pipe *hashPipe
}

func (r fedReaderAt) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, off)
	r.pipe.feedAt(b[:n], off)
	return n, err
}

// feedingWriter feeds what its Writer takes, from an offset on.
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
	pipe *hashPipe
	safe func() int64
}

func (w fedWriterAt) WriteAt(b []byte, off int64) (int, error) {
	n, err := w.WriterAt.WriteAt(b, off)
	w.pipe.feed(b[:n], off, w.safe())
	return n, err
}
