//go:build linux || darwin

package sftpfs

import (
	"cmp"
	"context"
	"os"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
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

func (h *handle) writes() bool { return h.flags&(os.O_WRONLY|os.O_RDWR) != 0 }

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
