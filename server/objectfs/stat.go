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
	object Object    // of a stored file
	begun  time.Time // of a pending upload
	open   bool      // it is a pending upload that is still being written
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

// Mode returns fixed modes: objects have none.
func (i *info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// describe returns the info of an object. times may hold a time that was set for it.
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

// stat describes the entry at a key: an object, a directory, or an upload that its client may
// resume.
func (f *FS) stat(ctx context.Context, key string) (*info, error) {
	u, missing := f.state.Find(ctx, key) // first: one that is completed meanwhile is stored then
	if i, err := f.statStored(ctx, key); !absent(err) {
		return i, err
	}
	if missing == nil && u.reserves() {
		missing = fs.ErrNotExist
	}
	if missing != nil {
		return nil, missing
	}
	i, err := f.describeUpload(ctx, u)
	if absent(err) { // it has just been completed or aborted
		return f.statStored(ctx, key)
	}
	return i, err
}

// statStored describes an object or a directory, but no pending upload.
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

// findStored describes the object or directory at a key, without the time that was set for it,
// which only the state knows.
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

// findDirectory returns fs.ErrNotExist unless an object exists below the key, or the key is the
// root's.
func (f *FS) findDirectory(ctx context.Context, key string) error {
	if key == f.prefix {
		return nil
	}
	below := Query{Prefix: strings.TrimSuffix(key, "/") + "/", Max: 1}
	for page, err := range f.pages(ctx, below) {
		if err == errNoProgress {
			break
		}
		if err != nil || len(page.Objects) > 0 {
			return err
		}
	}
	return fs.ErrNotExist
}

// describeUpload describes a pending upload. Its size tells clients where to resume.
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
