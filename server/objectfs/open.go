package objectfs

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

var errUnfinished = errors.New(
	"the upload has not been completed and renamed: until then it cannot be read")

// UploadsAtomically implements [server.AtomicUploader].
func (f *FS) UploadsAtomically() bool { return true }

// Upload implements [server.AtomicUploader].
func (f *FS) Upload(ctx context.Context, name string) (fs.FileInfo, error) {
	key := f.key(name)
	u, err := f.state.Find(ctx, key)
	if err != nil {
		return nil, err
	}
	switch _, err := f.findStored(ctx, key); {
	case err == nil || u.Closed:
		return nil, fs.ErrNotExist
	case !absent(err):
		return nil, err
	}
	return f.describeUpload(ctx, u)
}

// Open implements [server.Opener].
func (f *FS) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	key := f.key(name)
	if flags&wire.OpenWrite == 0 && flags&(wire.OpenCreate|wire.OpenTruncate) == 0 {
		return f.openReader(ctx, name)
	}
	w, err := f.openWriter(ctx, key, flags)
	if err != nil {
		return nil, err
	}
	if w.base == nil && w.upload.ID == "" {
		attrs.Flags &^= wire.AttrPermissions | wire.AttrUIDGID
		if err := w.Setstat(attrs); err != nil {
			return nil, errors.Join(err, w.Abandon())
		}
	}
	if flags&wire.OpenWrite != 0 {
		return w, nil
	}
	if err := w.Close(); err != nil { // the client wants to create or truncate it, and read
		return nil, err
	}
	return f.openReader(ctx, name)
}

func (f *FS) openReader(ctx context.Context, name string) (server.File, error) {
	key := f.key(name)
	i, err := f.statStored(ctx, key)
	if absent(err) {
		if _, missing := f.state.Find(ctx, key); missing == nil {
			return nil, errUnfinished
		}
		i, err = f.statStored(ctx, key) // it may have been completed meanwhile
	}
	switch {
	case err != nil:
		return nil, err
	case i.dir:
		return nil, errIsDirectory
	}
	return newReader(ctx, f, i), nil
}

// openWriter locks a key, and finds the object or upload there.
func (f *FS) openWriter(ctx context.Context, key string, flags uint32) (*writer, error) {
	if len(key) > MaxKey {
		return nil, errLongName
	}
	upload, err := f.lockFor(ctx, key, FinalName(key))
	if err != nil {
		return nil, err
	}
	w := newWriter(ctx, f, key, upload)
	w.appends = flags&wire.OpenAppend != 0
	if err := w.prepare(ctx, flags); err != nil {
		w.stop()
		return nil, errors.Join(err, f.unlock(ctx, w.upload, w.upload.ID != ""))
	}
	return w, nil
}

// prepare decides between a new file, a pending upload to resume, and a change of the stored
// object.
func (w *writer) prepare(ctx context.Context, flags uint32) error {
	i, err := w.fs.findStored(ctx, w.key)
	switch {
	case absent(err):
		return w.prepareNew(ctx, flags)
	case err != nil:
		return err
	case i.dir:
		return errIsDirectory
	case flags&wire.OpenCreate != 0 && flags&wire.OpenExclusive != 0:
		return fs.ErrExist
	}
	w.base = &i.object
	if err := w.discard(ctx); err != nil { // the object is newer than the upload
		return err
	}
	if flags&wire.OpenTruncate == 0 {
		w.size, w.shows = i.size, i.size
		w.when.ETag = i.object.ETag
	} else {
		w.dirty = true
	}
	return nil
}

func (w *writer) prepareNew(ctx context.Context, flags uint32) error {
	pending := w.upload.ID != ""
	switch {
	case w.upload.Closed && flags&wire.OpenCreate != 0 && flags&wire.OpenExclusive != 0:
		return fs.ErrExist
	case pending && flags&(wire.OpenTruncate|wire.OpenExclusive) == 0:
		err := w.resume(ctx)
		if !absent(err) || flags&wire.OpenCreate == 0 {
			return err
		}
		w.mtime = time.Time{} // the storage has given it up, as a rule of the bucket may say
	case flags&wire.OpenCreate == 0 && !pending:
		return fs.ErrNotExist
	}
	if err := w.fs.creatable(ctx, w.key); err != nil {
		return err
	}
	if flags&wire.OpenCreate != 0 && flags&wire.OpenExclusive != 0 {
		w.when.Absent = true
	}
	w.dirty = true
	return w.discard(ctx)
}

// discard drops the pending upload.
func (w *writer) discard(ctx context.Context) error {
	if err := w.fs.abort(ctx, w.upload); err != nil {
		return err
	}
	counted := w.upload.countedFiles > 0
	w.upload = Upload{Name: w.key, Fence: w.upload.Fence, Locked: true, Target: FinalName(w.key),
		countedBytes: w.upload.countedBytes, countedFiles: w.upload.countedFiles}
	if counted {
		return w.fs.update(ctx, &w.upload)
	}
	return nil
}
