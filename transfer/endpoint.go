package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// An Endpoint is one end of a copy: a path on this machine, a path on a host, or a stream. See
// [Local], [Remote], [Reader] and [Writer].
type Endpoint struct {
	host, path string
	newSource  func(*job) (source, error)
	newTarget  func(*job) (target, error)
}

var (
	errNoSource = errors.New("a Writer cannot be the source of a copy")
	errNoTarget = errors.New("a Reader cannot be the target of a copy")
)

func (e Endpoint) from(j *job) (source, error) {
	if e.newSource == nil {
		return nil, errNoSource
	}
	return e.newSource(j)
}

func (e Endpoint) to(j *job) (target, error) {
	if e.newTarget == nil {
		return nil, errNoTarget
	}
	return e.newTarget(j)
}

// end is common to sources and targets.
type end interface {
	// conn returns the connection to the host, or nil on this machine.
	conn() *pool.Conn

	join(dir, name string) string

	// realPath resolves symbolic links, lstat fails if nothing is there, and touch makes an empty
	// file; remove is not nil if the file may exist.
	realPath(name string) (string, error)
	lstat(name string) error
	touch(name string) (remove func() error, err error)

	// fileSystem returns numbers that identify a path's file system; zeros if unknown.
	fileSystem(name string) [2]uint64

	// identity identifies a path in the journal. host is "" on this machine; ok is false for
	// streams.
	identity(path string) (host, name string, ok bool)
}

// A source is an endpoint that is read.
type source interface {
	end

	// open returns a file to read. A file of a tree may stay closed until input.ready.
	open(c *fileCopy) (input, error)

	// sum computes a file's hash, for Check.
	sum(c *fileCopy) error

	// base returns the name of a path's copy inside a directory, "." if its contents are meant.
	base(path string) (string, error)

	look(path string) (facts, error) // follows links
	list(d *directory, yield func(*entry, error) bool) error
	readLink(path string) (string, error)

	// readSmall reads at most most bytes of a file. It follows no link.
	readSmall(path string, most int64) ([]byte, error)
	loops(d *directory) string // why a linked directory is not entered, "" if it is
	limits() (limits, error)
}

// An input is a file that is read.
type input interface {
	facts() *facts

	// ready opens the file if it is not open yet, and completes all round trips for that, so that
	// the target need not hold anything open while they last.
	ready(c *fileCopy) error

	// whole reads a small file into data, which is a byte longer than its listed size. same is
	// false if the file is no longer as listed; it is then copied like a large one.
	whole(c *fileCopy, data []byte) (same bool, err error)

	// contents returns the file as a target reads it; on a stream, only Read works.
	contents() contents

	// pour copies the contents to a local file or a stream.
	pour(c *fileCopy, to sink) (int64, error)

	// copyOn makes the host copy the file itself. done is false if it could not start.
	copyOn(c *fileCopy, to *usftp.File) (n int64, done bool, err error)

	// unchanged fails if the file changed since it was opened, or if its size is not n. local
	// rereads what was copied; it is nil if that is impossible. inherit takes over from the journal
	// what an earlier run could not establish.
	unchanged(c *fileCopy, n int64, local reopen) error
	inherit(c *fileCopy, m *mark)

	// verify compares the copy with the source, if the target is on this machine.
	verify(c *fileCopy, target reopen) error

	// holds reports whether the source matches the hash of a target on this machine; told is false
	// if that is unknown.
	holds(c *fileCopy) (same, told bool)

	// begins reports whether the source begins with the first n bytes of a local file; told is
	// false if that is unknown.
	begins(local io.ReaderAt, n int64) (same, told bool)

	// reopen returns how to read the file again, nil if that is impossible.
	reopen(c *fileCopy) reopen

	close()
}

// contents is what a target reads.
type contents interface {
	io.Reader
	io.ReaderAt
	io.Seeker
}

// reopen opens a file for reading anywhere in it.
type reopen func() (file io.ReaderAt, free func(), err error)

// A target is an endpoint that is written.
type target interface {
	end

	// place examines where a file goes. For files of trees it leaves nothing open.
	place(c *fileCopy, in input) (output, error)

	// dispose removes what was left for another attempt and reports whether it did, for a target
	// that is still reachable when the connection is lost.
	dispose(temporary string) bool

	// tidy removes stale temporary files, this copy's or an earlier one's, from a directory below
	// the root of a copy.
	tidy(root, rel string, stale func(name string) bool) error

	// begin resolves the target of a tree and returns the path of the copy; base is the copy's name
	// if the target is a directory. Before it makes anything it calls inside, which fails if the
	// target lies in the source.
	begin(source facts, base string, inside func() error) (path string, err error)

	is(source facts) bool // whether a directory is the copy itself

	check(d *directory, name string) error // of an entry's name
	makeDir(d *directory) (fresh bool, err error)
	finishDir(d *directory) error
	leave(d *directory) // nothing more will be written in it
	makeLink(e *entry, to string) error
	finishLink(e *entry, set usftp.NewAttrs) error
	limits() (limits, error)
	close()
}

// An output is a file that is written.
type output interface {
	path() string        // shown to people
	stored() string      // the name being written, shown to people
	before() fs.FileInfo // the existing target, nil if there is none
	direct() bool        // it can only be written in place
	atomic() bool        // it is written under a temporary name

	// settle completes a commit that a lost connection cut off, and reports whether that finished
	// the copy.
	settle(c *fileCopy) (done bool, err error)

	// rereads returns how to read the copy back, nil if that is impossible. holds reports whether
	// the host's file matches the hash of the source; told is false if that is unknown.
	rereads(c *fileCopy, in input) reopen
	holds(c *fileCopy, in input) (same, told bool)

	// same fails if the target is the source itself.
	same(c *fileCopy, in input) error

	create(c *fileCopy, in input) error

	// resume opens what an interrupted copy left and returns where to continue, or why it cannot.
	// discard removes it; left reports whether a name can be one of this target's temporary names.
	resume(c *fileCopy, in input, m *mark) (offset int64, why error)
	left(name string) bool
	discard(name string) error

	fill(c *fileCopy, in input) error   // copies the contents
	seal(c *fileCopy, in input) error   // sets attributes and closes, on a host
	verify(c *fileCopy, in input) error // compares what is stored with what was copied
	commit(c *fileCopy, in input) error // gives the copy its name

	// cut truncates the file to n bytes for a later run to continue; synced means that they are on
	// disk. remove removes what was written.
	cut(c *fileCopy, n int64) (ok, synced bool)
	remove(c *fileCopy)
	close()
}

// limits bound what is in progress at an endpoint.
type limits struct {
	handles  int64 // open at once
	listings int   // directories listed at once
	files    int   // copied at once if no link has to be waited for; 0 if the round trip decides
	queue    int   // files found before they are copied
	small    int   // the largest file sent in one piece; below 0 for none
	stepwise int   // the largest sent in steps, of which many may be in progress all the same
	trip     time.Duration
}

// facts is what is known about a file.
type facts struct {
	mode     fs.FileMode
	hasMode  bool
	size     int64 // -1 if unknown
	mtime    time.Time
	atime    time.Time
	hasTimes bool
	owner    localfs.Owner
	id       string      // of a local file
	info     fs.FileInfo // of a local file
}

// regular reports whether it is a regular file of known size.
func (f *facts) regular() bool { return f.hasMode && f.mode.IsRegular() && f.size >= 0 }

// chown gives a copy the source's owner if Options.Owners is set.
func (o *Options) chown(to localfs.Owner, set func(uid, gid int) error) error {
	switch {
	case !o.Owners:
		return nil
	case !to.Known:
		return errNoOwner
	}
	return set(to.UID, to.GID)
}

var errNoOwner = errors.New("the source's owner is not known")

// unchanged compares a source as it was before reading with what it is afterwards, and with how
// much was read. A file of size 0 may hold data all the same, as in /proc.
func unchanged(before, after *facts, read int64) error {
	switch {
	case after.size < before.size:
		return changedf("it shrank from %d bytes to %d", before.size, after.size)
	case after.size > before.size:
		return changedf("it grew from %d bytes to %d", before.size, after.size)
	case before.size > 0 && read != before.size:
		return changedf("it had %d bytes and %d were read", before.size, read)
	case !before.mtime.Equal(after.mtime):
		return errTouched
	}
	return nil
}

// errTouched reports that only a source's modification time changed.
var errTouched = changedf("its time did")

// A session is the connection to a host that a file uses during one attempt: the host's own, or one
// borrowed from the pool when many large files are in progress. A nil session is this machine's.
type session struct {
	conn    *pool.Conn
	host    pool.Host
	client  *usftp.Client
	trip    time.Duration // the round trip, if one was measured
	release func()
}

func (s *session) lost() bool { return s != nil && pool.Lost(s.client) }

// why returns the error to report for err: why the connection was given up, if it was.
func (s *session) why(err error) error {
	if s == nil {
		return err
	}
	return s.conn.Why(err)
}

// doubtful is the round trip that measure assumes to decide whether measuring it is worthwhile.
const doubtful = 50 * time.Millisecond

// measure pings the host if the file is large and the round trip is short and was measured by TCP's
// handshake: a proxy or satellite accelerator near us may have answered the handshake, while only
// the host itself answers a ping.
func (s *session) measure(ctx context.Context, size int64) {
	if s.trip >= flow.StripeTrip || s.host.LoginTrip() == 0 || !flow.WorthStriping(size, doubtful) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	trip := time.Duration(0)
	for range 2 { // take the shorter: a host may be busy for a moment
		began := time.Now()
		if s.client.Ping(ctx) != nil {
			return
		}
		took := time.Since(began)
		if took < flow.StripeTrip {
			return
		}
		if trip == 0 || took < trip {
			trip = took
		}
	}
	s.trip = trip
}

// worthStriping reports whether a file, or the rest of it, should use several handles. On hosts
// that count reads a file is opened once, and on hosts where handles do not see each other's writes
// it is written through one.
func (s *session) worthStriping(c *fileCopy, size int64, reads bool) bool {
	if s == nil || s.host.Pool.Size() < 2 || c.limiter != nil || c.tree.spreads() ||
		reads && private.OfClient(s.client).ReadsOnce() || !reads && s.host.Quirks.Separate.Load() {
		return false
	}
	s.measure(c.ctx, size)
	return size >= worthTrial || flow.WorthStriping(size, s.trip)
}

// worthTrial is the size from which a file's rate is watched: what may slow a connection down,
// besides its window, cannot be known in advance.
const worthTrial = 4 << 20

// ends are the connections to the source's and the target's host, the same one if the hosts are.
type ends struct{ from, to *session }

func (e *ends) all() (all []*session) {
	if e.to != nil {
		all = append(all, e.to)
	}
	if e.from != nil && e.from != e.to {
		all = append(all, e.from)
	}
	return all
}

// main returns the connection to the target's host, else the source's, else nil.
func (e *ends) main() *session {
	if e.to != nil {
		return e.to
	}
	return e.from
}

// lost reports whether either connection has ended.
func (e *ends) lost() bool { return e.from.lost() || e.to.lost() }

// why returns the error to report for err: why a connection was given up, if one was.
func (e *ends) why(err error) error {
	if e.from != e.to {
		if gaveUp := e.from.why(err); gaveUp != err {
			return ofSource(gaveUp)
		}
	}
	return e.to.why(err)
}

// lateContext returns a context for what must not stop halfway: it ends cleanupTime after ctx.
func lateContext(ctx context.Context) (context.Context, func()) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(cleanupTime):
			cancel(context.Cause(ctx))
		}
	})
	return late, func() { stop(); cancel(nil) }
}

// cleanupTime limits how long cleaning up after an interruption may take.
const cleanupTime = 5 * time.Second

// cleanupContext returns a context for work that remains after ctx has ended.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
}
