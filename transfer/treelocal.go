package transfer

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// localSource is a tree of this machine's.
type localSource struct{}

func (localSource) join(dir, name string) string { return filepath.Join(dir, name) }

func (localSource) look(name string) (facts, error) {
	info, err := os.Stat(name)
	if err != nil {
		return facts{}, err
	}
	return localFacts(info), nil
}

func localFacts(info fs.FileInfo) facts {
	return facts{mode: info.Mode(), hasMode: true, size: info.Size(), mtime: info.ModTime(),
		atime: info.ModTime(), hasTimes: true, owner: ownerOf(info), info: info}
}

// listPiece is how many entries of a local directory are read at once.
const listPiece = 256

func (localSource) list(d *directory, yield func(*item, error) bool) error {
	open := os.Open
	if d.parent != nil && d.tree.TreeOptions.Links != FollowLinks {
		open = openListedDir
	}
	dir, err := open(d.source)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(listPiece)
		for _, e := range entries {
			i := &item{dir: d, name: e.Name()}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was removed meanwhile
			}
			if err == nil {
				i.facts = localFacts(info)
			}
			if !yield(i, err) {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (localSource) readLink(name string) (string, error) { return os.Readlink(name) }

func (localSource) loops(d *directory) string {
	for above := d.parent; above != nil; above = above.parent {
		if os.SameFile(above.facts.info, d.facts.info) {
			return "it leads back to " + above.source
		}
	}
	return ""
}

// localTree is a tree at a target on this machine. All of it is written through os.Root: what a
// server calls a name leads nowhere else.
type localTree struct {
	top   *os.Root
	base  string // of the copy in top: "." where top is the copy
	fresh bool   // top was made for the copy
	roots roots
}

// openLocalTree finds out what the target means. A target that does not exist is made.
func openLocalTree(t *treeRun, base string) (*localTree, string, error) {
	target := t.Target
	info, err := os.Stat(target)
	tree := &localTree{base: "."}
	switch {
	case err == nil && !info.IsDir():
		return nil, target, &fs.PathError{Op: "write", Path: target, Err: errNotDirectory}
	case err == nil:
		if base != "." {
			tree.base = base
			target = filepath.Join(target, base)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, target, err
	case t.TreeOptions.DryRun:
		return tree, target, nil
	default:
		if err := os.Mkdir(target, t.root.perm()|0o700); err != nil {
			return nil, target, err
		}
		tree.fresh = true
	}
	if !t.TreeOptions.DryRun {
		tree.top, err = os.OpenRoot(t.Target)
		tree.roots.top = tree.top
	}
	return tree, target, err
}

var (
	errNotDirectory = errors.New("it is not a directory")
	errLinkInWay    = errors.New("a symbolic link is in the way, and none is followed below the target")
)

func (l *localTree) join(dir, name string) string { return filepath.Join(dir, name) }

func (l *localTree) close() {
	l.roots.close()
	if l.top != nil {
		l.top.Close()
	}
}

// check looks at the name of an entry of a directory that is being listed.
func (l *localTree) check(d *directory, name string) error {
	if err := localBase(name); err != nil || strings.ContainsAny(name, "/\x00") || name == "." ||
		name == ".." {
		return cmp.Or(err, ErrBadName)
	}
	if foldsCase && d.double(name) {
		return errDoubleName
	}
	return nil
}

// perm is what a directory is made with.
func (d *directory) perm() fs.FileMode {
	if !d.facts.hasMode {
		return 0o777
	}
	return d.facts.mode.Perm()
}

// within is a directory's path in top.
func (l *localTree) within(d *directory) string { return path.Join(l.base, d.rel) }

func (l *localTree) makeDir(d *directory) (fresh bool, err error) {
	if d.parent == nil && l.base == "." {
		return l.fresh, nil
	}
	in, name, release, err := l.above(d)
	if err != nil {
		return false, err
	}
	defer release()
	err = in.Mkdir(name, d.perm()|0o700)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	info, err := in.Lstat(name)
	switch {
	case err != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink != 0:
		return false, errLinkInWay
	case !info.IsDir():
		return false, errNotDirectory
	}
	return false, nil
}

// above returns what holds a directory, and its name there.
func (l *localTree) above(d *directory) (in *os.Root, name string, release func(), err error) {
	if d.parent == nil {
		return l.top, l.base, func() {}, nil
	}
	in, release, err = l.roots.use(d.parent, l.within(d.parent))
	return in, path.Base(d.rel), release, err
}

func (l *localTree) finishDir(d *directory) error {
	t := d.tree
	keep := d.fresh || t.ours || t.Options.Preserve
	if !keep && !t.Options.Owners {
		return nil
	}
	in, name, release, err := l.above(d)
	if err != nil {
		return err
	}
	defer release()
	if err := t.Options.chown(d.facts.owner,
		func(uid, gid int) error { return in.Chown(name, uid, gid) }); err != nil {
		return err
	}
	if keep && d.facts.hasMode && (t.Options.Preserve || d.perm()&0o700 != 0o700) {
		if err := in.Chmod(name, d.perm()); err != nil {
			return err
		}
	}
	if !keep || !d.facts.hasTimes {
		return nil
	}
	atime, mtime := d.facts.localTimes()
	return in.Chtimes(name, atime, mtime)
}

func (l *localTree) leave(d *directory) { l.roots.leave(d) }

func (l *localTree) makeLink(i *item, to string) error {
	in, release, err := l.roots.use(i.dir, l.within(i.dir))
	if err != nil {
		return err
	}
	defer release()
	err = in.Symlink(to, i.name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if old, err := in.Readlink(i.name); err == nil && old == to {
		return nil
	}
	if info, err := in.Lstat(i.name); err == nil && info.IsDir() {
		return &fs.PathError{Op: "replace", Path: i.target(), Err: ErrIsDirectory}
	}
	temporary := temporaryName(i.name)
	if err := in.Symlink(to, temporary); err != nil {
		return err
	}
	if err := in.Rename(temporary, i.name); err != nil {
		in.Remove(temporary)
		return err
	}
	return nil
}

// place looks at where a file is to go.
func (l *localTree) place(i *item) (*localTarget, error) {
	in, release, err := l.roots.use(i.dir, l.within(i.dir))
	if err != nil {
		return nil, err
	}
	t := &localTarget{path: i.target(), root: in, name: i.name, release: release}
	if i.dir.fresh {
		return t, nil
	}
	info, err := in.Lstat(i.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
	case info.IsDir():
		err = &fs.PathError{Op: "write", Path: t.path, Err: ErrIsDirectory}
	case info.Mode()&fs.ModeSymlink != 0: // the rename replaces it
		return t, nil
	case !info.Mode().IsRegular():
		err = inTheWay(t.path, info)
	default:
		t.before, t.direct = info, links(info) > 1
		return t, nil
	}
	release()
	return nil, err
}

// roots keeps the directories open that are being written to, as many as a process may well have
// open.
type roots struct {
	top  *os.Root
	mu   sync.Mutex
	open map[*directory]*openRoot
	tick int64
}

type openRoot struct {
	*os.Root
	users int
	used  int64
	left  bool // to be closed by its last user
}

const mostRoots = 64

// use opens a directory, which stays open at least until release is called.
func (r *roots) use(d *directory, within string) (root *os.Root, release func(), err error) {
	if within == "." {
		return r.top, func() {}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.open[d]
	if o == nil {
		opened, err := r.top.OpenRoot(within)
		if err != nil {
			return nil, nil, err
		}
		if r.open == nil {
			r.open = make(map[*directory]*openRoot)
		}
		r.evict()
		o = &openRoot{Root: opened}
		r.open[d] = o
	}
	r.tick++
	o.used = r.tick
	o.users++
	return o.Root, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if o.users--; o.users == 0 && o.left {
			o.Close()
		}
	}, nil
}

// evict closes the directory that was used least lately, where there are many. The caller holds the
// lock.
func (r *roots) evict() {
	if len(r.open) < mostRoots {
		return
	}
	var oldest *directory
	for d, o := range r.open {
		if o.users == 0 && (oldest == nil || o.used < r.open[oldest].used) {
			oldest = d
		}
	}
	if oldest != nil {
		r.open[oldest].Close()
		delete(r.open, oldest)
	}
}

// leave closes a directory that is done, but for the attributes of those in it.
func (r *roots) leave(d *directory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.open[d]; o != nil {
		delete(r.open, d)
		if o.left = true; o.users == 0 {
			o.Close()
		}
	}
}

func (r *roots) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for d, o := range r.open {
		o.Close()
		delete(r.open, d)
	}
}
