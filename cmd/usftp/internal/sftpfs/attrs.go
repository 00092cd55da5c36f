//go:build linux || darwin

package sftpfs

import (
	"context"
	"io/fs"
	"math"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

const typeMask = syscall.S_IFMT

// attrs are a file's attributes as the server sent them.
type attrs struct {
	mode         uint32 // POSIX bits with the type
	uid, gid     uint32
	size         uint64
	atime, mtime uint32
	complete     bool // the server has sent type, times and, unless it is a directory, size
}

func attrsOf(stat *usftp.FileStat) attrs {
	a := attrs{mode: stat.Mode, uid: stat.UID, gid: stat.GID, size: min(stat.Size, math.MaxInt64),
		atime: stat.Atime,
		mtime: stat.Mtime, complete: stat.HasMode() && stat.HasTimes()}
	if a.mode&typeMask == 0 {
		a.mode |= syscall.S_IFREG
	}
	if a.isDir() {
		a.size = directorySize
	} else if !stat.HasSize() {
		a.complete = false
	}
	return a
}

func attrsOfInfo(info fs.FileInfo) attrs { return attrsOf(info.Sys().(*usftp.FileStat)) }

func (a *attrs) isDir() bool  { return a.mode&typeMask == syscall.S_IFDIR }
func (a *attrs) isLink() bool { return a.mode&typeMask == syscall.S_IFLNK }

// version distinguishes the contents of a file from earlier ones. Times are whole seconds.
type version struct {
	size  uint64
	mtime uint32
}

func (a attrs) version() version { return version{a.size, a.mtime} }

const (
	// trustAfter is how long a version must have been known before the contents read belong to it for
	// certain: a second change within the same second of the server's clock does not show.
	trustAfter = 2 * time.Second
	// guessError is by how many seconds the guessed time of a directory may be later than the host's.
	// Such a guess stands: tar and others take a directory whose time goes back for one that changed.
	guessError = 2
	// directorySize is the size shown for all directories. On many hosts a directory grows with its
	// entries; the mount would show that late, and tar reports a directory that grows as it is read.
	directorySize = 4096
	// ancient is an age that differences between clocks cannot explain.
	ancient = 24 * time.Hour
)

// learnAttrs notes attributes that the server sent in reply to a request made at asked, and returns
// those to show.
func (n *node) learnAttrs(a attrs, asked time.Time) attrs {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch { // newer attributes are known
	case n.fetched.After(asked):
		return n.attrs
	case n.changed.After(asked):
		return a
	}
	if n.differsLocked(&a) {
		n.fetched = time.Time{}
		return a
	}
	back := int64(n.attrs.mtime) - int64(a.mtime)
	if n.touched.After(asked) || !n.touched.IsZero() && back <= guessError {
		a.mtime = max(a.mtime, n.attrs.mtime)
	}
	n.attrs, n.fetched = a, asked
	n.learnVersion(asked)
	return a
}

// learnVersion notes the version of the attributes, which were requested at asked. Handles opened
// over an earlier connection keep the version by which they are recognized: the name may be another
// file's by now. learnVersion drops the read-ahead of another version, as the kernel drops its
// pages. The caller holds the lock.
func (n *node) learnVersion(asked time.Time) {
	v := n.attrs.version()
	changed := v != n.version
	if changed {
		n.version, n.since = v, asked
	}
	if n.file == nil {
		return
	}
	n.file.mu.Lock()
	defer n.file.mu.Unlock()
	for h := range n.file.handles {
		if changed {
			h.reader.drop()
		}
		if !pool.Lost(h.client) {
			h.saw(n.version)
		}
	}
}

// outdated drops a file's attributes because the file was changed here.
func (f *FS) outdated(n *node) {
	n.mu.Lock()
	n.fetched, n.changed = time.Time{}, time.Now()
	n.untold()
	n.mu.Unlock()
	for _, p := range f.tree.placesOf(n) {
		f.noteChanged(p.dir, p.name)
	}
}

// statusChanged notes a change of the file's status in the sense of POSIX, not of its contents. The
// protocol has no ctime, so programs that wait for it to change see one from here. Writes do not
// set it: git considers a file modified when its ctime changes.
func (f *FS) statusChanged(n *node) {
	f.outdated(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ctime = f.now()
}

// now returns the host's time in seconds.
func (f *FS) now() uint32 { return uint32(f.hostTime(time.Now()).Unix()) }

// hostTime returns the time on the host at t, estimated from the times of files that it has made.
func (f *FS) hostTime(t time.Time) time.Time {
	return t.Add(time.Duration(f.clockSkew.Load()))
}

// learnClock learns how far the host's clock is ahead from the mtime of a file that the host made
// after asked and before now. Now may be long after, for example on a link that was down. The mtime
// is the host's time without the fraction of a second. Some hosts send none for directories.
func (f *FS) learnClock(mtime uint32, asked time.Time) {
	if mtime == 0 {
		return
	}
	made := time.Unix(int64(mtime), 0)
	least, most := time.Until(made), made.Add(time.Second-1).Sub(asked)
	f.clockSkew.Store(int64(min(max(time.Duration(f.clockSkew.Load()), least), most)))
}

// touched notes that a name in a directory was changed here. The modification time is a guess until
// the attributes are next requested: with default_permissions the kernel needs the mode of each
// directory above a file after each change, and asking the host each time would double the round
// trips.
func (f *FS) touched(dir *node) {
	now := f.now()
	dir.mu.Lock()
	defer dir.mu.Unlock()
	dir.touched = time.Now()
	dir.attrs.mtime = max(dir.attrs.mtime, now)
}

// known returns the attributes, how long they remain valid, and whether they are valid.
func (f *FS) known(n *node) (attrs, time.Duration, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := time.Until(n.fetched.Add(f.options.Cache))
	return n.attrs, left, !n.fetched.IsZero() && left > 0
}

// stat returns a node's attributes, known or requested now, and how long the kernel may cache them.
func (f *FS) stat(ctx context.Context, n *node) (attrs, time.Duration, error) {
	if a, left, ok := f.known(n); ok {
		return a, left, nil
	}
	var a attrs
	for range 3 {
		var asked time.Time
		var err error
		if a, asked, err = f.renew(ctx, n); err != nil {
			return attrs{}, 0, err
		}
		size, overtaken := n.overtaken(asked)
		if !overtaken {
			return a, f.options.Cache, nil
		}
		a.size = max(a.size, size)
	}
	return a, 0, nil // the file keeps being written
}

// renew requests a node's attributes.
func (f *FS) renew(ctx context.Context, n *node) (a attrs, asked time.Time, err error) {
	err = f.lookOnPath(ctx, n, func(c *usftp.Client, path string) (err error) {
		asked = time.Now()
		a, err = f.lookOpen(ctx, c, n, path)
		return err
	})
	_, named := f.tree.path(n)
	file := n.openFile()
	gone := statusOf(err) == fuse.ENOENT
	if (gone || !named) && file != nil || err == nil && n.differs(&a) { // it is replaced right now
		asked = time.Now()
		if open, openErr := f.statOpenFile(ctx, n); openErr == nil {
			a, err = open, nil
			n.noteOpenVersion(file, a.version())
		} else if !named {
			err = openErr
		}
	}
	if err == nil && !gone { // else a lookup would take them for the name's
		a = n.learnAttrs(a, asked)
	}
	return a, asked, err
}

// overtaken reports whether an open file was changed here after a request, whose answer may miss
// the change, and returns the file's size since the change.
func (n *node) overtaken(asked time.Time) (size uint64, overtaken bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attrs.size, n.file != nil && n.changed.After(asked)
}

// look requests the attributes of a path.
func (f *FS) look(c *usftp.Client, path string) (attrs, error) {
	ask := private.OfClient(c).Look
	if f.options.FollowSymlinks {
		ask = func(path string) (fs.FileInfo, error) {
			info, err := c.Stat(path)
			if err != nil { // show a link that leads nowhere as a link
				info, err = c.Lstat(path)
			}
			return info, err
		}
	}
	info, err := ask(path)
	if err != nil {
		return attrs{}, err
	}
	return attrsOfInfo(info), nil
}

// onPath makes a request that changes a node by its path; see [link.do]. Until it returns, neither
// the node nor a directory above it is renamed through this mount.
func (f *FS) onPath(ctx context.Context, n *node,
	ask func(c *usftp.Client, path string, again bool) error) error {
	return f.withPath(ctx, n, func(path string) error {
		return f.link.do(ctx, func(c *usftp.Client, again bool) error { return ask(c, path, again) })
	})
}

// withPath works like onPath for callers that make the request themselves.
func (f *FS) withPath(ctx context.Context, n *node, ask func(path string) error) error {
	path, _, done, err := f.tree.change(ctx, n, n)
	if err != nil {
		return err
	}
	defer done()
	return ask(path)
}

// onPaths works like onPath for two nodes.
func (f *FS) onPaths(ctx context.Context, a, b *node,
	ask func(c *usftp.Client, a, b string, again bool) error) error {
	pathA, pathB, done, err := f.tree.change(ctx, a, b)
	if err != nil {
		return err
	}
	defer done()
	return f.link.do(ctx, func(c *usftp.Client, again bool) error {
		return ask(c, pathA, pathB, again)
	})
}

// lookOnPath makes a request on a node's path that changes nothing. It does not keep the node from
// being renamed. If the node is renamed meanwhile, lookOnPath calls ask again: another file may
// have had the path when the host was asked.
func (f *FS) lookOnPath(ctx context.Context, n *node,
	ask func(c *usftp.Client, path string) error) error {
	return f.lookOrDrop(ctx, n, func(path string) error {
		return f.link.do(ctx, func(c *usftp.Client, _ bool) error { return ask(c, path) })
	}, func() {})
}

// lookOrDrop works like lookOnPath for callers that ask the host themselves. It calls drop between
// two successful calls of ask.
func (f *FS) lookOrDrop(ctx context.Context, n *node, ask func(path string) error,
	drop func()) error {
	const most = 10 // tries, while other programs keep renaming
	for try := 1; ; try++ {
		path, moves, ok := f.tree.pathNow(n)
		if !ok {
			return syscall.ESTALE
		}
		err := ask(path)
		if try == most || err != nil && statusOf(err) != fuse.ENOENT {
			return err
		}
		if err != nil {
			if err := f.tree.awaitMoves(ctx, n); err != nil {
				return err
			}
		}
		if now, moved, ok := f.tree.pathNow(n); !ok || now == path && moved == moves {
			return err
		}
		if err == nil {
			drop()
		}
	}
}

// fill converts attributes for programs, including the data written here that has not arrived at
// the server.
func (f *FS) fill(n *node, a attrs, out *fuse.Attr) {
	file := n.openFile()
	if file != nil {
		file.adjust(&a)
	}
	n.mu.Lock()
	ctime := n.ctime
	if file != nil {
		a.size = max(a.size, n.attrs.size) // neither includes data that arrived since a was learned
	}
	n.mu.Unlock()
	out.Ino = n.ino
	out.Size = a.size
	out.Blocks = (a.size + 511) / 512
	out.Blksize = blockSize
	out.Atime, out.Mtime = uint64(wire.Time(a.atime).Unix()), uint64(wire.Time(a.mtime).Unix())
	if out.Ctime = out.Mtime; ctime != 0 {
		out.Ctime = uint64(max(int64(out.Mtime), int64(ctime)))
	}
	out.Mode = a.mode
	if out.Nlink = 0; !f.tree.isRemoved(n) {
		out.Nlink = uint32(max(f.tree.links(n), 1))
	}
	out.Uid, out.Gid = f.ids.local(a.uid, a.gid)
	if mask := f.options.Umask; mask != nil && !a.isLink() {
		out.Mode = a.mode&typeMask | 0o777&^*mask
	}
}

// blockSize is the size in which programs should read and write.
const blockSize = 128 << 10

// entry fills in the answer to a LOOKUP or similar, and counts the reference that the kernel gets.
func (f *FS) entry(dir *node, name string, a attrs, asked time.Time, out *fuse.EntryOut) *node {
	n := f.tree.learn(dir, name, &a)
	f.answer(n, n.learnAttrs(a, asked), out)
	return n
}

// answer fills in a node and its attributes: a, or newer ones that are known here.
func (f *FS) answer(n *node, a attrs, out *fuse.EntryOut) {
	known, left, ok := f.known(n)
	if ok || n.differs(&a) {
		a = known
	}
	out.NodeId = n.id
	f.fill(n, a, &out.Attr)
	n.tell(&out.Attr)
	out.SetEntryTimeout(max(left, 0))
	out.SetAttrTimeout(max(left, 0))
}

// ids maps the owners of files between the host and this machine.
type ids struct {
	user                 bool // map the host's user to the local one
	remoteUID, remoteGID uint32
	localUID, localGID   uint32
	uid, gid             *uint32 // if not nil, the owner that all files have here
}

// local returns the owner and group shown here for those on the host.
func (m *ids) local(uid, gid uint32) (uint32, uint32) {
	if m.user && uid == m.remoteUID {
		uid = m.localUID
	}
	if m.user && gid == m.remoteGID {
		gid = m.localGID
	}
	if m.uid != nil {
		uid = *m.uid
	}
	if m.gid != nil {
		gid = *m.gid
	}
	return uid, gid
}

// host returns the owner and group to set on the host for those here.
func (m *ids) host(uid, gid uint32) (uint32, uint32) {
	if m.user && uid == m.localUID {
		uid = m.remoteUID
	}
	if m.user && gid == m.localGID {
		gid = m.remoteGID
	}
	return uid, gid
}

// forgetAttrs drops the attributes because the name now belongs to another file.
func (n *node) forgetAttrs() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fetched, n.changed = time.Time{}, time.Time{}
}
