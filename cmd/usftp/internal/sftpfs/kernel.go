//go:build linux || darwin

package sftpfs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

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
