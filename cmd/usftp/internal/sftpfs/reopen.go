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
	"syscall"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

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

// A proof is the checksum of a piece of a file that we wrote.
type proof struct {
	off  int64
	size int
	sum  uint64
}

var seed = maphash.MakeSeed()

// maxProofs is the number of pieces compared when a file is reopened.
const maxProofs = 4

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
