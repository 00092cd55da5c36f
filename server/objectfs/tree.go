package objectfs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// Mkdir implements [server.Mkdirer]: it stores a marker. It locks the name: an upload that ends
// meanwhile would become a file that hides the directory.
func (f *FS) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	key := f.key(name)
	if err := f.creatable(ctx, key); err != nil {
		return err
	}
	u, err := f.lockSoon(ctx, key)
	if err != nil {
		if _, missing := f.findStored(ctx, key); missing == nil {
			return fs.ErrExist
		}
		return err
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	err = f.mark(ctx, u)
	return errors.Join(err, server.Unsure(f.unlock(ctx, u, u.ID != "")))
}

// reserves reports whether a lock is held for something else than a new file, which others would
// see.
func (u Upload) reserves() bool { return u.ID == "" && strings.HasSuffix(u.Target, "/") }

// mark makes a directory whose name u has locked, unless something has that name.
func (f *FS) mark(ctx context.Context, u Upload) error {
	_, err := f.findStored(ctx, u.Name)
	if absent(err) && u.ID != "" {
		_, err = f.describeUpload(ctx, u)
	}
	if !absent(err) {
		return orExists(err)
	}
	if err := f.state.Confirm(ctx, u); err != nil { // this process may have slept, too
		return err
	}
	marker := u.Name + "/"
	_, err = f.bucket.Put(ctx, marker, nothing(), Condition{Absent: true})
	lost := f.state.Confirm(ctx, u)
	if errors.Is(lost, ErrLocked) { // and who has the lock by now takes the marker for its own
		return server.Unsure(fs.ErrExist)
	}
	if err != nil && !refused(err) && lost == nil { // if it is there, only the answer was lost
		if _, missing := f.lookAgain(ctx, marker); missing == nil ||
			errors.Is(err, ErrPrecondition) && !absent(missing) {
			err = nil
		}
	}
	if err != nil {
		return unlessRefused(existing(err))
	}
	f.known.add(marker)
	tellMade(ctx, 0, nil)
	return nil
}

func nothing() *io.SectionReader { return io.NewSectionReader(bytes.NewReader(nil), 0, 0) }

func orExists(err error) error {
	if err == nil {
		return fs.ErrExist
	}
	return err
}

// creatable returns an error if nothing can be created at a key: it is too long, or its directory
// does not exist.
func (f *FS) creatable(ctx context.Context, key string) error {
	if len(key) >= MaxKey { // a directory's key has one more, a slash
		return errLongName
	}
	if key == f.prefix {
		return fs.ErrExist
	}
	parent := parentOf(key)
	if f.known.has(parent) {
		return nil
	}
	err := f.findDirectory(ctx, parent)
	if err == nil {
		f.known.add(parent)
	}
	return err
}

// Rmdir implements [server.Rmdirer].
func (f *FS) Rmdir(ctx context.Context, name string) error {
	key := f.key(name)
	if key == f.prefix {
		return fs.ErrPermission
	}
	i, err := f.stat(ctx, key)
	if err != nil {
		return err
	}
	if !i.dir {
		return errNotDirectory
	}
	return f.locked(ctx, key+"/", func(Upload) error { // another would count it, too
		marker, err := f.empty(ctx, key+"/")
		if err != nil {
			return err
		}
		left, err := f.uploads(ctx, key+"/", true) // nobody may go on with them elsewhere
		if err != nil {
			return err
		}
		for _, one := range left {
			if err := f.dropUpload(ctx, key+"/"+one.name); err != nil {
				return err
			}
		}
		f.known.forget()
		if marker == nil {
			return nil
		}
		if err := f.delete(ctx, *marker); !absent(err) {
			return unlessRefused(err)
		}
		return nil
	})
}

// empty returns the marker of a directory, if it has one, and an error if the directory holds
// anything else. A marker with contents is another program's data, which no path leads to.
func (f *FS) empty(ctx context.Context, dir string) (marker *Object, err error) {
	for page, err := range f.pages(ctx, Query{Prefix: dir, Max: 2}) {
		if err != nil {
			return nil, err
		}
		for _, o := range page.Objects {
			if o.Key != dir || o.Size > 0 {
				return nil, errNotEmpty
			}
			marker = &o
		}
	}
	waiting, err := f.uploads(ctx, dir, false)
	if err == nil && slices.ContainsFunc(waiting, func(i *info) bool { return !i.open }) {
		err = errNotEmpty
	}
	return marker, err
}

// Remove implements [server.Remover]. A file that a session is writing still appears when it is
// closed.
func (f *FS) Remove(ctx context.Context, name string) error {
	key := f.key(name)
	if len(key) > MaxKey {
		return errLongName
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	u, err := f.lockSoon(ctx, key) // nothing is removed while the state does not answer
	switch {
	case errors.Is(err, ErrLocked):
		return f.removeWritten(ctx, key)
	case err != nil:
		return err
	}
	if err := f.removeLocked(ctx, u); err != nil {
		return errors.Join(err, f.unlock(ctx, u, u.ID != ""))
	}
	return server.Unsure(f.settle(ctx, u, key, "", time.Time{}))
}

// lockSoon takes the lock of a name, and waits a little for it: if two sessions remove a file at the
// same moment, only one of them may count it.
func (f *FS) lockSoon(ctx context.Context, key string) (u Upload, err error) {
	for wait := f.pause; ; wait *= 2 {
		u, err = f.lock(ctx, key)
		if !errors.Is(err, ErrLocked) || wait > 30*f.pause {
			return u, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return u, err
		}
	}
}

// removeLocked removes what is at a name that u has locked: an object, and what is left of an
// upload.
func (f *FS) removeLocked(ctx context.Context, u Upload) error {
	i, err := f.statIf(ctx, u.Name)
	switch {
	case absent(err) && u.ID != "":
		if err := f.holds(ctx, u, server.Condition(ctx)); err != nil {
			return err
		}
		return f.abort(ctx, u)
	case err != nil:
		return err
	}
	if err := f.state.Confirm(ctx, u); err != nil { // this process may have slept
		return err
	}
	f.known.forget()
	// An object that has come since is another file, which nobody has asked to remove.
	if err := f.delete(ctx, i.object); err != nil && !absent(err) {
		return unlessRefused(err)
	}
	return server.Unsure(f.abort(ctx, u))
}

// removeWritten removes the object at a name that a session writes to.
func (f *FS) removeWritten(ctx context.Context, key string) error {
	i, err := f.findStored(ctx, key)
	switch {
	case absent(err) || err == nil && server.Condition(ctx) != nil:
		return ErrLocked
	case err != nil:
		return err
	case i.dir:
		return errIsDirectory
	}
	f.known.forget()
	if err := f.delete(ctx, i.object); err != nil && !absent(err) {
		return unlessRefused(err)
	}
	return server.Unsure(f.state.SetTime(ctx, key, i.object.ETag, time.Time{}))
}

// statIf finds a stored file, and fails unless the condition of ctx, if there is one, still holds
// for it.
func (f *FS) statIf(ctx context.Context, key string) (i *info, err error) {
	holds := server.Condition(ctx)
	if holds == nil {
		i, err = f.findStored(ctx, key)
	} else {
		i, err = f.statStored(ctx, key)
	}
	if err == nil && i.dir {
		err = errIsDirectory
	}
	if err == nil && holds != nil {
		err = holds(i)
	}
	return i, err
}

// dropUpload removes the upload pending at a name, if there is one that no session writes to: the
// name was removed, or given to another file.
func (f *FS) dropUpload(ctx context.Context, key string) error {
	err := f.removeUpload(ctx, key)
	if absent(err) || errors.Is(err, ErrLocked) {
		return nil
	}
	return err
}

// removeUpload removes a pending upload.
func (f *FS) removeUpload(ctx context.Context, key string) error {
	if _, err := f.state.Find(ctx, key); err != nil {
		return err
	}
	u, err := f.lock(ctx, key)
	if err != nil {
		return err
	}
	err = f.abort(ctx, u)
	return errors.Join(err, f.unlock(ctx, u, err != nil))
}

// holds returns an error if there is a condition, and it does not hold for an upload.
func (f *FS) holds(ctx context.Context, u Upload, when func(fs.FileInfo) error) error {
	if when == nil {
		return nil
	}
	i, err := f.describeUpload(ctx, u)
	if err == nil {
		err = when(i)
	}
	return err
}

// abort drops the stored parts of an upload.
func (f *FS) abort(ctx context.Context, u Upload) error {
	if u.ID == "" {
		return nil
	}
	if err := f.bucket.Abort(ctx, u.Target, u.ID); !absent(err) {
		return err
	}
	return nil
}

// Setstat implements [server.Setstater].
func (f *FS) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	if err := f.unwanted(attrs); err != nil {
		return err
	}
	if attrs.Has(wire.AttrSize) {
		return f.resize(ctx, name, attrs)
	}
	key, mtime := f.key(name), mtimeOf(attrs)
	i, err := f.findStored(ctx, key)
	if absent(err) {
		if err := f.setUploadTime(ctx, key, mtime); !absent(err) {
			return err
		}
		i, err = f.findStored(ctx, key) // it may have been completed meanwhile
	}
	if err != nil || i.dir || mtime.IsZero() {
		return err
	}
	return f.setTime(ctx, key, "", mtime)
}

// setTime sets the time of a stored file, if etag is not "" only of that with it. It locks the
// file: the time of one stored meanwhile would be lost.
func (f *FS) setTime(ctx context.Context, key, etag string, mtime time.Time) error {
	return f.locked(ctx, key, func(u Upload) error {
		i, err := f.findStored(ctx, key)
		switch {
		case etag != "" && (absent(err) || err == nil && i.object.ETag != etag):
			return errReplaced
		case err != nil || i.dir:
			return err
		}
		return f.stamp(ctx, u, i.object, mtime)
	})
}

// stamp sets the time of an object, whose lock u has, unless another session has it by now: the
// time of that one's object would be lost.
func (f *FS) stamp(ctx context.Context, u Upload, o Object, mtime time.Time) error {
	if err := f.state.Confirm(ctx, u); err != nil {
		return err
	}
	return f.state.SetTime(ctx, o.Key, o.ETag, mtime)
}

// resize changes the length and the times of a file.
func (f *FS) resize(ctx context.Context, name string, attrs wire.Attrs) error {
	w, err := f.openWriter(ctx, f.key(name), wire.OpenWrite)
	if err != nil {
		return err
	}
	if w.base == nil { // this must not make an abandoned upload appear
		return errors.Join(errUnfinished, w.Close())
	}
	if err := w.Setstat(attrs); err != nil {
		return errors.Join(err, w.Abandon())
	}
	return w.Close()
}

// setUploadTime sets the time of a pending upload, which its object will get.
func (f *FS) setUploadTime(ctx context.Context, key string, mtime time.Time) error {
	if _, err := f.state.Find(ctx, key); err != nil || mtime.IsZero() {
		return err
	}
	u, err := f.lock(ctx, key)
	if err != nil {
		return err
	}
	if u.MTime = mtime; u.ID == "" {
		return errors.Join(fs.ErrNotExist, f.unlock(ctx, u, false))
	}
	return f.unlock(ctx, u, true)
}
