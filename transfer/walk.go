package transfer

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// A walk lists a tree while it is copied: walkers take directories, make them at the target and
// list them at the source, while workers copy the files found. Memory is bounded: walkers wait when
// enough has been found, and if too many directories wait, a walker descends at once, depth first.
type walk struct {
	tree  *tree
	small chan *entry
	large chan *entry

	mu      sync.Mutex
	changed sync.Cond
	waiting []*directory // the last one found is walked first
	walking int

	walkers   int
	most      int // workers for small files
	stepwise  int // the largest file for them that is sent in steps; see limits
	workers   atomic.Int64
	spread    spread
	working   sync.WaitGroup
	finishing sync.WaitGroup // directories that get their attributes

	inProgress *semaphore.Weighted // files; nil without MaxFiles
}

const (
	usualWalkers = 16
	syncWalkers  = 128  // where servers allow it
	mostWalkers  = 512  // over a long link, where servers allow it
	mostWaiting  = 4096 // directories
)

func newWalk(t *tree, most, walkers, queue int) *walk {
	w := &walk{tree: t, walkers: walkers, most: most, small: make(chan *entry, queue),
		large: make(chan *entry, 1024)}
	if n := t.options.MaxFiles; n > 0 {
		w.inProgress = semaphore.NewWeighted(int64(n)) // small and large ones together
	}
	w.changed.L = &w.mu
	return w
}

// run walks and copies until everything is done or the tree's context ends.
func (w *walk) run() {
	w.spread.begin()
	for range w.largeInFlight() {
		w.hire()
	}
	w.push(w.tree.root)
	var walking sync.WaitGroup
	for range w.walkers {
		walking.Go(w.walk)
	}
	walking.Wait()
	if unmark := w.tree.overlap.unmark; unmark != nil {
		unmark()
	}
	if w.tree.selection.List != nil {
		w.tree.tellMissing()
	}
	w.tree.plan.rest()
	w.tree.mu.Lock()
	w.tree.sums.Complete = w.tree.ctx.Err() == nil
	w.tree.mu.Unlock()
	close(w.small)
	close(w.large)
	w.working.Wait()
}

func (w *walk) push(d *directory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, d)
	w.changed.Signal()
}

// walk takes directories until none are left and no other walker can find any.
func (w *walk) walk() {
	for {
		w.mu.Lock()
		for len(w.waiting) == 0 && w.walking > 0 {
			w.changed.Wait()
		}
		n := len(w.waiting)
		if n == 0 {
			w.mu.Unlock()
			w.changed.Broadcast()
			return
		}
		d := w.waiting[n-1]
		w.waiting[n-1] = nil
		w.waiting = w.waiting[:n-1]
		w.walking++
		w.mu.Unlock()
		w.visit(d)
		w.mu.Lock()
		w.walking--
		w.mu.Unlock()
		w.changed.Broadcast()
	}
}

// visit makes a directory at the target and hands out its entries.
func (w *walk) visit(d *directory) {
	t := w.tree
	defer w.done(d)
	if t.ctx.Err() != nil {
		return
	}
	leave, ok := t.plan.enter(d)
	defer leave()
	if !ok {
		return
	}
	if d.parent == nil && t.overlap.marks {
		t.overlap.mark()
	}
	err := t.list(d, func(e *entry, err error) bool {
		if e.named != nil {
			e.named.Found()
		}
		if err != nil {
			t.fail("", e.source(), d.target, err)
		} else {
			w.found(e)
		}
		return t.ctx.Err() == nil
	})
	if err != nil {
		d.fail(err)
		return
	}
	if t.selection.List != nil {
		t.selection.List.Read(d.rel)
	}
	if t.src.Conn() != nil && t.ctx.Err() == nil {
		w.working.Go(func() { w.lookAgain(d) }) // the next directory need not wait for the answer
	}
	if d.unswept != nil {
		t.leftovers.sweepRest(d)
	}
	t.count(&t.sums.Directories, 1)
	t.plan.listed(d)
}

// lookAgain makes sure that a host's directory still exists after it has been listed. OpenSSH's
// server leaves out entries that it cannot stat by path, so the rest would be missed in silence.
func (w *walk) lookAgain(d *directory) {
	t := w.tree
	err := t.stands(d.rel)
	if endpoint.Refused(err) && !endpoint.IsAbsent(err) { // some hosts lack LSTAT; copies need none
		_, err = t.src.Stat(d.source)
	}
	if err == nil || endpoint.Refused(err) && !endpoint.IsAbsent(err) || t.ctx.Err() != nil {
		return // if both are refused, nothing can be told
	}
	if err = endpoint.OfSource(err); endpoint.IsAbsent(err) { // for Sync it must not count as vanished
		err = &fs.PathError{Op: "list", Path: d.source, Err: errMissed}
	}
	d.fail(err)
}

var errMissed = endpoint.Explain("moved or removed while it was listed, so some of what "+
	"was in it may have been missed; run it again", fs.ErrNotExist)

// stands returns nil if dir, relative to the source, is a directory.
func (t *tree) stands(dir string) error {
	at := t.src.Join(t.route.Source, dir)
	look := t.src.Lstat
	if dir == "." || t.options.Links == LinksFollow {
		look = t.src.Stat
	}
	found, err := look(at)
	if err == nil && !found.Mode.IsDir() {
		err = &fs.PathError{Op: "list", Path: at, Err: fs.ErrNotExist}
	}
	return err
}

// found handles an entry of a listing.
func (w *walk) found(e *entry) {
	t := w.tree
	if n := t.entries.Add(1); t.tooMany(n) {
		if !t.tooMany(n - 1) {
			t.root.fail(ErrTreeTooLarge)
			t.cancel(ErrTreeTooLarge)
		}
		return
	}
	if t.met(e) || !t.plan.found(e) || t.leads(e.info.Mode) && !w.link(e) {
		return
	}
	switch mode := e.info.Mode; {
	case mode.IsDir():
		w.enter(e)
	case mode.IsRegular() || mode&fs.ModeSymlink != 0:
		w.hand(e)
	default:
		t.skip(e.source(), "it is "+endpoint.KindOf(mode)+", which is not copied")
	}
}

const (
	defaultDepth   = 256
	defaultEntries = 20_000_000
)

// tooDeep reports whether a directory's depth exceeds the limit.
func (t *tree) tooDeep(depth int) bool {
	most := cmp.Or(t.options.MaxDepth, defaultDepth)
	return most > 0 && depth > most
}

// tooMany reports whether n entries exceed the limit.
func (t *tree) tooMany(n int64) bool {
	most := cmp.Or(t.options.MaxEntries, defaultEntries)
	return most > 0 && n > most
}

// met reports whether an entry is this run's own temporary file, and if so ends the run.
func (t *tree) met(e *entry) bool {
	met := localfs.TempTokenOf(e.name) == t.copies.Token
	if met {
		t.overlap.met()
	}
	return met
}

// leads reports whether an entry of this mode may lead elsewhere. Go gives a junction of Windows
// the mode of an irregular file; its text means nothing elsewhere, so it is no link to copy.
func (t *tree) leads(mode fs.FileMode) bool {
	return mode&fs.ModeSymlink != 0 ||
		mode.Type() == fs.ModeIrregular && t.options.Links == LinksFollow
}

// link handles a symbolic link, looking up where it leads if links are followed. It returns false
// if there is nothing more to do.
func (w *walk) link(e *entry) bool {
	t := w.tree
	switch t.options.Links {
	case LinksSkip:
		t.skip(e.source(), "it is a symbolic link")
		return false
	case LinksFollow:
		found, err := t.src.Stat(e.source())
		if errors.Is(err, fs.ErrNotExist) {
			if _, lookErr := t.src.Lstat(e.source()); lookErr == nil { // it has not vanished
				err = &fs.PathError{Op: "stat", Path: e.source(), Err: errLeadsNowhere}
			}
		}
		if err != nil {
			e.fail(endpoint.OfSource(err))
			return false
		}
		e.info = found
		return !t.selection.Exclude(e.rel(), found.Mode.IsDir())
	}
	return true
}

var errLeadsNowhere = errors.New("the link leads nowhere")

// enter queues a directory, if it may be entered.
func (w *walk) enter(e *entry) {
	t := w.tree
	d := e.dir.child(e.name)
	d.info = t.options.chmod(e.info)
	err := e.checkName()
	if t.tooDeep(d.depth) {
		err = ErrTreeTooDeep
	}
	if err != nil {
		d.fail(err)
		return
	}
	if t.options.Links == LinksFollow {
		why := t.loops(d)
		if t.isCopy(d.info) {
			why = "it is the copy itself"
		}
		if why != "" {
			t.skip(d.source, why)
			return
		}
	}
	if !t.plan.enters(d, e) {
		return
	}
	w.enqueue(d)
}

// enqueue queues a directory, or walks it at once if too many wait.
func (w *walk) enqueue(d *directory) {
	d.tree.leftovers.met(d.parent, path.Base(d.rel))
	d.pending.Store(1)
	d.parent.pending.Add(1)
	w.mu.Lock()
	full := len(w.waiting) >= mostWaiting
	w.mu.Unlock()
	if full {
		w.visit(d)
		return
	}
	w.push(d)
}

// hand has a file or a link copied, and waits until a worker can take it.
func (w *walk) hand(e *entry) {
	t := w.tree
	if !t.plan.wants(e) {
		return
	}
	t.planned(e)
	if err := e.checkName(); err != nil {
		e.fail(err)
		return
	}
	t.do.hand(w, e)
}

// queue queues an entry for the workers.
func (w *walk) queue(e *entry) {
	t := w.tree
	e.dir.pending.Add(1)
	if e.info.Mode.IsRegular() && !t.copies.Budget.IsSmall(e.info.Size) &&
		(e.info.Size < 0 || e.info.Size > int64(w.stepwise)) {
		w.spread.share(w, e.info.Size)
		w.large <- e
		return
	}
	select {
	case w.small <- e:
		if len(w.small) > 0 {
			w.hireSmall()
		}
	default:
		w.hireSmall()
		w.small <- e
	}
}

// full reports whether the entries found have to wait for copies.
func (w *walk) full() bool {
	return len(w.small) == cap(w.small) || len(w.large) == cap(w.large)
}

// hireSmall starts another worker for small files, up to the limit. At the limit one will be free
// soon, since workers stay until the end.
func (w *walk) hireSmall() {
	if w.workers.Load() < int64(w.most) && w.workers.Add(1) <= int64(w.most) {
		w.working.Go(w.workSmall)
	}
}

// workSmall copies small files until the walk is over. With thousands in progress each file gets a
// fresh goroutine: the last steps, on this machine's file system, need a deeper stack than those
// that wait for a reply, and a stack that has grown would stay grown while waiting with the next
// file. With fewer, growing a stack for each file would cost more than it saves.
func (w *walk) workSmall() {
	for e := range w.small {
		if w.tree.ctx.Err() == nil {
			w.copy(e)
		}
		w.done(e.dir)
		if w.most > 256 {
			w.working.Go(w.workSmall)
			return
		}
	}
}

// copy copies a file or a link.
func (w *walk) copy(e *entry) {
	t := w.tree
	if w.inProgress != nil {
		if w.inProgress.Acquire(t.ctx, 1) != nil {
			return
		}
		defer w.inProgress.Release(1)
	}
	if t.plan.prepare(e) || t.do.told(e) {
		return
	}
	if e.info.Mode&fs.ModeSymlink != 0 {
		w.copyLink(e)
		return
	}
	c := newFileTask(t.job, e, e.source(), e.target())
	err := c.copy()
	w.copied(c, err)
}

// copied counts a file that was copied, kept or failed.
func (w *walk) copied(c *fileTask, err error) {
	t := w.tree
	keeps := errors.Is(err, filecopy.ErrKept)
	bytes := c.Result.Bytes
	if err != nil && !c.Result.Resumable && !c.stays {
		bytes = 0
	}
	t.finished(c, bytes)
	if c.stays {
		t.count(&t.sums.Files, 1)
	}
	if err == nil || keeps {
		for _, conn := range t.copies.Conns() {
			conn.Arrived()
		}
	}
	switch {
	case err == nil:
		if c.Result.Unsure { // the next run removes what there is by then
			t.leftovers.some.Store(true)
		}
		t.count(&t.sums.Files, 1)
		c.tellEnd(nil)
		t.bottlenecks.Add(c.Result.Bottleneck, c.Result.Bytes)
	case keeps:
		t.kept(c.Listed)
		c.tellKept()
	case t.plan.vanished(c.Source, err), t.ending(err) && (c.Result.LeftBehind == "" || c.Small):
		if c.Result.Unsure { // how many files is reported once, at the end
			t.leftovers.leaves(false)
		}
	default:
		if c.Result.Unsure {
			t.leftovers.leaves(c.Result.LeftBehind != "")
		}
		t.count(&t.sums.Failed, 1)
		c.tellEnd(err)
		t.failFirst(err)
	}
}

// done counts one finished item of a directory. After the last one the directory gets its
// attributes, and counts as done in its parent.
func (w *walk) done(d *directory) {
	for ; d != nil && d.pending.Add(-1) == 0; d = d.parent {
		w.finish(d)
	}
}

// finish sets the attributes of a completed directory. Its parent need not wait, since that does
// not change the parent's times.
func (w *walk) finish(d *directory) {
	t := w.tree
	list, err := t.selection.List, t.into.Leave(d.rel)
	if d.failed || t.ctx.Err() != nil {
		return
	}
	if err != nil { // another entry may have its name now
		d.fail(err)
		return
	}
	if d.parent == nil && list != nil && !list.IsNamed() {
		return
	}
	w.finishing.Go(func() {
		if err := t.plan.finish(d); err != nil && t.ctx.Err() == nil {
			if t.options.Preserve {
				d.fail(err)
			} else if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
				d.warn("cannot set the directory's attributes: " + err.Error())
			}
		}
	})
}

// spread distributes a tree's large files over the sessions of a pool: while there are many, each
// uses one session, and the last ones use several.
type spread struct {
	bytes   atomic.Int64        // of files found and not copied yet
	hiring  sync.Map            // pools that workers are being hired for
	room    *semaphore.Weighted // for the files in progress, see takes
	workers atomic.Int64
	ended   sync.Once
	none    chan struct{} // closed when all workers have ended
}

const (
	// fewLarge is how many large files are in progress at once, and perSession how many more for
	// each further session, so that it is never idle while one of them is opened or closed.
	fewLarge, perSession = 4, 2

	// mostLarge is their number over a link where that takes time, if they are shorter than longPiece:
	// together they are as long as fewLarge of that size.
	mostLarge, longPiece = 64, 4 << 20

	// noticeable is the round trip from which on opening and closing a file takes time.
	noticeable = 2 * time.Millisecond
)

func (w *walk) largeInFlight() int {
	n := fewLarge
	if w.tree.copies.Budget.Trip >= noticeable {
		n = mostLarge
	}
	if most := w.tree.options.MaxFiles; most > 0 {
		n = min(n, most)
	}
	return n
}

// begin makes room for the first session's files. The semaphore's size is fixed, so the room that
// further sessions will add is taken from the start, and released when they open.
func (s *spread) begin() {
	s.none, s.room = make(chan struct{}), semaphore.NewWeighted(math.MaxInt64)
	s.room.TryAcquire(math.MaxInt64 - fewLarge*longPiece)
}

// takes returns how much of the room a file of this size takes.
func takes(size int64) int64 {
	if size < 0 {
		return longPiece
	}
	return min(size, longPiece)
}

// share counts a large file, and opens connections if all those found so far are worth it.
func (s *spread) share(w *walk, size int64) {
	t := w.tree
	t.copies.Budget.Large.Add(1)
	bytes := s.bytes.Add(max(0, size))
	if t.copies.Limiter != nil || !flow.WorthStriping(bytes, t.copies.Budget.Trip) {
		return
	}
	for _, conn := range t.copies.Conns() {
		pool := conn.Host().Pool
		if pools.OfPool(pool).Size() < 2 {
			continue
		}
		pool.Want(flow.FirstConnections(bytes, t.copies.Budget.Trip), 0)
		if _, hired := s.hiring.LoadOrStore(pool, true); !hired {
			w.working.Go(func() { w.hireLarge(pool) })
		}
	}
}

// hireLarge starts workers for each session as it opens. Earlier they would only crowd the first
// one.
func (w *walk) hireLarge(pool *pool.Pool) {
	for workers := 0; ; {
		sessions, changed := pools.OfPool(pool).Sessions()
		for ; workers < perSession*len(sessions); workers++ {
			w.spread.room.Release(longPiece)
			w.hire()
		}
		select {
		case <-changed:
		case <-w.spread.none:
			return
		case <-w.tree.ctx.Done():
			return
		}
	}
}

func (w *walk) hire() {
	w.spread.workers.Add(1)
	w.working.Go(w.workLarge)
}

// workLarge copies large files until none is left and the walk is over.
func (w *walk) workLarge() {
	for e := range w.large {
		if n := takes(e.info.Size); w.spread.room.Acquire(w.tree.ctx, n) == nil {
			w.copy(e)
			w.spread.room.Release(n)
		}
		w.spread.bytes.Add(-max(0, e.info.Size))
		w.tree.copies.Budget.Large.Add(-1)
		w.done(e.dir)
	}
	if w.spread.workers.Add(-1) == 0 {
		w.spread.ended.Do(func() { close(w.spread.none) })
	}
}
