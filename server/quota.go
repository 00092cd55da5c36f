package server

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"

	"github.com/usftp/usftp/wire"
)

// Quota bounds what a directory may hold: the bytes of its files, and the number of files,
// directories and links. Sessions that may write there share one. It is safe for concurrent use.
//
// What is there is counted when it is first needed, by walking the directory, and kept up with what
// sessions do from then on. Changes by others are not seen before Recount. A hole in a file counts
// as if it were filled; a file with several names counts once (see [Linked]); one that is removed
// while it is open counts until it is closed.
type Quota struct {
	maxBytes, maxFiles int64

	mu      sync.Mutex
	counted bool
	bytes   int64
	files   int64
	open    map[any]*quotaFile // files that are open for writing, by identity
}

// NewQuota returns a quota; 0 means no bound.
func NewQuota(maxBytes, maxFiles int64) *Quota {
	return &Quota{maxBytes: maxBytes, maxFiles: maxFiles, open: map[any]*quotaFile{}}
}

// ErrQuota is what goes beyond a quota.
var ErrQuota = &StatusError{Code: wire.Failure, Message: "quota exceeded"}

// Usage returns what has been counted; both are 0 before the first time.
func (q *Quota) Usage() (bytes, files int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes, q.files
}

// limit makes a file system look no emptier than the quota leaves it.
func (q *Quota) limit(reply *wire.StatVFSReply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.maxBytes > 0 && reply.FragmentSize > 0 {
		left := uint64(max(0, q.maxBytes-q.bytes)) / reply.FragmentSize
		reply.Blocks = min(reply.Blocks, uint64(q.maxBytes)/reply.FragmentSize)
		reply.BlocksFree, reply.BlocksAvailable = min(reply.BlocksFree,
			left), min(reply.BlocksAvailable, left)
	}
	if q.maxFiles > 0 {
		left := uint64(max(0, q.maxFiles-q.files))
		reply.Files = uint64(q.maxFiles)
		reply.FilesFree, reply.FilesAvailable = min(reply.FilesFree,
			left), min(reply.FilesAvailable, left)
	}
}

// Recount counts anew what lies below dir, for when others have changed it. Sessions that write
// there wait meanwhile; those that read do not. After an error what was counted before stays.
func (q *Quota) Recount(ctx context.Context, backend FS, dir string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count(ctx, backend, dir)
}

// count is Recount; the caller holds the lock.
func (q *Quota) count(ctx context.Context, backend FS, dir string) error {
	lister, ok := backend.(Lister)
	if !ok {
		return errUnsupported
	}
	bytes, files, err := q.countBelow(ctx, lister, dir, 0, map[any]bool{})
	if err != nil {
		return err
	}
	for _, f := range q.open {
		if f.unlinked { // which no walk finds
			bytes += f.size
		}
	}
	q.bytes, q.files, q.counted = bytes, files, true
	return nil
}

// maxWalk is how deep a quota looks; the paths of what lies deeper are too long to be asked for.
const maxWalk = maxPath / 2

// countBelow is count for one directory; seen are the files with several names that have been
// counted.
func (q *Quota) countBelow(ctx context.Context, lister Lister, dir string, depth int,
	seen map[any]bool) (bytes, files int64, err error) {
	var below []string
	for info, err := range withoutDots(lister.List(ctx, dir)) {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				return bytes, files, nil
			}
			return 0, 0, err
		}
		files++
		switch name := path.Join(dir, info.Name()); {
		case info.IsDir():
			below = append(below, name)
		case info.Mode().IsRegular():
			bytes += q.sizeOf(info, name, seen)
		}
	}
	for _, name := range below {
		if depth == maxWalk {
			break
		}
		b, f, err := q.countBelow(ctx, lister, name, depth+1, seen)
		if err != nil {
			return 0, 0, err
		}
		bytes, files = bytes+b, files+f
	}
	return bytes, files, ctx.Err()
}

// sizeOf is what a file counts: its size, or what writes under way have asked for where that is
// more.
func (q *Quota) sizeOf(info fs.FileInfo, name string, seen map[any]bool) int64 {
	key := identityOf(info, name)
	if linkCount(info) > 1 {
		if seen[key] {
			return 0
		}
		seen[key] = true
	}
	f := q.open[key]
	if f == nil {
		return info.Size()
	}
	f.size = max(f.size, info.Size())
	return f.size
}

// ready counts if nobody has yet; the caller holds the lock.
func (q *Quota) ready(ctx context.Context, v *View) error {
	if q.counted {
		return nil
	}
	return q.count(ctx, v.fs, v.home)
}

// take asks for more; the caller holds the lock.
func (q *Quota) take(bytes, files int64) error {
	if q.maxBytes > 0 && bytes > 0 && q.bytes+bytes > q.maxBytes ||
		q.maxFiles > 0 && files > 0 && q.files+files > q.maxFiles {
		return ErrQuota
	}
	q.add(bytes, files)
	return nil
}

// add notes what is there already, or gone; the caller holds the lock.
func (q *Quota) add(bytes, files int64) {
	q.bytes, q.files = max(0, q.bytes+bytes), max(0, q.files+files)
}
