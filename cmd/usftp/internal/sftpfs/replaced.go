//go:build linux || darwin

package sftpfs

import (
	"context"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// SFTP does not say whether a name still belongs to an open file. If another program has replaced
// the file on the host, the name gets a node of its own: within one node the kernel would mix the
// pages of both files, and programs would read parts of both.

// startStat asks for the attributes of a handle's file, or returns nil if that is not open over the
// connection. It ends the turn, which the caller has taken.
func (h *handle) startStat(ctx context.Context,
	c *usftp.Client) *usftp.Pending[*usftp.FileStat] {
	defer h.turn.unlock() // after the request was sent: a CLOSE comes later
	if !h.isOpenOver(c) {
		return nil
	}
	return h.remote.WithContext(ctx).Async().Stat()
}

// isOpenOver reports whether a handle's file is open over a connection. The caller holds the turn.
func (h *handle) isOpenOver(c *usftp.Client) bool {
	return h.isOpen() && h.remote.Client().Done() == c.Done()
}

// statReader stats a handle of the file that is open here and was not written. Some servers do not
// show data written elsewhere until the file is closed. It returns nil if no handle is open over
// the connection, none is free at once, or the server describes whatever has the name.
func (n *node) statReader(ctx context.Context,
	c *usftp.Client) (*file, *usftp.Pending[*usftp.FileStat]) {
	file := n.openFile()
	if file == nil || !file.isRead() || private.OfClient(c).StatsByName() {
		return file, nil
	}
	for _, h := range file.all() {
		if !h.turn.tryLock() {
			continue
		}
		if asked := h.startStat(ctx, c); asked != nil {
			return file, asked
		}
	}
	return file, nil
}

// lookOpen requests the attributes of the path of n, which may be nil. If the path now belongs to
// another file than the open one, lookOpen takes it from the node.
func (f *FS) lookOpen(ctx context.Context, c *usftp.Client, n *node, path string) (attrs,
	error) {
	if private.OfClient(c).KeepsUploads() {
		// Until an upload is closed, its name belongs to the file before it.
		if a, err := n.statOver(ctx, c, (*handle).writes); err == nil {
			return a, nil
		}
	}
	file, asked := n.statReader(ctx, c)
	a, err := f.look(c, path)
	if asked == nil {
		if err == nil {
			f.takeLost(c, n, path, a)
		}
		return a, err
	}
	open, openErr := asked.Wait()
	switch {
	case err != nil || openErr != nil:
	case attrsOf(open).version() == a.version():
		n.noteOpenVersion(file, a.version())
	default:
		f.takePath(ctx, c, n, path, a)
	}
	return a, err
}

// takePath takes a path from a node if it belongs to another file than the open one, and reports
// whether it did. The path's attributes a differed from the open file's. Either may have changed in
// between: the files differ if the path has the same attributes before and after the open file
// shows others.
func (f *FS) takePath(ctx context.Context, c *usftp.Client, n *node, path string, a attrs) bool {
	file, asked := n.statReader(ctx, c)
	if asked == nil {
		return f.takeLost(c, n, path, a)
	}
	open, err := asked.Wait()
	if err != nil {
		return false
	}
	if attrsOf(open).version() == a.version() {
		n.noteOpenVersion(file, a.version())
		return false
	}
	again, err := f.look(c, path)
	if err != nil || again.version() != a.version() || !again.complete || !n.differs(&a) {
		return false // or it was written meanwhile
	}
	return f.tree.takePath(n, path)
}

// takeLost works like takePath for a file that was open over lost connections only, or is closed
// while it is not used. None of its handles can be reopened by a path with other attributes, unless
// it was changed here; see isSame. If the server does not tell which file a handle belongs to, the
// path counts as the open file's.
func (f *FS) takeLost(c *usftp.Client, n *node, path string, a attrs) bool {
	file := n.openFile()
	lost, changed := file.isLost()
	byName := private.OfClient(c).StatsByName()
	switch {
	case !lost && !byName || !n.differs(&a):
		return false
	case changed || !lost:
		n.noteOpenVersion(file, a.version())
		return false
	}
	return f.tree.takePath(n, path)
}

// takePath takes a path from a node, unless it is being renamed here.
func (t *tree) takePath(n *node, path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.moves(n) {
		return false
	}
	for _, p := range n.places {
		if dir, ok := t.pathLocked(p.dir); ok && join(dir, p.name) == path {
			t.removePlace(n, p)
			return true
		}
	}
	return false
}

// noteOpenVersion notes a version that an open file has had. By now another file may be open.
func (n *node) noteOpenVersion(file *file, v version) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == file {
		n.open = v
	}
}

// differs reports whether attributes of a name may belong to another file than the open one.
func (n *node) differs(a *attrs) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.differsLocked(a)
}

// differsLocked works like differs for callers that hold the lock. A file written here has no
// lasting version.
func (n *node) differsLocked(a *attrs) bool {
	return n.version != a.version() && n.open != a.version() && n.file != nil && n.file.isRead()
}

// isRead reports whether a file is open here, can be read, and was not written.
func (f *file) isRead() (is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := f.modified || len(f.extents) > 0 || f.hasPending()
	for h := range f.handles {
		changed := changed || h.made || h.written
		if h.writes() && (changed || h.flags != os.O_RDWR) { // to append needs no version
			return false
		}
		is = true
	}
	return is
}

// isLost reports whether a file is not open on the host, over connections that are lost or at all,
// and whether it was changed here.
func (f *file) isLost() (lost, changed bool) {
	if f == nil {
		return false, false
	}
	lost = true
	for _, h := range f.all() {
		if !h.turn.tryLock() { // it may wait for a connection
			f.mu.Lock()
			lost = lost && pool.Lost(h.client)
			f.mu.Unlock()
			continue
		}
		lost = lost && !h.isOpen()
		h.turn.unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return lost, f.modified
}

// statOpenFile returns the attributes of an open file by one of its handles, as if it no longer has
// a name. Where a handle tells only what has the name by now, they are those that were known.
func (f *FS) statOpenFile(ctx context.Context, n *node) (a attrs, err error) {
	err = f.link.do(ctx, func(c *usftp.Client, _ bool) (err error) {
		a, err = n.statOver(ctx, c, func(*handle) bool { return true })
		return err
	})
	return a, err
}

// statOver works like statOpenFile over one connection, by a handle of some kind.
func (n *node) statOver(ctx context.Context, c *usftp.Client, kind func(*handle) bool) (attrs, error) {
	for _, h := range n.openFile().all() {
		if !kind(h) {
			continue
		}
		if err := h.turn.lock(ctx); err != nil {
			return attrs{}, err
		}
		if asked := h.startStat(ctx, c); asked != nil {
			stat, err := asked.Wait()
			if private.OfClient(c).StatsByName() {
				n.mu.Lock()
				defer n.mu.Unlock()
				return n.attrs, nil
			}
			if err != nil {
				return attrs{}, err
			}
			return attrsOf(stat), nil
		}
	}
	return attrs{}, syscall.ESTALE
}

// all returns the handles of a file, which may be nil.
func (f *file) all() []*handle {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.handles))
}
