//go:build linux || darwin

package sftpfs

import (
	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

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

// end closes a file on the host. If data of this handle is lost and the program was told so, the
// host's file is not the one that the program wrote, and the host learns that it is incomplete.
func (h *handle) end(remote *usftp.File) *usftp.Pending[struct{}] {
	if h.failure.remains() {
		return remote.Async().Abandon()
	}
	return remote.Async().Close()
}
