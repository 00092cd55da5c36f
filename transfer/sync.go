package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/localfs"
)

// SyncOptions change how a directory is made equal to another. The zero SyncOptions are valid:
// everything that is missing or differs is copied, and nothing is deleted.
//
// Preserve and NoTargetDirectory are always set, and Resume is if there is a Journal.
type SyncOptions struct {
	TreeOptions

	// Checksum compares the contents of files of the same size, and not their times. Hosts that
	// hash files (check-file) are asked for the hashes, in a round trip a file; on others, files are
	// read, which takes as long as copying them. A Note says so.
	Checksum bool

	// ModifyWindow is by how much times may differ that count as the same. Times are compared in
	// whole seconds, as SFTP has them.
	ModifyWindow time.Duration

	Update         bool // leave files alone that are newer at the target
	Existing       bool // copy nothing that is not at the target yet
	IgnoreExisting bool // leave alone what is at the target already

	// Only files of these sizes are copied, and only those that were written to since Newer. 0 means
	// no limit. At the target they count as wanted, so that they are not deleted.
	MinSize, MaxSize int64
	Newer            time.Time

	// Delete deletes what the source has not, when everything else is done and nothing has failed.
	// Nothing is deleted if the source could not be listed completely, or is empty: the error is
	// then, or if too much would be deleted, one for which errors.Is(err, [ErrDeletionRefused])
	// holds. What filters exclude is not deleted.
	Delete bool

	// MaxDelete is the most files that may be deleted. 0 means no more than 10, or half of those
	// that the target has.
	MaxDelete int64

	// BackupDir is a directory in the target, named by its path there. Files are moved into it
	// instead of being deleted. It is no part of the sync.
	BackupDir string

	// Filter says what is part of the sync, besides Include and Exclude. IgnoreFile is the name of
	// files in the source, such as ".gitignore", that exclude what lies in their directories, by
	// git's rules (gitignore(5)); each directory takes a round trip more then. What is excluded is
	// neither copied nor deleted.
	Filter     []FilterRule
	IgnoreFile string

	// Since is for who watches the source: files written to since then are copied even if size and
	// time are equal, because times are whole seconds, and a file may change twice in one.
	Since time.Time

	// Within limits a sync to what may have changed; nil means everything.
	Within *SyncWithin

	// NoLock takes no lock on the target. The lock is a file there, [LockName], which takes a few
	// round trips; while another run holds it, Sync fails with a [*LockedError].
	NoLock bool
}

// SyncWithin is what of the source may have changed.
type SyncWithin struct {
	// Dirs are the directories whose entries may have changed, by their paths from the source on,
	// "." for the source itself. Directories in them are compared only if they are in Dirs too, or
	// lie in one of Trees, or are missing on one side.
	Dirs map[string]bool

	// Trees are directories in which everything may have changed.
	Trees []string

	// Renames were made in the source. Each is made in the target too if it has the old name and
	// not the new one.
	Renames []SyncRename
}

// SyncRename is a file or a directory that has another name, by its paths from the source on.
type SyncRename struct{ From, To string }

// reaches reports whether a directory is compared, or lies above one that is.
func (w *SyncWithin) reaches(rel string) bool {
	if w == nil || w.Dirs[rel] {
		return true
	}
	for dir := range w.Dirs {
		if strings.HasPrefix(dir, rel+"/") {
			return true
		}
	}
	for _, tree := range w.Trees {
		if tree == "." || tree == rel || strings.HasPrefix(rel, tree+"/") || strings.HasPrefix(tree, rel+"/") {
			return true
		}
	}
	return false
}

// Reason is why Sync copies or changes something.
type Reason string

const (
	ReasonNew   Reason = "new"   // it is not at the target
	ReasonType  Reason = "type"  // it is something else at the target, such as a directory
	ReasonSize  Reason = "size"  // the sizes differ
	ReasonTime  Reason = "time"  // the times differ
	ReasonHash  Reason = "hash"  // the contents differ
	ReasonLink  Reason = "link"  // the link leads elsewhere
	ReasonMode  Reason = "mode"  // only the permissions differ
	ReasonOwner Reason = "owner" // only the owners differ
	ReasonTouch Reason = "touch" // only the times differ: the contents were compared
)

// ErrVanished reports that files of the source were removed before they could be copied. Everything
// else was copied.
var ErrVanished = errors.New("files vanished from the source before they could be copied")

// Sync makes the directory dst equal to the directory src: what src contains becomes what dst
// contains, whether or not a path ends in a slash. dst is made if it does not exist; the directory
// that holds it must. Either may be on this machine or on a host.
//
// Files whose size and time are the same count as equal; SyncOptions change that. Both sides are
// listed, many directories at once, and merged: what is equal costs no round trip. A file that is
// copied costs what it costs in [CopyTree], which does the copying; a difference in permissions,
// owner or time alone costs one round trip. In memory are 24 bytes for each entry of the directories
// that are being compared.
//
// What is neither file, directory nor link is skipped with an event. Below the target no symbolic
// link is followed. dst must not lie in src, nor src in dst.
//
// With DryRun there is a Planned event for each change, whose Reason says why, and nothing is
// changed. There are no Kept events: the Summary counts in Kept what was equal.
//
// Errors are those of CopyTree. Files that vanish from the source meanwhile are counted apart; if
// nothing else goes wrong, errors.Is(err, [ErrVanished]) holds.
func Sync(ctx context.Context, dst, src Endpoint, options SyncOptions) (Summary, error) {
	o := options.Options
	o.Preserve, o.NoTargetDirectory, o.Resume = true, true, o.Journal != ""
	j, done, err := newJob(ctx, dst, src, o)
	defer done()
	t := newTree(j, options.TreeOptions)
	if err == nil {
		t.sync, err = newSyncing(t, options)
	}
	return t.run(err)
}

// syncing is what a tree that is synced has besides what every tree has.
type syncing struct {
	tree    *tree
	options SyncOptions
	dst     mirror
	rules   []rule

	// big is held by who has a large inventory: of all walkers one at a time.
	big sync.Mutex

	listed   atomic.Int64 // entries of the target
	met      atomic.Int64 // entries of the source
	extras   extras
	backups  sync.Map // directories that were made for what is moved away
	lock     *lock
	reported sync.Once // that files are read because a host does not hash them
}

var errNotPath = errors.New("a stream cannot be synced")

func newSyncing(t *tree, options SyncOptions) (*syncing, error) {
	dst, ok := t.dst.(mirror)
	if _, _, isPath := t.src.identity(t.route.Source); !ok || !isPath {
		return nil, errNotPath
	}
	rules, err := newRules(options.Filter)
	if err != nil {
		return nil, err
	}
	if name := options.IgnoreFile; name != "" && (strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name)) {
		return nil, fmt.Errorf("%q is not the name of an ignore file", name)
	}
	if options.BackupDir != "" && !localDirectory(options.BackupDir) {
		return nil, fmt.Errorf("the backup directory %q is not a path in the target", options.BackupDir)
	}
	options.BackupDir = path.Clean(filepath.ToSlash(options.BackupDir))
	if options.BackupDir == "." {
		options.BackupDir = ""
	}
	return &syncing{tree: t, options: options, dst: dst, rules: rules}, nil
}

// start makes the target, which everything else needs.
func (s *syncing) start() error {
	root := s.tree.root
	if s.tree.options.DryRun {
		return nil
	}
	fresh, err := s.tree.dst.makeDir(root)
	root.made, root.fresh = err == nil, fresh
	if err != nil || s.options.NoLock {
		return err
	}
	if s.lock, err = newLock(s.tree, s.dst); err == nil {
		root.pending.Add(1) // its time changes once more when the lock is released
		s.rename()
	}
	return err
}

// walkers returns how many directories are listed at once: a listing takes a few round trips.
func (s *syncing) walkers(from, to limits) int {
	switch {
	case s.tree.src.conn() == nil:
		return to.listings
	case s.tree.dst.conn() == nil:
		return from.listings
	}
	return max(1, min(from.listings, to.listings)/2) // they may be one host
}

// rename makes the renames of the source. What cannot be renamed is copied, or deleted, later.
func (s *syncing) rename() {
	if s.options.Within == nil {
		return
	}
	src, root := s.tree.src, s.tree.root
	for _, r := range s.options.Within.Renames {
		from, to := path.Clean(r.From), path.Clean(r.To)
		if !localDirectory(from) || !localDirectory(to) || s.ignores(root, from, false) || s.ignores(root, to, false) ||
			!errors.Is(src.lstat(src.join(root.source, from)), fs.ErrNotExist) {
			continue
		}
		in := s.place(path.Dir(from))
		now, err := src.look(src.join(root.source, to))
		if err != nil || s.dst.unmoved(in) != nil || s.dst.unmoved(s.place(path.Dir(to))) != nil {
			continue
		}
		old, err := s.dst.lookAt(in, path.Base(from))
		there := newHeld(&old)
		if err == nil && there.kind() == heldKindOf(now.mode) && (now.mode.IsDir() ||
			now.mode.IsRegular() && there.sameSize(&now) && there.sameTime(&now, s.options.ModifyWindow)) {
			s.dst.move(in, path.Base(from), to)
		}
		s.tree.dst.leave(in)
	}
}

// take takes an inventory of a directory of the target.
func (s *syncing) take(d *directory) (release func(), err error) {
	v := newInventory()
	d.inventory = v
	release = func() {
		d.inventory = nil
		d.big.Store(false)
	}
	if err := s.readIgnore(d); err != nil {
		return release, err
	}
	if d.fresh {
		return release, nil
	}
	locked := false
	for above := d.parent; above != nil && !locked; above = above.parent {
		// A walker that walks into a directory at once is that of the directory above.
		locked = above.big.Load()
	}
	err = s.dst.entries(d, v.reset, func(name string, f *facts) error {
		if s.ignores(d, name, f.mode.IsDir()) {
			return nil
		}
		if n := s.listed.Add(1); s.tree.tooMany(n) {
			return ErrTreeTooLarge
		}
		if v.n == bigInventory {
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
		v.add(name, f)
		if !f.mode.IsDir() {
			s.extras.held.Add(1)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) && s.tree.options.DryRun {
		d.fresh, err = true, nil
	}
	v.sort()
	return release, err
}

// bigInventory is how large an inventory is of which there is only one at a time.
const bigInventory = 64 << 10

// ignores reports whether nothing is done about an entry, at either side.
func (s *syncing) ignores(in *directory, name string, dir bool) bool {
	if in.rel == "." && name == LockName {
		return true
	}
	rel := path.Join(in.rel, name)
	return excluded(s.rules, rel, dir) || in.ignore.excludes(rel, dir) || s.options.BackupDir != "" && rel == s.options.BackupDir ||
		!s.tree.filter.wants(rel, dir)
}

// found notes what the target has of an entry of the source. It returns false if nothing is to be
// done about it.
func (s *syncing) found(e *entry) bool {
	if s.ignores(e.dir, e.name, e.facts.mode.IsDir()) {
		return false
	}
	s.met.Add(1)
	e.there, e.present = e.dir.inventory.take(e.name)
	return true
}

// enters decides about a directory, and makes way for it. It returns false if the directory is not
// entered.
func (s *syncing) enters(d *directory, e *entry) bool {
	t := s.tree
	switch {
	case !e.present && s.options.Existing, e.present && s.options.IgnoreExisting && e.there.kind() != kindDir:
		t.counts.skipped.Add(1)
		return false
	case e.present && e.there.kind() == kindDir:
		d.made, d.there = true, &e.there
		return s.options.Within.reaches(d.rel)
	case !e.present:
		e.reason = ReasonNew
	default:
		e.reason = ReasonType
	}
	if t.options.DryRun {
		d.fresh = true
		t.plan(e)
		return true
	}
	e.dir.touched.Store(true)
	if e.present {
		if err := s.clear(e.dir, e.name, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.fail("", d.source, d.target, err)
			return false
		}
	}
	return true
}

// wants decides about a file or a link. It returns false if nothing is to be done.
func (s *syncing) wants(e *entry) bool {
	o, f, there := &s.options, &e.facts, e.there
	regular := f.mode.IsRegular()
	old := there.kind()
	switch {
	case regular && (f.size < o.MinSize || o.MaxSize > 0 && f.size > o.MaxSize ||
		!o.Newer.IsZero() && f.mtime.Before(o.Newer)),
		!e.present && o.Existing, e.present && o.IgnoreExisting:
		s.tree.counts.skipped.Add(1)
		return false
	case !e.present:
		e.reason = ReasonNew
		return true
	case old != heldKindOf(f.mode):
		e.reason = ReasonType
		if old == kindDir && o.Delete {
			s.postpone(e)
			return false
		}
		return true
	}
	if age, known := there.age(f); regular && o.Update && known && age < -o.ModifyWindow {
		s.tree.counts.skipped.Add(1)
		return false
	}
	sameTime := there.sameTime(f, o.ModifyWindow)
	switch {
	case !regular: // where links lead no listing tells
		e.reason, e.probe = ReasonLink, true
	case !there.sameSize(f):
		e.reason = ReasonSize
	case o.Checksum:
		e.reason, e.probe = ReasonHash, true
	case !sameTime, !o.Since.IsZero() && !f.mtime.Before(o.Since) && f.mtime.Before(time.Now().Add(time.Second)):
		e.reason = ReasonTime
	case there.perm() != f.mode.Perm() && f.hasMode:
		e.reason = ReasonMode
	}
	if e.reason == "" && o.Owners && !there.sameOwner(f) {
		e.reason = ReasonOwner
	}
	if e.reason != "" {
		return true
	}
	s.equal(e)
	return false
}

// equal counts an entry that is equal already.
func (s *syncing) equal(e *entry) {
	if !e.facts.mode.IsRegular() {
		return
	}
	n := &s.tree.counts
	if !e.handed {
		n.plannedFiles.Add(1)
		n.plannedBytes.Add(max(0, e.facts.size))
	}
	n.kept.Add(1)
	n.keptBytes.Add(max(0, e.facts.size))
}

// onlyAttrs reports whether nothing but attributes differ.
func (r Reason) onlyAttrs() bool {
	return r == ReasonMode || r == ReasonOwner || r == ReasonTouch
}

// copied does what there is to do about an entry besides copying it, or instead, and reports whether
// that was all.
func (s *syncing) copied(e *entry) (done bool) {
	t := s.tree
	err := error(nil)
	if e.probe {
		done, err = s.probe(e)
	}
	if !done && err == nil && t.options.DryRun {
		t.plan(e)
		return true
	}
	if !done && err == nil && e.reason.onlyAttrs() {
		if done, err = true, s.dst.setAttrs(e, s.attrs(e)); err == nil {
			s.equal(e)
			t.counts.attrs.Add(1)
			t.tell(&Event{Kind: Done, Route: e.route(), Size: e.facts.size, Reason: e.reason})
		}
	}
	if !done && err == nil && e.reason == ReasonType {
		err = s.makeWay(e)
	}
	if err != nil {
		t.fail("", e.source(), e.target(), err)
		return true
	}
	if !done {
		e.dir.touched.Store(true)
	}
	return done
}

// attrs returns what an entry gets whose contents are equal.
func (s *syncing) attrs(e *entry) (set usftp.NewAttrs) {
	f := &e.facts
	if e.facts.mode.IsRegular() {
		set.SetMode, set.Mode = f.hasMode, f.mode.Perm()
	}
	if f.hasTimes {
		set.SetTimes = true
		set.Atime, set.Mtime = f.times()
	}
	if s.options.Owners && f.owner.Known {
		set.SetOwner, set.UID, set.GID = true, f.owner.UID, f.owner.GID
	}
	return set
}

var errDirectoryInWay = fmt.Errorf("%w with contents, and would have to be deleted", ErrIsDirectory)

// makeWay removes what is not replaced by a rename.
func (s *syncing) makeWay(e *entry) error {
	kind := e.there.kind()
	if kind == kindFile || kind == kindLink && e.facts.mode.IsRegular() {
		return nil
	}
	err := s.clear(e.dir, e.name, kind == kindDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && kind == kindDir:
		return errDirectoryInWay
	}
	return err
}

// probe compares what the listings did not tell: what links lead to, and the contents of files. done
// is true if nothing is left to do.
func (s *syncing) probe(e *entry) (done bool, err error) {
	same := false
	if e.reason == ReasonLink {
		same, err = s.sameLink(e)
	} else {
		same, err = s.sameContents(e)
	}
	if !same || err != nil {
		return false, err
	}
	o := &s.options
	switch {
	case !e.there.sameTime(&e.facts, o.ModifyWindow):
		e.reason = ReasonTouch
	case e.facts.mode.IsRegular() && e.there.perm() != e.facts.mode.Perm():
		e.reason = ReasonMode
	case o.Owners && !e.there.sameOwner(&e.facts):
		e.reason = ReasonOwner
	default:
		s.equal(e)
		return true, nil
	}
	if !e.facts.mode.IsRegular() { // not every host can set a link's times
		if !s.tree.options.DryRun {
			err = s.tree.finishLink(e)
		}
		return true, err
	}
	return false, nil
}

func (s *syncing) sameLink(e *entry) (bool, error) {
	type answer struct {
		to  string
		err error
	}
	there := make(chan answer, 1)
	go func() {
		to, err := s.dst.readLink(e)
		there <- answer{to, err}
	}()
	here, err := s.tree.src.readLink(e.source())
	target := <-there
	return target.err == nil && target.to == here, err
}

// sameContents compares the hashes of both sides.
func (s *syncing) sameContents(e *entry) (bool, error) {
	type answer struct {
		hash checksum.Hash
		err  error
	}
	far := make(chan answer, 1)
	target := entry{dir: e.dir, name: e.name, facts: e.facts}
	target.facts.info = nil
	go func() {
		hash, err := s.hash(s.dst.asSource(), &target, e.target())
		far <- answer{hash, err}
	}()
	ours, err := s.hash(s.tree.src, e, e.source())
	theirs := <-far
	if err != nil {
		return false, err
	}
	return theirs.err == nil && ours.Algorithm == theirs.hash.Algorithm &&
		string(ours.Sum) == string(theirs.hash.Sum), nil
}

// hash has one side hash a file, or reads it.
func (s *syncing) hash(side source, e *entry, name string) (checksum.Hash, error) {
	j := *s.tree.job
	j.src, j.dst, j.listener = side, nowhere{&j}, nil
	j.options.Hash, j.options.Verify, j.options.List = checksum.SHA256, false, nil
	j.options.Journal = ""
	j.once = func(c *fileCopy) error {
		defer c.connect()()
		return ofSource(c.src.sum(c))
	}
	c := &fileCopy{job: &j, entry: e, source: name, began: time.Now()}
	err := c.copy()
	c.freeHandle()
	if conn := side.conn(); err == nil && conn != nil && c.hashing.verified == VerifiedByReading {
		s.reported.Do(func() {
			s.tree.note(s.tree.route.Source, s.tree.root.target, fmt.Sprintf("%s does not hash files: they are read to compare them", conn.Host().Name))
		})
	}
	return c.hashing.hash, err
}

// sameDirectory reports whether a directory of the target has all the attributes that it should.
func (s *syncing) sameDirectory(d *directory) bool {
	return d.there != nil && !d.touched.Load() && d.there.sameTime(&d.facts, s.options.ModifyWindow) &&
		(!d.facts.hasMode || d.there.perm() == d.facts.mode.Perm()) &&
		(!s.options.Owners || d.there.sameOwner(&d.facts))
}

// vanished counts an entry that the source no longer has.
func (s *syncing) vanished(source string, err error) bool {
	var failure *Error
	ours := errors.As(err, &failure) && failure.ofSource || isOfSource(err)
	if s == nil || source == s.tree.route.Source || !ours || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	s.tree.counts.vanished.Add(1)
	s.tree.tell(&Event{Kind: Skipped, Route: Route{Source: source}, Size: -1, Err: ErrVanished,
		Message: "it vanished before it could be copied"})
	return true
}

// plan tells what would be done about an entry.
func (t *tree) plan(e *entry) {
	route, size := e.route(), e.facts.size
	if e.reason.onlyAttrs() {
		t.sync.equal(e)
		t.counts.attrs.Add(1)
	}
	if e.facts.mode.IsDir() {
		route.Source, route.Target, size = route.Source+"/", route.Target+"/", -1
	}
	t.tell(&Event{Kind: Planned, Route: route, Size: size, Reason: e.reason})
}

func (e *entry) route() Route { return Route{Source: e.source(), Target: e.target()} }

// tooMany reports whether n entries are more than the options allow.
func (t *tree) tooMany(n int64) bool {
	most := t.options.MaxEntries
	if most == 0 {
		most = defaultEntries
	}
	return most > 0 && n > most
}

// A mirror is a target that can be compared, and in which things can be removed. All paths lie in a
// directory below the target.
type mirror interface {
	target

	// entries lists a directory. reset is called when the listing starts again.
	entries(d *directory, reset func(), yield func(name string, f *facts) error) error

	lookAt(d *directory, name string) (facts, error) // follows no link
	readLink(e *entry) (string, error)
	setAttrs(e *entry, set usftp.NewAttrs) error

	// remove removes a file or an empty directory, and follows no link.
	remove(d *directory, name string, dir bool) error

	asSource() source // the same end, to be read

	// unmoved fails if a directory that was listed is no longer where it was. makeAll makes a
	// directory, by its path below the target, and move moves a file to such a path; it fails with
	// fs.ErrExist if something is there.
	unmoved(d *directory) error
	makeAll(dir string) error
	move(d *directory, name, to string) error

	lockFiles
}

func (t *localTarget) entries(d *directory, _ func(),
	yield func(name string, f *facts) error) error {
	if t.top == nil { // a dry run, and there is no target
		return fs.ErrNotExist
	}
	in, release, err := t.roots.use(d, t.within(d))
	if err != nil {
		return err
	}
	defer release()
	dir, err := in.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	var failed error
	err = eachEntry(dir, func(name string, info fs.FileInfo, err error) bool {
		if failed = err; err == nil {
			f := localFacts(info)
			failed = yield(name, &f)
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

func (t *localTarget) lookAt(d *directory, name string) (facts, error) {
	info, err := t.top.Lstat(path.Join(t.within(d), name))
	if err != nil {
		return facts{}, err
	}
	return localFacts(info), nil
}

func (t *localTarget) readLink(e *entry) (string, error) {
	in, release, err := t.roots.use(e.dir, t.within(e.dir))
	if err != nil {
		return "", err
	}
	defer release()
	return in.Readlink(e.name)
}

func (t *localTarget) setAttrs(e *entry, set usftp.NewAttrs) error {
	in, release, err := t.roots.use(e.dir, t.within(e.dir))
	if err != nil {
		return err
	}
	defer release()
	info, err := in.Lstat(e.name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "chmod", Path: e.target(), Err: errReplaced}
	}
	if err == nil && set.SetOwner {
		err = in.Lchown(e.name, set.UID, set.GID)
	}
	if err == nil && set.SetMode {
		err = in.Chmod(e.name, set.Mode)
	}
	if err == nil && set.SetTimes {
		err = localfs.Lchtimes(in, e.name, set.Atime, set.Mtime)
	}
	return err
}

func (t *localTarget) remove(d *directory, name string, _ bool) error {
	in, release, err := t.roots.use(d, t.within(d))
	if err != nil {
		return err
	}
	defer release()
	return in.Remove(name)
}

func (t *localTarget) asSource() source { return &localSource{t.localEnd} }

// entries lists a directory.
func (t *remoteTarget) entries(d *directory, reset func(),
	yield func(name string, f *facts) error) error {
	return t.over(d.target, func(client *usftp.Client, again bool) error {
		if again {
			reset()
		}
		for listed, err := range client.Entries(d.target) {
			if err != nil {
				return err
			}
			f := remoteFacts(listed.FileStat())
			if !f.hasMode {
				info, err := client.Lstat(listed.Name())
				if errors.Is(err, fs.ErrNotExist) {
					continue
				} else if err != nil {
					return err
				}
				f = remoteFacts(info.Sys().(*usftp.FileStat))
			}
			if err := yield(listed.BaseName(), &f); err != nil {
				return err
			}
		}
		t.link.Arrived()
		return nil
	})
}

func (t *remoteTarget) lookAt(d *directory, name string) (f facts, err error) {
	name = path.Join(d.target, name)
	err = t.over(name, func(client *usftp.Client, _ bool) error {
		info, err := client.Lstat(name)
		if err == nil {
			f = remoteFacts(info.Sys().(*usftp.FileStat))
		}
		return err
	})
	return f, err
}

func (t *remoteTarget) readLink(e *entry) (to string, err error) {
	err = t.over(e.target(), func(client *usftp.Client, _ bool) error {
		to, err = client.ReadLink(e.target())
		return err
	})
	return to, err
}

// setAttrs follows no link where the server has lsetstat@openssh.com; elsewhere it looks right
// before.
func (t *remoteTarget) setAttrs(e *entry, set usftp.NewAttrs) error {
	name := e.target()
	return t.over(name, func(client *usftp.Client, _ bool) error {
		err := client.LsetAttrs(name, set)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		info, err := client.Lstat(name)
		if err == nil && !info.Mode().IsRegular() {
			err = &fs.PathError{Op: "setstat", Path: name, Err: errReplaced}
		}
		if err == nil {
			err = client.SetAttrs(name, set)
		}
		return err
	})
}

func (t *remoteTarget) remove(d *directory, name string, dir bool) error {
	name = path.Join(d.target, name)
	return t.over(name, func(client *usftp.Client, again bool) error {
		do := client.Remove
		if dir {
			do = client.RemoveDirectory
		}
		err := do(name)
		if again && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func (t *remoteTarget) asSource() source { return &remoteSource{t.remoteEnd} }

var _ = []mirror{(*localTarget)(nil), (*remoteTarget)(nil)}
