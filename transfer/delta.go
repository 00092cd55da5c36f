package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/bits"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/cdc"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// Delta selects whether a file that replaces an older one is sent as its differences. The end that
// has the old file then copies what both have in common into the temporary file, and a hash of the
// whole file is compared before the file gets its name. If the hashes differ, the file is copied
// whole.
//
// It needs a host whose server lists the chunks of files, as usftp's own does ([pool.Host.Helper]
// may start one), and a file on this machine at the other end.
type Delta int

const (
	DeltaNever  Delta = iota // always send the whole file
	DeltaAuto                // where that is likely to be faster
	DeltaAlways              // wherever the host can
)

// A file is copied whole if a delta is unlikely to be faster. A delta costs reading and hashing the
// file at both ends, a few round trips, and two thousandths of the file's size for the list.
const (
	// leastDelta is the smallest file worth the round trips.
	leastDelta = 4 << 20

	// leastCommon is the reciprocal of the share of the file that the old one must contain. If
	// fewer of the first chunks are found, the rest is not compared.
	leastCommon = 16

	// sampleChunks is how many chunks count as the first ones.
	sampleChunks = 1024

	// hashRate is roughly how many bytes each end can chunk and hash per second. Links must be
	// clearly slower for a delta to pay off.
	hashRate = 500 << 20

	// shortTrip is the round trip below which a link of unknown rate is assumed to be fast.
	shortTrip = 2 * time.Millisecond
)

const (
	// mostChunks bounds the memory for each of the two lists, at 32 bytes per chunk. Files with
	// more chunks are processed in windows.
	mostChunks  = 1 << 18
	deltaWindow = mostChunks / 2 * wire.MaxChunk

	// copiedAtOnce is how much the host copies per request, so that a copy can be interrupted.
	// copiesAhead is how many requests are in flight.
	copiedAtOnce = 16 << 20
	copiesAhead  = 16

	// fetchedAtOnce and fetchesAhead are the same for the reads of a download.
	fetchedAtOnce = 256 << 10
	fetchesAhead  = 64

	// Where the lists differ, the difference is listed again in shorter chunks, at up to
	// refinements places at a time. refinable is the shortest part of a file worth that.
	fineChunk   = wire.MinChunk
	refinable   = 4 * fineChunk
	refinements = 64
)

// errNoDelta reports that the copy must be made without a delta.
var errNoDelta = errors.New("the file assembled from the old one and the changes differs from the source")

// errNotWorth ends the search for common parts.
var errNotWorth = errors.New("the old and the new file have too little in common")

// A delta is one attempt to assemble a file from an older one and the differences.
type delta struct {
	copy      *fileCopy
	main      *usftp.Client
	side      session // the host's session, except for the client, which lists chunks and hashes
	algorithm checksum.Algorithm
	shortest  int
	files     []*usftp.File // to be closed

	base   atomic.Int64 // start of the window
	common int64        // bytes taken from the old file
	moved  coverage     // what is done of the window; of a file on the host, what the host copies
}

// newDelta returns nil if a delta is impossible or not worth it.
func newDelta(c *fileCopy, s *session, size, old int64) *delta {
	if c.flags.whole || !s.worthDelta(c, size, old) {
		return nil
	}
	d := &delta{copy: c, main: s.client, side: *s,
		shortest: shortestChunk(max(size, old))}
	if !s.client.HasChunks() || !s.client.HasCheckFile() {
		if d.side.client = s.helper(c); d.side.client == nil {
			return nil
		}
	}
	if _, copies := d.side.client.HasExtension(wire.ExtCopyData); !copies {
		return nil
	}
	d.algorithm = d.side.checkAlgorithm(c.options.Hash)
	return d
}

// shortestChunk chooses the chunk length so that there are about as many chunks as KiB in each: the
// list and the data sent around each change then grow alike.
func shortestChunk(size int64) int {
	shortest := 1 << ((bits.Len64(uint64(size)) + 1) / 2)
	return min(max(shortest, wire.MinChunk), wire.MaxChunk)
}

// worthDelta reports whether to look for common parts of the old and the new file.
func (s *session) worthDelta(c *fileCopy, size, old int64) bool {
	switch {
	case c.options.Delta == DeltaNever || size <= 0 || old <= 0 || private.OfClient(s.client).ReadsOnce():
		return false
	case c.options.Delta == DeltaAlways:
		return true
	case size < leastDelta || old < size/leastCommon:
		return false
	}
	rate := s.conn.Rate()
	if limit := c.options.RateLimit; limit > 0 && (rate == 0 || float64(limit) < rate) {
		rate = float64(limit)
	}
	if rate == 0 {
		s.measure(c.ctx, size)
		return s.trip >= shortTrip
	}
	// both ends hash at the same time, and once more for verification
	whole := float64(size) / rate
	return whole > 2*(2*float64(size)/hashRate+4*s.trip.Seconds())
}

// helper returns another client of the host that can list chunks, nil if there is none.
func (s *session) helper(c *fileCopy) *usftp.Client {
	if s.host.Helper == nil {
		return nil
	}
	client := s.host.Helper(c.ctx)
	if client == nil || !client.HasChunks() || !client.HasCheckFile() {
		return nil
	}
	return client.WithContext(c.ctx)
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

// open opens a file on the host, and makes sure that it is the file that the host's own server
// described: a helper may see another file tree.
func (d *delta) open(name string, flag int, like os.FileInfo) (*usftp.File, error) {
	client := d.side.client
	f, err := client.OpenFile(name, flag, 0)
	if err != nil {
		return nil, err
	}
	d.files = append(d.files, f)
	if like == nil {
		return f, nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	ours, known := like.Sys().(*usftp.FileStat)
	theirs := info.Sys().(*usftp.FileStat)
	if !known || ours.Size != theirs.Size || ours.Mtime != theirs.Mtime || ours.Mode != theirs.Mode ||
		ours.UID != theirs.UID || ours.GID != theirs.GID {
		return nil, errReplaced
	}
	return f, nil
}

// close closes all files. The error is that of any file that could not be stored.
func (d *delta) close() (err error) {
	for _, f := range d.files {
		_, closeErr := f.Async().Close().WaitContext(d.copy.ctx)
		err = errors.Join(err, closeErr)
	}
	d.files = nil
	return err
}

// windowEnd returns the end of the window that starts at from.
func windowEnd(from, size int64) int64 { return min(from+deltaWindow, size) }

// A chunk is part of a file, identified by its hash.
type chunk struct {
	off    int64
	length int32
	sum    [wire.ChunkSumSize]byte
}

// A lister yields the chunks in a part of a file, in order.
type lister func(ctx context.Context, shortest int, from, to int64) iter.Seq2[chunk, error]

// remote lists the chunks of a file on the host.
func (d *delta) remote(f *usftp.File) lister {
	return func(ctx context.Context, shortest int, from, to int64) iter.Seq2[chunk, error] {
		return func(yield func(chunk, error) bool) {
			if from >= to {
				return
			}
			for c, err := range f.WithContext(ctx).Chunks(usftp.ListChunks{
				Algorithm: hostName(d.algorithm), Shortest: shortest, Offset: from, Length: to - from}) {
				if !yield(chunk{c.Offset, int32(c.Length), c.Sum}, err) {
					return
				}
			}
		}
	}
}

// local lists the chunks of a file on this machine.
func (d *delta) local(file io.ReaderAt) lister {
	return func(ctx context.Context, shortest int, from, to int64) iter.Seq2[chunk, error] {
		return func(yield func(chunk, error) bool) {
			at := from
			cutter, err := cdc.NewCutter(interruptibleReader{ctx,
				io.NewSectionReader(file, from, math.MaxInt64-from)}, shortest,
				d.algorithm.New(), make([]byte, 16*shortest))
			for err == nil && at < to {
				var c wire.Chunk
				if c, err = cutter.Next(); err == nil {
					if !yield(chunk{at, int32(c.Length), c.Sum}, nil) {
						return
					}
					at += int64(c.Length)
				}
			}
			if err != nil && err != io.EOF {
				yield(chunk{}, err)
			}
		}
	}
}

// list collects chunks. It sends the first ones to sample, and closes it.
func (d *delta) list(ctx context.Context, what lister, from, to int64,
	sample chan<- []chunk) (all []chunk, err error) {
	defer close(sample)
	all = make([]chunk, 0, min(mostChunks, (to-from)/int64(d.shortest)+16))
	for c, err := range what(ctx, d.shortest, from, to) {
		if err != nil {
			return nil, err
		}
		if len(all) == mostChunks {
			return nil, errNotWorth
		}
		if all = append(all, c); len(all) == sampleChunks {
			sample <- slices.Clone(all)
		}
	}
	return all, nil
}

// An extent is a part of the new file, with its offset in the old one if that has it.
type extent struct {
	off, length int64
	old         int64 // -1 if it must be sent
}

func (e *extent) end() int64 { return e.off + e.length }

// plan finds out which parts of the new file between from and to occur in the old one near there.
// The error is errNotWorth if they are too few.
func (d *delta) plan(from, to int64, fresh, old lister, oldSize int64) ([]extent, error) {
	ctx, cancel := context.WithCancelCause(d.copy.ctx)
	defer cancel(nil)
	var lists [2][]chunk
	var errs [2]error
	var work sync.WaitGroup
	var samples [2]chan []chunk
	oldTo := min(from+deltaWindow, oldSize)
	for i, what := range []lister{fresh, old} {
		end := []int64{to, oldTo}[i]
		samples[i] = make(chan []chunk, 1)
		work.Go(func() {
			if lists[i], errs[i] = d.list(ctx, what, from, end, samples[i]); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	if d.copy.options.Delta != DeltaAlways && !alike(<-samples[0], <-samples[1]) {
		cancel(errNotWorth)
	}
	work.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	extents, common := match(lists[0], lists[1], from, to)
	if d.copy.options.Delta != DeltaAlways && common < (to-from)/leastCommon {
		return nil, errNotWorth
	}
	lists[0], lists[1] = nil, nil
	if d.shortest > fineChunk && common > 0 {
		extents = d.refine(ctx, extents, fresh, old, from, oldTo)
	}
	for i := range extents {
		if extents[i].old >= 0 {
			d.common += extents[i].length
		}
	}
	return extents, context.Cause(ctx)
}

// refine looks again, in shorter chunks, at what the old file does not have, comparing it with what
// lies at the same place there, between its neighbours. If a place cannot be listed, its extent
// stays as it is.
func (d *delta) refine(ctx context.Context, plan []extent, fresh, old lister,
	oldFrom, oldTo int64) []extent {
	finer := make(map[int][]extent)
	var mu sync.Mutex
	var work errgroup.Group
	work.SetLimit(refinements)
	for i, e := range plan {
		from, to := oldFrom, oldTo
		if i > 0 {
			from = plan[i-1].old + plan[i-1].length
		}
		if i < len(plan)-1 {
			to = plan[i+1].old
		}
		if e.old >= 0 || e.length < refinable || to-from < refinable || (to-from)/4 > e.length {
			continue
		}
		work.Go(func() error {
			var lists [2][]chunk
			var listing sync.WaitGroup
			for j, what := range []lister{fresh, old} {
				within := [2]extent{e, {off: from, length: to - from}}[j]
				listing.Go(func() {
					for c, err := range what(ctx, fineChunk, within.off, within.end()) {
						if err != nil || len(lists[j]) == mostChunks/refinements {
							return // what has been listed is still of use
						}
						lists[j] = append(lists[j], c)
					}
				})
			}
			listing.Wait()
			parts, _ := match(lists[0], lists[1], e.off, e.end())
			mu.Lock()
			defer mu.Unlock()
			finer[i] = parts
			return nil
		})
	}
	work.Wait()
	if len(finer) == 0 {
		return plan
	}
	var all []extent
	for i, e := range plan {
		if parts, looked := finer[i]; looked {
			all = append(all, parts...)
		} else {
			all = append(all, e)
		}
	}
	return all
}

// alike reports whether enough of the new file's first chunks are among the old file's; true if
// either file has only few.
func alike(fresh, old []chunk) bool {
	if fresh == nil || old == nil {
		return true
	}
	sums := make(map[[wire.ChunkSumSize]byte]struct{}, len(old))
	for i := range old {
		sums[old[i].sum] = struct{}{}
	}
	found := 0
	for i := range fresh {
		if _, there := sums[fresh[i].sum]; there {
			found++
		}
	}
	return found >= len(fresh)/leastCommon
}

// match builds the plan from the chunks that both files have.
func match(fresh, old []chunk, from, to int64) (plan []extent, common int64) {
	bySum := make([]int32, len(old))
	for i := range bySum {
		bySum[i] = int32(i)
	}
	slices.SortFunc(bySum, func(a, b int32) int {
		return compareSums(&old[a].sum, &old[b].sum)
	})
	find := func(c *chunk) int {
		i, found := slices.BinarySearchFunc(bySum, &c.sum,
			func(i int32, sum *[wire.ChunkSumSize]byte) int { return compareSums(&old[i].sum, sum) })
		if !found || old[bySum[i]].length != c.length {
			return -1
		}
		return int(bySum[i])
	}
	add := func(e extent) {
		if e.length = min(e.length, to-e.off); e.length <= 0 {
			return
		}
		if e.old >= 0 {
			common += e.length
		}
		if n := len(plan); n > 0 {
			last := &plan[n-1]
			if e.old < 0 && last.old < 0 || last.old >= 0 && e.old == last.old+last.length {
				last.length += e.length
				return
			}
		}
		plan = append(plan, e)
	}
	at, next := from, -1 // the chunk after the last match in the old file
	for i := range fresh {
		c := &fresh[i]
		if next < 0 || next >= len(old) || old[next].sum != c.sum || old[next].length != c.length {
			next = find(c)
		}
		e := extent{off: at, length: int64(c.length), old: -1}
		if next >= 0 {
			e.old = old[next].off
			next++
		}
		add(e)
		at += int64(c.length)
	}
	add(extent{off: at, length: to - at, old: -1}) // it has grown since it was listed
	return plan, common
}

func compareSums(a, b *[wire.ChunkSumSize]byte) int {
	return slices.Compare(a[:], b[:])
}

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

// pieces yields the extents that the old file has, or those it lacks, in pieces of at most most
// bytes.
func pieces(plan []extent, inOld bool, most int64) iter.Seq[extent] {
	return func(yield func(extent) bool) {
		for _, e := range plan {
			if (e.old >= 0) != inOld {
				continue
			}
			for e.length > 0 {
				piece := e
				piece.length = min(e.length, most)
				if !yield(piece) {
					return
				}
				e.off, e.length = e.off+piece.length, e.length-piece.length
				if inOld {
					e.old += piece.length
				}
			}
		}
	}
}

// failed returns the error to fail with after a delta: errNoDelta, which has the file copied whole,
// unless the copy was interrupted.
func (d *delta) failed(err error) error {
	c := d.copy
	if err == nil || c.interrupted() || errors.Is(err, errNoDelta) {
		return err
	}
	return fmt.Errorf("%w: %w", errNoDelta, err)
}

// begin records that the file is being assembled, and starts hashing it. local rereads the file on
// this machine.
func (d *delta) begin(local reopen) {
	d.copy.delta, d.copy.tries.delta = d, true
	d.copy.hashing.start(d.copy, local)
}

// verify compares the hash of the host's file with that of the source.
func (d *delta) verify(name string) error {
	c := d.copy
	same, told := d.side.holds(c.hashing.digests, d.path(name), nil)
	if !told || !same {
		return d.failed(ErrVerify)
	}
	c.hashing.verified = VerifiedByHash
	return nil
}

// sendDelta sends to a host what the file being replaced does not have, and lets the host copy the
// rest. done is false if nothing was sent, because a delta is impossible or not worth it.
func (o *remoteOutput) sendDelta(c *fileCopy, in input) (n int64, done bool, err error) {
	source, ok := in.contents().(*os.File)
	size, resumed := in.facts().size, c.result.Resumed
	if !ok || !in.facts().regular() || o.info == nil || o.temp == "" {
		return 0, false, nil
	}
	d := newDelta(c, o.session, size, o.info.Size())
	if d == nil {
		return 0, false, nil
	}
	defer d.close()
	old, to, err := d.openTarget(o)
	if err != nil {
		return 0, false, o.session.lostWith(err)
	}
	for at := resumed; at < size; {
		end := windowEnd(at, size)
		plan, err := d.plan(at, end, d.local(source), d.remote(old), o.info.Size())
		if at == resumed {
			if err != nil {
				return 0, false, o.session.lostWith(err)
			}
			d.begin(in.reopen(c))
			c.hashing.pipe.grown(size)
			defer c.watch(d.position(o.file))()
		}
		if errors.Is(err, errNotWorth) {
			plan, err = []extent{{at, end - at, -1}}, nil
		}
		if err == nil {
			at, err = d.send(o, in, old, to, plan, at, end)
		}
		if err != nil {
			return at - resumed, true, d.failed(err)
		}
	}
	if err := d.close(); err != nil {
		return size - resumed, true, d.failed(err)
	}
	info, err := o.file.Stat()
	if err == nil && info.Size() != size {
		err = errNoDelta
	}
	c.result.Reused = d.common
	return size - resumed, true, d.failed(err)
}

// openTarget opens the file being replaced, and the temporary file once more.
func (d *delta) openTarget(o *remoteOutput) (old, to *usftp.File, err error) {
	written, err := o.file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if old, err = d.open(d.path(o.name), os.O_RDONLY, o.info); err != nil {
		return nil, nil, err
	}
	to, err = d.open(d.path(o.temp), os.O_WRONLY, written)
	return old, to, err
}

// lostWith returns err if the connection is lost, otherwise nil: then err only means that there is
// no delta.
func (s *session) lostWith(err error) error {
	if s.lost() || s.conn == nil {
		return err
	}
	return nil
}

// position returns how far a file on a host is complete.
func (d *delta) position(f *usftp.File) func() int64 {
	return func() int64 {
		sent := f.Progress()
		if sent == deltaWindow { // left over from the previous window
			sent = 0
		}
		return min(d.base.Load()+sent, d.moved.mark.Load())
	}
}

// send sends one window. It returns how far the file is complete.
func (d *delta) send(o *remoteOutput, in input, old, to *usftp.File, plan []extent,
	from, end int64) (int64, error) {
	c := d.copy
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	d.moved.begin(from)
	d.base.Store(from)
	for _, e := range plan {
		if e.old < 0 {
			d.moved.add(e.off, e.length) // the file's own progress counts these
		}
	}
	copied := make(chan error, 1)
	go func() {
		err := d.copyData(ctx, old.WithContext(ctx), to, plan)
		if err != nil {
			cancel(err)
		}
		copied <- err
	}()
	source := &changes{copy: c, file: in.contents(), holes: findHoles(c, in), plan: plan, end: end}
	n, err := private.NewStripes(o.file.WithContext(ctx)).ReadFromAt(source)
	if err != nil {
		cancel(err)
	}
	if copyErr := <-copied; copyErr != nil {
		err = context.Cause(ctx) // whichever came first
	}
	return min(from+n, d.moved.mark.Load()), err
}

// copyData lets the host copy what the old file has.
func (d *delta) copyData(ctx context.Context, old, to *usftp.File, plan []extent) error {
	var failed error
	for r := range usftp.Batch(pieces(plan, true, copiedAtOnce), copiesAhead,
		func(e extent) *usftp.Pending[struct{}] {
			return old.Async().CopyData(e.old, e.length, to, e.off)
		}) {
		if r.Err != nil {
			failed = r.Err
			break
		}
		d.moved.add(r.Item.off, r.Item.length)
	}
	return failed
}

// changes is the source as sent to the host: without what its old file has, and without holes.
type changes struct {
	copy  *fileCopy
	file  io.ReaderAt
	holes *sparseSource // nil if there are none
	plan  []extent
	end   int64
}

// Extent implements private.SparseReaderAt.
func (s *changes) Extent(off int64) (to int64, hole bool) {
	i, _ := slices.BinarySearchFunc(s.plan, off, func(e extent, off int64) int {
		if e.end() <= off {
			return -1
		}
		return 1
	})
	if i == len(s.plan) {
		return math.MaxInt64, false
	}
	e := &s.plan[i]
	if e.old >= 0 {
		return e.end(), true
	}
	if s.holes == nil {
		return e.end(), false
	}
	to, hole = s.holes.Extent(off)
	return min(to, e.end()), hole
}

func (s *changes) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= s.end {
		return 0, io.EOF
	}
	n, err = s.file.ReadAt(p[:min(int64(len(p)), s.end-off)], off)
	if n < len(p) && err == nil {
		err = io.EOF
	}
	if waitErr := s.copy.limiter.wait(n); waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

// pourDelta fetches from a host what the file being replaced does not have, and copies the rest
// from that file. done is false if nothing was fetched.
func (in *remoteInput) pourDelta(c *fileCopy, to sink) (n int64, done bool, err error) {
	if to.file == nil || to.old == nil || !in.known.regular() {
		return 0, false, nil
	}
	old, err := to.old()
	if err != nil {
		return 0, false, nil
	}
	defer old.Close()
	info, err := old.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false, nil
	}
	size, resumed := in.known.size, c.result.Resumed
	d := newDelta(c, in.session, size, info.Size())
	if d == nil {
		return 0, false, nil
	}
	defer d.close()
	listed := in.file
	if d.side.client != d.main {
		if listed, err = d.open(d.path(in.path), os.O_RDONLY, in.file.Info()); err != nil {
			return 0, false, in.session.lostWith(err)
		}
	}
	for at := resumed; at < size; {
		end := windowEnd(at, size)
		plan, err := d.plan(at, end, d.remote(listed), d.local(old), info.Size())
		if at == resumed {
			if err != nil {
				return 0, false, in.session.lostWith(err)
			}
			d.begin(to.reread)
			defer c.watch(d.moved.mark.Load)()
			if err := to.file.Truncate(size); err != nil {
				return 0, true, err
			}
		}
		if errors.Is(err, errNotWorth) {
			plan, err = []extent{{at, end - at, -1}}, nil
		}
		if err == nil {
			err = d.fetch(in.file, to.file, old, plan, at)
			at = d.moved.mark.Load()
		}
		if err != nil {
			return at - resumed, true, d.failed(err)
		}
	}
	c.result.Reused = d.common
	return size - resumed, true, nil
}

// fetch fetches one window.
func (d *delta) fetch(f *usftp.File, to, old *os.File, plan []extent, from int64) error {
	c := d.copy
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	d.moved.begin(from)
	var copying sync.WaitGroup
	copying.Go(func() {
		for e := range pieces(plan, true, copiedAtOnce) {
			n, err := localfs.Copy(ctx, to, old, localfs.Options{From: e.old, To: e.off,
				Length: e.length, Zeros: c.options.Sparse})
			if err == nil && n < e.length {
				err = errNoDelta // it has shrunk
			}
			if err != nil {
				cancel(err)
				return
			}
			d.done(e)
		}
	})
	defer copying.Wait()
	type fetched struct {
		extent
		data []byte
	}
	var idle [][]byte
	items := func(yield func(fetched) bool) {
		for e := range pieces(plan, false, fetchedAtOnce) {
			if len(idle) == 0 {
				idle = append(idle, make([]byte, fetchedAtOnce))
			}
			last := len(idle) - 1
			data := idle[last]
			if idle = idle[:last]; !yield(fetched{e, data[:e.length]}) {
				return
			}
		}
	}
	f = f.WithContext(ctx)
	for r := range usftp.Batch(items, fetchesAhead, func(e fetched) *usftp.Pending[int] {
		return f.Async().ReadAt(e.data, e.off)
	}) {
		err := r.Err
		if err == nil {
			err = c.limiter.wait(len(r.Item.data))
		}
		if err == nil {
			err = d.store(to, r.Item.data, r.Item.off)
		}
		if err != nil {
			cancel(err)
			break
		}
		d.done(r.Item.extent)
		idle = append(idle, r.Item.data[:fetchedAtOnce])
	}
	copying.Wait()
	return context.Cause(ctx)
}

// store writes what was fetched.
func (d *delta) store(to *os.File, data []byte, off int64) (err error) {
	if d.copy.options.Sparse {
		_, err = localfs.WriteSparse(to, data, off)
	} else {
		_, err = to.WriteAt(data, off)
	}
	return err
}

// done records a finished part of a file on this machine.
func (d *delta) done(e extent) {
	d.moved.add(e.off, e.length)
	d.copy.hashing.pipe.grown(d.moved.mark.Load())
}
