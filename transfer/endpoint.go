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

// end is what sources and targets have in common.
type end interface {
	// conn returns the connection to the host, nil on this machine.
	conn() *pool.Conn

	join(dir, name string) string

	// realPath returns where a path leads, lstat fails if nothing is there, and touch makes an empty
	// file; remove is not nil if that may be there.
	realPath(name string) (string, error)
	lstat(name string) error
	touch(name string) (remove func() error, err error)

	// fileSystem returns numbers that the file system of a path may have; zeros if not known.
	fileSystem(name string) [2]uint64

	// identity tells a path from others in the journal; host is "" on this machine, and ok is false
	// for streams.
	identity(path string) (host, name string, ok bool)
}

// A source is an endpoint that is read.
type source interface {
	end

	// open returns a file to read. The file of a tree may not be open before input.ready.
	open(c *fileCopy) (input, error)

	// sum finds out a file's hash, for Check.
	sum(c *fileCopy) error

	// base returns what a copy of a path is called in a directory, "." if its contents are meant.
	base(path string) (string, error)

	look(path string) (facts, error) // follows links
	list(d *directory, yield func(*entry, error) bool) error
	readLink(path string) (string, error)

	// readSmall reads no more of a file than the given size. It follows no link.
	readSmall(path string, most int64) ([]byte, error)
	loops(d *directory) string // why a linked directory is not entered, "" if it is
	limits() (limits, error)
}

// An input is a file that is read.
type input interface {
	facts() *facts

	// ready opens the file if it is not open yet. It does whatever takes round trips, so that the
	// other end need not hold anything meanwhile.
	ready(c *fileCopy) error

	// whole reads a small file into data, which is a byte longer than its listed size. same is false
	// if the file is no longer what was listed; it is then copied like a large one.
	whole(c *fileCopy, data []byte) (same bool, err error)

	// contents is the file as a target reads it; of a stream, only Read works.
	contents() contents

	// pour copies the contents to a local file or a stream.
	pour(c *fileCopy, to sink) (int64, error)

	// copyOn has a host copy the file itself. done is false if that did not begin.
	copyOn(c *fileCopy, to *usftp.File) (n int64, done bool, err error)

	// unchanged fails if the file changed since it was opened, or has another size than n. local
	// rereads what was copied, nil if that is impossible. inherit takes over what an earlier run did
	// not know for certain.
	unchanged(c *fileCopy, n int64, local reopen) error
	inherit(c *fileCopy, m *mark)

	// verify compares what was copied with the source, where the target is on this machine.
	verify(c *fileCopy, target reopen) error

	// holds reports whether the source is what was hashed of a target on this machine; told is
	// false if nobody knows.
	holds(c *fileCopy) (same, told bool)

	// begins reports whether the first n bytes are those of a local file; told is false if nobody
	// knows.
	begins(local io.ReaderAt, n int64) (same, told bool)

	// reopen reads the file once more, nil if it cannot be.
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

	// place looks at where a file goes. It holds nothing open for files of trees.
	place(c *fileCopy, in input) (output, error)

	// dispose removes what was left for another try and reports whether it did. It is for a target
	// that is still there when the connection is lost.
	dispose(temporary string) bool

	// tidy removes temporary files that are stale from a directory below the root of a copy, this
	// one's or an earlier one's.
	tidy(root, rel string, stale func(name string) bool) error

	// begin finds out what the target of a tree means; base is the copy's name if the target is a
	// directory. It calls inside, which fails if the target lies in the source, before it makes
	// anything, and returns the path of the copy.
	begin(source facts, base string, inside func() error) (path string, err error)

	is(source facts) bool // a directory is the copy itself

	check(d *directory, name string) error // of an entry
	makeDir(d *directory) (fresh bool, err error)
	finishDir(d *directory) error
	leave(d *directory) // nothing more is written in it
	makeLink(e *entry, to string) error
	finishLink(e *entry, set usftp.NewAttrs) error
	limits() (limits, error)
	close()
}

// An output is a file that is written.
type output interface {
	path() string        // for people
	stored() string      // the name that is being written, for people
	before() fs.FileInfo // what is there; nil if nothing is
	direct() bool        // it can only be written in place
	atomic() bool        // it is written under a temporary name

	// settle finishes a commit whose connection was lost. It reports whether nothing is left to do.
	settle(c *fileCopy) (done bool, err error)

	// rereads reads again what was copied, nil if that is impossible. holds reports whether the
	// host has what was hashed of it; told is false if nobody knows.
	rereads(c *fileCopy, in input) reopen
	holds(c *fileCopy, in input) (same, told bool)

	// same fails if the target is the source itself.
	same(c *fileCopy, in input) error

	create(c *fileCopy, in input) error

	// resume opens what an interrupted copy left, and returns where to go on, or why not. discard
	// removes it; left reports whether a name can be one of this target's temporary names.
	resume(c *fileCopy, in input, m *mark) (offset int64, why error)
	left(name string) bool
	discard(name string) error

	fill(c *fileCopy, in input) error   // copies the contents
	seal(c *fileCopy, in input) error   // sets attributes and closes, on a host
	verify(c *fileCopy, in input) error // compares what is stored with what was copied
	commit(c *fileCopy, in input) error // gives it its name

	// cut shortens it to n bytes that a later run can continue from; synced means that they are on
	// disk. remove removes what was written.
	cut(c *fileCopy, n int64) (ok, synced bool)
	remove(c *fileCopy)
	close()
}

// limits are what an endpoint allows to be under way at once.
type limits struct {
	handles  int64 // files open at once
	listings int   // directories listed at once
	files    int   // copied at once without a link to wait for; 0 if the round trip decides
	queue    int   // files found ahead of the copying
	small    int   // the largest file that travels in one piece; below 0 for none
	stepwise int   // the largest that does not, and of which many are under way all the same
	trip     time.Duration
}

// facts are what is known of a file.
type facts struct {
	mode     fs.FileMode
	hasMode  bool
	size     int64 // -1 if not known
	mtime    time.Time
	atime    time.Time
	hasTimes bool
	owner    localfs.Owner
	id       string      // of a local file
	info     fs.FileInfo // of a local file
}

// regular reports whether it is a regular file of known size.
func (f *facts) regular() bool { return f.hasMode && f.mode.IsRegular() && f.size >= 0 }

// chown gives a copy the source's owner if that is asked for.
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

// unchanged compares what was known of a source before it was read with what is known afterwards
// and with how much was read. A file without a size may hold data all the same, as in /proc.
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

// errTouched reports that nothing but a source's time changed.
var errTouched = changedf("its time did")

// A session is the connection to a host that a file uses during one try: the host's own, or one
// that is lent while many files are under way. A nil session is this machine's.
type session struct {
	conn    *pool.Conn
	host    pool.Host
	client  *usftp.Client
	trip    time.Duration // a round trip, as far as one was seen
	release func()
}

func (s *session) lost() bool { return s != nil && pool.Lost(s.client) }

// why returns what to report for err: if the connection was given up, that.
func (s *session) why(err error) error {
	if s == nil {
		return err
	}
	return s.conn.Why(err)
}

// doubtful is how long a round trip would have to be for us to ask whether it is longer than TCP's
// handshake has made it look.
const doubtful = 50 * time.Millisecond

// measure asks for a sign of life if the round trip is that of TCP's handshake, and short, and the
// file is large: what answers a handshake may stand in front of the long way (proxies, and what
// makes satellite links look fast), while the host itself answers this.
func (s *session) measure(ctx context.Context, size int64) {
	if s.trip >= flow.StripeTrip || s.host.LoginTrip() == 0 || !flow.WorthStriping(size, doubtful) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	trip := time.Duration(0)
	for range 2 { // the shorter of the two: a host may be busy for a moment
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

// worthStriping reports whether a file, or what is left of it, should travel over several handles.
// Hosts that count reads have a file opened once, and those that keep apart what each handle writes
// get it from one.
func (s *session) worthStriping(c *fileCopy, size int64, reads bool) bool {
	if s == nil || s.host.Pool.Size() < 2 || c.limiter != nil || c.tree.spreads() ||
		reads && private.OfClient(s.client).ReadsOnce() || !reads && s.host.Quirks.Separate.Load() {
		return false
	}
	s.measure(c.ctx, size)
	return size >= worthTrial || flow.WorthStriping(size, s.trip)
}

// worthTrial is how large a file must be for its rate to be watched: what may hold a connection
// down, besides its window, cannot be known before.
const worthTrial = 4 << 20

// ends are the connections to the source's and to the target's host. They are the same one if the
// hosts are.
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

// main returns the connection to the target's host, or else to the source's, or nil.
func (e *ends) main() *session {
	if e.to != nil {
		return e.to
	}
	return e.from
}

// lost reports whether a connection has ended.
func (e *ends) lost() bool { return e.from.lost() || e.to.lost() }

// why returns what to report for err: if a connection was given up, that.
func (e *ends) why(err error) error {
	if e.from != e.to {
		if gaveUp := e.from.why(err); gaveUp != err {
			return ofSource(gaveUp)
		}
	}
	return e.to.why(err)
}

// lateContext is for what must not stop halfway: it ends cleanupTime after ctx.
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

// cleanupTime is the most time that cleaning up after an interruption may take.
const cleanupTime = 5 * time.Second

// cleanupContext is for what is done when ctx has ended.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
}
