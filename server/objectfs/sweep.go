package objectfs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"strings"
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

// sweepUpload removes a pending upload. It counts for this call only if the lock is still this
// one's: several servers may sweep, and one of them may be suspended meanwhile.
func (f *FS) sweepUpload(ctx context.Context, u Upload, before time.Time,
	quotas []*server.Quota) error {
	_, err := server.Sweep(ctx, "/"+strings.TrimPrefix(u.Name, f.prefix),
		func() (fs.FileInfo, error) { return f.counted(ctx, u) },
		func() (removed bool, err error) {
			now, err := f.state.Lock(ctx, u.Name)
			if err != nil {
				return false, err
			}
			if now.ID == "" || !now.Begun.Before(before) { // a client has come back meanwhile
				return false, f.state.Unlock(ctx, now, now.ID != "")
			}
			err = f.bucket.Abort(ctx, now.Target, now.ID)
			if absent(err) { // or only the answer to the first try was lost
				err = f.state.Confirm(ctx, now)
			}
			return err == nil, errors.Join(err, f.state.Unlock(ctx, now, err != nil))
		}, quotas...)
	return err
}

// counted describes a pending upload, unless an object has its name, which counts instead.
func (f *FS) counted(ctx context.Context, u Upload) (fs.FileInfo, error) {
	switch _, err := f.findObject(ctx, u.Name); {
	case err == nil:
		return nil, fs.ErrNotExist
	case !absent(err):
		return nil, err
	}
	return f.describeUpload(ctx, u)
}
