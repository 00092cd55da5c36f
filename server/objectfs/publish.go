package objectfs

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/usftp/usftp/server"
)

// Close implements io.Closer: the written file appears, as a whole. After an error nothing of it
// has appeared, unless the storage did not answer and stored it all the same.
func (w *writer) Close() error {
	defer w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dirty {
		return w.closeUnchanged(w.work)
	}
	w.await()
	err := w.err
	if err == nil {
		err = w.publish(w.work)
	}
	if err != nil {
		return errors.Join(err, w.giveUp(true))
	}
	return nil
}

// closeUnchanged closes a file to which nothing was written. A pending upload stays pending.
func (w *writer) closeUnchanged(ctx context.Context) error {
	var err error
	if w.upload.ID != "" {
		if w.upload.MTime = w.mtime; !w.upload.Closed {
			w.upload.Size = w.size
		}
		return w.keep(ctx, w.upload)
	}
	if !w.mtime.IsZero() {
		err = w.fs.stamp(ctx, w.upload, *w.base, w.mtime)
	}
	return errors.Join(err, w.fs.unlock(ctx, w.upload, false))
}

// publish makes an object of the written file.
func (w *writer) publish(ctx context.Context) error {
	if _, length := w.fs.layout.span(0); w.size <= length && len(w.stored) == 0 {
		return w.putWhole(ctx)
	}
	parts, err := w.complete()
	if err != nil {
		return err
	}
	if w.upload.Target != w.key {
		return w.closeTemporary(ctx, parts)
	}
	// If another session has taken the lock meanwhile, its file must not be overwritten.
	if err := w.fs.state.Confirm(ctx, w.upload); err != nil {
		return err
	}
	made, err := w.fence(ctx, func(when Condition) (Object, error) {
		return w.fs.complete(ctx, w.upload, parts, w.size, when, w.base)
	})
	if err != nil {
		return err
	}
	return w.settle(ctx, made)
}

func (w *writer) fence(ctx context.Context,
	store func(Condition) (Object, error)) (Object, error) {
	return w.fs.fenced(ctx, w.upload, w.key, w.when, w.base, store)
}

// fenced makes an object of an upload, at a key, in place of base, or of none. The request may be
// held up in the network for so long that another session gets the lock, and writes: so it has a
// condition, which then fails. The condition also fails if a program without the lock has changed
// or removed the object: unless the client wants that, fenced tries again, so that this object
// comes last.
func (f *FS) fenced(ctx context.Context, u Upload, key string, want Condition, base *Object,
	store func(Condition) (Object, error)) (made Object, err error) {
	defer func() {
		if err == nil {
			tellMade(ctx, made.Size, base)
		}
	}()
	if want != (Condition{}) {
		made, err = store(want)
		if want.Absent {
			base, err = nil, existing(err)
		}
		return made, err
	}
	for range 3 {
		when := Condition{Absent: base == nil}
		if base != nil {
			when.ETag = base.ETag
		}
		made, err = store(when)
		if !errors.Is(err, ErrPrecondition) && (base == nil || !absent(err)) {
			return made, err
		}
		if lost := f.update(ctx, &u); lost != nil {
			return made, lost
		}
		switch now, err := f.bucket.Head(ctx, key); {
		case err == nil:
			base = &now
		case absent(err):
			base = nil
		default:
			return made, err
		}
	}
	return made, err
}

// settle records that an object was made.
func (w *writer) settle(ctx context.Context, made Object) error {
	return w.fs.settle(ctx, w.upload, w.key, made.ETag, w.mtime)
}

// closeTemporary leaves a file under a temporary name as parts, until it is renamed.
func (w *writer) closeTemporary(ctx context.Context, parts []Part) error {
	if w.gaveUp > (mostStored-1)*w.size {
		return errCutOff
	}
	u := w.upload
	u.Closed, u.Size, u.MTime, u.Last = true, w.size, w.mtime, parts[len(parts)-1].Number
	u.ETag = etagOf(parts)
	if w.base != nil { // a short file, which was stored under this name
		// The old file goes when the new one is there for good, so that one of them always is. Update
		// also fails if another session's file may be there by now.
		if err := w.fs.update(ctx, &u); err != nil {
			return err
		}
		err := w.fs.delete(ctx, *w.base)
		if errors.Is(err, ErrPrecondition) {
			w.upload.countedBytes, w.upload.countedFiles = u.countedBytes, u.countedFiles
			return err
		}
		w.upload = u // the old file may be gone: giveUp keeps this one
		if err != nil && !absent(err) {
			return err
		}
	}
	return w.keep(ctx, u)
}

// keep releases the lock of an upload that the client has gone on with, and may again.
func (w *writer) keep(ctx context.Context, u Upload) error {
	u.Begun = time.Now() // for Sweep
	return w.fs.unlock(ctx, u, true)
}

// putWhole stores a short file with one request.
func (w *writer) putWhole(ctx context.Context) error {
	body := nothing()
	if w.size > 0 {
		p := w.parts[0]
		if p == nil {
			if err := w.take(0, w.size); err != nil {
				return err
			}
			p = w.parts[0]
		} else if err := w.grow(p, w.size); err != nil {
			return err
		}
		if err := w.fillGaps(p, p.written.gaps(w.size), w.shows); err != nil {
			return err
		}
		body = p.body(w.size)
	}
	if err := w.shorten(ctx); err != nil {
		return err
	}
	made, err := w.fence(ctx, func(when Condition) (Object, error) {
		return w.fs.put(ctx, w.key, body, when, w.when)
	})
	if err != nil {
		return err
	}
	for index := range w.parts {
		w.drop(index)
	}
	return w.settle(ctx, made)
}

// shorten drops the upload of a file that was longer, if there is one, and makes sure that no
// other session has taken the lock meanwhile.
func (w *writer) shorten(ctx context.Context) error {
	if err := w.fs.state.Confirm(ctx, w.upload); err != nil || w.upload.ID == "" {
		return err
	}
	if err := w.fs.abort(ctx, w.upload); err != nil {
		return err
	}
	w.upload.ID, w.upload.Last, w.upload.Broken = "", 0, false
	return w.fs.update(ctx, &w.upload)
}

// put stores an object. After an error it checks whether the object is there all the same. want is
// the part of when that the client asked for.
func (f *FS) put(ctx context.Context, key string, body *io.SectionReader,
	when, want Condition) (Object, error) {
	// The body may be read again.
	made, err := f.bucket.Put(ctx, key, io.NewSectionReader(body.Outer()), when)
	switch {
	case err == nil, refused(err):
		return made, err
	case want.Absent:
		return made, f.unlessOurs(ctx, key, body.Size(), err)
	}
	sum := md5.New()
	if _, hashErr := io.Copy(sum, io.NewSectionReader(body.Outer())); hashErr != nil {
		return made, err
	}
	now, headErr := f.bucket.Head(ctx, key)
	if headErr != nil || now.Size != body.Size() || now.ETag != hex.EncodeToString(sum.Sum(nil)) {
		return made, err
	}
	return now, nil
}

// existing returns fs.ErrExist for a failed condition: the object must not exist, and does.
func existing(err error) error {
	switch {
	case !errors.Is(err, ErrPrecondition):
		return err
	case errors.Is(err, server.ErrUnsure):
		return server.Unsure(fs.ErrExist)
	}
	return fs.ErrExist
}

// refused reports whether the storage has refused a change, which was not made by an earlier try
// either.
func refused(err error) bool {
	return errors.Is(err, ErrPrecondition) && !errors.Is(err, server.ErrUnsure)
}

// unlessOurs says that a request was refused unless an earlier try may have made its object: there
// is one as long, which may also be another client's.
func (f *FS) unlessOurs(ctx context.Context, key string, size int64, err error) error {
	if !errors.Is(err, ErrPrecondition) || refused(err) {
		return err
	}
	if now, headErr := f.bucket.Head(ctx, key); headErr == nil && now.Size != size ||
		absent(headErr) {
		return ErrPrecondition
	}
	return err
}

// complete makes an object of parts. After an error it checks whether the object is there all the
// same: then the upload is gone, which no other session could have completed, or aborted unless it
// has taken the lock by now.
func (f *FS) complete(ctx context.Context, u Upload, parts []Part, size int64, when Condition,
	base *Object) (Object, error) {
	made, err := f.bucket.Complete(ctx, u.Target, u.ID, parts, when)
	if made.Size = size; err == nil && f.state.Confirm(ctx, u) == nil { // nobody else can have aborted it
		return made, nil
	}
	if err == nil {
		return made, f.stored(ctx, u.Target, made)
	}
	_, _, listErr := f.bucket.ListParts(ctx, u.Target, u.ID, 0)
	if listErr == nil && errors.Is(err, ErrPrecondition) {
		err = ErrPrecondition // no try was successful
	}
	if listErr == nil {
		return made, err
	}
	if absent(listErr) {
		now, headErr := f.bucket.Head(ctx, u.Target)
		if headErr == nil && now.Size == size && !now.is(base) && f.state.Update(ctx, u) == nil {
			return now, nil
		}
		err = unlessGone(err)
	}
	return made, server.Unsure(err)
}

// is reports whether an object is the very one that was there before, which may have been equal.
func (o *Object) is(base *Object) bool {
	return base != nil && o.ETag == base.ETag && o.Modified.Equal(base.Modified)
}

var errNotStored = errors.New(
	"the storage said that the file is stored, and has another: upload the file again")

// stored verifies the answer of Complete. versitygw says that an aborted upload is complete, if
// there is another object.
func (f *FS) stored(ctx context.Context, key string, made Object) error {
	now, err := f.bucket.Head(ctx, key)
	if absent(err) || err == nil && now.ETag != made.ETag {
		return errNotStored
	}
	return err
}

// Abandon implements [server.FileAbandoner]: nothing appears. The parts of a new file are kept.
func (w *writer) Abandon() error { return w.end(true) }

// Discard implements [server.FileDiscarder]: nothing appears, and nothing is kept.
func (w *writer) Discard() error { return w.end(false) }

func (w *writer) end(keep bool) error {
	defer w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.await()
	return w.giveUp(keep)
}

// giveUp gives up the written file; keep keeps the parts that a client could resume from. The
// caller holds the lock.
func (w *writer) giveUp(keep bool) error {
	ctx, cancel := lasting(w.session) // the time of w.work may be over
	defer cancel()
	for index := range w.parts {
		w.drop(index)
	}
	u := w.upload
	if u.Closed { // the file that the client has closed before is still there
		return w.keep(ctx, u)
	}
	w.limit(&u)
	if u.MTime = w.mtime; keep && w.keeps(ctx, &u) {
		return w.keep(ctx, u)
	}
	var err error
	if u.ID != "" && !errors.Is(w.fs.state.Confirm(ctx, u), ErrLocked) { // others may go on with it
		err = w.fs.abort(ctx, u)
	}
	return errors.Join(err, w.fs.unlock(ctx, u, err != nil && u.ID != ""))
}

// keeps reports whether a client could resume an upload. If it was to replace an object it could
// not: STAT shows that object. From a part on that somebody else has stored it could not either.
func (w *writer) keeps(ctx context.Context, u *Upload) bool {
	if w.base != nil {
		return false
	}
	u.ETag = ""
	list, stored, err := w.fs.wholeParts(ctx, *u)
	if err != nil {
		return !absent(err)
	}
	for i, p := range list {
		if own, ok := w.stored[i]; ok && own.ETag != p.ETag || !ok && i >= w.kept {
			list = list[:i]
			break
		}
	}
	u.ETag = etagOf(list)
	u.Size, _ = w.fs.layout.span(max(len(list)-1, 0))
	end, _ := w.fs.layout.span(len(list))
	return u.Size > 0 && stored <= mostStored*end
}

// mostStored is how many times the beginning of a file, which a quota counts, the parts of a kept
// upload may take: those beyond a gap, or cut off the end, are stored, and do not count.
const mostStored = 4

var errCutOff = errors.New("the storage would keep too much that was cut off from the file: " +
	"upload it again")
