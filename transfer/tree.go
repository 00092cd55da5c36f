package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/pool"
)

// TreeOptions configure the copy of a tree. The zero TreeOptions are valid.
type TreeOptions struct {
	Options

	Links LinkMode

	// Include and Exclude are patterns as in package path, in which "**" also matches any number of
	// path elements. A pattern without a slash is matched with the last element of a path, any
	// other with the path relative to the source. A pattern that ends in a slash matches only
	// directories. What Exclude matches is not copied, nor is anything in it. If Include is not
	// empty, only files that match one of its patterns are copied.
	Include, Exclude []string

	// DryRun writes nothing: Planned events report what would be copied.
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
}

// LinkMode selects what happens to symbolic links in a tree. The source itself is always followed.
type LinkMode string

const (
	LinksPreserve LinkMode = ""       // copied as links
	LinksFollow   LinkMode = "follow" // their targets are copied, except directories above the link
	LinksSkip     LinkMode = "skip"   // skipped, with an event
)

const (
	defaultDepth   = 256
	defaultEntries = 20_000_000
)

// Totals report the progress of a tree. The planned numbers grow until Complete.
type Totals struct {
	PlannedFiles int64 `json:"planned_files"`
	PlannedBytes int64 `json:"planned_bytes"`
	Complete     bool  `json:"complete"` // the whole tree has been listed

	Files       int64 `json:"files"`             // copied; in a Check, those that match the list
	Bytes       int64 `json:"bytes"`             // copied, including files in progress
	Resumed     int64 `json:"resumed,omitempty"` // of Bytes, those copied by an earlier run
	Directories int64 `json:"directories"`
	Links       int64 `json:"links"`
	Kept        int64 `json:"kept"`       // files that were up to date
	KeptBytes   int64 `json:"kept_bytes"` // their bytes; part of PlannedBytes but not of Bytes
	Skipped     int64 `json:"skipped"`
	Failed      int64 `json:"failed"`

	Missing  int64 `json:"missing,omitempty"`  // of those that failed: listed but not present
	Unlisted int64 `json:"unlisted,omitempty"` // not in the list; skipped, or failed if Strict

	// Of a Sync:
	Attrs    int64 `json:"attrs,omitempty"`    // entries that only got attributes; files are in Kept too
	Deleted  int64 `json:"deleted,omitempty"`  // files and links deleted or moved away
	Vanished int64 `json:"vanished,omitempty"` // entries that vanished from the source

	Active []string `json:"active,omitempty"` // sources of a few large files in progress
}

// Summary describes what CopyTree or Check did.
type Summary struct {
	Totals
	Target     string // the path of the copy
	Elapsed    time.Duration
	Bottleneck Bottleneck // what limited the rate, if known
}

// TreeError reports that part of a tree failed. It wraps First.
type TreeError struct {
	Failed int64 // files, directories and links
	First  error // the first that failed

	// LeftBehind describes how many temporary files may be left, where, and how they are named; ""
	// if there are none but those that Failed events name. A Note says the same.
	LeftBehind string

	checking bool
}

func (e *TreeError) Error() string {
	switch {
	case e.Failed <= 1:
		return e.First.Error()
	case e.checking:
		return fmt.Sprintf("%d entries differ from the list or could not be read; the first: %v", e.Failed, e.First)
	}
	return fmt.Sprintf("%d entries could not be copied; the first: %v", e.Failed, e.First)
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
// Options.Sync a file to a host takes six, one after the other. Verifying takes one more if the
// host hashes files by name, three if it hashes only open files, and two if the file is read back.
// How many files are in progress follows from the round trip and the handles that the servers
// allow.
//
// Files and directories keep their times where the target allows it; with Options.Preserve it is an
// error if it does not. A directory gets its times and permissions once everything in it is done.
//
// No symbolic link below the target is followed: a link in place of a directory is an error, and
// one in place of a file is replaced. Anything other than files, directories and links is skipped
// with an event.
//
// CopyTree returns when everything is in place or has failed, with a [*TreeError], or with an
// [*Error] if the source or the target cannot be used at all. If ctx ends, or a connection is lost
// for good, the rest of the tree is not copied.
func CopyTree(ctx context.Context, dst, src Endpoint, options TreeOptions) (Summary, error) {
	j, done, err := newJob(ctx, dst, src, options.Options)
	defer done()
	t := newTree(j, options)
	if options.Resume {
		t.compare = sameSizeAndTime
	}
	return t.run(err)
}

// A tree is one run of CopyTree or Check.
type tree struct {
	*job
	options TreeOptions
	root    *directory
	filter  filter
	base    string   // the copy's name in a directory, "." if the directory is the copy
	below   string   // the copy's name in the directory named as the target, or ""
	resumed bool     // an earlier run made the target and the directories in it
	made    treeMark // records that this copy makes its target; "" if it does not
	marks   bool     // the copy gets a marker file, since it may lie in the source

	// compare reports whether an existing regular file need not be copied, judging by its
	// attributes. Nil copies everything.
	compare func(c *fileCopy, there fs.FileInfo) bool
	check   bool     // nothing is copied
	strict  bool     // unlisted files count as failed
	sync    *syncing // nil unless this is a Sync

	counts     counts
	budget     *budget
	walk       *walk
	report     treeReport
	litter     litter
	finishing  sync.WaitGroup // directories whose attributes are being set
	plainLinks sync.Once      // reports once that links get no attributes
}

// counts are the atomic counters behind Totals.
type counts struct {
	plannedFiles, plannedBytes, files, bytes, directories, links, kept, keptBytes, skipped, failed,
	missing, unlisted, entries, resumed, attrs, deleted, vanished atomic.Int64
	complete atomic.Bool
}

// treeReport holds what is reported about a tree.
type treeReport struct {
	mu     sync.Mutex
	first  error
	active []*activity // oldest first
	limits bottlenecks
}

// activity is a large file in progress, from its first attempt until it is counted as copied.
type activity struct {
	name     string
	position func() int64 // nil between attempts and after the last one
	reached  int64        // the furthest of any attempt
}

// bytes returns how far the file has come. It never decreases.
func (a *activity) bytes() int64 {
	if a.position != nil {
		a.reached = max(a.reached, a.position())
	}
	return a.reached
}

func newTree(j *job, options TreeOptions) *tree {
	t := &tree{job: j, options: options}
	t.options.Options = j.options
	j.tree = t
	return t
}

// run copies or checks the tree. err is why the job could not be set up, if it could not.
func (t *tree) run(err error) (Summary, error) {
	if err == nil {
		err = t.prepare()
	}
	if err != nil {
		if t.sync != nil && t.sync.lock != nil {
			t.sync.lock.release()
		}
		err = newError(t.job, t.route.Source, t.route.Target, err)
		t.tell((&Event{Route: t.route, Size: -1}).failed(err))
		return Summary{Totals: t.totals(), Target: t.route.Target}, err
	}
	if t.root == nil {
		return t.single()
	}
	defer t.dst.close()
	t.openLitter()
	stop := t.reportTotals()
	var w *witness
	if conns := t.conns(); len(conns) > 0 && !t.check {
		w = newWitness(t.ctx, conns[0].Host().Client)
	}
	t.walk.run()
	if t.sync != nil {
		t.sync.conclude()
	}
	s := Summary{Target: t.root.target, Bottleneck: t.bottleneck(w)}
	t.finishing.Wait()
	stop()
	if err = t.summarize(&s); err == nil {
		t.made.complete()
	}
	t.litter.end(t, err == nil)
	return s, err
}

// prepare examines the source and the target. root stays nil if the source is a file.
func (t *tree) prepare() (err error) {
	if t.filter, err = newFilter(t.options.Include, t.options.Exclude); err != nil {
		return err
	}
	if conns := t.conns(); len(conns) > 0 {
		s := &session{client: conns[0].Host().Client}
		if err := verifiable(s, t.options.Verify || t.check); err != nil {
			return err
		}
	}
	found, err := t.src.look(t.route.Source)
	if err == nil && !found.mode.IsDir() && t.sync != nil {
		err = ofSource(&fs.PathError{Op: "sync", Path: t.route.Source, Err: errNotDirectory})
	}
	if err != nil || !found.mode.IsDir() && !t.check {
		return err
	}
	if t.base, err = t.src.base(t.route.Source); err != nil {
		return err
	}
	if t.options.NoTargetDirectory {
		t.base = "."
	}
	fresh := false
	if mark := t.madeMark(); t.base != "." {
		if t.resumed = t.options.Resume && mark.exists(); t.resumed {
			t.base = "."
		}
		if fresh = !t.resumed; !t.options.DryRun {
			t.made = mark
			mark.begin()
		}
	}
	root := &directory{tree: t, source: t.route.Source, rel: ".", facts: found}
	root.pending.Store(1)
	inside, near := make(chan string, 1), make(chan bool, 1)
	go func() { inside <- t.inside() }() // at the same time as the other requests to the hosts
	go func() { near <- t.near() }()
	root.target, err = t.dst.begin(found, t.base, func() error {
		dir := <-inside
		if slices.ContainsFunc(t.conns(), func(c *pool.Conn) bool { return pool.Lost(c.Host().Client) }) {
			dir = t.inside()
		}
		return t.notInside(dir)
	})
	nested := t.base != "." && root.target != t.route.Target
	if fresh && (err != nil || nested) {
		t.made.forget()
		t.made = ""
	}
	if err != nil {
		return err
	}
	if root.target != t.route.Target {
		t.below = t.base
	}
	if nested && path.Base(path.Dir(filepath.ToSlash(root.target))) == t.base {
		t.note(t.route.Source, root.target, fmt.Sprintf("the target is a directory called %q already, and the copy goes into it under the same name (-T makes the target itself the copy)", t.base))
	}
	t.root = root
	t.marks = <-near && !t.options.DryRun
	if t.sync != nil {
		err = t.sync.start()
	}
	if err == nil {
		err = t.measure()
	}
	return err
}

// A tree copied into itself never ends: the copy is found and copied again. A host may be this very
// machine, or two hosts may be one, and SFTP cannot tell (device and inode numbers are not sent).
// So if the target's path would lie inside the source if both were on one machine, we make a file
// at one end and look for it at the other. Two paths on this machine are compared by inode.

var (
	errIntoItself = errors.New("a directory cannot be copied into itself")
	errNested     = errors.New("source and target are the same directory, or one lies in the other")
)

// nested returns the error for source and target that contain one another.
func (t *tree) nested() error {
	if t.sync != nil {
		return errNested
	}
	return errIntoItself
}

// inside returns where the target lies if that would be inside the source if both were on one
// machine; otherwise "". It takes one round trip.
func (t *tree) inside() string {
	if len(t.conns()) == 0 || t.check {
		return ""
	}
	sourceAt := make(chan string, 1)
	go func() {
		source, _ := t.src.realPath(t.route.Source)
		sourceAt <- source
	}()
	target := path.Clean(filepath.ToSlash(t.route.Target))
	there, err := t.dst.realPath(target)
	if err != nil { // a missing parent is reported when the target is made
		if there, err = t.dst.realPath(path.Dir(target)); err == nil {
			there = path.Join(there, path.Base(target))
		}
	}
	source := <-sourceAt
	if path.Join(there, t.base) == source {
		return source // it would be copied to itself
	}
	if err == nil && t.sync != nil && strings.HasPrefix(source, strings.TrimRight(there, "/")+"/") {
		return there
	}
	if err != nil || source == "" || there != source &&
		!strings.HasPrefix(there, strings.TrimRight(source, "/")+"/") {
		return ""
	}
	return there
}

// notInside fails if a tree would be copied into itself. dir is what inside returned.
func (t *tree) notInside(dir string) error {
	if dir == "" {
		return nil
	}
	if t.src.conn() == t.dst.conn() {
		return t.nested()
	}
	if t.options.DryRun {
		return nil
	}
	remove, err := func() error { return nil }, fs.ErrNotExist
	probe := ""
	for ; err != nil; dir = path.Dir(dir) {
		probe = path.Join(dir, t.token.Name("probe"))
		if remove, err = t.dst.touch(probe); !errors.Is(err, fs.ErrNotExist) || dir == path.Dir(dir) {
			break
		}
	}
	if remove == nil {
		return nil // writing there will fail with the reason
	}
	defer remove()
	if err := t.src.lstat(probe); err == nil {
		return t.nested()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// tooDeep reports whether a directory's depth exceeds the limit.
func (t *tree) tooDeep(depth int) bool {
	most := t.options.MaxDepth
	if most == 0 {
		most = defaultDepth
	}
	return most > 0 && depth > most
}

// If one end sees less of a machine than the other, because of a chroot or a bind mount, paths
// prove nothing. So if both ends report the same file system number, a file whose name contains
// this run's token lies in the copy until everything is listed. A walk that meets the token, there
// or in a temporary name, is inside its own copy.

// near reports whether both ends may be on the same file system. It takes one round trip.
func (t *tree) near() bool {
	if len(t.conns()) == 0 || t.check || t.src.conn() == t.dst.conn() {
		return false
	}
	target := path.Clean(filepath.ToSlash(t.route.Target))
	above := make(chan [2]uint64, 1)
	go func() { above <- t.dst.fileSystem(path.Dir(target)) }()
	source := make(chan [2]uint64, 1)
	go func() { source <- t.src.fileSystem(t.route.Source) }()
	to := t.dst.fileSystem(target)
	if parent := <-above; to == [2]uint64{} {
		to = parent
	}
	for _, from := range <-source {
		if from != 0 && slices.Contains(to[:], from) {
			return true
		}
	}
	return false
}

// mark places the marker file in the copy until unmark is called.
func (t *tree) mark() (unmark func()) {
	remove, _ := t.dst.touch(t.dst.join(t.root.target, t.token.Name("probe")))
	if remove == nil { // writing there will fail with the reason
		return func() {}
	}
	t.root.pending.Add(1) // its times are set after that
	return func() {
		if notThere(remove()) != nil {
			t.litter.leaves(false)
			if t.ctx.Err() == nil {
				t.note(t.route.Source, t.root.target, t.leftBehind())
			}
		}
		t.walk.done(t.root)
	}
}

// A budget is shared by all files of a tree.
type budget struct {
	memory   *allowance // bytes that small files in progress hold
	handles  *allowance // on the hosts
	buffers  buffers
	trip     time.Duration // one round trip to each host
	small    int           // the largest file sent in one piece
	stepwise int           // the largest sent in steps but in large numbers; see limits
}

const (
	// mostStepwise limits how many files sent in steps are in progress at once, each with
	// goroutines that watch it.
	mostStepwise = 256

	// smallMemory limits the memory that small files in progress hold: contents requested, or not
	// acknowledged yet. It is twice what their channel's window carries in a round trip.
	smallMemory = 4 << 20
)

// measure decides how many files are in progress at once, and which of them are small.
func (t *tree) measure() error {
	from, err := t.src.limits()
	if err != nil {
		return ofSource(err)
	}
	to, err := t.dst.limits()
	if err != nil {
		return err
	}
	handles := min(from.handles, to.handles)
	if t.src.conn() != nil && t.src.conn() == t.dst.conn() { // each file is open twice
		handles = max(1, handles/2)
	}
	b := &budget{trip: from.trip + to.trip, small: min(from.small, to.small),
		stepwise: min(from.small, to.stepwise), memory: newAllowance(smallMemory),
		handles: newAllowance(handles)}
	if t.limiter != nil { // a file that takes longer shows its progress
		b.small = int(min(int64(b.small), t.options.RateLimit/4))
	}
	files := max(from.files, to.files)
	if len(t.conns()) > 0 {
		files = filesInFlight(b.trip)
	}
	if b.stepwise > 0 {
		files = min(files, mostStepwise)
	}
	if t.options.MaxFiles > 0 {
		files = t.options.MaxFiles
	}
	t.budget = b
	queue := files
	if from.queue > 0 {
		queue = min(files, from.queue)
	}
	listings := from.listings
	if t.sync != nil {
		listings = t.sync.walkers(from, to)
	}
	t.walk = newWalk(t, files, listings, queue)
	return nil
}

// filesInFlight returns how many small files may be in progress at once. A file takes a few round
// trips, in which a fast server could handle tens of thousands a second, so the number needed to
// keep it busy grows with the round trip. Without noticeable latency, more files waiting means more
// requests and replies per system call: 128 take a fifth less processor time than 32.
func filesInFlight(trip time.Duration) int {
	const (
		least = 128
		most  = 2048
		perMs = 128
	)
	return max(least, int(min(trip.Seconds()*1000*perMs, most)))
}

// isSmall reports whether a file of this size is sent in one piece.
func (t *tree) isSmall(size int64) bool { return size >= 0 && size <= int64(t.budget.small) }

// spreads reports whether each large file uses one session, because others use the rest.
func (t *tree) spreads() bool { return t != nil && t.walk.spread.files.Load() > fewFiles }

// single copies a source that is a file.
func (t *tree) single() (Summary, error) {
	j := t.job
	if t.options.DryRun {
		t.tell(&Event{Kind: Planned, Route: j.route, Size: -1})
		return Summary{Target: j.route.Target}, nil
	}
	j.tree = nil
	c := &fileCopy{job: j, source: j.route.Source, began: time.Now()}
	c.result.Target = j.route.Target
	err := c.copy()
	c.tellEnd(err)
	s := Summary{Totals: Totals{Complete: true, PlannedFiles: 1, Bytes: c.result.Bytes},
		Target: c.result.Target, Elapsed: c.result.Elapsed, Bottleneck: c.result.Bottleneck}
	if err != nil {
		s.Failed = 1
		return s, &TreeError{Failed: 1, First: err}
	}
	s.Files = 1
	return s, nil
}

// bottleneck returns what limited the tree: what limited most of its bytes, or else the verdict on
// the whole.
func (t *tree) bottleneck(w *witness) Bottleneck {
	if w == nil { // this machine's kernel, or the host, does most of the work
		return ""
	}
	bytes := t.counts.bytes.Load()
	w.far, w.limit = t.budget.trip >= flow.StripeTrip, t.options.RateLimit
	whole := w.end(bytes)
	if most := t.report.limits.verdict(bytes); most != "" {
		return most
	}
	return whole
}

// summarize completes the summary and reports the end.
func (t *tree) summarize(s *Summary) (err error) {
	s.Totals, s.Elapsed = t.totals(), time.Since(t.began)
	s.Active = nil
	t.report.mu.Lock()
	first := t.report.first
	t.report.mu.Unlock()
	if first == nil && t.ctx.Err() != nil {
		first = newError(t.job, t.route.Source, t.root.target, context.Cause(t.ctx))
	}
	if first == nil && s.Vanished > 0 {
		first = newError(t.job, t.route.Source, t.root.target, ErrVanished)
	}
	e := &Event{Kind: Ended, Size: s.PlannedBytes, Bytes: s.Bytes, Elapsed: s.Elapsed,
		Outcome: Outcome{Bottleneck: s.Bottleneck}, Totals: &s.Totals}
	if first != nil {
		left := t.leftBehind()
		if left != "" {
			t.note(t.route.Source, t.root.target, left)
		}
		err = &TreeError{Failed: max(1, s.Failed), First: first, LeftBehind: left,
			checking: t.check}
		e.Err, e.Message = err, err.Error()
	}
	t.tellTotals(e)
	return err
}

func (t *tree) totals() Totals {
	n := &t.counts
	s := Totals{
		PlannedFiles: n.plannedFiles.Load(), PlannedBytes: n.plannedBytes.Load(),
		Complete: n.complete.Load(), Files: n.files.Load(),
		Directories: n.directories.Load(), Links: n.links.Load(), Kept: n.kept.Load(),
		KeptBytes: n.keptBytes.Load(), Skipped: n.skipped.Load(), Failed: n.failed.Load(),
		Missing: n.missing.Load(), Unlisted: n.unlisted.Load(), Attrs: n.attrs.Load(),
		Deleted: n.deleted.Load(), Vanished: n.vanished.Load(),
	}
	resumed := n.resumed.Load()
	t.report.mu.Lock()
	defer t.report.mu.Unlock()
	s.Bytes = n.bytes.Load() // under the lock, since finished files move from active to bytes
	for _, a := range t.report.active {
		s.Bytes += a.bytes()
		if len(s.Active) < 4 {
			s.Active = append(s.Active, a.name)
		}
	}
	s.Resumed = min(resumed, s.Bytes)
	return s
}

// tellTotals sends an event about the whole tree.
func (t *tree) tellTotals(e *Event) {
	e.Source, e.Target = t.route.Source, t.root.target
	t.tell(e)
}

// reportTotals reports the totals until stop is called.
func (t *tree) reportTotals() (stop func()) {
	if t.listener == nil {
		return func() {}
	}
	t.tellTotals(&Event{Kind: Started, Size: -1, Totals: &Totals{}})
	return every(t.options.progressEvery(), func() {
		totals := t.totals()
		t.tellTotals(&Event{Kind: Progress, Size: totals.PlannedBytes, Bytes: totals.Bytes,
			Elapsed: time.Since(t.began), Totals: &totals})
	})
}

// watch counts a file as active until settled is called. After stop it still counts with what the
// attempt reached, since the file has yet to get its name, or another attempt.
func (t *tree) watch(c *fileCopy, position func() int64) (stop func()) {
	r := &t.report
	r.mu.Lock()
	defer r.mu.Unlock()
	a := c.activity
	if a == nil {
		a = &activity{name: c.source}
		c.activity = a
		r.active = append(r.active, a)
	}
	a.position = position
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		a.bytes()
		a.position = nil
	}
}

// settled counts the bytes of a finished file, which is active no longer.
func (t *tree) settled(c *fileCopy, bytes int64) {
	if c.activity == nil {
		t.counts.bytes.Add(bytes)
		return
	}
	r := &t.report
	r.mu.Lock()
	defer r.mu.Unlock()
	t.counts.bytes.Add(bytes)
	r.active = slices.DeleteFunc(r.active, func(other *activity) bool { return other == c.activity })
}

// fail counts an entry that failed. name is its name in a list, if it has one.
func (t *tree) fail(name, source, target string, err error) {
	if t.sync.vanished(source, err) || t.ending(err) {
		return
	}
	var ours *Error
	if !errors.As(err, &ours) {
		err = newError(t.job, source, target, err)
	}
	t.counts.failed.Add(1)
	t.tell((&Event{Route: Route{Source: source, Target: target}, Size: -1, Name: name}).failed(err))
	t.failFirst(err)
}

// ending reports whether an error only means that the whole copy is ending, which is reported once
// and not for each file.
func (t *tree) ending(err error) bool {
	if t.ctx.Err() != nil {
		return true
	}
	conns := t.conns()
	if !slices.ContainsFunc(conns, (*pool.Conn).Ended) {
		return false
	}
	for i := len(conns) - 1; i >= 0; i-- {
		if gaveUp := conns[i].Why(err); gaveUp != err {
			if err = gaveUp; i > 0 {
				err = ofSource(err)
			}
			break
		}
	}
	failure := newError(t.job, t.route.Source, t.root.target, err)
	t.failFirst(failure)
	t.cancel(err)
	return true
}

// failFirst keeps the first error, and ends the copy if StopOnError is set.
func (t *tree) failFirst(err error) {
	t.report.mu.Lock()
	if t.report.first == nil {
		t.report.first = err
	}
	t.report.mu.Unlock()
	if t.options.StopOnError {
		t.cancel(err)
	}
}

// skip counts an entry that is not copied.
func (t *tree) skip(source, why string) {
	t.counts.skipped.Add(1)
	t.tell(&Event{Kind: Skipped, Route: Route{Source: source}, Size: -1, Message: why})
}

func (t *tree) note(source, target, message string) {
	t.tell(&Event{Kind: Note, Route: Route{Source: source, Target: target}, Size: -1, Message: message})
}

// copyLink recreates a symbolic link of the source.
func (t *tree) copyLink(e *entry) {
	to, err := t.src.readLink(e.source())
	if err == nil {
		err = t.dst.makeLink(e, to)
	}
	if err == nil {
		err = t.finishLink(e)
	}
	if err != nil {
		if conn := t.dst.conn(); conn != nil && pool.Lost(conn.Host().Client) {
			t.litter.leaves(false)
		}
		t.fail("", e.source(), e.target(), err)
		return
	}
	t.counts.links.Add(1)
}

// finishLink gives a symbolic link its source's owner and times, if wanted. If the target cannot
// set them on links, that is reported once: as with rsync it is no failure, since what matters is
// the file that the link leads to.
func (t *tree) finishLink(e *entry) error {
	var set usftp.NewAttrs
	if err := t.options.chown(e.facts.owner, func(uid, gid int) error {
		set.SetOwner, set.UID, set.GID = true, uid, gid
		return nil
	}); err != nil {
		return err
	}
	if t.options.Preserve && e.facts.hasTimes {
		set.SetTimes = true
		set.Atime, set.Mtime = e.facts.times()
	}
	if !set.SetOwner && !set.SetTimes {
		return nil
	}
	err := t.dst.finishLink(e, set)
	if errors.Is(err, errors.ErrUnsupported) {
		t.plainLinks.Do(func() {
			t.note(t.route.Source, t.root.target, "symbolic links do not get the owners and times of their sources: the target cannot set them")
		})
		return nil
	}
	return err
}

// buffers hold the memory for small files, in two sizes; larger buffers are allocated. Those in
// pipe are for hashing large files.
type buffers struct{ small, medium, pipe sync.Pool }

const (
	smallBuffer  = 4<<10 + 1
	mediumBuffer = 32 << 10
)

// get returns n bytes with arbitrary contents.
func (b *buffers) get(n int) (memory []byte, release func()) {
	pool, size := &b.small, smallBuffer
	switch {
	case n > mediumBuffer:
		return make([]byte, n), func() {}
	case n > smallBuffer:
		pool, size = &b.medium, mediumBuffer
	}
	lent, _ := pool.Get().(*[]byte)
	if lent == nil {
		fresh := make([]byte, size)
		lent = &fresh
	}
	return (*lent)[:n], func() { pool.Put(lent) }
}
