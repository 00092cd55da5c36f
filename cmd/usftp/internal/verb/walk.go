package verb

import (
	"container/heap"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/usftp/usftp"
)

// A walk visits trees on a host for all recursive verbs: each directory in turn and everything
// below it, on the calling goroutine, while others list directories ahead of the visit. It follows
// no symbolic link.
//
// Unlike [usftp.Client.WalkDir] it yields a directory's entries together, in any order that ls
// supports, starts to list a directory as soon as its name has arrived, and holds only part of a
// directory if the order does not matter.
type walk struct {
	*job

	// order sorts a directory's entries. Nil means by name, and that a directory of more than
	// mostPart entries comes in several parts, each sorted.
	order func(a, b *entry) int

	// descend reports whether a directory should be listed, unless the visit skips it. It is called
	// on other goroutines, before the visit. Nil means always.
	descend func(d *dir) bool

	// prepare asks for more about entries before they are visited, on the goroutine that lists.
	prepare func(d *dir, entries []*entry)

	// enter is called with each part of a listed directory, and should report dir.err; each with
	// each entry, before what lies below it; leave after everything below. Any may be nil. An error
	// ends the walk, except that each may return fs.SkipDir to skip a directory.
	enter func(d *dir, entries []*entry) error
	each  func(d *dir, e *entry, below *dir) error
	leave func(d *dir) error

	// changes is set by verbs that change what they visit, and follows by those that follow
	// operands that are links: see [walk.guard].
	changes, follows bool

	// again waits for changes that may make a directory readable: one whose listing was denied is
	// then listed again. Nil means that there are none.
	again func()

	listing context.Context // ends with the walk
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	waiting dirHeap // directories known but not being listed
	active  int     // listings in progress
	limit   int     // how many are allowed
	most    int     // how many will ever be allowed
	ahead   int     // entries listed but not visited
	awaited *dir    // the directory that the visit waits for
	over    bool
	arrived sync.Cond // something for the visit
	room    sync.Cond // room for those who list
}

const (
	// leastListings and mostListings are how many directories are listed at once, initially and at
	// most. Servers limit open handles, OpenSSH's to about a thousand.
	leastListings = 16
	mostListings  = 128

	// mostAhead is how many entries are listed ahead of the visit, in addition to those of the
	// directory it waits for: about 5 MB.
	mostAhead = 1 << 15

	// mostPart is how many entries of a directory are held if their order does not matter, and
	// mostSorted if it does.
	mostPart   = 20_000
	mostSorted = 20_000_000

	// someEntries is how many entries are counted at a time.
	someEntries = 100
)

// A dir is a directory of the tree. What visitors may use is set before they see it.
type dir struct {
	entry  *entry
	path   string        // as printed
	parent *dir          // nil for an operand
	client *usftp.Client // for requests on what is in it
	depth  int           // 0 for an operand

	err     error // why the listing failed or is incomplete; set with the last part
	several bool  // it came in several parts
	guarded bool  // the client follows no link in it
	looks   bool  // the walk looks whether a link has taken its place
	again   bool  // it was listed again

	// For visitors to use.
	failed  bool
	pending int
	done    func()
	sum     uint64
	count   int // entries visited
	removed int // of them

	order int // among the operands
	index int // in the heap; -1 if not there

	// guarded by walk.mu
	started, ended, left bool
	why                  error // the listing ended; err once the visit has all parts
	parts                []part
	counted              int // entries in walk.ahead
	below                map[*entry]*dir
}

// errTooMany ends a walk if a server lists without end.
var errTooMany = errors.New("the directory has too many entries")

// run walks the trees at the operands, in order. Operands that are not directories are passed to
// each, with a nil directory. An error of a visitor ends the verb, except errQuit.
func (w *walk) run(operands []*entry) {
	w.listing, w.stop = context.WithCancel(w.ctx)
	w.arrived.L, w.room.L = &w.mu, &w.mu
	w.waiting.before = w.before
	w.limit, w.most = leastListings, mostListings
	if limits, err := w.client.Limits(); err == nil && limits.MaxOpenHandles > 0 {
		w.most = int(min(mostListings, max(1, limits.MaxOpenHandles/2)))
	}
	defer w.work.Wait()
	defer w.finish()
	top := make([]*dir, len(operands))
	w.mu.Lock()
	for i, e := range operands {
		if e.isDir() {
			top[i] = &dir{entry: e, path: e.name, order: i, client: w.client}
			if w.changes {
				w.guard(top[i], w.follows)
			}
			w.found(top[i])
		}
	}
	w.mu.Unlock()
	for i, e := range operands {
		if err := w.visitEntry(nil, e, top[i]); err != nil {
			if w.err == nil && err != errQuit {
				w.err = err
			}
			return
		}
	}
}

// finish ends all listings.
func (w *walk) finish() {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.room.Broadcast()
}

// visitEntry visits a directory's entry, and what lies below it.
func (w *walk) visitEntry(in *dir, e *entry, below *dir) error {
	err := w.stopped()
	if err != nil {
		return err
	}
	if w.each != nil {
		err = w.each(in, e, below)
	}
	if below == nil {
		return noSkip(err)
	}
	if err == nil && (w.descend == nil || w.descend(below)) {
		err = w.visit(below)
	}
	w.mu.Lock()
	w.forget(below)
	w.mu.Unlock()
	if err != nil {
		return noSkip(err)
	}
	if w.leave != nil {
		return w.leave(below)
	}
	return nil
}

func noSkip(err error) error {
	if err == fs.SkipDir {
		return nil
	}
	return err
}

// visit visits a directory's contents, part by part.
func (w *walk) visit(d *dir) error {
	for {
		part, last := w.await(d)
		if err := w.stopped(); err != nil {
			return err
		}
		if w.again != nil && !d.again && errors.Is(d.err, fs.ErrPermission) &&
			!errors.As(d.err, new(*brokenOff)) { // of that, some entries were visited
			w.again()
			d.again, d.started, d.ended, d.err = true, false, false, nil
			continue
		}
		if err := part.moved(); err != nil {
			d.err, part.entries, last = err, nil, true
		}
		if w.enter != nil && (len(part.entries) > 0 || last) {
			if err := w.enter(d, part.entries); err != nil {
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
			part.entries[i] = nil
			if err := w.visitEntry(d, e, below); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		d.several = true
	}
}

// await returns the next part of a directory. If its listing has not started, it comes first.
func (w *walk) await(d *dir) (next part, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaitPart(d)
	if len(d.parts) > 0 {
		next, d.parts = d.parts[0], d.parts[1:]
		w.room.Broadcast()
	}
	if last = d.ended && len(d.parts) == 0; last {
		d.err = d.why
	}
	return next, last
}

// isEmpty waits for the listing of a directory that the visit is about to enter, and reports
// whether it is empty.
func (w *walk) isEmpty(d *dir) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaitPart(d)
	return len(d.parts) == 0 && d.why == nil
}

// awaitPart waits for a directory's next part, or its end. The caller holds the lock.
func (w *walk) awaitPart(d *dir) {
	if d.index >= 0 {
		heap.Remove(&w.waiting, d.index)
	}
	if !d.started {
		w.begin(d)
	}
	w.awaited = d
	w.room.Broadcast()
	for len(d.parts) == 0 && !d.ended {
		w.arrived.Wait()
	}
	w.awaited = nil
}

// found adds a directory, which may be listed from now on. The caller holds the lock.
func (w *walk) found(d *dir) {
	if d.index = -1; w.descend == nil || w.descend(d) {
		heap.Push(&w.waiting, d)
		w.launch()
	}
}

// launch starts as many listings as allowed. The caller holds the lock.
func (w *walk) launch() {
	for !w.over && w.active < w.limit && w.ahead < mostAhead && w.waiting.Len() > 0 {
		w.begin(heap.Pop(&w.waiting).(*dir))
	}
}

// begin starts listing a directory. The caller holds the lock.
func (w *walk) begin(d *dir) {
	d.started = true
	w.active++
	w.work.Go(func() { w.list(d) })
}

// forget drops what was listed of a directory and below it. The caller holds the lock.
func (w *walk) forget(d *dir) {
	d.left = true
	w.ahead -= d.counted
	d.counted, d.parts = 0, nil
	if d.index >= 0 {
		heap.Remove(&w.waiting, d.index)
	}
	for _, below := range d.below {
		w.forget(below)
	}
	d.below = nil
	w.room.Broadcast()
}

// list lists a directory.
func (w *walk) list(d *dir) {
	part, others, err := w.listOnce(d)
	if others && errors.Is(err, usftp.ErrSSHFxFailure) && !errors.As(err, new(*brokenOff)) {
		// It may have failed because too much was open at once, for which version 3 has no status.
		w.mu.Lock()
		w.limit = max(1, w.limit/2)
		w.most = w.limit
		w.mu.Unlock()
		part, _, err = w.listOnce(d)
	}
	done := w.complete(d, part)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
	if err == nil && w.limit < w.most {
		w.limit++
	}
	// Under one lock: a part that arrives before the end is taken for the first of several.
	w.append(d, done)
	d.why, d.ended = err, true
	w.arrived.Signal()
	w.launch()
}

// A brokenOff reports a listing that failed after some entries.
type brokenOff struct{ error }

func (b *brokenOff) Unwrap() error { return b.error }

// listOnce lists a directory, delivers all parts but the last, and returns that. others reports
// whether other listings were under way.
func (w *walk) listOnce(d *dir) (part []*entry, others bool, err error) {
	w.mu.Lock()
	others = w.active > 1
	w.mu.Unlock()
	uncounted, delivered := 0, false
	for f, listErr := range d.client.WithContext(w.listing).Entries(w.at(d.path)) {
		if listErr != nil {
			if err = listErr; len(part) > 0 || delivered {
				err = &brokenOff{listErr}
			}
			break
		}
		e := &entry{name: f.BaseName(), stat: *f.FileStat()}
		part = append(part, e)
		if e.isDir() {
			w.foundIn(d, e)
		}
		if uncounted++; uncounted == someEntries {
			if uncounted = 0; !w.count(d, someEntries) {
				return nil, others, nil
			}
		}
		if w.order == nil && len(part) == mostPart {
			if !w.count(d, uncounted) || !w.deliver(d, part) {
				return nil, others, nil
			}
			part, uncounted, delivered = nil, 0, true
		}
		if len(part) == mostSorted {
			err = &brokenOff{errTooMany}
			break
		}
	}
	if !w.count(d, uncounted) {
		return nil, others, err
	}
	return part, others, err
}

// count counts listed entries, and waits while there are too many, unless the visit waits for this
// directory. It returns false if they are no longer wanted.
func (w *walk) count(d *dir, entries int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.left || w.over {
		return false
	}
	w.ahead += entries
	d.counted += entries
	for w.ahead >= mostAhead && w.awaited != d && !d.left && !w.over {
		w.room.Wait()
	}
	return !d.left && !w.over
}

// foundIn adds a listed directory.
func (w *walk) foundIn(d *dir, e *entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.left || w.over {
		return
	}
	if d.below == nil {
		d.below = make(map[*entry]*dir)
	}
	child := &dir{entry: e, path: below(d.path, e.name), parent: d, depth: d.depth + 1,
		client: d.client, guarded: d.guarded, looks: w.changes && !d.guarded}
	d.below[e] = child
	w.found(child)
}

// deliver passes a part of a directory to the visit, with more to come, and waits until the visit
// has taken it, so that at most two parts are held. It returns false if the visit no longer wants
// it.
func (w *walk) deliver(d *dir, entries []*entry) bool {
	done := w.complete(d, entries)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.append(d, done)
	w.arrived.Signal()
	for len(d.parts) > 0 && !d.left && !w.over {
		w.room.Wait()
	}
	return !d.left && !w.over
}

// complete asks for what the listing did not include, and sorts.
func (w *walk) complete(d *dir, entries []*entry) part {
	if w.prepare != nil && len(entries) > 0 {
		w.prepare(d, entries)
	}
	order := w.order
	if order == nil {
		order = byName
	}
	slices.SortStableFunc(entries, order)
	return w.newPart(d, entries)
}

// append adds a part to those that the visit has not taken. The caller holds the lock.
func (w *walk) append(d *dir, part part) {
	if len(part.entries) > 0 && !d.left && !w.over {
		d.parts = append(d.parts, part)
	}
}

func byName(a, b *entry) int { return strings.Compare(a.name, b.name) }

// listed is the enter of verbs that only report why a directory cannot be listed.
func (j *job) listed(d *dir, _ []*entry) error {
	if d.err != nil {
		j.fail("list", d.path, d.err)
	}
	return j.err
}

// before reports whether a is visited before b.
func (w *walk) before(a, b *dir) bool {
	x, y := a, b
	for x.depth > y.depth {
		x = x.parent
	}
	for y.depth > x.depth {
		y = y.parent
	}
	if x == y { // one lies below the other
		return a.depth < b.depth
	}
	for x.parent != y.parent {
		x, y = x.parent, y.parent
	}
	switch {
	case x.parent == nil:
		return x.order < y.order
	case w.order != nil:
		return w.order(x.entry, y.entry) < 0
	}
	return x.entry.name < y.entry.name
}

// dirHeap holds directories in the order of the visit.
type dirHeap struct {
	dirs   []*dir
	before func(a, b *dir) bool
}

func (h *dirHeap) Len() int           { return len(h.dirs) }
func (h *dirHeap) Less(i, j int) bool { return h.before(h.dirs[i], h.dirs[j]) }

func (h *dirHeap) Swap(i, j int) {
	h.dirs[i], h.dirs[j] = h.dirs[j], h.dirs[i]
	h.dirs[i].index, h.dirs[j].index = i, j
}

// Push implements heap.Interface.
func (h *dirHeap) Push(x any) {
	d := x.(*dir)
	d.index = len(h.dirs)
	h.dirs = append(h.dirs, d)
}

// Pop implements heap.Interface.
func (h *dirHeap) Pop() any {
	last := len(h.dirs) - 1
	d := h.dirs[last]
	h.dirs[last] = nil
	h.dirs = h.dirs[:last]
	d.index = -1
	return d
}
