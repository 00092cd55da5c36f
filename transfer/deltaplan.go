package transfer

import (
	"cmp"
	"context"
	"io"
	"iter"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/cdc"
	"github.com/usftp/usftp/wire"
)

const (
	// mostChunks bounds the memory for each of the two lists, at 32 bytes per chunk. Files with
	// more chunks are processed in windows.
	mostChunks  = 1 << 18
	deltaWindow = mostChunks / 2 * wire.MaxChunk

	// While the files are still being listed, the new one is planned piece by piece: at first
	// plannedFirst of the shortest chunks, later up to plannedAtOnce. A piece is looked up in what
	// has been listed of the old file, which must reach another piece beyond the same place. What
	// is not found may lie anywhere in the old file: if one gap exceeds 1/leastCommon of a full
	// piece, or all together 1/leastScattered, both lists are awaited.
	plannedAtOnce  = 1024
	plannedFirst   = 128
	leastScattered = 4

	// Where the lists differ, the difference is listed again in shorter chunks, at up to
	// refinements places at a time. refinable is the shortest part of a file worth that.
	fineChunk   = wire.MinChunk
	refinable   = 4 * fineChunk
	refinements = 64
)

// A chunk is part of a file, identified by its hash.
type chunk struct {
	off    int64
	length int32
	sum    [wire.ChunkSumSize]byte
}

func (c *chunk) end() int64 { return c.off + int64(c.length) }

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
				Algorithm: hostName(d.algorithm), Shortest: shortest, Offset: from,
				Length: to - from}) {
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

// hashed is local for the source of an upload. Bytes whose chunks are listed are also hashed as a
// part of the file, so that it is read once.
func (d *delta) hashed(file io.ReaderAt, size int64) lister {
	again := d.local(file)
	once := d.local(d.copy.hashing.pipe.readerAt(io.NewSectionReader(file, 0, size)))
	return func(ctx context.Context, shortest int, from, to int64) iter.Seq2[chunk, error] {
		if shortest != d.shortest { // a place is refined
			return again(ctx, shortest, from, to)
		}
		return once(ctx, shortest, from, to)
	}
}

// An extent is a part of the new file, with its offset in the old one if that has it.
type extent struct {
	off, length int64
	old         int64 // -1 if it must be sent
}

func (e *extent) end() int64 { return e.off + e.length }

// A growingList is read by some goroutines while another one adds to it.
type growingList[T any] struct {
	mu      sync.Mutex
	changed sync.Cond
	items   []T
	ended   bool
	err     error
}

func newGrowingList[T any](items []T) *growingList[T] {
	l := &growingList[T]{items: items}
	l.changed.L = &l.mu
	return l
}

func (l *growingList[T]) add(more ...T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, more...)
	l.changed.Broadcast()
}

func (l *growingList[T]) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.err = true, err
	l.changed.Broadcast()
}

// wait waits until there are enough items, or no more will be added. The error is then why.
func (l *growingList[T]) wait(enough func(items []T) bool) ([]T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.ended && !enough(l.items) {
		l.changed.Wait()
	}
	return l.items, l.err
}

// A listing is a file's chunks, while they are being listed.
type listing struct{ *growingList[chunk] }

// fill lists the chunks.
func (l listing) fill(chunks iter.Seq2[chunk, error]) {
	n := 0
	for c, err := range chunks {
		if n++; err == nil && n > mostChunks {
			err = errNotWorth
		}
		if err != nil {
			l.end(err)
			return
		}
		l.add(c)
	}
	l.end(nil)
}

// upTo waits until the chunks reach an offset.
func (l listing) upTo(off int64) ([]chunk, error) {
	return l.wait(func(chunks []chunk) bool {
		n := len(chunks)
		return n > 0 && chunks[n-1].end() >= off
	})
}

// first waits for the first chunks, and returns up to count of them.
func (l listing) first(count int) ([]chunk, error) {
	chunks, err := l.wait(func(chunks []chunk) bool { return len(chunks) >= count })
	return chunks[:min(len(chunks), count)], err
}

// all waits for the end.
func (l listing) all() ([]chunk, error) {
	return l.wait(func([]chunk) bool { return false })
}

// A plan is the extents of the new file, in order and without gaps. Copying begins while it is
// still being made.
type plan struct {
	*growingList[extent]
	ctx    context.Context // ends when planning or moving fails
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
}

func (d *delta) newPlan(extents ...extent) *plan {
	ctx, cancel := context.WithCancelCause(d.copy.ctx)
	return &plan{growingList: newGrowingList(extents), ctx: ctx, cancel: cancel}
}

// wholePlan is the plan to send everything.
func (d *delta) wholePlan(from, to int64) *plan {
	p := d.newPlan(extent{from, to - from, -1})
	p.end(nil)
	return p
}

// stop ends the planning, and waits for that.
func (p *plan) stop() {
	p.cancel(nil)
	p.work.Wait()
}

// known waits until the plan has more than n extents, and returns those beyond. It returns none at
// the plan's end, with its error.
func (p *plan) known(n int) ([]extent, error) {
	extents, err := p.wait(func(extents []extent) bool { return len(extents) > n })
	if len(extents) > n {
		err = nil
	}
	return extents[n:], err
}

// at waits for the extent that an offset is in. found is false beyond the plan's end.
func (p *plan) at(off int64) (e extent, found bool, err error) {
	extents, err := p.wait(func(extents []extent) bool {
		n := len(extents)
		return n > 0 && extents[n-1].end() > off
	})
	i := sort.Search(len(extents), func(i int) bool { return extents[i].end() > off })
	if i == len(extents) {
		return e, false, err
	}
	return extents[i], true, nil
}

// each calls f with the extents in order, as they become known, until f returns false. The error is
// the plan's.
func (p *plan) each(f func(extent) bool) error {
	for n := 0; ; {
		more, err := p.known(n)
		if len(more) == 0 {
			return err
		}
		for _, e := range more {
			if !f(e) {
				return nil
			}
		}
		n += len(more)
	}
}

// pieces yields the parts of an extent, each of up to most bytes.
func (e extent) pieces(most int64) iter.Seq[extent] {
	return func(yield func(extent) bool) {
		for e.length > 0 {
			piece := e
			piece.length = min(e.length, most)
			if !yield(piece) {
				return
			}
			e.off, e.length = e.off+piece.length, e.length-piece.length
			if e.old >= 0 {
				e.old += piece.length
			}
		}
	}
}

// plan begins to find out which parts of the new file between from and to occur in the old one near
// there, and returns when the first of it is known. The error is errNotWorth if they are too few.
// The caller must stop the plan.
func (d *delta) plan(from, to int64, fresh, old lister, oldSize int64) (*plan, error) {
	p := d.newPlan()
	m := &matcher{d: d, plan: p, lister: [2]lister{fresh, old}, from: from, to: to,
		oldAt: from, oldTo: max(from, min(from+deltaWindow, oldSize)),
		ready:    make(chan (<-chan []extent), refinements),
		refining: make(chan struct{}, refinements)}
	for i, end := range []int64{to, m.oldTo} {
		most := min(mostChunks, max(0, end-from)/int64(d.shortest)+16)
		l := listing{newGrowingList(make([]chunk, 0, most))}
		m.lists[i] = l
		p.work.Go(func() { l.fill(m.lister[i](p.ctx, d.shortest, from, end)) })
	}
	var matched error
	p.work.Go(func() {
		defer close(m.ready)
		if matched = m.match(); matched != nil {
			p.cancel(matched)
		}
	})
	p.work.Go(func() {
		for extents := range m.ready {
			p.add(<-extents...)
		}
		if p.ctx.Err() != nil {
			matched = context.Cause(p.ctx) // whichever came first
		}
		p.end(matched)
	})
	if _, err := p.known(0); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// A matcher makes a plan from the lists of the new and the old file, while they grow.
type matcher struct {
	d        *delta
	plan     *plan
	lister   [2]lister
	lists    [2]listing // of the new and the old file
	from, to int64      // what is planned of the new file
	oldTo    int64      // how far the old one is listed, from the same place on
	index    index      // of what has been listed of the old file
	oldAt    int64      // where the last extent that it has ends in it

	// ready passes on the extents in order, although places are refined side by side.
	ready    chan (<-chan []extent)
	refining chan struct{} // has a token for each place that is being refined
}

// match plans part after part.
func (m *matcher) match() error {
	fresh, old := m.lists[0], m.lists[1]
	always := m.d.copy.options.Delta == DeltaAlways
	if !always {
		if err := m.sample(); err != nil {
			return err
		}
	}
	step, most := int64(plannedFirst*m.d.shortest), int64(plannedAtOnce*m.d.shortest)
	shift := int64(0) // of the last common part, from the new to the old file
	taken := 0        // chunks of the new file
	for at := m.from; at < m.to; {
		end := min(at+step, m.to)
		chunks, err := fresh.upTo(end)
		if err != nil {
			return err
		}
		if n := len(chunks); n == 0 || chunks[n-1].end() < end {
			end = m.to // it has shrunk, and no more will be listed
		}
		others, err := old.upTo(min(end+shift+step, m.oldTo))
		if err != nil {
			return err
		}
		m.index.extend(others)
		part := chunks[taken:]
		if end < m.to {
			n, _ := slices.BinarySearchFunc(part, end, func(c chunk, end int64) int {
				return cmp.Compare(c.off, end)
			})
			if part = part[:n]; n > 0 {
				end = min(part[n-1].end(), m.to)
			}
		}
		extents, common := m.index.match(part, at, end)
		whole := most
		if end == m.to {
			whole = min(whole, end-at)
		}
		if longestGap(extents) > whole/leastCommon || end-at-common > whole/leastScattered {
			if chunks, err = fresh.all(); err != nil {
				return err
			}
			if others, err = old.all(); err != nil {
				return err
			}
			m.index.extend(others)
			part, end = chunks[taken:], m.to
			extents, common = m.index.match(part, at, end)
			if !always && at == m.from && common < (end-at)/leastCommon {
				return errNotWorth
			}
		}
		if last := extents[len(extents)-1]; end < m.to && last.old < 0 {
			// what follows shows where in the old file this would be
			end, extents = last.off, extents[:len(extents)-1]
		}
		for taken < len(chunks) && chunks[taken].off < end {
			taken++
		}
		m.pass(extents, common)
		if i := len(extents) - 1; i >= 0 && extents[i].old >= 0 {
			m.oldAt = extents[i].old + extents[i].length
			shift = m.oldAt - end
		}
		at = end
		step = min(2*step, most)
	}
	return nil
}

// sample returns errNotWorth unless the files begin alike. A few chunks may show that they do, but
// not that they do not.
func (m *matcher) sample() error {
	for count := plannedFirst; ; count = sampleChunks {
		var first [2][]chunk
		for i, l := range m.lists {
			var err error
			if first[i], err = l.first(count); err != nil {
				return err
			}
		}
		switch {
		case alike(first[0], first[1], count):
			return nil
		case count == sampleChunks:
			return errNotWorth
		}
	}
}

// longestGap returns the length of the longest extent that the old file lacks.
func longestGap(extents []extent) (n int64) {
	for _, e := range extents {
		if e.old < 0 {
			n = max(n, e.length)
		}
	}
	return n
}

// pass hands extents on, refined if that is worthwhile.
func (m *matcher) pass(extents []extent, common int64) {
	refined := make(chan []extent, 1)
	if m.d.shortest == fineChunk || common == 0 {
		refined <- extents
	} else {
		m.refine(extents, refined)
	}
	m.ready <- refined
}

// refine looks again, in shorter chunks, at what the old file does not have, comparing it with what
// lies at the same place there, between its neighbours. If a place cannot be listed, its extent
// stays as it is.
func (m *matcher) refine(extents []extent, refined chan<- []extent) {
	finer := make([][]extent, len(extents))
	var places sync.WaitGroup
	for i, e := range extents {
		finer[i] = extents[i : i+1]
		from, to := m.oldAt, m.oldTo
		if i > 0 {
			from = extents[i-1].old + extents[i-1].length
		}
		if i < len(extents)-1 {
			to = extents[i+1].old
		}
		if e.old >= 0 || e.length < refinable || to-from < refinable || (to-from)/4 > e.length {
			continue
		}
		m.refining <- struct{}{}
		places.Go(func() {
			defer func() { <-m.refining }()
			finer[i] = m.finer(e, from, to)
		})
	}
	m.plan.work.Go(func() {
		places.Wait()
		refined <- slices.Concat(finer...)
	})
}

// finer returns the extents of one place.
func (m *matcher) finer(e extent, from, to int64) []extent {
	var lists [2][]chunk
	var listing sync.WaitGroup
	for j, what := range m.lister {
		within := [2]extent{e, {off: from, length: to - from}}[j]
		listing.Go(func() {
			for c, err := range what(m.plan.ctx, fineChunk, within.off, within.end()) {
				if err != nil || len(lists[j]) == mostChunks/refinements {
					return // what has been listed is still of use
				}
				lists[j] = append(lists[j], c)
			}
		})
	}
	listing.Wait()
	var there index
	there.extend(lists[1])
	parts, _ := there.match(lists[0], e.off, e.end())
	return parts
}

// alike reports whether enough of the new file's first chunks are among the old file's; true if
// either file has fewer than count.
func alike(fresh, old []chunk, count int) bool {
	if len(fresh) < count || len(old) < count {
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

// An index finds the old file's chunks.
type index struct {
	chunks []chunk
	bySum  map[[wire.ChunkSumSize]byte]int32 // the first of those that are equal
}

// extend replaces the list by a longer one that begins with it.
func (x *index) extend(chunks []chunk) {
	if x.bySum == nil {
		x.bySum = make(map[[wire.ChunkSumSize]byte]int32, cap(chunks))
	}
	for i := len(x.chunks); i < len(chunks); i++ {
		if _, there := x.bySum[chunks[i].sum]; !there {
			x.bySum[chunks[i].sum] = int32(i)
		}
	}
	x.chunks = chunks
}

// find returns a chunk's number, -1 if there is no such chunk.
func (x *index) find(c *chunk) int {
	i, found := x.bySum[c.sum]
	if !found || x.chunks[i].length != c.length {
		return -1
	}
	return int(i)
}

// match returns the extents of what the new file has between from and to, whose chunks are given.
func (x *index) match(fresh []chunk, from, to int64) (extents []extent, common int64) {
	add := func(e extent) {
		if e.length = min(e.length, to-e.off); e.length <= 0 {
			return
		}
		if e.old >= 0 {
			common += e.length
		}
		if n := len(extents); n > 0 {
			last := &extents[n-1]
			if e.old < 0 && last.old < 0 || last.old >= 0 && e.old == last.old+last.length {
				last.length += e.length
				return
			}
		}
		extents = append(extents, e)
	}
	old, at, next := x.chunks, from, -1 // the chunk after the last match in the old file
	for i := range fresh {
		c := &fresh[i]
		if next < 0 || next >= len(old) || old[next].sum != c.sum || old[next].length != c.length {
			next = x.find(c)
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
	return extents, common
}
