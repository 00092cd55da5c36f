package verb

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/treewalk"
)

// A walk visits trees on a host for all recursive verbs; see [treewalk.Walk]. It follows no
// symbolic link.
//
// Unlike [usftp.Client.WalkDir] it yields a directory's entries together, in any order that ls
// supports, and holds only part of a directory if the order does not matter.
type walk struct {
	*job

	// order sorts a directory's entries. Nil means by name, and that a directory of more than
	// treewalk.MostPart entries comes in several parts, each sorted.
	order func(a, b *entry) int

	// descend reports whether a directory should be listed, unless the visit skips it. It is called
	// on other goroutines, before the visit. Nil means always.
	descend func(d *dir) bool

	// prepare requests more attributes before entries are visited, on the goroutine that lists.
	prepare func(d *dir, entries []*entry)

	// enter, each and leave are those of [treewalk.Walk]. Any of them may be nil. From each,
	// fs.SkipDir has no effect unless the entry is a directory.
	enter func(d *dir, entries []*entry) error
	each  func(d *dir, e *entry, below *dir) error
	leave func(d *dir) error

	// changes is set by verbs that change the files visited, and follows by verbs that follow operands
	// that are links: see [walk.guard].
	changes, follows bool

	again func() // see [treewalk.Walk.Again]
	trees treewalk.Walk[*entry, dir, *dir]
}

// A dir is a directory of the tree. The fields for visitors are set before they see it.
type dir struct {
	treewalk.Dir[*entry, *dir]
	entry  *entry
	path   string        // as printed
	parent *dir          // nil for an operand
	client *usftp.Client // for requests on its entries
	depth  int           // 0 for an operand

	guarded bool // the client follows no link in it
	looks   bool // the walk checks whether a link has taken its place

	// For visitors to use.
	failed  bool
	pending int
	done    func()
	sum     uint64
	count   int // entries visited
	removed int // entries removed

	order int // among the operands
}

// run walks the trees at the operands, in order. It passes operands that are not directories to
// each, with a nil directory. A visitor's error ends the verb, except errQuit.
func (w *walk) run(operands []*entry) {
	handles := uint64(0)
	if limits, err := w.client.Limits(); err == nil {
		handles = limits.MaxOpenHandles
	}
	w.trees = treewalk.Walk[*entry, dir, *dir]{List: w.list, Below: w.child, Before: w.before,
		Descend: w.descend, Complete: w.complete, Whole: w.order != nil, Enter: w.enter,
		Each: w.visit, Leave: w.leave, Stopped: w.stopped, Again: w.again,
		Crowded: func(err error) bool { return errors.Is(err, usftp.ErrSSHFxFailure) }}
	w.trees.Begin(w.ctx, handles)
	defer w.trees.End()
	top := make([]*dir, len(operands))
	for i, e := range operands {
		if e.isDir() {
			top[i] = &dir{entry: e, path: e.name, order: i, client: w.client}
			if w.changes {
				w.guard(top[i], w.follows)
			}
			w.trees.Add(top[i])
		}
	}
	for i, e := range operands {
		if err := w.trees.Visit(nil, e, top[i]); err != nil {
			if w.err == nil && err != errQuit {
				w.err = err
			}
			return
		}
	}
}

// visit calls each. Only directories can be skipped.
func (w *walk) visit(in *dir, e *entry, below *dir) (err error) {
	if w.each != nil {
		err = w.each(in, e, below)
	}
	if below == nil && err == fs.SkipDir {
		return nil
	}
	return err
}

// list lists a directory.
func (w *walk) list(ctx context.Context, d *dir) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		for f, err := range d.client.WithContext(ctx).Entries(w.at(d.path)) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&entry{name: f.BaseName(), stat: *f.FileStat()}, nil) {
				return
			}
		}
	}
}

// child returns the dir of an entry that is a directory, or nil.
func (w *walk) child(in *dir, e *entry) *dir {
	if !e.isDir() {
		return nil
	}
	return &dir{entry: e, path: below(in.path, e.name), parent: in, depth: in.depth + 1,
		client: in.client, guarded: in.guarded, looks: w.changes && !in.guarded}
}

// complete requests the attributes that the listing lacks, and sorts.
func (w *walk) complete(d *dir, entries []*entry) (moved func() error) {
	if w.prepare != nil && len(entries) > 0 {
		w.prepare(d, entries)
	}
	order := w.order
	if order == nil {
		order = byName
	}
	slices.SortStableFunc(entries, order)
	return w.look(d, entries)
}

func byName(a, b *entry) int { return strings.Compare(a.name, b.name) }

// listed reports why a directory cannot be listed; it is the enter function of several verbs.
func (j *job) listed(d *dir, _ []*entry) error {
	if d.Err != nil {
		j.fail("list", d.path, d.Err)
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
