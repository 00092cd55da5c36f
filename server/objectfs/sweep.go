package objectfs

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Sweep removes the leftovers of uploads that nobody has continued for the given age, in this part
// of the bucket: of abandoned uploads, and of processes that died. An age of 7 days leaves clients
// time to come back. What it cannot remove does not keep it from the rest; it returns the first
// error.
func (f *FS) Sweep(ctx context.Context, age time.Duration) (first error) {
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
		now, err := f.state.Lock(ctx, u.Name)
		switch {
		case errors.Is(err, ErrLocked):
			continue
		case err != nil: // the state does not answer
			return cmp.Or(first, err)
		case now.ID == "" || !now.Begun.Before(before): // a client has come back meanwhile
			err = f.state.Unlock(ctx, now, now.ID != "")
		default:
			err = f.dropLocked(ctx, now)
		}
		if !errors.Is(err, ErrLocked) {
			first = cmp.Or(first, err)
		}
	}
	for token := ""; ; {
		list, next, err := f.bucket.ListUploads(ctx, f.prefix, token)
		if err != nil {
			return cmp.Or(first, err)
		}
		for _, s := range list {
			if !known[s.ID] && s.Begun.Before(before) {
				first = cmp.Or(first, f.abort(ctx, Upload{Target: s.Key, ID: s.ID}))
			}
		}
		if next == "" || next == token {
			return first
		}
		token = next
	}
}
