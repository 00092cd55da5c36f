package verb

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Find implements find: it visits the trees at some operands and evaluates an expression for each
// file. A directory's entries come sorted by name. Links are not followed.
func Find(ctx context.Context, env *Env, e *Expression, names []string) error {
	f := &finder{job: env.begin(ctx), e: e}
	f.start = f.now()
	f.remover = newRemover(f.job)
	f.find(names)
	return f.end()
}

// finder is one run of find.
type finder struct {
	*job
	e       *Expression
	start   time.Time
	walk    *walk
	remover *remover
	newer   map[string]time.Time // the times of files named by -newer
	held    []*argumentList      // of -exec
	quit    bool                 // stop carrying out actions
}

// A visit is a file being evaluated.
type visit struct {
	*finder
	path  string
	depth int
	entry *entry
	in    *dir // nil for an operand
	dir   *dir // if it is a directory
	prune bool
	last  bool // its directory has been visited

	lacking string // what a test of it needs, and the server has not sent; "" if nothing
}

// lacks notes that a test cannot tell. It is false then, but with a ! before it true, so that
// nothing must be done with the file.
func (v *visit) lacks(what string) bool {
	v.lacking = what
	return false
}

// untold reports whether a test could not tell, which keeps an action from being carried out.
func (v *visit) untold(action string) bool {
	if v.lacking != "" {
		v.fail(action, v.path, errors.New("the server does not report its "+v.lacking))
	}
	return v.lacking != ""
}

var errQuit = errors.New("find has quit")

func (f *finder) find(names []string) {
	if f.e.deletes {
		for _, name := range names {
			if strings.Trim(name, "/") == "" {
				f.fail("delete in", name, errors.New("is the root directory"))
				return
			}
		}
	}
	if f.e.named != "" && !tellsOwners(f.client) {
		f.failed("tell what belongs to "+f.e.named, f.e.named,
			errors.New("the server does not report names; use a number"))
		return
	}
	f.lookUpNewer()
	found := f.lookup(names, followNever, func(name string, err error) {
		if f.e.deletes && f.Again && f.earlier.hasMet(name) && errors.Is(err, fs.ErrNotExist) {
			return
		}
		f.fail("access", name, err)
	})
	if f.over() {
		return
	}
	f.walk = &walk{job: f.job, each: f.each, enter: f.enter, leave: f.leave, changes: f.e.deletes,
		descend: func(d *dir) bool { return f.e.maxDepth < 0 || d.depth < f.e.maxDepth }}
	f.prepare(nil, found)
	f.walk.prepare = f.prepare
	f.walk.run(found)
	f.remover.ops.drain()
	f.runRest()
}

// prepare asks for attributes that a listing lacks: the names of owners and the targets of links,
// if the expression uses them.
func (f *finder) prepare(d *dir, entries []*entry) {
	if f.e.owners || f.JSON {
		f.names.learn(f.ctx, f.client, entries)
	}
	if f.e.links {
		links := slices.DeleteFunc(slices.Clone(entries),
			func(e *entry) bool { return !e.isLink() })
		f.readLinks(links, func(e *entry) string { return f.at(pathIn(d, e)) })
	}
}

// lookUpNewer asks for the times of the files named by -newer.
func (f *finder) lookUpNewer() {
	f.newer = make(map[string]time.Time)
	for _, e := range f.lookup(f.e.newer, followNever, nil) {
		if !e.stat.HasTimes() {
			f.fail("compare with", e.name, errors.New("the server does not report its times"))
			continue
		}
		f.newer[e.name] = e.stat.ModTime()
	}
	if len(f.newer) < len(f.e.newer) && f.err == nil {
		f.err = f.end() // its results would be meaningless
	}
}

func (f *finder) each(in *dir, e *entry, below *dir) error {
	if below != nil && f.e.depthFirst {
		return nil
	}
	v := &visit{finder: f, path: pathIn(in, e), entry: e, in: in, dir: below}
	if in != nil {
		v.depth = in.depth + 1
	}
	return v.evaluate()
}

func (f *finder) leave(d *dir) error {
	if !f.e.depthFirst {
		return nil
	}
	v := &visit{finder: f, path: d.path, depth: d.depth, entry: d.entry, in: d.parent, dir: d,
		last: true}
	return v.evaluate()
}

func (f *finder) enter(d *dir, entries []*entry) error {
	d.count += len(entries)
	return f.listed(d, entries)
}

func (v *visit) evaluate() error {
	if v.depth >= v.e.minDepth {
		v.e.test(v)
	}
	switch {
	case v.err != nil:
		return v.err
	case v.quit:
		return errQuit
	case v.prune && !v.e.depthFirst:
		return fs.SkipDir
	}
	return nil
}

// print carries out an action that prints a line about a file.
func (v *visit) print(text func() string) bool {
	switch {
	case v.quit || v.earlier.has("file", v.path):
	case v.JSON:
		v.printFile(v.path, v.entry)
	default:
		_, err := v.out.WriteString(text())
		v.stop(err)
	}
	return true
}

// printPath carries out the action -print, or -print0 if end is 0.
func (v *visit) printPath(end byte) bool {
	return v.print(func() string {
		if end == 0 {
			return v.Prefix + v.path + "\x00"
		}
		return v.shown(v.Prefix+v.path) + "\n"
	})
}

// remove carries out the action -delete. It waits for the outcome if the expression continues.
func (v *visit) remove(wait bool) bool {
	if v.quit || v.path == "." { // as in GNU's find
		return true
	}
	if v.untold("delete") {
		return false
	}
	if removable(v.path) != nil && v.in == nil {
		v.fail("delete", v.path, removable(v.path))
		return false
	}
	r := v.remover
	if wait {
		r.ops.drain() // other files' failures are not this one's
	}
	code, failed := v.code, false
	v.code = 0
	if v.dir != nil {
		v.dir.failed = false // entries left in it are not a failure yet
		r.leave(v.dir)
	} else {
		r.start(v.in, v.path)
	}
	if v.in != nil {
		v.in.removed++
	}
	if wait {
		r.ops.drain()
		failed = v.code != 0
	}
	v.code = max(v.code, code)
	return !failed
}

// empty evaluates the test -empty.
func (v *visit) empty() bool {
	switch {
	case !v.entry.stat.HasType():
		return v.lacks("type")
	case v.entry.is(typeFile) && !v.entry.stat.HasSize():
		return v.lacks("size")
	case v.entry.is(typeFile):
		return v.entry.stat.Size == 0
	case v.dir == nil:
		return false
	case v.last && v.dir.removed == 0 && v.walk.descend(v.dir):
		return v.dir.count == 0 && v.dir.Err == nil
	case !v.last && v.walk.descend(v.dir):
		return v.walk.trees.IsEmpty(v.dir)
	}
	v.remover.ops.drain()
	for range v.client.Entries(v.at(v.path)) {
		return false // errors, too
	}
	return true
}

// Deletes reports whether the expression has -delete.
func (e *Expression) Deletes() bool { return e.deletes }
