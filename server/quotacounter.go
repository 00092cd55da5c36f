package server

import (
	"context"
	"sync"

	"github.com/usftp/usftp/wire"
)

// Counter is an FS that knows what a quota counts, and calls [Counted] for each change that it has
// made. What a change has replaced is known only to who makes it, if other servers change the same
// files; so the count is right then, too. Its files opened for writing are [FileCounter]s. Absent:
// the quota walks the tree, and looks at the files before and after each change.
type Counter interface {
	// Count counts what is there below a directory.
	Count(ctx context.Context, dir string) (bytes, files int64, err error)
}

// FileCounter is a file of a [Counter] that is open for writing. It calls [Counted] only while it
// is opened and closed.
type FileCounter interface {
	File

	// Counts returns what counts already of the file, or of those that it is to replace.
	Counts() (bytes, files int64)
}

// tally is what a change, or an open file, has told the quota. The quota counts it at the end, so
// that nobody sees one half of a change.
type tally struct {
	mu           sync.Mutex
	bytes, files int64
}

type tallyKey struct{}

// Counted tells the quota of the request with this context that a [Counter] has made a change after
// which so much more is there, or less.
func Counted(ctx context.Context, bytes, files int64) {
	if t, ok := ctx.Value(tallyKey{}).(*tally); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.bytes, t.files = t.bytes+bytes, t.files+files
	}
}

// told returns what was told since the last time.
func (t *tally) told() (bytes, files int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bytes, files = t.bytes, t.files
	t.bytes, t.files = 0, 0
	return bytes, files
}

// WithQuotas runs a change of a [Counter] that no session makes, and counts it for these quotas. Of
// quotas that share a count, one is enough.
func WithQuotas(ctx context.Context, change func(ctx context.Context) error,
	quotas ...*Quota) error {
	t := &tally{}
	for i, q := range quotas {
		if q.sharesCount(quotas[:i]) {
			continue
		}
		leave, err := q.changes.enter(ctx, false, "/") // a count is not under way
		if err != nil {
			return err
		}
		defer leave()
		known, err := q.known(ctx) // a count to come will see the change
		if err != nil {
			return err
		}
		if known {
			defer func() { q.account.Settle(t.bytes, t.files) }()
		}
	}
	return change(context.WithValue(ctx, tallyKey{}, t))
}

// counts reports whether a quota of v has a [Counter].
func (v *View) counts() bool {
	_, ok := v.fs.(Counter)
	return ok
}

// tallied makes a change of a [Counter], for which it reserves space.
func (v *View) tallied(ctx context.Context, bytes, files int64,
	change func(ctx context.Context) error, names ...string) error {
	q := v.quota
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	leave, err := q.changes.enter(ctx, false, names...)
	if err != nil {
		return err
	}
	defer leave()
	if bytes > 0 || files > 0 {
		if err := q.account.Reserve(ctx, bytes, files); err != nil {
			return err
		}
		q.await(bytes, files)
	}
	t := &tally{}
	err = change(context.WithValue(ctx, tallyKey{}, t))
	moreBytes, moreFiles := t.told()
	q.account.Settle(moreBytes-bytes, moreFiles-files)
	q.await(-bytes, -files)
	return err
}

// resizeCounted changes the size of a file of a [Counter].
func (v *View) resizeCounted(ctx context.Context, name string, size uint64,
	resize func(ctx context.Context) error) error {
	info, err := v.fs.Stat(ctx, name)
	if err != nil {
		return err
	}
	if size > 1<<62 {
		return ErrQuota
	}
	return v.tallied(ctx, max(0, int64(size)-info.Size()), 0, resize, name)
}

// openCounted opens a file of a [Counter] for writing. The space that it takes beyond what counts
// already is reserved until it ends.
func (v *View) openCounted(ctx context.Context, name string, flags uint32,
	open func(ctx context.Context) (File, error)) (file File, err error) {
	if flags&wire.OpenWrite == 0 { // the file is made, if there is none, and read
		more := int64(1)
		if _, err := v.fs.Stat(ctx, name); err == nil {
			more = 0
		}
		err = v.tallied(ctx, 0, more, func(ctx context.Context) error {
			file, err = open(ctx)
			return err
		}, name)
		return file, err
	}
	t := &tally{}
	err = v.tallied(ctx, 0, 0, func(ctx context.Context) error {
		file, err = open(context.WithValue(ctx, tallyKey{}, t))
		bytes, files := t.told()
		Counted(ctx, bytes, files)
		if err != nil {
			return err
		}
		f, err := v.reserveCounted(ctx, file, name, t)
		if err != nil {
			end(file, Abandoned)
			bytes, files = t.told()
			Counted(ctx, bytes, files)
			return err
		}
		file = &quotedFile{wrappedFile: wrappedFile{file}, ctx: ctx, v: v, inode: f, name: name,
			append: flags&wire.OpenAppend != 0}
		return nil
	}, name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// reserveCounted reserves what a file that was just opened takes.
func (v *View) reserveCounted(ctx context.Context, file File, name string,
	t *tally) (*inode, error) {
	counter, ok := file.(FileCounter)
	if !ok {
		return nil, errUnsupported
	}
	info, err := v.statOpen(ctx, file, name)
	if err != nil {
		return nil, err
	}
	bytes, files := counter.Counts()
	size := max(info.Size(), bytes)
	if err := v.quota.account.Reserve(ctx, size-bytes, 1-files); err != nil {
		return nil, err
	}
	f := v.quota.inodes.lock(t)
	defer f.mu.Unlock()
	f.size, f.least, f.more, f.tally, f.handles = size, bytes, 1-files, t, 1
	v.quota.await(size-bytes, 1-files)
	return f, nil
}

// endCounted ends a file of a [Counter], with which its reservation ends, too.
func (f *quotedFile) endCounted(how Ending) error {
	q, file := f.v.quota, f.inode
	defer q.inodes.leave(file)
	leave, err := q.changes.enter(context.WithoutCancel(f.ctx), false, f.name)
	if err != nil { // that context does not end
		return err
	}
	defer leave()
	err = end(f.File, how)
	file.mu.Lock()
	defer file.mu.Unlock()
	bytes, files := file.tally.told()
	q.account.Settle(bytes-(file.size-file.least), files-file.more)
	q.await(-(file.size - file.least), -file.more)
	file.size, file.more, file.handles = file.least, 0, 0
	return err
}
