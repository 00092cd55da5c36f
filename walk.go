package usftp

import (
	"container/heap"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
)

const (
	// leastListings and mostListings are how many directories a walk lists at once, at first and at
	// most. Servers limit open handles, OpenSSH's to about a thousand.
	leastListings = 16
	mostListings  = 128

	// mostAhead is how many entries a walk lists ahead of the visit, besides those of the directory
	// it waits for: some 10 MB.
	mostAhead = 1 << 15
)

// WalkDir walks the tree at root like [path/filepath.WalkDir], calling fn for each file and
// directory in lexical order, including root; errors, [fs.SkipDir] and [fs.SkipAll] work as there.
// It does not follow symbolic links. Entries carry their attributes, so Info sends no request.
//
// fn is called on the calling goroutine, one call at a time, while up to 128 directories ahead of
// it are being listed. So a walk over a long link takes a few round trips for each hundred
// directories, and changes made by fn may come too late to be seen by later calls. Memory holds the
// listings on the current path and some ten thousand entries more.
func (c *Client) WalkDir(root string, fn fs.WalkDirFunc) error {
	info, err := privateClient{c}.Look(root)
	if err != nil {
		err = fn(root, nil, err)
	} else {
		top := NewFile(c, root)
		top.remember(info.Sys().(*FileStat))
		err = c.walk(top, fn)
	}
	if err == fs.SkipDir || err == fs.SkipAll {
		return nil
	}
	return err
}

func (c *Client) walk(top *File, fn fs.WalkDirFunc) error {
	ctx, cancel := context.WithCancel(c.ctx)
	w := &walk{client: c.WithContext(ctx), owner: c, fn: fn, limit: leastListings,
		most: mostListings}
	if handles := c.openHandles(); handles > 0 {
		w.most = int(min(mostListings, max(1, handles/2)))
	}
	w.quiet.L = &w.mu
	defer w.lists.Wait()
	defer cancel()
	return w.visit(&walkDir{file: top, index: -1}, top)
}

// Walk is [Client.WalkDir] as an iterator over closed Files with their attributes, in lexical
// order, root first. An error comes with the File of the directory it is about, or nil for root,
// and the walk continues after it. Use WalkDir to skip a directory.
func (c *Client) Walk(root string) iter.Seq2[*File, error] {
	return func(yield func(*File, error) bool) {
		c.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
			var f *File
			if d != nil {
				f = d.(dirEntry).file
			}
			if !yield(f, err) {
				return fs.SkipAll
			}
			return nil
		})
	}
}

// walk is a tree being walked: one goroutine visits, and others list ahead of it in the order of
// the visit.
type walk struct {
	client *Client // with the walk's context
	owner  *Client
	fn     fs.WalkDirFunc

	lists sync.WaitGroup

	mu      sync.Mutex
	waiting dirHeap // directories that are known and not being listed
	active  int     // listings under way
	started int     // listings started so far
	limit   int     // limit of active
	most    int     // how far limit may grow
	ahead   int     // entries listed and not visited
	alone   bool    // no other listing may begin
	quiet   sync.Cond
}

// walkDir is a directory of the tree.
type walkDir struct {
	file  *File
	key   string // sorts as the walk visits
	index int    // in the heap; -1 when not there

	listed  chan struct{} // closed when the listing is done; nil before it has started
	left    bool          // by the walk, which does not come back
	entries []*File       // sorted
	counted int           // of the entries in walk.ahead
	dirs    map[*File]*walkDir
	err     error
	crowded bool // it failed while others were being listed
}

// visit calls fn for a file and what lies below it. dir is the file's place in the tree if it is a
// directory.
func (w *walk) visit(dir *walkDir, f *File) error {
	if w.owner.ctx.Err() != nil {
		return context.Cause(w.owner.ctx)
	}
	entry := f.DirEntry()
	err := w.fn(f.Name(), entry, nil)
	if dir == nil || !f.IsDir() {
		return err
	}
	defer w.leave(dir)
	if err == nil {
		err = w.visitBelow(dir, entry)
	}
	if err == fs.SkipDir {
		return nil
	}
	return err
}

// visitBelow visits the contents of a directory. fs.SkipDir skips the rest of it.
func (w *walk) visitBelow(dir *walkDir, entry fs.DirEntry) error {
	w.await(dir)
	if w.owner.ctx.Err() != nil {
		return context.Cause(w.owner.ctx)
	}
	if dir.err != nil {
		if err := w.fn(dir.file.Name(), entry, dir.err); err != nil {
			return err
		}
	}
	for i, child := range dir.entries {
		w.mu.Lock()
		w.ahead--
		dir.counted--
		below := dir.dirs[child]
		delete(dir.dirs, child)
		w.launch()
		w.mu.Unlock()
		dir.entries[i] = nil
		if err := w.visit(below, child); err != nil {
			return err
		}
	}
	return nil
}

// leave stops listing in a directory and below it, and drops what was listed.
func (w *walk) leave(dir *walkDir) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(dir)
}

// forget leaves a directory for a caller that holds the lock.
func (w *walk) forget(dir *walkDir) {
	dir.left = true
	w.ahead -= dir.counted
	dir.counted, dir.entries = 0, nil
	if dir.index >= 0 {
		heap.Remove(&w.waiting, dir.index)
	}
	for _, child := range dir.dirs {
		w.forget(child)
	}
	dir.dirs = nil
}

// await waits until a directory is listed; if that has not started it comes first.
func (w *walk) await(dir *walkDir) {
	w.mu.Lock()
	if dir.index >= 0 {
		heap.Remove(&w.waiting, dir.index)
	}
	if dir.listed == nil {
		w.begin(dir)
	}
	listed := dir.listed
	w.mu.Unlock()
	<-listed
	if !dir.crowded {
		return
	}
	// It may have failed because too much was open at once, for which version 3 has no code: list
	// it again, alone.
	w.mu.Lock()
	w.limit = max(1, w.limit/2)
	w.most = w.limit
	w.alone = true
	for w.active > 0 {
		w.quiet.Wait()
	}
	w.forget(dir)
	dir.left, dir.err = false, nil
	w.begin(dir)
	w.alone = false
	listed = dir.listed
	w.mu.Unlock()
	<-listed
}

// launch starts as many listings as allowed. The caller holds the lock.
func (w *walk) launch() {
	for !w.alone && w.active < w.limit && w.ahead < mostAhead && len(w.waiting) > 0 {
		w.begin(heap.Pop(&w.waiting).(*walkDir))
	}
}

// begin starts to list a directory. The caller holds the lock.
func (w *walk) begin(dir *walkDir) {
	dir.listed = make(chan struct{})
	w.active++
	w.started++
	others, startedThen := w.active > 1, w.started
	w.lists.Go(func() { w.list(dir, func() bool { return others || w.started != startedThen }) })
}

// list lists a directory and records the directories in it. crowd reports, to a caller that holds
// the lock, whether others were listed in the meantime.
func (w *walk) list(dir *walkDir, crowd func() bool) {
	entries, err := w.client.ReadDir(dir.file.Name())
	if err == nil {
		err = w.client.statUnknown(entries)
	}
	for _, f := range entries {
		f.ctx = w.owner.ctx
	}
	// they differ in the last element only
	slices.SortFunc(entries, func(a, b *File) int { return strings.Compare(a.path, b.path) })
	w.mu.Lock()
	defer w.mu.Unlock()
	defer close(dir.listed)
	w.active--
	w.quiet.Signal()
	if err == nil && w.limit < w.most {
		w.limit++
	}
	if !dir.left {
		w.keep(dir, entries)
		dir.err = err
		dir.crowded = crowd() && errors.Is(err, ErrSSHFxFailure)
	}
	w.launch()
}

// keep takes the entries of a directory. The caller holds the lock.
func (w *walk) keep(dir *walkDir, entries []*File) {
	dir.entries, dir.counted = entries, len(entries)
	w.ahead += len(entries)
	for _, f := range entries {
		if !f.IsDir() {
			continue
		}
		child := &walkDir{file: f, key: dir.key + path.Base(f.path) + "\x00"}
		if dir.dirs == nil {
			dir.dirs = make(map[*File]*walkDir)
		}
		dir.dirs[f] = child
		heap.Push(&w.waiting, child)
	}
}

// statUnknown looks at entries that were listed without a mode.
func (c *Client) statUnknown(entries []*File) error {
	var unknown []*File
	var names []string
	for _, f := range entries {
		if !f.attrs.HasMode() {
			unknown, names = append(unknown, f), append(names, f.path)
		}
	}
	var failed error
	privateClient{c}.LookAll(names, func(i int, info fs.FileInfo, err error) {
		if err == nil {
			unknown[i].remember(info.Sys().(*FileStat))
		} else if c.ctx.Err() != nil {
			failed = err
		}
	})
	return failed
}

// dirHeap holds directories in the order of the walk.
type dirHeap []*walkDir

func (h dirHeap) Len() int           { return len(h) }
func (h dirHeap) Less(i, j int) bool { return h[i].key < h[j].key }

func (h dirHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *dirHeap) Push(x any) {
	dir := x.(*walkDir)
	dir.index = len(*h)
	*h = append(*h, dir)
}

// Pop implements heap.Interface.
func (h *dirHeap) Pop() any {
	last := len(*h) - 1
	dir := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	dir.index = -1
	return dir
}
