package objectfs

import (
	"context"
	"io/fs"
	"path"
	"strings"
	"time"
)

// info describes a file or directory.
type info struct {
	name   string
	dir    bool
	size   int64
	mtime  time.Time
	object Object    // of a file that is not pending
	begun  time.Time // of one that is
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return i.size }
func (i *info) ModTime() time.Time { return i.mtime }
func (i *info) IsDir() bool        { return i.dir }
func (i *info) Sys() any           { return nil }

// ChangeTime implements server.Changed.
func (i *info) ChangeTime() time.Time {
	if !i.begun.IsZero() {
		return i.begun
	}
	return i.object.Modified
}

// Mode is the same for all: objects have none.
func (i *info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// describe returns what there is to say about an object, whose time may have been set.
func describe(o Object, times map[string]Stamp) *info {
	i := &info{name: path.Base(o.Key), size: o.Size, mtime: o.Modified, object: o}
	if stamp, ok := times[o.Key]; ok && stamp.ETag == o.ETag {
		i.mtime = stamp.MTime
	}
	return i
}

func directory(key string) *info { return &info{name: path.Base(key), dir: true} }

// Stat implements [server.FS].
func (f *FS) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	i, err := f.stat(ctx, f.key(name))
	if err != nil {
		return nil, err
	}
	return i, nil
}

// stat describes what has a key: an object, a directory, or an upload that its client may resume.
func (f *FS) stat(ctx context.Context, key string) (*info, error) {
	if i, err := f.statStored(ctx, key); !absent(err) {
		return i, err
	}
	return f.statUpload(ctx, key)
}

// statStored describes an object or a directory, and no pending upload.
func (f *FS) statStored(ctx context.Context, key string) (*info, error) {
	i, err := f.findStored(ctx, key)
	if err != nil || i.dir {
		return i, err
	}
	times, err := f.state.Times(ctx, []string{key})
	if err != nil {
		return nil, err
	}
	return describe(i.object, times), nil
}

// findStored returns what is stored under a key, without the time that was set for it, which only
// the state knows.
func (f *FS) findStored(ctx context.Context, key string) (*info, error) {
	if key == f.prefix {
		return directory("/"), nil
	}
	if object, err := f.findObject(ctx, key); !absent(err) {
		return describe(object, nil), err
	}
	if err := f.findDirectory(ctx, key); err != nil {
		return nil, err
	}
	return directory(key), nil
}

func (f *FS) findObject(ctx context.Context, key string) (Object, error) {
	if len(key) > MaxKey {
		return Object{}, errLongName
	}
	object, err := f.bucket.Head(ctx, key)
	object.Key = key
	return object, err
}

// findDirectory returns fs.ErrNotExist unless there is anything below a key, or the key is that of
// the top.
func (f *FS) findDirectory(ctx context.Context, key string) error {
	if key == f.prefix {
		return nil
	}
	page, err := f.bucket.List(ctx, Query{Prefix: strings.TrimSuffix(key, "/") + "/", Max: 1})
	if err == nil && len(page.Objects) == 0 {
		err = fs.ErrNotExist
	}
	return err
}

// statFinished describes what has a key, but no upload that its client has not closed.
func (f *FS) statFinished(ctx context.Context, key string) (*info, error) {
	if i, err := f.findStored(ctx, key); !absent(err) {
		return i, err
	}
	u, err := f.state.Find(ctx, key)
	if err == nil && !u.Closed {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return f.describeUpload(ctx, u)
}

// statUpload describes a pending upload. Clients learn from it where to go on.
func (f *FS) statUpload(ctx context.Context, key string) (*info, error) {
	u, err := f.state.Find(ctx, key)
	if err != nil {
		return nil, err
	}
	return f.describeUpload(ctx, u)
}

func (f *FS) describeUpload(ctx context.Context, u Upload) (*info, error) {
	i := &info{name: path.Base(u.Name), size: u.Size, mtime: u.MTime, begun: u.Begun}
	if i.mtime.IsZero() {
		i.mtime = u.Begun
	}
	if u.Closed || u.ID == "" {
		return i, nil
	}
	_, size, err := f.resumable(ctx, u)
	i.size = size
	return i, err
}
