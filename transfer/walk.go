package transfer

import (
	"errors"
	"hash/maphash"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/filter"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// A directory of the tree, from when it is found until everything in it is done.
type directory struct {
	tree           *tree
	parent         *directory // nil for the source itself
	source, target string
	rel            string // relative to the source, with slashes; "." for the source itself
	depth          int
	facts          facts
	real           string          // its real path; only with LinksFollow on a host
	names          map[string]bool // entries, where differing names may be one file
	fresh          bool            // this copy made it
	failed         bool            // it could not be made
	noTemporary    atomic.Bool     // it takes no temporary files
	pending        atomic.Int64    // entries not done yet

	// unswept has, by root, the target's subdirectories that have not been found in the source yet;
	// nil unless an earlier run may have left something in them.
	unswept map[string]map[string]bool

	syncedDir
}

// syncedDir is what else a sync knows of a directory.
type syncedDir struct {
	made      bool        // it exists at the target already
	existing  *held       // the existing directory at the target; nil if none is known
	touched   atomic.Bool // something in it changes, and with that its mtime
	looked    once        // remoteTarget.inPlace has been called for it
	linked    error       // set by remoteTarget.inPlace if a link is in its place
	opened    once        // syncing.open has been called for it
	moved     error       // set by syncing.open if something else is in its place
	inventory *inventory  // of the target's directory, while both are listed
	big       atomic.Bool // inventory is large; this or an ancestor holds inventories.big
	extra     bool        // the source does not have it
	ignore    *filter.Ignore
}

// addName records an entry's name. It returns false if the name was recorded before.
func (d *directory) addName(name string) bool {
	if d.names[name] {
		return false
	}
	if d.names == nil {
		d.names = make(map[string]bool)
	}
	d.names[name] = true
	return true
}

// attrs returns the attributes to set on a directory once everything in it is done.
func (d *directory) attrs() (set usftp.NewAttrs, err error) {
	o := &d.tree.options
	if err := o.addOwner(&set, d.facts.owner); err != nil {
		return set, err
	}
	if s := d.tree.sync; s != nil && s.sameDirectory(d) {
		return set, nil
	}
	if !d.fresh && d.tree.resumed == notResumed && !o.Preserve {
		return set, nil
	}
	if d.facts.hasMode && !o.NoModes && (o.Preserve || d.facts.perm()&0o700 != 0o700) {
		set.SetMode, set.Mode = true, d.facts.perm()
	}
	if set.SetMode && o.Preserve {
		set.Mode |= d.facts.mode & dirBits
	}
	if d.facts.hasTimes && !o.NoTimes {
		set.SetTimes, set.Atime, set.Mtime = true, d.facts.atime, d.facts.mtime
	}
	return set, nil
}

// An entry is a file or a link to copy.
type entry struct {
	dir    *directory
	name   string
	facts  facts
	sought bool // found by a Check by name, through links

	// Of a sync:
	existing held // the target's entry of this name, if present is set
	present  bool
	saved    bool   // that entry is in the backup directory
	reason   Reason // why it is copied or changed
	probe    bool   // more must be asked to decide
	planned  bool   // counted as such
}

// absent reports whether the target is known to have no entry of this name.
func (e *entry) absent() bool { return e.dir.fresh || e.reason == ReasonNew }

func (e *entry) source() string { return e.dir.tree.src.join(e.dir.source, e.name) }
func (e *entry) target() string { return e.dir.tree.dst.join(e.dir.target, e.name) }

// once is a sync.Once for what asks a host. Those who wait do so for a channel and not for a lock,
// which package testing/synctest would not take for waiting.
type once struct {
	mu   sync.Mutex
	done chan struct{}
}

func (o *once) Do(f func()) {
	o.mu.Lock()
	done, first := o.done, o.done == nil
	if first {
		done = make(chan struct{})
		o.done = done
	}
	o.mu.Unlock()
	if !first {
		<-done
		return
	}
	defer close(done)
	f()
}

// rel returns the path relative to the source, with slashes.
func (e *entry) rel() string { return path.Join(e.dir.rel, e.name) }

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

	walkers    int
	most       int // workers for small files
	workers    atomic.Int64
	spread     spread
	working    sync.WaitGroup
	finishing  sync.WaitGroup // directories that get their attributes
	plainLinks sync.Once      // that links get no attributes was reported
}

const (
	usualWalkers = 16
	syncWalkers  = 128 // where servers allow it
	largeWorkers = 4
	mostWaiting  = 4096 // directories
)

func newWalk(t *tree, most, walkers, queue int) *walk {
	w := &walk{tree: t, walkers: walkers, most: most, small: make(chan *entry, queue),
		large: make(chan *entry, 64)}
	w.changed.L = &w.mu
	return w
}

// run walks and copies until everything is done or the tree's context ends.
func (w *walk) run() {
	w.spread.none = make(chan struct{})
	for range largeWorkers {
		w.working.Go(w.workLarge)
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
	if w.tree.check != nil {
		w.lookForMissing()
	}
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
	if d.extra {
		d.ignore = d.parent.ignore
		t.sync.extras.collect(d, func(string) bool { return true })
		return
	}
	if t.overlap.marker != "" && d.parent != nil {
		if _, err := t.src.lstat(t.src.join(d.source, t.overlap.marker)); err == nil {
			t.overlap.met()
			return
		}
	}
	if !t.options.DryRun && !d.made {
		fresh, err := t.dst.makeDir(d)
		if err != nil {
			d.failed = true
			t.litter.unseen.Store(true)
			t.fail("", d.source, d.target, err)
			return
		}
		d.fresh = fresh
	}
	if !t.options.DryRun {
		t.litter.sweep(d)
	}
	if t.sync != nil {
		release, err := t.sync.take(d)
		defer func() { release() }()
		if err != nil {
			d.failed = true
			t.fail("", d.source, d.target, err)
			return
		}
	}
	if d.parent == nil {
		t.overlap.mark()
	}
	err := t.src.list(d, func(e *entry, err error) bool {
		if err != nil {
			t.fail("", e.source(), d.target, err)
		} else {
			w.found(e)
		}
		return t.ctx.Err() == nil
	})
	if err != nil {
		t.fail("", d.source, d.target, err)
		return
	}
	if t.src.conn() != nil && t.ctx.Err() == nil {
		w.working.Go(func() { w.lookAgain(d) }) // the next directory need not wait for the answer
	}
	t.litter.sweepRest(d)
	t.count(&t.sums.Directories, 1)
	if t.sync != nil {
		t.sync.extras.find(d)
	}
}

// lookAgain makes sure that a host's directory is still there after it has been listed. OpenSSH's
// server leaves out what it cannot look at by its path, so otherwise the rest is missed in silence.
func (w *walk) lookAgain(d *directory) {
	t := w.tree
	err := t.stands(d.rel)
	if refused(err) && !isAbsent(err) { // some hosts have no LSTAT, and copies do without
		_, err = t.src.look(d.source)
	}
	if err == nil || refused(err) && !isAbsent(err) || t.ctx.Err() != nil {
		return // if both are refused, nothing shows
	}
	if err = ofSource(err); isAbsent(err) { // not as of the source, where sync expects it
		err = &fs.PathError{Op: "list", Path: d.source, Err: errMissed}
	}
	t.fail("", d.source, d.target, err)
}

var errMissed = &explained{"it was moved or removed while it was listed, so some of what was in it " +
	"may have been missed; run it again", []error{fs.ErrNotExist}}

// stands returns nil if a directory of the source, given relative to it, is one.
func (t *tree) stands(dir string) error {
	at := t.src.join(t.route.Source, dir)
	look := t.src.lstat
	if dir == "." || t.options.Links == LinksFollow {
		look = t.src.look
	}
	found, err := look(at)
	if err == nil && !found.mode.IsDir() {
		err = &fs.PathError{Op: "list", Path: at, Err: fs.ErrNotExist}
	}
	return err
}

// found decides what to do with an entry.
func (w *walk) found(e *entry) {
	t := w.tree
	if localfs.TempTokenOf(e.name) == t.token && t.check == nil {
		t.overlap.met()
		return
	}
	if n := t.entries.Add(1); t.tooMany(n) {
		if !t.tooMany(n - 1) {
			t.fail("", t.route.Source, t.root.target, ErrTreeTooLarge)
			t.cancel(ErrTreeTooLarge)
		}
		return
	}
	link := e.facts.mode&fs.ModeSymlink != 0
	if t.sync == nil && t.filter.Exclude(e.rel(), e.facts.mode.IsDir()) ||
		t.check != nil && !t.checks(e.facts.mode) ||
		t.sync != nil && !t.sync.found(e) || link && !w.link(e) {
		return
	}
	switch mode := e.facts.mode; {
	case mode.IsDir():
		w.enter(e)
	case mode.IsRegular() && t.check == nil && localfs.IsTempName(e.name) &&
		e.facts.mtime.After(t.began.Add(-time.Second)):
		t.skip(e.source(), "it is the temporary file of a copy that is under way")
	case mode.IsRegular() || mode&fs.ModeSymlink != 0:
		w.hand(e)
	default:
		t.skip(e.source(), "it is "+kindOf(mode)+", which is not copied")
	}
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
		found, err := t.src.look(e.source())
		if err != nil {
			t.fail("", e.source(), e.target(), err)
			return false
		}
		e.facts = found
		return !t.filter.Exclude(e.rel(), found.mode.IsDir())
	}
	return true
}

// enter queues a directory, if it may be entered.
func (w *walk) enter(e *entry) {
	t := w.tree
	d := &directory{tree: t, parent: e.dir, source: e.source(), target: e.target(),
		rel: e.rel(), depth: e.dir.depth + 1, facts: e.facts}
	err := t.dst.check(e.dir, e.name)
	if t.tooDeep(d.depth) {
		err = ErrTreeTooDeep
	}
	if err != nil {
		t.fail("", d.source, d.target, err)
		return
	}
	if t.options.Links == LinksFollow {
		why := t.src.loops(d)
		if t.dst.is(d.facts) {
			why = "it is the copy itself"
		}
		if why != "" {
			t.skip(d.source, why)
			return
		}
	}
	if t.sync != nil && !t.sync.enters(d, e) {
		return
	}
	w.enqueue(d)
}

// enqueue queues a directory, or walks it at once if too many wait.
func (w *walk) enqueue(d *directory) {
	d.tree.litter.met(d.parent, path.Base(d.rel))
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

// hand gives a file or a link to the workers, and waits until one can take it.
func (w *walk) hand(e *entry) {
	t := w.tree
	if t.check != nil && t.unlisted(e) || t.sync != nil && !t.sync.wants(e) {
		return
	}
	t.planned(e)
	if t.options.DryRun && !e.probe {
		t.plan(e)
		return
	}
	if err := t.dst.check(e.dir, e.name); err != nil {
		t.fail("", e.source(), e.target(), err)
		return
	}
	e.dir.pending.Add(1)
	if e.facts.mode.IsRegular() && !t.budget.isSmall(e.facts.size) &&
		(e.facts.size < 0 || e.facts.size > int64(t.budget.stepwise)) {
		w.spread.share(w, e.facts.size)
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

// hireSmall starts another worker for small files, up to the limit. At the limit one will be free
// soon, since workers stay until the end.
func (w *walk) hireSmall() {
	if w.workers.Load() < int64(w.most) && w.workers.Add(1) <= int64(w.most) {
		w.working.Go(w.workSmall)
	}
}

// workSmall copies small files until the walk is over. With thousands in progress each file gets a
// fresh goroutine: the last steps, on this machine's file system, go deeper than those that wait
// for a reply, and a stack that has grown would stay grown while waiting with the next file. With
// fewer, growing a stack for each file would cost more than it saves.
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
	if t.sync != nil && t.sync.prepare(e) {
		return
	}
	if e.facts.mode&fs.ModeSymlink != 0 {
		w.copyLink(e)
		return
	}
	c := newFileCopy(t.job, e, e.source(), e.target())
	c.name = path.Join(t.below, e.rel())
	err := c.copy()
	w.copied(c, err)
}

// copied counts a file that was copied, kept or failed.
func (w *walk) copied(c *fileCopy, err error) {
	t := w.tree
	c.freeHandle()
	keeps := errors.Is(err, errKept)
	bytes := c.result.Bytes
	if err != nil {
		bytes = 0
	}
	t.finished(c, bytes)
	if err == nil || keeps {
		for _, conn := range t.conns() {
			conn.Arrived()
		}
	}
	switch {
	case err == nil:
		t.count(&t.sums.Files, 1)
		c.tellEnd(nil)
		t.bottlenecks.add(c.result.Bottleneck, c.result.Bytes)
	case keeps:
		t.kept(&c.entry.facts)
		c.tellKept()
	case t.sync.vanished(c.source, err):
	case t.ending(err) && (c.result.LeftBehind == "" || t.budget.isSmall(c.entry.facts.size)):
		if mayLeave(c) { // how many files is reported once, at the end
			t.litter.leaves(false)
		}
	default:
		if mayLeave(c) {
			t.litter.leaves(true)
		}
		t.count(&t.sums.Failed, 1)
		c.tellEnd(err)
		t.failFirst(err)
	}
}

// copyLink recreates a symbolic link of the source.
func (w *walk) copyLink(e *entry) {
	t := w.tree
	to, err := t.src.readLink(e.source())
	if err == nil {
		err = t.dst.makeLink(e, to)
	}
	if err == nil {
		err = w.finishLink(e)
	}
	if err != nil {
		t.fail("", e.source(), e.target(), err)
		return
	}
	t.count(&t.sums.Links, 1)
}

// finishLink gives a symbolic link its source's owner and times, if wanted. If the target cannot
// set them on links, that is reported once: as with rsync it is no failure, since what matters is
// the file that the link leads to.
func (w *walk) finishLink(e *entry) error {
	t := w.tree
	var set usftp.NewAttrs
	if err := t.options.addOwner(&set, e.facts.owner); err != nil {
		return err
	}
	if t.options.Preserve && !t.options.NoTimes && e.facts.hasTimes {
		set.SetTimes = true
		set.Atime, set.Mtime = e.facts.times()
	}
	if !set.SetOwner && !set.SetTimes {
		return nil
	}
	err := t.dst.finishLink(e, set)
	if errors.Is(err, errors.ErrUnsupported) {
		w.plainLinks.Do(func() {
			t.warn(t.route.Source, t.root.target,
				"symbolic links do not get the owners and times of their sources: the target cannot set them")
		})
		return nil
	}
	return err
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
	if d.failed || t.options.DryRun || t.ctx.Err() != nil {
		t.dst.leave(d)
		return
	}
	w.finishing.Go(func() {
		defer t.dst.leave(d)
		if err := t.dst.finishDir(d); err != nil {
			if t.options.Preserve {
				t.fail("", d.source, d.target, err)
			} else if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
				t.warn(d.source, d.target,
					"cannot set the directory's attributes: "+err.Error())
			}
		}
	})
}

// spread distributes a tree's large files over the sessions of a pool: while there are many, each
// uses one session, and the last ones use several.
type spread struct {
	bytes  atomic.Int64 // of files found and not copied yet
	files  atomic.Int64
	hiring sync.Map // pools that workers are being hired for
	ended  sync.Once
	none   chan struct{} // closed when no large file waits, nor will
}

const (
	fewFiles = 4 // once this few are left, each large file may use several sessions

	// perSession is how many large files are in progress per session, so that it is never idle
	// while one of them is opened or closed.
	perSession = 2
)

// share counts a large file, and opens connections if all those found so far are worth it.
func (s *spread) share(w *walk, size int64) {
	t := w.tree
	s.files.Add(1)
	bytes := s.bytes.Add(max(0, size))
	if t.limiter != nil || !flow.WorthStriping(bytes, t.budget.trip) {
		return
	}
	for _, conn := range t.conns() {
		pool := conn.Host().Pool
		if pools.OfPool(pool).Size() < 2 {
			continue
		}
		pool.Want(flow.FirstConnections(bytes, t.budget.trip), 0)
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
			w.working.Go(w.workLarge)
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

// workLarge copies large files until none is left and the walk is over.
func (w *walk) workLarge() {
	for e := range w.large {
		if w.tree.ctx.Err() == nil {
			w.copy(e)
		}
		w.spread.bytes.Add(-max(0, e.facts.size))
		w.spread.files.Add(-1)
		w.done(e.dir)
	}
	w.spread.ended.Do(func() { close(w.spread.none) })
}

// names remembers the names of a listing, so that an interrupted listing can start over without
// repeating anything. It keeps eight bytes per name. Among a million names, the chance that two
// collide, so that a file is missed, is one in thirty million, and the random seed keeps an
// attacker from raising it.
type names struct {
	seed  maphash.Seed
	added [][]uint64          // since the listing started, in pieces so that growing copies little
	known map[uint64]struct{} // before it started over
}

func newNames() *names { return &names{seed: maphash.MakeSeed()} }

func (n *names) add(name string) {
	const piece = 4096
	last := len(n.added) - 1
	if last < 0 || len(n.added[last]) == piece {
		n.added = append(n.added, nil)
		last++
	}
	n.added[last] = append(n.added[last], maphash.String(n.seed, name))
}

// has reports whether a name was seen before the listing started over.
func (n *names) has(name string) bool {
	if n.known == nil {
		return false
	}
	_, there := n.known[maphash.String(n.seed, name)]
	return there
}

// again starts the listing over.
func (n *names) again() {
	if n.known == nil {
		n.known = make(map[uint64]struct{})
	}
	for _, piece := range n.added {
		for _, sum := range piece {
			n.known[sum] = struct{}{}
		}
	}
	n.added = nil
}
