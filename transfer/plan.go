package transfer

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"sync"
	"sync/atomic"
	"time"
)

// facts are what is known of a source's entry.
type facts struct {
	mode     fs.FileMode
	hasMode  bool
	size     int64 // -1 where it is not known
	mtime    time.Time
	atime    time.Time
	hasTimes bool
	owner    owner
	info     fs.FileInfo // of a local entry, or of one that is relayed
}

// localTimes returns the times for a local copy. OpenSSH sends a time before 1970 as the low 32 bits of
// its seconds, which read as a time after 2038; so of a server's time that lies more than a year
// ahead, the past one is meant.
func (f facts) localTimes() (atime, mtime time.Time) {
	if f.info != nil { // not from a server
		return f.atime, f.mtime
	}
	soon := time.Now().AddDate(1, 0, 0)
	past := func(t time.Time) time.Time {
		if seconds := t.Unix(); seconds > math.MaxInt32 && t.After(soon) {
			return time.Unix(int64(int32(seconds)), 0)
		}
		return t
	}
	return past(f.atime), past(f.mtime)
}

// directory is one directory of the tree, from when it is found until all in it is done.
type directory struct {
	tree           *treeRun
	parent         *directory // nil for the source itself
	source, target string     // paths
	rel            string     // path from the source on, with slashes; "." for the source itself
	depth          int
	facts          facts
	// where it is, links followed; only with FollowLinks, and only on a host
	real        string
	names       map[string]bool // of its entries, where names that differ may be one
	fresh       bool            // we have made it
	failed      bool            // it could not be made
	noTemporary atomic.Bool     // it takes no temporary files
	pending     atomic.Int64
}

// item is one file or link to copy.
type item struct {
	dir   *directory
	name  string
	facts facts

	sought bool // a check has looked for it, through links
}

func (i *item) source() string { return i.dir.tree.source.join(i.dir.source, i.name) }

// rel is the path from the source on, with slashes.
func (i *item) rel() string { return path.Join(i.dir.rel, i.name) }

func (i *item) target() string { return i.dir.tree.target.join(i.dir.target, i.name) }

// plan is what is to be done and who does it: walkers take directories, make them at the target and
// list them at the source, while workers copy what they have found. Memory is bounded: walkers wait
// while enough is found, and directories that no walker is free for are walked at once, depth
// first, when many wait.
type plan struct {
	tree  *treeRun
	small chan *item
	large chan *item

	mu      sync.Mutex
	changed sync.Cond
	waiting []*directory // the last one found is walked first
	walking int

	walkers int
	most    int // workers for small files
	workers atomic.Int64
	spread  spread
	working sync.WaitGroup
}

const (
	walkers      = 16
	largeWorkers = 4
	mostWaiting  = 4096 // directories
)

func newPlan(t *treeRun, most int) *plan {
	// a listing of a host's brings nothing for a round trip, in which as many may be done
	ahead := most
	if !t.Direction.fromHost() {
		ahead = min(most, 256)
	}
	p := &plan{tree: t, walkers: walkers, most: most, small: make(chan *item, ahead),
		large: make(chan *item, 64)}
	p.changed.L = &p.mu
	return p
}

// run walks and copies until all is done, or the tree's context is.
func (p *plan) run() {
	p.spread.none = make(chan struct{})
	for range largeWorkers {
		p.working.Go(p.workLarge)
	}
	p.push(p.tree.root)
	var walking sync.WaitGroup
	for range p.walkers {
		walking.Go(p.walk)
	}
	walking.Wait()
	p.lookForUnmet()
	p.tree.complete.Store(p.tree.ctx.Err() == nil)
	close(p.small)
	close(p.large)
	p.working.Wait()
}

func (p *plan) push(d *directory) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, d)
	p.changed.Signal()
}

// walk takes directories until there are none, and nobody is left who could find any.
func (p *plan) walk() {
	for {
		p.mu.Lock()
		for len(p.waiting) == 0 && p.walking > 0 {
			p.changed.Wait()
		}
		n := len(p.waiting)
		if n == 0 {
			p.mu.Unlock()
			p.changed.Broadcast()
			return
		}
		d := p.waiting[n-1]
		p.waiting[n-1] = nil
		p.waiting = p.waiting[:n-1]
		p.walking++
		p.mu.Unlock()
		p.visit(d)
		p.mu.Lock()
		p.walking--
		p.mu.Unlock()
		p.changed.Broadcast()
	}
}

// visit makes a directory at the target and hands out what lies in it.
func (p *plan) visit(d *directory) {
	t := p.tree
	defer d.done()
	if t.ctx.Err() != nil {
		return
	}
	if !t.TreeOptions.DryRun {
		fresh, err := t.target.makeDir(d)
		if err != nil {
			d.failed = true
			t.fail(d.source, d.target, err)
			return
		}
		d.fresh = fresh
	}
	err := t.source.list(d, func(i *item, err error) bool {
		if err != nil {
			t.fail(t.source.join(d.source, i.name), d.target, err)
		} else {
			p.found(i)
		}
		return t.ctx.Err() == nil
	})
	if err != nil {
		t.fail(d.source, d.target, err)
		return
	}
	t.directories.Add(1)
}

// found decides about an entry.
func (p *plan) found(i *item) {
	t := p.tree
	most := t.TreeOptions.MaxEntries
	if most == 0 {
		most = defaultEntries
	}
	if n := t.entries.Add(1); most > 0 && n > most {
		if n == most+1 {
			t.fail(t.Source, t.root.target, ErrTreeTooLarge)
			t.cancel(ErrTreeTooLarge)
		}
		return
	}
	rel := i.rel()
	if !t.filter.wants(rel, i.facts.mode.IsDir()) {
		return
	}
	if t.Direction == Checking && !t.checks(i.facts.mode) {
		return
	}
	if i.facts.mode&fs.ModeSymlink != 0 && !p.link(i, rel) {
		return
	}
	mode := i.facts.mode
	switch {
	case mode.IsDir():
		p.enter(i, rel)
	case mode.IsRegular() && t.Direction != Checking && t.isUnderWay(i.name, i.facts.mtime):
		t.skip(i.source(), "it is the temporary file of a copy that is under way")
	case mode.IsRegular():
		p.hand(i)
	case mode&fs.ModeSymlink != 0:
		p.hand(i)
	default:
		t.skip(i.source(), "it is "+kindOf(mode)+", and not copied")
	}
}

// link decides about a symbolic link, and looks at what it leads to where that is wanted. It
// returns false where nothing is to be done.
func (p *plan) link(i *item, rel string) bool {
	t := p.tree
	switch t.TreeOptions.Links {
	case SkipLinks:
		t.skip(i.source(), "it is a symbolic link")
		return false
	case FollowLinks:
		found, err := t.source.look(i.source())
		if err != nil {
			t.fail(i.source(), i.target(), err)
			return false
		}
		i.facts = found
		return t.filter.wants(rel, found.mode.IsDir())
	}
	return true
}

// enter has a directory walked.
func (p *plan) enter(i *item, rel string) {
	t := p.tree
	d := &directory{tree: t, parent: i.dir, source: i.source(), target: i.target(), rel: rel,
		depth: i.dir.depth + 1, facts: i.facts}
	most := t.TreeOptions.MaxDepth
	if most == 0 {
		most = defaultDepth
	}
	err := t.target.check(i.dir, i.name)
	if most > 0 && d.depth > most {
		err = ErrTreeTooDeep
	}
	if err != nil {
		t.fail(d.source, d.target, err)
		return
	}
	if t.TreeOptions.Links == FollowLinks {
		if why := t.source.loops(d); why != "" {
			t.skip(d.source, why)
			return
		}
	}
	d.pending.Store(1)
	d.parent.pending.Add(1)
	p.mu.Lock()
	full := len(p.waiting) >= mostWaiting
	p.mu.Unlock()
	if full {
		p.visit(d)
		return
	}
	p.push(d)
}

// hand gives a file or a link to the workers, and waits until one of them can take it.
func (p *plan) hand(i *item) {
	t := p.tree
	if t.unlisted(i) {
		return
	}
	if i.facts.mode.IsRegular() {
		t.plannedFiles.Add(1)
		planned := t.plannedBytes.Add(max(0, i.facts.size))
		if planned < 0 { // sizes are the server's word
			t.plannedBytes.Store(math.MaxInt64 / 2)
		}
	}
	if t.TreeOptions.DryRun {
		t.tell(Event{Kind: Planned, Source: i.source(), Target: i.target(), Size: i.facts.size})
		return
	}
	if err := t.target.check(i.dir, i.name); err != nil {
		t.fail(i.source(), i.target(), err)
		return
	}
	i.dir.pending.Add(1)
	queue := p.large
	if !i.facts.mode.IsRegular() || t.isSmall(i.facts.size) ||
		i.facts.size >= 0 && i.facts.size <= int64(t.stepwise) {
		queue = p.small
		select {
		case queue <- i:
			if len(queue) > 0 {
				p.hireSmall()
			}
		default:
			p.hireSmall()
			queue <- i
		}
		return
	}
	p.share(i.facts.size)
	queue <- i
}

// hireSmall starts another worker for small files, where there may be one more. Else one will be
// free soon: all that have begun are still there.
func (p *plan) hireSmall() {
	if p.workers.Load() < int64(p.most) && p.workers.Add(1) <= int64(p.most) {
		p.working.Go(func() { p.work(p.small) })
	}
}

// work copies what is found until the walk is over. Where thousands are in flight each file has a
// goroutine of its own: its last steps, on this machine's file system, go deeper than those in
// which it waits for a reply, and a stack that has grown would wait with the next files. Elsewhere
// to let it grow for each would cost more than it saves.
func (p *plan) work(queue <-chan *item) {
	for i := range queue {
		if p.tree.ctx.Err() == nil {
			p.tree.copy(i)
		}
		i.dir.done()
		if p.most > 256 {
			p.working.Go(func() { p.work(queue) })
			return
		}
	}
}

// copy copies a file or a link.
func (t *treeRun) copy(i *item) {
	if i.facts.mode&fs.ModeSymlink != 0 {
		t.copyLink(i)
		return
	}
	r := &run{ctx: t.ctx, began: time.Now(), line: t.line, from: t.from, limiter: t.limiter,
		item: i, trip: t.trip, name: path.Join(t.below, i.rel())}
	r.Direction, r.Source, r.Target = t.Direction, i.source(), i.target()
	// not by way of a Job, which would be twice on the stack of each file in flight
	r.Options = t.Options
	err := r.copy()
	t.copied(r, err)
}

// copied counts a file that was copied, or was not, and tells.
func (t *treeRun) copied(r *run, err error) {
	r.freeHandle()
	if err == nil || errors.Is(err, errKept) {
		t.line.arrive()
		if t.from != nil && t.from != t.line {
			t.from.arrive()
		}
	}
	if err == nil {
		t.files.Add(1)
		t.bytes.Add(r.result.Bytes)
		r.tellDone()
		t.bounds.add(r.result.Bound, r.result.Bytes)
		return
	}
	if errors.Is(err, errKept) {
		t.kept.Add(1)
		t.keptBytes.Add(max(0, r.item.facts.size))
		r.tell(Event{Kind: Kept, Size: r.item.facts.size, Hash: r.hash})
		return
	}
	if t.ending(err) && (r.result.LeftBehind == "" || t.isSmall(r.item.facts.size)) {
		return // what is left of a small file is worth no word
	}
	t.failed.Add(1)
	r.tell(Event{Kind: Failed, Size: r.size, Bytes: r.result.Bytes, Elapsed: r.result.Elapsed,
		LeftBehind: r.result.LeftBehind, Err: err, Message: err.Error()})
	t.failedFirst(err)
}

// copyLink makes a symbolic link like the source's.
func (t *treeRun) copyLink(i *item) {
	to, err := t.source.readLink(i.source())
	if err == nil {
		err = t.target.makeLink(i, to)
	}
	if err == nil {
		err = t.finishLink(i)
	}
	if err != nil {
		t.fail(i.source(), i.target(), err)
		return
	}
	t.links.Add(1)
}

// done counts one thing in the directory that is done. When it was the last, the directory gets its
// attributes, and the one above counts it.
func (d *directory) done() {
	for ; d != nil && d.pending.Add(-1) == 0; d = d.parent {
		d.tree.finish(d)
	}
}

// finish gives a directory that is complete what it has besides entries. That changes nothing of
// the directory above, which so need not wait.
func (t *treeRun) finish(d *directory) {
	if d.failed || t.TreeOptions.DryRun || t.ctx.Err() != nil {
		t.target.leave(d)
		return
	}
	t.finished.Go(func() {
		defer t.target.leave(d)
		if err := t.target.finishDir(d); err != nil {
			if t.Options.Preserve {
				t.fail(d.source, d.target, err)
			} else if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
				t.note(d.source, d.target, "the directory cannot have the attributes of its source: "+err.Error())
			}
		}
	})
}

// isSmall tells whether a file of a size travels in one piece.
func (t *treeRun) isSmall(size int64) bool { return size >= 0 && size <= int64(t.small) }
