package objectfs

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/usftp/usftp/server"
)

// promote gives an upload that was closed under a temporary name its final name: it becomes an
// object there. Its parts were sent for the name that its temporary name promises; for another one
// the object has to be copied, since parts cannot be.
func (f *FS) promote(ctx context.Context, found Upload, to string, target *info,
	replace bool) (err error) {
	switch {
	case !found.Closed:
		return errUnfinished
	case target != nil && target.dir:
		return errIsDirectory
	}
	u, err := f.state.Lock(ctx, found.Name)
	if err != nil {
		return err
	}
	held, done := true, false
	defer func() {
		if held {
			err = errors.Join(err, f.unlock(ctx, u, !done))
		}
	}()
	if !u.Closed || u.ID != found.ID {
		return errUnfinished
	}
	parts, err := f.allParts(ctx, u)
	if err != nil {
		return err
	}
	direct := to == u.Target
	var base *Object
	if direct && target != nil {
		base = &target.object
	}
	made, err := f.fenced(ctx, u, u.Target, Condition{Absent: !direct || !replace}, base,
		func(when Condition) (Object, error) {
			return f.complete(ctx, u, parts, u.Size, when, base)
		})
	if err != nil && !direct {
		return fmt.Errorf("the upload can only be renamed to %s: %w", path.Base(u.Target),
			unlessRefused(err))
	}
	if err != nil {
		return unlessRefused(err)
	}
	done = true
	made.Key = u.Target
	if err := f.state.Settle(ctx, u, u.Target, Stamp{made.ETag, u.MTime}); err != nil {
		return server.Unsure(err)
	}
	if held = false; direct {
		return nil
	}
	if err := f.copy(ctx, made, to, Condition{Absent: !replace}); err != nil {
		return server.Unsure(err)
	}
	return server.Unsure(f.remove(ctx, made))
}
