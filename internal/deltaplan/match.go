// Package deltaplan finds the common parts of two versions of a file, from lists of their chunks.
// It plans while the files are still being listed, and moves no data.
package deltaplan

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/usftp/usftp/wire"
)

const (
	// mostChunks bounds the memory for each of the two lists, at 32 bytes per chunk. Files with
	// more chunks are processed in windows.
	mostChunks = 1 << 18

	// Window is the most of the new file that one plan may cover. Larger files take several plans.
	Window = mostChunks / 2 * wire.MaxChunk

	// LeastCommon is the reciprocal of the share of the file that the old one must contain. If
	// fewer of the first sampleChunks are found, the rest is not compared.
	LeastCommon  = 16
	sampleChunks = 1024

	// While the files are still being listed, the new one is planned piece by piece: at first
	// plannedFirst of the shortest chunks, later up to plannedAtOnce. A piece is looked up in the
	// part of the old file listed so far, which must reach another piece beyond the same place. A
	// part that is not found may lie anywhere in the old file: if one gap exceeds 1/LeastCommon of
	// a full piece, or all together 1/leastScattered, both lists are awaited.
	plannedAtOnce  = 1024
	plannedFirst   = 128
	leastScattered = 4

	// Where the lists differ, the difference is listed again in shorter chunks, at up to
	// refinements places at a time. refinable is the shortest part of a file worth that.
	fineChunk   = wire.MinChunk
	refinable   = 4 * fineChunk
	refinements = 64
)

// ErrNotWorth ends the search for common parts.
var ErrNotWorth = errors.New("the old and the new file have too little in common")

// Versions are an old and a new version of a file.
type Versions struct {
	New, Old Lister
	OldSize  int64
	Shortest int  // chunk, in bytes: wire.MinChunk to wire.MaxChunk
	Always   bool // plan even if little is found
}

// Plan starts to find the parts of the new file between from and to, at most Window apart, that
// occur in the old one near there, and returns when the first of the plan is known. The error is
// ErrNotWorth if there are too few. The caller must stop the plan.
func (v *Versions) Plan(ctx context.Context, from, to int64) (*Plan, error) {
	p := newPlan(ctx)
	m := &matcher{Versions: v, plan: p, lister: [2]Lister{v.New, v.Old}, from: from, to: to,
		oldAt: from, oldTo: max(from, min(from+Window, v.OldSize)),
		ready:    make(chan (<-chan []Extent), refinements),
		refining: make(chan struct{}, refinements)}
	for i, end := range []int64{to, m.oldTo} {
		most := min(mostChunks, max(0, end-from)/int64(v.Shortest)+16)
		l := listing{newGrowingList(make([]Chunk, 0, most))}
		m.lists[i] = l
		p.work.Go(func() { l.fill(m.lister[i](p.ctx, v.Shortest, from, end)) })
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
			p.grown.add(<-extents...)
		}
		if p.ctx.Err() != nil {
			matched = context.Cause(p.ctx) // whichever came first
		}
		p.grown.end(matched)
	})
	if _, err := p.Known(0); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// A matcher makes a plan from the lists of the new and the old file, while they grow.
type matcher struct {
	*Versions
	plan     *Plan
	lister   [2]Lister
	lists    [2]listing // of the new and the old file
	from, to int64      // the part of the new file to plan
	oldTo    int64      // end of the listed part of the old one, from the same place on
	index    index      // of the part of the old file listed so far
	oldAt    int64      // end in the old file of the last extent found there

	// ready passes on the extents in order, although places are refined side by side.
	ready    chan (<-chan []Extent)
	refining chan struct{} // has a token for each place that is being refined
}

// match plans part after part.
func (m *matcher) match() error {
	fresh, old := m.lists[0], m.lists[1]
	if !m.Always {
		if err := m.sample(); err != nil {
			return err
		}
	}
	step, most := int64(plannedFirst*m.Shortest), int64(plannedAtOnce*m.Shortest)
	shift := int64(0) // of the last common part, from the new to the old file
	taken := 0        // chunks of the new file
	for at := m.from; at < m.to; {
		end := min(at+step, m.to)
		chunks, err := fresh.upTo(end)
		if err != nil {
			return err
		}
		if n := len(chunks); n == 0 || chunks[n-1].End() < end {
			end = m.to // the file has shrunk, and no more will be listed
		}
		others, err := old.upTo(min(end+shift+step, m.oldTo))
		if err != nil {
			return err
		}
		m.index.extend(others)
		part := chunks[taken:]
		if end < m.to {
			n, _ := slices.BinarySearchFunc(part, end, func(c Chunk, end int64) int {
				return cmp.Compare(c.Off, end)
			})
			if part = part[:n]; n > 0 {
				end = min(part[n-1].End(), m.to)
			}
		}
		extents, common := m.index.match(part, at, end)
		whole := most
		if end == m.to {
			whole = min(whole, end-at)
		}
		if longestGap(extents) > whole/LeastCommon || end-at-common > whole/leastScattered {
			if chunks, err = fresh.all(); err != nil {
				return err
			}
			if others, err = old.all(); err != nil {
				return err
			}
			m.index.extend(others)
			part, end = chunks[taken:], m.to
			extents, common = m.index.match(part, at, end)
			if !m.Always && at == m.from && common < (end-at)/LeastCommon {
				return ErrNotWorth
			}
		}
		if last := extents[len(extents)-1]; end < m.to && last.Old < 0 {
			// the next piece shows where in the old file this would be
			end, extents = last.Off, extents[:len(extents)-1]
		}
		for taken < len(chunks) && chunks[taken].Off < end {
			taken++
		}
		m.pass(extents, common)
		if i := len(extents) - 1; i >= 0 && extents[i].Old >= 0 {
			m.oldAt = extents[i].Old + extents[i].Length
			shift = m.oldAt - end
		}
		at = end
		step = min(2*step, most)
	}
	return nil
}

// sample returns ErrNotWorth unless the files begin alike. A few chunks may prove that they do, but
// not that they do not.
func (m *matcher) sample() error {
	for count := plannedFirst; ; count = sampleChunks {
		var first [2][]Chunk
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
			return ErrNotWorth
		}
	}
}

// longestGap returns the length of the longest extent that the old file lacks.
func longestGap(extents []Extent) (n int64) {
	for _, e := range extents {
		if e.Old < 0 {
			n = max(n, e.Length)
		}
	}
	return n
}

// pass hands extents on, refined if that is worthwhile.
func (m *matcher) pass(extents []Extent, common int64) {
	refined := make(chan []Extent, 1)
	if m.Shortest == fineChunk || common == 0 {
		refined <- extents
	} else {
		m.refine(extents, refined)
	}
	m.ready <- refined
}

// refine looks again, in shorter chunks, for the parts that the old file lacks, comparing each with
// the part of the old file between its neighbours. If a place cannot be listed, its extent stays as
// it is.
func (m *matcher) refine(extents []Extent, refined chan<- []Extent) {
	finer := make([][]Extent, len(extents))
	var places sync.WaitGroup
	for i, e := range extents {
		finer[i] = extents[i : i+1]
		from, to := m.oldAt, m.oldTo
		if i > 0 {
			from = extents[i-1].Old + extents[i-1].Length
		}
		if i < len(extents)-1 {
			to = extents[i+1].Old
		}
		if e.Old >= 0 || e.Length < refinable || to-from < refinable || (to-from)/4 > e.Length {
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
func (m *matcher) finer(e Extent, from, to int64) []Extent {
	var lists [2][]Chunk
	var listing sync.WaitGroup
	for j, what := range m.lister {
		within := [2]Extent{e, {Off: from, Length: to - from}}[j]
		listing.Go(func() {
			for c, err := range what(m.plan.ctx, fineChunk, within.Off, within.End()) {
				if err != nil || len(lists[j]) == mostChunks/refinements {
					return // the chunks listed so far are still of use
				}
				lists[j] = append(lists[j], c)
			}
		})
	}
	listing.Wait()
	var there index
	there.extend(lists[1])
	parts, _ := there.match(lists[0], e.Off, e.End())
	return parts
}

// alike reports whether enough of the new file's first chunks are among the old file's. It returns
// true if either file has fewer than count.
func alike(fresh, old []Chunk, count int) bool {
	if len(fresh) < count || len(old) < count {
		return true
	}
	sums := make(map[[wire.ChunkSumSize]byte]struct{}, len(old))
	for i := range old {
		sums[old[i].Sum] = struct{}{}
	}
	found := 0
	for i := range fresh {
		if _, there := sums[fresh[i].Sum]; there {
			found++
		}
	}
	return found >= len(fresh)/LeastCommon
}

// An index finds the old file's chunks.
type index struct {
	chunks []Chunk
	bySum  map[[wire.ChunkSumSize]byte]int32 // the first of equal ones
}

// extend replaces the list by a longer one that begins with it.
func (x *index) extend(chunks []Chunk) {
	if x.bySum == nil {
		x.bySum = make(map[[wire.ChunkSumSize]byte]int32, cap(chunks))
	}
	for i := len(x.chunks); i < len(chunks); i++ {
		if _, there := x.bySum[chunks[i].Sum]; !there {
			x.bySum[chunks[i].Sum] = int32(i)
		}
	}
	x.chunks = chunks
}

// find returns a chunk's number, or -1 if the chunk is unknown.
func (x *index) find(c *Chunk) int {
	i, found := x.bySum[c.Sum]
	if !found || x.chunks[i].Length != c.Length {
		return -1
	}
	return int(i)
}

// match returns the extents of the new file between from and to, from the chunks of that part.
func (x *index) match(fresh []Chunk, from, to int64) (extents []Extent, common int64) {
	add := func(e Extent) {
		if e.Length = min(e.Length, to-e.Off); e.Length <= 0 {
			return
		}
		if e.Old >= 0 {
			common += e.Length
		}
		if n := len(extents); n > 0 {
			last := &extents[n-1]
			if e.Old < 0 && last.Old < 0 || last.Old >= 0 && e.Old == last.Old+last.Length {
				last.Length += e.Length
				return
			}
		}
		extents = append(extents, e)
	}
	old, at, next := x.chunks, from, -1 // the chunk after the last match in the old file
	for i := range fresh {
		c := &fresh[i]
		if next < 0 || next >= len(old) || old[next].Sum != c.Sum || old[next].Length != c.Length {
			next = x.find(c)
		}
		e := Extent{Off: at, Length: int64(c.Length), Old: -1}
		if next >= 0 {
			e.Old = old[next].Off
			next++
		}
		add(e)
		at += int64(c.Length)
	}
	add(Extent{Off: at, Length: to - at, Old: -1}) // the file has grown since it was listed
	return extents, common
}
