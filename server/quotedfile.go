package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/usftp/usftp/wire"
)

// quotaOpen opens a file for writing.
func (v *View) quotaOpen(ctx context.Context, name string, flags uint32, attrs *wire.Attrs,
	open func(ctx context.Context) (File, error)) (File, error) {
	q := v.quota
	switch {
	case q == nil || flags&writing == 0:
		return open(ctx)
	case v.counts():
		return v.openCounted(ctx, name, flags, open)
	}
	leave, err := v.enter(ctx, false, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	entries, release := q.hold(ctx, v.fs.Stat, nil, name)
	opened := false
	defer unless(&opened, release)
	o := opening{v: v, name: name, before: &entries[0]}
	if err := o.reserve(ctx, flags, attrs); err != nil {
		return nil, err
	}
	file, info, err := o.run(ctx, entries, open)
	if err != nil {
		o.failed(ctx)
		return nil, err
	}
	f := o.before.file()
	if opened = f != nil && q.inodes.keyOf(f) == identityOf(info, name); !opened {
		o.superseded(ctx)
		opened = true
		if f, err = o.other(ctx, file, info, release); err != nil {
			end(file, Abandoned)
			return nil, err
		}
	}
	defer f.mu.Unlock()
	if f.handles == 0 || flags&wire.OpenTruncate != 0 { // opening may have truncated it
		q.settle(f, f.atLeast(o.size(ctx, info)))
	}
	f.handles, f.opened = f.handles+1, true
	return &quotedFile{wrappedFile: wrappedFile{file}, ctx: ctx, v: v, inode: f, name: name,
		append: flags&wire.OpenAppend != 0}, nil
}

// opening is an OPEN for writing under way. It opens the file that had the name before, a new one,
// or, where files appear when they are closed, one that has no name yet.
type opening struct {
	v       *View
	name    string
	before  *entry // what had the name, and is held
	isNew   bool   // nothing had it: a file is reserved
	charged int64  // the bytes that are reserved with it
}

// reserve reserves the file that is to be made, if any.
func (o *opening) reserve(ctx context.Context, flags uint32, attrs *wire.Attrs) error {
	switch {
	case o.before.err == nil:
		return nil
	case !errors.Is(o.before.err, fs.ErrNotExist):
		return o.before.err
	case flags&wire.OpenCreate == 0:
		return nil
	}
	o.isNew = true
	if attrs.Has(wire.AttrSize) {
		o.charged = int64(min(attrs.Size, 1<<62))
	}
	return o.v.quota.account.Reserve(ctx, o.charged, 1)
}

// run opens the file, and describes it.
func (o *opening) run(ctx context.Context, held []entry,
	open func(ctx context.Context) (File, error)) (file File, info fs.FileInfo, err error) {
	err = o.v.quota.run(ctx, held, func(ctx context.Context) (err error) {
		file, err = open(ctx)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if info, err = o.v.statOpen(ctx, file, o.name); err != nil {
		end(file, Abandoned)
	}
	return file, info, err
}

// failed corrects the count after an OPEN that has failed. It may all the same have made the file
// that was reserved, or have emptied or dropped the one there was before.
func (o *opening) failed(ctx context.Context) {
	q, f := o.v.quota, o.before.file()
	now, err := lastLook(ctx, o.name, o.v.fs.Stat)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing: // nobody knows
	case o.isNew && missing:
		q.account.Settle(-o.charged, -1)
	case o.isNew:
		q.account.Settle(min(now.Size(), o.charged)-o.charged, 0)
	case f == nil:
	case missing || identityOf(now, o.name) != q.inodes.keyOf(f):
		q.gone(o.before)
		if !missing {
			q.account.Settle(now.Size(), 1)
		}
	case f.handles == 0:
		q.settle(f, now.Size())
	}
}

// superseded subtracts the file that had the name before, if it has lost it to the one that was
// opened.
func (o *opening) superseded(ctx context.Context) {
	f := o.before.file()
	if f == nil {
		return
	}
	now, err := lastLook(ctx, o.name, o.v.fs.Stat)
	if errors.Is(err, fs.ErrNotExist) ||
		err == nil && identityOf(now, o.name) != o.v.quota.inodes.keyOf(f) {
		o.v.quota.gone(o.before)
	}
}

// other releases what is held, and instead locks the file that was opened.
func (o *opening) other(ctx context.Context, file File, info fs.FileInfo,
	release func()) (*inode, error) {
	q, key := o.v.quota, identityOf(info, o.name)
	defer q.inodes.leave(q.inodes.use(key)) // its other handles may end before it is locked
	release()
	f, atomic := q.inodes.lock(key), o.v.uploadsAtomically()
	if atomic && !f.opened && !o.isNew { // next to a file that it will replace
		if err := q.account.Reserve(ctx, 0, 1); err != nil {
			q.release(f)
			return nil, err
		}
	}
	if !f.known {
		f.known, f.size = true, o.charged
	}
	if now, err := o.v.statOpen(ctx, file, o.name); err == nil && atomic && linkCount(now) == 0 {
		q.inodes.unlink(f) // it was removed since it was opened, and subtracted
	}
	return f, nil
}

// size returns the size that the file just opened counts for. Where it is known by its name, the
// old contents may stay until the new ones are complete, and count until then.
func (o *opening) size(ctx context.Context, info fs.FileInfo) (size int64) {
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	if name, ok := identityOf(info, o.name).(string); ok && o.before.file() != nil {
		if visible, err := o.v.fs.Stat(ctx, name); err == nil {
			size = max(size, visible.Size())
		}
	}
	return size
}

// quotedFile is a File under a quota. It has every method that a File may have.
type quotedFile struct {
	wrappedFile
	ctx    context.Context // of the session
	v      *View
	inode  *inode
	name   string
	append bool
	once   sync.Once
}

// reserve reserves space for length bytes at offset or, for a file opened for appending, at the end
// of all reservations. A range that several handles write to is reserved once. When the write has
// ended, written must be called with the same offset and length.
func (f *quotedFile) reserve(offset, length int64) error {
	f.inode.mu.Lock()
	defer f.inode.mu.Unlock()
	end := offset + length
	if f.append {
		end = f.inode.size + length
	}
	if growth := end - f.inode.size; growth > 0 {
		if err := f.v.quota.account.Reserve(f.ctx, growth, 0); err != nil {
			return err
		}
		f.inode.resized(f.v.quota, end)
	}
	if f.append {
		f.inode.appended += length
	} else {
		f.inode.ends = append(f.inode.ends, end)
	}
	return nil
}

func (f *quotedFile) written(offset, length int64) {
	f.inode.mu.Lock()
	defer f.inode.mu.Unlock()
	if f.append {
		f.inode.appended -= length
	} else if i := slices.Index(f.inode.ends, offset+length); i >= 0 {
		f.inode.ends = slices.Delete(f.inode.ends, i, i+1)
	}
}

// WriteAt keeps the reservation if a write fails: the amount written is unknown until Close.
func (f *quotedFile) WriteAt(p []byte, offset int64) (int, error) {
	writer, ok := f.File.(io.WriterAt)
	if !ok {
		return 0, errUnsupported
	}
	if err := f.reserve(offset, int64(len(p))); err != nil {
		return 0, err
	}
	defer f.written(offset, int64(len(p)))
	return writer.WriteAt(p, offset)
}

func (f *quotedFile) CopyFrom(ctx context.Context, source File, from, length,
	to int64) (int64, error) {
	copier, ok := f.File.(FileCopier)
	if !ok || f.append { // its writes reserve what they append
		return 0, errors.ErrUnsupported
	}
	if quoted, ok := source.(*quotedFile); ok {
		source = quoted.File
	}
	stater, ok := source.(FileStater)
	if !ok {
		return 0, errors.ErrUnsupported // the session copies piece by piece
	}
	info, err := stater.Stat()
	if err != nil {
		return 0, err
	}
	length = min(length, max(0, info.Size()-from))
	if err := f.reserve(to, length); err != nil {
		return 0, err
	}
	defer f.written(to, length)
	return copier.CopyFrom(ctx, source, from, length, to)
}

func (f *quotedFile) Setstat(attrs wire.Attrs) error {
	setstater, ok := f.File.(FileSetstater)
	if !ok {
		return errUnsupported
	}
	if !attrs.Has(wire.AttrSize) {
		return setstater.Setstat(attrs)
	}
	f.inode.mu.Lock()
	defer f.inode.mu.Unlock()
	set := func() error { return setstater.Setstat(attrs) }
	return f.v.quota.resize(f.ctx, f.inode, attrs.Size, set, f.Stat)
}

// Close corrects the count to the file's actual size, if the backend can report it.
func (f *quotedFile) Close() error { return f.end(Closed) }

// end ends a handle, and with the last one corrects the count.
func (f *quotedFile) end(how Ending) (err error) {
	again := true
	f.once.Do(func() {
		again = false
		err = f.endOnce(how)
	})
	if again {
		return end(f.File, how)
	}
	return err
}

func (f *quotedFile) endOnce(how Ending) (err error) {
	if f.inode.tally != nil {
		return f.endCounted(how)
	}
	q := f.v.quota
	defer q.inodes.leave(f.inode)
	if ender, ok := f.File.(FileEnder); ok {
		return f.endReplacing(ender, how)
	}
	f.inode.mu.Lock()
	defer f.inode.mu.Unlock()
	info, statErr := f.Stat()
	err = end(f.File, how)
	f.ended(info, statErr)
	return err
}

// endReplacing ends a handle of a file that may take over a name now, and holds what has that name.
func (f *quotedFile) endReplacing(ender FileEnder, how Ending) error {
	q := f.v.quota
	look := func(context.Context, string) (fs.FileInfo, error) { return ender.Replaces() }
	entries, release := q.hold(f.ctx, look, f.inode, f.name)
	defer release()
	info, statErr := f.Stat()
	gone, err := ender.End(how)
	switch at := &entries[0]; {
	case gone == nil:
	case statErr != nil || identityOf(gone, f.name) == identityOf(info, f.name): // it is this one
		if !f.inode.unlinked {
			q.gone(&entry{info: gone, lock: f.inode})
		}
	case at.file() != nil && identityOf(gone, f.name) == q.inodes.keyOf(at.lock):
		q.gone(at)
	default: // a link, or a file that another program has just put there
		q.account.Settle(0, -1)
	}
	f.ended(info, statErr)
	return err
}

// ended counts a handle less. After the last one the file counts for its actual size. info and err
// described it before the handle was closed.
func (f *quotedFile) ended(info fs.FileInfo, err error) {
	q, size := f.v.quota, f.inode.size
	if f.inode.handles--; f.inode.handles > 0 {
		return
	}
	switch name, named := q.inodes.keyOf(f.inode).(string); {
	case f.inode.unlinked:
		size = 0
	case named:
		size = f.kept(name)
	case err == nil && info.Mode().IsRegular():
		size = info.Size()
	}
	q.settle(f.inode, size)
}

// kept returns the size of a file that is known by its name, after its last handle has ended. It
// may have appeared only now, and an abandoned file may be kept wholly, in part or not at all.
func (f *quotedFile) kept(name string) int64 {
	info, err := lastLook(WithBeneath(f.ctx, ""), name, f.v.fs.Stat)
	switch {
	case err == nil:
		return info.Size()
	case errors.Is(err, fs.ErrNotExist):
		f.v.quota.account.Settle(0, -1)
		f.v.quota.inodes.unlink(f.inode) // others may have seen it before they waited for it
		return 0
	}
	return f.inode.size
}
