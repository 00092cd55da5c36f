package transfer

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/plan"
)

// CheckOptions configure a [Check]. The zero CheckOptions are valid.
//
// Of Options, only Retry, RateLimit and Events are used. Include and Exclude select the files to
// compare, including files that are only in the list. With LinksFollow, linked directories are
// searched for unlisted files.
type CheckOptions struct {
	TreeOptions

	// Strict makes unlisted files failures.
	Strict bool
}

// ErrUnlisted reports a file that is not in the list, with CheckOptions.Strict.
var ErrUnlisted = errors.New("not in the list of hashes")

var (
	errMissing = endpoint.Explain("in the list but does not exist", checksum.ErrMismatch,
		fs.ErrNotExist)
	errEmptyList = endpoint.Explain("the list is empty", checksum.ErrMismatch)
)

// Check compares the files in a directory, which may be on a host, with a list of hashes, as
// sha256sum -c does. Nothing is copied. The names in the list are relative to dir. The list must
// not be used for anything else until Check returns.
//
// A host that hashes files (check-file) is asked for their hashes, one round trip per file and many
// files at once. If it does not offer the list's algorithm the files are read, small ones in two
// round trips each and large ones as a stream, which costs as much as a download. On a host known
// to count how often a file is read (IBM Sterling's) nothing is read, and without its hash the
// error matches [errors.ErrUnsupported].
//
// The whole directory is walked to find unlisted files, too: each is a Skipped event, or with
// Strict a failure for which errors.Is(err, [ErrUnlisted]) holds. Listed files that the walk did
// not find are looked up by name, following links. Symbolic links that are not listed are ignored.
//
// A matching file is reported by a Done event with its Hash and how it was Verified, a differing
// one by a Failed event whose Err satisfies errors.Is(err, [checksum.ErrMismatch]), and
// errors.Is(err, fs.ErrNotExist) too if it is missing. Name is the file's name in the list.
//
// The error is a [*TreeError] if anything differs, is missing or cannot be read, and an [*Error] if
// the directory or the list cannot be used at all. Summary.Files counts the files that match.
func Check(ctx context.Context, dir Endpoint, list *checksum.List,
	options CheckOptions) (Summary, error) {
	o := options.TreeOptions
	o.DryRun, o.KeepDirLinks = false, false
	o.Options = Options{List: list, Verify: true, RateLimit: o.RateLimit, Retry: o.Retry,
		Events: o.Events, progressEvery: o.progressEvery}
	if dir.path == "" {
		dir.path = "."
	}
	list.Reset()
	j, done, err := newJob(ctx, Endpoint{newTarget: newNowhere}, dir, o.Options)
	defer done()
	j.once, j.op = filecopy.CheckOnce, opCheck
	t := newTree(j, o)
	t.plan = &checking{copying{t}, options.Strict}
	t.rules = treeRules{failed: "differ from the list or could not be read"}
	t.copies.Rules = filecopy.Rules{}
	return t.run(err)
}

// checking is the planner of Check. It makes and finishes no directories.
type checking struct {
	copying
	strict bool
}

func (p *checking) enter(*directory) (leave func(), ok bool) { return func() {}, true }
func (p *checking) finish(*directory) error                  { return nil }

func (p *checking) file() error {
	if err := p.start(); err != nil {
		return err
	}
	return &fs.PathError{Op: "check", Path: p.tree.route.Source, Err: endpoint.ErrNotDirectory}
}

// start fails if there is nothing to compare.
func (p *checking) start() error {
	if p.tree.options.List.Len() == 0 {
		return errEmptyList
	}
	return nil
}

func (p *checking) found(e *entry) bool {
	t, mode := p.tree, e.info.Mode
	return !e.dir.excludes(e.name, mode.IsDir()) && (mode.IsDir() || mode.IsRegular() ||
		t.leads(mode) && t.options.Links == LinksFollow)
}

// nowhere is the target of a Check.
type nowhere struct{ filecopy.Nowhere }

func newNowhere(*job) (target, error) { return nowhere{}, nil }

func (nowhere) begin(*tree, endpoint.Info, func() error) (targetDir, error) {
	return targetDir{Root: noRoot{}}, nil
}

// noRoot is the root below nowhere.
type noRoot struct{ endpoint.Root }

func (noRoot) Leave(string) error { return nil }
func (noRoot) Close()             {}

// wants reports whether a file is in the list.
func (p *checking) wants(e *entry) bool {
	t, name := p.tree, e.rel()
	listed, _, err := t.options.List.Find(name)
	switch e.do = plan.OfListed(listed || err != nil, p.strict); e.do.Do {
	case plan.Fail:
		t.count(&t.sums.Unlisted, 1)
		t.fail(name, e.source(), "", ErrUnlisted)
	case plan.Skip:
		t.count(&t.sums.Unlisted, 1)
		t.count(&t.sums.Skipped, 1)
		t.tell(&Event{Kind: Skipped, Route: Route{Source: e.source()}, Size: e.info.Size, Name: name,
			Message: ErrUnlisted.Error()})
	}
	return e.do.Do == plan.Compare
}

// mostSought is how many names of the list are looked up at once.
const mostSought = 256

// rest looks up the listed names that the walk did not find: they are below links, or missing.
func (p *checking) rest() {
	t, w := p.tree, p.tree.walk
	t.root.pending.Add(1)
	defer w.done(t.root)
	var looking errgroup.Group
	looking.SetLimit(min(w.most, mostSought))
	defer looking.Wait()
	for name, err := range t.options.List.Missing() {
		if t.ctx.Err() != nil {
			return
		}
		if err != nil {
			t.fail("", t.root.source, "", err)
			return
		}
		if _, before, _ := t.options.List.Find(name); before || t.selection.ExcludeFile(name) {
			continue
		}
		looking.Go(func() error { p.look(name); return nil })
	}
}

// look looks up a name of the list, and hands on its file.
func (p *checking) look(name string) {
	t := p.tree
	if t.ctx.Err() != nil {
		return
	}
	e := &entry{dir: t.root, name: name, sought: true}
	found, err := t.src.Stat(e.source())
	err = endpoint.OfSource(err)
	switch e.do = plan.OfSought(&found, err); e.do.Why {
	case plan.Missing:
		t.count(&t.sums.Missing, 1)
		err = errMissing
	case plan.NoFile:
		kind := ErrIsDirectory.Error()
		if !found.Mode.IsDir() {
			kind = "it is " + endpoint.KindOf(found.Mode)
		}
		err = endpoint.Explain(kind+", but the list has the hash of a file", checksum.ErrMismatch)
	}
	if err != nil {
		t.fail(name, e.source(), "", err)
		return
	}
	e.info = found
	t.walk.hand(e)
}
