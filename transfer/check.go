package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// Check compares the files below a directory with a list of hashes, without copying any: what
// sha256sum -c does, for a host too.
//
// A host that hashes files (check-file) is asked for their hashes, in one round trip a file and
// many files at once; one that has no hash of the list's algorithm is read through, small files in
// two round trips each and large ones streamed. Nothing is held of what passes. Reading costs what
// a download costs: a host that counts every time that a file is read is refused with an error
// unless it hashes.
//
// All of the directory is walked, so that what the list does not have is found too: that is a
// Skipped event, or with Strict a failure for which errors.Is(err, [ErrUnlisted]) holds. What the
// walk has not met is looked for by its name, where links are followed. Symbolic links that are not
// in the list are passed over.
//
// A file that is what the list says is a Done event with its Hash, and Verified says how it was
// found out. One that is not, a Failed event for whose Err errors.Is(err, [ErrList]) holds; one
// that is not there, one for which errors.Is(err, fs.ErrNotExist) holds besides. Name is what the
// list calls it.
type Check struct {
	Host Host   // without a Client: this machine
	Dir  string // names in the list begin there
	List *List  // for this check alone while it runs; see [OpenList]

	// Strict makes files that are not in the list failures.
	Strict bool

	// Options: RateLimit, Retries, RetryFor, Backoff, Events and ProgressEvery. A file whose
	// reading was cut off is read anew.
	Options Options

	// TreeOptions: Include and Exclude say which files are compared; of the list too, only those
	// that they want are. With FollowLinks, linked directories are looked into for what is not in
	// the list. StopOnError and the bounds are as for a [Tree].
	TreeOptions TreeOptions
}

// ErrUnlisted says that a file is not in a list, where all should be.
var ErrUnlisted = errors.New("it is not in the list of hashes")

// The reasons of checks.
var (
	errMissing   = &checkError{"it is in the list, and not there", []error{ErrList, fs.ErrNotExist}}
	errChanging  = errors.New("it is being written to: its size or time has changed while it was read")
	errNoList    = errors.New("there is nothing to compare with: a Check needs a list, and copies have another direction")
	errEmptyList = &checkError{"the list has no line", []error{ErrList}}
)

// checkError says one thing to people, and holds for more.
type checkError struct {
	text string
	is   []error
}

func (e *checkError) Error() string   { return e.text }
func (e *checkError) Unwrap() []error { return e.is }

// Run compares. The error is a [*TreeError] where anything differs, is missing or cannot be read,
// and an [*Error] where the directory or the list cannot be used at all. In the Summary, Files are
// those that are what the list says.
func (c *Check) Run(ctx context.Context) (Summary, error) {
	o := &c.Options
	t := Tree{Host: c.Host, Direction: Checking, Source: c.Dir, TreeOptions: c.TreeOptions,
		Options: Options{
			List: c.List, RateLimit: o.RateLimit, Retries: o.Retries, RetryFor: o.RetryFor, Backoff: o.Backoff, Events: o.Events, ProgressEvery: o.ProgressEvery,
		}}
	t.TreeOptions.DryRun = false
	if t.Source == "" {
		t.Source = "."
	}
	c.List.forget()
	return t.start(ctx, c.Strict)
}

// here tells whether a tree has no host.
func (t *treeRun) here() bool {
	return t.Direction == Local || t.Direction == Checking && t.line.client() == nil
}

// prepareCheck makes a tree of what is only read.
func (t *treeRun) prepareCheck(found facts, trip time.Duration) error {
	switch {
	case t.Options.List == nil:
		return errNoList
	case t.Options.List.Len() == 0:
		return errEmptyList
	case !found.mode.IsDir():
		return &fs.PathError{Op: "check", Path: t.Source, Err: errNotDirectory}
	}
	if err := verifiable(t.line.client(), &Options{Verify: true}); err != nil {
		return err
	}
	root := &directory{tree: t, source: t.Source, rel: ".", facts: found}
	root.pending.Store(1)
	t.target = nowhere{}
	if err := t.measure(trip); err != nil {
		return err
	}
	t.root = root
	return nil
}

// nowhere is the target of a tree that is only read.
type nowhere struct{}

func (nowhere) join(dir, name string) string      { return "" }
func (nowhere) check(*directory, string) error    { return nil }
func (nowhere) makeDir(*directory) (bool, error)  { return false, nil }
func (nowhere) finishDir(*directory) error        { return nil }
func (nowhere) leave(*directory)                  {}
func (nowhere) makeLink(i *item, to string) error { return nil }
func (nowhere) close()                            {}

// checks tells whether a check looks at what the walk has found.
func (t *treeRun) checks(mode fs.FileMode) bool {
	return mode.IsDir() || mode.IsRegular() ||
		mode&fs.ModeSymlink != 0 && t.TreeOptions.Links == FollowLinks
}

// unlisted tells whether a check passes over a file since the list does not have it, and tells of
// it.
func (t *treeRun) unlisted(i *item) bool {
	if t.Direction != Checking {
		return false
	}
	name := i.rel()
	if sums, err := t.Options.List.find(name); err != nil || len(sums) > 0 {
		return false
	}
	t.strangers.Add(1)
	if t.strict {
		t.failNamed(name, i.source(), "", ErrUnlisted)
		return true
	}
	t.skipped.Add(1)
	t.tell(Event{Kind: Skipped, Source: i.source(), Size: i.facts.size, Name: name,
		Message: ErrUnlisted.Error()})
	return true
}

// mostSought is how many names of the list are looked for at once.
const mostSought = 256

// lookForUnmet looks for what a check's list has and the walk has not met: what lies behind links,
// or is missing.
func (p *plan) lookForUnmet() {
	t := p.tree
	if t.Direction != Checking {
		return
	}
	t.root.pending.Add(1)
	defer t.root.done()
	names := make(chan string)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer close(names)
	workers := 0
	for name := range t.Options.List.Missing() {
		if t.ctx.Err() != nil {
			return
		}
		if _, first, _ := t.Options.List.meet(name); !first || !t.filter.wantsAll(name) {
			continue
		}
		if workers < min(p.most, mostSought) {
			workers++
			looking.Go(func() {
				for name := range names {
					p.look(name)
				}
			})
		}
		names <- name
	}
}

// look looks for a name of the list, and hands on what there is.
func (p *plan) look(name string) {
	t := p.tree
	if t.ctx.Err() != nil {
		return
	}
	i := &item{dir: t.root, name: name, sought: true}
	found, err := t.source.look(i.source())
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		t.missing.Add(1)
		err = errMissing
	case err == nil && found.mode.IsDir():
		err = &checkError{ErrIsDirectory.Error() + ", and the list has a file's hash",
			[]error{ErrList}}
	case err == nil && !found.mode.IsRegular():
		err = &checkError{"it is " + kindOf(found.mode) + ", and the list has a file's hash",
			[]error{ErrList}}
	}
	if err != nil {
		t.failNamed(name, i.source(), "", err)
		return
	}
	i.facts = found
	p.hand(i)
}

// wantsAll tells whether a file is wanted, and every directory that it lies in.
func (f *filter) wantsAll(name string) bool {
	for at := range len(name) {
		if name[at] == '/' && !f.wants(name[:at], true) {
			return false
		}
	}
	return f.wants(name, false)
}

// check compares one file with the list.
func (r *run) check() error {
	if r.item == nil {
		return errNoList
	}
	if r.Host.Client == nil {
		return r.checkHere()
	}
	return r.checkThere()
}

// checkHere reads a file of this machine.
func (r *run) checkHere() error {
	from := &source{listed: r.isListed()}
	if err := from.open(r.ctx, r.Source); err != nil {
		return err
	}
	defer from.close()
	if !from.before.Mode().IsRegular() {
		return errChanging
	}
	r.size = from.before.Size()
	err := r.hashKept(r.size, from.again(r.Source))
	if errors.Is(err, errDiffers) || errors.Is(err, io.ErrUnexpectedEOF) ||
		from.changed(r.size) != nil {
		return errChanging
	}
	r.verified, r.result.Bytes = VerifiedByReading, r.size
	return err
}

// checkThere has the host hash its file, or reads it.
func (r *run) checkThere() error {
	r.size = r.item.facts.size
	if sum := r.sumAtHost(); sum != nil {
		r.hash, r.verified = Hash{r.Options.Hash, sum}, VerifiedByHash
	} else if err := r.readThere(); err != nil {
		return err
	}
	r.result.Bytes = max(0, r.size)
	return r.checkList()
}

// sumAtHost is the host's word for what a file hashes to, nil where there is none.
func (r *run) sumAtHost() []byte {
	wanted := r.Options.Hash.atHost()
	if known := r.Host.Client.CheckFileAlgorithms(); known != nil &&
		!slices.Contains(known, wanted) {
		return nil
	}
	theirs := r.hashesAtHost(r.Source, nil, usftp.CheckFile{Algorithms: []string{wanted}})
	if theirs == nil || len(theirs.Hashes) != 1 {
		return nil
	}
	return theirs.Hashes[0]
}

// readThere reads a file of the host's through.
func (r *run) readThere() error {
	if private.OfClient(r.Host.Client).ReadsOnce() { // it has hashes, and not the list's
		return errReadOnce
	}
	sum := newDigest(r.Options.Hash, 0)
	err := private.ErrOtherSize
	if r.isSmall(r.size) {
		err = r.hashSmallThere(r.Source, r.size, sum)
	}
	if errors.Is(err, private.ErrOtherSize) {
		err = r.hashLargeThere(sum)
	}
	if errors.Is(err, errDiffers) {
		return errChanging
	}
	if err == nil {
		r.hash, r.verified = Hash{r.Options.Hash, sum.sums[0]}, VerifiedByReading
	}
	return err
}

func (r *run) hashLargeThere(sum *digest) error {
	f, err := r.Host.Client.OpenRead(r.Source)
	if err != nil {
		return err
	}
	defer f.Close()
	defer r.watch(f.Progress)()
	if f.AttrsCached() && f.FileStat().HasSize() { // newer than the listing
		r.size = int64(f.FileStat().Size)
	}
	return r.hashThere(f, r.size, sum)
}
