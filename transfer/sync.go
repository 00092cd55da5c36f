package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/filter"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/plan"
)

// SyncOptions configure a [Sync]. The zero SyncOptions are valid: everything that is missing or
// differs is copied, and nothing is deleted.
//
// Preserve and NoTargetDirectory are always set, and Resume is set if there is a Journal.
type SyncOptions struct {
	TreeOptions

	// Checksum compares the contents of files of equal size instead of their times. Hosts that hash
	// files (check-file) are asked for the hashes, one round trip per file; on other hosts the
	// files are read, which takes as long as copying them, and a Note says so.
	Checksum bool

	// SizeOnly copies no file whose size is equal. If its time differs, it gets its source's.
	SizeOnly bool

	// ModifyWindow is how much times may differ and still count as equal. Times are compared in
	// whole seconds, since SFTP has no others.
	ModifyWindow time.Duration

	// Only selects the files to copy. Other files still count as part of the source, so they are
	// not deleted from the target.
	Only SyncOnly

	// Delete deletes entries of the target that the source does not have, once everything else is done
	// and nothing has failed. Nothing is deleted if the source could not be listed completely. Nothing
	// is deleted either if the source is empty or if too much would be deleted; the error then
	// satisfies errors.Is(err, [ErrDeletionRefused]). Entries that filters exclude are never deleted.
	Delete bool

	// MaxDelete limits how many files may be deleted. 0 means up to 10 files, or half of the
	// target's files if that is more.
	MaxDelete int64

	// BackupDir is a directory in the target, given relative to it, that gets everything deleted or
	// replaced there, except directories. The directory itself is not synced. Replacing a file takes
	// one round trip more.
	BackupDir string

	// IgnoreFile is the name of files in the source, such as ".gitignore", that exclude entries of
	// their directories by git's rules (gitignore(5)), besides TreeOptions.Filter. Looking for them
	// takes a round trip per directory. Excluded entries are neither copied nor deleted.
	IgnoreFile string

	// Since is for callers that watch the source: files modified since then are copied even if size
	// and time are equal, since times are whole seconds and a file may change twice within one.
	Since time.Time

	// Within limits the sync to the parts that may have changed; nil means everything.
	Within *SyncWithin

	// NoLock takes no lock on the target. The lock is a file there, ".usftp-sync.lock", and takes a
	// few round trips. While another run holds it, Sync fails with a [*LockedError]. It is renewed
	// every minute, and void once that has not happened for ten. If there is no room for it, and
	// Delete is set, which may make some, Sync goes on without it and says so.
	NoLock bool

	// LockOwner, if not "", is for callers that sync again and again, but not twice at once: a lock
	// that an earlier Sync with the same LockOwner could not remove, because it lost its connection
	// for good, does not keep this one out. It should be random.
	LockOwner string
}

// SyncOnly selects the files to copy. Existing and IgnoreExisting select directories and links,
// too.
type SyncOnly struct {
	MinSize, MaxSize int64     // in bytes, inclusive; a MaxSize of 0 means no limit
	Newer            time.Time // only files modified at this time or later, unless it is zero

	Existing       bool // copy only entries that exist at the target already
	IgnoreExisting bool // leave all entries that exist at the target already
}

// SyncWithin names the parts of the source that may have changed.
type SyncWithin struct {
	// Dirs are the directories whose entries may have changed, relative to the source, "." for the
	// source itself. Their subdirectories are compared only if they are in Dirs too, lie in one of
	// Trees, or exist on one side only.
	Dirs map[string]bool

	// Trees are directories in which anything may have changed.
	Trees []string

	// Renames were made in the source. Each is repeated in the target if the old name exists there
	// and the new one does not.
	Renames []SyncRename
}

// SyncRename is a file or directory that was renamed, with both paths relative to the source.
type SyncRename struct{ From, To string }

// Reason says why Sync copies, changes or deletes an entry.
type Reason string

const (
	ReasonNew   Reason = "new"  // missing from the target
	ReasonType  Reason = "type" // of another type at the target, such as a directory
	ReasonSize  Reason = "size"
	ReasonTime  Reason = "time"
	ReasonHash  Reason = "hash"
	ReasonLink  Reason = "link"  // the link leads elsewhere
	ReasonMode  Reason = "mode"  // only the permissions differ
	ReasonOwner Reason = "owner" // only the owners differ
	ReasonTouch Reason = "touch" // only the times differ: the contents were compared
	ReasonExtra Reason = "extra" // deleted: the source does not have it
)

// ErrVanished reports that files were removed from the source before they could be copied.
// Everything else was copied.
var ErrVanished = errors.New("files vanished from the source before they could be copied")

// Sync makes the directory dst equal to the directory src. It always syncs the contents of src with
// the contents of dst, whether or not a path ends in a slash. dst is made if it does not exist; its
// parent must exist. Either may be on this machine or on a host.
//
// Files with equal size and time count as equal; SyncOptions can change that. Both sides are
// listed, many directories at once, and merged, so equal entries cost no round trip. A file that is
// copied costs as much as in [CopyTree], which does the copying; a difference in permissions,
// owner or time alone costs one round trip. Memory holds 24 bytes and the name of each entry of the
// directories being compared.
//
// Anything other than files, directories and links is skipped with an event. No symbolic link below
// the target is followed, with the exception that [CopyTree] has. dst must not lie in src, nor src
// in dst.
//
// With DryRun there is a Planned event for each change, with its Reason, and nothing is changed.
// There are no Kept events: Summary.Kept counts the equal files.
//
// Errors are those of CopyTree, and may wrap a [*LockedError] or [ErrDeletionRefused]; see
// SyncOptions. Files that vanish from the source during the sync are counted separately; if nothing
// else goes wrong, the error matches [ErrVanished].
func Sync(ctx context.Context, dst, src Endpoint, options SyncOptions) (Summary, error) {
	o := options.Options
	o.Preserve, o.NoTargetDirectory, o.Resume = true, true, o.Journal != ""
	j, done, err := newJob(ctx, dst, src, o)
	defer done()
	t := newTree(j, options.TreeOptions)
	if err == nil {
		err = newSyncing(t, options)
	}
	return t.run(err)
}

// syncing is the planner of Sync.
type syncing struct {
	copying
	options SyncOptions
	decides plan.Sync
	within  *plan.Reach
	saved   backups // for the files that are replaced

	// folding is the target's. Without a lock, case folding is known only for this system.
	folding plan.Folding
	keeps   keeping
	big     sync.Mutex // held by the walker with a large inventory: only one at a time

	there    atomic.Int64 // entries seen at the target
	met      atomic.Int64 // entries seen in the source
	extras   extras
	gone     gone
	lock     *lock
	early    *early    // the target's own listing, or nil
	reported sync.Once // reports once that files are read because the host does not hash them
}

var errNotPath = errors.New("a stream cannot be synced")

// newSyncing makes a Sync of a tree.
func newSyncing(t *tree, options SyncOptions) error {
	if !t.ofPaths() {
		_, err := os.Getwd() // without which no relative path is known
		return cmp.Or(err, errNotPath)
	}
	if options.Delete && options.Files != nil {
		return errors.New("a sync of listed files cannot delete: what is not listed would look as if the source did not have it")
	}
	if options.Delete && options.RemoveSource {
		return errors.New("a sync that removes its source cannot delete: the next one would delete what this one has copied")
	}
	if name := options.IgnoreFile; name != "" && (strings.ContainsAny(name, `/\`) ||
		!filepath.IsLocal(name)) {
		return fmt.Errorf("%q is not the name of an ignore file", name)
	}
	if dir := filepath.ToSlash(options.BackupDir); dir != "" {
		if !plan.IsBelow(dir) {
			return fmt.Errorf("the backup directory %q is not a path in the target", dir)
		}
		options.BackupDir = path.Clean(dir)
	}
	options.Checksum = options.Checksum || options.RemoveSource
	if options.DryRun { // it keeps nobody out, and changes no source
		options.NoLock, options.RemoveSource = true, false
	}
	s := &syncing{copying: copying{t}, options: options, saved: backups{dir: options.BackupDir}}
	s.extras.sync, s.saved.sync, s.gone.sync, s.keeps.sync = s, s, s, s
	t.selection.Lock, t.selection.Backups = lockName, options.BackupDir
	t.selection.FoldsCase = func() bool { return s.saved.folded || s.folding.Case() }
	if w := options.Within; w != nil {
		s.within = plan.NewReach(w.Dirs, w.Trees)
	}
	s.decides = plan.Sync{Only: plan.Only(options.Only), Update: options.Update,
		Checksum: options.Checksum, SizeOnly: options.SizeOnly, Window: options.ModifyWindow,
		Since: options.Since, Deletes: options.Delete, Attributes: &t.copies.Options.Attributes,
		Owners:     new(plan.Owners),
		Nearest:    func(at time.Time) time.Time { return endpoint.Nearest(at, t.dst.Conn()) },
		KeepsTimes: s.keeps.times, KeepsModes: s.keeps.modes}
	// Without a lock, which shows it, case is asked for where a file that is taken for new is lost.
	s.folding.Case = s.asks("a", "A", localfs.FoldsCase,
		options.Update || options.Only.IgnoreExisting || options.BackupDir != "")
	s.folding.Letters = s.asks(composed, decomposed, runtime.GOOS == "darwin", true)
	t.plan, t.rules = s, treeRules{apart: errNested, mutual: true, judges: true,
		partial: options.Within != nil, walkers: syncWalkers, failed: copyRules.failed,
		counts: options.Only == SyncOnly{} && !options.Update && options.Within == nil}
	t.copies.Rules = filecopy.Rules{Relinks: true, Resume: "the same call continues from there"}
	if options.Delete {
		t.rules.last = PhaseDeleting
	}
	return nil
}

// asks returns a function that finds out once whether the target takes two spellings for one. It
// makes a file for that. A dry run does not, and takes this machine for one like others of its kind.
func (s *syncing) asks(spelled, otherwise string, usual, matters bool) func() bool {
	return sync.OnceValue(func() bool {
		t := s.tree
		if s.options.DryRun || !matters {
			return usual && t.dst.Conn() == nil
		}
		if removesNothing(t) {
			return false // it would keep one file of each run, and deletes nothing
		}
		t.root.touched.Store(true)
		is, err := folds(t, ".", spelled, otherwise)
		return is && err == nil
	})
}

// start makes the target and takes the lock.
func (s *syncing) start() error {
	root := s.tree.root
	if s.saved.dir != "" {
		if err := s.saved.check(); err != nil {
			return err
		}
	}
	if s.options.Delete {
		s.gone.begin()
	}
	fresh, err := s.tree.makeDir(root)
	root.made, root.fresh = err == nil, fresh
	if err != nil || s.options.NoLock {
		return err
	}
	s.lock, err = newLock(s, s.listEarly)
	if errors.Is(err, fs.ErrPermission) && !errors.Is(err, endpoint.ErrLeft) {
		s.open(root)
		s.lock, err = newLock(s, s.listEarly)
	}
	if err != nil || !s.lock.alone {
		s.early.stop()
		s.early = nil
	}
	if s.options.Delete && endpoint.NoRoom(err) && !errors.Is(err, endpoint.ErrLeft) {
		// Deleting makes room. No other run holds the lock: it would have been found.
		err = nil
		root.warn("there is no room for the lock file, so another sync to it is not kept out")
		if s.saved.dir != "" {
			s.saved.look()
		}
	}
	if s.lock != nil {
		s.folding.Case = s.lock.foldsCase
		root.pending.Add(1) // releasing the lock changes its mtime once more: conclude finishes it
	}
	if err == nil && s.options.Within != nil {
		repeatRenames(s)
	}
	return err
}

// walkers returns how many directories to list at once: a listing takes a few round trips.
func (s *syncing) walkers(from, to limits) int {
	switch {
	case s.tree.src.Conn() == nil:
		return to.listings
	case s.tree.dst.Conn() == nil:
		return from.listings
	}
	return max(1, min(from.listings, to.listings)/2) // they may be the same host
}

func (s *syncing) file() error {
	return endpoint.OfSource(&fs.PathError{Op: "sync", Path: s.tree.route.Source,
		Err: endpoint.ErrNotDirectory})
}

// enter also takes the inventory of the target directory. A directory that the source does not have
// is only listed, to be deleted.
func (s *syncing) enter(d *directory) (leave func(), ok bool) {
	if d.extra {
		d.ignore = d.parent.ignore
		s.extras.collect(d, func(string) bool { return true })
		return func() {}, false
	}
	leave, ok = s.copying.enter(d)
	if !ok {
		return leave, false
	}
	leave, err := s.take(d)
	if err != nil {
		d.failed = true
		d.fail(err)
	}
	return leave, err == nil
}

// readIgnore reads a directory's ignore file, and adds its rules to those of the directory above.
func (s *syncing) readIgnore(d *directory) error {
	src := s.tree.src
	if d.parent != nil {
		d.ignore = d.parent.ignore
	}
	if s.options.IgnoreFile == "" || d.extra {
		return nil
	}
	name := src.Join(d.source, s.options.IgnoreFile)
	text, _, err := src.ReadSmall(name, filter.LongestIgnore) // as git: through no link
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, endpoint.ErrNotRegular):
		return nil
	case err == nil && len(text) == filter.LongestIgnore:
		err = &fs.PathError{Op: "read", Path: name,
			Err: errors.New("too large for an ignore file")}
	}
	if err == nil {
		d.ignore, err = filter.NewIgnore(d.ignore, d.rel, text)
	}
	return endpoint.OfSource(err)
}

// listed finds the target's entries that the source does not have.
func (s *syncing) listed(d *directory) {
	if s.options.Delete {
		s.extras.find(d)
	}
}

// finish sets a directory's attributes, unless it is untouched and they are equal.
func (s *syncing) finish(d *directory) error {
	if !d.touched.Load() && s.decides.IsSameDir(&d.info, d.existing) {
		return nil
	}
	if s.saved.dir != "" {
		s.saved.record(d)
	}
	return s.settling(func() error { return s.tree.finishDir(d) })
}

// settling sets attributes of an entry that another run made. If the host refuses, it may set some
// of them for no file: then settling finds out which, and tries the others again.
func (s *syncing) settling(set func() error) error {
	times, modes := s.keeps.known()
	err := set()
	if endpoint.Refused(err) {
		s.keeps.find(false)
		if nowTimes, nowModes := s.keeps.known(); nowTimes != times || nowModes != modes {
			err = set()
		}
	}
	return err
}

func (s *syncing) mayCommit() error { return s.lock.check() }

func (s *syncing) backups(e *entry) *backups {
	if s.saved.dir != "" && e.existing.IsThere() && !e.saved {
		return &s.saved
	}
	return nil
}

// take takes the inventory of a target directory.
func (s *syncing) take(d *directory) (release func(), err error) {
	v := plan.NewInventory(&s.folding, s.decides.Owners)
	if s.options.Delete {
		// The name of the lock shows whether case counts, if the host tells.
		v.KeepSpellings(s.lock == nil || !s.lock.knowsCase())
	}
	d.inventory = v
	list, early := s.tree.into.entries, s.early
	if d.parent != nil { // only the target itself was listed early
		early = nil
	}
	if early != nil && len(s.tree.leftovers.dead) == 0 { // which were removed since
		list = early.each
	}
	release = func() {
		early.stop()
		d.inventory = nil
		d.big.Store(false)
	}
	if err := s.readIgnore(d); err != nil {
		return release, err
	}
	if d.fresh {
		return release, nil
	}
	if d.existing.IsThere() && d.existing.Perm()&0o500 != 0o500 {
		if err := s.open(d); err != nil { // it could not even be listed
			return release, err
		}
	}
	locked := false
	for above := d.parent; above != nil && !locked; above = above.parent {
		// A walker that descends at once still holds the inventory of the directory above.
		locked = above.big.Load()
	}
	startOver := func() {
		s.there.Add(-int64(v.Len()))
		v.Reset()
	}
	err = list(d.rel, startOver, func(name string, f *endpoint.Info) error {
		if d.excludes(name, f.Mode.IsDir()) {
			return nil
		}
		if n := s.there.Add(1); s.tree.tooMany(n) {
			return ErrTreeTooLarge
		}
		if v.Len() == plan.BigInventory {
			if !locked {
				locked = true
				s.big.Lock()
				forget := release
				release = func() {
					forget()
					s.big.Unlock()
				}
			}
			d.big.Store(true)
		}
		v.Add(name, f)
		return nil
	})
	if s.options.Delete {
		s.extras.Hold(v.Files())
	}
	v.Sort()
	return release, err
}

// early is a listing of the target's own entries that begins while the lock is being written. Nothing
// is decided by it before the lock is held.
type early struct {
	entries chan earlyEntry
	quit    func()
	err     error // known once entries is closed
}

type earlyEntry struct {
	name string
	info endpoint.Info
}

// mostEarly limits how many entries wait for the lock.
const mostEarly = 1 << 10

// listEarly lists the target, unless the sync changes its entries before it lists them.
func (s *syncing) listEarly() {
	t := s.tree
	if t.root.fresh || s.options.Within != nil {
		return
	}
	s.early.stop() // of an attempt to take the lock that was refused
	ctx, quit := context.WithCancel(t.ctx)
	y := &early{entries: make(chan earlyEntry, mostEarly), quit: quit}
	s.early = y
	t.copies.Work.Go(func() {
		defer close(y.entries)
		y.err = t.into.entries(".", nil, func(name string, f *endpoint.Info) error {
			select {
			case y.entries <- earlyEntry{name, *f}:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})
}

// each passes the entries on, as targetDir.entries does.
func (y *early) each(_ string, _ func(), yield func(string, *endpoint.Info) error) error {
	for e := range y.entries {
		if err := yield(e.name, &e.info); err != nil {
			return err
		}
	}
	return y.err
}

// stop ends the listing, and waits for that. A nil one has ended.
func (y *early) stop() {
	if y == nil {
		return
	}
	y.quit()
	for range y.entries {
	}
}

// open gives the owner of a target directory all permissions, since something in it is about to
// change. The directory gets the source's permissions when everything in it is done, or its own if
// it is not to have those. If the host refuses the change, open returns nil: the operation to come
// then fails and says why. open fails only if something else is in the directory's place, and
// nothing must be done in it.
func (s *syncing) open(d *directory) error {
	if d.fresh || s.lock != nil && d.parent == nil {
		return nil // the lock could be made in the target itself
	}
	return d.moved.Do(func() error {
		there := d.existing.IsThere()
		if !there && d.parent != nil || there && d.existing.Perm()&0o700 == 0o700 {
			return nil
		}
		was, changed, err := s.tree.into.openDir(d.rel)
		if changed {
			d.was = was
			d.touched.Store(true)
		}
		for _, moved := range []error{endpoint.ErrLinkInWay, endpoint.ErrReplaced,
			endpoint.ErrMoved, endpoint.ErrNotDirectory} {
			if errors.Is(err, moved) {
				return err
			}
		}
		return nil
	})
}

// found looks up the target's counterpart of a source entry. It returns false if the entry is
// excluded.
func (s *syncing) found(e *entry) bool {
	if e.dir.excludes(e.name, e.info.Mode.IsDir()) {
		e.dir.inventory.Spare(e.name)
		return false
	}
	s.met.Add(1)
	open := func() {
		e.dir.touched.Store(true)
		s.open(e.dir)
	}
	if err := e.twin(open); err != nil {
		e.fail(err)
		return false
	}
	e.existing = e.dir.inventory.Take(e.name)
	return true
}

// enters decides whether to enter a directory, and removes an entry in its way.
func (s *syncing) enters(d *directory, e *entry) bool {
	t := s.tree
	if t.options.KeepDirLinks && e.existing.IsThere() && e.existing.Kind() == plan.Link {
		is, err := d.keepLink()
		if err == nil {
			e.existing = s.decides.Owners.Hold(&is)
		} else if !errors.Is(err, endpoint.ErrLinkInWay) {
			d.fail(err)
			return false
		}
	}
	switch e.do = s.decides.OfDir(e.existing); e.do.Do {
	case plan.Skip:
		t.count(&t.sums.Skipped, 1)
		return false
	case plan.Enter:
		d.made, d.existing = true, e.existing
		return s.within.Has(d.rel)
	}
	t.do.told(e)
	e.dir.touched.Store(true)
	if err := s.open(e.dir); err != nil {
		d.fail(err)
		return false
	}
	if e.existing.IsThere() {
		if err := s.clear(e.dir, e.name, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.fail(err)
			return false
		}
	}
	return true
}

// wants decides whether a file or a link needs work.
func (s *syncing) wants(e *entry) bool {
	if !e.selected() {
		return false
	}
	t := s.tree
	e.do = s.decides.Of(&e.info, e.existing, func() bool {
		return t.copies.IsHalfway(e.paths)
	})
	if e.do.Untimed {
		s.keeps.told.Do(func() {
			t.root.warn("times are not compared, " +
				"since the target does not set them: files of the same size count as equal " +
				"(transfer.SyncOptions.Checksum compares contents)")
		})
	}
	switch e.do.Do {
	case plan.Skip:
		t.count(&t.sums.Skipped, 1)
	case plan.Same:
		t.equal(e)
	case plan.Postpone:
		s.extras.postpone(e)
	default:
		return true
	}
	return false
}

// prepare does the work that an entry needs before copying, or instead, and reports whether that
// was all.
func (s *syncing) prepare(e *entry) (done bool) {
	err := s.lock.check()
	if err == nil {
		done, err = s.tryPrepare(e)
	}
	if err != nil {
		e.fail(err)
		return true
	}
	if !done {
		e.dir.touched.Store(true)
	} else if s.options.RemoveSource {
		e.removeSource(true)
	}
	return done
}

func (s *syncing) tryPrepare(e *entry) (done bool, err error) {
	t := s.tree
	if e.do.Do == plan.Compare {
		same, err := differ{s}.same(e)
		if err != nil {
			return false, err
		}
		e.do = s.decides.Compared(e.do, &e.info, e.existing, same)
	}
	switch {
	case e.do.Do == plan.Same:
		t.equal(e)
		return true, nil
	case e.do.Do == plan.SetAttrs && !e.info.Mode.IsRegular(): // not every host can set a link's times
		return true, t.walk.finishLink(e)
	case e.do.Do == plan.SetAttrs:
		err := t.inPlace(e.dir)
		if err == nil {
			err = s.settling(func() error {
				_, err := t.setAttrs(e.rel(), 0, false, s.decides.Attrs(&e.info))
				return err
			})
		}
		if err == nil {
			t.equal(e)
			t.count(&t.sums.Attrs, 1)
			t.do.did(t, &Event{Kind: Done, Route: e.route(), Size: e.info.Size,
				Reason: reasons[e.do.Why]})
		}
		if !errors.Is(err, endpoint.ErrOtherNames) {
			return true, err
		}
		e.do.Do = plan.Copy
	}
	if err := s.open(e.dir); err != nil || e.do.Why != plan.Type {
		return false, err
	}
	return false, s.makeWay(e)
}

var errDirectoryInWay = fmt.Errorf("%w that is not empty, and would have to be deleted", ErrIsDirectory)

// makeWay removes an existing entry that a rename would not replace.
func (s *syncing) makeWay(e *entry) error {
	if !plan.InWay(e.existing, e.info.Mode) {
		return nil
	}
	isDir := e.existing.Kind() == plan.Dir
	if isDir && s.holds(e.dir, e.name) {
		return errDirectoryInWay
	}
	err := s.clear(e.dir, e.name, isDir)
	if isDir && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errDirectoryInWay
	}
	return endpoint.IgnoreMissing(err)
}

// vanished reports whether an error means that an entry is gone from the source, and counts it.
func (s *syncing) vanished(source string, err error) bool {
	failure, ok := errors.AsType[*Error](err)
	ours := ok && failure.ofSource || endpoint.IsOfSource(err)
	if source == s.tree.route.Source || !ours || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	s.tree.count(&s.tree.sums.Vanished, 1)
	s.gone.note(below(s.tree, source))
	s.tree.tell(&Event{Kind: Skipped, Route: Route{Source: source}, Size: -1, Err: ErrVanished,
		Message: "it vanished before it could be copied"})
	return true
}

// below returns the path of an entry of a tree relative to the source, with slashes.
func below(t *tree, entry string) string {
	if root := t.src.Join(t.route.Source, "."); root != "." { // as the entry's path begins
		entry = strings.TrimPrefix(entry, root)
	}
	return strings.TrimPrefix(filepath.ToSlash(entry), "/")
}

// place returns a directory by its path, after the walk.
func (s *syncing) place(rel string) *directory {
	if rel == "." {
		return s.tree.root
	}
	return s.place(path.Dir(rel)).child(path.Base(rel))
}

// holds reports whether a directory contains anything.
func (s *syncing) holds(in *directory, name string) (found bool) {
	d := s.place(path.Join(in.rel, name))
	defer s.tree.into.leave(d.rel)
	s.tree.into.entries(d.rel, func() {}, func(string, *endpoint.Info) error {
		found = true
		return fs.SkipAll
	})
	return found
}

// clear removes an entry, or moves a file to the backup directory, while the lock is held.
func (s *syncing) clear(d *directory, name string, dir bool) error {
	if err := s.lock.check(); err != nil {
		return err
	}
	if s.saved.dir != "" && !dir {
		return s.saved.move(d, name)
	}
	if err := s.tree.inPlace(d); err != nil {
		return err
	}
	return s.tree.into.Remove(path.Join(d.rel, name), dir)
}

// conclude deletes the extras, and releases the lock.
func (s *syncing) conclude() {
	t := s.tree
	t.walk.finishing.Wait()
	if s.options.Delete {
		s.extras.conclude()
	}
	if s.lock != nil {
		s.lock.release(func() { t.walk.finish(t.root) })
		t.walk.finishing.Wait()
	}
}
