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
	if err := w.Close(); err != nil { // it was to be made or emptied, and read
		return nil, err
	}
	return f.openReader(ctx, name)
}

func (f *FS) openReader(ctx context.Context, name string) (server.File, error) {
	i, err := f.statStored(ctx, f.key(name))
	switch {
	case absent(err):
		if _, err := f.state.Find(ctx, f.key(name)); err == nil {
			return nil, errUnfinished
		}
		return nil, err
	case err != nil:
		return nil, err
	case i.dir:
		return nil, errIsDirectory
	}
	return newReader(ctx, f, name, i), nil
}

// openWriter takes the right to write to a key, and finds out what there is.
func (f *FS) openWriter(ctx context.Context, key string, flags uint32) (*writer, error) {
	if len(key) > MaxKey {
		return nil, errLongName
	}
	upload, err := f.state.Lock(ctx, key)
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

// unlock gives the right to write back, even if the session has ended.
func (f *FS) unlock(ctx context.Context, u Upload, keep bool) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	return f.state.Unlock(ctx, u, keep)
}

// prepare decides what is to be written: a new file, an upload that is resumed, or a change to what
// is stored.
func (w *writer) prepare(ctx context.Context, flags uint32) error {
	i, err := w.fs.statStored(ctx, w.key)
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
	if err := w.discard(ctx); err != nil { // what is stored is newer than what was abandoned
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
		return w.resume(ctx)
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

// discard drops the upload that was pending.
func (w *writer) discard(ctx context.Context) error {
	if err := w.fs.abort(ctx, w.upload); err != nil {
		return err
	}
	w.upload = Upload{Name: w.key, Fence: w.upload.Fence, Locked: true, Target: finalKey(w.key)}
	return nil
}

// resume goes on with the upload that was pending.
func (w *writer) resume(ctx context.Context) (err error) {
	w.mtime = w.upload.MTime
	if w.upload.Closed {
		w.waits, w.size = true, w.upload.Size
		return nil
	}
	var parts []Part
	parts, w.size, err = w.fs.resumable(ctx, w.upload)
	if absent(err) { // somebody has aborted it
		w.upload.ID = ""
		return fs.ErrNotExist
	}
	for _, p := range parts {
		w.stored[p.Number-1] = p
	}
	return err
}

// resumable returns the parts of an abandoned upload that may be kept, and how much of the file
// they are. The last whole part is left out: if a client saw a file as long as its own, it would
// take it for complete.
func (f *FS) resumable(ctx context.Context, u Upload) ([]Part, int64, error) {
	if u.ID == "" || u.Broken {
		return nil, 0, nil
	}
	list, err := f.listParts(ctx, u)
	if err != nil {
		return nil, 0, err
	}
	n := 0
	for n < len(list) && list[n].Number == n+1 {
		if _, length := f.layout.span(n); list[n].Size != length {
			break
		}
		n++
	}
	n = max(n-1, 0)
	size, _ := f.layout.span(n)
	return list[:n], size, nil
}

var errPartsMissing = errors.New(
	"parts of the upload are missing in the storage: upload the file again")

// allParts returns the parts of an upload that the client has closed.
func (f *FS) allParts(ctx context.Context, u Upload) ([]Part, error) {
	list, err := f.listParts(ctx, u)
	if err != nil {
		return nil, err
	}
	var size int64
	for i, p := range list {
		if p.Number > u.Last { // left by what was written before
			list = list[:i]
			break
		}
		size += p.Size
	}
	if size != u.Size {
		return nil, errPartsMissing
	}
	return list, nil
}

func (f *FS) listParts(ctx context.Context, u Upload) (all []Part, err error) {
	for after, more := 0, true; more; {
		var list []Part
		list, more, err = f.bucket.ListParts(ctx, u.Target, u.ID, after)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			if n := len(all); n > 0 && all[n-1].Number == p.Number {
				all[n-1] = p // SeaweedFS lists what was overwritten, too
			} else if n == 0 || p.Number > all[n-1].Number {
				all = append(all, p)
			}
		}
		if len(list) == 0 || all[len(all)-1].Number <= after {
			break // the storage repeats itself
		}
		after = all[len(all)-1].Number
	}
	return all, nil
}

// Sweep removes what is left of uploads that nobody has gone on with for an age, in this part of
// the bucket: abandoned ones, and those of processes that died. An age of 7 days leaves clients
// time to come back.
func (f *FS) Sweep(ctx context.Context, age time.Duration) error {
	before := time.Now().Add(-age)
	pending, err := f.state.Pending(ctx, f.prefix)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, u := range pending {
		known[u.ID] = true
		if u.Locked || !u.Begun.Before(before) {
			continue
		}
		if err := f.removeUpload(ctx, u.Name); err != nil && !absent(err) &&
			!errors.Is(err, ErrLocked) {
			return err
		}
	}
	for token := ""; ; {
		list, next, err := f.bucket.ListUploads(ctx, f.prefix, token)
		if err != nil {
			return err
		}
		for _, s := range list {
			if !known[s.ID] && s.Begun.Before(before) {
				if err := f.abort(ctx, Upload{Target: s.Key, ID: s.ID}); err != nil {
					return err
				}
			}
		}
		if next == "" || next == token {
			return nil
		}
		token = next
	}
}
