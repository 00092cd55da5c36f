package usftp

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/usftp/usftp/wire"
)

// Remove removes a file or an empty directory. It does not follow symbolic links. It takes one
// round trip for a file and two for a directory.
func (c *Client) Remove(name string) error {
	return c.do(c.remove(name))
}

// RemoveDirectory removes an empty directory. It takes one round trip.
func (c *Client) RemoveDirectory(name string) error {
	return c.do(c.removeDirectory("rmdir", name))
}

// Remove removes the file by its name, whether it is open or not. It takes one round trip.
func (f *File) Remove() error {
	return f.do(f.session().remove(f.Name()))
}

// remove tries to remove a file and then a directory. The protocol has a request for each and no
// code for "is a directory" (OpenSSH answers FAILURE, others PERMISSION_DENIED). Like os.Remove
// it tries both and returns the error that says more: the first, unless that only says so in words.
func (s *session) remove(name string) operation[none] {
	op := s.removeFile(name)
	op.instead = func(refusal error) *operation[none] {
		if errors.Is(refusal, fs.ErrNotExist) {
			return nil
		}
		rmdir := s.removeDirectory("remove", name)
		status, ok := errors.AsType[*StatusError](refusal)
		if !ok || !strings.Contains(strings.ToLower(status.Message), "is a directory") {
			rmdir.refused = refusal
		}
		return &rmdir
	}
	return op
}

func (s *session) removeFile(name string) operation[none] {
	return s.command("remove", name, wire.PathRequest{Type: wire.TypeRemove, Path: name})
}

func (s *session) removeDirectory(op, name string) operation[none] {
	return s.command(op, name, wire.PathRequest{Type: wire.TypeRmdir, Path: name})
}

const (
	// fewRemovers is the number of directories emptied at once, mostRemovers where the server says
	// that it allows as many handles: each directory takes four round trips or more.
	fewRemovers, mostRemovers = 32, 256

	// removeBatch and removeBatchBytes limit the entries held of one directory, removeBytes those of
	// all; then a directory holds a sixteenth.
	removeBatch      = 10_000
	removeBatchBytes = 4 << 20
	removeBytes      = 128 << 20
	entrySize        = 256 // about the memory of an entry without its name

	// mostRemoved limits the names that are removed, and mostRemovals the memory of the directories
	// still to be emptied: a server may list fresh names, or nest directories, without end.
	mostRemoved  = 200_000_000
	mostRemovals = 256 << 20
)

// RemoveAll removes name and, if it is a directory, everything in it. It removes symbolic links and
// never follows them, including name itself. If name does not exist it does nothing. It removes as
// much as it can and returns the first error; after 200 million names it gives up. A file takes one
// round trip; in a tree many directories are emptied at once, and many files of each are removed at
// once.
//
// If a directory is replaced by a link while RemoveAll runs, the link is not followed on a server
// that offers beneath@usftp. On others it may be: the protocol cannot open a directory without
// following links.
func (c *Client) RemoveAll(name string) error {
	name, err := removable(name)
	if err != nil {
		return err
	}
	c = c.beside(name)
	err = c.do(c.removeFile(name))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	isDir, statErr := c.isDirectory(name)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return nil
	case statErr != nil:
		return statErr
	case !isDir:
		return err
	}
	return c.removeTree(name, false, mostRemoved)
}

// RemoveAllIn removes everything in a directory but not the directory itself. Otherwise it is like
// [Client.RemoveAll]. It fails if dir is a symbolic link.
func (c *Client) RemoveAllIn(dir string) error {
	if trimmed := strings.TrimRight(dir, "/"); trimmed != "" {
		dir = trimmed // a slash would follow a link
	}
	isDir, err := c.isDirectory(dir)
	if err == nil && !isDir {
		err = &fs.PathError{Op: "removeall", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return err
	}
	return c.beside(dir).removeTree(dir, true, mostRemoved)
}

// removable refuses names that are surely mistakes, and cuts trailing slashes, which would follow a
// link.
func removable(name string) (string, error) {
	trimmed := strings.TrimRight(name, "/")
	if base := path.Base(trimmed); trimmed == "" || base == "." || base == ".." {
		return "", &fs.PathError{Op: "removeall", Path: name, Err: fs.ErrInvalid}
	}
	return trimmed, nil
}

func (c *Client) isDirectory(name string) (bool, error) {
	info, err := privateClient{c}.Look(name)
	return err == nil && info.IsDir(), err
}

// remover removes a tree with a few workers and a stack of directories, the deepest on top. Its
// memory holds little more than the neighbours of one path through the tree.
type remover struct {
	client *Client
	most   int // workers
	crowd  *crowd
	work   sync.WaitGroup
	listed atomic.Int64 // bytes of the entries that are being removed

	mu    sync.Mutex
	stack []*removal
	held  int // bytes of the directories that are not done
	names int // left to remove before giving up
	busy  int
	err   error // the first
	over  bool  // gave up
}

// removal is a directory to be emptied and, unless keep is set, removed.
type removal struct {
	name   string
	parent *removal
	keep   bool
	left   int  // directories in it that are not done; guarded by remover.mu
	gone   int  // names removed of those listed last; guarded by remover.mu
	kept   int  // names in it that cannot be removed, of all listed so far; guarded by remover.mu
	passed int  // kept, when it was listed last: listed again, they probably come first
	stuck  bool // something in it cannot be removed; guarded by remover.mu
	more   bool // it has more entries than were listed
}

// removalSize is about the memory of a removal without its name.
const removalSize = 80

func (c *Client) removeTree(name string, keep bool, most int) error {
	removers := fewRemovers
	if c.openHandles() >= 2*mostRemovers {
		removers = mostRemovers
	}
	r := &remover{client: c, most: removers, crowd: c.newCrowd(removers),
		stack: []*removal{{name: name, keep: keep}}, names: most}
	r.mu.Lock()
	r.hire()
	r.mu.Unlock()
	r.work.Wait()
	if r.err == nil && c.ctx.Err() != nil {
		return &fs.PathError{Op: "removeall", Path: name, Err: context.Cause(c.ctx)}
	}
	return r.err
}

// hire starts as many workers as there is work for. The caller holds the lock.
func (r *remover) hire() {
	for waiting := len(r.stack); waiting > 0 && r.busy < r.most; waiting-- {
		r.busy++
		r.work.Go(r.run)
	}
}

// run takes directories from the stack until it is empty.
func (r *remover) run() {
	for {
		r.mu.Lock()
		last := len(r.stack) - 1
		if last < 0 || r.over || r.client.ctx.Err() != nil {
			r.busy--
			r.mu.Unlock()
			return
		}
		dir := r.stack[last]
		r.stack = r.stack[:last]
		r.mu.Unlock()
		r.empty(dir)
	}
}

// empty removes the files in a directory and pushes its directories on the stack.
func (r *remover) empty(dir *removal) {
	var files []*File
	var dirs []string
	var bytes int64
	var more bool
	dir.passed = dir.kept
	err := r.crowd.list(func() (err error) {
		r.listed.Add(-bytes) // the crowd may repeat it
		files, dirs, bytes, more, err = r.list(dir.name, dir.passed)
		return err
	})
	defer func() { r.listed.Add(-bytes) }()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.failed(dir, err)
	}
	removed, kept := 0, 0
	listed := len(files) + len(dirs)
	for result := range Batch(slices.Values(files), 0, r.removeAsync) {
		switch {
		case result.Err == nil:
			removed++
		case errors.Is(result.Err, fs.ErrNotExist):
		case !result.Item.FileStat().HasType():
			dirs = append(dirs, result.Item.path) // it may be one, but not a link
		default:
			kept++
			r.failed(dir, result.Err)
		}
	}
	r.mu.Lock()
	dir.more, dir.gone, dir.left = more, removed, len(dirs)
	dir.kept += kept
	r.names -= listed
	for _, name := range dirs {
		r.held += len(name) + removalSize
		r.stack = append(r.stack, &removal{name: name, parent: dir})
	}
	if (r.names < 0 || r.held > mostRemovals) && !r.over {
		r.over = true
		r.err = &fs.PathError{Op: "removeall", Path: dir.name, Err: errTooMuch}
	}
	r.hire()
	r.mu.Unlock()
	if len(dirs) == 0 {
		r.emptied(dir)
	}
}

func (r *remover) removeAsync(f *File) *Pending[struct{}] {
	return start(r.client.ctx, r.client.removeFile(f.path))
}

// list returns some of the files and directories in a directory, as many as are held at a time,
// without the first ones, and what it has counted as listed. A link is a file.
func (r *remover) list(dir string, first int) (files []*File, dirs []string, bytes int64,
	more bool, err error) {
	var entries []*File
	for f, listErr := range r.client.Entries(dir) {
		if listErr != nil {
			err = listErr
			break
		}
		if first > 0 {
			first--
			continue
		}
		entries = append(entries, f)
		size := int64(len(f.path) + entrySize)
		bytes += size
		if all := r.listed.Add(size); len(entries) == removeBatch || bytes > removeBatchBytes ||
			all > removeBytes && bytes > removeBatchBytes/16 {
			more = true
			break
		}
	}
	for _, f := range entries {
		if f.IsDir() {
			dirs = append(dirs, f.path)
		} else {
			files = append(files, f)
		}
	}
	return files, dirs, bytes, more, err
}

// emptied removes an empty directory, and its parent if that was the last in it, and so on. A
// directory with more names is listed again as long as that brings others.
func (r *remover) emptied(dir *removal) {
	for dir != nil && r.client.ctx.Err() == nil {
		r.mu.Lock()
		stuck := dir.stuck
		if dir.more && (dir.gone > 0 || dir.kept > dir.passed) {
			r.stack = append(r.stack, dir)
			r.hire()
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		gone, kept := 0, 1
		if !stuck && !dir.keep {
			err := r.client.RemoveDirectory(dir.name)
			switch {
			case err == nil:
				gone, kept = 1, 0
			case errors.Is(err, fs.ErrNotExist):
				kept = 0
			default:
				r.failed(dir, err)
			}
		}
		parent := dir.parent
		if parent == nil {
			return
		}
		r.mu.Lock()
		parent.gone, parent.kept = parent.gone+gone, parent.kept+kept
		r.held -= len(dir.name) + removalSize
		parent.stuck = parent.stuck || dir.stuck
		parent.left--
		last := parent.left == 0
		r.mu.Unlock()
		if !last {
			return
		}
		dir = parent
	}
}

// failed records that something in a directory, or the directory itself, cannot be removed.
func (r *remover) failed(dir *removal, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dir.stuck = true
	r.err = cmp.Or(r.err, err)
}
