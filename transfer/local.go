package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/pool"
)

// Local returns an endpoint for a path on this machine.
func Local(path string) Endpoint {
	return Endpoint{path: path,
		newSource: func(j *job) (source, error) { return &localSource{localEnd{j}}, nil },
		newTarget: func(j *job) (target, error) {
			return &localTarget{localEnd: localEnd{j}, placement: placement{new(pool.Quirks)},
				root: path}, nil
		}}
}

// localEnd is common to sources and targets on this machine.
type localEnd struct{ job *job }

func (localEnd) conn() *pool.Conn { return nil }

func (localEnd) join(dir, name string) string { return filepath.Join(dir, name) }

func (localEnd) identity(name string) (host, path string, ok bool) {
	path, err := filepath.Abs(name)
	return "", path, err == nil
}

// limits allows enough files at once to keep the processors busy with the kernel's work on names.
func (localEnd) limits() (limits, error) {
	return limits{handles: 1 << 20, listings: walkers, files: 2 * runtime.GOMAXPROCS(0), queue: 256,
		small: largestSmall}, nil
}

func (localEnd) realPath(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err == nil {
		name, err = filepath.EvalSymlinks(name)
	}
	return filepath.ToSlash(name), err
}

func (localEnd) lstat(name string) error {
	_, err := os.Lstat(name)
	return err
}

func (localEnd) fileSystem(name string) [2]uint64 { return localfs.FileSystemID(name) }

func (localEnd) touch(name string) (remove func() error, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	f.Close()
	return func() error { return os.Remove(name) }, nil
}

func localFacts(info fs.FileInfo) (f facts) {
	f.are(info)
	return f
}

// are sets facts from what the system says about a file. For noinline see told.
//
//go:noinline
func (f *facts) are(info fs.FileInfo) {
	*f = facts{mode: info.Mode(), hasMode: true, size: info.Size(), mtime: info.ModTime(),
		atime: info.ModTime(), hasTimes: true, owner: localfs.OwnerOf(info), info: info}
}

// localSource is a path on this machine as a source.
type localSource struct{ localEnd }

func (s *localSource) open(c *fileCopy) (input, error) {
	in := &localInput{path: c.source}
	if c.entry != nil && !c.entry.sought {
		in.known = c.entry.facts
		in.listed = in.known.mode.IsRegular() && c.tree.options.Links != LinksFollow
		return in, nil
	}
	return in, in.ready(c)
}

func (s *localSource) base(name string) (string, error) {
	for len(name) > 1 && os.IsPathSeparator(name[len(name)-1]) {
		name = name[:len(name)-1]
	}
	switch base := filepath.Base(name); base {
	case ".", "..", string(filepath.Separator):
		return ".", nil
	default:
		return base, nil
	}
}

func (s *localSource) look(name string) (facts, error) {
	info, err := os.Stat(name)
	if err != nil {
		return facts{}, ofSource(err)
	}
	return localFacts(info), nil
}

// listPiece is how many entries of a directory are read at a time.
const listPiece = 256

func (s *localSource) list(d *directory, yield func(*entry, error) bool) error {
	open := os.Open
	if d.parent != nil && d.tree.options.Links != LinksFollow {
		open = localfs.OpenDirNoFollow
	}
	dir, err := open(d.source)
	if err != nil {
		return ofSource(explainLink(err))
	}
	defer dir.Close()
	return ofSource(eachEntry(dir, func(name string, info fs.FileInfo, err error) bool {
		e := &entry{dir: d, name: name}
		if err == nil {
			e.facts = localFacts(info)
		}
		return yield(e, ofSource(err))
	}))
}

// eachEntry reads a directory until yield returns false.
func eachEntry(dir *os.File, yield func(name string, info fs.FileInfo, err error) bool) error {
	for {
		entries, err := dir.ReadDir(listPiece)
		for _, found := range entries {
			info, err := found.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was removed in between
			}
			if !yield(found.Name(), info, err) {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *localSource) readLink(name string) (string, error) {
	to, err := os.Readlink(name)
	return to, ofSource(err)
}

func (s *localSource) loops(d *directory) string {
	for above := d.parent; above != nil; above = above.parent {
		if os.SameFile(above.facts.info, d.facts.info) {
			return "it leads back to " + above.source
		}
	}
	return ""
}

// sum hashes a file by reading it.
func (s *localSource) sum(c *fileCopy) error {
	opened, err := s.open(c)
	if err == nil {
		err = opened.ready(c)
	}
	if err != nil {
		return err
	}
	defer opened.close()
	f := opened.facts()
	if !f.mode.IsRegular() {
		return errChanging
	}
	c.size = f.size
	err = c.hashing.reread(c, c.size, opened.reopen(c))
	if errors.Is(err, errDiffers) || errors.Is(err, io.ErrUnexpectedEOF) ||
		opened.unchanged(c, c.size, nil) != nil {
		return errChanging
	}
	c.hashing.verified, c.result.Bytes = VerifiedByReading, c.size
	return err
}

// explainLink turns a link that was not followed into a source that has changed: anyone who may
// write to the tree can replace a file by a link since it was listed, to a file that only we may
// read.
func explainLink(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) && path.Err == localfs.ErrLink {
		path.Err = changedf("%v", localfs.ErrLink)
	}
	return err
}

// localInput is a file on this machine being read.
type localInput struct {
	path   string
	known  facts
	listed bool // as a regular file, in a tree whose links are not followed
	file   *os.File
	free   func() // makes reads of file interruptible no longer
}

func (in *localInput) facts() *facts { return &in.known }

func (in *localInput) ready(c *fileCopy) error {
	if in.file != nil {
		return nil
	}
	var f *os.File
	var err error
	switch {
	case in.listed:
		f, err = localfs.OpenNoFollow(in.path)
		err = explainLink(err)
	case in.known.regular(): // opening does not block, and there may be thousands
		f, err = os.Open(in.path)
	default:
		f, err = localfs.OpenWaiting(c.ctx, func() (*os.File, error) { return os.Open(in.path) })
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &fs.PathError{Op: "read", Path: in.path, Err: ErrIsDirectory}
	case in.listed && !info.Mode().IsRegular():
		err = &fs.PathError{Op: "read", Path: in.path,
			Err: changedf("it is %s now", kindOf(info.Mode()))}
	}
	if err != nil {
		f.Close()
		return err
	}
	in.file, in.free = f, func() {}
	in.known.are(info)
	if c.options.Journal != "" {
		in.known.id = localfs.ID(info)
	}
	if !info.Mode().IsRegular() {
		in.free = localfs.Interruptible(c.ctx, f)
	}
	return nil
}

func (in *localInput) whole(c *fileCopy, data []byte) (same bool, err error) {
	if err := in.ready(c); err != nil {
		return false, err
	}
	size := len(data) - 1
	if in.known.size == int64(size) {
		n, err := io.ReadFull(in.file, data)
		if err != io.EOF && err != io.ErrUnexpectedEOF && err != nil {
			return false, err
		}
		same = n == size // false for files like those in /proc, whose size says nothing
	}
	if same {
		err = in.unchanged(c, int64(size), nil)
	}
	in.close()
	return same, err
}

func (in *localInput) contents() contents { return in.file }

func (in *localInput) unchanged(c *fileCopy, n int64, _ reopen) error {
	if in.file == nil || !in.known.mode.IsRegular() {
		return nil
	}
	info, err := in.file.Stat()
	if err != nil {
		return err
	}
	now := localFacts(info)
	return unchanged(&in.known, &now, n)
}

// pour lets the file systems copy between two regular files, and streams anything else.
func (in *localInput) pour(c *fileCopy, to sink) (int64, error) {
	if !in.known.mode.IsRegular() || to.file == nil {
		return pourStream(c, in.file, to)
	}
	var moved atomic.Int64
	if !c.isSmall() {
		defer c.watch(moved.Load)()
	}
	o := localfs.Options{Zeros: c.options.Sparse, Each: func(n int64) error {
		moved.Add(n)
		return c.limiter.wait(int(n))
	}}
	if c.limiter != nil {
		o.Piece = c.limiter.piece
	}
	if c.hashing.digests = newDigests(c, c.size); len(c.hashing.digests) > 0 {
		o.Hash = c.hashing.digests
	}
	n, err := localfs.Copy(c.ctx, to.file, in.file, o)
	c.hashing.digests.finish()
	return n, err
}

// pourStream copies if either side is not a regular file.
func pourStream(c *fileCopy, r io.Reader, to sink) (int64, error) {
	if c.options.Verify && c.main() == nil {
		return 0, errNoReread
	}
	var moved atomic.Int64
	defer c.watch(moved.Load)()
	c.hashing.start(c, nil)
	return io.Copy(counting{c.hashing.pipe.writer(c.limiter.writer(to.Writer), 0), &moved},
		interruptibleReader{c.ctx, r})
}

// interruptibleReader stops when a context ends. It also hides the reader's other methods from
// io.Copy.
type interruptibleReader struct {
	ctx context.Context
	r   io.Reader
}

func (r interruptibleReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

// counting counts what a writer has taken.
type counting struct {
	w     io.Writer
	taken *atomic.Int64
}

func (w counting) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.taken.Add(int64(n))
	return n, err
}

func (in *localInput) copyOn(*fileCopy, *usftp.File) (n int64, done bool, err error) {
	return 0, false, nil
}

func (in *localInput) verify(c *fileCopy, target reopen) error {
	if target == nil || !in.known.mode.IsRegular() {
		return errNoReread
	}
	err := compareLocal(c.ctx, in.file, c.size, c.result.Bytes, target)
	if err == nil {
		c.hashing.verified = VerifiedByReading
	}
	return err
}

// holds claims nothing about a local source: the file is copied again rather than compared.
func (in *localInput) holds(*fileCopy) (same, told bool) { return false, true }

func (in *localInput) begins(io.ReaderAt, int64) (same, told bool) { return false, false }

// reopen returns the open file if there is one, even if its name has since gone to another file.
func (in *localInput) reopen(*fileCopy) reopen {
	if !in.known.mode.IsRegular() {
		return nil
	}
	return func() (io.ReaderAt, func(), error) {
		if in.file != nil {
			return in.file, func() {}, nil
		}
		return opened(os.Open(in.path))
	}
}

func opened(f *os.File, err error) (io.ReaderAt, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

func (in *localInput) inherit(*fileCopy, *mark) {}

func (in *localInput) close() {
	if in.file != nil {
		in.free()
		in.file.Close()
		in.file = nil
	}
}

// localTarget is a path on this machine as a target. Everything below the target of a tree is
// written through os.Root, so that names from a server cannot lead outside.
type localTarget struct {
	localEnd
	placement
	root  string
	top   *os.Root // of a tree
	base  string   // the copy's name in top; "." if top is the copy
	fresh bool     // top was made for this copy
	roots roots
}

var errLinkInWay = errors.New("a symbolic link is in the way, and none is followed below the target")

// dispose removes one of our temporary files on this machine.
func (t *localTarget) dispose(temporary string) bool {
	dir, name := filepath.Split(temporary)
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return false
	}
	defer root.Close()
	return root.Remove(name) == nil
}

func (t *localTarget) tidy(root, rel string, stale func(name string) bool) error {
	top, err := os.OpenRoot(root)
	if err != nil {
		return notThere(err)
	}
	defer top.Close()
	dir, err := top.Open(rel)
	if err != nil {
		return notThere(err)
	}
	defer dir.Close()
	var names []string
	for err == nil {
		var entries []fs.DirEntry
		entries, err = dir.ReadDir(listPiece)
		for _, e := range entries {
			if stale(e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	for _, name := range names {
		err = errors.Join(err, notThere(top.Remove(path.Join(rel, name))))
	}
	return err
}

// notThere returns err, or nil if err says that a file does not exist.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// begin opens the directory to copy to, and makes it if it does not exist.
func (t *localTarget) begin(source facts, base string, inside func() error) (string, error) {
	if base != "." {
		if err := localfs.CheckName(base); err != nil {
			return t.root, &fs.PathError{Op: "copy", Path: t.job.route.Source, Err: err}
		}
	}
	if err := t.notInside(base, source.info); err != nil {
		return t.root, err
	}
	if err := inside(); err != nil {
		return t.root, err
	}
	name := t.root
	info, err := os.Stat(name)
	t.base = "."
	dryRun := t.job.tree.options.DryRun
	switch {
	case err == nil && !info.IsDir():
		return name, &fs.PathError{Op: "write", Path: name, Err: errNotDirectory}
	case err == nil:
		if base != "." {
			t.base = base
			name = filepath.Join(name, base)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return name, err
	case dryRun:
		return name, nil
	default:
		if err := os.Mkdir(name, source.perm()|0o700); err != nil {
			return name, err
		}
		t.fresh = true
	}
	if !dryRun || t.job.tree.sync != nil {
		t.top, err = os.OpenRoot(t.root)
		t.roots.top = t.top
	}
	return name, err
}

// notInside refuses to copy a local directory to itself or into a directory below it.
func (t *localTarget) notInside(base string, source fs.FileInfo) error {
	if source == nil {
		return nil
	}
	if info, err := os.Stat(filepath.Join(t.root, base)); err == nil && os.SameFile(info, source) {
		return t.job.tree.nested()
	}
	target := t.root
	if _, err := os.Stat(target); err != nil {
		target = filepath.Dir(target)
	}
	target, err := filepath.EvalSymlinks(target)
	if err == nil {
		target, err = filepath.Abs(target)
	}
	for err == nil {
		if info, err := os.Stat(target); err == nil && os.SameFile(info, source) {
			return t.job.tree.nested()
		}
		next := filepath.Dir(target)
		if next == target {
			break
		}
		target = next
	}
	if t.job.tree.sync != nil && above(t.root, t.job.route.Source) {
		return errNested
	}
	return nil // if the target cannot be examined, making it will fail with the reason
}

// above reports whether dir is an ancestor of other.
func above(dir, other string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	if other, err = filepath.EvalSymlinks(other); err == nil {
		other, err = filepath.Abs(other)
	}
	for err == nil && filepath.Dir(other) != other {
		other = filepath.Dir(other)
		if at, err := os.Stat(other); err == nil && os.SameFile(at, info) {
			return true
		}
	}
	return false
}

func (t *localTarget) is(source facts) bool {
	if t.top == nil || source.info == nil {
		return false
	}
	info, err := t.top.Stat(t.base)
	return err == nil && os.SameFile(info, source.info)
}

func (t *localTarget) close() {
	t.roots.close()
	if t.top != nil {
		t.top.Close()
	}
}

var errDoubleName = errors.New("its name differs only in case from that of another entry, and this system takes them for one")

func (t *localTarget) check(d *directory, name string) error {
	if err := localfs.CheckName(name); err != nil {
		return err
	}
	if localfs.FoldsCase && !d.addName(localfs.FoldName(name)) {
		return errDoubleName
	}
	return nil
}

// within returns a directory's path in top.
func (t *localTarget) within(d *directory) string { return path.Join(t.base, d.rel) }

// above returns the directory's parent and its name there.
func (t *localTarget) above(d *directory) (in *os.Root, name string, release func(), err error) {
	if d.parent == nil {
		return t.top, t.base, func() {}, nil
	}
	in, release, err = t.roots.use(d.parent, t.within(d.parent))
	return in, path.Base(d.rel), release, err
}

func (t *localTarget) makeDir(d *directory) (fresh bool, err error) {
	if d.parent == nil && t.base == "." {
		return t.fresh, nil
	}
	in, name, release, err := t.above(d)
	if err != nil {
		return false, err
	}
	defer release()
	err = in.Mkdir(name, d.facts.perm()|0o700)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	info, err := in.Lstat(name)
	switch {
	case err != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink != 0:
		return false, errLinkInWay
	case !info.IsDir():
		return false, errNotDirectory
	}
	return false, nil
}

func (t *localTarget) finishDir(d *directory) error {
	set, err := d.attrs()
	if err != nil || set == (usftp.NewAttrs{}) {
		return err
	}
	in, name, release, err := t.above(d)
	if err != nil {
		return err
	}
	defer release()
	if set.SetOwner {
		err = in.Chown(name, set.UID, set.GID)
	}
	if err == nil && set.SetMode {
		err = in.Chmod(name, set.Mode.Perm())
	}
	if err == nil && set.SetTimes {
		atime, mtime := d.facts.times()
		err = in.Chtimes(name, atime, mtime)
	}
	return err
}

func (t *localTarget) leave(d *directory) { t.roots.leave(d) }

func (t *localTarget) makeLink(e *entry, to string) error {
	in, release, err := t.roots.use(e.dir, t.within(e.dir))
	if err != nil {
		return err
	}
	defer release()
	err = in.Symlink(to, e.name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if old, err := in.Readlink(e.name); err == nil && old == to {
		return nil
	}
	if info, err := in.Lstat(e.name); err == nil && info.IsDir() {
		return &fs.PathError{Op: "replace", Path: e.target(), Err: ErrIsDirectory}
	}
	temporary := t.job.token.Name(e.name)
	if err := in.Symlink(to, temporary); err != nil {
		return err
	}
	if err := in.Rename(temporary, e.name); err != nil {
		in.Remove(temporary)
		return err
	}
	return nil
}

func (t *localTarget) finishLink(e *entry, set usftp.NewAttrs) error {
	in, release, err := t.roots.use(e.dir, t.within(e.dir))
	if err != nil {
		return err
	}
	defer release()
	if set.SetOwner {
		err = in.Lchown(e.name, set.UID, set.GID)
	}
	if err == nil && set.SetTimes {
		atime, mtime := e.facts.times()
		err = localfs.Lchtimes(in, e.name, atime, mtime)
	}
	return err
}

// place examines the target.
func (t *localTarget) place(c *fileCopy, in input) (output, error) {
	o := &localOutput{end: t, entry: c.entry}
	if c.entry == nil {
		return o, o.find(c)
	}
	o.full, o.name = c.entry.target(), c.entry.name
	if c.entry.dir.fresh {
		return o, nil
	}
	// fetching the source from a host may take long: keep no directory open for that time
	defer o.close()
	return o, o.lookBelow()
}

// localOutput is a file on this machine being written. It lies in root, the directory that holds
// the target: links in the path given by the user are followed, links below it are not.
type localOutput struct {
	end      *localTarget
	entry    *entry
	full     string // full path, shown to people
	root     *os.Root
	release  func()      // of root
	name     string      // in root
	info     fs.FileInfo // the existing target, nil if there is none
	isDirect bool        // it can only be written in place
	temp     string      // in root; "" if the target itself is written
	file     *os.File
	free     func() // makes writes to file interruptible no longer
}

func (o *localOutput) path() string        { return o.full }
func (o *localOutput) before() fs.FileInfo { return o.info }
func (o *localOutput) direct() bool        { return o.isDirect }
func (o *localOutput) atomic() bool        { return o.temp != "" }

func (o *localOutput) stored() string {
	if o.temp == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(o.full), o.temp)
}

// written returns the name being written.
func (o *localOutput) written() string {
	if o.temp != "" {
		return o.temp
	}
	return o.name
}

// open opens the directory that holds the target.
func (o *localOutput) open() (err error) {
	if o.root != nil {
		return nil
	}
	if o.entry != nil {
		o.root, o.release, err = o.end.roots.use(o.entry.dir, o.end.within(o.entry.dir))
		return err
	}
	if o.root, err = os.OpenRoot(filepath.Dir(o.full)); err == nil {
		o.release = func() { o.root.Close() }
	}
	return err
}

func (o *localOutput) close() {
	if o.free != nil {
		o.free()
	}
	if o.file != nil {
		o.file.Close()
	}
	if o.root != nil {
		o.release()
		o.root = nil
	}
}

// lookBelow examines a path below the target of a tree.
func (o *localOutput) lookBelow() error {
	if err := o.open(); err != nil {
		return err
	}
	info, err := o.root.Lstat(o.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0: // the rename will replace it
	case !info.Mode().IsRegular():
		return inTheWay(o.full, info.Mode())
	default:
		o.info, o.isDirect = info, localfs.Links(info) > 1
	}
	return nil
}

// find examines the target of a single file: a directory is entered, a symbolic link followed.
func (o *localOutput) find(c *fileCopy) error {
	name := o.end.root
	o.full = name
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		if c.options.NoTargetDirectory {
			return &fs.PathError{Op: "write", Path: name, Err: ErrIsDirectory}
		}
		base, baseErr := o.end.job.src.base(c.source)
		if baseErr == nil && base != "." {
			baseErr = localfs.CheckName(base)
		}
		if baseErr != nil {
			return &fs.PathError{Op: "copy", Path: c.source, Err: baseErr}
		}
		name = filepath.Join(name, base)
		o.full, c.result.Target = name, name
		info, err = os.Stat(name)
		if err == nil && info.IsDir() {
			return &fs.PathError{Op: "write", Path: name, Err: ErrIsDirectory}
		}
	} else if name != "" && os.IsPathSeparator(name[len(name)-1]) {
		if err == nil {
			err = &fs.PathError{Op: "write", Path: name, Err: errNotDirectory}
		}
		return err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c.name = filepath.Base(name)
	if o.full, err = localfs.FollowLinks(name); err != nil {
		o.full = name
		return err
	}
	o.name, o.info = filepath.Base(o.full), info
	if info != nil {
		o.isDirect = !info.Mode().IsRegular() || localfs.Links(info) > 1
	}
	c.result.Target = o.full
	return o.open()
}

// rereads opens the file being written, or the existing target.
func (o *localOutput) rereads(*fileCopy, input) reopen {
	if o.info != nil && !o.info.Mode().IsRegular() {
		return nil
	}
	name := o.written()
	return func() (io.ReaderAt, func(), error) {
		if err := o.open(); err != nil {
			return nil, nil, err
		}
		return opened(o.root.Open(name))
	}
}

func (o *localOutput) holds(c *fileCopy, in input) (same, told bool) { return in.holds(c) }

func (o *localOutput) verify(c *fileCopy, in input) error { return in.verify(c, o.rereads(c, in)) }

func (o *localOutput) same(_ *fileCopy, in input) error {
	source := in.facts().info
	if source != nil && o.info != nil && os.SameFile(source, o.info) {
		return errSameFile
	}
	return nil
}

func (o *localOutput) settle(*fileCopy) (done bool, err error) { return false, nil }

// create creates the temporary file, or opens the target if it is to be written in place.
func (o *localOutput) create(c *fileCopy, in input) error {
	if err := in.ready(c); err != nil {
		return ofSource(err)
	}
	c.sized(in)
	err := o.open()
	if err == nil {
		err = o.createIn(c, in.facts())
	}
	var path *fs.PathError
	if errors.As(err, &path) && o.temp == "" && path.Path == o.name {
		err = &fs.PathError{Op: path.Op, Path: o.full, Err: path.Err}
	}
	return err
}

func (o *localOutput) createIn(c *fileCopy, source *facts) (err error) {
	perm := fs.FileMode(0o666)
	if source.hasMode {
		perm = source.mode.Perm()
	}
	if !o.isDirect && o.end.atomic(c) {
		private := perm
		if o.info != nil || c.options.Preserve {
			private = 0o600
		}
		temporary := c.token.Name(o.name)
		c.journal.noteBefore(c, filepath.Join(filepath.Dir(o.full), temporary))
		o.file, err = o.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
		c.tries.made = temporary // without the directory: os.Root names files by their path in it
		if err == nil {
			o.temp = temporary
			return nil
		}
		if err := o.end.fallBack(c, err); err != nil {
			return err
		}
	}
	if c.options.Placement == PlaceAtomic {
		return &fs.PathError{Op: "replace", Path: o.full,
			Err: errors.New("it is not a regular file with one name and can only be written in place")}
	}
	regular := o.info == nil || o.info.Mode().IsRegular()
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !regular {
		flags = os.O_WRONLY
	}
	if c.entry != nil {
		o.file, err = o.openBelow(perm)
	} else {
		o.file, err = localfs.OpenWaiting(c.ctx,
			func() (*os.File, error) { return o.root.OpenFile(o.name, flags, perm) })
	}
	switch {
	case err != nil:
	case !regular:
		o.free = localfs.Interruptible(c.ctx, o.file)
	case c.options.Placement == PlaceDirect:
	case o.isDirect:
		c.note("the target has other names (hard links): it is written in place")
	default:
		o.end.nameRefused(c, o.info == nil)
	}
	return err
}

// openBelow opens a file below the target of a tree for writing in place, provided it is still what
// it was found to be. It follows no link, whoever put it there: a hostile server may send a link
// and then a file of the same name. A link is replaced by the file, as a rename would. A new file
// is created exclusively; an existing regular file may stem from an earlier attempt. os.Root alone
// would keep writes inside the target, but follow links within it.
func (o *localOutput) openBelow(perm fs.FileMode) (*os.File, error) {
	info, err := o.root.Lstat(o.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o.root.OpenFile(o.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		if err := o.root.Remove(o.name); err != nil {
			return nil, err
		}
		return o.root.OpenFile(o.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	case !info.Mode().IsRegular():
		return nil, inTheWay(o.full, info.Mode())
	}
	file, err := o.root.OpenFile(o.name, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	now, err := file.Stat()
	if err == nil && (!os.SameFile(now, info) || o.info != nil && !os.SameFile(now, o.info)) {
		err = &fs.PathError{Op: "write", Path: o.name, Err: errReplaced}
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// left reports whether an earlier run for this target may have left a file of this name.
func (o *localOutput) left(name string) bool {
	return strings.HasPrefix(filepath.Base(name), localfs.TempPrefix(o.name))
}

func (o *localOutput) discard(name string) error {
	if err := o.open(); err != nil {
		return err
	}
	return o.root.Remove(filepath.Base(name))
}

// resume opens what an earlier run left and proves it by the source's hash, or drops the end of it
// that may not have reached the disk.
func (o *localOutput) resume(c *fileCopy, in input, m *mark) (offset int64, err error) {
	name := filepath.Base(m.Temporary)
	if err := o.open(); err != nil {
		return 0, err
	}
	file, err := o.root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	if offset, err = proveLocal(c, file, in, m); err == nil {
		err = file.Truncate(offset)
	}
	if err == nil {
		_, err = file.Seek(offset, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return 0, errors.New(plain(err))
	}
	in.inherit(c, m)
	o.file, o.temp, c.tries.made = file, name, name
	return offset, nil
}

func proveLocal(c *fileCopy, file *os.File, in input, m *mark) (offset int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() || localfs.Links(info) > 1 || info.Size() < m.Bytes {
		return 0, errors.New("it was replaced")
	}
	if m == c.journal.left { // this run's own attempt
		return m.Bytes, nil
	}
	same, told := in.begins(file, m.Bytes)
	switch {
	case told && !same:
		return 0, errDiffers
	case told:
		return m.Bytes, nil
	case m.Synced:
		offset = m.Bytes - tail
	case m.Boot != localfs.BootID():
		// What was lost need not be what was written last: the kernel writes back in any order, and
		// so do several handles. A hole in the middle would read as zeros.
		return 0, errors.New("this machine was restarted since, which may have lost some of it")
	case m.Boot != "":
		// the process was killed, not the machine: the kernel has everything it was given
		offset = m.Bytes - tail
	default:
		offset = m.Bytes - unsyncedTail
	}
	if offset <= 0 {
		return 0, errors.New("too little of it is there")
	}
	return offset, nil
}

func (o *localOutput) fill(c *fileCopy, in input) error {
	to := sink{Writer: o.file, reread: o.rereads(c, in)}
	if to.reread != nil {
		to.file = o.file
	}
	if o.temp != "" && o.info != nil {
		to.old = func() (*os.File, error) { return o.root.Open(o.name) }
	}
	n, err := in.pour(c, to)
	c.result.Bytes = c.result.Resumed + n
	return err
}

func (o *localOutput) seal(*fileCopy, input) error { return nil }

// commit sets the file's attributes and gives it its name.
func (o *localOutput) commit(c *fileCopy, in input) error {
	source := in.facts()
	if err := c.options.chown(source.owner, o.file.Chown); err != nil {
		return err
	}
	if c.options.Preserve && source.hasMode {
		if err := o.file.Chmod(source.mode.Perm()); err != nil {
			return err
		}
	} else if o.info != nil && o.temp != "" {
		mode := o.info.Mode()
		if c.options.Owners {
			mode &^= fs.ModeSetuid | fs.ModeSetgid
		} else if err := localfs.OwnerOf(o.info).Keep(o.file); err != nil {
			c.note("the new file cannot have the owner of the one it replaces: " + err.Error())
			mode &^= fs.ModeSetuid | fs.ModeSetgid // its owner never agreed to that
		}
		if err := o.file.Chmod(mode); err != nil {
			return err
		}
	}
	if c.options.Sync {
		if err := o.file.Sync(); err != nil {
			return err
		}
	}
	if err := o.file.Close(); err != nil { // NFS and others report failed writes only now
		return err
	}
	if (c.options.Preserve || c.entry != nil) && source.hasTimes {
		atime, mtime := source.times()
		if err := o.root.Chtimes(o.written(), atime, mtime); err != nil &&
			c.options.Preserve {
			return err
		}
	}
	if o.temp == "" {
		return nil
	}
	err := o.root.Rename(o.temp, o.name)
	if err != nil {
		c.result.LeftBehind = o.stored()
		c.detail = "all of the data is in " + o.stored()
		// most likely the directory was removed
		if _, lookErr := o.root.Lstat(o.temp); errors.Is(lookErr, fs.ErrNotExist) {
			c.result.LeftBehind = ""
			c.detail = "all of the data was in " + o.stored() + ", which is no more"
		}
	}
	return err
}

func (o *localOutput) cut(_ *fileCopy, n int64) (ok, synced bool) {
	if o.file.Truncate(n) != nil {
		return false, false
	}
	return true, o.file.Sync() == nil
}

func (o *localOutput) remove(*fileCopy) {
	if o.temp != "" {
		o.root.Remove(o.temp)
	}
}

// roots keeps open the directories being written to, up to a number that any process may have open.
type roots struct {
	top  *os.Root
	mu   sync.Mutex
	open map[*directory]*openRoot
	tick int64
}

type openRoot struct {
	*os.Root
	users int
	used  int64
	left  bool // closed by its last user
}

const mostRoots = 64

// use opens a directory, which stays open at least until release is called.
func (r *roots) use(d *directory, within string) (root *os.Root, release func(), err error) {
	if within == "." {
		return r.top, func() {}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.open[d]
	if o == nil {
		opened, err := r.top.OpenRoot(within)
		if err != nil {
			return nil, nil, err
		}
		if r.open == nil {
			r.open = make(map[*directory]*openRoot)
		}
		r.evict()
		o = &openRoot{Root: opened}
		r.open[d] = o
	}
	r.tick++
	o.used = r.tick
	o.users++
	return o.Root, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if o.users--; o.users == 0 && o.left {
			o.Close()
		}
	}, nil
}

// evict closes the directory least recently used if there are too many. The caller holds the lock.
func (r *roots) evict() {
	if len(r.open) < mostRoots {
		return
	}
	var oldest *directory
	for d, o := range r.open {
		if o.users == 0 && (oldest == nil || o.used < r.open[oldest].used) {
			oldest = d
		}
	}
	if oldest != nil {
		r.open[oldest].Close()
		delete(r.open, oldest)
	}
}

// leave closes a directory in which nothing more is created. Attributes may still be set in it.
func (r *roots) leave(d *directory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.open[d]; o != nil {
		delete(r.open, d)
		if o.left = true; o.users == 0 {
			o.Close()
		}
	}
}

func (r *roots) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for d, o := range r.open {
		o.Close()
		delete(r.open, d)
	}
}
