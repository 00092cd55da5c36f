// Package treewalk visits trees on the calling goroutine while others list directories ahead of the
// visit, in its order. It knows neither files nor requests: its users say how to list a directory.
package treewalk

import (
	"container/heap"
	"context"
	"errors"
	"io/fs"
	"iter"
	"sync"
)

const (
	// leastListings is the number of directories listed at once, initially. usualListings is the
	// limit on servers that do not say how many handles they allow, and mostListings, or half of the
	// handles, on others. OpenSSH allows about a thousand.
	leastListings = 16
	usualListings = 128
	mostListings  = 256

	// mostAhead is the number of entries listed ahead of the visit, in addition to those of the
	// directory it waits for: about 5 MB.
	mostAhead = 1 << 15

	// MostPart is the number of entries of a directory that are held if their order does not
	// matter, and mostSorted if it does.
	MostPart   = 20_000
	mostSorted = 20_000_000

	// someEntries is the number of entries counted at a time.
	someEntries = 100
)

var errTooMany = errors.New("the directory has too many entries")

// A Dir is a directory of a tree, to be embedded in a user's own type for a directory, to which D
// points. E is an entry of a directory, a pointer.
type Dir[E comparable, D any] struct {
	Err     error // why the listing failed or is incomplete; set with the last part
	Several bool  // it came in several parts

	at      int // its place in the heap, from 1; 0 if not there
	again   bool
	counted int // entries in Walk.ahead
	parts   []part[E]
	below   map[E]D

	started, ended, left bool
	blocked              bool  // counted in Walk.blocked
	why                  error // the listing ended; Err once the visit has all parts
	partial              bool  // before that, some entries were listed
	others               int   // listings begun up to and including it
	crowded, retried     bool  // others were listed at the same time; it was listed once more
}

// Node returns the Dir.
func (d *Dir[E, D]) Node() *Dir[E, D] { return d }

// A part is some of a directory's entries, and a check whether they may be visited.
type part[E any] struct {
	entries []E
	moved   func() error
}

// A Walk visits trees: each directory in turn and everything below it. It starts to list a
// directory as soon as its name has arrived.
type Walk[E comparable, T any, D interface {
	*T
	Node() *Dir[E, D]
}] struct {
	// List lists a directory, and Below makes the directory for an entry, or nil if it is none.
	// Both are called on other goroutines, as are Before, which reports whether a is visited before
	// b, and Descend, which reports whether a directory should be listed unless the visit skips it;
	// nil means always.
	List    func(ctx context.Context, d D) iter.Seq2[E, error]
	Below   func(in D, e E) D
	Before  func(a, b D) bool
	Descend func(d D) bool

	// Complete gets the entries of a part ready, and sorts them. If it returns a function, that
	// checks before the visit whether the directory is still in its place. With Whole all entries
	// of a directory are one part, otherwise at most MostPart.
	Complete func(d D, entries []E) (moved func() error)
	Whole    bool

	// Through has a directory listed to its end once that has begun, however much is ahead: a
	// visitor that opens files may need its handle.
	Through bool

	// Enter is called with each part of a directory's listing and should return Dir.Err. Each is
	// called with every entry, before anything below it. in is nil for an operand, and below is nil
	// unless the entry is a directory. Leave is called once everything below a directory has been
	// visited. Enter and Leave may be nil. An error ends the walk, except fs.SkipDir, which means
	// the same as in [fs.WalkDir].
	Enter func(d D, entries []E) error
	Each  func(in D, e E, below D) error
	Leave func(d D) error

	// Stopped returns the reason why the walk is over, or nil. Crowded reports whether an error may
	// mean that too much was open at once, for which SFTP has no status.
	Stopped func() error
	Crowded func(error) bool

	// Again waits for changes that may make a directory readable: a directory whose listing was
	// denied is then listed again. Nil means that there are none.
	Again func()

	listing context.Context // ends with the walk
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	waiting dirHeap[E, T, D] // directories known but not being listed
	active  int              // listings in progress
	begun   int              // listings begun so far
	blocked int              // listings that wait until the visit has taken a part
	limit   int              // of active listings, for now
	most    int              // that limit will ever be
	ahead   int              // entries listed but not visited
	awaited D                // the directory that the visit waits for
	alone   bool             // awaited is to be listed when no other directory is
	over    bool
	arrived sync.Cond // something for the visit
	room    sync.Cond // room for the listings
}

// Begin prepares a walk. handles is the number that the server allows, 0 if unknown.
func (w *Walk[E, T, D]) Begin(ctx context.Context, handles uint64) {
	w.listing, w.stop = context.WithCancel(ctx)
	w.arrived.L, w.room.L = &w.mu, &w.mu
	w.waiting.before = w.Before
	w.most = usualListings
	if handles > 0 {
		w.most = int(min(mostListings, max(1, handles/2)))
	}
	w.limit = min(leastListings, w.most)
}

// Add adds a directory that will be visited, which may be listed from now on.
func (w *Walk[E, T, D]) Add(d D) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found(d)
}

// End ends all listings.
func (w *Walk[E, T, D]) End() {
	w.stop()
	w.mu.Lock()
	w.over = true
	w.room.Broadcast()
	w.mu.Unlock()
	w.work.Wait()
}

// Visit visits an entry, and everything below it if it is a directory.
func (w *Walk[E, T, D]) Visit(in D, e E, below D) error {
	err := w.Stopped()
	if err == nil {
		err = w.Each(in, e, below)
	}
	if below == nil {
		return err
	}
	if err == nil && (w.Descend == nil || w.Descend(below)) {
		err = w.visitBelow(below)
	}
	w.mu.Lock()
	w.forget(below)
	w.mu.Unlock()
	switch {
	case err == fs.SkipDir:
		return nil
	case err == nil && w.Leave != nil:
		return w.Leave(below)
	}
	return err
}

// visitBelow visits a directory's contents, part by part.
func (w *Walk[E, T, D]) visitBelow(dir D) error {
	d := dir.Node()
	for {
		part, last := w.await(dir)
		if err := w.Stopped(); err != nil {
			return err
		}
		// Err is set once the listing has ended: before that, partial is the lister's.
		if w.Again != nil && !d.again && errors.Is(d.Err, fs.ErrPermission) && !d.partial {
			w.Again()
			d.again, d.started, d.ended, d.Err = true, false, false, nil
			continue
		}
		if part.moved != nil {
			if err := part.moved(); err != nil {
				d.Err, part.entries, last = err, nil, true
			}
		}
		if w.Enter != nil && (len(part.entries) > 0 || last) {
			if err := w.Enter(dir, part.entries); err != nil {
				return err
			}
		}
		for i, e := range part.entries {
			w.mu.Lock()
			w.ahead--
			d.counted--
			below := d.below[e]
			delete(d.below, e)
			if w.ahead == mostAhead-1 {
				w.room.Broadcast()
			}
			w.launch()
			w.mu.Unlock()
			part.entries[i] = *new(E)
			if err := w.Visit(dir, e, below); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		d.Several = true
	}
}

// await returns the next part of a directory. If its listing has not started, it comes first.
func (w *Walk[E, T, D]) await(dir D) (next part[E], last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaitPart(dir)
	d := dir.Node()
	if len(d.parts) > 0 {
		next, d.parts = d.parts[0], d.parts[1:]
		w.unblock(d)
		w.room.Broadcast()
	}
	if last = d.ended && len(d.parts) == 0; last {
		d.Err = d.why
	}
	return next, last
}

// IsEmpty waits for the listing of a directory that the visit is about to enter, and reports
// whether it is empty.
func (w *Walk[E, T, D]) IsEmpty(d D) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaitPart(d)
	return len(d.Node().parts) == 0 && d.Node().why == nil
}

// awaitPart waits for a directory's next part, or its end. The caller holds the lock.
func (w *Walk[E, T, D]) awaitPart(dir D) {
	d := dir.Node()
	if d.at > 0 {
		heap.Remove(&w.waiting, d.at-1)
	}
	if !d.started {
		w.begin(dir)
	}
	w.awaited = dir
	w.room.Broadcast()
	for len(d.parts) == 0 && !d.ended {
		w.arrived.Wait()
	}
	if d.ended && d.crowded && !d.retried && !d.partial && w.Crowded(d.why) {
		w.listAlone(dir)
	}
	w.awaited = nil
}

// listAlone lists a directory again when the other listings have ended, or can only go on with the
// visit. From now on there are fewer. The caller holds the lock.
func (w *Walk[E, T, D]) listAlone(dir D) {
	d := dir.Node()
	w.limit = max(1, w.limit/2)
	w.most, w.alone = w.limit, true
	w.room.Broadcast()
	for w.active > w.blocked {
		w.arrived.Wait()
	}
	d.ended, d.why, d.retried = false, nil, true
	w.begin(dir)
	for len(d.parts) == 0 && !d.ended {
		w.arrived.Wait()
	}
	w.alone = false
	w.launch()
}

// found adds a directory, which may be listed from now on. The caller holds the lock.
func (w *Walk[E, T, D]) found(dir D) {
	if w.Descend == nil || w.Descend(dir) {
		heap.Push(&w.waiting, dir)
		w.launch()
	}
}

// launch starts as many listings as allowed. The caller holds the lock.
func (w *Walk[E, T, D]) launch() {
	for !w.over && !w.alone && w.active < w.limit && w.ahead < mostAhead && w.waiting.Len() > 0 {
		w.begin(heap.Pop(&w.waiting).(D))
	}
}

// begin starts listing a directory. The caller holds the lock.
func (w *Walk[E, T, D]) begin(dir D) {
	d := dir.Node()
	d.started, d.partial = true, false
	w.active++
	w.begun++
	d.others, d.crowded = w.begun, w.active > 1
	w.work.Go(func() { w.list(dir) })
}

// forget drops the entries listed of a directory and below it. The caller holds the lock.
func (w *Walk[E, T, D]) forget(dir D) {
	d := dir.Node()
	d.left = true
	w.unblock(d)
	w.ahead -= d.counted
	d.counted, d.parts = 0, nil
	if d.at > 0 {
		heap.Remove(&w.waiting, d.at-1)
	}
	for _, below := range d.below {
		w.forget(below)
	}
	d.below = nil
	w.room.Broadcast()
}

// list lists a directory.
func (w *Walk[E, T, D]) list(dir D) {
	entries, partial, err := w.listParts(dir)
	done := part[E]{entries, w.Complete(dir, entries)}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := dir.Node()
	w.active--
	if err == nil && w.limit < w.most {
		w.limit++
	}
	// Under one lock: a part that arrives before the end is taken for the first of several.
	w.append(d, done)
	d.why, d.partial, d.ended = err, partial, true
	d.crowded = d.crowded || w.begun != d.others
	w.arrived.Signal()
	w.launch()
}

// listParts lists a directory, delivers all parts but the last, and returns the last. partial
// reports whether any entry was listed.
func (w *Walk[E, T, D]) listParts(dir D) (some []E, partial bool, err error) {
	uncounted := 0
	for e, listErr := range w.List(w.listing, dir) {
		if listErr != nil {
			err = listErr
			break
		}
		if len(some) == mostSorted {
			err = errTooMany
			break
		}
		some, partial = append(some, e), true
		if below := w.Below(dir, e); below != nil {
			w.foundIn(dir, e, below)
		}
		if uncounted++; uncounted == someEntries {
			if uncounted = 0; !w.count(dir, someEntries) {
				return nil, true, nil
			}
		}
		if !w.Whole && len(some) == MostPart {
			if !w.count(dir, uncounted) || !w.deliver(dir, some) {
				return nil, true, nil
			}
			some, uncounted = nil, 0
		}
	}
	if !w.count(dir, uncounted) {
		return nil, partial, err
	}
	return some, partial, err
}

// count counts listed entries, and waits while there are too many, unless the visit waits for this
// directory, or for all active listings. It returns false if they are no longer wanted.
func (w *Walk[E, T, D]) count(dir D, entries int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := dir.Node()
	if d.left || w.over {
		return false
	}
	w.ahead += entries
	d.counted += entries
	for w.ahead >= mostAhead && w.awaited != dir && !w.alone && !w.Through && !d.left && !w.over {
		w.room.Wait()
	}
	return !d.left && !w.over
}

// foundIn adds a listed directory.
func (w *Walk[E, T, D]) foundIn(in D, e E, below D) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := in.Node()
	if d.left || w.over {
		return
	}
	if d.below == nil {
		d.below = make(map[E]D)
	}
	d.below[e] = below
	w.found(below)
}

// deliver passes a part of a directory to the visit, with more to come, and waits until the visit
// has taken it, so that at most two parts are held. It returns false if the visit no longer wants
// it.
func (w *Walk[E, T, D]) deliver(dir D, entries []E) bool {
	done := part[E]{entries, w.Complete(dir, entries)}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := dir.Node()
	w.append(d, done)
	d.blocked = true
	w.blocked++
	w.arrived.Signal()
	for len(d.parts) > 0 && !d.left && !w.over {
		w.room.Wait()
	}
	w.unblock(d)
	return !d.left && !w.over
}

// unblock notes that a listing does not wait for the visit any more. The caller holds the lock.
func (w *Walk[E, T, D]) unblock(d *Dir[E, D]) {
	if d.blocked {
		d.blocked = false
		w.blocked--
	}
}

// append adds a part to the parts that the visit has not taken. The caller holds the lock.
func (w *Walk[E, T, D]) append(d *Dir[E, D], part part[E]) {
	if len(part.entries) > 0 && !d.left && !w.over {
		d.parts = append(d.parts, part)
	}
}

// dirHeap holds directories in the order of the visit.
type dirHeap[E comparable, T any, D interface {
	*T
	Node() *Dir[E, D]
}] struct {
	dirs   []D
	before func(a, b D) bool
}

func (h *dirHeap[E, T, D]) Len() int           { return len(h.dirs) }
func (h *dirHeap[E, T, D]) Less(i, j int) bool { return h.before(h.dirs[i], h.dirs[j]) }

func (h *dirHeap[E, T, D]) Swap(i, j int) {
	h.dirs[i], h.dirs[j] = h.dirs[j], h.dirs[i]
	h.dirs[i].Node().at, h.dirs[j].Node().at = i+1, j+1
}

// Push implements heap.Interface.
func (h *dirHeap[E, T, D]) Push(x any) {
	d := x.(D)
	h.dirs = append(h.dirs, d)
	d.Node().at = len(h.dirs)
}

// Pop implements heap.Interface.
func (h *dirHeap[E, T, D]) Pop() any {
	last := len(h.dirs) - 1
	d := h.dirs[last]
	h.dirs[last] = nil
	h.dirs = h.dirs[:last]
	d.Node().at = 0
	return d
}
