package server

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"sync/atomic"

	"github.com/usftp/usftp/wire"
)

// Quota limits the contents of a directory: the total size of its files, and the number of files,
// directories and links. Sessions that write there share one. It is safe for concurrent use.
//
// The directory is walked and counted when the count is first needed, unless an [Account] has the
// count already; from then on the count follows the sessions' changes. Changes made by other
// programs are not seen until Recount. A hole in a file counts as if it were filled; a file with
// several names counts once (see [Linked]); a file removed while open counts until it is closed.
//
// While the backend makes a change, only changes of the same name or file wait for it, and changes
// below a directory that is being moved.
type Quota struct {
	account Account
	*quotaTree
}

// quotaTree is what quotas of one directory with different limits share.
type quotaTree struct {
	counted atomic.Bool
	changes changes
	inodes  inodes
}

// NewQuota returns a quota whose count is in memory; 0 means unlimited.
func NewQuota(maxBytes, maxFiles int64) *Quota {
	return &Quota{NewAccount(maxBytes, maxFiles), &quotaTree{}}
}

// NewQuotaOf returns a quota of an account, whose count is taken as it is, unless the account is
// [Countable]. All sessions of a server that write to the directory must share the quota, or have
// it with other limits, since it knows which files they have open.
func NewQuotaOf(account Account) *Quota {
	q := &Quota{account, &quotaTree{}}
	_, maybe := account.(Countable)
	q.counted.Store(!maybe)
	return q
}

// WithLimits returns a quota of the same directory and count with other limits, for sessions of
// other users. Its account must be a [Limitable], as those of NewQuota are.
func (q *Quota) WithLimits(maxBytes, maxFiles int64) *Quota {
	return &Quota{q.account.(Limitable).WithLimits(maxBytes, maxFiles), q.quotaTree}
}

// ErrQuota is the error of requests that would exceed a quota.
var ErrQuota = &StatusError{Code: wire.Failure, Message: "quota exceeded"}

// Usage returns the current count, or zeros before the first count.
func (q *Quota) Usage() (bytes, files int64) {
	now := q.account.Usage()
	return now.Bytes, now.Files
}

// limit lowers the free space of a file system to the quota's.
func (q *Quota) limit(reply *wire.StatVFSReply) {
	now := q.account.Usage()
	if now.MaxBytes > 0 && reply.FragmentSize > 0 {
		left := uint64(max(0, now.MaxBytes-now.Bytes)) / reply.FragmentSize
		reply.Blocks = min(reply.Blocks, uint64(now.MaxBytes)/reply.FragmentSize)
		reply.BlocksFree = min(reply.BlocksFree, left)
		reply.BlocksAvailable = min(reply.BlocksAvailable, left)
	}
	if now.MaxFiles > 0 {
		left := uint64(max(0, now.MaxFiles-now.Files))
		reply.Files = uint64(now.MaxFiles)
		reply.FilesFree = min(reply.FilesFree, left)
		reply.FilesAvailable = min(reply.FilesAvailable, left)
	}
}

// Recount counts the tree below dir again, after other programs have changed it. Writers wait for
// it, readers do not. After an error the old count stays. Changes that other servers sharing the
// account make meanwhile may be counted wrongly.
func (q *Quota) Recount(ctx context.Context, backend FS, dir string) error {
	return q.count(ctx, backend, dir, true)
}

// ready counts the tree unless that is already done.
func (q *Quota) ready(ctx context.Context, v *View) error {
	if known, err := q.known(ctx); err != nil || known {
		return err
	}
	return q.count(WithBeneath(ctx, ""), v.fs, v.home, false)
}

// count works like Recount; again is false if any existing count will do.
func (q *Quota) count(ctx context.Context, backend FS, dir string, again bool) error {
	leave, err := q.changes.enter(ctx, true, "/")
	if err != nil {
		return err
	}
	defer leave()
	if known, err := q.known(ctx); err != nil || known && !again {
		return err
	}
	open, unlock := q.inodes.lockAll()
	defer unlock()
	end, err := q.beginCount(ctx)
	if err != nil {
		return err
	}
	bytes, files, err := countAll(ctx, backend, dir, open)
	if err != nil {
		return err
	}
	if err := end(bytes, files); err != nil {
		return err
	}
	q.counted.Store(true)
	return nil
}

// countAll counts a tree, and what open files take besides.
func countAll(ctx context.Context, backend FS, dir string,
	open map[any]*inode) (bytes, files int64, err error) {
	if counter, ok := backend.(Counter); ok {
		bytes, files, err = counter.Count(ctx, dir)
		for _, f := range open {
			bytes, files = bytes+f.size-f.least, files+f.more
		}
		return bytes, files, err
	}
	lister, ok := backend.(Lister)
	if !ok {
		return 0, 0, errUnsupported
	}
	walk := quotaWalk{lister: lister, open: open, seen: map[any]bool{}, met: map[*inode]bool{}}
	walk.hidden, _ = backend.(HiddenLister)
	bytes, files, err = walk.countBelow(ctx, dir, 0)
	for key, f := range open { // which a walk may not find
		_, named := key.(string)
		switch {
		case f.unlinked:
			bytes += f.size
		case named && f.handles > 0 && !walk.met[f]: // it appears when it is closed
			bytes, files = bytes+f.size, files+1
		}
	}
	return bytes, files, err
}

// known reports whether there is a count.
func (q *Quota) known(ctx context.Context) (known bool, err error) {
	if countable, ok := q.account.(Countable); ok {
		return countable.Counted(ctx)
	}
	return q.counted.Load(), nil
}

// await works like Await, for any account.
func (q *Quota) await(bytes, files int64) {
	if countable, ok := q.account.(Countable); ok && (bytes != 0 || files != 0) {
		countable.Await(bytes, files)
	}
}

// beginCount works like BeginCount, for any account.
func (q *Quota) beginCount(ctx context.Context) (end func(bytes, files int64) error, err error) {
	if countable, ok := q.account.(Countable); ok {
		return countable.BeginCount(ctx)
	}
	before := q.account.Usage()
	return func(bytes, files int64) error {
		q.account.Settle(bytes-before.Bytes, files-before.Files)
		return nil
	}, nil
}

// quotaWalk is a count under way.
type quotaWalk struct {
	lister Lister
	hidden HiddenLister // or nil
	open   map[any]*inode
	met    map[*inode]bool // of open
	seen   map[any]bool    // counted files with several names
}

// maxWalk is the depth to which a quota counts: deeper paths are too long for a request.
const maxWalk = maxPath / 2

// countBelow counts a directory's entries and everything below them.
func (w *quotaWalk) countBelow(ctx context.Context, dir string,
	depth int) (bytes, files int64, err error) {
	var below []string
	for info, err := range w.list(ctx, dir) {
		if err != nil {
			if uncounted(err) {
				return bytes, files, nil
			}
			return 0, 0, err
		}
		files++
		switch name := path.Join(dir, info.Name()); {
		case info.IsDir():
			below = append(below, name)
		case info.Mode().IsRegular():
			if l, ok := info.(Linked); ok && l.FileIdentity() == nil {
				info = w.identified(ctx, info, name)
			}
			bytes += w.sizeOf(info, name)
		case AttrsOf(info).Flags == 0: // the backend could not look it up
			if l, ok := w.lister.(Lstater); ok {
				if _, err := l.Lstat(ctx, name); err != nil && !uncounted(err) {
					return 0, 0, err
				}
			}
		}
	}
	for _, name := range below {
		if depth == maxWalk {
			break
		}
		b, f, err := w.countBelow(ctx, name, depth+1)
		if err != nil {
			return 0, 0, err
		}
		bytes, files = bytes+b, files+f
	}
	return bytes, files, ctx.Err()
}

// uncounted reports whether a count goes on without what could not be looked at.
func uncounted(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// identified returns a file's info with its identity, if the backend knows it.
func (w *quotaWalk) identified(ctx context.Context, info fs.FileInfo, name string) fs.FileInfo {
	if l, ok := w.lister.(Lstater); ok {
		if found, err := l.Lstat(ctx, name); err == nil && found.Mode().IsRegular() {
			return found
		}
	}
	return info
}

// list lists a directory, including entries that clients do not see.
func (w *quotaWalk) list(ctx context.Context, dir string) iter.Seq2[fs.FileInfo, error] {
	shown := withoutDots(w.lister.List(ctx, dir))
	if w.hidden == nil {
		return shown
	}
	return func(yield func(fs.FileInfo, error) bool) {
		for _, list := range []iter.Seq2[fs.FileInfo, error]{shown, w.hidden.ListHidden(ctx, dir)} {
			for info, err := range list {
				if !yield(info, err) {
					return
				}
			}
		}
	}
}

// sizeOf returns the size that a file counts for: its own, or the one that pending writes have
// reserved if that is larger.
func (w *quotaWalk) sizeOf(info fs.FileInfo, name string) int64 {
	key := identityOf(info, name)
	if linkCount(info) > 1 {
		if w.seen[key] {
			return 0
		}
		w.seen[key] = true
	}
	f := w.open[key]
	if f == nil {
		return info.Size()
	}
	w.met[f] = true
	f.size = max(f.size, info.Size())
	return f.size
}
