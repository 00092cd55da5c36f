package objectfs

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/usftp/usftp/server"
)

// promote gives an upload that was closed under a temporary name its final name: it becomes an
// object there. Its parts were sent for the name that its temporary name implies; for any other
// name the object has to be copied, since parts cannot be.
func (f *FS) promote(ctx context.Context, found Upload, to string, target *info,
	replace bool) error {
	switch {
	case !found.Closed:
		return errUnfinished
	case target != nil && target.dir:
		return errIsDirectory
	}
	var base *Object
	if target != nil {
		base = &target.object
	}
	if to == found.Target {
		_, err := f.finish(ctx, found, base, Condition{Absent: !replace})
		return err
	}
	return f.locked(ctx, found.Target, func(u Upload) error {
		var made Object
		err := f.vacant(ctx, found.Target)
		if err == nil {
			made, err = f.finish(ctx, found, nil, Condition{Absent: true})
		}
		if errors.Is(err, ErrLocked) || errors.Is(err, errUnfinished) {
			return err
		}
		if err != nil {
			return fmt.Errorf("the upload can only be renamed to %s: %w", path.Base(found.Target),
				err)
		}
		stored, err := f.findObject(ctx, found.Target) // whose length and time made may lack
		if err == nil && stored.ETag != made.ETag {
			err = ErrPrecondition
		}
		if err == nil {
			err = f.copy(ctx, stored, to, base, Condition{Absent: !replace})
		}
		if err != nil {
			return server.Unsure(err)
		}
		return server.Unsure(f.remove(ctx, stored, u))
	})
}

// makes reports whether the parts of a closed upload make this object.
func (u Upload) makes(o Object) bool { return u.Closed && u.ETag != "" && u.ETag == o.ETag }

// finished reports whether a closed upload has become this object already: a server has died that
// renamed it.
func (f *FS) finished(ctx context.Context, u Upload, o Object) bool {
	if !u.makes(o) {
		return false
	}
	_, _, err := f.bucket.ListParts(ctx, u.Target, u.ID, 0)
	return absent(err)
}

// finish makes an object of an upload that was closed under a temporary name, in place of base.
func (f *FS) finish(ctx context.Context, found Upload, base *Object,
	when Condition) (made Object, err error) {
	u, err := f.lock(ctx, found.Name)
	if err != nil {
		return Object{}, err
	}
	settled, done := false, false
	defer func() {
		if !settled {
			err = errors.Join(err, f.unlock(ctx, u, !done))
		}
	}()
	if !u.Closed || u.ID != found.ID {
		return Object{}, errUnfinished
	}
	if err := f.holds(ctx, u, server.Condition(ctx)); err != nil {
		return Object{}, err
	}
	parts, err := f.allParts(ctx, u)
	switch {
	case absent(err) && base != nil && u.makes(*base):
		made = *base
	case absent(err): // the storage has given the upload up, but it is still listed
		return Object{}, errPartsMissing
	case err != nil:
		return Object{}, err
	default:
		made, err = f.fenced(ctx, u, u.Target, when, base, func(when Condition) (Object, error) {
			return f.complete(ctx, u, parts, u.Size, when, base)
		})
		if err != nil {
			return Object{}, unlessRefused(err)
		}
	}
	done = true
	made.Key = u.Target
	if err := f.settle(ctx, u, u.Target, made.ETag, u.MTime); err != nil {
		return Object{}, server.Unsure(err)
	}
	settled = true
	return made, nil
}
