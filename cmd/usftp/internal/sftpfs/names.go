//go:build linux || darwin

package sftpfs

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// hiddenPrefix begins the names of files that were removed while open. They stay on the host until
// they are closed, because a file without a name could not be reopened over a new connection. NFS
// clients do the same.
const hiddenPrefix = ".usftp-deleted-"

// isHidden reports whether a name is one that we gave to a removed file. It stays hidden when the
// file is gone: a list may be older.
func (f *FS) isHidden(name string) bool { return strings.HasPrefix(name, f.hidden) }

// isRemoved reports whether a node's only name is hidden.
func (t *tree) isRemoved(n *node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.removed
}

// hide records that a node now has a hidden name. The other name may already be gone: a lookup may
// have found it missing.
func (t *tree) hide(n *node, from, to place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removePlace(n, from)
	n.places = append(n.places, to)
	to.dir.setChild(to.name, n)
	n.removed = true
}

// hidden returns the nodes whose only names are hidden.
func (t *tree) hidden() (nodes []*node) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, n := range t.byID {
		if n.removed && len(n.places) > 0 {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// inUse reports whether a node is open and has only one name.
func (f *FS) inUse(n *node) bool {
	return n != nil && n.openFile() != nil && f.tree.links(n) == 1
}

// changing begins every change of a name: it returns the directory if the change is allowed.
func (f *FS) changing(id uint64, name string) (*node, fuse.Status) {
	n := f.tree.get(id)
	switch {
	case n == nil:
		return nil, fuse.Status(syscall.ESTALE)
	case f.options.ReadOnly:
		return nil, fuse.EROFS
	case f.tooLong(n, name):
		return nil, fuse.Status(syscall.ENAMETOOLONG)
	}
	return n, fuse.OK
}

// inDir makes a request about a name in a directory.
func (f *FS) inDir(ctx context.Context, dir *node, name string,
	ask func(c *usftp.Client, path string, again bool) error) error {
	err := f.onPath(ctx, dir, func(c *usftp.Client, path string, again bool) error {
		return ask(c, join(path, name), again)
	})
	f.dropIfWrong(place{dir, name}, err)
	return err
}

// dropIfWrong drops the state known about a name if an error contradicts it, so that the next
// lookup asks the host. The kernel does the same. The host may have carried out a request whose
// answer was lost, or another program may have changed the name.
func (f *FS) dropIfWrong(at place, err error) {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		f.dropName(at)
	}
}

// dropName drops the state known about a name.
func (f *FS) dropName(at place) {
	if path, ok := f.tree.path(at.dir); ok {
		f.prefetcher.changed(path)
	}
	at.dir.dropList()
	if n := f.tree.child(at.dir, at.name); n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.fetched = time.Time{}
	}
}

// makeEntry makes a new entry in a directory by calling ask, which returns its attributes, and
// fills in the answer.
func (f *FS) makeEntry(cancel <-chan struct{}, header *fuse.InHeader, name string,
	out *fuse.EntryOut,
	ask func(c *usftp.Client, path string, again bool) (attrs, error)) (*node, fuse.Status) {
	dir, status := f.changing(header.NodeId, name)
	if status != fuse.OK {
		return nil, status
	}
	ctx, stop := f.request(cancel, header)
	defer stop()
	var a attrs
	asked := time.Now()
	err := f.inDir(ctx, dir, name, func(c *usftp.Client, path string, again bool) (err error) {
		asked = time.Now()
		a, err = ask(c, path, again)
		return err
	})
	if err != nil {
		return nil, f.statusIfFull(ctx, dir, err)
	}
	return f.made(dir, name, a, asked, out), fuse.OK
}

func (f *FS) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string,
	out *fuse.EntryOut) fuse.Status {
	n, status := f.makeEntry(cancel, &in.InHeader, name, out,
		func(c *usftp.Client, path string, _ bool) (attrs, error) {
			if err := c.MkdirPerm(path, modeOf(in.Mode)); err != nil {
				return attrs{}, err
			}
			return f.madeNow(c, path, in.Mode)
		})
	if status == fuse.OK {
		f.empty(n)
	}
	return status
}

// madeNow returns the attributes of a new entry, after restoring permissions that the host's umask
// removed, and taking those that the host gave others beyond what was asked for.
func (f *FS) madeNow(c *usftp.Client, path string, mode uint32) (attrs, error) {
	a, err := f.look(c, path)
	if err != nil {
		return a, err
	}
	want := (a.mode | mode&0o7777) &^ (others &^ mode)
	if want != a.mode && f.options.Umask == nil && c.Chmod(path, modeOf(want)) == nil {
		a.mode = want
	}
	return a, nil
}

// made records a new entry, and fills in the answer.
func (f *FS) made(dir *node, name string, a attrs, asked time.Time, out *fuse.EntryOut) *node {
	f.learnClock(a.mtime, asked)
	if old := f.tree.child(dir, name); old != nil {
		f.tree.unlinked(dir, name)
	}
	f.note(dir, name, change{exists: true, attrs: a})
	f.touched(dir)
	return f.entry(dir, name, a, asked, out)
}

// Mknod implements fuse.RawFileSystem for regular files. The protocol cannot make others.
func (f *FS) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string,
	out *fuse.EntryOut) fuse.Status {
	if kind := in.Mode & typeMask; kind != 0 && kind != syscall.S_IFREG {
		return fuse.EPERM
	}
	_, status := f.makeEntry(cancel, &in.InHeader, name, out,
		func(c *usftp.Client, path string, _ bool) (attrs, error) {
			file, err := c.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, modeOf(in.Mode))
			if err == nil {
				err = file.Close()
			}
			if err != nil {
				return attrs{}, err
			}
			return f.madeNow(c, path, in.Mode)
		})
	return status
}

func (f *FS) Symlink(cancel <-chan struct{}, header *fuse.InHeader, target, name string,
	out *fuse.EntryOut) fuse.Status {
	_, status := f.makeEntry(cancel, header, name, out,
		func(c *usftp.Client, path string, again bool) (attrs, error) {
			err := c.Symlink(target, path)
			if again && errors.Is(err, fs.ErrExist) {
				if made, e := c.ReadLink(path); e == nil && made == target {
					err = nil // the earlier request made it, or it is the same anyway
				}
			}
			if err != nil {
				return attrs{}, err
			}
			return f.look(c, path)
		})
	return status
}

func (f *FS) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	n := f.tree.get(header.NodeId)
	if n == nil {
		return nil, fuse.Status(syscall.ESTALE)
	}
	ctx, stop := f.request(cancel, header)
	defer stop()
	var target string
	err := f.lookOnPath(ctx, n, func(c *usftp.Client, path string) (err error) {
		target, err = c.ReadLink(path)
		return err
	})
	if err != nil {
		return nil, f.statusOfNode(n, err)
	}
	// Some hosts report relative links as absolute ones, or make them so.
	server := private.OfClient(f.link.latest())
	absolute := server.ResolvesLinks() || server.LinksFromLogin()
	if at, ok := f.tree.path(n); ok && (absolute || f.options.TransformSymlinks) {
		target = relative(f.tree.host, at, target)
	}
	switch {
	case target == "" || strings.ContainsRune(target, 0):
		return nil, fuse.EIO
	case len(target) > maxTarget:
		return nil, fuse.Status(syscall.ENAMETOOLONG)
	case !f.options.FreeSymlinks && !contained(target, f.tree.depth(n)):
		return nil, fuse.EPERM
	}
	return []byte(target), fuse.OK
}

// maxTarget is the kernel's PATH_MAX without the NUL.
const maxTarget = 4095

// contained reports whether a link stays below the root of the mount, whatever a hostile host makes
// of the other names: the kernel resolves links here, so a link that leads out makes programs read
// and write local files (CVE-2026-47187 was this in sshfs). A link may go up to the root. After a
// name ".." is refused, because that name may be a link itself.
func contained(target string, depth int) bool {
	if path.IsAbs(target) {
		return false
	}
	ups, names := 0, false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			names = true
		case names:
			return false
		default:
			ups++
		}
	}
	return ups <= depth
}

// relative turns an absolute link to a path below the root of the mount into a relative one.
func relative(root, at, target string) string {
	inside := strings.TrimSuffix(root, "/") + "/"
	if !path.IsAbs(target) || !strings.HasPrefix(path.Clean(target)+"/", inside) {
		return target
	}
	result, err := filepath.Rel(path.Dir(at), target)
	if err != nil {
		return target
	}
	return result
}

// Link implements fuse.RawFileSystem. Both names share one node, so programs see one file.
func (f *FS) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string,
	out *fuse.EntryOut) fuse.Status {
	dir, status := f.changing(in.NodeId, name)
	if status != fuse.OK {
		return status
	}
	n := f.tree.get(in.Oldnodeid)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	f.publish(ctx, n)
	err := f.onPaths(ctx, n, dir, func(c *usftp.Client, old, at string, _ bool) error {
		return c.Link(old, join(at, name))
	})
	f.dropIfWrong(place{dir, name}, err)
	switch {
	case f.full(ctx, dir, err):
		return fuse.Status(syscall.ENOSPC)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, usftp.ErrSSHFxFailure) &&
		!errors.Is(err, fs.ErrExist):
		return fuse.EPERM // as file systems without hard links do
	case err != nil:
		return statusOf(err)
	}
	f.tree.addPlace(n, dir, name)
	f.statusChanged(n)
	f.noteChanged(dir, name)
	f.touched(dir)
	a, _, err := f.stat(ctx, n)
	if err != nil {
		f.tree.forget(n.id, 1) // the kernel is not given the node again
		return statusOf(err)
	}
	f.answer(n, a, out)
	return fuse.OK
}

func (f *FS) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	dir, status := f.changing(header.NodeId, name)
	if status != fuse.OK {
		return status
	}
	ctx, stop := f.request(cancel, header)
	defer stop()
	if n := f.tree.child(dir, name); f.inUse(n) {
		f.publish(ctx, n)
		hidden := f.newHidden()
		moved, err := f.tree.move(ctx, place{dir, name})
		if err != nil {
			return statusOf(err)
		}
		defer moved()
		err = f.onPath(ctx, dir, func(c *usftp.Client, at string, again bool) error {
			return rename(c, join(at, name), join(at, hidden), again)
		})
		if err == nil {
			f.hide(n, place{dir, name}, place{dir, hidden})
			f.note(dir, name, change{})
			f.touched(dir)
			return fuse.OK
		}
		f.dropIfWrong(place{dir, name}, err)
		if status := statusOf(err); status == fuse.EINTR || status == fuse.ENOENT {
			return status
		}
	}
	removed, err := f.tree.moveOne(ctx, place{dir, name})
	if err != nil {
		return statusOf(err)
	}
	defer removed()
	err = f.inDir(ctx, dir, name, func(c *usftp.Client, path string, again bool) error {
		return gone(c.Remove(path), again)
	})
	if err != nil {
		return statusOf(err)
	}
	f.removedName(dir, name)
	return fuse.OK
}

// newHidden returns a name for a removed file.
func (f *FS) newHidden() string { return f.hidden + rand.Text()[:8] }

// newHiddenName returns a name that is shown if the file stays behind.
func newHiddenName() string { return hiddenPrefix + rand.Text()[:12] }

// gone returns the result of a removal. If the request was repeated, a missing file means success.
func gone(err error, again bool) error {
	if again && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *FS) removedName(dir *node, name string) {
	n := f.tree.child(dir, name)
	f.tree.unlinked(dir, name)
	f.note(dir, name, change{})
	f.touched(dir)
	if n != nil {
		f.statusChanged(n)
	}
}

// hide records that a node now has a hidden name. If its last handle was closed in the meantime,
// hide has the file removed.
func (f *FS) hide(n *node, from, to place) {
	f.tree.hide(n, from, to)
	if n.openFile() == nil {
		f.tree.hold(n) // the kernel forgets it now
		f.work.Go(func() {
			f.removeHidden(n)
			f.tree.release(n)
		})
	}
}

// removeHidden removes a hidden file after its last handle was closed.
func (f *FS) removeHidden(n *node) {
	err := f.onPath(f.ctx, n, func(c *usftp.Client, path string, again bool) error {
		return gone(c.Remove(path), again)
	})
	if at, ok := f.tree.path(n); ok && err != nil && statusOf(err) != fuse.ENOENT {
		f.options.Logger.Warn("a removed file was left behind", "file", at, "error", err)
	}
	for _, p := range f.tree.placesOf(n) {
		f.tree.unlinked(p.dir, p.name)
		f.note(p.dir, p.name, change{})
	}
}

func (f *FS) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	dir, status := f.changing(header.NodeId, name)
	if status != fuse.OK {
		return status
	}
	ctx, stop := f.request(cancel, header)
	defer stop()
	remove := func() error {
		return f.inDir(ctx, dir, name, func(c *usftp.Client, path string, again bool) error {
			return gone(c.RemoveDirectory(path), again)
		})
	}
	n := f.tree.child(dir, name)
	hidden := f.tree.hiddenIn(n)
	err := remove()
	if mayHoldNames(err) && f.moveHidden(ctx, hidden, n, dir) {
		err = remove()
	}
	switch {
	case errors.Is(err, usftp.ErrSSHFxFailure):
		return fuse.Status(syscall.ENOTEMPTY)
	case err != nil:
		return statusOf(err)
	}
	f.removedName(dir, name)
	return fuse.OK
}

// hiddenIn returns the hidden names in a directory: of files that were removed but are still open.
func (t *tree) hiddenIn(dir *node) (names []string) {
	if dir == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name, n := range dir.children {
		if n.removed {
			names = append(names, name)
		}
	}
	return names
}

// moveHidden moves hidden files out of a directory that is about to be removed or replaced, and
// reports whether there were any and all are gone.
func (f *FS) moveHidden(ctx context.Context, names []string, from, to *node) bool {
	for _, name := range names {
		moved, err := f.tree.move(ctx, place{from, name})
		if err != nil {
			return false
		}
		err = f.onPaths(ctx, from, to, func(c *usftp.Client, old, above string, again bool) error {
			return rename(c, join(old, name), join(above, name), again)
		})
		if err == nil {
			f.tree.renamed(place{from, name}, place{to, name})
			f.note(from, name, change{})
		}
		moved()
		if err != nil && statusOf(err) != fuse.ENOENT { // else it was closed meanwhile
			return false
		}
	}
	return len(names) > 0
}

// renameNoReplace is the kernel's RENAME_NOREPLACE.
const renameNoReplace = 1

func (f *FS) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName,
	newName string) fuse.Status {
	from, status := f.changing(in.NodeId, oldName)
	if status != fuse.OK {
		return status
	}
	to, status := f.changing(in.Newdir, newName)
	if status != fuse.OK {
		return status
	}
	if in.Flags&^renameNoReplace != 0 {
		return fuse.EINVAL // the protocol cannot exchange files
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	old, target := place{from, oldName}, place{to, newName}
	f.publish(ctx, f.tree.child(from, oldName))
	ask := rename
	if in.Flags&renameNoReplace != 0 {
		ask = renameNew
	} else if n := f.tree.child(to, newName); f.inUse(n) && n != f.tree.child(from, oldName) {
		f.publish(ctx, n)
		f.saveTarget(ctx, n, target)
	}
	moved, err := f.tree.move(ctx, old)
	if err != nil {
		return statusOf(err)
	}
	defer moved()
	taken, err := f.tree.moveOne(ctx, target)
	if err != nil {
		return statusOf(err)
	}
	defer taken()
	request := func() error {
		return f.onPaths(ctx, from, to,
			func(c *usftp.Client, oldDir, newDir string, again bool) error {
				return ask(c, join(oldDir, oldName), join(newDir, newName), again)
			})
	}
	replaced := f.tree.child(to, newName)
	hidden := f.tree.hiddenIn(replaced)
	err = request()
	if mayHoldNames(err) && in.Flags&renameNoReplace == 0 &&
		f.moveHidden(ctx, hidden, replaced, to) {
		err = request()
	}
	if errors.Is(err, usftp.ErrSSHFxFailure) && !errors.Is(err, fs.ErrExist) {
		err = f.whyNotRenamed(ctx, target)
	}
	if err != nil {
		f.dropIfWrong(old, err)
		f.dropIfWrong(target, err)
		return statusOf(err)
	}
	linked := f.mayBeLinked(f.tree.child(from, oldName), replaced)
	f.movedName(old, target)
	if linked {
		f.dropName(old)
	}
	return fuse.OK
}

// mayBeLinked reports whether two nodes may be names of one file, through a hard link made
// elsewhere. Then renaming one to the other does nothing.
func (f *FS) mayBeLinked(a, b *node) bool {
	if a == nil || b == nil || a == b {
		return false
	}
	one, _, _ := f.known(a)
	other, _, _ := f.known(b)
	return !one.isDir() && one.version() == other.version()
}

// rename replaces an existing target.
func rename(c *usftp.Client, old, target string, again bool) error {
	move, replaces := private.OfClient(c).Move, c.HasPosixRename()
	err := move(old, target, true)
	if errors.Is(err, errors.ErrUnsupported) {
		replaces = false // although the server says that it has posix-rename
		err = move(old, target, false)
	}
	if !replaces && errors.Is(err, fs.ErrExist) {
		err = renameAside(c, old, target, err)
	}
	return renamedBefore(c, err, old, target, again)
}

// renameNew fails if the target exists.
func renameNew(c *usftp.Client, old, target string, again bool) error {
	return renamedBefore(c, private.OfClient(c).Move(old, target, false), old, target, again)
}

// renamedBefore returns the result of a rename. If the request was repeated and only the new name
// exists, the earlier request succeeded.
func renamedBefore(c *usftp.Client, err error, old, target string, again bool) error {
	if !again || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, missing := c.Lstat(old); !errors.Is(missing, fs.ErrNotExist) {
		return err
	}
	if _, there := c.Lstat(target); there == nil {
		return nil
	}
	return err
}

// renameAside replaces a target that a server's RENAME refused to replace: it first renames the old
// target, and restores it if the second rename fails. A directory must be empty to be replaced. A
// signal does not interrupt it: nothing would have the target's name.
func renameAside(c *usftp.Client, old, target string, err error) error {
	c = c.WithContext(context.Background())
	if info, err := c.Lstat(target); err == nil && info.IsDir() {
		if err := c.RemoveDirectory(target); err != nil {
			return err
		}
		if err := c.Rename(old, target); err != nil {
			return errors.Join(err, c.MkdirPerm(target, info.Mode()))
		}
		return nil
	}
	aside := path.Join(path.Dir(target), newHiddenName())
	if aerr := c.Rename(target, aside); lost(aerr) {
		return aerr // it may have been carried out
	} else if aerr != nil {
		return err
	}
	if err = c.Rename(old, target); err != nil {
		return errors.Join(err, c.Rename(aside, target))
	}
	c.Remove(aside) // else it stays, visibly
	return nil
}

// saveTarget gives an open file that is about to be replaced a second, hidden name.
func (f *FS) saveTarget(ctx context.Context, n *node, target place) {
	hidden := f.newHidden()
	err := f.onPath(ctx, target.dir, func(c *usftp.Client, dir string, again bool) error {
		err := c.Link(join(dir, target.name), join(dir, hidden))
		if again && errors.Is(err, fs.ErrExist) {
			return nil // the earlier request made it: nobody else has the name
		}
		return err
	})
	if err != nil {
		return // the file lives only as long as the connection
	}
	f.hide(n, target, place{target.dir, hidden})
}

// whyNotRenamed returns the meaning of FAILURE for a rename that the kernel has already checked.
func (f *FS) whyNotRenamed(ctx context.Context, target place) error {
	var a attrs
	err := f.inDir(ctx, target.dir, target.name, func(c *usftp.Client, path string,
		_ bool) (err error) {
		a, err = f.look(c, path)
		return err
	})
	if err == nil && a.isDir() {
		return syscall.ENOTEMPTY
	}
	return syscall.EXDEV // makes mv copy
}

// movedName records a rename.
func (f *FS) movedName(old, target place) {
	n, replaced := f.tree.child(old.dir, old.name), f.tree.child(target.dir, target.name)
	f.prefetcher.renamed() // lists requested from now on belong to the new paths
	f.tree.renamed(old, target)
	if replaced != nil && replaced != n {
		f.statusChanged(replaced)
	}
	f.note(old.dir, old.name, change{})
	c := change{exists: true}
	if n != nil {
		if a, _, ok := f.known(n); ok {
			c.attrs = a
		}
	}
	f.note(target.dir, target.name, c)
	f.touched(old.dir)
	f.touched(target.dir)
}
