//go:build linux || darwin

package sftpfs

import (
	"context"
	"hash/maphash"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// A handle is an open file as a program has it.
type handle struct {
	file  *file
	flags int // of package os: the access mode and O_APPEND

	gate   gate        // held while the file is opened again, and around appending
	remote *usftp.File // nil if it is not open on the host; guarded by the gate
	end    int64       // where the last append has ended, as far as we know; guarded by the gate

	reader reader

	// The file's lock guards these.
	err     error // to be returned by the next call
	written bool  // since the last flush
	flushes int   // that found something written
	made    bool  // this handle has created or emptied the file, and nothing else has written to it
}

func (h *handle) writes() bool  { return h.flags&(os.O_WRONLY|os.O_RDWR) != 0 }
func (h *handle) appends() bool { return h.flags&os.O_APPEND != 0 && h.writes() }

// file is what the handles of one node share: what was written and is not on the host yet, and what
// tells that a file that is opened again is the same.
type file struct {
	fs   *FS
	node *node
	gate gate // held by who sends what was written, so that it is sent in order

	mu      sync.Mutex
	handles map[*handle]bool
	extents []*extent      // not acknowledged, oldest first
	size    int64          // at least, because of the extents
	set     usftp.NewAttrs // to be set with the next flush
	wrote   time.Time      // when something was last written and not flushed; zero if nothing was
	told    uint32         // the modification time that a program was told since then; 0 if none was
	changed chan struct{}  // closed and replaced when an extent leaves
	proofs  []proof        // of what was written last and has arrived
	loose   bool           // we have changed it since its version was last seen
	idle    *time.Timer    // sends what nobody adds to
}

// A proof is a piece of a file that we have written.
type proof struct {
	off  int64
	size int
	sum  uint64
}

var seed = maphash.MakeSeed()

// mostProofs is how many pieces are compared when a file is opened again.
const mostProofs = 4

// fileOf returns what is shared by the open files of a node, nil if there are none.
func (f *FS) fileOf(n *node) *file {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.file
}

// attach adds a handle to its node.
func (f *FS) attach(n *node, flags int, remote *usftp.File) *handle {
	f.tree.hold(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == nil {
		n.file = &file{fs: f, node: n, gate: newGate(), handles: make(map[*handle]bool),
			changed: make(chan struct{})}
	}
	h := &handle{file: n.file, flags: flags & (os.O_WRONLY | os.O_RDWR | os.O_APPEND),
		gate: newGate(), remote: remote}
	h.end = int64(n.attrs.size)
	h.reader.reset()
	n.file.mu.Lock()
	defer n.file.mu.Unlock()
	n.file.handles[h] = true
	return h
}

// detach removes a handle, and the file with the last one. last is true for that.
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

// opening is an open file on the host with its attributes, asked for at once.
func (f *FS) opening(c *usftp.Client, path string, flags int, perm fs.FileMode) (*usftp.File, attrs, time.Time, error) {
	asked := time.Now()
	open := c.Async().OpenFile(path, flags, perm)
	inOrder := private.OfClient(c).WorksInOrder() || flags&(os.O_CREATE|os.O_TRUNC) == 0
	var stat *usftp.Pending[fs.FileInfo]
	if inOrder {
		stat = c.Async().Stat(path)
	}
	remote, err := open.Wait()
	if err != nil {
		return nil, attrs{}, asked, err
	}
	if stat == nil {
		stat = c.Async().Stat(path)
	}
	info, err := stat.Wait()
	if err != nil {
		remote.Async().Close().Forget()
		return nil, attrs{}, asked, err
	}
	return remote.WithContext(context.Background()), attrsOfInfo(info), asked, nil
}

// osFlags returns the flags of package os that matter for the host.
func osFlags(flags uint32) int {
	const kept = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_TRUNC | os.O_EXCL
	return int(flags) & kept
}

// Open implements fuse.RawFileSystem. It takes one round trip, for the attributes too: a program
// that opens a file sees what others have closed before.
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
	if file := f.fileOf(n); file != nil {
		if err := file.flush(ctx); err != nil {
			return statusOf(err)
		}
	}
	var remote *usftp.File
	var a attrs
	var asked time.Time
	err := f.onPath(n, func(path string) error {
		return f.link.do(ctx, func(c *usftp.Client, _ bool) (err error) {
			remote, a, asked, err = f.opening(c, path, flags, 0)
			return err
		})
	})
	if err != nil {
		return statusOf(err)
	}
	if flags&os.O_TRUNC != 0 {
		f.outdated(n)
		asked = time.Now()
	}
	n.learnAttrs(a, asked)
	h := f.attach(n, flags, remote)
	h.made = flags&os.O_TRUNC != 0 && a.size == 0
	if flags&os.O_TRUNC != 0 {
		h.file.dropReaders()
	}
	out.Fh = f.files.add(h)
	if n.keepsPages() {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	return fuse.OK
}

// keepsPages reports whether what the kernel has of the contents is what they are still: it was read
// from the version that there is now, and no other can hide behind that.
func (n *node) keepsPages() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	same := n.read.version == n.version && !n.read.at.IsZero()
	sure := n.read.at.After(n.since.Add(settled)) ||
		time.Since(time.Unix(int64(n.version.mtime), 0)) > ancient
	if !same || !sure {
		n.read = reading{n.version, time.Now()}
		return false
	}
	return true
}

// reading is a version of a file that the kernel has read from some time on.
type reading struct {
	version version
	at      time.Time
}

// Create implements fuse.RawFileSystem.
func (f *FS) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	dir := f.tree.get(in.NodeId)
	switch {
	case dir == nil:
		return fuse.Status(syscall.ESTALE)
	case f.options.ReadOnly:
		return fuse.EROFS
	case len(name) > mostName:
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	flags := osFlags(in.Flags) | os.O_CREATE
	perm := modeOf(in.Mode)
	var remote *usftp.File
	var a attrs
	var asked time.Time
	err := f.onPath(dir, func(path string) error {
		return f.link.do(ctx, func(c *usftp.Client, _ bool) (err error) {
			remote, a, asked, err = f.opening(c, join(path, name), flags, perm)
			return err
		})
	})
	if err != nil {
		return statusOf(err)
	}
	fresh := flags&os.O_EXCL != 0 || flags&os.O_TRUNC != 0 && a.size == 0
	if fresh {
		f.ahead.Store(int64(a.mtime) - asked.Unix())
	}
	if old := f.tree.child(dir, name); old != nil && f.fileOf(old) == nil {
		old.forgetAttrs()
	}
	n := f.tree.learn(dir, name, &a)
	n.learnAttrs(a, asked)
	dir.note(name, change{true, a})
	f.touched(dir)
	h := f.attach(n, flags, remote)
	h.made = fresh
	// The host has applied its own umask to what ours has left.
	if want := in.Mode & 0o7777; flags&os.O_EXCL != 0 && a.mode&0o7777 != want && f.options.Umask == nil {
		h.file.setMode(want)
	}
	f.answer(n, a, &out.EntryOut)
	out.Fh = f.files.add(h)
	return fuse.OK
}

// modeOf returns permissions as package fs has them.
func modeOf(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{syscall.S_ISUID: fs.ModeSetuid,
		syscall.S_ISGID: fs.ModeSetgid, syscall.S_ISVTX: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

// open returns the file on the host. If the connection was lost, or flush has closed it, it is
// opened again and must prove to be the same. The caller holds the gate.
func (h *handle) open(ctx context.Context) (*usftp.File, error) {
	if h.remote != nil && !pool.Lost(h.remote.Client()) {
		return h.remote, nil
	}
	f, n := h.file.fs, h.file.node
	h.reader.drop()
	flags := h.flags
	var remote *usftp.File
	var a attrs
	var asked time.Time
	err := f.onPath(n, func(path string) error {
		return f.link.do(ctx, func(c *usftp.Client, _ bool) (err error) {
			if remote, a, asked, err = f.opening(c, path, flags, 0); err != nil {
				return err
			}
			if err = h.file.isSame(c, path, a); err != nil {
				remote.Async().Close().Forget()
				f.options.Logger.Warn("an open file is another one now", "file", path, "error", err)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	h.file.mu.Lock()
	loose := h.file.loose
	h.file.mu.Unlock()
	if !loose {
		n.learnAttrs(a, asked)
	}
	h.remote, h.end = remote, int64(a.size)
	return remote, nil
}

// clockError is by how many seconds a time that we have set may be ahead of the host's clock.
const clockError = 2

// openNow is open for a caller without the gate.
func (h *handle) openNow(ctx context.Context) (*usftp.File, error) {
	if err := h.gate.lock(ctx); err != nil {
		return nil, err
	}
	defer h.gate.unlock()
	return h.open(ctx)
}

// isSame reports with an error that a file is not the one that was open. What we have not written to
// must have the size and time that were last seen; else it must hold what has arrived of what we
// wrote last, and be neither older nor shorter than that.
func (f *file) isSame(c *usftp.Client, path string, a attrs) error {
	f.mu.Lock()
	loose, proofs := f.loose, append([]proof(nil), f.proofs...)
	setsTimes := f.set.SetTimes || f.told != 0 // which may have been done before the answer was lost
	f.mu.Unlock()
	f.node.mu.Lock()
	seen := f.node.version
	f.node.mu.Unlock()
	if !loose {
		if a.version() != seen {
			return syscall.ESTALE
		}
		return nil
	}
	if !setsTimes && a.mtime+clockError < seen.mtime {
		return syscall.ESTALE
	}
	if len(proofs) == 0 {
		return nil
	}
	remote, err := c.Open(path)
	if err != nil {
		return nil // it may be written only
	}
	defer remote.Close()
	for _, p := range proofs {
		data := make([]byte, p.size)
		if n, err := remote.ReadAt(data, p.off); lost(err) {
			return err
		} else if n < len(data) || maphash.Bytes(seed, data) != p.sum {
			return syscall.ESTALE
		}
	}
	return nil
}

// Release implements fuse.RawFileSystem. Nobody waits for it: what matters was answered by Flush.
func (f *FS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	h := f.files.take(in.Fh)
	if h == nil {
		return
	}
	f.work.Go(func() {
		if err := h.file.finish(f.ctx); err != nil {
			f.options.Logger.Error("a file was not written to its end", "error", err)
		}
		h.reader.drop()
		h.gate.lock(f.ctx)
		remote := h.remote
		h.remote = nil
		h.gate.unlock()
		if remote != nil {
			remote.Async().Close().Forget()
		}
		last := f.detach(h)
		if n := h.file.node; last && f.tree.isRemoved(n) {
			f.removeHidden(n)
		}
		f.tree.let(h.file.node)
	})
}

// A gate is a lock whose waiters can give up.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) lock(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	default:
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) unlock() { <-g }
