package server

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/usftp/usftp/wire"
)

// What a View does under a quota: each runs what changes the backend with the quota's lock held, so
// that what is counted and what is there change together.

// quotaMake runs what makes one more file, directory or link.
func (v *View) quotaMake(ctx context.Context, make func() error) error {
	q := v.quota
	if q == nil {
		return make()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	if err := q.take(0, 1); err != nil {
		return err
	}
	err := make()
	if err != nil {
		q.add(0, -1)
	}
	return err
}

// quotaRemove runs what takes the name of something away.
func (v *View) quotaRemove(ctx context.Context, name string, remove func() error) error {
	q := v.quota
	if q == nil {
		return remove()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	info, err := v.lstat(ctx, name)
	if err != nil {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	q.gone(info, name)
	return nil
}

// gone takes off what had the name that is gone; the caller holds the lock.
func (q *Quota) gone(info fs.FileInfo, name string) {
	q.add(0, -1)
	if !info.Mode().IsRegular() || linkCount(info) > 1 {
		return
	}
	key := identityOf(info, name)
	f := q.open[key]
	if f == nil {
		q.add(-info.Size(), 0)
		return
	}
	// The system keeps what is in it until it is closed, and so does the count. Its identity is
	// free for the next file.
	f.unlinked = true
	delete(q.open, key)
	f.key = f
	q.open[f] = f
}

// quotaReplace runs a rename, which may take away what has the new name.
func (v *View) quotaReplace(ctx context.Context, oldName, newName string,
	rename func() error) error {
	q := v.quota
	if q == nil {
		return rename()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	replaced, missing := v.lstat(ctx, newName)
	if err := rename(); err != nil {
		return err
	}
	if missing == nil {
		if _, err := v.lstat(ctx, oldName); err == nil {
			return nil // two names of one file, which POSIX leaves as they are
		}
		q.gone(replaced, newName)
	}
	q.moved(oldName, newName)
	return nil
}

// moved follows open files that are known by their paths only; the caller holds the lock.
func (q *Quota) moved(oldName, newName string) {
	for key, f := range q.open {
		name, ok := key.(string)
		if rest, below := strings.CutPrefix(name, oldName); ok && below &&
			(rest == "" || rest[0] == '/') {
			delete(q.open, key)
			f.key = newName + rest
			q.open[f.key] = f
		}
	}
}

// quotaResize runs what gives the file at name another size.
func (v *View) quotaResize(ctx context.Context, name string, size uint64,
	resize func() error) error {
	q := v.quota
	if q == nil {
		return resize()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	info, err := v.fs.Stat(ctx, name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return resize() // which fails
	}
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	f := q.open[identityOf(info, name)]
	if f == nil {
		f = &quotaFile{size: info.Size()}
	}
	return q.resize(f, size, resize, func() (fs.FileInfo, error) { return v.fs.Stat(ctx, name) })
}

// resize runs what gives a file another size, and may do more and fail at that; the caller holds
// the lock.
func (q *Quota) resize(f *quotaFile, size uint64, resize func() error,
	stat func() (fs.FileInfo, error)) error {
	if size > 1<<62 {
		return ErrQuota
	}
	old := f.size
	if err := q.take(int64(size)-old, 0); err != nil {
		return err
	}
	f.size = int64(size)
	err := resize()
	if err == nil {
		return nil
	}
	now := old
	if info, statErr := stat(); statErr == nil {
		now = max(old, info.Size())
	}
	q.add(now-f.size, 0)
	f.size = now
	return err
}

// quotaOpen opens a file for writing.
func (v *View) quotaOpen(ctx context.Context, name string, flags uint32, attrs *wire.Attrs,
	open func() (File, error)) (File, error) {
	q := v.quota
	if q == nil || flags&writing == 0 {
		return open()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return nil, err
	}
	charged := int64(0)
	before, missing := v.fs.Stat(ctx, name)
	if missing == nil && before.Mode().IsRegular() {
		charged = before.Size()
	}
	isNew := errors.Is(missing, fs.ErrNotExist) && flags&wire.OpenCreate != 0
	if isNew {
		if attrs.Has(wire.AttrSize) {
			charged = int64(min(attrs.Size, 1<<62))
		}
		if err := q.take(charged, 1); err != nil {
			return nil, err
		}
	}
	file, err := open()
	if err != nil {
		// it may have been made all the same
		if _, missing := v.fs.Stat(ctx, name); isNew && missing != nil {
			q.add(-charged, -1)
		}
		return nil, err
	}
	info, err := v.statOpen(ctx, file, name)
	if err != nil {
		file.Close()
		return nil, err
	}
	return q.opened(file, info, name, charged, flags), nil
}

// statOpen describes an open file.
func (v *View) statOpen(ctx context.Context, file File, name string) (fs.FileInfo, error) {
	if stater, ok := file.(FileStater); ok {
		if info, err := stater.Stat(); !errors.Is(err, errors.ErrUnsupported) {
			return info, err
		}
	}
	return v.fs.Stat(ctx, name)
}
