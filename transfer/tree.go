package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/usftp/usftp/internal/bottleneck"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/filter"
	"github.com/usftp/usftp/internal/plan"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// TreeOptions configure the copy of a tree. The zero TreeOptions are valid.
type TreeOptions struct {
	Options

	Links LinkMode

	// KeepDirLinks lets a symbolic link at the target that leads to a directory stand for the
	// directory, where the source has a directory of that name, as rsync -K does; otherwise it is in
	// the way. Anyone who can make such links at the target decides where files go and, with
	// SyncOptions.Delete, which files are deleted.
	KeepDirLinks bool

	// Filter leaves entries out of the copy, and out of a sync's deletions. The first rule that
	// matches decides.
	Filter []FilterRule

	// Files, if it is not nil, names the entries of the source to copy; the source must be a
	// directory. Filter applies to them, too. A named entry that is missing fails.
	Files *FileList

	// MinAge leaves out files that were modified less than this time before the run began, by this
	// machine's clock. They are counted as Young.
	MinAge time.Duration

	// DryRun writes nothing: Planned events report the copies to make.
	DryRun bool

	// StopOnError ends the copy at the first error. Otherwise an entry that fails does not stop the
	// others.
	StopOnError bool

	// MaxDepth and MaxEntries limit the tree, since a server could send an endless one. 0 means 256
	// levels and 20 million entries, a negative number no limit. Directories that are too deep fail
	// with ErrTreeTooDeep; ErrTreeTooLarge ends the copy.
	MaxDepth   int
	MaxEntries int64

	// MaxFiles limits how many files are in progress at once. 0 means as many as the link needs and
	// the servers allow.
	MaxFiles int

	// CountAhead lists the source a second time, only to count its files, if after a second the files
	// found have to wait to be copied: PlannedTotals then tell the total early. It does nothing if
	// links are followed, with MinAge, or if a Sync does not compare all files.
	CountAhead bool
}

// LinkMode selects how symbolic links in a tree are treated. The source itself is always followed.
type LinkMode string

const (
	LinksPreserve LinkMode = ""       // copied as links
	LinksFollow   LinkMode = "follow" // their targets are copied, except directories above the link
	LinksSkip     LinkMode = "skip"   // skipped, with an event
)

// Summary describes a CopyTree, Sync or Check that has ended.
type Summary struct {
	Totals
	Target     string // the path of the copy
	Elapsed    time.Duration
	Bottleneck Bottleneck // the rate's limiting factor, if known
}

// TreeError reports that part of a tree failed. It wraps First.
type TreeError struct {
	Failed int64 // files, directories and links
	First  error // the first that failed, or why the whole copy ended before its time

	// LeftBehind describes how many temporary files may be left, where, and how they are named; "" if
	// there are none besides those that Failed events name. A Warning says the same.
	LeftBehind string

	what string // says how the entries failed; "" if the whole copy ended
}

func (e *TreeError) Error() string {
	if e.Failed <= 1 || e.what == "" {
		return e.First.Error()
	}
	return fmt.Sprintf("%d entries %s; the first: %v", e.Failed, e.what, e.First)
}

// Unwrap returns First.
func (e *TreeError) Unwrap() error { return e.First }

var (
	// ErrTreeTooDeep and ErrTreeTooLarge report a tree that exceeds the limits in TreeOptions.
	ErrTreeTooDeep  = errors.New("the tree is deeper than allowed")
	ErrTreeTooLarge = errors.New("the tree has more entries than allowed")
)

// CopyTree copies a directory and everything in it from src to dst; a source that is a file is
// copied as by [Copy]. dst is the path of the copy. If dst is an existing directory, the copy goes
// into it under the last element of src's path, as with scp -r. A source that ends in "/." means
// the directory's contents. With Options.NoTargetDirectory dst is the copy even if it exists. With
// Options.Resume the same holds for a dst that an earlier run of the same copy made, if that was
// interrupted, or was completed in the last 24 hours.
//
// Listing and copying overlap. Many small files are in progress at once over one connection. Each
// takes three round trips to a host: OPEN; WRITE, FSETSTAT and CLOSE together; RENAME. From a host
// it takes two: OPEN; READ, FSTAT and CLOSE together. It takes one more to examine the target if
// its directory existed before, and two more with servers not known to work strictly in order. With
// Options.Sync a file to a host takes six, one after the other. usftp's own servers take and send
// several files of up to 32 KiB in one request, which takes one; on hosts that run another server,
// [pool.Host.Helper] may take the rest of a tree with many small files. Verifying takes one more if
// the host hashes files by name, three if it hashes only open files, and two if the file is read
// back. The round trip and the handles that the servers allow determine how many files are in
// progress.
//
// Files and directories keep their times where the target allows it; with Options.Preserve it is an
// error if it does not. A directory gets its times and permissions once everything in it is done.
//
// No symbolic link below the target is followed: a link in place of a directory is an error, and
// one in place of a file is replaced. That includes links that are put there meanwhile, except on
// hosts that do not offer beneath@usftp: those may follow them, see docs/reliability.md.
// Anything other than files, directories and links is skipped with an event.
//
// CopyTree returns when everything is in place or has failed, with a [*TreeError], or with an
// [*Error] if the source or the target cannot be used at all. If ctx ends, or a connection is lost
// for good, the rest of the tree is not copied.
func CopyTree(ctx context.Context, dst, src Endpoint, options TreeOptions) (Summary, error) {
	j, done, err := newJob(ctx, dst, src, options.Options)
	defer done()
	return newTree(j, options).run(err)
}

// A tree is one run of CopyTree, Check or Sync.
type tree struct {
	*job
	options TreeOptions
	plan    planner
	do      executor

	root      *directory // nil if the source is a file
	into      targetDir
	selection plan.Selection
	base      string // the copy's name in a directory, "." if the directory is the copy
	resumed   resumption

	treeReport
	overlap   overlap
	walk      *walk
	leftovers leftovers
}

// resumption says whether an earlier run made the target and the directories in it.
type resumption uint8

const (
	notResumed resumption = iota
	resumed               // as requested
	repeated              // by the same command: only the earlier run's files are replaced
)

func newTree(j *job, options TreeOptions) *tree {
	t := &tree{job: j, options: options, do: performing{},
		selection: plan.Selection{Began: j.began, MinAge: options.MinAge}}
	if options.DryRun {
		t.do = telling{}
	}
	t.plan = copying{t}
	t.options.Options = j.options
	t.treeReport.t, t.overlap.t = t, t
	j.tree = t
	return t
}

// run copies or checks the tree. err is the error of setting up the job, if any.
func (t *tree) run(err error) (Summary, error) {
	defer func() {
		if t.into.Root != nil {
			t.into.Close()
		}
	}()
	if err == nil {
		err = t.prepare()
	}
	if err != nil {
		err = newError(t.job, t.route.Source, t.route.Target, err)
		t.tell((&Event{Route: t.route, Size: -1}).failed(err))
		return Summary{Totals: t.totals(), Target: t.route.Target}, err
	}
	if t.root == nil {
		return t.single()
	}
	t.do.openNotes(t)
	stop := t.reportTotals()
	var w *bottleneck.Sampler
	if conns := t.copies.Conns(); len(conns) > 0 && t.rules.judges {
		w = bottleneck.NewSampler(t.ctx, conns[0].Host().Client, t.copies.Pauses, t.copies.Limiter)
	}
	t.walk.run()
	t.treeReport.conclude()
	t.plan.conclude()
	s := Summary{Target: t.root.target, Bottleneck: t.bottleneck(w)}
	t.walk.finishing.Wait()
	t.unset.tell(t)
	stop()
	if err = t.summarize(&s); t.options.Journal != "" {
		t.leftovers.end(t, err == nil)
	}
	return s, err
}

// prepare examines the source and the target. root stays nil if the source is a file.
func (t *tree) prepare() (err error) {
	if t.selection.Rules, err = compile(t.options.Filter); err != nil {
		return err
	}
	if list := t.options.Files; list != nil {
		if t.tooMany(int64(len(list.Names))) {
			return ErrTreeTooLarge
		}
		t.selection.List = plan.NewList(list.Names, list.Recursive)
	}
	if conns := t.copies.Conns(); len(conns) > 0 && t.options.Verify {
		if err := filecopy.Verifiable(conns[0].Host().Client); err != nil {
			return err
		}
	}
	if t.options.RemoveSource && t.options.Links == LinksFollow {
		return errFollowing
	}
	if t.options.RemoveSource && t.options.KeepDirLinks {
		return errMerging
	}
	found, err := t.src.Stat(t.route.Source)
	switch {
	case private.Untold(err) && t.plan.file() == nil && t.selection.List == nil &&
		t.options.MinAge == 0: // it cannot be listed, so it may be a file
		return nil
	case err != nil:
		return endpoint.OfSource(err)
	case !found.Mode.IsDir() && t.selection.List != nil:
		return endpoint.OfSource(&fs.PathError{Op: "list", Path: t.route.Source,
			Err: endpoint.ErrNotDirectory})
	case !found.Mode.IsDir():
		if t.selection.IsYoung(&found) {
			t.countYoung()
		}
		return t.plan.file()
	}
	return t.prepareTarget(found)
}

// prepareTarget finds or makes the directory that the tree goes to, and starts the plan. found
// describes the source.
func (t *tree) prepareTarget(found endpoint.Info) (err error) {
	t.base = t.src.Base(t.route.Source)
	if t.options.NoTargetDirectory {
		t.base = "."
	}
	fresh := false
	if t.base != "." && t.options.Journal != "" {
		mark := treeMark(t.copies.JournalKey("tree", t.route.Source, t.route.Target))
		if mark.continues(t.options.Resume) {
			t.base, t.resumed = ".", resumed
			if !t.options.Resume {
				t.resumed, t.copies.Options.Resume = repeated, true
			}
		}
		fresh = t.resumed == notResumed
		t.leftovers.made = t.do.note(mark)
	}
	root := &directory{tree: t, source: t.route.Source, rel: ".", info: t.options.chmod(found)}
	root.pending.Store(1)
	// both ask the hosts at the same time as begin does
	inside, near := make(chan string, 1), make(chan bool, 1)
	if t.rules.apart == nil || len(t.copies.Conns()) == 0 {
		inside <- ""
		near <- false
	} else {
		t.copies.Work.Go(func() { inside <- t.overlap.inside() })
		t.copies.Work.Go(func() { near <- t.overlap.near() })
	}
	t.into, err = t.dst.begin(t, root.info, func() error {
		dir := <-inside
		if slices.ContainsFunc(t.copies.Conns(), func(c *pool.Conn) bool {
			return pool.Lost(c.Host().Client)
		}) {
			dir = t.overlap.inside()
		}
		err := t.overlap.check(dir, t.overlap.source)
		if err == nil {
			err = t.do.makeAbove(t)
		}
		return err
	})
	root.target = t.into.path
	nested := t.base != "." && root.target != t.route.Target
	if fresh && (err != nil || nested) {
		t.leftovers.made.forget()
		t.leftovers.made = ""
	} else if t.leftovers.made != "" && !t.into.made { // not earlier: a target that exists is somebody else's
		t.leftovers.made.begin()
	}
	if err != nil {
		return err
	}
	if t.resumed == repeated {
		root.note("an interrupted run of this copy made the target, so it is continued in the same place")
	}
	if root.target != t.route.Target {
		t.into.within = t.base
	}
	if nested && path.Base(path.Dir(filepath.ToSlash(root.target))) == t.base {
		root.note(fmt.Sprintf("the target is a directory called %q already, and the copy goes into it under the same name (-T makes the target itself the copy)", t.base))
	}
	t.root = root
	t.overlap.marks = <-near
	if err = t.measure(); err == nil {
		err = t.plan.start()
	}
	return err
}

// single copies a source that is a file.
func (t *tree) single() (Summary, error) {
	j := t.job
	if t.sums.Young > 0 {
		s := Summary{Totals: t.totals(), Target: j.route.Target}
		s.Complete = true
		t.tell(&Event{Kind: Skipped, Route: j.route, Size: -1,
			Message: fmt.Sprintf("it was modified less than %v ago", t.options.MinAge)})
		return s, nil
	}
	j.tree, j.rules, j.copies.Rules = nil, copyRules, fileRules
	return t.do.single(newFileTask(j, nil, j.route.Source, j.route.Target))
}

// alone summarizes the copy of a source that is a file, which ended with err.
func alone(c *fileTask, err error) (Summary, error) {
	kept, err := c.ended(err)
	size := max(0, c.Size)
	s := Summary{Totals: Totals{
		PlannedTotals: PlannedTotals{PlannedFiles: 1, PlannedBytes: size, Complete: true},
		Bytes:         c.Result.Bytes, Resumed: min(c.Found(), c.Result.Bytes)},
		Target: c.Result.Target, Elapsed: c.Result.Elapsed,
		Bottleneck: Bottleneck(c.Result.Bottleneck)}
	if kept {
		s.Kept, s.KeptBytes = 1, size
		return s, nil
	}
	if err == nil || c.stays {
		s.Files = 1
	}
	if c.removed {
		s.Removed = 1
	}
	if err != nil {
		s.Failed = 1
		return s, &TreeError{Failed: 1, First: err}
	}
	return s, nil
}

// performing is the executor of a run.
type performing struct{}

func (performing) makeAbove(t *tree) error {
	if !t.options.MakePath {
		return nil
	}
	return t.copies.MakePath(t.route.Target, false)
}

func (performing) makeTop(name string, perm fs.FileMode) (made bool, err error) {
	err = os.Mkdir(name, perm)
	return err == nil, err
}

func (performing) root(r endpoint.Root) endpoint.Root { return r }
func (performing) note(m treeMark) treeMark           { return m }
func (performing) hand(w *walk, e *entry)             { w.queue(e) }
func (performing) told(*entry) bool                   { return false }
func (performing) did(t *tree, e *Event)              { t.tell(e) }

func (performing) touch(t *tree, name string) (remove func() error, err error) {
	return touch(t.dst, name)
}

func (performing) openNotes(t *tree) {
	if t.options.Journal != "" {
		t.openNotes()
	}
}

func (performing) single(c *fileTask) (Summary, error) { return alone(c, c.copy()) }

// copyRules are CopyTree's rules; fileRules are for its files and for single ones.
var (
	copyRules = treeRules{apart: errIntoItself, judges: true, counts: true,
		failed: "could not be copied"}
	fileRules = filecopy.Rules{Keeps: true,
		Resume:  "the same call with transfer.Options.Resume continues from there",
		InPlace: "; transfer.PlaceDirect writes the target itself"}
)

// copying is the planner of CopyTree.
type copying struct{ tree *tree }

func (p copying) file() error                    { return nil }
func (p copying) start() error                   { return nil }
func (p copying) walkers(from, _ limits) int     { return from.listings }
func (p copying) readIgnore(*directory) error    { return nil }
func (p copying) listed(*directory)              {}
func (p copying) enters(*directory, *entry) bool { return true }
func (p copying) wants(e *entry) bool            { return e.selected() }
func (p copying) prepare(*entry) (done bool)     { return false }
func (p copying) vanished(string, error) bool    { return false }
func (p copying) backups(*entry) *backups        { return nil }
func (p copying) mayCommit() error               { return nil }
func (p copying) finish(d *directory) error      { return p.tree.finishDir(d) }
func (p copying) rest()                          {}
func (p copying) conclude()                      {}

// enter makes the directory at the target, and sweeps it.
func (p copying) enter(d *directory) (leave func(), ok bool) {
	t := p.tree
	leave = func() {}
	if t.overlap.marker != "" && d.parent != nil {
		if _, err := t.src.Lstat(t.src.Join(d.source, t.overlap.marker)); err == nil {
			t.overlap.met()
			return leave, false
		}
	}
	if !d.made {
		fresh, err := t.makeDir(d)
		if err != nil {
			d.failed = true
			t.leftovers.unseen.Store(true)
			if refused := endpoint.Refused(err) || endpoint.IsAbsent(err); refused &&
				d.parent == nil && t.resumed == notResumed { // so there is nothing to continue
				t.leftovers.made.forget()
			}
			d.fail(err)
			return leave, false
		}
		d.fresh = fresh
	}
	if len(t.leftovers.dead) > 0 {
		t.leftovers.sweep(d)
	}
	return leave, true
}

func (p copying) found(e *entry) bool {
	if e.dir.excludes(e.name, e.info.Mode.IsDir()) {
		return false
	}
	if err := e.twin(func() {}); err != nil {
		e.fail(err)
		return false
	}
	return true
}

func compile(list []FilterRule) (filter.Rules, error) {
	rules := make(filter.Rules, len(list))
	for i, f := range list {
		var err error
		if rules[i], err = filter.NewRule(f.Pattern, f.Include); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

// countYoung counts a file that is too young to be copied.
func (t *tree) countYoung() {
	t.count(&t.sums.Skipped, 1)
	t.count(&t.sums.Young, 1)
}
