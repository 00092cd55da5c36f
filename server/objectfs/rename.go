package objectfs

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/server"
)

// mostRenamed is how many objects a directory may hold to be renamed.
const mostRenamed = 1000

var (
	errLargeDirectory = errors.New("a directory of more than 1000 objects cannot be renamed")
	errBelowItself    = errors.New("a directory cannot be renamed to a name below itself")
	errUploadsBelow   = errors.New(
		"a directory cannot be renamed while it holds unfinished uploads")
	errNotCopied = errors.New(
		"the storage says that it has copied an object, but there is no such copy")
)

// Rename implements [server.Renamer].
func (f *FS) Rename(ctx context.Context, oldName, newName string) error {
	return f.rename(ctx, f.key(oldName), f.key(newName), false)
}

// PosixRename implements [server.PosixRenamer].
func (f *FS) PosixRename(ctx context.Context, oldName, newName string) error {
	return f.rename(ctx, f.key(oldName), f.key(newName), true)
}

func (f *FS) rename(ctx context.Context, from, to string, replace bool) error {
	if from == f.prefix || to == f.prefix {
		return fs.ErrPermission
	}
	waiting, err := f.state.Waiting(ctx, from, to) // first: one that is completed meanwhile is stored
	source, missing := f.findStored(ctx, from)
	if missing != nil && !absent(missing) {
		return missing
	}
	if _, ok := waiting[from]; err == nil && !ok {
		err = missing
	}
	if err == nil {
		err = f.creatable(ctx, to)
	}
	if err != nil {
		return err
	}
	target, err := f.findStored(ctx, to)
	switch {
	case absent(err) && !waiting[to].Closed:
		target = nil
	case err != nil && !absent(err):
		return err
	case !replace && missing != nil && target != nil && to == waiting[from].Target &&
		f.finished(ctx, waiting[from], target.object):
		_, err = f.finish(ctx, waiting[from], &target.object, Condition{Absent: true})
		return err
	case !replace:
		return fs.ErrExist
	case from == to:
		return nil
	}
	// A rename that has begun is finished even if the client has gone: half of it is two names.
	ctx, cancel := lasting(ctx)
	defer cancel()
	do := func(Upload) error {
		if missing != nil {
			return f.promote(ctx, waiting[from], to, target, replace)
		}
		return f.move(ctx, source, from, to, target, replace)
	}
	if replace && (missing != nil || !source.dir) {
		err = do(Upload{})
	} else { // a file that is being written would hide a directory
		err = f.locked(ctx, to, func(u Upload) error {
			err := f.vacant(ctx, to)
			if err == nil && missing == nil && source.dir {
				err = f.state.Confirm(ctx, u)
			}
			if err != nil {
				return err
			}
			return do(u)
		})
	}
	if missing != nil {
		delete(waiting, from)
	}
	for name := range waiting {
		if err == nil {
			err = server.Unsure(f.dropUpload(ctx, name))
		}
	}
	return err
}

// vacant returns an error unless there is no object at a key: not all storage checks
// Condition.Absent.
func (f *FS) vacant(ctx context.Context, key string) error {
	if _, err := f.findObject(ctx, key); !absent(err) {
		return orExists(err)
	}
	return nil
}

// unlessRefused says that a change may have been made, unless the storage has checked and refused
// it.
func unlessRefused(err error) error {
	if err == nil || absent(err) || errors.Is(err, fs.ErrExist) || errors.Is(err, ErrPrecondition) {
		return err
	}
	return server.Unsure(err)
}

// move renames an object or a directory.
func (f *FS) move(ctx context.Context, source *info, from, to string, target *info,
	replace bool) error {
	switch {
	case source.dir:
		return f.renameDirectory(ctx, from+"/", to+"/", target)
	case target != nil && target.dir:
		return errIsDirectory
	}
	f.known.forget()
	return f.locked(ctx, from, func(u Upload) error {
		if server.Condition(ctx) != nil {
			var err error
			if source, err = f.statIf(ctx, from); err != nil {
				return err
			}
		}
		var base *Object
		if target != nil {
			base = &target.object
		}
		if err := f.copy(ctx, source.object, to, base, Condition{Absent: !replace}); err != nil {
			return err
		}
		return server.Unsure(f.remove(ctx, source.object, u))
	})
}

// locked calls do with a name locked: an object that another session stored there after it was
// copied would be deleted.
func (f *FS) locked(ctx context.Context, key string, do func(Upload) error) error {
	u, err := f.lock(ctx, key)
	if err != nil {
		return err
	}
	err = do(u)
	return errors.Join(err, server.Unsure(f.unlock(ctx, u, u.ID != "")))
}

// copy copies an object with its time, since the new object's own would be now, in place of base,
// or of none. If somebody has changed that meanwhile this object comes last, unless want forbids it.
func (f *FS) copy(ctx context.Context, from Object, to string, base *Object,
	want Condition) error {
	var made Object
	var err error
	for range 3 {
		when := Condition{Absent: want.Absent || base == nil}
		if !when.Absent {
			when.ETag = base.ETag
		}
		made, err = f.copyContents(ctx, from, to, when)
		if !errors.Is(err, ErrPrecondition) && (base == nil || !absent(err)) {
			break
		}
		if err := f.unchanged(ctx, from); err != nil {
			return unlessRefused(err)
		}
		if want.Absent {
			err = existing(f.unlessOurs(ctx, to, from.Size, err))
			break
		}
		now, headErr := f.bucket.Head(ctx, to)
		switch {
		case absent(headErr):
			base = nil
		case headErr != nil:
			return server.Unsure(headErr)
		case from.marks(): // which nobody can tell from another
			return nil
		case now.ETag == from.ETag && !refused(err): // an earlier try has made it
			made, err = now, nil
		default:
			base = &now
		}
		if err == nil {
			break
		}
	}
	if err != nil {
		err = unlessRefused(err)
		if !errors.Is(err, server.ErrUnsure) {
			return err // if the source has gone, an object there is somebody else's copy of it
		}
		// The storage may have made it all the same.
		if now, err := f.lookAgain(ctx, to); err == nil && now.Size == from.Size && !now.is(base) {
			tellMade(ctx, from.Size, base)
		}
		return err
	}
	size, err := f.copied(ctx, from, to, made, base)
	if size >= 0 {
		tellMade(ctx, size, base)
	}
	return server.Unsure(errors.Join(err, f.state.CopyTime(ctx, from, to, made.ETag)))
}

// copied returns how long the copy is that the storage says it has made, or -1 if there is none, and
// an error unless it is certain that there is a whole one: its original is to be deleted.
func (f *FS) copied(ctx context.Context, from Object, to string, made Object,
	base *Object) (int64, error) {
	if made.ETag == from.ETag {
		return from.Size, nil
	}
	now, err := f.lookAgain(ctx, to) // it was of parts, or the storage does not check what it copies
	ours := err == nil && now.ETag == made.ETag
	switch {
	case from.marks(), // which nobody misses
		err == nil && now.Size == from.Size && (ours || !now.is(base)):
		return from.Size, nil
	case ours:
		return now.Size, errNotCopied
	case err == nil && now.is(base):
		return -1, errNotCopied
	}
	return from.Size, errors.Join(errNotCopied, err) // somebody else may have moved it on
}

// marks reports whether an object is the marker of a directory.
func (o *Object) marks() bool { return o.Size == 0 && strings.HasSuffix(o.Key, "/") }

// unchanged returns an error if the ETag of an object has changed.
func (f *FS) unchanged(ctx context.Context, o Object) error {
	now, err := f.bucket.Head(ctx, o.Key)
	if err == nil && now.ETag != o.ETag {
		err = ErrPrecondition
	}
	return err
}

// copyContents copies an object in one request, or in parts if it is too long for that.
func (f *FS) copyContents(ctx context.Context, from Object, to string,
	when Condition) (Object, error) {
	if from.Size == 0 && strings.HasSuffix(to, "/") { // some storage copies no markers
		return f.bucket.Put(ctx, to, nothing(), when)
	}
	if from.Size <= MaxCopy {
		return f.bucket.Copy(ctx, from.Key, from.ETag, to, when)
	}
	id, err := f.bucket.CreateUpload(ctx, to)
	if err != nil {
		return Object{}, err
	}
	const piece = 1 << 30
	parts := make([]Part, (from.Size+piece-1)/piece)
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range parts {
		group.Go(func() (err error) {
			offset := int64(i) * piece
			parts[i], err = f.bucket.CopyPart(inGroup, to, id, i+1, from.Key, from.ETag, offset,
				min(piece, from.Size-offset))
			return err
		})
	}
	var made Object
	if err = group.Wait(); err == nil {
		if made, err = f.bucket.Complete(ctx, to, id, parts, when); absent(err) {
			err = server.Unsure(err) // the answer to the first try may have been lost
		}
	}
	if err != nil {
		ctx, cancel := lasting(ctx)
		defer cancel()
		err = errors.Join(err, f.abort(ctx, Upload{Target: to, ID: id}))
	}
	return made, err
}

// atOnce is how many storage requests run at once for one request of a client.
const atOnce = 8

// remove removes an object and its time, under the lock of u.
func (f *FS) remove(ctx context.Context, o Object, u Upload) error {
	if err := f.unchanged(ctx, o); err != nil {
		return err
	}
	if err := f.state.Confirm(ctx, u); err != nil { // this process may have slept
		return err
	}
	if err := f.delete(ctx, o); err != nil && !absent(err) {
		return err
	}
	return f.state.SetTime(ctx, o.Key, o.ETag, time.Time{})
}

// delete deletes an object, and returns fs.ErrNotExist if somebody else has.
func (f *FS) delete(ctx context.Context, o Object) error {
	err := f.bucket.Delete(ctx, o.Key, o.ETag)
	deleted := err == nil
	switch {
	case absent(err) && errors.Is(err, server.ErrUnsure): // an earlier try has
		deleted, err = true, nil
	case err != nil && !absent(err) && !errors.Is(err, ErrPrecondition):
		_, headErr := f.lookAgain(ctx, o.Key)
		deleted = absent(headErr) // only the answer was lost
	}
	if deleted {
		tellGone(ctx, o)
	}
	return err
}

// lookAgain finds an object after a request for it has failed, perhaps since its time was over.
func (f *FS) lookAgain(ctx context.Context, key string) (Object, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return f.bucket.Head(ctx, key)
}

// renameDirectory copies all objects of a directory, and then deletes them. If it fails half way,
// the old directory is still complete, or the new one is.
func (f *FS) renameDirectory(ctx context.Context, from, to string, target *info) error {
	switch {
	case strings.HasPrefix(to, from):
		return errBelowItself
	case target != nil && !target.dir:
		return errNotDirectory
	}
	// Others, who rename it, too, or back, would count the same copies.
	return f.locked(ctx, from, func(u Upload) error {
		return f.locked(ctx, to, func(Upload) error { return f.moveBelow(ctx, u, to, target) })
	})
}

// moveBelow renames a directory whose marker u has locked.
func (f *FS) moveBelow(ctx context.Context, u Upload, to string, target *info) error {
	from := u.Name
	var marker *Object
	if target != nil {
		var err error
		if marker, err = f.empty(ctx, to); err != nil {
			return err
		}
	}
	if uploads, err := f.state.Pending(ctx, from); err != nil || len(uploads) > 0 {
		return errors.Join(err, errUploadsBelow)
	}
	objects, err := f.below(ctx, from, mostRenamed)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if len(to)+len(o.Key)-len(from) > MaxKey {
			return errLongName
		}
	}
	// Before anything is copied: whoever moves one of them to the same place would count it, too.
	held, err := f.lockAll(ctx, objects, u)
	if err != nil {
		return err
	}
	f.known.forget()
	err = forEach(ctx, objects, func(ctx context.Context, o Object) error {
		var base *Object
		if o.Key == from {
			base = marker
		}
		return f.copy(ctx, o, to+strings.TrimPrefix(o.Key, from), base, Condition{})
	})
	if err == nil {
		err = forEach(ctx, objects, func(ctx context.Context, o Object) error {
			return errors.Join(f.remove(ctx, o, held.of(o)), held.release(ctx, f, o))
		})
	}
	return server.Unsure(errors.Join(err, held.release(ctx, f, objects...)))
}

// locks are the locks of a directory's objects, by keys.
type locks struct {
	marker Upload // which its owner releases
	others sync.Map
}

// lockAll locks all of a directory's objects but its marker, which has locked already.
func (f *FS) lockAll(ctx context.Context, objects []Object, marker Upload) (*locks, error) {
	held := &locks{marker: marker}
	err := forEach(ctx, objects, func(ctx context.Context, o Object) error {
		if o.Key == marker.Name {
			return nil
		}
		u, err := f.lock(ctx, o.Key)
		if err == nil {
			held.others.Store(o.Key, u)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, held.release(ctx, f, objects...))
	}
	return held, nil
}

func (l *locks) of(o Object) Upload {
	if u, ok := l.others.Load(o.Key); ok {
		return u.(Upload)
	}
	return l.marker
}

// release releases the locks of objects that are still held.
func (l *locks) release(ctx context.Context, f *FS, objects ...Object) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, o := range objects {
		if u, ok := l.others.LoadAndDelete(o.Key); ok {
			u := u.(Upload)
			group.Go(func() error { return f.unlock(ctx, u, u.ID != "") })
		}
	}
	return group.Wait()
}

// forEach calls do for each object, for several at once, until one fails. The calls that have begun
// are finished: what the storage makes of a request that was given up nobody knows.
func forEach(ctx context.Context, objects []Object, do func(context.Context, Object) error) error {
	var group errgroup.Group
	var failed atomic.Bool
	group.SetLimit(atOnce)
	for _, o := range objects {
		group.Go(func() error {
			if failed.Load() {
				return nil
			}
			err := do(ctx, o)
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return group.Wait()
}
