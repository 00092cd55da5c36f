// Package transfer copies files and trees between this machine and SFTP servers, and compares them
// with lists of hashes.
//
// [Copy] copies one file and [CopyTree] a directory, from one [Endpoint] to another: a path on this
// machine ([Local]), a path on a host ([Remote]), an io.Reader ([Reader]) or an io.Writer
// ([Writer]). Any two of them go together, two hosts and two local paths included. [Check] compares
// a directory with a list of hashes without copying anything.
//
// A file appears under its name only once it is complete: the data goes to a temporary file beside
// the target, which then takes the target's place. Whoever looks at the target sees the old file or
// the new one, and a copy that fails leaves the old one. Where that is impossible (the target is a
// device, a pipe or a file with several names, or the directory takes no new names), the target is
// written in place, and an [Event] says so.
package transfer

import (
	"context"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/pool"
)

// Placement selects how a target is written.
type Placement int

const (
	PlaceAuto   Placement = iota // atomically, or in place where that is impossible
	PlaceDirect                  // always in place
	PlaceAtomic                  // atomically, or fail
)

// Options change how files are copied. The zero Options are valid.
type Options struct {
	Placement Placement

	// NoTargetDirectory takes the target for the copy itself, as with cp -T: a tree is merged with
	// a directory that is there instead of going into it, and a file is not copied over a directory
	// (ErrIsDirectory).
	NoTargetDirectory bool

	// Preserve gives the target the source's times and permissions and fails if that is impossible.
	// Without it a new file gets the source's permissions less the umask (ours, or the server's), a
	// replaced file keeps its own, and times are kept in trees where the target allows it; a single
	// file gets the time of its copying, as with scp. Symbolic links get their source's times where
	// possible; an event says so once where not.
	Preserve bool

	// Owners gives the target the source's owner and group by number, directories of trees
	// included, and fails if that is impossible: usually only a superuser may give files away.
	// Symbolic links get them too, except on hosts without lsetstat@openssh.com, of which an event
	// tells once. Without it a replaced file keeps its owner where possible.
	Owners bool

	// Sparse turns blocks of zeros into holes in files that are written on this machine. Holes that
	// a local file has are kept without it, on the way to a host too.
	Sparse bool

	// Delta says whether a file that replaces an older one travels as what has changed in it, see
	// [Delta]. Where that is not possible, all of it travels.
	Delta Delta

	// Sync writes the target to its disk before it gets its name. Servers without
	// fsync@openssh.com cannot do that, which is an error.
	Sync bool

	// Resume continues from what an interrupted copy of the same source to the same target left, if
	// that is proved to be the beginning of the source: by the Journal and the server's hash
	// (check-file), or by reading back the end of it. Otherwise everything is sent again. In a
	// tree, files whose target has the source's size and time count as copied, and a target that
	// the same copy created (as the Journal says, which remembers those that were completed for a
	// day) is the copy itself. A single file that is copied on this machine starts over.
	Resume bool

	// Verify compares what the host stores with what was copied, before the copy gets its name: by
	// the host's hash if it offers one (check-file), otherwise by reading everything back. The file
	// on this machine is hashed while it is copied and not read again. The copy fails with
	// ErrVerify if they differ, and the old target stays. Hosts that count reads are not read
	// again; that is an error. In a tree, files that Resume would skip are compared too where the
	// host has hashes.
	Verify bool

	// Hash hashes each file while it is copied, on another goroutine. The hash is in the Result and
	// in Done and Kept events. "" costs nothing.
	Hash checksum.Algorithm

	// List is what the files should be: a file whose hash differs fails with
	// [checksum.ErrMismatch] before it gets its name. Its algorithm replaces Hash. A file that is
	// not listed is reported as a Note. What was listed and never copied, List.Missing returns.
	List *checksum.List

	// Retry says how lost connections are replaced.
	pool.Retry

	// Journal is a directory on this machine where interrupted copies note what they left. Without
	// one nothing can be resumed.
	Journal string

	// RateLimit is the most bytes a second. 0 means no limit.
	RateLimit int64

	// Events is called for each event, one at a time, on its own goroutine. The copy waits for it.
	// If it panics, the copy ends, removes what it began, and panics with the same value.
	Events func(Event)

	// ProgressEvery is the time between Progress events. 0 means 200 ms.
	ProgressEvery time.Duration
}

// Verification says how a file was verified.
type Verification string

const (
	VerifiedByHash    Verification = "hash"    // the host hashed what it stores
	VerifiedByReading Verification = "reading" // everything was read back
)

// Outcome is what is known of a file in the end.
type Outcome struct {
	Hash       checksum.Hash `json:"hash,omitzero"`         // of the contents; in JSON "sha256:HEX"
	Verified   Verification  `json:"verified,omitempty"`    // "" if it was not
	Bottleneck Bottleneck    `json:"bound,omitempty"`       // what limited the rate, if known
	LeftBehind string        `json:"left_behind,omitempty"` // a temporary file that is still there
	Reused     int64         `json:"reused,omitempty"`      // bytes taken from the old file, which did not travel
}

// Result describes what Copy did.
type Result struct {
	Outcome
	Target  string // the path that was written, including what a directory's got appended
	Bytes   int64  // copied; after a failure, safe from the beginning without a gap
	Resumed int64  // of Bytes, those that an earlier copy left
	Elapsed time.Duration
	Stripes int  // further handles that took part
	InPlace bool // the target itself was written
}

// Copy copies a file from src to dst. If dst is a directory, the file goes into it under the last
// element of src's path. Copy returns when the copy is in place or has failed with an [*Error]. When
// ctx ends, it cuts what it has written to what is safe and leaves it under its temporary name for
// Options.Resume; the error is then ctx's cause.
//
// A file that fits in one request takes five round trips to a host, one more if the target is a
// directory, and three from a host. Between two paths of one host whose server offers copy-data, no
// data passes through this machine.
//
// Copy runs on the calling goroutine, and so do the calls of a Reader's Read and a Writer's Write,
// which are waited for even when ctx ends.
func Copy(ctx context.Context, dst, src Endpoint, options Options) (Result, error) {
	j, done, err := newJob(ctx, dst, src, options)
	defer done()
	c := &fileCopy{job: j, source: src.path, began: j.began}
	c.result.Target = dst.path
	if err != nil {
		err = c.failure(err)
	} else {
		err = c.copy()
	}
	c.tellEnd(err)
	return c.result, err
}

// A job is what all files of one Copy, CopyTree or Check share.
type job struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	began    time.Time
	options  Options
	route    Route
	token    localfs.TempToken // of all temporary names
	src      source
	dst      target
	limiter  *limiter  // nil without a limit
	tree     *tree     // nil for a single file
	listener *listener // nil if nobody listens

	once func(*fileCopy) error // one try for a file
}

// newJob opens both endpoints. done must be called at the end; it passes on a panic of Events.
func newJob(ctx context.Context, dst, src Endpoint, options Options) (j *job, done func(),
	err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := listen(options.Events, cancel)
	done = func() {
		cancel(nil)
		l.done()
	}
	if options.List != nil {
		options.Hash = options.List.Algorithm()
	}
	j = &job{ctx: ctx, cancel: cancel, began: time.Now(), options: options,
		token: localfs.NewTempToken(), listener: l, once: (*fileCopy).copyOnce, limiter: newLimiter(ctx, options.RateLimit),
		route: Route{SourceHost: src.host, Source: src.path, TargetHost: dst.host,
			Target: dst.path}}
	if j.src, err = src.from(j); err == nil {
		j.dst, err = dst.to(j)
	}
	return j, done, err
}

// conns returns the connections that the job uses, the target's first.
func (j *job) conns() (all []*pool.Conn) {
	to, from := j.dst.conn(), j.src.conn()
	if to != nil {
		all = append(all, to)
	}
	if from != nil && from != to {
		all = append(all, from)
	}
	return all
}

// doing says what the job does, for messages.
func (j *job) doing() string {
	if j.tree != nil && j.tree.check {
		return "checking"
	}
	return "copying"
}
