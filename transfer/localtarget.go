package transfer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
)

// localTarget is a path on this machine as a target. Everything below the target of a tree is
// written through os.Root, so that names from a server cannot lead outside.
type localTarget struct {
	localEnd
	placement
	top   *os.Root // of a tree
	base  string   // the copy's name in top; "." if top is the copy
	fresh bool     // top was made for this copy
	roots roots
}

var errLinkInWay = errors.New(
	"a symbolic link is in the way, and links below the target are not followed")

// dispose removes one of our temporary files on this machine.
func (t *localTarget) dispose(temporary string) bool {
	dir, name := filepath.Split(temporary)
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return false
	}
	defer root.Close()
	return root.Remove(name) == nil
}

func (t *localTarget) tidy(root, rel string, stale func(name string, isDir bool) bool) error {
	top, err := os.OpenRoot(root)
	if err != nil {
		return ignoreMissing(err)
	}
	defer top.Close()
	dir, err := top.Open(rel + "/") // a named pipe in its place is not waited for
	if err != nil {
		return ignoreMissing(err)
	}
	defer dir.Close()
	var names []string
	for err == nil {
		var entries []fs.DirEntry
		entries, err = dir.ReadDir(listPiece)
		for _, e := range entries {
			if stale(e.Name(), e.IsDir()) {
				names = append(names, e.Name())
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	for _, name := range names {
		err = errors.Join(err, ignoreMissing(top.Remove(path.Join(rel, name))))
	}
	return err
}

// begin opens the directory to copy to, and makes it if it does not exist.
func (t *localTarget) begin(source facts, base string, inside func() error) (string, error) {
	if err := t.job.checkBase(base, localfs.CheckName); err != nil {
		return t.job.route.Target, err
	}
	if err := t.notInside(base, source.info); err != nil {
		return t.job.route.Target, err
	}
	if err := inside(); err != nil {
		return t.job.route.Target, err
	}
	name := t.job.route.Target
	info, err := os.Stat(name)
	t.base = "."
	dryRun := t.job.tree.options.DryRun
	switch {
	case err == nil && !info.IsDir():
		return name, &fs.PathError{Op: "write", Path: name, Err: errNotDirectory}
	case err == nil:
		if base != "." {
			t.base = base
			name = filepath.Join(name, base)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return name, err
	case dryRun:
		return name, nil
	default:
		if err := os.Mkdir(name, source.perm()|0o700); err != nil {
			return name, err
		}
		t.fresh = true
	}
	if !dryRun || t.job.tree.sync != nil {
		t.top, err = os.OpenRoot(t.job.route.Target)
		t.roots.top = t.top
	}
	return name, err
}

// notInside refuses to copy a local directory to itself or into a directory below it, and to sync
// it to one above it.
func (t *localTarget) notInside(base string, source fs.FileInfo) error {
	if source == nil {
		return nil
	}
	target := t.job.route.Target
	info, err := os.Stat(filepath.Join(target, base))
	if err == nil && os.SameFile(info, source) {
		return t.job.tree.overlap.nested()
	}
	there, err := os.Stat(target)
	if err != nil {
		target = filepath.Dir(target)
	}
	if liesIn(target, source) ||
		t.job.tree.sync != nil && err == nil && liesIn(t.job.route.Source, there) {
		return t.job.tree.overlap.nested()
	}
	return nil // if the target cannot be examined, making it will fail with the reason
}

// liesIn reports whether name leads to dir, or to something below it.
func liesIn(name string, dir fs.FileInfo) bool {
	name, err := localEnd{}.realPath(name)
	if err != nil {
		return false
	}
	for {
		if info, err := os.Stat(name); err == nil && os.SameFile(info, dir) {
			return true
		}
		above := filepath.Dir(name)
		if above == name {
			return false
		}
		name = above
	}
}

func (t *localTarget) is(source facts) bool {
	if t.top == nil || source.info == nil {
		return false
	}
	info, err := t.top.Stat(t.base)
	return err == nil && os.SameFile(info, source.info)
}

func (t *localTarget) close() {
	t.roots.close()
	if t.top != nil {
		t.top.Close()
	}
}

var errDoubleName = errors.New("its name differs only in case from that of another entry, " +
	"and the target treats them as the same name")

func (t *localTarget) check(d *directory, name string) error {
	if err := localfs.CheckName(name); err != nil {
		return err
	}
	if localfs.FoldsCase && t.job.tree.sync == nil && !d.addName(localfs.FoldName(name)) {
		return errDoubleName // a sync knows more about its target
	}
	return nil
}

// within returns a directory's path in top.
func (t *localTarget) within(d *directory) string { return path.Join(t.base, d.rel) }

// use returns an open directory, which release gives back.
func (t *localTarget) use(d *directory) (root *os.Root, release func(), err error) {
	return t.roots.use(d, t.within(d))
}

// inside calls do with an open directory.
func (t *localTarget) inside(d *directory, do func(in *os.Root) error) error {
	in, release, err := t.use(d)
	if err != nil {
		return err
	}
	defer release()
	return do(in)
}

// above calls do with the directory's open parent, and its name there.
func (t *localTarget) above(d *directory, do func(in *os.Root, name string) error) error {
	if d.parent == nil {
		return do(t.top, t.base)
	}
	return t.inside(d.parent, func(in *os.Root) error { return do(in, path.Base(d.rel)) })
}

func (t *localTarget) makeDir(d *directory) (fresh bool, err error) {
	if d.parent == nil && t.base == "." {
		return t.fresh, nil
	}
	err = t.above(d, func(in *os.Root, name string) error {
		err := in.Mkdir(name, d.facts.perm()|0o700)
		fresh = err == nil
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := in.Lstat(name)
		switch {
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return errLinkInWay
		case !info.IsDir():
			return errNotDirectory
		}
		return nil
	})
	return fresh, err
}

func (t *localTarget) finishDir(d *directory) error {
	set, err := d.attrs()
	if err != nil || set == (usftp.NewAttrs{}) {
		return err
	}
	return t.above(d, func(in *os.Root, name string) error {
		info, err := in.Lstat(name)
		if err == nil && !info.IsDir() {
			err = errLinkInWay
		}
		if err == nil && set.SetOwner {
			err = in.Lchown(name, set.UID, set.GID)
		}
		if err == nil && set.SetMode {
			err = chmodDir(in, name, set.Mode)
		}
		if err == nil && set.SetTimes {
			atime, mtime := d.facts.times()
			err = localfs.Lchtimes(in, name, atime, mtime)
			if errors.Is(err, errors.ErrUnsupported) {
				err = in.Chtimes(name, atime, mtime)
			}
		}
		return err
	})
}

// chmodDir sets the mode of a directory, not that of one to which a link that has taken its place
// leads. A directory that cannot be opened gets its mode by its name; os.Root then keeps the change
// inside.
func chmodDir(in *os.Root, name string, mode fs.FileMode) error {
	dir, err := openUnfollowed(in, name)
	if err == nil {
		defer dir.Close()
		err = dir.Chmod(".", mode)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = in.Chmod(name, mode)
	}
	if errors.Is(err, fs.ErrPermission) && mode&fs.ModeSetgid != 0 {
		// Linux leaves the bit out if we are not in the group, other systems refuse the mode.
		err = in.Chmod(name, mode&^fs.ModeSetgid)
	}
	return err
}

func (t *localTarget) leave(d *directory) { t.roots.leave(d) }

func (t *localTarget) makeLink(e *entry, to string) error {
	return t.inside(e.dir, func(in *os.Root) error {
		err := in.Symlink(to, e.name)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if old, err := in.Readlink(e.name); err == nil && old == to {
			return nil
		}
		if info, err := in.Lstat(e.name); err == nil && info.IsDir() {
			return &fs.PathError{Op: "replace", Path: e.target(), Err: ErrIsDirectory}
		}
		temporary := t.job.token.Name(e.name)
		if err := in.Symlink(to, temporary); err != nil {
			return err
		}
		err = e.backups().exchange(e, func(bool) error { return in.Rename(temporary, e.name) })
		if err != nil {
			in.Remove(temporary)
		}
		return err
	})
}

func (t *localTarget) finishLink(e *entry, set usftp.NewAttrs) error {
	return t.inside(e.dir, func(in *os.Root) error { return setIn(in, e.name, set) })
}

// setIn sets attributes of a file, or of a link, which has no mode.
func setIn(in *os.Root, name string, set usftp.NewAttrs) (err error) {
	if set.SetOwner {
		err = in.Lchown(name, set.UID, set.GID)
	}
	if err == nil && set.SetMode {
		err = in.Chmod(name, set.Mode)
	}
	if err == nil && set.SetTimes {
		err = localfs.Lchtimes(in, name, set.Atime, set.Mtime)
	}
	return err
}

// place examines the target.
func (t *localTarget) place(c *fileCopy, in input) (output, error) {
	o := &localOutput{end: t, entry: c.entry}
	if c.entry == nil {
		return o, o.find(c)
	}
	o.name, o.base = c.entry.target(), c.entry.name
	if c.entry.dir.fresh {
		return o, nil
	}
	// fetching the source from a host may take long: keep no directory open for that time
	defer o.close()
	return o, o.lookBelow()
}

// roots keeps open the directories being written to, up to a number that any process may have open.
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
	left  bool // closed by its last user
}

const mostRoots = 64

// use opens a directory, which stays open at least until release is called. No link in its path is
// followed, even if it leads to somewhere else in the target.
func (r *roots) use(d *directory, within string) (root *os.Root, release func(), err error) {
	if within == "." {
		return r.top, func() {}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.hold(d, within)
	if err != nil {
		return nil, nil, err
	}
	o.users++
	return o.Root, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if o.users--; o.users == 0 && o.left {
			o.Close()
		}
	}, nil
}

// hold opens a directory from the one above. The caller holds the lock.
func (r *roots) hold(d *directory, within string) (*openRoot, error) {
	o := r.open[d]
	if o == nil {
		in, name := r.top, within
		if dir := path.Dir(within); d.parent != nil && dir != "." {
			above, err := r.hold(d.parent, dir)
			if err != nil {
				return nil, err
			}
			above.users++ // so that it is not evicted
			defer func() { above.users-- }()
			in, name = above.Root, path.Base(within)
		}
		opened, err := openUnfollowed(in, name)
		if err != nil {
			return nil, err
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
	return o, nil
}

// openUnfollowed opens a directory in another, but not through a link. The slash is for the case
// that a named pipe has taken its place: without it OpenRoot waits until somebody writes to that.
func openUnfollowed(in *os.Root, name string) (*os.Root, error) {
	dir, err := in.OpenRoot(name + "/")
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil {
		var listed fs.FileInfo
		if listed, err = in.Lstat(name); err == nil && !os.SameFile(opened, listed) {
			err = errLinkInWay
		}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// evict closes the directories least recently used if there are too many. The caller holds the
// lock.
func (r *roots) evict() {
	for len(r.open) >= mostRoots {
		var oldest *directory
		for d, o := range r.open {
			if o.users == 0 && (oldest == nil || o.used < r.open[oldest].used) {
				oldest = d
			}
		}
		if oldest == nil {
			return
		}
		r.open[oldest].Close()
		delete(r.open, oldest)
	}
}

// leave closes a directory in which nothing more is created. Attributes may still be set in it.
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
