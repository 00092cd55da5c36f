// Package transfer copies files and trees between this machine and SFTP servers, and checks them
// against lists of hashes.
//
// [Copy] copies one file and [CopyTree] a directory, from one [Endpoint] to another: a path on this
// machine ([Local]), a path on a host ([Remote]), an io.Reader ([Reader]) or an io.Writer
// ([Writer]). All combinations work, including two hosts and two local paths. [pool.Connect] logs
// in to a host for Remote. [Options] has a function for progress events. [Sync] makes a directory
// equal to another, and [Check] compares one with a list of hashes without copying anything.
//
// Files appear under their final name only once complete: the data goes to a temporary file beside
// the target, which is then renamed over it. Readers of the target see either the old file or the
// new one, and a failed copy leaves the old one in place. Where that is impossible (the target is a
// device, a pipe or a file with several hard links, or the directory takes no new names), the
// target is written in place, and an [Event] says so.
package transfer

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/bottleneck"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/pool"
)

// Placement selects how a target is written.
type Placement int

const (
	PlaceAuto   Placement = iota // atomically, or in place where that is impossible
	PlaceDirect                  // always in place
	PlaceAtomic                  // atomically, or fail
)

// Delta selects whether a file that replaces an older one is sent as its differences. The end that
// has the old file then copies the common parts into the temporary file, and a hash of the whole
// file is compared before the file gets its name. If the hashes differ, the file is copied whole.
//
// It needs a host whose server lists the chunks of files, as usftp's own does ([pool.Host.Helper]
// may start one), and a file on this machine at the other end.
type Delta int

const (
	DeltaNever  Delta = iota // always send the whole file
	DeltaAuto                // where that is likely to be faster
	DeltaAlways              // wherever the host can
)

// Attributes select which of the source's attributes a target gets.
type Attributes struct {
	// Preserve gives the target the source's times and permissions, and fails if they are refused
	// for this target alone. A host that does not set times or permissions of any file, such as AWS
	// Transfer Family in front of S3, and a file system of that kind, get the files all the same; a
	// Warning for each of the two says so, once. So does one if a host gets a time before 1970 or
	// after 2106, which SFTP does not have: the nearest is set. Files get no setuid or setgid bit,
	// since the copy would run as the user who made it; a Warning for each says so. Without
	// Preserve a new file gets the source's permissions less the umask (ours or the server's), a
	// replaced file keeps its own, files in trees keep their times where the target allows it, and
	// a single file gets the current time, as with scp. Symbolic links get their source's times
	// where possible; if not, one event says so. A file on Windows has no permissions to keep.
	Preserve bool

	// NoTimes and NoModes leave out times or permissions, in trees and with Preserve, too, without a
	// Warning about hosts that do not set them. A replaced file keeps its permissions where possible.
	// Sync compares neither; without times it compares sizes, or contents with Checksum.
	NoTimes, NoModes bool

	// Chmod, if it is not nil, maps the permissions of a file or a directory of the source to those
	// that count. It is called on many goroutines at once. Of other mode bits only a directory's
	// setgid and sticky ones have an effect.
	Chmod func(mode fs.FileMode) fs.FileMode

	// Owners gives the target the source's numeric owner and group, for directories of trees too,
	// and fails if that is impossible: usually only a superuser may give files away. Symbolic links
	// get them too, except on hosts without lsetstat@openssh.com, which one event reports. Without
	// Owners a replaced file keeps its owner where possible.
	Owners bool
}

// Contents say how the contents of files are copied, and whether the source is removed.
type Contents struct {
	// Sparse turns blocks of zeros into holes in files written on this machine. Holes in local
	// source files are kept without it, also when copying to a host.
	Sparse bool

	// Changing accepts a source that changes while it is copied, such as a log that grows or a file
	// whose size the host does not know: the copy has the bytes read up to its end, and a Warning says
	// so. Such files are read over one connection.
	Changing bool

	// RemoveSource removes each file, and each symbolic link of a tree, from the source once its copy
	// has its name and is proved: by Verify or by the host's hash, if it offers one (check-file), and
	// otherwise by its size. A file that has changed since it was read, or may have, stays, and that
	// is an error. In a Sync files that look equal are compared by their contents, as with Checksum,
	// and then removed, too. Directories stay, and so do files that Update does not copy. It works
	// neither with streams nor with LinksFollow or KeepDirLinks.
	RemoveSource bool
}

// Destination says where a copy goes.
type Destination struct {
	// NoTargetDirectory treats the target as the copy itself, as cp -T does: a tree is merged with
	// an existing directory instead of going into it, and copying a file to a directory fails
	// (ErrIsDirectory).
	NoTargetDirectory bool

	// MakePath makes the directories above the target that are missing, and for a file also the
	// target itself if it ends in a slash.
	MakePath bool

	// ReplaceLink replaces a symbolic link at a single file's target, instead of writing the file to
	// which it leads. Where the target can only be written in place it fails.
	ReplaceLink bool

	// Update leaves files at the target that are newer than the source's, or, except in a Sync, of
	// the same time: they count as kept, in a Sync as skipped. On hosts times are whole seconds. What
	// is kept is hashed at the target with Hash, and fails if it is not what List says.
	Update bool
}

// Options configure a copy. The zero Options are valid.
type Options struct {
	Placement Placement

	Destination

	Attributes

	Contents

	// Delta selects whether a file that replaces an older one is sent as its differences, see
	// [Delta]. Where that is impossible the whole file is sent.
	Delta Delta

	// Sync flushes the target to disk before it gets its name. Servers without fsync@openssh.com
	// cannot do that, which is an error.
	Sync bool

	// Resume continues the partial file that an interrupted copy of the same source to the same target
	// left, if that is proved to be the beginning of the source: by the Journal and the server's hash
	// (check-file), or by reading its end back. Otherwise the copy starts over. In a tree, files whose
	// target has the source's size and time count as copied, and a target that the same copy created
	// is recognized as the copy itself (by the Journal, which remembers completed copies for a day). A
	// tree that was interrupted within the last week is continued without Resume, too, but then
	// replaces nothing that has come into its target since. A single file copied on this machine
	// always starts over.
	Resume bool

	// Verify compares the file stored by the host with the data sent, before the copy gets its name:
	// by the host's hash if it offers one (check-file), otherwise by reading everything back. The
	// local file is hashed while it is copied, and not read again. If they differ the copy fails with
	// ErrVerify and the old target stays. On hosts known to count how often a file is read (IBM
	// Sterling's) nothing is read back, and without their hash the error matches
	// [errors.ErrUnsupported]. In a tree, files that Resume would skip are compared too if the host
	// can hash.
	Verify bool

	// Hash hashes each file while it is copied, on another goroutine. The hash is in the Result and
	// in Done and Kept events. "" hashes nothing.
	Hash checksum.Algorithm

	// List holds the expected hashes: a file whose hash differs fails with [checksum.ErrMismatch]
	// before it gets its name. Its algorithm replaces Hash. A file that is not listed is reported
	// with a Warning; List.Missing returns listed files that were never copied.
	List *checksum.List

	// Retry configures how lost connections are replaced.
	pool.Retry

	// Journal is a local directory where interrupted copies record their leftovers, and the files they
	// were writing in place. Without it nothing can be resumed, and a file that was written in place
	// and is not complete may count as complete.
	Journal string

	// RateLimit is the maximum number of bytes per second. 0 means no limit.
	RateLimit int64

	// Events is called for each event, one at a time, on a goroutine of its own. The copy waits for
	// it. If it panics, the copy ends, removes its temporary files, and panics with the same value.
	Events func(Event)

	progressEvery time.Duration // between Progress events; 0 means 200 ms. Only tests set it.
}

// Verification says how a file was verified.
type Verification string

const (
	VerifiedByHash    Verification = "hash"    // the host hashed the stored file
	VerifiedByReading Verification = "reading" // everything was read back
)

// Bottleneck names the limiting factor of a copy's rate.
type Bottleneck string

// The zero Bottleneck means unknown: the copy was too short to tell, or nothing stood out.
const (
	BottleneckWindow    Bottleneck = bottleneck.Window    // SSH's: more connections would have helped
	BottleneckLink      Bottleneck = bottleneck.Link      // or the connections' own flow control
	BottleneckServer    Bottleneck = bottleneck.Server    // it took long to answer requests
	BottleneckProcessor Bottleneck = bottleneck.Processor // this machine's
	BottleneckDisk      Bottleneck = bottleneck.Disk      // the local file, Reader or Writer
	BottleneckRateLimit Bottleneck = bottleneck.RateLimit // Options.RateLimit
)

// Outcome holds the facts known about a file once it is done.
type Outcome struct {
	Hash       checksum.Hash `json:"hash,omitzero"`         // of the contents; in JSON "sha256:HEX"
	Verified   Verification  `json:"verified,omitempty"`    // "" if it was not
	Bottleneck Bottleneck    `json:"bottleneck,omitempty"`  // the rate's limiting factor, if known
	LeftBehind string        `json:"left_behind,omitempty"` // a temporary file that remains
	Reused     int64         `json:"reused,omitempty"`      // bytes taken from the old file
	Removed    bool          `json:"removed,omitempty"`     // the source, by Options.RemoveSource
}

// Result describes a copy that has ended.
type Result struct {
	Outcome
	Target  string // the path written, including a name appended to a directory
	Bytes   int64  // copied; after a failure, the contiguous part that is safe
	Resumed int64  // of Bytes, those from before the last connection: by an earlier copy or this one
	Elapsed time.Duration
	Stripes int  // handles used besides the first, on other connections or sessions
	InPlace bool // the target itself was written
}

// Copy copies a file from src to dst. If dst is a directory, the file goes into it under the last
// element of src's path. Copy returns when the copy is in place or has failed with an [*Error]. If
// ctx ends, Copy truncates the temporary file to the contiguous part and keeps it for
// Options.Resume; the error then wraps ctx's cause.
//
// A file that fits in one request takes five round trips to a host, one more if the target is a
// directory, and three from a host. Between two paths on one host whose server offers copy-data, no
// data passes through this machine.
//
// Copy runs on the calling goroutine. So do the Read calls of a Reader and the Write calls of a
// Writer; Copy waits for them even if ctx ends.
func Copy(ctx context.Context, dst, src Endpoint, options Options) (Result, error) {
	j, done, err := newJob(ctx, dst, src, options)
	defer done()
	c := newFileTask(j, nil, j.route.Source, j.route.Target)
	if err != nil {
		err = c.failure(err)
	} else {
		err = c.copy()
	}
	_, err = c.ended(err)
	r := &c.Result
	return Result{Outcome: c.outcome(), Target: r.Target, Bytes: r.Bytes, Resumed: r.Resumed,
		Elapsed: r.Elapsed, Stripes: r.Stripes, InPlace: r.InPlace}, err
}

// A job is one Copy, CopyTree, Sync or Check.
type job struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	options  Options
	route    Route
	src      endpoint.Place
	dst      target
	rules    treeRules
	op       op                         // for messages
	copies   filecopy.Run               // shared by the copies of its files
	once     func(*filecopy.Copy) error // one attempt at a file
	began    time.Time
	tree     *tree     // nil for a single file
	listener *listener // nil without Options.Events
	sources  *sourceRoot
}

// newJob opens both endpoints. done must be called at the end; it repeats a panic of Events.
func newJob(ctx context.Context, dst, src Endpoint, options Options) (j *job, done func(),
	err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := listen(options.Events, cancel)
	pauses := new(pace.Pauses)
	stop := pauses.Watch()
	done = func() {
		stop()
		cancel(nil)
		j.copies.Work.Wait()
		if root := j.sources.Root; root != nil {
			root.Close()
		}
		l.done()
	}
	if options.List != nil {
		options.Hash = options.List.Algorithm()
	}
	j = &job{ctx: ctx, cancel: cancel, options: options, rules: copyRules, once: filecopy.Once,
		began: time.Now(), listener: l, sources: new(sourceRoot),
		route: Route{SourceHost: src.host, Source: src.path, TargetHost: dst.host, Target: dst.path},
		copies: filecopy.Run{Ctx: ctx, Options: options.ofFiles(), Rules: fileRules,
			TargetHost: dst.host, Token: localfs.NewTempToken(),
			Limiter: pace.NewLimiter(ctx, options.RateLimit),
			Common:  &filecopy.Common{Pauses: pauses}}}
	if j.src, err = src.from(j); err == nil {
		if localfs.OnlyReadOnly && j.src.Conn() == nil && options.Chmod == nil {
			j.options.NoModes, j.copies.Options.NoModes = true, true
		}
		j.dst, err = dst.to(j)
	}
	if err == nil && options.RemoveSource && !j.ofPaths() {
		err = errNoRemoval
	}
	if err == nil {
		j.route.Source, err = resolved(j.src, j.route.Source)
		err = endpoint.OfSource(err)
	}
	if err == nil {
		j.route.Target, err = resolved(j.dst, j.route.Target)
	}
	if err == nil {
		j.copies.Src, j.copies.Dst, j.copies.SourcePath = j.src, j.dst, j.route.Source
		j.copies.Beneath = j.beneath
		pauses.Of(func() time.Time { _, since, _ := j.stall(); return since })
	}
	return j, done, err
}

// ofFiles returns the options for the copy of a single file.
func (o *Options) ofFiles() filecopy.Options {
	return filecopy.Options{Placement: filecopy.Placement(o.Placement),
		Destination: filecopy.Destination(o.Destination),
		Attributes:  endpoint.Attributes(o.Attributes), Contents: filecopy.Contents(o.Contents),
		Delta: filecopy.Delta(o.Delta), Sync: o.Sync, Resume: o.Resume, Verify: o.Verify,
		Hash: o.Hash, List: o.List, Journal: o.Journal, RateLimit: o.RateLimit}
}

// A fileTask is a file that a job copies, alone or as part of a tree. It makes the file's events (see
// event.go).
type fileTask struct {
	filecopy.Copy
	job      *job
	entry    *entry     // of the tree, nil for a single file
	activity *activity  // of a large file in a tree, nil before its first progress
	mu       sync.Mutex // held while an event is passed on; guards started
	started  bool       // reported as started
	removed  bool       // the source was removed after the copy
	stays    bool       // it could not be removed, although the copy is complete
}

// newFileTask returns a copy of source to target. e is nil for a single file.
func newFileTask(j *job, e *entry, source, target string) *fileTask {
	t := &fileTask{job: j, entry: e}
	r := filecopy.Request{Run: &j.copies, Reporter: t, Container: filecopy.NoDirectory{},
		Source: source, Target: target, Began: time.Now()}
	if j.options.Changing {
		r.How = endpoint.Growing
	}
	name := ""
	if e != nil {
		r.Container, r.Listed, r.Rel = e, &e.info, e.rel()
		if e.info.IsRegular() {
			r.How |= endpoint.Regular
			// a sought file is found through links
			if e.dir.tree.options.Links != LinksFollow && !e.sought {
				r.How |= endpoint.NoFollow
			}
		}
		name = path.Join(e.dir.tree.into.within, r.Rel)
		r.Small = j.copies.Budget.IsSmall(e.info.Size)
		// this machine is always asked again
		r.Absent = e.dir.fresh || e.absent() && j.dst.Conn() != nil
		r.Repeats = e.dir.tree.resumed == repeated
	}
	t.Start(&r, name)
	return t
}

// copy copies the file. The error is an *Error.
func (t *fileTask) copy() error {
	err := t.Do(t.job.once)
	switch {
	case err != nil:
		return t.failure(err)
	case t.Result.Origin != nil:
		return t.removeCopied()
	}
	return nil
}

// failure returns the file's Error for err. It must not be inlined, like the makers of events.
//
//go:noinline
func (t *fileTask) failure(err error) error {
	e := newError(t.job, t.Source, t.Result.Target, err)
	e.Detail, e.Resumable, e.temporary = t.Result.Detail, t.Result.Resumable, t.Result.Temporary
	return e
}

// ended reports the end of a single file's copy. kept is true if the target is up to date.
func (t *fileTask) ended(err error) (kept bool, _ error) {
	if errors.Is(err, filecopy.ErrKept) {
		t.tellKept()
		return true, nil
	}
	t.tellEnd(err)
	return false, err
}

// verifications are the ways in which a file was verified.
var verifications = [...]Verification{filecopy.ByHash: VerifiedByHash,
	filecopy.ByReading: VerifiedByReading}

// outcome returns the facts known about the file once it is done.
func (t *fileTask) outcome() Outcome {
	r := &t.Result
	return Outcome{Hash: r.Hash, Verified: verifications[r.Verified],
		Bottleneck: Bottleneck(r.Bottleneck), LeftBehind: r.LeftBehind, Reused: r.Reused,
		Removed: t.removed}
}
