package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
)

// ErrDeletionRefused reports that a Sync deleted nothing because that would have been too much, or
// because its source is empty. Everything was copied.
var ErrDeletionRefused = errors.New("nothing was deleted")

// extras are entries that the target has and the source does not. They are found while the tree is
// walked, and deleted when everything else is done. If there are many, the list is kept on disk.
type extras struct {
	sync    *syncing
	files   spill // records: a directory's path below the target, then names in it
	touched spill // records: path and attributes of a directory that loses something
	opened  spill // records: path and earlier mode of a directory that had to be opened
	found   atomic.Int64
	held    atomic.Int64 // files and links at the target, extra or not
	began   bool         // deleting was not refused

	mu    sync.Mutex
	dirs  []*spill        // paths of extra directories, by depth
	late  []*entry        // waiting until the directory in their way is gone
	stays map[string]bool // paths of those that a dry run knows will not be empty
}

const (
	extraBatch = 512    // names per record
	mostLate   = 10_000 // entries that wait for directories

	// Deleting more than half of the target's files is refused, unless that is this few.
	fewDeleted = 10

	deleteDirs  = 16 // directories in which files are deleted at once
	deleteFiles = 32 // files deleted at once in each
)

func (x *extras) close() {
	x.files.close()
	x.touched.close()
	x.opened.close()
	for _, s := range x.dirs {
		s.close()
	}
}

// find finds the extras in a directory that both sides have. If there are any it lists the
// directory again, since an inventory holds no names.
func (x *extras) find(d *directory) {
	if !x.sync.options.Delete || d.inventory.unseen == 0 || d.tree.ctx.Err() != nil {
		return
	}
	x.touched.add(d.rel, packFacts(&d.facts))
	x.collect(d, d.inventory.extra)
}

// collect records a directory's extra entries.
func (x *extras) collect(d *directory, extra func(name string) bool) {
	s, t := x.sync, d.tree
	batch := []string{d.rel}
	err := s.dst.entries(d, func() {}, func(name string, f *facts) error {
		if s.filter.excludes(d, name, f.mode.IsDir()) {
			x.stay(d)
			return nil
		}
		if !extra(name) {
			return nil
		}
		if err := localfs.CheckForeignName(name); err != nil {
			return err
		}
		if d.extra { // not counted by take
			if n := s.listed.Add(1); t.tooMany(n) {
				return ErrTreeTooLarge
			}
		}
		if f.mode.IsDir() {
			return x.addDir(d, name)
		}
		if d.extra {
			x.held.Add(1)
		}
		x.found.Add(1)
		if batch = append(batch, name); len(batch) > extraBatch {
			x.files.add(batch...)
			batch = batch[:1]
		}
		return nil
	})
	if len(batch) > 1 {
		x.files.add(batch...)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.fail("", d.source, d.target, err)
	}
}

// stay records that an extra directory contains something excluded, so that a dry run does not
// announce its deletion.
func (x *extras) stay(d *directory) {
	if !x.sync.tree.options.DryRun {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stays == nil {
		x.stays = make(map[string]bool)
	}
	for ; d != nil && d.extra && !x.stays[d.rel]; d = d.parent {
		x.stays[d.rel] = true
	}
}

// addDir records an extra directory and queues it for listing.
func (x *extras) addDir(in *directory, name string) error {
	t := in.tree
	d := &directory{tree: t, parent: in, source: t.src.join(in.source, name),
		target: t.dst.join(in.target, name), rel: path.Join(in.rel, name), depth: in.depth + 1,
		failed: true, syncedDir: syncedDir{extra: true}}
	if t.tooDeep(d.depth) {
		return ErrTreeTooDeep
	}
	x.mu.Lock()
	for len(x.dirs) <= d.depth {
		x.dirs = append(x.dirs, new(spill))
	}
	at := x.dirs[d.depth]
	x.mu.Unlock()
	at.add(d.rel)
	t.walk.enqueue(d)
	return nil
}

// postpone queues an entry to be copied after the directory in its way is deleted.
func (x *extras) postpone(e *entry) {
	t := e.dir.tree
	err := x.addDir(e.dir, e.name)
	x.mu.Lock()
	if err == nil && len(x.late) == mostLate {
		err = errDirectoryInWay
	}
	if err == nil {
		e.dir.pending.Add(1)
		x.late = append(x.late, e)
	}
	x.mu.Unlock()
	switch {
	case err != nil:
		t.fail("", e.source(), e.target(), err)
		return
	case e.facts.mode.IsRegular():
		t.counts.planned.files.Add(1)
		t.counts.planned.bytes.Add(max(0, e.facts.size))
	}
	e.handed = true
}

// mayDelete returns an error if deleting is refused.
func (x *extras) mayDelete() error {
	s, t := x.sync, x.sync.tree
	n, held := x.found.Load(), x.held.Load()
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w from %s: %s", ErrDeletionRefused, t.job.shown(t.root.target),
			fmt.Sprintf(format, args...))
	}
	switch most := s.options.MaxDelete; {
	case s.met.Load() == 0:
		return refuse("the source %s is empty", shown(t.route.SourceHost, t.route.Source))
	case most > 0 && n > most:
		return refuse("%d files would be, more than the %d that --max-delete allows", n, most)
	case most <= 0 && n > fewDeleted && 2*n > held:
		return refuse("%d of its %d files would be, more than half; --max-delete %d allows it", n,
			held, n)
	}
	return nil
}

// delete deletes the extras, and reports whether it succeeded.
func (x *extras) delete() bool {
	s, t := x.sync, x.sync.tree
	if !s.options.Delete || t.ctx.Err() != nil {
		return false
	}
	if x.found.Load() == 0 && len(x.dirs) == 0 {
		return true
	}
	if t.failed() {
		t.warn(t.route.Source, t.root.target,
			"nothing was deleted, because not everything was read and copied")
		return false
	}
	if err := x.mayDelete(); err != nil {
		t.failFirst(err)
		return false
	}
	x.began = true
	s.dst.ready()
	x.each(&x.files, deleteDirs, func(fields []string) {
		d := s.place(fields[0])
		defer d.leave()
		var work errgroup.Group
		work.SetLimit(deleteFiles)
		open := x.opener(d)
		if !x.plan(d, fields[1:]) {
			if err := s.dst.unmoved(d); err != nil {
				t.failDeleting(d.target, err)
				return
			}
			for _, name := range fields[1:] {
				work.Go(func() error { x.remove(d, name, false, open); return nil })
			}
		}
		work.Wait()
	})
	for depth := len(x.dirs) - 1; depth >= 0; depth-- {
		x.each(x.dirs[depth], deleteDirs*deleteFiles, func(fields []string) {
			d := s.place(path.Dir(fields[0]))
			defer d.leave()
			if names := []string{path.Base(fields[0])}; !x.plan(d, names) {
				err := s.dst.unmoved(d)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.failDeleting(d.target, err)
				} else if err == nil {
					x.remove(d, names[0], true, x.opener(d))
				}
			}
		})
	}
	return !t.failed()
}

const directoryStays = "the directory is not deleted: it contains excluded or new files"

// each calls do for each record, up to most at once.
func (x *extras) each(records *spill, most int, do func(fields []string)) {
	t := x.sync.tree
	var work errgroup.Group
	work.SetLimit(most)
	for fields, err := range records.all() {
		if t.ctx.Err() != nil {
			break
		}
		if err != nil {
			t.failDeleting(t.root.target, err)
			break
		}
		work.Go(func() error { do(fields); return nil })
	}
	work.Wait()
}

// plan reports what a dry run would delete. It returns false if this is no dry run.
func (x *extras) plan(d *directory, names []string) bool {
	t := d.tree
	if !t.options.DryRun {
		return false
	}
	for _, name := range names {
		target := t.dst.join(d.target, name)
		if x.stays[path.Join(d.rel, name)] {
			t.warn("", target, directoryStays)
			continue
		}
		t.counts.sync.deleted.Add(1)
		t.tell(&Event{Kind: Planned, Route: Route{Target: target}, Size: -1, Reason: ReasonExtra})
	}
	return true
}

// opener returns a function that gives the owner of a directory all permissions, once. A directory
// that stays gets its mode back, or the source's, from finishTouched.
func (x *extras) opener(d *directory) func() error {
	return sync.OnceValue(func() error {
		was, changed, err := x.sync.dst.openDir(d)
		if changed && d.parent != nil {
			x.opened.add(d.rel, fmt.Sprint(uint32(was)))
		}
		return err
	})
}

// remove deletes a file or an emptied directory, or moves a file to the backup directory. If that
// is refused it opens the directory they are in, which may be read-only.
func (x *extras) remove(d *directory, name string, dir bool, open func() error) {
	s, t := x.sync, d.tree
	if t.ctx.Err() != nil {
		return
	}
	target := t.dst.join(d.target, name)
	err := s.clear(d, name, dir)
	if errors.Is(err, fs.ErrPermission) && open() == nil {
		err = s.clear(d, name, dir)
	}
	switch {
	case err == nil:
		t.counts.sync.deleted.Add(1)
		t.tell(&Event{Kind: Deleted, Route: Route{Target: target}, Size: -1, Reason: ReasonExtra})
	case errors.Is(err, fs.ErrNotExist): // something else was faster
	case dir && s.holds(d, name):
		t.warn("", target, directoryStays)
	default:
		t.failDeleting(target, err)
	}
}

// finishTouched restores the permissions of directories that were opened, then the source's times
// and permissions of those that lost entries.
func (x *extras) finishTouched() {
	s, t := x.sync, x.sync.tree
	x.each(&x.opened, deleteDirs, func(fields []string) {
		d := s.place(fields[0])
		defer d.leave()
		var was uint32
		if _, err := fmt.Sscan(fields[1], &was); err != nil {
			return
		}
		if err := s.dst.restoreDir(d, fs.FileMode(was)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			t.fail("", d.source, d.target, err)
		}
	})
	x.each(&x.touched, deleteDirs, func(fields []string) {
		d := s.place(fields[0])
		defer d.leave()
		if d == t.root {
			d.touched.Store(true)
			if s.lock != nil { // the last thing to go; a read-only directory would keep it
				return
			}
		} else if err := unpackFacts(fields[1], &d.facts); err != nil {
			return
		}
		if err := t.dst.finishDir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.fail("", d.source, d.target, err)
		}
	})
}

// failDeleting counts an entry that could not be deleted.
func (r *treeReport) failDeleting(target string, err error) {
	failure := newError(r.t.job, "", target, err)
	failure.deleting = true
	r.fail("", "", target, failure)
}

// packFacts encodes a directory's attributes as text.
func packFacts(f *facts) string {
	return fmt.Sprintln(uint32(f.mode), f.hasMode, f.mtime.UnixNano(), f.atime.UnixNano(),
		f.hasTimes,
		f.owner.UID, f.owner.GID, f.owner.Known)
}

func unpackFacts(text string, f *facts) error {
	var mode uint32
	var mtime, atime int64
	_, err := fmt.Sscanln(text, &mode, &f.hasMode, &mtime, &atime, &f.hasTimes, &f.owner.UID,
		&f.owner.GID, &f.owner.Known)
	f.mode, f.mtime, f.atime = fs.FileMode(mode), time.Unix(0, mtime), time.Unix(0, atime)
	return err
}

// On this machine entries are deleted through os.Root, which stays inside the target even if
// directories are replaced by links meanwhile.

func (t localMirror) ready() {}

func (t localMirror) unmoved(d *directory) error {
	in, release, err := t.use(d)
	if err != nil {
		return err
	}
	defer release()
	open, err := in.Stat(".")
	if err != nil || d.rel == "." {
		return err
	}
	listed, err := t.top.Lstat(t.within(d))
	if err == nil && !os.SameFile(open, listed) {
		err = errLinkInWay
	}
	return err
}

func (t localMirror) makeAll(dir string) error { return t.top.MkdirAll(dir, 0o777) }

func (t localMirror) move(d *directory, name, to string) error {
	if _, err := t.top.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return t.top.Rename(path.Join(t.within(d), name), to)
}

func (t remoteMirror) remove(d *directory, name string, dir bool) error {
	top, rel := t.job.tree.root.target, path.Join(d.rel, name)
	name = path.Join(d.target, name)
	return t.over(name, func(client *usftp.Client, again bool) (err error) {
		beneath, err := t.beneath(client, d)
		switch {
		case err != nil:
		case beneath != nil:
			err = beneath.RemoveBeneath(top, rel, dir)
		case dir:
			err = client.RemoveDirectory(name)
		default:
			err = client.Remove(name)
		}
		if again && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func (t remoteMirror) ready() {
	root := t.job.tree.root.target
	t.over(root, func(client *usftp.Client, _ bool) error { // unmoved reports the error
		if private.OfClient(client).RemovesBeneath() {
			return nil
		}
		_, err := t.real.of(client, root)
		return err
	})
}

// unmoved asks the host for the directory's real path, unless the host has beneath@usftp and
// follows no link when it deletes. Plain SFTP cannot ask for that, so if a link replaces the
// directory between this check and the deletion, the deletion follows it.
func (t remoteMirror) unmoved(d *directory) error {
	return t.over(d.target, func(client *usftp.Client, _ bool) error {
		if private.OfClient(client).RemovesBeneath() {
			t.trusting.Store(true)
			return nil
		}
		return t.unmovedOn(client, d)
	})
}

// beneath returns the means to delete without following links, nil if the host has none. If unmoved
// relied on that, but this connection has reached a server without it, that check is made here.
func (t remoteMirror) beneath(client *usftp.Client, d *directory) (private.Client, error) {
	own := private.OfClient(client)
	switch {
	case own.RemovesBeneath():
		return own, nil
	case t.trusting.Load():
		return nil, t.unmovedOn(client, d)
	}
	return nil, nil
}

func (t remoteMirror) unmovedOn(client *usftp.Client, d *directory) error {
	if d.rel == "." {
		return nil
	}
	_, err := t.lookUnmoved(client, d)
	return err
}

// lookUnmoved looks at a directory, and fails if it is no longer where it was.
func (t *remoteTarget) lookUnmoved(client *usftp.Client, d *directory) (fs.FileInfo, error) {
	if d.rel == "." {
		return client.Stat(d.target) // the user named the target, so links in it are followed
	}
	root, err := t.real.of(client, t.job.tree.root.target)
	if err != nil {
		return nil, err
	}
	looked := client.Async().Lstat(d.target)
	real, realErr := client.RealPath(d.target)
	info, err := looked.Wait()
	if err = cmp.Or(realErr, err); err == nil && (real != path.Join(root, d.rel) || !info.IsDir()) {
		err = errLinkInWay
	}
	return info, err
}

// realRoot caches the target's real path.
type realRoot struct{ path atomic.Pointer[string] }

func (r *realRoot) of(client *usftp.Client, root string) (string, error) {
	if known := r.path.Load(); known != nil {
		return *known, nil
	}
	real, err := client.RealPath(root)
	if err == nil {
		r.path.Store(&real)
	}
	return real, err
}

func (t remoteMirror) makeAll(dir string) error {
	dir = path.Join(t.job.tree.root.target, dir)
	return t.over(dir, func(client *usftp.Client, _ bool) error { return client.MkdirAll(dir) })
}

func (t remoteMirror) move(d *directory, name, to string) error {
	top := t.job.tree.root.target
	from, toBelow := path.Join(d.rel, name), to
	name, to = path.Join(d.target, name), path.Join(top, to)
	return t.over(name, func(client *usftp.Client, again bool) error {
		beneath, err := t.beneath(client, d)
		if err != nil {
			return err
		}
		rename := client.Rename
		if beneath != nil {
			rename = func(string, string) error { return beneath.RenameBeneath(top, from, toBelow) }
		}
		err = rename(name, to)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, lookErr := client.Lstat(to); lookErr == nil { // version 3 has no status for that
			if _, gone := client.Lstat(name); again && errors.Is(gone, fs.ErrNotExist) {
				return nil
			}
			return fs.ErrExist
		}
		return err
	})
}

// localDirectory reports whether a path names a directory below the target.
func localDirectory(name string) bool {
	return filepath.IsLocal(filepath.FromSlash(name)) && path.Clean(name) != "."
}
