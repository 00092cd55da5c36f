package server

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/usftp/usftp/wire"
)

// A grip is the file found at a path. A regular file is locked.
type grip struct {
	info   fs.FileInfo
	err    error
	file   *quotaFile
	locked *quotaFile // file, or what has its name if there is none
}

// grip takes hold of the files at one or two paths. The caller has entered a change of them. Unless
// also is nil, it locks that file, which has a handle, too. Where there is no file it locks the
// name: an upload that ends now may make it appear.
func (q *Quota) grip(stat func(name string) (fs.FileInfo, error), also *quotaFile,
	names ...string) (grips []grip, release func()) {
	for {
		before := q.files.endings()
		grips = grips[:0]
		var files []*quotaFile
		if also != nil {
			files = append(files, q.files.hold(also))
		}
		for _, name := range names {
			g, key := grip{}, any(name)
			g.info, g.err = stat(name)
			regular := g.err == nil && g.info.Mode().IsRegular()
			if regular {
				key = identityOf(g.info, name)
			}
			if regular || errors.Is(g.err, fs.ErrNotExist) {
				g.locked = q.files.use(key)
				if len(files) == 0 || files[0] != g.locked {
					files = append(files, g.locked)
				} else {
					q.files.leave(g.locked) // two names of one file
				}
			}
			if regular {
				g.file = g.locked
			}
			grips = append(grips, g)
		}
		lockInOrder(files)
		release = func() {
			for _, f := range files {
				q.release(f)
			}
		}
		ok := true
		for i := range grips {
			ok = ok && q.holds(&grips[i], names[i], before, stat)
		}
		if ok {
			return grips, release
		}
		release()
	}
}

// release unlocks a file and leaves it.
func (q *Quota) release(f *quotaFile) {
	f.mu.Unlock()
	q.files.leave(f)
}

// holds reports whether the findings from before a file was locked are still true. Others may have
// changed it meanwhile by another name.
func (q *Quota) holds(g *grip, name string, before uint64,
	stat func(name string) (fs.FileInfo, error)) bool {
	f := g.file
	if f == nil {
		return g.locked == nil || !g.locked.known && q.files.endings() == before ||
			stillMissing(name, stat)
	}
	key := q.files.keyOf(f)
	_, named := key.(string)
	if f.known && !named || !f.known && q.files.endings() != before {
		if g.info, g.err = stat(name); g.err != nil || !g.info.Mode().IsRegular() {
			return false
		}
	}
	if f.unlinked || identityOf(g.info, name) != key {
		return false
	}
	if !f.known {
		f.known, f.size = true, g.info.Size()
	}
	return true
}

// stillMissing reports whether there is no file at a path.
func stillMissing(name string, stat func(name string) (fs.FileInfo, error)) bool {
	_, err := stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// enter waits for the changes that concern these names, and counts the tree unless that is already
// done. moves marks a change after which other paths may lead elsewhere: with links or "..", any
// path may.
func (v *View) enter(ctx context.Context, moves bool, names ...string) (leave func(), err error) {
	if err := v.quota.ready(ctx, v); err != nil {
		return nil, err
	}
	if _, links := v.fs.(Symlinker); moves && (links || v.walks) {
		return v.quota.changes.enter(ctx, true, "/")
	}
	if !v.uploadsAtomically() {
		return v.quota.changes.enter(ctx, moves, names...)
	}
	// Two uploads of one file are two files, connected only by the name.
	for {
		real := v.realPaths(ctx, names)
		if leave, err = v.quota.changes.enter(ctx, moves, real...); err != nil ||
			slices.Equal(real, v.realPaths(ctx, names)) {
			return leave, err
		}
		leave()
	}
}

// realPaths resolves the paths that can be resolved.
func (v *View) realPaths(ctx context.Context, names []string) (real []string) {
	for _, name := range names {
		if resolved, err := v.realPath(ctx, name); err == nil {
			name = resolved
		}
		real = append(real, name)
	}
	return real
}

// enterWith enters a change and takes hold of the files at the names, without following links. The
// change moves if one of them is a link, or a directory and directories is set.
func (v *View) enterWith(ctx context.Context, directories bool,
	names ...string) (grips []grip, leave func(), err error) {
	lstat := func(name string) (fs.FileInfo, error) { return v.lstat(ctx, name) }
	for moves := false; ; moves = true {
		left, err := v.enter(ctx, moves, names...)
		if err != nil {
			return nil, nil, err
		}
		grips, release := v.quota.grip(lstat, nil, names...)
		leave = func() {
			release()
			left()
		}
		harmless := true
		for _, g := range grips {
			harmless = harmless && (g.err != nil || g.file != nil || g.info.IsDir() && !directories)
		}
		if moves || harmless {
			return grips, leave, nil
		}
		leave()
	}
}

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
	_, leave, err := v.enterWith(ctx, false, oldName, newName)
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

// run runs a change of files that are held, and subtracts what the backend drops besides them.
func (q *Quota) run(ctx context.Context, held []grip,
	change func(ctx context.Context) error) error {
	var all []fs.FileInfo
	err := change(context.WithValue(ctx, droppedKey{}, &all))
	for _, info := range all {
		isIt := func(g grip) bool {
			return g.err == nil && identityOf(g.info, "") == identityOf(info, "")
		}
		switch {
		case slices.ContainsFunc(held, isIt): // nothing else had its name
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
	grips, leave, err := v.enterWith(ctx, false, name)
	if err != nil {
		return err
	}
	defer leave()
	if grips[0].err != nil {
		return grips[0].err
	}
	if err := v.quota.run(ctx, grips, remove); err != nil {
		return err
	}
	v.quota.gone(&grips[0])
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

// gone subtracts the file that has lost this name.
func (q *Quota) gone(g *grip) { q.lost(g, max(linkCount(g.info), 1)-1) }

// lost subtracts a name of a file that has some left. The system keeps an open file's contents
// until it is closed, and so does the count.
func (q *Quota) lost(g *grip, left uint64) {
	q.account.Settle(0, -1)
	f := g.file
	if f == nil || left > 0 {
		return
	}
	f.unlinked = true
	q.files.unlink(f)
	if f.handles == 0 {
		q.account.Settle(-f.size, 0)
		f.size = 0
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
	grips, release := q.grip(func(string) (fs.FileInfo, error) { return stat() }, nil, name)
	defer release()
	found := grips[0].err
	if found != nil && !errors.Is(found, fs.ErrNotExist) {
		return false, found
	}
	counts, err := q.known(ctx) // a count to come will not find it
	if err != nil {
		return false, err
	}
	removed, err = Sweep(ctx, name, stat, remove, others...)
	if removed && counts && found == nil {
		q.gone(&grips[0])
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
	grips, leave, err := v.enterWith(ctx, true, oldName, newName)
	if err != nil {
		return err
	}
	defer leave()
	source, replaced := &grips[0], &grips[1]
	err = v.quota.run(ctx, grips, rename)
	uploaded := source.file != nil && v.uploadsAtomically() &&
		v.sourceReplaced(ctx, source, oldName, newName, err == nil)
	if err != nil {
		return err
	}
	switch {
	case source.err != nil || replaced.err != nil:
	case identityOf(source.info, oldName) != identityOf(replaced.info, newName):
		v.quota.gone(replaced)
	case !uploaded || linkCount(source.info) < 2 || v.samePath(ctx, oldName, newName):
		return nil // two names of one file, which POSIX leaves alone
	default: // an upload had the old name, and now has both
		v.quota.lost(replaced, linkCount(source.info)-2)
	}
	if !v.uploadsAtomically() { // otherwise what is open stays where it is
		v.quota.files.moved(oldName, newName)
	}
	return nil
}

// samePath reports whether two paths lead to one name.
func (v *View) samePath(ctx context.Context, a, b string) bool {
	real := v.realPaths(ctx, []string{a, b})
	return real[0] == real[1]
}

// sourceReplaced subtracts the file that had the old name if an upload replaced it before it was
// renamed: another file then has the name, or the new one.
func (v *View) sourceReplaced(ctx context.Context, source *grip, oldName, newName string,
	renamed bool) bool {
	name := oldName
	if renamed {
		name = newName
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
	stat := func(name string) (fs.FileInfo, error) { return v.fs.Stat(ctx, name) }
	grips, release := v.quota.grip(stat, nil, name)
	defer release()
	switch {
	case grips[0].err != nil:
		return grips[0].err
	case grips[0].file == nil:
		return resize(ctx) // which fails
	}
	return v.quota.resize(ctx, grips[0].file, size, func() error { return resize(ctx) },
		func() (fs.FileInfo, error) { return lastLook(ctx, name, v.fs.Stat) })
}

// resize runs a change that includes a file's size, and may fail in another part. The caller holds
// the file's lock.
func (q *Quota) resize(ctx context.Context, f *quotaFile, size uint64, resize func() error,
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

// quotaOpen opens a file for writing.
func (v *View) quotaOpen(ctx context.Context, name string, flags uint32, attrs *wire.Attrs,
	open func(ctx context.Context) (File, error)) (file File, err error) {
	q := v.quota
	if q == nil || flags&writing == 0 {
		return open(ctx)
	}
	if v.counts() {
		return v.openCounted(ctx, name, flags, open)
	}
	leave, err := v.enter(ctx, false, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	stat := func(name string) (fs.FileInfo, error) { return v.fs.Stat(ctx, name) }
	grips, release := q.grip(stat, nil, name)
	before, charged := &grips[0], int64(0)
	if before.err != nil && !errors.Is(before.err, fs.ErrNotExist) {
		return nil, before.err // nothing is held
	}
	isNew := errors.Is(before.err, fs.ErrNotExist) && before.file == nil &&
		flags&wire.OpenCreate != 0
	if isNew {
		if attrs.Has(wire.AttrSize) {
			charged = int64(min(attrs.Size, 1<<62))
		}
		if err := q.account.Reserve(ctx, charged, 1); err != nil {
			release()
			return nil, err
		}
	}
	var info fs.FileInfo
	if err = q.run(ctx, grips, func(ctx context.Context) (err error) {
		file, err = open(ctx)
		return err
	}); err == nil {
		if info, err = v.statOpen(ctx, file, name); err != nil {
			end(file, Abandoned)
		}
	}
	if err != nil {
		v.unopened(ctx, name, before, isNew, charged)
		release()
		return nil, err
	}
	key := identityOf(info, name)
	f := before.file
	if f == nil || q.files.keyOf(f) != key {
		v.superseded(ctx, before, name)
		defer q.files.leave(q.files.use(key)) // its other handles may end before it is locked
		release()
		f = q.files.lock(key)
		if !f.opened && !isNew && v.uploadsAtomically() { // next to a file that it will replace
			if err := q.account.Reserve(ctx, 0, 1); err != nil {
				q.release(f)
				end(file, Abandoned)
				return nil, err
			}
		}
		if !f.known {
			f.known, f.size = true, charged
		}
		// It may have been removed since it was opened, and subtracted.
		if now, err := v.statOpen(ctx, file, name); err == nil && v.uploadsAtomically() &&
			linkCount(now) == 0 {
			f.unlinked = true
			q.files.unlink(f)
		}
	}
	defer f.mu.Unlock()
	if f.handles == 0 || flags&wire.OpenTruncate != 0 { // opening may have truncated it
		now := f.atLeast(v.sizeOf(ctx, info, key, before))
		q.account.Settle(now-f.size, 0)
		f.size = now
	}
	f.handles, f.opened = f.handles+1, true
	return &quotedFile{wrappedFile: wrappedFile{file}, ctx: ctx, v: v, f: f, name: name,
		append: flags&wire.OpenAppend != 0}, nil
}

// unopened corrects the count after an OPEN that has failed. It may all the same have made the file
// that was reserved, if isNew, or have emptied or dropped the one there was before.
func (v *View) unopened(ctx context.Context, name string, before *grip, isNew bool,
	charged int64) {
	q, f := v.quota, before.file
	now, err := lastLook(ctx, name, v.fs.Stat)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing: // nobody knows
	case isNew && missing:
		q.account.Settle(-charged, -1)
	case isNew:
		q.account.Settle(min(now.Size(), charged)-charged, 0)
	case f == nil:
	case missing || identityOf(now, name) != q.files.keyOf(f):
		q.gone(before)
		if !missing {
			q.account.Settle(now.Size(), 1)
		}
	case f.handles == 0:
		q.account.Settle(now.Size()-f.size, 0)
		f.size = now.Size()
	}
}

// superseded subtracts a file that has lost its name to the one that was opened.
func (v *View) superseded(ctx context.Context, before *grip, name string) {
	if before.file == nil {
		return
	}
	now, err := lastLook(ctx, name, v.fs.Stat)
	if errors.Is(err, fs.ErrNotExist) ||
		err == nil && identityOf(now, name) != v.quota.files.keyOf(before.file) {
		v.quota.gone(before)
	}
}

// lastLooks limits how long a backend may take for a last look.
const lastLooks = 10 * time.Second

// lastLook describes a file for a request whose session may be over.
func lastLook(ctx context.Context, name string,
	look func(ctx context.Context, name string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLooks)
	defer cancel()
	return look(ctx, name)
}

// sizeOf returns the size that a file just opened counts for. Where a file is known by its name,
// the old contents may stay until the new ones are complete, and count until then.
func (v *View) sizeOf(ctx context.Context, info fs.FileInfo, key any, before *grip) (size int64) {
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	if name, ok := key.(string); ok && before.file != nil {
		if visible, err := v.fs.Stat(ctx, name); err == nil {
			size = max(size, visible.Size())
		}
	}
	return size
}

// statOpen describes an open file or directory; file is nil for a directory.
func (v *View) statOpen(ctx context.Context, file File, name string) (fs.FileInfo, error) {
	if stater, ok := file.(FileStater); ok {
		if info, err := stater.Stat(); !errors.Is(err, errors.ErrUnsupported) {
			return info, err
		}
	}
	return v.fs.Stat(ctx, name)
}

// sizeOpen returns the size of an open file, or -1 if only its name could tell: that may belong to
// another file.
func sizeOpen(file File) int64 {
	if stater, ok := file.(FileStater); ok {
		if info, err := stater.Stat(); err == nil {
			return info.Size()
		}
	}
	return -1
}
