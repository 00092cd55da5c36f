package usftp

import (
	"iter"
	"sync"
)

// Result is what has become of one item of a batch.
type Result[K, T any] struct {
	Item  K
	Value T
	Err   error
}

// defaultBatch is how many operations of a batch are in flight where nothing is said: enough for
// thousands of small requests in one round trip, and a few MiB of memory.
const defaultBatch = 4096

// Batch starts an operation for each item, at most limit of them in flight (0 means 4096), and
// yields the results as they complete, in whatever order that is. An error concerns its item alone.
// start usually calls one method of an [AsyncClient] or [AsyncFile]; items and start run on the
// goroutine of the loop. Where the loop breaks, no more is started, and what is in flight goes on
// unwatched; to end it too, cancel its context.
func Batch[K, T any](items iter.Seq[K], limit int,
	start func(K) *Pending[T]) iter.Seq[Result[K, T]] {
	if limit <= 0 {
		limit = defaultBatch
	}
	return func(yield func(Result[K, T]) bool) {
		b := &batch[K, T]{wake: make(chan struct{}, 1)}
		for item := range items {
			for b.out >= limit {
				if !b.wait(yield) {
					return
				}
			}
			b.out++
			p := start(item)
			p.whenEnded(func() { b.add(Result[K, T]{item, p.value, p.err}) })
		}
		for b.out > 0 {
			if !b.wait(yield) {
				return
			}
		}
	}
}

// batch collects what has completed for the goroutine of the loop to take.
type batch[K, T any] struct {
	out  int // started and not yielded; the loop's own
	mu   sync.Mutex
	done []Result[K, T]
	wake chan struct{} // holds one token when done may have become non-empty
}

func (b *batch[K, T]) add(r Result[K, T]) {
	b.mu.Lock()
	b.done = append(b.done, r)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// wait waits until something is complete and yields it. It returns false when the loop has ended.
func (b *batch[K, T]) wait(yield func(Result[K, T]) bool) bool {
	<-b.wake
	b.mu.Lock()
	done := b.done
	b.done = nil
	b.mu.Unlock()
	for _, r := range done {
		b.out--
		if !yield(r) {
			return false
		}
	}
	return true
}
