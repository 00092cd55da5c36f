package transfer

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/usftp/usftp"
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

	// realPath resolves symbolic links, lstat describes what is there and follows none, and touch
	// makes an empty file; remove is not nil if the file may exist.
	realPath(name string) (string, error)
	lstat(name string) (facts, error)
	touch(name string) (remove func() error, err error)

	// mark returns what tells a directory from others that may take its place, as far as that can
	// be known.
	mark(dir string) (string, error)

	// fileSystem returns numbers that identify a path's file system; zeros if unknown.
	fileSystem(name string) [2]uint64

	// identity identifies a path in the journal. host is "" on this machine; ok is false for
	// streams.
	identity(path string) (host, name string, ok bool)
}

// resolved replaces what a path begins with, up to the last "..", by what it really is, so that
// from then on paths can be taken apart and joined as text. For the system "link/.." is the parent
// of what the link leads to.
func resolved(e end, name string) (string, error) {
	n := throughParent(name)
	if n == 0 || e.conn() == nil && runtime.GOOS == "windows" { // where ".." is text
		return name, nil
	}
	if _, _, isPath := e.identity(name); !isPath {
		return name, nil
	}
	real, err := e.realPath(name[:n])
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if err != nil {
		return name, &fs.PathError{Op: "stat", Path: name[:n], Err: err}
	}
	if real = strings.TrimRight(real, "/") + name[n:]; real == "" {
		real = "/"
	}
	return real, nil
}

// throughParent returns the length of a path up to its last ".." that follows a name, 0 if there is
// none.
func throughParent(name string) (n int) {
	named := false
	for i := 0; i < len(name); i++ {
		element, _, _ := strings.Cut(name[i:], "/")
		i += len(element)
		switch element {
		case "", ".":
		case "..":
			if named {
				n = i
			}
		default:
			named = true
		}
	}
	return n
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

	// readSmall reads up to most bytes of an ignore file. It follows no link, as git does not.
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

	// holds reports whether the source matches the hash of a target on this machine; known is false
	// if that cannot be told.
	holds(c *fileCopy) (same, known bool)

	// begins reports whether the source begins with the first n bytes of a local file; known is
	// false if that cannot be told.
	begins(local io.ReaderAt, n int64) (same, known bool)

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
	// the root of a copy. It follows no link below the root; isDir is false for links.
	tidy(root, rel string, stale func(name string, isDir bool) bool) error

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
	at() *location
	atomic() bool // it is written under a temporary name

	// finishCommit completes a commit that a lost connection cut off, and reports whether that
	// finished the copy.
	finishCommit(c *fileCopy) (done bool, err error)

	// rereads returns how to read the copy back, nil if that is impossible. holds reports whether
	// the host's file matches the hash of the source; known is false if that cannot be told.
	rereads(c *fileCopy, in input) reopen
	holds(c *fileCopy, in input) (same, known bool)

	// same fails if the target is the source itself.
	same(c *fileCopy, in input) error

	create(c *fileCopy, in input) error

	// resume opens what an interrupted copy left and returns where to continue, or why it cannot.
	// discard removes it; left reports whether a name can be one of this target's temporary names.
	// restore gives the old file that was moved aside its name back, or removes it if the target
	// exists.
	resume(c *fileCopy, in input, m *mark) (offset int64, why error)
	left(name string) bool
	discard(name string) error
	restore(aside string) error

	fill(c *fileCopy, in input) error   // copies the contents
	seal(c *fileCopy, in input) error   // sets attributes and closes, on a host
	verify(c *fileCopy, in input) error // compares what is stored with what was copied
	commit(c *fileCopy, in input) error // gives the copy its name

	// truncate shortens the file to n bytes for a later run to continue; synced means that they are
	// on disk. remove removes what was written.
	truncate(c *fileCopy, n int64) (ok, synced bool)
	remove(c *fileCopy)
	close()
}

// A location is where a file goes, and under which name it is written.
type location struct {
	name   string      // path, links resolved
	info   fs.FileInfo // what is there, nil if nothing or a link is
	link   bool        // a link is there
	direct bool        // it can only be written in place
	untold bool        // the host does not say what is there, or whether anything is
	temp   string      // path of the temporary file, "" if the target itself is written
	freed  bool        // what was there has been moved away

	// private is set if the temporary file is its owner's alone until it gets its permissions.
	private bool
}

func (l *location) at() *location { return l }
func (l *location) atomic() bool  { return l.temp != "" }

// written is the path that is being written.
func (l *location) written() string {
	if l.temp != "" {
		return l.temp
	}
	return l.name
}

// look records what was found below the target of a tree.
func (l *location) look(info fs.FileInfo, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case private.Untold(err):
		l.untold = true
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0: // it is replaced
		l.link = true
	case !info.Mode().IsRegular():
		return inTheWay(l.name, info.Mode())
	default:
		l.info = info
	}
	return nil
}

// find determines where a single file goes: into the target if that is a directory. name is the
// target as the user gave it, slash says whether it ends in one, valid checks a name in it, and
// stat follows links.
func (l *location) find(c *fileCopy, name string, slash bool, valid func(string) error,
	stat func(string) (fs.FileInfo, error)) error {
	l.name = name
	info, err := stat(name)
	switch {
	case err == nil && info.IsDir(), private.Untold(err) && (slash || meansDirectory(name)):
		base, baseErr := c.src.base(c.source)
		if baseErr != nil || c.options.NoTargetDirectory {
			return &fs.PathError{Op: "write", Path: name, Err: ErrIsDirectory}
		}
		if err := c.checkBase(base, valid); err != nil {
			return err
		}
		l.name, c.name = c.dst.join(name, base), base
		c.result.Target = l.name
		if info, err = stat(l.name); err == nil && info.IsDir() {
			return &fs.PathError{Op: "write", Path: l.name, Err: ErrIsDirectory}
		}
	case err == nil && slash:
		return &fs.PathError{Op: "write", Path: name, Err: errNotDirectory}
	case slash:
		return err
	}
	if err == nil {
		l.info = info
	}
	if l.untold = private.Untold(err); l.untold {
		return nil
	}
	return ignoreMissing(err)
}

// meansDirectory reports whether a path can only be a directory's.
func meansDirectory(name string) bool {
	base := path.Base(name)
	return base == "." || base == ".." || base == "/"
}

// checkBase checks the name that a copy gets in a directory.
func (j *job) checkBase(base string, valid func(string) error) error {
	if base == "." {
		return nil
	}
	if err := valid(base); err != nil {
		return &fs.PathError{Op: "copy", Path: j.route.Source, Err: err}
	}
	return nil
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

// preservesModes reports whether copies get their source's permissions without the umask.
func (a *Attributes) preservesModes() bool { return a.Preserve && !a.NoModes }

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

// addOwner adds the source's owner to the attributes of a copy if Options.Owners is set.
func (o *Options) addOwner(set *usftp.NewAttrs, to localfs.Owner) error {
	return o.chown(to, func(uid, gid int) error {
		set.SetOwner, set.UID, set.GID = true, uid, gid
		return nil
	})
}

var errNoOwner = errors.New("the source's owner is not known")
