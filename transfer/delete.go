package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/plan"
	"github.com/usftp/usftp/internal/spill"
)

// ErrDeletionRefused reports that a Sync deleted nothing because that would have been too much, or
// because its source is empty. Everything was copied.
var ErrDeletionRefused = errors.New("nothing was deleted")

// extras are entries that the target has and the source does not. They are found while the tree is
// walked, and deleted when everything else is done. If there are many, the list is kept on disk.
type extras struct {
	sync    *syncing
	files   spill.List // records: as directoryRecord, then names in the directory
	touched spill.List // records: path and attributes of a directory that loses something
	opened  spill.List // records: path and earlier mode of a directory that had to be opened
	found   atomic.Int64
	held    atomic.Int64 // files and links at the target, extra or not
	began   bool         // deleting was not refused
	spelt   sync.Once    // that something stays for its spelling was reported
	unheld  sync.Once    // the same of names that the source cannot have

	mu    sync.Mutex
	dirs  []*spill.List   // records of extra directories, by depth
	late  []*entry        // waiting until the directory in their way is gone
	stays map[string]bool // paths of directories that will not be empty
}

const (
	extraBatch = 512     // names per record
	mostLate   = 10_000  // entries that wait for directories
	mostStays  = 1 << 17 // directories that are known to stay; others show it when they are deleted

	// Deleting more than half of the target's files is refused, unless that is this few.
	fewDeleted = 10

	deleteDirs  = 16 // directories in which files are deleted at once
	deleteFiles = 32 // files deleted at once in each
)

func (x *extras) close() {
	x.files.Close()
	x.touched.Close()
	x.opened.Close()
	for _, s := range x.dirs {
		s.Close()
	}
}

// find finds the extras in a directory that both sides have. If there are any it lists the
// directory again, since an inventory holds no names.
func (x *extras) find(d *directory) {
	if d.inventory.Unseen() == 0 || d.tree.ctx.Err() != nil {
		return
	}
	x.touched.Add(d.rel, packFacts(&d.info))
	x.collect(d, d.inventory.IsExtra)
}

// collect records a directory's extra entries.
func (x *extras) collect(d *directory, extra func(name string) bool) {
	s, t := x.sync, d.tree
	head := directoryRecord(d)
	batch := slices.Clone(head)
	err := s.tree.into.entries(d.rel, func() {}, func(name string, f *endpoint.Info) error {
		if s.excludes(d, name, f.Mode.IsDir()) {
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
			x.held.Add(1)
		}
		x.found.Add(1)
		if batch = append(batch, name); len(batch) > extraBatch {
			x.files.Add(batch...)
			batch = batch[:len(head)]
		}
		return nil
	})
	if len(batch) > len(head) {
		x.files.Add(batch...)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.fail("", d.source, d.target, err)
	}
}

// maySpell reports whether a name may be another spelling of one that the source has.
func (x *extras) maySpell(d *directory, name string) bool {
	may, other := d.inventory.MaySpell(name)
	if other == "" {
		return may
	}
	_, err := x.sync.tree.into.Lstat(path.Join(d.rel, other))
	return !isAbsent(err)
}

// directoryRecord returns a directory's path below the target, and that of the nearest directory
// above it that the source has, or its own if the source has it.
func directoryRecord(d *directory) []string {
	present := d
	for present.extra {
		present = present.parent
	}
	return []string{d.rel, present.rel}
}

// stay records that an extra directory contains something excluded, and so those above it, too: it
// cannot be deleted.
func (x *extras) stay(d *directory) {
	for ; d != nil && d.extra && x.keep(d.rel); d = d.parent {
	}
}

// keep records that a directory is not deleted. It returns false if that is known already.
func (x *extras) keep(rel string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stays[rel] || len(x.stays) == mostStays {
		return false
	}
	if x.stays == nil {
		x.stays = make(map[string]bool)
	}
	x.stays[rel] = true
	return true
}

// kept reports whether a directory is known to stay.
func (x *extras) kept(rel string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stays[rel]
}

// addDir records an extra directory and queues it for listing.
func (x *extras) addDir(in *directory, name string) error {
	t := in.tree
	d := &directory{tree: t, parent: in, source: t.src.Join(in.source, name),
		target: t.dst.Join(in.target, name), rel: path.Join(in.rel, name), depth: in.depth + 1,
		failed: true, syncedDir: syncedDir{extra: true}}
	if t.tooDeep(d.depth) {
		return ErrTreeTooDeep
	}
	x.mu.Lock()
	for len(x.dirs) <= d.depth {
		x.dirs = append(x.dirs, new(spill.List))
	}
	at := x.dirs[d.depth]
	x.mu.Unlock()
	at.Add(directoryRecord(d)...)
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
		t.fail("", e.source(), e.target(), err)
		return
	}
	t.planned(e)
}

// mayDelete returns an error if deleting is refused.
func (x *extras) mayDelete() error {
	s, t := x.sync, x.sync.tree
	n, held := x.found.Load(), x.held.Load()
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w from %s: %s", ErrDeletionRefused,
			endpoint.Shown(t.route.TargetHost, t.root.target),
			fmt.Sprintf(format, args...))
	}
	switch most := s.options.MaxDelete; {
	case s.met.Load() == 0:
		return refuse("the source %s is empty", endpoint.Shown(t.route.SourceHost, t.route.Source))
	case most > 0 && n > most:
		return refuse("that would delete %d files, more than the %d that "+
			"transfer.SyncOptions.MaxDelete allows", n, most)
	case most <= 0 && n > fewDeleted && 2*n > held:
		return refuse("that would delete %d of %d files, more than half; "+
			"a transfer.SyncOptions.MaxDelete of %d allows it", n, held, n)
	}
	return nil
}

// conclude deletes the extras, and copies what waits for that.
func (x *extras) conclude() {
	t := x.sync.tree
	deleted := x.delete()
	for _, e := range x.late {
		if deleted && !x.kept(e.rel()) {
			e.existing, e.do.Do = plan.Held{}, plan.Copy // the directory is gone
			t.walk.copy(e)
		} else {
			t.fail("", e.source(), e.target(), errDirectoryInWay)
		}
		t.walk.done(e.dir)
	}
	t.walk.finishing.Wait()
	if x.began {
		x.finishTouched()
	}
	x.close()
}

// delete deletes the extras, and reports whether it succeeded.
func (x *extras) delete() bool {
	s, t := x.sync, x.sync.tree
	if t.ctx.Err() != nil {
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
	t.into.Unmoved(".") // the others need what it finds out, and report its error
	x.each(&x.files, deleteDirs, func(fields []string) {
		d := s.place(fields[0])
		defer s.tree.into.leave(d.rel)
		names, err := s.gone.confirm(fields[1], d.rel, fields[2:], false)
		if err != nil {
			return
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
	for depth := len(x.dirs) - 1; depth >= 0; depth-- {
		x.each(x.dirs[depth], deleteDirs*deleteFiles, func(fields []string) {
			d, name := s.place(path.Dir(fields[0])), path.Base(fields[0])
			defer s.tree.into.leave(d.rel)
			if _, err := s.gone.confirm(fields[1], d.rel, []string{name}, true); err != nil {
				return
			}
			switch err := t.into.Unmoved(d.rel); {
			case err == nil:
				x.remove(d, name, true, x.opener(d))
			case !errors.Is(err, fs.ErrNotExist):
				t.failDeleting(d.target, err)
			}
		})
	}
	return !t.failed()
}

const directoryStays = "the directory is not deleted: it contains excluded or new files"

// each calls do for each record, up to most at once.
func (x *extras) each(records *spill.List, most int, do func(fields []string)) {
	t := x.sync.tree
	var work errgroup.Group
	work.SetLimit(most)
	for fields, err := range records.All() {
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

// opener returns a function that gives the owner of a directory all permissions, once. A directory
// that stays gets its mode back, or the source's, from finishTouched.
func (x *extras) opener(d *directory) func() error {
	return sync.OnceValue(func() error {
		was, changed, err := x.sync.tree.into.openDir(d.rel)
		if changed && d.parent != nil {
			x.opened.Add(d.rel, fmt.Sprint(uint32(was)))
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
	target, rel := t.dst.Join(d.target, name), path.Join(d.rel, name)
	if dir && x.kept(rel) {
		t.warn("", target, directoryStays)
		return
	}
	err := s.lock.check()
	if err == nil {
		err = s.clear(d, name, dir)
	}
	if errors.Is(err, fs.ErrPermission) && open() == nil {
		err = s.clear(d, name, dir)
	}
	switch {
	case err == nil:
		t.count(&t.sums.Deleted, 1)
		t.do.did(t, &Event{Kind: Deleted, Route: Route{Target: target}, Size: -1,
			Reason: ReasonExtra})
	case errors.Is(err, fs.ErrNotExist): // something else was faster
	case dir && s.holds(d, name):
		x.keep(rel)
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
		defer s.tree.into.leave(d.rel)
		var was uint32
		if _, err := fmt.Sscan(fields[1], &was); err != nil {
			return
		}
		if err := t.into.restoreDir(d.rel, fs.FileMode(was)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			t.fail("", d.source, d.target, err)
		}
	})
	x.each(&x.touched, deleteDirs, func(fields []string) {
		d := s.place(fields[0])
		defer s.tree.into.leave(d.rel)
		if d == t.root {
			d.touched.Store(true)
			if s.lock != nil { // the last thing to go; a read-only directory would keep it
				return
			}
		} else if err := unpackFacts(fields[1], &d.info); err != nil {
			return
		}
		if err := t.finishDir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.fail("", d.source, d.target, err)
		}
	})
}

// failDeleting counts an entry that could not be deleted.
func (r *treeReport) failDeleting(target string, err error) {
	failure := newError(r.t.job, "", target, err)
	failure.op = opDelete
	r.fail("", "", target, failure)
}

// packFacts encodes a directory's attributes as text.
func packFacts(f *endpoint.Info) string {
	return fmt.Sprintln(uint32(f.Mode), f.HasMode, f.Mtime.UnixNano(), f.Atime.UnixNano(),
		f.HasTimes, f.Owner.UID, f.Owner.GID, f.Owner.Known)
}

func unpackFacts(text string, f *endpoint.Info) error {
	var mode uint32
	var mtime, atime int64
	_, err := fmt.Sscanln(text, &mode, &f.HasMode, &mtime, &atime, &f.HasTimes, &f.Owner.UID,
		&f.Owner.GID, &f.Owner.Known)
	f.Mode, f.Mtime, f.Atime = fs.FileMode(mode), time.Unix(0, mtime), time.Unix(0, atime)
	return err
}
