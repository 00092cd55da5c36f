package filecopy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"net"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/deltaplan"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

// A file is copied whole if a delta is unlikely to be faster. A delta costs reading and hashing the
// file at both ends, a few round trips, and two thousandths of the file's size for the list.
const (
	// leastDelta is the smallest file worth the round trips.
	leastDelta = 4 << 20

	// hashRate is roughly how many bytes each end can chunk and hash per second. Links must be
	// clearly slower for a delta to pay off.
	hashRate = 500 << 20

	// shortTrip is the round trip below which a link of unknown rate is assumed to be fast.
	shortTrip = 2 * time.Millisecond
)

const (
	// copiedAtOnce is how much the host copies per request, so that a copy can be interrupted.
	// copiesAhead is how many requests are in flight.
	copiedAtOnce = 8 << 20
	copiesAhead  = 32

	// fetchedAtOnce and fetchesAhead are the same for the reads of a download.
	fetchedAtOnce = 256 << 10
	fetchesAhead  = 64
)

// errNoDelta reports that the copy must be made without a delta.
var errNoDelta = errors.New("cannot be assembled from the old file and the changes")

// A delta is one attempt to assemble a file from an older one and the differences.
type delta struct {
	copy *Copy
	main *usftp.Client
	// side is the host's session, except for the client, which lists chunks and hashes.
	side session
	chunking
	files   []*usftp.File // to be closed
	closing []*usftp.Pending[struct{}]
	proof   *proof // of the host's file

	base   atomic.Int64 // start of the window
	common atomic.Int64 // bytes taken from the old file
	moved  coverage     // parts of the window done; of a file on the host, parts that it copies
}

// newDelta returns nil if a delta is impossible or not worth it.
func newDelta(c *Copy, s *session, size, old int64) *delta {
	if c.known.tried[entire] > 0 || !s.worthDelta(c, size, old) {
		return nil
	}
	d := &delta{copy: c, main: s.client, side: *s,
		chunking: chunking{shortest: shortestChunk(max(size, old))}}
	if !s.client.HasChunks() || !s.client.HasCheckFile() {
		if d.side.client = s.helper(c); d.side.client == nil {
			return nil
		}
	}
	if _, copies := d.side.client.HasExtension(wire.ExtCopyData); !copies {
		return nil
	}
	d.algorithm = d.side.prover().checkAlgorithm(c.Options.Hash)
	return d
}

// shortestChunk chooses the chunk length so that there are about as many chunks as KiB in each: the
// list and the data sent around each change then grow alike.
func shortestChunk(size int64) int {
	shortest := 1 << ((bits.Len64(uint64(size)) + 1) / 2)
	return min(max(shortest, wire.MinChunk), wire.MaxChunk)
}

// worthDelta reports whether to look for common parts of the old and the new file.
func (s *session) worthDelta(c *Copy, size, old int64) bool {
	switch {
	case c.Options.Delta == DeltaNever || size <= c.Result.Resumed || old <= 0 ||
		private.OfClient(s.client).ReadsOnce(), s.oneHandle(): // it opens the old file and the new
		return false
	case c.Options.Delta == DeltaAlways:
		return true
	case size < leastDelta || old < size/deltaplan.LeastCommon:
		return false
	}
	rate := pools.OfConn(s.conn).Rate()
	if limit := c.Options.RateLimit; limit > 0 && (rate == 0 || float64(limit) < rate) {
		rate = float64(limit)
	}
	if rate == 0 {
		s.measure(c.Ctx, size)
		return s.trip >= shortTrip
	}
	// both ends hash at the same time, and once more for verification
	whole := float64(size) / rate
	return whole > 2*(2*float64(size)/hashRate+4*s.trip.Seconds())
}

// helper returns another client of the host that can list chunks, nil if there is none.
func (s *session) helper(c *Copy) *usftp.Client {
	if s.host.Helper == nil {
		return nil
	}
	client := s.host.Helper(c.Ctx)
	if client == nil || !client.HasChunks() || !client.HasCheckFile() {
		return nil
	}
	return client.WithContext(c.Ctx)
}

// path returns a file's path for the client that lists chunks: a helper may start in another
// directory than the host's own server.
func (d *delta) path(name string) string {
	if d.side.client == d.main || path.IsAbs(name) {
		return name
	}
	if start, err := d.main.RealPath("."); err == nil {
		return path.Join(start, name)
	}
	return name
}

// An opening says how to open a file on the host. like returns its attrs from the host's own
// server.
type opening struct {
	name string
	flag int
	like func() (*usftp.FileStat, error)
}

// open opens files on the host in two round trips, and checks them against the attrs from the
// host's own server: a helper may see another file tree.
func (d *delta) open(files ...opening) (opened []*usftp.File, err error) {
	asked := make([]*usftp.Pending[*usftp.File], len(files))
	for i, f := range files {
		asked[i] = d.side.client.Async().OpenFile(f.name, f.flag, 0)
	}
	for _, a := range asked {
		f, openErr := a.Wait()
		if openErr == nil {
			d.files = append(d.files, f)
		}
		opened, err = append(opened, f), errors.Join(err, openErr)
	}
	if err != nil {
		return nil, err
	}
	looked := make([]*usftp.Pending[*usftp.FileStat], len(files))
	for i, f := range opened {
		looked[i] = f.Async().Stat()
	}
	for i, f := range files {
		theirs, err := looked[i].Wait()
		if err != nil {
			return nil, err
		}
		ours, err := f.like()
		if err != nil {
			return nil, err
		}
		if ours.Size != theirs.Size || ours.Mtime != theirs.Mtime || ours.Mode != theirs.Mode ||
			ours.UID != theirs.UID || ours.GID != theirs.GID {
			return nil, endpoint.ErrReplaced
		}
	}
	return opened, nil
}

// described returns the like of an opening: the attrs in info, from the host's own server.
func described(info os.FileInfo) func() (*usftp.FileStat, error) {
	return func() (*usftp.FileStat, error) {
		if stat, known := info.Sys().(*usftp.FileStat); known {
			return stat, nil
		}
		return nil, endpoint.ErrReplaced
	}
}

// closeFiles starts closing files, or all that are still open if none are given.
func (d *delta) closeFiles(files ...*usftp.File) {
	if len(files) == 0 {
		files = d.files
	}
	for _, f := range files {
		d.closing = append(d.closing, f.Async().Close())
	}
	d.files = slices.DeleteFunc(slices.Clone(d.files), func(f *usftp.File) bool {
		return slices.Contains(files, f)
	})
}

// closed waits until the host has closed the files. It fails if any file could not be stored.
func (d *delta) closed() (err error) {
	for _, c := range d.closing {
		_, closeErr := c.WaitContext(d.copy.Ctx)
		err = errors.Join(err, closeErr)
	}
	d.closing = nil
	return err
}

// close ends the delta, and reports whether the host had files open for it. It is a no-op on nil.
func (d *delta) close() (had bool) {
	if d == nil {
		return false
	}
	d.proof.stop()
	d.closeFiles()
	had = len(d.closing) > 0
	d.closed()
	return had
}

// leave closes the files after success without waiting: the host may take long to free the contents
// of the old file, which has lost its name.
func (d *delta) leave() {
	if d != nil {
		d.closeFiles()
		d.closing = nil
	}
}

// windowEnd returns the end of the window that starts at from.
func windowEnd(from, size int64) int64 { return min(from+deltaplan.Window, size) }

// coverage tracks how far a file is complete, while its parts are finished in any order.
type coverage struct {
	mu    sync.Mutex
	mark  atomic.Int64
	parts map[int64]int64 // lengths of parts beyond the mark, by offset
}

func (c *coverage) begin(at int64) {
	c.mark.Store(at)
	c.parts = make(map[int64]int64)
}

func (c *coverage) add(off, length int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts[off] = length
	for {
		mark := c.mark.Load()
		length, done := c.parts[mark]
		if !done {
			return
		}
		delete(c.parts, mark)
		c.mark.Store(mark + length)
	}
}

// failed returns the error to fail with after a delta: errNoDelta, which has the file copied whole,
// unless the copy was interrupted, or there is no room for the file.
func (d *delta) failed(err error) error {
	c := d.copy
	if err == nil || c.interrupted() || errors.Is(err, errNoDelta) || endpoint.NoRoom(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errNoDelta, err)
}

// begin records that the file is being assembled, and starts hashing it. local rereads the file on
// this machine. undo reverts that: the whole file is to be hashed.
func (d *delta) begin(local reopen) (undo func()) {
	c := d.copy
	before := c.known.delta
	c.delta, c.known.delta = d, true
	c.hashing.start(c, local)
	return func() {
		c.delta, c.known.delta = nil, before
		if c.hashing.stop(); c.hashes() {
			c.hashing.start(c, local)
		}
	}
}

// A proof holds the hashes of a file on a host. The host computes them piece by piece, while the
// rest of the file is still being copied.
type proof struct {
	cancel context.CancelFunc
	work   sync.WaitGroup
	whole  chan struct{} // closed when the file is complete
	sums   [][]byte      // nil where the host gave none
}

const (
	// provenAtOnce is how many pieces the host is asked for at a time.
	provenAtOnce = 8

	// proofInterval is how often a proof checks whether the next piece is complete.
	proofInterval = 20 * time.Millisecond
)

// prove starts a proof of the host's file, open as f, in the pieces in which the source is hashed.
// Each is hashed once it is complete: complete returns how far the file is complete, and once whole
// is closed, all of it is.
func (d *delta) prove(name string, f *usftp.File, complete func() int64) *proof {
	c := d.copy
	ctx, cancel := context.WithCancel(c.Ctx)
	size, piece := c.Size, c.hashing.pipe.Digests().Check().Piece
	if piece == 0 {
		piece = size
	}
	p := &proof{cancel: cancel, whole: make(chan struct{}),
		sums: make([][]byte, (size+piece-1)/piece)}
	handle := f.WithContext(ctx)
	p.work.Go(func() {
		var asked errgroup.Group
		asked.SetLimit(provenAtOnce)
		for i := range p.sums {
			off := int64(i) * piece
			what := usftp.CheckFile{Algorithms: []string{hostName(d.algorithm)}, Offset: off,
				Length: piece}
			if i == len(p.sums)-1 {
				what.Length = 0 // a longer file differs
			}
			if !p.await(ctx, complete, min(off+piece, size)) {
				break
			}
			asked.Go(func() error {
				if hashes := d.side.prover().hashes(name, handle, what); hashes != nil {
					p.sums[i] = hashes.Hashes[0]
				}
				return nil
			})
		}
		asked.Wait()
	})
	return p
}

// await waits until the file is complete up to an offset. It returns false if ctx is done.
func (p *proof) await(ctx context.Context, complete func() int64, to int64) bool {
	tick := time.NewTicker(proofInterval)
	defer tick.Stop()
	for complete() < to {
		select {
		case <-p.whole:
			return true
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// stop ends a proof. It is a no-op on nil.
func (p *proof) stop() {
	if p != nil {
		p.cancel()
		p.work.Wait()
	}
}

// verify compares the hashes of the host's file with the source's.
func (d *delta) verify() error {
	c := d.copy
	d.proof.work.Wait()
	if !slices.EqualFunc(d.proof.sums, c.hashing.digests.Check().Sums, bytes.Equal) {
		switch { // the host may not have given them
		case c.Ctx.Err() != nil:
			return context.Cause(c.Ctx)
		case pool.Lost(d.main):
			return cmp.Or(d.main.Wait(), error(net.ErrClosed))
		case pool.Lost(d.side.client):
			return d.failed(cmp.Or(d.side.client.Wait(), error(net.ErrClosed)))
		}
		return d.failed(ErrVerify)
	}
	c.hashing.verified = ByHash
	return nil
}

// sendDelta sends to a host the data that the replaced file lacks, and lets the host copy the rest.
// done is false if nothing was sent, because a delta is impossible or not worth it.
func (o onHost) sendDelta(c *Copy, in *input) (n int64, done bool, err error) {
	source, ok := in.file.(*endpoint.LocalFile)
	size, resumed := in.info().Size, c.Result.Resumed
	if !ok || !in.info().IsRegular() {
		return 0, false, nil
	}
	session := *c.to
	session.client = o.client()
	d := newDelta(c, &session, size, o.info.Size())
	if d == nil {
		return 0, false, nil
	}
	defer func() {
		if !done || err != nil {
			d.close()
		}
	}()
	old, to, written, err := o.openFor(d)
	if err != nil {
		return 0, false, c.to.lostWith(err)
	}
	undo := d.begin(in.reopen())
	first, planned, err := d.plans(c, d.hashed(source, size, c.hashing.pipe), d.remote(old),
		o.info.Size())
	if err != nil {
		undo()
		return 0, false, c.to.lostWith(err)
	}
	d.base.Store(resumed)
	d.moved.begin(resumed)
	position := d.position(o.host().File)
	d.proof = d.prove(d.path(o.temp), written, position)
	defer c.watch(position)()
	at, err := d.windows(first, planned, func(p *deltaplan.Plan, from int64) (int64, error) {
		at, err := d.send(o, in, old, to, p, from)
		c.hashing.pipe.Advance(at)
		return at, err
	})
	if err == nil && at < size { // the source has shrunk
		err = endpoint.OfSource(in.unchanged(at, in.reopen()))
		if err == nil || c.Options.Changing { // what is left of it can still be copied
			err = d.failed(cmp.Or(err, errNoDelta))
		}
	}
	if err != nil || at < size {
		return at - resumed, true, err
	}
	close(d.proof.whole)
	stat := o.host().Async().Stat()
	d.closeFiles(to)
	info, err := stat.WaitContext(c.Ctx)
	if err == nil && int64(info.Size) != size {
		err = errNoDelta
	}
	if err := errors.Join(err, d.closed()); err != nil {
		return size - resumed, true, d.failed(err)
	}
	c.Result.Reused = d.common.Load()
	return size - resumed, true, nil
}

// openFor opens the file being replaced, and the temporary file twice more, to copy to it and to
// hash it.
func (o onHost) openFor(d *delta) (old, to, written *usftp.File, err error) {
	looked := o.host().Async().Stat()
	files, err := d.open(opening{d.path(o.name), os.O_RDONLY, described(o.info)},
		opening{d.path(o.temp), os.O_WRONLY, looked.Wait},
		opening{d.path(o.temp), os.O_RDONLY, looked.Wait})
	if err != nil {
		return nil, nil, nil, err
	}
	return files[0], files[1], files[2], nil
}

// lostWith returns err if the connection is lost, otherwise nil: then err only means that there is
// no delta.
func (s *session) lostWith(err error) error {
	if s.lost() {
		return err
	}
	return nil
}

// position returns how far a file on a host is complete.
func (d *delta) position(f *usftp.File) func() int64 {
	return func() int64 {
		base := d.base.Load() // first: progress begins again with each window
		sent := f.Progress()
		if sent == deltaplan.Window { // left over from the previous window
			sent = 0
		}
		return min(base+sent, d.moved.mark.Load())
	}
}

// A planner plans the window that starts at from.
type planner func(from int64) (*deltaplan.Plan, error)

// windows moves the file window by window, beginning with the planned first one. It returns how far
// the file is complete: less than its size after an error, or if the source has shrunk.
func (d *delta) windows(first *deltaplan.Plan, planned planner,
	move func(p *deltaplan.Plan, from int64) (int64, error)) (at int64, err error) {
	size, p := d.copy.Size, first
	for at = d.copy.Result.Resumed; ; {
		end := windowEnd(at, size)
		at, err = move(p, at)
		p.Stop()
		if err != nil || at < end || at == size {
			return at, d.failed(err)
		}
		if p, err = planned(at); errors.Is(err, deltaplan.ErrNotWorth) {
			p = deltaplan.Whole(d.copy.Ctx, at, windowEnd(at, size))
		} else if err != nil {
			return at, d.failed(err)
		}
	}
}

// send sends one window. It returns how far the file is complete.
func (d *delta) send(o onHost, in *input, old, to *usftp.File, plan *deltaplan.Plan,
	from int64) (int64, error) {
	c := d.copy
	end := windowEnd(from, c.Size)
	d.moved.begin(from)
	d.base.Store(from)
	var copying sync.WaitGroup
	asked := make(chan struct{})
	copying.Go(func() { d.copyData(old.WithContext(plan.Context()), to, plan, asked) })
	<-asked
	source := &changes{copy: c, file: in, holes: findHoles(c, in, in.file.(*endpoint.LocalFile)), plan: plan, end: end}
	n, err := private.NewStripes(o.host().WithContext(plan.Context())).ReadFromAt(source)
	if err != nil {
		plan.Fail(err)
	}
	if copying.Wait(); plan.Context().Err() != nil {
		err = context.Cause(plan.Context()) // whichever came first
	}
	return min(from+n, d.moved.mark.Load()), err
}

// copyData lets the host copy the plan's parts of the old file. The rest counts as done here: the
// transfer of the changes has its own progress. It closes asked once the known part of the plan, or
// as much of it as may be in flight, has been requested: the host would be idle if these requests
// followed the first changes, which a new connection sends slowly (RFC 5681, section 3.1).
func (d *delta) copyData(old, to *usftp.File, plan *deltaplan.Plan, asked chan<- struct{}) {
	sendChanges := sync.OnceFunc(func() { close(asked) })
	defer sendChanges()
	known, _ := plan.Known(0)
	unasked := len(known)
	inFlight := make(chan struct{}, copiesAhead)
	var copies sync.WaitGroup
	err := plan.Each(func(e deltaplan.Extent) bool {
		if e.Old < 0 {
			d.moved.add(e.Off, e.Length)
		} else {
			for e := range e.Pieces(copiedAtOnce) {
				if len(inFlight) == cap(inFlight) {
					sendChanges()
				}
				select {
				case <-plan.Context().Done():
					return false
				case inFlight <- struct{}{}:
				}
				copied := old.Async().CopyData(e.Old, e.Length, to, e.Off)
				copies.Go(func() {
					defer func() { <-inFlight }()
					if _, err := copied.Wait(); err != nil {
						plan.Fail(err)
						return
					}
					d.common.Add(e.Length)
					d.moved.add(e.Off, e.Length)
				})
			}
		}
		if unasked--; unasked == 0 {
			sendChanges()
		}
		return true
	})
	if err != nil {
		plan.Fail(err)
	}
	copies.Wait()
}

// changes is the source as sent to the host: without the parts taken from its old file, and without
// holes.
type changes struct {
	copy  *Copy
	file  io.ReaderAt
	holes *sparseSource // nil if there are none
	plan  *deltaplan.Plan
	end   int64
	err   error // the plan's
}

// Extent implements private.SparseReaderAt.
func (s *changes) Extent(off int64) (to int64, hole bool) {
	e, found, err := s.plan.At(off)
	if !found {
		s.err = err
		return math.MaxInt64, false
	}
	if e.Old >= 0 {
		return e.End(), true
	}
	if s.holes == nil {
		return e.End(), false
	}
	to, hole = s.holes.Extent(off)
	return min(to, e.End()), hole
}

func (s *changes) ReadAt(p []byte, off int64) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	if off >= s.end {
		return 0, io.EOF
	}
	n, err = s.file.ReadAt(p[:min(int64(len(p)), s.end-off)], off)
	if n < len(p) && err == nil {
		err = io.EOF
	}
	if waitErr := s.copy.Limiter.Wait(n); waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

// delta fetches from a host the data that the replaced file lacks, and copies the rest from that
// file. done is false if nothing was fetched.
func (p pouring) delta() (n int64, done bool, err error) {
	in, c, to := p.input, p.copy, p.to
	f := in.host.File
	old, err := to.old()
	if err != nil {
		return 0, false, nil
	}
	defer old.Close()
	info, err := old.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false, nil
	}
	size, resumed := in.known.Size, c.Result.Resumed
	d := newDelta(c, c.from, size, info.Size())
	if d == nil {
		return 0, false, nil
	}
	defer func() {
		if !done || err != nil {
			d.close()
		}
	}()
	listed := f
	if d.side.client != d.main {
		files, err := d.open(opening{d.path(c.Source), os.O_RDONLY, described(f.Info())})
		if err != nil {
			return 0, false, c.from.lostWith(err)
		}
		listed = files[0]
	}
	first, planned, err := d.plans(c, d.remote(listed), d.local(old), info.Size())
	if err != nil {
		return 0, false, c.from.lostWith(err)
	}
	d.begin(to.reread)
	d.proof = d.prove(d.path(c.Source), listed, func() int64 { return size })
	defer c.watch(d.moved.mark.Load)()
	if err := to.file.Truncate(size); err != nil {
		first.Stop()
		return 0, true, err
	}
	at, err := d.windows(first, planned, func(p *deltaplan.Plan, from int64) (int64, error) {
		err := d.fetch(f, to.file, old, p, from)
		return d.moved.mark.Load(), err
	})
	if err != nil {
		return at - resumed, true, err
	}
	c.Result.Reused = d.common.Load()
	return size - resumed, true, nil
}

// fetch fetches one window.
func (d *delta) fetch(f *usftp.File, to *endpoint.LocalWriter, old *os.File, plan *deltaplan.Plan,
	from int64) error {
	c := d.copy
	ctx, fail := plan.Context(), plan.Fail
	d.moved.begin(from)
	var copying sync.WaitGroup
	copying.Go(func() {
		plan.Each(func(e deltaplan.Extent) bool {
			if e.Old < 0 {
				return true
			}
			for e := range e.Pieces(copiedAtOnce) {
				n, err := localfs.Copy(ctx, to.File, old, localfs.Options{From: e.Old, To: e.Off,
					Length: e.Length, Zeros: c.Options.Sparse})
				if err == nil && n < e.Length {
					err = errNoDelta // it has shrunk
				}
				if err != nil {
					fail(err)
					return false
				}
				d.common.Add(e.Length)
				d.done(e)
			}
			return true
		})
	})
	buffers := sync.Pool{New: func() any { return new([fetchedAtOnce]byte) }}
	var fetches errgroup.Group
	fetches.SetLimit(fetchesAhead)
	f = f.WithContext(ctx)
	err := plan.Each(func(e deltaplan.Extent) bool {
		if e.Old >= 0 {
			return true
		}
		for e := range e.Pieces(fetchedAtOnce) {
			if err := c.Limiter.Wait(int(e.Length)); err != nil {
				fail(err)
			}
			if ctx.Err() != nil {
				return false
			}
			fetches.Go(func() error {
				buffer := buffers.Get().(*[fetchedAtOnce]byte)
				defer buffers.Put(buffer)
				data := buffer[:e.Length]
				_, err := f.Async().ReadAt(data, e.Off).Wait()
				if err == nil {
					_, err = to.WriteAt(data, e.Off)
				}
				if err != nil {
					fail(err)
					return err
				}
				d.done(e)
				return nil
			})
		}
		return true
	})
	if err != nil {
		fail(err)
	}
	fetches.Wait()
	copying.Wait()
	return context.Cause(ctx)
}

// done records a finished part of a file on this machine.
func (d *delta) done(e deltaplan.Extent) {
	d.moved.add(e.Off, e.Length)
	d.copy.hashing.pipe.Advance(d.moved.mark.Load())
}
