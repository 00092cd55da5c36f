package transfer

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/internal/private"
)

// An ahead counts the files of a tree that is being copied, so that its size is known long before
// the walk ends: the walk keeps the entries it finds in memory until they are copied, and so cannot
// be far ahead. The count keeps nothing. It lists the source a second time, and gives up if it
// cannot: the copy itself reports the error.
type ahead struct {
	tree  *tree
	group errgroup.Group
	quit  chan struct{}
	over  atomic.Bool // the count is not wanted or not possible
	found atomic.Int64

	mu           sync.Mutex
	files, bytes int64
}

const (
	// aheadAfter is how often to check whether the walk has to wait for the copies: only then is it
	// worth listing the source twice.
	aheadAfter = time.Second
	// aheadLists is how many directories are listed at once.
	aheadLists = 8
	// mostAhead limits the subdirectories of one directory kept in memory.
	mostAhead = 1 << 14
)

// countAhead counts the source once the walk has to wait for the copies, until stop is called. stop
// does not wait for the host: the job's end does.
func (r *treeReport) countAhead() (stop func()) {
	t := r.t
	if !t.rules.counts || t.options.Links == LinksFollow || t.options.MinAge > 0 {
		return func() {}
	}
	a := &ahead{tree: t, quit: make(chan struct{})}
	a.group.SetLimit(aheadLists)
	t.copies.Work.Go(func() {
		ticker := time.NewTicker(aheadAfter)
		defer ticker.Stop()
		for {
			select {
			case <-a.quit:
				return
			case <-t.ctx.Done():
				return
			case <-ticker.C:
				if t.walk.full() {
					a.count()
					return
				}
			}
		}
	})
	return func() {
		a.over.Store(true)
		close(a.quit)
	}
}

func (a *ahead) count() {
	t := a.tree
	if conn := t.src.Conn(); conn != nil && private.OfClient(conn.Host().Client).OneHandle() {
		return // it would keep the copy from opening files
	}
	a.visit(&directory{tree: t, source: t.root.source, rel: ".", info: t.root.info})
	a.group.Wait()
	if a.ends() || a.bytes < 0 {
		return
	}
	t.treeReport.mu.Lock()
	defer t.treeReport.mu.Unlock()
	t.sums.CountedFiles, t.sums.CountedBytes = a.files, a.bytes
}

// ends reports whether to stop counting, as when the walk has found everything.
func (a *ahead) ends() bool {
	if a.over.Load() || a.tree.ctx.Err() != nil {
		return true
	}
	r := &a.tree.treeReport
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sums.Complete
}

// visit counts the files in a directory and below it.
func (a *ahead) visit(d *directory) {
	t := a.tree
	err := t.plan.readIgnore(d)
	if err != nil {
		a.over.Store(true)
		return
	}
	var below []*directory
	files, bytes := int64(0), int64(0)
	err = t.list(d, func(e *entry, err error) bool {
		mode := e.info.Mode
		switch {
		case err != nil || t.tooMany(a.found.Add(1)) || len(below) == mostAhead:
			a.over.Store(true)
		case d.excludes(e.name, mode.IsDir()):
		case mode.IsRegular():
			files++
			bytes += max(0, e.info.Size)
		case mode.IsDir() && !t.tooDeep(d.depth+1):
			sub := d.child(e.name)
			sub.info = e.info
			below = append(below, sub)
		}
		return !a.over.Load() && t.ctx.Err() == nil
	})
	if err != nil {
		a.over.Store(true)
	}
	a.mu.Lock()
	a.files += files
	a.bytes += bytes
	a.mu.Unlock()
	for _, sub := range below {
		if a.ends() {
			return
		}
		again := func() error { a.visit(sub); return nil }
		if !a.group.TryGo(again) {
			again()
		}
	}
}
