package objectfs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// Mkdir implements [server.Mkdirer]: it stores a marker.
func (f *FS) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	key := f.key(name)
	if err := f.creatable(ctx, key); err != nil {
		return err
	}
	// An upload of that name would become a file that hides the directory.
	if _, err := f.stat(ctx, key); !absent(err) {
		return orExists(err)
	}
	_, err := f.bucket.Put(ctx, key+"/", nothing(), Condition{Absent: true})
	if err == nil {
		f.known.add(key + "/")
	}
	return existing(err)
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
	if err := f.empty(ctx, key+"/"); err != nil {
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
	return unlessRefused(f.bucket.Delete(ctx, key+"/", ""))
}

// empty returns an error if a directory holds anything but its marker. One with contents is another
// program's data, which no path leads to.
func (f *FS) empty(ctx context.Context, dir string) error {
	for page, err := range f.pages(ctx, Query{Prefix: dir, Max: 2}) {
		if err != nil {
			return err
		}
		for _, o := range page.Objects {
			if o.Key != dir || o.Size > 0 {
				return errNotEmpty
			}
		}
	}
	waiting, err := f.uploads(ctx, dir, false)
	if err == nil && len(waiting) > 0 {
		err = errNotEmpty
	}
	return err
}

// Remove implements [server.Remover]. A file that a session is writing still appears when it is
// closed.
func (f *FS) Remove(ctx context.Context, name string) error {
	key := f.key(name)
	i, err := f.findStored(ctx, key)
	switch {
	case absent(err):
		return f.removeUpload(ctx, key, server.Condition(ctx))
	case err != nil:
		return err
	case i.dir:
		return errIsDirectory
	}
	f.known.forget()
	ctx, cancel := lasting(ctx)
	defer cancel()
	if server.Condition(ctx) != nil {
		return f.removeIf(ctx, key)
	}
	_, none := f.state.Find(ctx, key) // nothing is removed while the state does not answer
	if none != nil && !absent(none) {
		return none
	}
	// An object that has come since is another file, which nobody has asked to remove.
	if err := f.bucket.Delete(ctx, key, i.object.ETag); err != nil {
		return unlessRefused(err)
	}
	err = f.state.SetTime(ctx, key, i.object.ETag, time.Time{})
	if none == nil {
		err = errors.Join(err, f.dropUpload(ctx, key))
	}
	return server.Unsure(err)
}

// removeIf locks a file, and removes it if the condition of ctx holds for it.
func (f *FS) removeIf(ctx context.Context, key string) error {
	return f.locked(ctx, key, func(u Upload) error {
		i, err := f.statIf(ctx, key)
		if err != nil {
			return err
		}
		return unlessRefused(f.remove(ctx, i.object, u))
	})
}

// statIf stats a stored file, and fails unless the condition of ctx still holds for it.
func (f *FS) statIf(ctx context.Context, key string) (*info, error) {
	i, err := f.statStored(ctx, key)
	if err == nil && i.dir {
		err = errIsDirectory
	}
	if err == nil {
		err = server.Condition(ctx)(i)
	}
	return i, err
}

// dropUpload removes the upload pending at a name, if there is one that no session writes to: the
// name was removed, or given to another file.
func (f *FS) dropUpload(ctx context.Context, key string) error {
	err := f.removeUpload(ctx, key, nil)
	if absent(err) || errors.Is(err, ErrLocked) {
		return nil
	}
	return err
}

// removeUpload removes a pending upload, if a condition holds for it.
func (f *FS) removeUpload(ctx context.Context, key string, when func(fs.FileInfo) error) error {
	if _, err := f.state.Find(ctx, key); err != nil {
		return err
	}
	u, err := f.state.Lock(ctx, key)
	if err != nil {
		return err
	}
	if err := f.holds(ctx, u, when); err != nil {
		return errors.Join(err, f.state.Unlock(ctx, u, u.ID != ""))
	}
	return f.dropLocked(ctx, u)
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

// dropLocked removes a pending upload whose lock it releases.
func (f *FS) dropLocked(ctx context.Context, u Upload) error {
	err := f.abort(ctx, u)
	return errors.Join(err, f.state.Unlock(ctx, u, err != nil))
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
	switch {
	case absent(err):
		return f.setUploadTime(ctx, key, mtime)
	case err != nil || i.dir || mtime.IsZero():
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
	u, err := f.state.Lock(ctx, key)
	if err != nil {
		return err
	}
	u.MTime = mtime
	return f.state.Unlock(ctx, u, u.ID != "")
}
