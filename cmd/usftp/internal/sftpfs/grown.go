//go:build linux || darwin

package sftpfs

import (
	"context"
	"io"
	"slices"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// readAt reads over the present connection. Some hosts, such as ProFTPD, read only what a file held
// when it was opened, and what was written over the same handle since. A file that ends before the
// size that the kernel knows is reopened, or a program that maps it would get SIGBUS.
func (h *handle) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	// The kernel asks for whole pages. Asking the host for bytes beyond the end of the file would
	// cost another round trip, in which the host reports that end.
	size := h.knownSize()
	if off < size {
		p = p[:min(int64(len(p)), size-off)]
	}
	n, remote, err := h.readOnce(ctx, p, off)
	if n == len(p) || err != nil && err != io.EOF || off+int64(n) >= size {
		return n, err
	}
	if !h.openLonger(ctx, remote, off+int64(n)) {
		// Only if the host could be asked is this the end.
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if client := remote.Client(); pool.Lost(client) {
			return 0, client.Wait()
		}
		return n, err
	}
	n, _, err = h.readOnce(ctx, p, off)
	return n, err
}

// openLonger reopens a file if the host says that it goes on where it seemed to end, and reports
// whether it could. The name must still lead to the same file, which can only have grown
// meanwhile.
func (h *handle) openLonger(ctx context.Context, remote *usftp.File, end int64) bool {
	f := h.file.fs
	server := private.OfClient(remote.Client())
	if server.WorksInOrder() || // OpenSSH's, which reads all of a file
		server.StatsByName() || server.OneHandle() || server.KeepsUploads() {
		return false
	}
	old := remote.WithContext(ctx)
	before, err := old.Async().Stat().Wait()
	if h.turn.lock(ctx) != nil {
		return false
	}
	defer h.turn.unlock()
	if h.remote != remote {
		return true // another call has, and may have closed this one
	}
	if err != nil || int64(before.Size) <= end {
		return false
	}
	// Data on its way must not arrive after CLOSE.
	underWay := func(e *extent) bool { return e.handle == h && e.sent }
	if h.file.endLanes(ctx, h, false) != nil || h.file.await(ctx, func() bool {
		return !slices.ContainsFunc(h.file.extents, underWay)
	}) != nil {
		return false
	}
	path, ok := f.tree.path(h.file.node)
	if !ok {
		return false
	}
	longer, a, asked, err := h.openAgain(ctx, remote.Client().WithContext(ctx), path)
	if err != nil {
		return false
	}
	after, err := old.Async().Stat().Wait()
	if err != nil || !within(a.version(), attrsOf(before).version(), attrsOf(after).version()) {
		longer.Async().Abandon().Forget()
		return false
	}
	h.reader.drop()
	h.reopened(longer, a, asked)
	h.file.mu.Lock()
	h.saw(a.version())
	h.file.mu.Unlock()
	h.leave(remote)
	return true
}

// within reports whether a version is one of a file that grew from one to another.
func within(v, from, to version) bool {
	return from.size <= v.size && v.size <= to.size && from.mtime <= v.mtime && v.mtime <= to.mtime
}
