package objectfs

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/usftp/usftp/server"
)

// Sweep removes the leftovers of uploads that nobody has continued for the given age, in this part
// of the bucket: of abandoned uploads, and of processes that died. An age of 7 days leaves clients
// time to come back. What it cannot remove does not keep it from the rest; it returns the first
// error. What it removes no longer counts in the quotas of this part, of which it needs one for each
// count.
func (f *FS) Sweep(ctx context.Context, age time.Duration, quotas ...*server.Quota) (first error) {
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
		if err := f.sweepUpload(ctx, u, before, quotas); err != nil && !errors.Is(err, ErrLocked) {
			first = cmp.Or(first, err)
		}
	}
	seen := tokens{}
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
		if next == "" {
			return first
		}
		if seen.repeats(next) {
			return cmp.Or(first, errNoProgress)
		}
		token = next
	}
}

// sweepUpload removes a pending upload. It counts for this call only if the lock is still this
// one's: several servers may sweep, and one of them may be suspended meanwhile.
func (f *FS) sweepUpload(ctx context.Context, u Upload, before time.Time,
	quotas []*server.Quota) error {
	return server.WithQuotas(ctx, func(ctx context.Context) error {
		u, err := f.lock(ctx, u.Name)
		if err != nil {
			return err
		}
		if u.ID == "" || !u.Begun.Before(before) { // a client has come back meanwhile
			return f.unlock(ctx, u, u.ID != "")
		}
		err = f.abort(ctx, u)
		return errors.Join(err, f.unlock(ctx, u, err != nil))
	}, quotas...)
}
