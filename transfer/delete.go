package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/plan"
	"github.com/usftp/usftp/internal/samename"
)

// ErrDeletionRefused reports that a Sync deleted nothing because it would have deleted too much, or
// its source is empty. Everything was copied.
var ErrDeletionRefused = errors.New("nothing was deleted")

// extras are the target entries that a sync deletes.
type extras struct {
	plan.Extras
	sync   *syncing
	began  bool      // deleting was not refused
	spelt  sync.Once // warned that an entry stays for its spelling
	unheld sync.Once // the same for names that the source cannot have

	mu   sync.Mutex
	late []*entry // waiting until the directory in their way is gone
}

const (
	mostLate = 10_000 // entries that wait for directories

	deleteDirs  = 16 // directories in which files are deleted at once
	deleteFiles = 32 // files deleted at once in each
)

// find finds the extras in a directory that both sides have. If there are any it lists the
// directory again, since an inventory holds no names.
func (x *extras) find(d *directory) {
	if d.inventory.Unseen() == 0 || d.tree.ctx.Err() != nil {
		return
	}
	x.Touch(d.rel, &d.info)
	x.collect(d, d.inventory.IsExtra)
}

// collect records a directory's extra entries.
func (x *extras) collect(d *directory, extra func(name string) bool) {
	s, t := x.sync, d.tree
	files := plan.Lost{Dir: d.rel, Present: d.present()}
	err := s.tree.into.entries(d.rel, nil, func(name string, f *endpoint.Info) error {
		if d.spares(name, f.Mode.IsDir()) {
			x.stay(d)
			return nil
		}
		if !extra(name) || removesNothing(t) && localfs.TempTokenOf(name) != "" {
			return nil // an earlier run could not remove it either, and has said so
		}
		if !d.extra && x.maySpell(d, name) {
			x.spelt.Do(func() {
				t.warn("", t.dst.Join(d.target, name),
					"it is not deleted: it may be another spelling of a name that the source has")
			})
			return nil
		}
		if err := localfs.CheckForeignName(name); err != nil {
			return err
		}
		if t.src.Conn() == nil && localfs.CheckReserved(name) != nil {
			x.unheld.Do(func() {
				t.warn("", t.dst.Join(d.target, name),
					"it is not deleted: this system cannot have the name, so the source lacks it anyway")
			})
			x.stay(d)
			return nil
		}
		if d.extra { // not counted by take
			if n := s.there.Add(1); t.tooMany(n) {
				return ErrTreeTooLarge
			}
		}
		if f.Mode.IsDir() {
			return x.addDir(d, name)
		}
		if d.extra {
			x.Hold(1)
		}
		if files.Names = append(files.Names, name); len(files.Names) == plan.MostLost {
			x.AddFiles(files)
			files.Names = files.Names[:0]
		}
		return nil
	})
	x.AddFiles(files)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.fail(err)
	}
}

// spares reports whether rules exclude an entry of the target in any spelling of its letters.
func (d *directory) spares(name string, dir bool) bool {
	in := d.tree.selection.Excludes
	return d.excludes(name, dir) || !samename.IsASCII(path.Join(d.rel, name)) &&
		(in(norm.NFC.String(d.rel), norm.NFC.String(name), dir, d.ignore) ||
			in(norm.NFD.String(d.rel), norm.NFD.String(name), dir, d.ignore))
}

// maySpell reports whether a name may be another spelling of a name in the source.
func (x *extras) maySpell(d *directory, name string) bool {
	may, other := d.inventory.MaySpell(name)
	if other == "" {
		return may
	}
	_, err := x.sync.tree.into.Lstat(path.Join(d.rel, other))
	return !endpoint.IsAbsent(err)
}

// present returns the path of the nearest directory that the source has: d itself or one above it.
func (d *directory) present() string {
	for d.extra {
		d = d.parent
	}
	return d.rel
}

// stay records that an extra directory and those above it cannot be deleted: an entry in it stays.
func (x *extras) stay(d *directory) {
	for ; d != nil && d.extra && x.Keep(d.rel, directoryStays); d = d.parent {
	}
}

// addDir records an extra directory and queues it for listing.
func (x *extras) addDir(in *directory, name string) error {
	t := in.tree
	d := in.child(name)
	d.failed, d.extra = true, true
	if t.tooDeep(d.depth) {
		return ErrTreeTooDeep
	}
	x.AddDir(d.rel, d.present(), d.depth)
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
	if err != nil {
		e.fail(err)
		return
	}
	t.planned(e)
}

// mayDelete returns an error if deleting is refused.
func (x *extras) mayDelete() error {
	s, t := x.sync, x.sync.tree
	source := endpoint.Shown(t.route.SourceHost, t.route.Source)
	if why := x.Refused(source, s.met.Load(), s.options.MaxDelete); why != "" {
		return fmt.Errorf("%w from %s: %s", ErrDeletionRefused,
			endpoint.Shown(t.route.TargetHost, t.root.target), why)
	}
	return nil
}

// conclude deletes the extras, and copies the entries that wait for it.
func (x *extras) conclude() {
	t := x.sync.tree
	deleted := x.delete()
	if x.began {
		x.restoreOpened() // before something else can take the name of one that was deleted
	}
	for _, e := range x.late {
		if deleted && x.Kept(e.rel()) == "" {
			e.existing, e.do.Do = plan.Held{}, plan.Copy // the directory is gone
			t.walk.copy(e)
		} else {
			e.fail(errDirectoryInWay)
		}
		t.walk.done(e.dir)
	}
	t.walk.finishing.Wait()
	if x.began {
		x.finishTouched()
	}
	x.Close()
}

// delete deletes the extras, and reports whether it succeeded.
func (x *extras) delete() bool {
	s, t := x.sync, x.sync.tree
	if t.ctx.Err() != nil {
		return false
	}
	if x.IsEmpty() {
		return true
	}
	if t.failed() {
		t.root.warn("nothing was deleted, because not everything was read and copied")
		return false
	}
	if err := x.mayDelete(); err != nil {
		t.failFirst(err)
		return false
	}
	x.began = true
	t.into.Unmoved(".") // the other calls need its result, and report its error
	each(t, x.Files(), deleteDirs, func(lost plan.Lost) {
		d := s.place(lost.Dir)
		defer s.tree.into.leave(d.rel)
		names, err := s.gone.confirm(lost, false)
		if err != nil {
			return
		}
		if len(names) < len(lost.Names) {
			x.Keep(d.rel, directoryHolds)
		}
		if err := t.into.Unmoved(d.rel); err != nil {
			t.failDeleting(d.target, err)
			return
		}
		open := x.opener(d)
		var work errgroup.Group
		work.SetLimit(deleteFiles)
		for _, name := range names {
			work.Go(func() error { x.remove(d, name, false, open); return nil })
		}
		work.Wait()
	})
	for dirs := range x.Dirs() {
		each(t, dirs, deleteDirs*deleteFiles, func(lost plan.Lost) {
			d := s.place(lost.Dir)
			defer s.tree.into.leave(d.rel)
			if _, err := s.gone.confirm(lost, true); err != nil {
				return
			}
			switch err := t.into.Unmoved(d.rel); {
			case err == nil:
				x.remove(d, lost.Names[0], true, x.opener(d))
			case !errors.Is(err, fs.ErrNotExist):
				t.failDeleting(d.target, err)
			}
		})
	}
	return !t.failed()
}

// Why directories are not deleted.
const (
	directoryStays = "the directory is not deleted: it contains excluded or new files"
	directoryHolds = "the directory is not deleted: something in it could not be deleted"
)

// each calls do for each record, up to most at once.
func each[T any](t *tree, records iter.Seq2[T, error], most int, do func(T)) {
	var work errgroup.Group
	work.SetLimit(most)
	for record, err := range records {
		if t.ctx.Err() != nil {
			break
		}
		if err != nil {
			t.failDeleting(t.root.target, err)
			break
		}
		work.Go(func() error { do(record); return nil })
	}
	work.Wait()
}

// opener returns a function that gives the owner of a directory all permissions, once. A directory
// that stays gets its mode back from restoreOpened, or the source's from finishTouched.
func (x *extras) opener(d *directory) func() error {
	return sync.OnceValue(func() error {
		was, changed, err := x.sync.tree.into.openDir(d.rel)
		switch {
		case changed && d.parent == nil:
			d.was = was
		case changed:
			x.Open(d.rel, was)
		}
		return err
	})
}

// remove deletes a file or an emptied directory, or moves a file to the backup directory. If that
// is refused, it opens the parent directory, which may be read-only.
func (x *extras) remove(d *directory, name string, dir bool, open func() error) {
	s, t := x.sync, d.tree
	if t.ctx.Err() != nil {
		return
	}
	target, rel := t.dst.Join(d.target, name), path.Join(d.rel, name)
	if why := x.Kept(rel); dir && why != "" {
		x.Keep(d.rel, why)
		t.warn("", target, why)
		return
	}
	err := s.clear(d, name, dir)
	if errors.Is(err, fs.ErrPermission) && open() == nil {
		err = s.clear(d, name, dir)
	}
	switch {
	case err == nil:
		t.count(&t.sums.Deleted, 1)
		t.do.did(t, &Event{Kind: Deleted, Route: Route{Target: target}, Size: -1,
			Reason: ReasonExtra})
	case errors.Is(err, fs.ErrNotExist): // another program was faster
	case dir && s.holds(d, name):
		x.Keep(rel, directoryStays)
		x.Keep(d.rel, directoryStays)
		t.warn("", target, directoryStays)
	default:
		x.Keep(d.rel, directoryHolds)
		t.failDeleting(target, err)
	}
}

// restoreOpened restores the permissions of the opened directories that stay.
func (x *extras) restoreOpened() {
	s, t := x.sync, x.sync.tree
	each(t, x.Opened(), deleteDirs, func(opened plan.Facts) {
		d := s.place(opened.Dir)
		defer s.tree.into.leave(d.rel)
		if err := t.into.restoreDir(d.rel, opened.Info.Mode); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			d.fail(err)
		}
	})
}

// finishTouched sets the source's times and permissions on the directories that lost entries.
func (x *extras) finishTouched() {
	s, t := x.sync, x.sync.tree
	each(t, x.Touched(), deleteDirs, func(touched plan.Facts) {
		d := s.place(touched.Dir)
		defer s.tree.into.leave(d.rel)
		if d == t.root {
			d.touched.Store(true)
			if s.lock != nil { // the lock goes last; a read-only directory would keep it
				return
			}
		} else {
			d.info = touched.Info
		}
		if err := t.finishDir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.fail(err)
		}
	})
}

// failDeleting counts an entry that could not be deleted.
func (r *treeReport) failDeleting(target string, err error) {
	failure := newError(r.t.job, "", target, err)
	failure.op = opDelete
	r.fail("", "", target, failure)
}
