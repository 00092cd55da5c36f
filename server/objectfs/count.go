package objectfs

import (
	"context"
	"errors"
	"time"

	"github.com/usftp/usftp/server"
)

// A quota counts the objects, markers of directories among them, and the uploads that a client has
// closed or may go on with, as the state has them. Each change of either tells what it has added
// and replaced. So the count is right whatever other servers do, as long as the storage checks the
// conditions of changes.

// Count implements [server.Counter].
func (f *FS) Count(ctx context.Context, name string) (bytes, files int64, err error) {
	dir := f.start(f.key(name))
	for page, err := range f.pages(ctx, Query{Prefix: dir}) {
		if err != nil {
			return 0, 0, err
		}
		for _, o := range page.Objects {
			if o.Key != dir {
				bytes, files = bytes+o.Size, files+1
			}
		}
	}
	pending, err := f.state.Pending(ctx, dir)
	for _, u := range pending {
		b, f := u.counts()
		bytes, files = bytes+b, files+f
	}
	return bytes, files, err
}

// counts returns what the state's upload counts, until it is completed or removed. One whose size
// is not known, since its server has died, does not count.
func (u Upload) counts() (bytes, files int64) {
	if u.ID == "" || u.Size == 0 {
		return 0, 0
	}
	return u.Size, 1
}

// tellMade tells the quota that an object was made in place of base, or of none.
func tellMade(ctx context.Context, size int64, base *Object) {
	if base != nil {
		server.Counted(ctx, size-base.Size, 0)
	} else {
		server.Counted(ctx, size, 1)
	}
}

// tellGone tells the quota that an object was removed.
func tellGone(ctx context.Context, o Object) { server.Counted(ctx, -o.Size, -1) }

// became tells the quota that what the state had of an upload has become now.
func (u Upload) became(ctx context.Context, now Upload) {
	bytes, files := now.counts()
	server.Counted(ctx, bytes-u.countedBytes, files-u.countedFiles)
}

// lock takes the write lock of a name. Nobody sees a file there because of that.
func (f *FS) lock(ctx context.Context, name string) (Upload, error) {
	return f.lockFor(ctx, name, name+"/")
}

// lockFor takes the write lock of a name. If no upload is pending there, a new one gets the target.
func (f *FS) lockFor(ctx context.Context, name, target string) (Upload, error) {
	u, err := f.state.Lock(ctx, name, target)
	u.countedBytes, u.countedFiles = u.counts()
	return u, err
}

// update stores the new state of an upload.
func (f *FS) update(ctx context.Context, u *Upload) error {
	err := f.state.Update(ctx, *u)
	if err == nil {
		u.became(ctx, *u)
		u.countedBytes, u.countedFiles = u.counts()
	}
	return err
}

// unlock releases the lock, even if the session has ended.
func (f *FS) unlock(ctx context.Context, u Upload, keep bool) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	return f.released(ctx, u, keep, f.state.Unlock(ctx, u, keep))
}

// settle records that an upload has become an object.
func (f *FS) settle(ctx context.Context, u Upload, key string, etag string,
	mtime time.Time) error {
	return f.released(ctx, u, false, f.state.Settle(ctx, u, key, Stamp{etag, mtime}))
}

// released tells the quota of a lock's release, unless another session has taken the lock: then the
// state has that one's upload.
func (f *FS) released(ctx context.Context, u Upload, keep bool, err error) error {
	switch {
	case errors.Is(err, ErrLocked):
		return nil
	case err == nil && keep:
		u.became(ctx, u)
	case err == nil:
		u.became(ctx, Upload{})
	}
	return err
}

// Counts implements [server.FileCounter].
func (w *writer) Counts() (bytes, files int64) {
	bytes, files = w.upload.countedBytes, w.upload.countedFiles
	if w.base != nil {
		bytes, files = bytes+w.base.Size, files+1
	}
	return bytes, files
}
