package deltaplan

import (
	"context"
	"iter"
	"sort"
	"sync"
)

// An Extent is a part of the new file, with its offset in the old one if that has it.
type Extent struct {
	Off, Length int64
	Old         int64 // -1 if it must be sent
}

func (e *Extent) End() int64 { return e.Off + e.Length }

// A Plan is the extents of the new file, in order and without gaps. Copying begins while it is
// still being made.
type Plan struct {
	grown  *growingList[Extent]
	ctx    context.Context // ends when planning or moving fails
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
}

func newPlan(ctx context.Context, extents ...Extent) *Plan {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Plan{grown: newGrowingList(extents), ctx: ctx, cancel: cancel}
}

// Whole returns the plan to send everything between from and to.
func Whole(ctx context.Context, from, to int64) *Plan {
	p := newPlan(ctx, Extent{from, to - from, -1})
	p.grown.end(nil)
	return p
}

// Context ends when the plan fails or is stopped.
func (p *Plan) Context() context.Context { return p.ctx }

// Fail ends the plan with an error, unless it has ended.
func (p *Plan) Fail(err error) { p.cancel(err) }

// Stop ends the planning, and waits until it has ended.
func (p *Plan) Stop() {
	p.cancel(nil)
	p.work.Wait()
}

// Known waits until the plan has more than n extents, and returns those beyond. It returns none at
// the plan's end, with its error.
func (p *Plan) Known(n int) ([]Extent, error) {
	extents, err := p.grown.wait(func(extents []Extent) bool { return len(extents) > n })
	if len(extents) > n {
		err = nil
	}
	return extents[n:], err
}

// At waits for the extent that an offset is in. found is false beyond the plan's end.
func (p *Plan) At(off int64) (e Extent, found bool, err error) {
	extents, err := p.grown.wait(func(extents []Extent) bool {
		n := len(extents)
		return n > 0 && extents[n-1].End() > off
	})
	i := sort.Search(len(extents), func(i int) bool { return extents[i].End() > off })
	if i == len(extents) {
		return e, false, err
	}
	return extents[i], true, nil
}

// Each calls f with the extents in order, as they become known, until f returns false. The error is
// the plan's.
func (p *Plan) Each(f func(Extent) bool) error {
	for n := 0; ; {
		more, err := p.Known(n)
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

// Pieces yields the parts of an extent, each of up to most bytes.
func (e Extent) Pieces(most int64) iter.Seq[Extent] {
	return func(yield func(Extent) bool) {
		for e.Length > 0 {
			piece := e
			piece.Length = min(e.Length, most)
			if !yield(piece) {
				return
			}
			e.Off, e.Length = e.Off+piece.Length, e.Length-piece.Length
			if e.Old >= 0 {
				e.Old += piece.Length
			}
		}
	}
}

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

// wait waits until there are enough items, or no more will be added; the error then says why.
func (l *growingList[T]) wait(enough func(items []T) bool) ([]T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.ended && !enough(l.items) {
		l.changed.Wait()
	}
	return l.items, l.err
}
