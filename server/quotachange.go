package server

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
)

// quotaMake runs make, which makes a directory or, if moves is true, a link.
func (v *View) quotaMake(ctx context.Context, moves bool, name string,
	make func(ctx context.Context) error) error {
	switch {
	case v.quota == nil:
		return make(ctx)
	case v.counts():
		return v.tallied(ctx, 0, 1, make, name)
	}
	leave, err := v.enter(ctx, moves, name)
	if err != nil {
		return err
	}
	defer leave()
	return v.quota.add(ctx, func() error { return make(ctx) })
}

// add runs make, which makes one name.
func (q *Quota) add(ctx context.Context, make func() error) error {
	if err := q.account.Reserve(ctx, 0, 1); err != nil {
		return err
	}
	err := make()
	if err != nil {
		q.account.Settle(0, -1)
	}
	return err
}

// quotaLink runs link, which makes another name for a file: removing the old one no longer frees
// the contents.
func (v *View) quotaLink(ctx context.Context, oldName, newName string, link func() error) error {
	if v.quota == nil {
		return link()
	}
	_, leave, err := v.enterAndHold(ctx, false, oldName, newName)
	if err != nil {
		return err
	}
	defer leave()
	return v.quota.add(ctx, link)
}

type droppedKey struct{}

// Dropped tells the quota of the request with this context that the backend has removed a file that
// no request could find, since another one has its name: the leftover of an upload. info is what
// described it before, with its identity; see [Linked].
func Dropped(ctx context.Context, info fs.FileInfo) {
	if all, ok := ctx.Value(droppedKey{}).(*[]fs.FileInfo); ok {
		*all = append(*all, info)
	}
}

// run runs a change of entries that are held, and subtracts what the backend drops besides them.
func (q *Quota) run(ctx context.Context, held []entry,
	change func(ctx context.Context) error) error {
	var all []fs.FileInfo
	err := change(context.WithValue(ctx, droppedKey{}, &all))
	for _, info := range all {
		isDropped := func(e entry) bool {
			return e.err == nil && identityOf(e.info, "") == identityOf(info, "")
		}
		switch {
		case slices.ContainsFunc(held, isDropped): // nothing else had its name
		case linkCount(info) > 1:
			q.account.Settle(0, -1)
		default:
			q.account.Settle(-info.Size(), -1)
		}
	}
	return err
}

// quotaRemove runs remove, which removes a name.
func (v *View) quotaRemove(ctx context.Context, name string,
	remove func(ctx context.Context) error) error {
	switch {
	case v.quota == nil:
		return remove(ctx)
	case v.counts():
		return v.tallied(ctx, 0, 0, remove, name)
	}
	entries, leave, err := v.enterAndHold(ctx, false, name)
	if err != nil {
		return err
	}
	defer leave()
	if entries[0].err != nil {
		return entries[0].err
	}
	if err := v.quota.run(ctx, entries, remove); err != nil {
		return err
	}
	v.quota.gone(&entries[0])
	return nil
}

// quotaRmdir removes a directory, and subtracts the hidden files that go with it.
func (v *View) quotaRmdir(ctx context.Context, name string,
	remove func(ctx context.Context) error) error {
	hidden, ok := v.fs.(HiddenLister)
	if v.quota == nil || !ok || v.counts() {
		return v.quotaRemove(ctx, name, remove)
	}
	return v.quotaRemove(ctx, name, func(context.Context) error {
		var bytes, files int64
		for info, err := range hidden.ListHidden(ctx, name) {
			if err == nil {
				bytes, files = bytes+info.Size(), files+1
			}
		}
		err := remove(ctx) // which tells nobody what it drops
		if err == nil {
			v.quota.account.Settle(-bytes, -files)
		}
		return err
	})
}

// gone subtracts an entry that has lost its name.
func (q *Quota) gone(e *entry) { q.lost(e, max(linkCount(e.info), 1)-1) }

// lost subtracts a name of an entry that has so many others. After the last one the system keeps
// the contents until the file's handles are closed, and so does the count.
func (q *Quota) lost(e *entry, others uint64) {
	q.account.Settle(0, -1)
	f := e.file()
	if f == nil || others > 0 {
		return
	}
	q.inodes.unlink(f)
	if f.handles == 0 {
		q.settle(f, 0)
	}
}

// sharesCount reports whether a quota shares its count with one of the others.
func (q *Quota) sharesCount(others []*Quota) bool {
	return slices.ContainsFunc(others, func(o *Quota) bool { return o.quotaTree == q.quotaTree })
}

// Sweep runs remove, which removes the leftover of an upload that nobody goes on with, and
// subtracts the leftover from the quotas if remove says that this call has removed it. Paths of
// leftovers are told apart from those of other files. stat describes it as a quota counts it, or
// returns fs.ErrNotExist if it does not count. Of quotas that share a count, one is enough.
func Sweep(ctx context.Context, name string, stat func() (fs.FileInfo, error),
	remove func() (removed bool, err error), quotas ...*Quota) (removed bool, err error) {
	if len(quotas) == 0 {
		return remove()
	}
	q, others := quotas[0], quotas[1:]
	if q.sharesCount(others) {
		return Sweep(ctx, name, stat, remove, others...)
	}
	leave, err := q.changes.enter(ctx, false, name, path.Dir(name)) // RMDIR subtracts leftovers, too
	if err != nil {
		return false, err
	}
	defer leave()
	look := func(context.Context, string) (fs.FileInfo, error) { return stat() }
	entries, release := q.hold(ctx, look, nil, name)
	defer release()
	found := entries[0].err
	if found != nil && !errors.Is(found, fs.ErrNotExist) {
		return false, found
	}
	counts, err := q.known(ctx) // a count to come will not find it
	if err != nil {
		return false, err
	}
	removed, err = Sweep(ctx, name, stat, remove, others...)
	if removed && counts && found == nil {
		q.gone(&entries[0])
	}
	return removed, err
}

// quotaReplace runs rename, which may replace a file.
func (v *View) quotaReplace(ctx context.Context, oldName, newName string,
	rename func(ctx context.Context) error) error {
	switch {
	case v.quota == nil:
		return rename(ctx)
	case v.counts():
		return v.tallied(ctx, 0, 0, rename, oldName, newName)
	}
	entries, leave, err := v.enterAndHold(ctx, true, oldName, newName)
	if err != nil {
		return err
	}
	defer leave()
	source, target := &entries[0], &entries[1]
	err = v.quota.run(ctx, entries, rename)
	name := newName
	if err != nil {
		name = oldName
	}
	supplanted := v.supplanted(ctx, source, name)
	if err != nil {
		return err
	}
	switch {
	case source.err != nil || target.err != nil: // nothing was replaced
	case identityOf(source.info, oldName) != identityOf(target.info, newName):
		v.quota.gone(target)
	case !supplanted || linkCount(source.info) < 2 || v.samePath(ctx, oldName, newName):
		return nil // two names of one file, which POSIX leaves alone
	default: // the upload has replaced the file at both names
		v.quota.lost(target, linkCount(source.info)-2)
	}
	if !v.uploadsAtomically() { // otherwise what is open stays where it is
		v.quota.inodes.moved(oldName, newName)
	}
	return nil
}

// supplanted reports whether an upload has replaced the source of a rename just before it, so that
// the upload was renamed, and subtracts the source. name is where the rename has left it.
func (v *View) supplanted(ctx context.Context, source *entry, name string) bool {
	if source.file() == nil || !v.uploadsAtomically() {
		return false
	}
	now, err := lastLook(ctx, name, v.lstat)
	if err != nil || identityOf(now, name) == identityOf(source.info, name) {
		return false
	}
	v.quota.gone(source)
	return true
}

// quotaResize runs resize, which changes the size of the file called name.
func (v *View) quotaResize(ctx context.Context, name string, size uint64,
	resize func(ctx context.Context) error) error {
	switch {
	case v.quota == nil:
		return resize(ctx)
	case v.counts():
		return v.resizeCounted(ctx, name, size, resize)
	}
	leave, err := v.enter(ctx, false, name)
	if err != nil {
		return err
	}
	defer leave()
	entries, release := v.quota.hold(ctx, v.fs.Stat, nil, name)
	defer release()
	if entries[0].err != nil {
		return entries[0].err
	}
	f := entries[0].file()
	if f == nil {
		return resize(ctx) // which fails
	}
	return v.quota.resize(ctx, f, size, func() error { return resize(ctx) },
		func() (fs.FileInfo, error) { return lastLook(ctx, name, v.fs.Stat) })
}

// resize runs a change that includes a file's size, and may fail in another part. The caller holds
// the file's lock.
func (q *Quota) resize(ctx context.Context, f *inode, size uint64, resize func() error,
	stat func() (fs.FileInfo, error)) error {
	if size > 1<<62 {
		return ErrQuota
	}
	now := f.atLeast(int64(size))
	if growth := now - f.size; growth > 0 {
		if err := q.account.Reserve(ctx, growth, 0); err != nil {
			return err
		}
	}
	counted := max(f.size, now) // the part cut off is free only once it is gone
	err := resize()
	if err != nil {
		now = counted
		if info, statErr := stat(); statErr == nil {
			now = max(f.size, info.Size())
		}
	}
	q.account.Settle(now-counted, 0)
	f.resized(q, now)
	return err
}
