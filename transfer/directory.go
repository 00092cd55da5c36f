package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/filter"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/plan"
	"github.com/usftp/usftp/internal/private"
)

// A directory of the tree, from its discovery until everything in it is done.
type directory struct {
	tree           *tree
	parent         *directory // nil for the source itself
	source, target string
	rel            string // relative to the source, with slashes; "." for the source itself
	depth          int
	info           endpoint.Info
	real           string // its real path; only with LinksFollow on a host
	names          sourceNames
	fresh          bool // this copy made it
	failed         bool // it could not be made
	filecopy.Findings
	pending atomic.Int64 // entries not done yet

	// unswept has, by root, the target's subdirectories not found in the source yet; nil unless
	// they may contain leftovers of an earlier run.
	unswept map[string]map[string]bool

	syncedDir
}

// syncedDir is a sync's own state of a directory.
type syncedDir struct {
	made      bool                 // it exists at the target already
	existing  plan.Held            // the existing directory at the target, if one is known
	touched   atomic.Bool          // an entry in it changes, and with that its mtime
	linked    endpoint.Once[error] // of tree.inPlace
	moved     endpoint.Once[error] // of syncing.open
	was       fs.FileMode          // the mode that it had before syncing.open changed it
	inventory *plan.Inventory      // of the target's directory, while both are listed
	big       atomic.Bool          // inventory is large; this or an ancestor holds syncing.big
	extra     bool                 // the source does not have it
	ignore    *filter.Ignore
}

// child returns a directory in this one.
func (d *directory) child(name string) *directory {
	return &directory{tree: d.tree, parent: d, source: d.tree.src.Join(d.source, name),
		target: d.tree.dst.Join(d.target, name), rel: path.Join(d.rel, name), depth: d.depth + 1}
}

// chmod changes the permissions of a directory of the source.
func (a *Attributes) chmod(dir endpoint.Info) endpoint.Info {
	if a.Chmod != nil && dir.HasMode {
		dir.Mode = fs.ModeDir | a.Chmod(dir.Mode)&(fs.ModePerm|endpoint.DirBits)
	}
	return dir
}

// attrs returns the attributes to set on a directory once everything in it is done.
func (d *directory) attrs() (set usftp.NewAttrs, err error) {
	o := &d.tree.options
	if err := d.tree.copies.Options.AddOwner(&set, d.info.Owner); err != nil {
		return set, err
	}
	if !d.fresh && d.tree.resumed == notResumed && !o.Preserve {
		return set, nil
	}
	if d.was != 0 { // unless it gets the source's
		set.SetMode, set.Mode = true, d.was
	}
	if d.info.HasMode && !o.NoModes && (o.Preserve || d.info.Perm()&0o700 != 0o700) {
		set.SetMode, set.Mode = true, d.info.Perm()
	}
	if set.SetMode && o.Preserve {
		set.Mode |= d.info.Mode & endpoint.DirBits
	}
	if d.info.HasTimes && !o.NoTimes {
		set.SetTimes = true
		set.Atime, set.Mtime = d.info.Atime, d.info.Mtime
	}
	return set, nil
}

// excludes reports whether an entry of a directory is left out.
func (d *directory) excludes(name string, dir bool) bool {
	return d.tree.selection.Excludes(d.rel, name, dir, d.ignore)
}

// list lists a directory of the source, without entries that a list of names leaves out.
func (t *tree) list(d *directory, each func(*entry, error) bool) error {
	if t.selection.List == nil {
		return d.listAll(each)
	}
	at, all := t.selection.List.In(d.rel)
	switch {
	case all:
		return d.listAll(each)
	case at == nil:
		return nil
	}
	return d.listAll(func(e *entry, err error) (goOn bool) {
		leads := e.info.Mode.IsDir() || t.leads(e.info.Mode) && t.options.Links == LinksFollow
		e.named, goOn = at.Takes(e.name, leads)
		return !goOn || each(e, err)
	})
}

// listAll lists a directory of the source. It fails if a link has taken its place since it was found,
// or another directory that looks otherwise.
func (d *directory) listAll(each func(*entry, error) bool) error {
	t := d.tree
	var was *endpoint.Info
	if d.info.Local != nil && t.options.Links != LinksFollow {
		was = &d.info
	}
	every := func(name string, i endpoint.Info, err error) bool {
		return each(&entry{dir: d, name: name, info: i}, endpoint.OfSource(err))
	}
	err := t.src.List(d.source, was, nil, every)
	if at, ok := errors.AsType[*fs.PathError](err); ok && was != nil &&
		at.Err == endpoint.ErrMoved && at.Op == "open" && d.renumbered() {
		err = t.sources.relist(d.rel, every)
	}
	if err != nil && was != nil && d.parent != nil {
		if now, lookErr := t.src.Lstat(d.source); lookErr == nil && now.Mode&fs.ModeSymlink != 0 {
			err = filecopy.Changed(&fs.PathError{Op: "open", Path: d.source, Err: localfs.ErrLink})
		}
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && at.Err == endpoint.ErrMoved {
		at.Err = errMoved
	}
	return endpoint.OfSource(err)
}

// errMoved reports that another directory has taken the place of the one found before.
var errMoved = fmt.Errorf("%w: %w", ErrSourceChanged, endpoint.ErrMoved)

// entries lists a directory of the target, without the names that the source cannot have, since
// they do not convert to its character set. It calls reset when the listing starts over; with a nil
// one no entry comes twice.
func (t *targetDir) entries(dir string, reset func(),
	yield func(name string, f *endpoint.Info) error) error {
	var failed error
	err := t.List(dir, nil, reset, func(name string, i endpoint.Info, err error) bool {
		if errors.Is(err, usftp.ErrNameCoding) {
			return true
		}
		if failed = endpoint.IgnoreMissing(err); err == nil {
			failed = yield(name, &i)
		}
		return failed == nil
	})
	return cmp.Or(failed, err)
}

// loops returns the reason not to enter a linked directory, "" if none.
func (t *tree) loops(d *directory) string {
	if d.info.Local == nil { // a host's: the real paths show it
		if d.real, _ = t.src.RealPath(d.source); d.real == "" {
			return ""
		}
	}
	for above := d.parent; above != nil; above = above.parent {
		if d.info.Local == nil && above.real == "" {
			above.real, _ = t.src.RealPath(above.source)
		}
		if d.info.Local != nil && os.SameFile(above.info.Local, d.info.Local) ||
			d.info.Local == nil && above.real == d.real {
			return "it leads back to " + above.source
		}
	}
	return ""
}

// isCopy reports whether a directory of the source is the copy itself, on this machine.
func (t *tree) isCopy(is endpoint.Info) bool {
	if is.Local == nil || t.dst.Conn() != nil {
		return false
	}
	to, err := t.dst.Stat(t.into.path)
	return err == nil && os.SameFile(to.Local, is.Local)
}

// makeDir makes a directory at the target. fresh is false if it exists already.
func (t *tree) makeDir(d *directory) (fresh bool, err error) {
	if d.parent == nil && t.into.exists {
		return t.into.made, nil
	}
	if d.parent != nil {
		if err := t.inPlace(d.parent); err != nil {
			return false, err
		}
	}
	fresh, err = t.into.Mkdir(d.rel, d.info.Perm()|0o700)
	if t.options.KeepDirLinks && errors.Is(err, endpoint.ErrLinkInWay) {
		_, err = d.keepLink()
	}
	return fresh, err
}

// keepLink lets the link in a directory's place stand for it, unless the link leads to the source,
// into it or around it. It describes the directory behind the link.
func (d *directory) keepLink() (is endpoint.Info, err error) {
	if is, err = d.tree.into.KeepDirLink(d.rel); err == nil {
		err = d.tree.overlap.apart(d.target)
	}
	return is, err
}

// inPlace fails if one look, right before the first change in an existing target directory, finds a
// link in its place. New directories were checked when they were made, or when that failed.
func (t *tree) inPlace(d *directory) error {
	if d.parent == nil || !d.made || !t.into.FollowsLinks() {
		return nil
	}
	return d.linked.Do(func() error { return t.into.InPlace(d.rel) })
}

// behindLink reports whether a directory below the target can only be reached through a link, if
// the host tells.
func (d *directory) behindLink() bool {
	if d.parent == nil || d.tree.into.FollowsLinks() {
		return false
	}
	_, err := d.tree.into.LookDir(d.rel)
	return err != nil
}

// finishDir sets a directory's attributes at the target.
func (t *tree) finishDir(d *directory) error {
	set, err := d.attrs()
	if err != nil || set == (usftp.NewAttrs{}) {
		return err
	}
	masked := set.SetMode && !t.options.Preserve                // the umask still applies
	old := d.parent != nil && !d.fresh && t.into.FollowsLinks() // the last look at it is long ago
	if masked || old {
		is, err := t.into.LookDir(d.rel)
		if err != nil && (old || !endpoint.Refused(err)) {
			return err
		}
		if masked && err == nil && is.HasMode {
			set.Mode &= is.Mode.Perm()
		}
	}
	unset, err := t.setAttrs(d.rel, fs.ModeDir, d.fresh, set)
	if endpoint.Refused(err) && !errors.Is(err, fs.ErrNotExist) && !d.fresh &&
		t.unset.learn(t, set) {
		unset, err = t.setAttrs(d.rel, fs.ModeDir, d.fresh, set)
	}
	t.unset.add(unset)
	return err
}

// setAttrs sets attributes at the target. For own see [endpoint.Root].
func (t *tree) setAttrs(name string, kind fs.FileMode, own bool,
	set usftp.NewAttrs) (endpoint.Unset, error) {
	if warning := t.copies.Nearest(&set); warning != "" {
		t.warn(t.route.Source, t.route.Target, warning)
	}
	return t.into.SetAttrs(name, kind, own, set)
}

// dirUnset holds the attributes that the host does not set on directories. tell reports them in the
// end, unless the host sets them on no files either.
type dirUnset struct {
	mu           sync.Mutex
	times, modes bool
	learned      endpoint.Once[bool] // of learn
}

// learn tests, with a directory of this run's own, whether the host denies these attributes for any
// directory.
func (d *dirUnset) learn(t *tree, set usftp.NewAttrs) bool {
	return d.learned.Do(func() bool {
		name := t.copies.Token.Name("attributes")
		if made, err := t.into.Mkdir(name, 0o700); !made || err != nil {
			return false
		}
		set.SetOwner = false
		unset, err := t.setAttrs(name, fs.ModeDir, true, set)
		d.add(unset)
		t.into.Remove(name, true)
		return err == nil && (unset.Times || unset.Modes)
	})
}

func (d *dirUnset) add(unset endpoint.Unset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times, d.modes = d.times || unset.Times, d.modes || unset.Modes
}

func (d *dirUnset) tell(t *tree) {
	if !t.options.Preserve { // it was not asked for
		return
	}
	q := t.dst.Quirks()
	unset := endpoint.Unset{Times: d.times && !q.NoTimes.Load(), Modes: d.modes && !q.NoModes.Load(),
		Dirs: true, Here: t.dst.Conn() == nil}
	t.copies.Options.Tell(unset, func(why string) {
		if !q.ToldDirs.Swap(true) {
			t.root.warn(why)
		}
	})
}

// An entry is a file or a link to copy.
type entry struct {
	dir    *directory
	name   string
	info   endpoint.Info
	sought bool       // a Check found it by name, through links
	named  *plan.List // with a list of names, its place there

	// Of a sync:
	existing plan.Held   // the target's entry of this name
	do       plan.Action // the decision about it
	saved    bool        // the target's entry is in the backup directory
	planned  bool        // counted as planned

	text string // of a link, once it was read
}

// absent reports whether the target is known to have no entry of this name.
func (e *entry) absent() bool { return e.dir.fresh || e.do.Why == plan.New }

func (e *entry) source() string { return e.dir.tree.src.Join(e.dir.source, e.name) }
func (e *entry) target() string { return e.dir.tree.dst.Join(e.dir.target, e.name) }

func (e *entry) paths() (source, target string) { return e.source(), e.target() }

// backups returns the backups that keep the replaced target entry, nil if none do.
func (e *entry) backups() *backups { return e.dir.tree.plan.backups(e) }

// rel returns the path relative to the source, with slashes.
func (e *entry) rel() string { return path.Join(e.dir.rel, e.name) }

// selected reports whether a file or a link takes part.
func (e *entry) selected() bool {
	t := e.dir.tree
	e.do = t.selection.Of(e.name, &e.info)
	switch e.do.Why {
	case plan.UnderWay:
		t.skip(e.source(), "it is the temporary file of a copy that is under way")
	case plan.Young:
		t.countYoung()
	}
	return e.do.Do != plan.Skip
}

// checkName refuses names that Target.CheckName refuses, and a name that a source server sends twice
// where a link would be followed: its first entry may have made the link.
func (e *entry) checkName() error {
	t := e.dir.tree
	foreign := t.src.Conn() != nil
	if err := t.dst.CheckName(e.name, foreign); err != nil || !foreign {
		return err
	}
	follows := t.options.KeepDirLinks
	if conn := t.dst.Conn(); conn != nil { // as writing in place does there, and some servers' renames
		follows = follows || t.options.Placement == PlaceDirect ||
			!private.OfClient(conn.Host().Client).KnowsLinks()
	}
	if follows && !e.dir.names.AddExactly(e.name) {
		return errTwice
	}
	return nil
}

var errTwice = errors.New("server sent the same file name twice")

// twin fails if the target takes an entry's name for the name of an earlier entry. It calls open
// before it makes a file to find out.
func (e *entry) twin(open func()) error {
	for _, other := range e.dir.names.Add(e.name) {
		if other == e.name { // a host may send a name twice
			continue
		}
		if one, err := e.isOne(other, open); one || err != nil {
			return errTwin(other, err)
		}
	}
	if !utf8.ValidString(e.name) {
		e.warnOfName(open)
	}
	return nil
}

func (e *entry) route() Route { return Route{Source: e.source(), Target: e.target()} }

// The container of a file in a tree is its directory.

func (e *entry) Paths() (root, dir string)    { return e.dir.tree.root.target, e.dir.rel }
func (e *entry) Findings() *filecopy.Findings { return &e.dir.Findings }
func (e *entry) BehindLink() bool             { return e.dir.behindLink() }
func (e *entry) Unmoved() error               { return e.dir.tree.inPlace(e.dir) }
func (e *entry) MayCommit() error             { return e.dir.tree.plan.mayCommit() }
func (e *entry) KeepsOld() bool               { return e.backups() != nil }

func (e *entry) Exchange(replace func(freed bool) error) error {
	return e.backups().exchange(e, replace)
}

func (e *entry) Aside(mode fs.FileMode, remove func() error) (freed bool, err error) {
	return e.backups().aside(e, mode, remove)
}
