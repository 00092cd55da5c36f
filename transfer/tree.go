package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
)

// Tree is a directory to copy, with all that lies in it.
//
// The walk and the copying overlap: files are under way while directories are still being listed.
// Many small files are in flight at once over the one connection, and a small file takes three
// round trips: OPEN; WRITE, FSETSTAT and CLOSE together; RENAME (on the way down two: OPEN; READ,
// FSTAT and CLOSE together). One more looks at the target where its directory was there before, and
// two more are needed with servers that are not known to work strictly in order. With Options.Sync
// an upload takes its steps one after the other, six. To verify takes one more where the host
// hashes files by their names, three where it hashes open ones only, two where it is read back. How
// many run at a time follows from the round trip and the handles that the server allows.
//
// Times of files and directories are kept where the target lets them be, and with Options.Preserve
// it is an error where it does not. A directory gets its times and its permissions when all in it
// is done.
//
// Below the target no symbolic link is followed: a link where a directory should be is an error,
// and one where a file should be is replaced. What is neither file, directory nor link is skipped
// with a note.
type Tree struct {
	Host      Host
	Direction Direction
	From      Host // where the source of a Relay lies, see [Job]

	// Source is the directory; one that is a file is copied as a [Job] does. Target is what the
	// copy is to be called; where it is a directory, the copy gets the source's last element as its
	// name in it, as with scp -r. A source that ends in "/." means what lies in the directory.
	Source, Target string

	Options     Options
	TreeOptions TreeOptions
}

// TreeOptions change how trees are copied. The zero TreeOptions are valid.
type TreeOptions struct {
	Links LinkMode

	// Include and Exclude are patterns as of package path, in which "**" stands for any number of
	// elements. One without a slash is matched with the last element of a path, others with the
	// path from the source on; one that ends in a slash matches directories only. What Exclude
	// matches is not copied, nor is what lies in it; where there are any in Include, files that
	// none of them matches are not.
	Include, Exclude []string

	// DryRun has nothing written: Planned events say what would be copied.
	DryRun bool

	// StopOnError ends all at the first error. Else the errors of one file do not stop the others.
	StopOnError bool

	// MaxDepth and MaxEntries bound the tree, since a server could send one without end: 0 means
	// 256 levels and 20 million entries, below 0 means no bound. What is deeper fails with
	// ErrTreeTooDeep; ErrTreeTooLarge ends all.
	MaxDepth   int
	MaxEntries int64

	// MaxFiles bounds how many files are in flight at once. 0 means as many as the link needs and
	// the server allows.
	MaxFiles int
}

// LinkMode says what becomes of symbolic links in a tree. The source itself is followed in any
// case.
type LinkMode string

// The link modes. Preserve is the default.
const (
	PreserveLinks LinkMode = "" // links become links to the same name
	// what they lead to is copied; those that lead back to a directory above are skipped
	FollowLinks LinkMode = "follow"
	SkipLinks   LinkMode = "skip" // they are skipped, with a note
)

// Bounds of a tree where nothing is said.
const (
	defaultDepth   = 256
	defaultEntries = 20_000_000
)

// Totals tell how far the copying of a tree is. Planned numbers grow until Complete.
type Totals struct {
	PlannedFiles int64 `json:"planned_files"`
	PlannedBytes int64 `json:"planned_bytes"`
	Complete     bool  `json:"complete"` // the whole tree has been listed
	// copied; of a check: those that are what the list says
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"` // copied, those of files under way too
	// of Bytes, those that an earlier run had copied
	Resumed     int64 `json:"resumed,omitempty"`
	Directories int64 `json:"directories"`
	Links       int64 `json:"links"`
	Kept        int64 `json:"kept"`       // with Resume: files that were there already
	KeptBytes   int64 `json:"kept_bytes"` // of those; PlannedBytes has them, Bytes has not
	Skipped     int64 `json:"skipped"`
	Failed      int64 `json:"failed"`
	// of the failed ones of a check: in the list, and not there
	Missing int64 `json:"missing,omitempty"`
	// of a check: there, and not in the list; skipped, or failed with Strict
	Unlisted int64 `json:"unlisted,omitempty"`
	// a few of the large files under way, by their source, the oldest first
	Active  []string      `json:"active,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// in the end: what bound the rate, as far as it is known
	Bound Bound `json:"bound,omitempty"`
}

// Summary tells what has become of a tree.
type Summary struct {
	Totals
	Target string // the path of the copy
}

// TreeError says that part of a tree was not copied. errors.Is holds for what it holds for First.
type TreeError struct {
	Failed int64 // files, directories and links
	First  error // the first that went wrong

	checked bool // nothing was to be copied
}

func (e *TreeError) Error() string {
	if e.Failed <= 1 {
		return e.First.Error()
	}
	if e.checked {
		return fmt.Sprintf("%d entries are not what the list says, or could not be read; the first: %v", e.Failed, e.First)
	}
	return fmt.Sprintf("%d entries could not be copied; the first: %v", e.Failed, e.First)
}

// Unwrap returns the first error.
func (e *TreeError) Unwrap() error { return e.First }

// UploadDir copies a directory to the host; see [Tree].
func UploadDir(ctx context.Context, host Host, source, target string,
	options Options) (Summary, error) {
	t := Tree{Host: host, Direction: Upload, Source: source, Target: target, Options: options}
	return t.Run(ctx)
}

// DownloadDir copies a directory from the host; see [Tree].
func DownloadDir(ctx context.Context, host Host, source, target string,
	options Options) (Summary, error) {
	t := Tree{Host: host, Direction: Download, Source: source, Target: target, Options: options}
	return t.Run(ctx)
}

// UploadFile copies a file to the host; see [Job].
func UploadFile(ctx context.Context, host Host, source, target string,
	options Options) (Result, error) {
	j := Job{Host: host, Direction: Upload, Source: source, Target: target, Options: options}
	return j.Run(ctx)
}

// DownloadFile copies a file from the host; see [Job].
func DownloadFile(ctx context.Context, host Host, source, target string,
	options Options) (Result, error) {
	j := Job{Host: host, Direction: Download, Source: source, Target: target, Options: options}
	return j.Run(ctx)
}

// Run copies the tree. It returns when everything is in place or has failed; the error is then a
// [*TreeError], or an [*Error] where the source or the target cannot be used at all. When ctx ends,
// or the connection does, the rest of the tree is left.
func (t *Tree) Run(ctx context.Context) (Summary, error) { return t.start(ctx, false) }

func (t *Tree) start(ctx context.Context, strict bool) (Summary, error) {
	r := &treeRun{Tree: *t, began: time.Now(), strict: strict}
	ctx, done := listen(ctx, &r.Options)
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.ctx, r.cancel = ctx, cancel
	r.line, r.from = lifelines(ctx, t.Direction, t.From, t.Host, &r.Options)
	r.Options.Hash = r.Options.algorithm()
	if t.Options.RateLimit > 0 {
		r.limiter = &limiter{ctx: ctx, rate: t.Options.RateLimit}
	}
	return r.run()
}

// treeRun is one run of a tree.
type treeRun struct {
	Tree
	ctx     context.Context
	cancel  context.CancelCauseFunc
	began   time.Time
	line    *lifeline
	from    *lifeline // to the source of a relay, else nil
	limiter *limiter
	source  treeSource
	target  treeTarget
	filter  filter
	root    *directory
	strict  bool // a check's: what is not listed has failed
	// name of the copy, in the directory that was named as the target; "" where it is that itself
	below    string
	ours     bool // an earlier run has made the target, and what directories it holds
	plan     *plan
	trip     time.Duration
	small    int // the largest file that travels in one piece
	stepwise int // the largest that does not, and of which many are under way all the same
	memory   *allowance
	handles  *allowance
	buffers  buffers
	bounds   bounds
	boundBy  Bound

	plannedFiles, plannedBytes, files, bytes, directories, links, kept, keptBytes, skipped, failed atomic.Int64
	missing, strangers, entries, resumed                                                           atomic.Int64
	complete                                                                                       atomic.Bool

	mu       sync.Mutex
	first    error
	active   []*activity    // the oldest first
	finished sync.WaitGroup // directories that are getting their attributes

	plainLinks sync.Once // it is said that links get no attributes
}

// activity is a large file under way.
type activity struct {
	name     string
	progress func() int64
}

// What ends the walk of a tree that may have no end; see TreeOptions.
var (
	ErrTreeTooDeep  = errors.New("the tree is deeper than is allowed")
	ErrTreeTooLarge = errors.New("the tree has more entries than are allowed")
)

func (t *treeRun) run() (Summary, error) {
	if err := t.prepare(); err != nil {
		err = t.failure(t.Source, t.Target, err)
		t.tell(Event{Kind: Failed, Source: t.Source, Target: t.Target, Size: -1, Err: err,
			Message: err.Error()})
		return Summary{Totals: t.totals(), Target: t.Target}, err
	}
	if t.root == nil { // a file
		return t.single()
	}
	defer t.target.close()
	stop := t.reportTotals()
	w := testify(t.ctx, t.line.client())
	t.plan.run()
	t.boundBy = t.bound(w)
	t.finished.Wait()
	stop()
	s, err := t.summary()
	if err == nil {
		t.forgetBegun()
	}
	return s, err
}

// single copies a source that is a file.
func (t *treeRun) single() (Summary, error) {
	j := Job{Host: t.line.current(), Direction: t.Direction, Source: t.Source, Target: t.Target,
		Options: t.Options}
	if t.from != nil {
		j.From = t.from.current()
	}
	if t.TreeOptions.DryRun {
		t.tell(Event{Kind: Planned, Source: t.Source, Target: t.Target, Size: -1})
		return Summary{Target: t.Target}, nil
	}
	result, err := j.Run(t.ctx)
	summary := Summary{Totals: Totals{Complete: true, PlannedFiles: 1, Bytes: result.Bytes,
		Elapsed: result.Elapsed, Bound: result.Bound}, Target: result.Target}
	if err != nil {
		summary.Failed = 1
		return summary, &TreeError{Failed: 1, First: err}
	}
	summary.Files = 1
	return summary, nil
}

func (t *treeRun) summary() (Summary, error) {
	s := Summary{Totals: t.totals(), Target: t.root.target}
	s.Active = nil
	s.Bound = t.boundBy
	var err error
	t.mu.Lock()
	first := t.first
	t.mu.Unlock()
	if first == nil && t.ctx.Err() != nil {
		first = t.failure(t.Source, t.root.target, context.Cause(t.ctx))
	}
	if first != nil {
		err = &TreeError{Failed: max(1, s.Failed), First: first, checked: t.Direction == Checking}
	}
	e := Event{Kind: Ended, Source: t.Source, Target: t.root.target, Size: s.PlannedBytes,
		Bytes: s.Bytes, Elapsed: s.Elapsed, Totals: &s.Totals}
	if err != nil {
		e.Err, e.Message = err, err.Error()
	}
	t.tell(e)
	return s, err
}

// filesInFlight returns how many small files may be under way at once. A file takes a few round
// trips, in which a fast server could do tens of thousands a second; so what keeps it busy grows
// with the round trip. Where there is none to speak of, the more of them wait the more requests and
// replies share a system call: 128 take a fifth less processor time than 32.
func filesInFlight(trip time.Duration) int {
	const (
		least = 128
		most  = 2048
		perMs = 128
	)
	return max(least, int(min(trip.Seconds()*1000*perMs, most)))
}

// unaskedHandles is how many files may be open at once on a server that does not say how many it
// allows.
const unaskedHandles = 128

// mostHandles leaves some of what the server allows to listings, and to others.
func mostHandles(limits usftp.Limits, told bool) int64 {
	switch {
	case !told:
		return unaskedHandles
	case limits.MaxOpenHandles > 0:
		return int64(max(1, min(limits.MaxOpenHandles, 1<<20)*3/4))
	}
	return 1 << 20
}

// kindOf names the kind of a file that is not copied.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeCharDevice != 0:
		return "a character device"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "no file, directory or link"
}
