//go:build linux || darwin

package sftpfs

import (
	"context"
	"os"
	"slices"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
)

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
