//go:build linux || darwin

package sftpfs

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

// A handle is one open of a file by a program.
type handle struct {
	file  *file
	flags int // of package os: the access mode and O_APPEND

	turn   ctxMutex    // held while the file is reopened or appended to
	remote *usftp.File // nil if it is not open on the host; guarded by turn
	size   int64       // of the file when it was last reopened; guarded by turn
	single bool        // it must not use lanes; guarded by turn
	users  *users      // the calls that are using remote; guarded by turn
	of     int64       // how many uploads had ended when it was opened; guarded by turn

	reader  reader
	failure failure

	// The file's lock guards these.
	client *usftp.Client // the connection over which it was last opened
	seen   version       // of the open file, as last seen over that connection
	// the file's time is no earlier after a write; 0 if seen has a time in the future, which a
	// write sets back
	notBefore uint32
	written   bool // since the last flush, or empty and not to be seen before it
	flushes   int  // flushes that found written data
	flushed   bool // a program has closed it, perhaps not the last one that has it open
	// this handle created or emptied the file, and no other write has reached it
	made     bool
	upload   bool    // on the host the name gets this handle's file when it is closed
	replaces version // of the file that the name has until then
}

func (h *handle) writes() bool  { return h.flags&(os.O_WRONLY|os.O_RDWR) != 0 }
func (h *handle) appends() bool { return h.flags&os.O_APPEND != 0 && h.writes() }

// users are the calls that are using a file on the host: each holds it for reading.
type users struct{ sync.RWMutex }

// none reports whether there are no users. The caller holds the handle's turn, so that none comes.
func (u *users) none() bool {
	if !u.TryLock() {
		return false
	}
	u.Unlock()
	return true
}

// file is the state shared by the open handles of one node: data that is not on the host yet, and
// proofs that a reopened file is still the same.
type file struct {
	fs   *FS
	node *node
	turn ctxMutex // held while data is sent, to keep it in order
	mode ctxMutex // held while the host's file has other permissions for a moment; see openAgain

	mu         sync.Mutex
	handles    map[*handle]bool
	plain      *handle        // see inPlace; nil if it is not needed
	uploaded   int64          // uploads that have ended: each has made another file of the name
	extents    []*extent      // not acknowledged; oldest first
	size       int64          // the end of the furthest extent; 0 without extents
	remoteSize int64          // where the host's file ends, unless others have changed it
	set        usftp.NewAttrs // to be set with the next flush
	lastWrite  time.Time      // the time of the last write; zero if that was flushed
	shownMtime uint32         // modification time that a program saw since the last write, or 0
	changed    chan struct{}  // closed and replaced when an extent leaves
	proofs     []proof        // of the last writes that arrived
	modified   bool           // changed here since its version was last seen
	retimed    bool           // its times were set here
	idle       *time.Timer    // sends an extent that has not grown for a while

	lanes      *lanes    // nil if there are none
	laneWrites int       // unanswered WRITEs over lanes, including abandoned ones
	arrived    int       // bytes, since the rate was last measured
	since      time.Time // when the rate was last measured
	probeAtime uint32    // access time that was set for a proof, or 0
	realAtime  uint32    // the true access time

	rescuing sync.Mutex
	rescued  string // the rescue file, or "" if there is none
}

// A proof is the checksum of a piece of a file that we wrote.
type proof struct {
	off  int64
	size int
	sum  uint64
}

var seed = maphash.MakeSeed()

func (e *extent) proof() proof { return e.proofUpTo(e.end()) }

// proofUpTo returns the checksum of the part of an extent that a file of a size holds if it ends
// within the extent: a server that is killed while it writes leaves a part.
func (e *extent) proofUpTo(size int64) proof {
	data := e.data
	if e.off < size && size < e.end() {
		data = data[:size-e.off]
	}
	return proof{e.off, len(data), maphash.Bytes(seed, data)}
}

// holds reports whether a file holds the piece. It returns an error if that could not be decided.
func (p proof) holds(remote *usftp.File) (bool, error) {
	data := make([]byte, p.size)
	n, err := remote.ReadAt(data, p.off)
	if undecided(err) {
		return false, err
	}
	return n == len(data) && maphash.Bytes(seed, data) == p.sum, nil
}

// without returns the proofs that an extent does not overwrite.
func without(proofs []proof, e *extent) []proof {
	return slices.DeleteFunc(slices.Clone(proofs), func(p proof) bool {
		return p.off < e.end() && e.off < p.off+int64(p.size)
	})
}

// maxProofs is the number of pieces compared when a file is reopened.
const maxProofs = 4

// openFile returns the state shared by a node's handles, or nil if the node is not open.
func (n *node) openFile() *file {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.file
}

// attach adds a handle to its node. Unless a is nil, it returns nil if the node by now stands for a
// file with other attributes.
func (f *FS) attach(n *node, flags int, remote *usftp.File, a *attrs, made bool) *handle {
	f.tree.hold(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	if a != nil && n.version != a.version() && (n.file == nil || n.file.isRead()) {
		f.work.Go(func() { f.tree.release(n) })
		return nil
	}
	if n.file == nil {
		n.view = cmp.Or(n.view, new(view))
		n.open, n.view.most = n.version, 0 // forget those of a file that was open before
		n.file = &file{fs: f, node: n, turn: newCtxMutex(), mode: newCtxMutex(),
			handles: make(map[*handle]bool), changed: make(chan struct{})}
	}
	h := &handle{file: n.file, flags: flags & (os.O_WRONLY | os.O_RDWR | os.O_APPEND),
		turn: newCtxMutex(), remote: remote, users: new(users), made: made}
	h.client = remote.Client()
	h.saw(n.version)
	h.reader.reset(&f.reading)
	n.file.mu.Lock()
	defer n.file.mu.Unlock()
	n.file.handles[h] = true
	h.of = n.file.uploaded
	n.file.remoteSize = int64(n.attrs.size)
	return h
}

// saw notes a version of the open file. The caller holds the file's lock, or has just made the
// handle.
func (h *handle) saw(v version) {
	if h.seen, h.notBefore = v, v.mtime; v.mtime > h.file.fs.now() {
		h.notBefore = 0
	}
}

// detach removes a handle, and with the last handle the node's file.
func (f *FS) detach(h *handle) (last bool) {
	n := h.file.node
	n.mu.Lock()
	h.file.mu.Lock()
	delete(h.file.handles, h)
	last = len(h.file.handles) == 0
	h.file.mu.Unlock()
	if last && n.file == h.file {
		n.file = nil
	}
	n.mu.Unlock()
	return last
}

// opening opens a file on the host and requests its attributes, in one round trip where the server
// allows it.
func (f *FS) opening(c *usftp.Client, path string, flags int, perm fs.FileMode) (*usftp.File, attrs,
	time.Time, error) {
	if f.quirks.NoAppend.Load() {
		flags &^= os.O_APPEND
	}
	if private.OfClient(c).OneHandle() {
		f.letGo() // those that were open when that was found out
	}
	asked := time.Now()
	open := c.Async().OpenFile(path, flags, perm)
	inOrder := private.OfClient(c).WorksInOrder()
	var stat *usftp.Pending[fs.FileInfo]
	upload := flags&os.O_TRUNC != 0 && private.OfClient(c).KeepsUploads() // the old file has the name
	if !upload && (inOrder || flags&(os.O_CREATE|os.O_TRUNC) == 0) {
		stat = c.Async().Stat(path)
	}
	if stat != nil && !inOrder && overtakes(stat, open) {
		stat = nil // another file may have had the path then
	}
	remote, err := open.Wait()
	if err != nil && flags&os.O_APPEND != 0 && !inOrder && refused(err) {
		stat = nil
		if remote, err = c.OpenFile(path, flags&^os.O_APPEND, perm); err == nil {
			f.quirks.NoAppend.Store(true)
		}
	}
	if err != nil {
		return nil, attrs{}, asked, err
	}
	if stat == nil && !upload {
		stat = c.Async().Stat(path)
	}
	var info fs.FileInfo
	if upload {
		info, err = remote.Stat()
	} else if info, err = stat.Wait(); errors.Is(err, fs.ErrNotExist) { // removed since it was opened
		info, err = remote.Stat()
	}
	if err != nil {
		remote.Async().Abandon().Forget()
		return nil, attrs{}, asked, err
	}
	return remote.WithContext(context.Background()), attrsOfInfo(info), asked, nil
}

// overtakes waits for the first of two answers, and reports whether it is that to the second
// request.
func overtakes(second *usftp.Pending[fs.FileInfo], first *usftp.Pending[*usftp.File]) bool {
	select {
	case <-first.Done():
	case <-second.Done():
	}
	select {
	case <-first.Done():
		return false
	default:
		return true
	}
}

// refused reports whether a server may refuse to append to a file, which ProFTPD does as it is
// installed (AllowStoreRestart), rather than to write to it.
func refused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) ||
		errors.Is(err, usftp.ErrSSHFxFailure)
}

// osFlags returns the flags that matter to the host, in terms of package os.
func osFlags(flags uint32) int {
	const kept = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_TRUNC | os.O_EXCL
	return int(flags) & kept
}

// Open implements fuse.RawFileSystem. In the same round trip it fetches the attributes, because a
// program that opens a file must see all that others wrote before they closed it.
func (f *FS) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := f.tree.get(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	flags := osFlags(in.Flags) &^ os.O_EXCL
	if f.options.ReadOnly && flags&(os.O_WRONLY|os.O_RDWR|os.O_TRUNC) != 0 {
		return fuse.EROFS
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	if file := n.openFile(); file != nil {
		prepare := file.flush
		if flags&os.O_TRUNC != 0 {
			prepare = file.beforeChange
		}
		if err := prepare(ctx); err != nil {
			return statusOf(err)
		}
		f.publish(ctx, n)
	}
	var remote *usftp.File
	var a attrs
	var asked time.Time
	var replaced version
	open := func(path string) error {
		return f.link.do(ctx, func(c *usftp.Client, _ bool) (err error) {
			before := f.versionBefore(c, n, path)
			if remote, a, asked, err = f.opening(c, path, flags, 0); err != nil {
				return err
			}
			if replaced = before(); a.version() == replaced {
				return nil
			}
			if a, err = f.verify(ctx, c, remote, n, path, a, flags); err != nil {
				remote.Async().Abandon().Forget()
			}
			return err
		})
	}
	var h *handle
	for try := 1; h == nil; try++ { // while other programs keep replacing it
		var err error
		if flags&os.O_TRUNC != 0 {
			err = f.withPath(ctx, n, open)
		} else {
			err = f.lookOrDrop(ctx, n, open, func() { remote.Async().Abandon().Forget() })
		}
		if err != nil {
			return f.statusOfNode(n, err)
		}
		if flags&os.O_TRUNC != 0 {
			f.outdated(n)
			asked = time.Now()
		}
		n.learnAttrs(a, asked)
		if flags&os.O_TRUNC != 0 {
			h = f.attach(n, flags, remote, nil, a.size == 0)
		} else if h = f.attach(n, flags, remote, &a, false); h == nil {
			remote.Async().Abandon().Forget()
		}
		if h == nil && try == 5 {
			return fuse.Status(syscall.ESTALE)
		}
	}
	f.showOpened(h)
	if flags&os.O_TRUNC != 0 {
		h.file.dropReaders()
	}
	h.replaces = replaced
	h.opened(flags)
	out.Fh = f.files.add(h)
	if n.keepsPages(h) {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	return fuse.OK
}

// versionBefore returns the version that a path has before it is opened: the one that its node is
// known to have, or what the host says to a request that is sent now. A file opened between two
// moments at which the path has the same version is of that version. Without the first moment, the
// attributes could be those of a file that took the place of the opened one just after.
func (f *FS) versionBefore(c *usftp.Client, n *node, path string) func() version {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.version
	if !n.fetched.IsZero() {
		return func() version { return v }
	}
	stat := c.Async().Stat(path)
	return func() version {
		if info, err := stat.Wait(); err == nil {
			v = attrsOfInfo(info).version()
		}
		return v
	}
}

// verify returns the attributes of a file that was just opened by a path that had another version
// before: those of the handle, unless opening it was the change. It returns ESTALE if the file is
// not its node's: the kernel then looks the name up again and finds the other file's node.
func (f *FS) verify(ctx context.Context, c *usftp.Client, remote *usftp.File, n *node, path string,
	a attrs, flags int) (attrs, error) {
	file, open := n.statReader(ctx, c)
	if open == nil && flags&os.O_TRUNC != 0 && a.size == 0 {
		n.noteOpenVersion(file, a.version()) // handles of a lost connection know the one before
		return a, nil
	}
	stat, err := remote.WithContext(ctx).Async().Stat().Wait()
	if err != nil {
		return a, err
	}
	a = attrsOf(stat)
	switch {
	case open == nil && f.takeLost(c, n, path, a):
		return a, syscall.ESTALE
	case open == nil:
		return a, nil
	}
	other, err := open.Wait()
	switch {
	case err != nil:
		return a, err
	case attrsOf(other).version() == a.version():
		n.noteOpenVersion(file, a.version())
	case f.takePath(ctx, c, n, path, a):
		return a, syscall.ESTALE
	}
	return a, nil
}

// showOpened makes the kernel ask for the attributes of a file that a program has just opened: OPEN
// has none in its answer, and the kernel reads no further than the size that it knows. The kernel
// does not take the size from an answer that is on its way then, although it gives it to fstat: a
// program that maps the file would get SIGBUS beyond the size known before. So the kernel is not
// made to ask if all that it was told since the last time is what the file has now.
func (f *FS) showOpened(h *handle) {
	n := h.file.node
	if f.server == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()     // another open of the file waits until the kernel knows
	same := h.file.isRead() // else the kernel changes the size itself when programs write
	if same && n.view.only && n.view.version == n.version {
		return
	}
	n.view.version, n.view.only = n.version, same
	f.server.InodeNotify(n.id, -1, 0)
}

// A view is what the kernel was told of a file.
type view struct {
	version version
	only    bool   // it was told no other version since showOpened made it ask
	most    uint64 // the largest size that it was told while the file has been open
}

// tell notes that the kernel is told a file's attributes.
func (n *node) tell(out *fuse.Attr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view != nil {
		n.view.only = n.view.only && n.view.version == version{out.Size, uint32(out.Mtime)}
		n.view.most = max(n.view.most, out.Size)
	}
}

// tellEnd notes that a READ tells the kernel where a file ends.
func (n *node) tellEnd(end int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view != nil {
		n.view.only = n.view.only && uint64(end) >= n.view.version.size
	}
}

// untold notes that the kernel may know another version of a file than it was told. The caller
// holds the lock.
func (n *node) untold() {
	if n.view != nil {
		n.view.only = false
	}
}

// keepsPages reports whether the kernel's cached contents are still valid: they were read from the
// current version, and no other version can have the same size and time. If not, the answer to the
// open of h makes the kernel drop them.
func (n *node) keepsPages(h *handle) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	same := n.read != nil && n.read.version == n.version
	sure := same && n.read.at.After(n.since.Add(trustAfter)) ||
		time.Since(time.Unix(int64(n.version.mtime), 0)) > ancient
	if !same || !sure {
		n.read = &reading{n.version, time.Now(), h}
		return false
	}
	return n.read.by == nil
}

// used notes that the kernel knows that a handle is open.
func (h *handle) used() {
	n := h.file.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.read != nil && n.read.by == h {
		n.read.by = nil
	}
}

// reading is a version of a file, and the time since when the kernel has been reading it.
type reading struct {
	version version
	at      time.Time
	by      *handle // the kernel drops the pages of another version when it learns of this open
}

func (f *FS) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string,
	out *fuse.CreateOut) fuse.Status {
	dir, status := f.changing(in.NodeId, name)
	if status != fuse.OK {
		return status
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	flags := osFlags(in.Flags) | os.O_CREATE
	perm := modeOf(in.Mode)
	var remote *usftp.File
	var a, named attrs // of the open file, and of the one that has the name
	var asked time.Time
	var alone bool // this call has made the file
	err := f.onPath(ctx, dir, func(c *usftp.Client, path string, _ bool) (err error) {
		at := join(path, name)
		first := flags
		if mayIgnoreMode(c) {
			first |= os.O_EXCL
		}
		remote, named, asked, err = f.opening(c, at, first, perm)
		if first != flags && endpoint.Refused(err) {
			first = flags
			remote, named, asked, err = f.opening(c, at, flags, perm)
		}
		if err != nil {
			return err
		}
		alone = first&os.O_EXCL != 0
		if a = named; a.size != 0 { // made by another program, which may have replaced ours
			var stat *usftp.FileStat
			if stat, err = remote.WithContext(ctx).Async().Stat().Wait(); err != nil {
				remote.Async().Abandon().Forget()
				return err
			}
			a = attrsOf(stat)
		}
		if old := f.tree.child(dir, name); old.differs(&a) {
			f.takePath(ctx, c, old, at, named)
		}
		return nil
	})
	if err != nil {
		f.dropIfWrong(place{dir, name}, err)
		return f.statusIfFull(ctx, dir, err)
	}
	fresh := alone || flags&os.O_TRUNC != 0 && a.size == 0
	if fresh {
		f.learnClock(a.mtime, asked)
	}
	if old := f.tree.child(dir, name); old != nil && alone {
		f.tree.unlinked(dir, name) // another program has removed it
	} else if old != nil && old.openFile() == nil {
		old.forgetAttrs()
	}
	n := f.tree.learn(dir, name, &a)
	n.learnAttrs(a, asked)
	f.note(dir, name, change{exists: true, attrs: a})
	f.touched(dir)
	h := f.attach(n, flags, remote, nil, fresh)
	if a.version() != named.version() {
		f.outdated(n) // the next lookup asks whose the name is
	}
	// The host has applied its own umask in addition to ours, or has ignored the mode.
	if want := in.Mode & 0o7777; alone && a.mode&0o7777 != want && f.options.Umask == nil {
		h.file.setMode(want)
		if a.mode&^want&others != 0 { // the host has given more than asked for
			h.file.setPending(ctx) // or the next flush does it
		}
	}
	f.answer(n, a, &out.EntryOut)
	h.opened(flags)
	out.Fh = f.files.add(h)
	return fuse.OK
}

// mayIgnoreMode reports whether a host may ignore the mode in OPEN, as Maverick does: then others
// could read what a program writes to a file that it made for itself. The mode must be set again,
// but not that of a file that another program has made meanwhile, so such hosts are asked for a new
// file first. That costs nothing, since the kernel only creates names that it believes are free. It
// is not done where uploads can be resumed: O_EXCL would discard what has arrived.
func mayIgnoreMode(c *usftp.Client) bool {
	private := private.OfClient(c)
	return !private.WorksInOrder() && !private.KeepsUploads()
}

// modeOf converts POSIX permissions to those of package fs, without the type.
func modeOf(mode uint32) fs.FileMode { return wire.FileMode(mode & 0o7777) }

// open returns the file on the host. If the connection was lost, or flush closed the file, open
// reopens it and verifies that it is the same. The caller holds turn.
func (h *handle) open(ctx context.Context) (*usftp.File, error) {
	if h.isOpen() {
		return h.remote, nil
	}
	if h.remote != nil && h.isOutdated() {
		h.leave(h.remote)
		h.remote = nil
	}
	f, n := h.file.fs, h.file.node
	h.reader.drop()
	if err := h.file.endLanes(ctx, h, false); err != nil {
		return nil, err
	}
	var remote *usftp.File
	var a attrs
	var asked time.Time
	err := f.onPath(ctx, n, func(c *usftp.Client, path string, _ bool) (err error) {
		if remote, a, asked, err = h.openAgain(ctx, c, path); err == nil {
			if err = h.isSame(c, path, a); err != nil {
				remote.Async().Abandon().Forget()
			}
		}
		if errors.Is(err, syscall.ESTALE) {
			f.options.Logger.Warn("an open file has been replaced on the host", "file", path, "error", err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	h.reopened(remote, a, asked)
	return remote, nil
}

// isOpen reports whether a handle's file is open on the host. The caller holds the turn.
func (h *handle) isOpen() bool {
	return h.remote != nil && !pool.Lost(h.remote.Client()) &&
		!private.OfFile(h.remote).HandleLost() && !h.isOutdated()
}

// isOutdated reports whether the name has got another file since the handle's was opened, as it does
// on some hosts when an upload ends. To programs here both are one file.
func (h *handle) isOutdated() bool {
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	return h.of != h.file.uploaded && !h.upload
}

// leave closes a file that the handle has replaced by another, once no call uses it any more. The
// caller holds the turn.
func (h *handle) leave(remote *usftp.File) {
	others := h.users
	h.users = new(users)
	h.file.fs.work.Go(func() {
		others.Lock()
		_, err := h.end(remote).WaitContext(h.file.fs.ctx)
		if err != nil && h.writes() && !lost(err) { // as of a host that tells a full disk only now
			h.failure.set(err)
		}
	})
}

// uploads reports whether a handle has an upload that has not ended.
func (h *handle) uploads() bool {
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	return h.upload
}

// uploadEnds notes the host's answer to CLOSE. If that is lost, the upload has not ended. If the
// host refused it, or the upload was given up, the name keeps the file that it has.
func (h *handle) uploadEnds(err error) {
	failed := endpoint.Refused(err) || h.failure.remains()
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	if !h.upload || lost(err) {
		return
	}
	if h.upload = false; !failed {
		h.file.uploaded++
	}
}

// endUploads makes what other handles upload appear before one, or nil, is used: it would belong to
// the old file.
func (f *file) endUploads(ctx context.Context, by *handle) {
	f.mu.Lock()
	uploads := false
	for h := range f.handles {
		uploads = uploads || h.upload && h != by
	}
	f.mu.Unlock()
	if uploads {
		f.fs.publish(ctx, f.node)
	}
}

// openAgain works like opening for a file that a program has open. Its permissions may no longer let
// even its owner open it: git makes its objects so. Then the owner gets them for a moment.
func (h *handle) openAgain(ctx context.Context, c *usftp.Client, path string) (remote *usftp.File,
	a attrs, asked time.Time, err error) {
	f := h.file.fs
	remote, a, asked, err = f.opening(c, path, h.flags, 0)
	if !errors.Is(err, fs.ErrPermission) || f.options.ReadOnly {
		return remote, a, asked, err
	}
	if err := h.file.mode.lock(ctx); err != nil {
		return nil, a, asked, err
	}
	defer h.file.mode.unlock()
	needed := uint32(0o600)
	if h.flags&os.O_WRONLY != 0 {
		needed = 0o200
	} else if !h.writes() {
		needed = 0o400
	}
	had, lookErr := f.look(c, path)
	switch {
	case undecided(lookErr):
		return nil, a, asked, lookErr
	case lookErr != nil, had.mode&typeMask != syscall.S_IFREG, had.mode&needed == needed:
		return nil, a, asked, err
	}
	if other := h.isSame(c, path, had); other != nil {
		return nil, a, asked, other
	}
	back := c.Chmod(path, modeOf(had.mode|needed))
	switch {
	case undecided(back): // it may have them
		err = back
	case back != nil:
		return nil, a, asked, err // it belongs to another user
	default:
		remote, a, asked, err = f.opening(c, path, h.flags, 0)
		if back = err; err == nil {
			a.mode = had.mode
			back = remote.Chmod(modeOf(had.mode))
		} else if !undecided(err) {
			back = c.Chmod(path, modeOf(had.mode))
		}
	}
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	if back != nil && !h.file.set.SetMode { // the next flush does it
		h.file.set.SetMode, h.file.set.Mode = true, modeOf(had.mode)
	}
	return remote, a, asked, err
}

// reopened takes over a file that was opened again. The caller holds turn.
func (h *handle) reopened(remote *usftp.File, a attrs, asked time.Time) {
	h.file.mu.Lock()
	loose := h.file.modified
	h.client, h.of = remote.Client(), h.file.uploaded
	h.file.remoteSize = max(h.file.remoteSize, int64(a.size))
	h.file.mu.Unlock()
	if !loose {
		h.file.node.learnAttrs(a, asked)
	}
	h.remote, h.size = remote, int64(a.size)
}

// clockError is how many seconds a time that we set may be ahead of the host's clock.
const clockError = 2

// use opens a handle for callers that do not hold turn. Until they call done, a flush does not
// close the file: the kernel flushes whenever any process closes the descriptor, such as a child
// between fork and exec, while its parent may be in the middle of another call.
func (h *handle) use(ctx context.Context) (remote *usftp.File, done func(), err error) {
	if err := h.turn.lock(ctx); err != nil {
		return nil, nil, err
	}
	defer h.turn.unlock()
	if remote, err = h.open(ctx); err != nil {
		return nil, nil, err
	}
	mine := h.users
	mine.RLock()
	return remote, func() {
		if mine.RUnlock(); oneHandle(remote) {
			h.letGo()
		}
	}, nil
}

// oneHandle reports whether a file's host allows only one open file at a time.
func oneHandle(remote *usftp.File) bool { return private.OfClient(remote.Client()).OneHandle() }

// letGo closes a file, until it is used again, on a host that allows one open file at a time: the
// program may have several open for as long as it likes.
func (h *handle) letGo() {
	if h.turn.lock(h.file.fs.ctx) == nil {
		h.pause()
		h.turn.unlock()
	}
}

// opened closes a file that was just opened, where only one may be open, or if it was emptied by a
// program that writes nothing: on some hosts the empty file appears when it is closed. If the
// program may write to it, that is when the program closes it.
func (h *handle) opened(flags int) {
	c := private.OfClient(h.file.fs.link.latest())
	upload := flags&(os.O_TRUNC|os.O_CREATE) != 0 && c.KeepsUploads()
	if upload && h.writes() {
		h.file.mu.Lock()
		h.written, h.upload = true, true
		h.file.mu.Unlock()
	}
	if c.OneHandle() || upload && !h.writes() && flags&os.O_TRUNC != 0 {
		h.letGo()
	}
}

// letGo closes those files that no call is using.
func (f *FS) letGo() {
	for _, h := range f.files.all() {
		if h.turn.tryLock() {
			h.pause()
			h.turn.unlock()
		}
	}
}

// pause works like letGo for callers that hold the turn.
func (h *handle) pause() {
	if h.remote == nil || !h.users.none() || private.OfFile(h.remote).HandleLost() {
		return
	}
	closing := h.end(h.remote)
	h.remote = nil
	if !h.writes() {
		closing.Forget()
		return
	}
	_, err := closing.WaitContext(h.file.fs.ctx)
	if h.uploadEnds(err); err != nil && !lost(err) {
		h.failure.set(err) // the host cannot store the data
	}
}

// publish makes an open file, or those in a directory, appear on a host where a new one does so when
// it is closed, before something is done by its name. It opens again when it is written to, under its
// new name: some hosts carry out what is asked of a handle on the name at OPEN.
func (f *FS) publish(ctx context.Context, n *node) {
	c := private.OfClient(f.link.latest())
	if !c.KeepsUploads() && !c.SetsByName() {
		return
	}
	handles := n.openFile().all()
	if len(handles) == 0 {
		handles = slices.DeleteFunc(f.files.all(),
			func(h *handle) bool { return !f.tree.isIn(h.file.node, n) })
	}
	for _, h := range handles {
		if !h.writes() || h.turn.lock(ctx) != nil {
			continue
		}
		isOpen := h.remote != nil
		h.turn.unlock()
		switch uploads := h.uploads(); {
		case !isOpen && !uploads || h.file.flush(ctx) != nil:
		case uploads:
			h.close(ctx) // a failure is reported when the program closes the file
		default:
			h.letGo()
		}
	}
}

// end closes a file on the host. If data of this handle is lost and the program was told so, the
// host's file is not the one that the program wrote, and the host learns that it is incomplete.
func (h *handle) end(remote *usftp.File) *usftp.Pending[struct{}] {
	if h.failure.remains() {
		return remote.Async().Abandon()
	}
	return remote.Async().Close()
}

// isSame returns an error unless a reopened file is the one that was open. If none of our changes
// to it was acknowledged, it must have the size and time last seen, or be longer if we only append,
// as others may do too. Otherwise it must hold the data that arrived of our last writes, must not
// be older than they left it, and must not be shorter than we appended to it. Writes that were sent
// may have arrived, or the beginning of them, although their answers were lost.
func (h *handle) isSame(c *usftp.Client, path string, a attrs) error {
	f := h.file
	f.mu.Lock()
	loose, seen, end := f.modified, h.seen, f.remoteSize
	paused := !pool.Lost(h.client)
	unfinished := h.upload && // the name still has the old file
		(a.version() == h.replaces || int64(a.size) > max(end, f.size))
	before := a.mtime+clockError < h.notBefore
	retimed := f.retimed || f.set.SetTimes || f.shownMtime != 0
	known := f.proofs
	all, oneOf := known, []proof(nil)
	for _, e := range f.extents {
		if e.tried {
			all = without(all, e)
			oneOf = append(oneOf, e.proofUpTo(int64(a.size)), e.proofUpTo(e.off+leastPart))
		}
	}
	f.mu.Unlock()
	switch {
	case unfinished, loose && !retimed && before,
		loose && h.appends() && int64(a.size) < end:
		return syscall.ESTALE
	case loose && (len(known) == 0 || paused && private.OfClient(c).OneHandle()):
		return nil
	case loose && len(all) > 0:
		oneOf = nil
	case loose:
		oneOf = append(oneOf, known...) // the data to be overwritten is still there
	case a.version() == seen, h.appends() && a.size > seen.size && a.mtime >= seen.mtime:
		return nil
	case len(oneOf) == 0:
		return syscall.ESTALE
	}
	if private.OfClient(c).OneHandle() {
		return syscall.ESTALE // a second open, to find out, is not possible
	}
	remote, err := c.Open(path)
	if undecided(err) {
		return err
	} else if err != nil {
		return nil // the file may be write-only
	}
	defer remote.Close()
	for _, p := range all {
		if is, err := p.holds(remote); err != nil || !is {
			return cmp.Or(err, error(syscall.ESTALE))
		}
	}
	for _, p := range oneOf {
		if is, err := p.holds(remote); err != nil || is {
			return err
		}
	}
	if len(oneOf) > 0 {
		return syscall.ESTALE
	}
	return nil
}

// undecided reports whether an error leaves it open which file a path led to.
func undecided(err error) bool {
	return lost(err) || errors.Is(err, errInterrupted) || errors.Is(err, errTimeout)
}

// Release implements fuse.RawFileSystem. No call waits for it: Flush has already reported errors.
func (f *FS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	h := f.files.take(in.Fh)
	if h == nil {
		return
	}
	h.used()
	f.work.Go(func() {
		if err := h.file.finish(f.ctx); err != nil {
			f.options.Logger.Error("not all data of a file was written", "error", err)
		}
		h.reader.drop()
		if h.uploads() && !h.failure.remains() {
			if err := h.close(f.ctx); err != nil && f.ctx.Err() == nil {
				f.options.Logger.Error("a file could not be closed on the host", "error", err)
			}
		}
		var closing *usftp.Pending[struct{}]
		whole := !h.failure.remains()
		if h.turn.lock(f.ctx) == nil { // else the connection is about to be closed
			if h.remote != nil {
				closing = h.end(h.remote)
			}
			h.remote = nil
			h.turn.unlock()
		}
		if err := h.file.endLanes(f.ctx, h, whole); err != nil && f.ctx.Err() == nil {
			f.options.Logger.Error("a file could not be closed on the host", "error", err)
		}
		last := f.detach(h)
		if last {
			h.file.endPlain(f.ctx, whole)
		}
		if n := h.file.node; last && f.tree.isRemoved(n) {
			f.removeHidden(n)
		}
		f.tree.release(h.file.node)
		if closing == nil {
			return
		}
		// Some servers report only now that they cannot store the data written.
		_, err := closing.WaitContext(f.ctx)
		if err != nil && h.writes() && !lost(err) && f.ctx.Err() == nil {
			f.options.Logger.Error("a file could not be closed on the host", "error", err)
		}
	})
}

// A ctxMutex is a lock for which callers can stop waiting.
type ctxMutex chan struct{}

func newCtxMutex() ctxMutex { return make(ctxMutex, 1) }

func (m ctxMutex) lock(ctx context.Context) error {
	if m.tryLock() {
		return nil
	}
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryLock reports whether it could lock at once.
func (m ctxMutex) tryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

func (m ctxMutex) unlock() { <-m }
