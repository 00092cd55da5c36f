package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/usftp/usftp/wire"
)

// Quota limits the contents of a directory: the total size of its files, and the number of files,
// directories and links. Sessions that write there share one. It is safe for concurrent use.
//
// The directory is walked and counted when the count is first needed, unless an [Account] has the
// count already; from then on the count follows what sessions do. Changes made by other programs
// are not seen until Recount. A hole in a file counts as if it were filled; a file with several
// names counts once (see [Linked]); a file removed while open counts until it is closed.
type Quota struct {
	account Account

	mu      sync.Mutex
	counted bool
	open    map[any]*quotaFile // files that are open for writing, by identity
}

// NewQuota returns a quota whose count is in memory; 0 means unlimited.
func NewQuota(maxBytes, maxFiles int64) *Quota {
	q := NewQuotaOf(&counter{now: Usage{MaxBytes: maxBytes, MaxFiles: maxFiles}})
	q.counted = false
	return q
}

// NewQuotaOf returns a quota of an account, whose count is taken as it is. All sessions of a server
// that write to the directory must share the quota, since it knows which files they have open.
func NewQuotaOf(account Account) *Quota {
	return &Quota{account: account, counted: true, open: map[any]*quotaFile{}}
}

// ErrQuota is the error of requests that would exceed a quota.
var ErrQuota = &StatusError{Code: wire.Failure, Message: "quota exceeded"}

// Usage returns the current count, or zeros before the first count.
func (q *Quota) Usage() (bytes, files int64) {
	now := q.account.Usage()
	return now.Bytes, now.Files
}

// limit lowers the free space of a file system to what the quota leaves.
func (q *Quota) limit(reply *wire.StatVFSReply) {
	now := q.account.Usage()
	if now.MaxBytes > 0 && reply.FragmentSize > 0 {
		left := uint64(max(0, now.MaxBytes-now.Bytes)) / reply.FragmentSize
		reply.Blocks = min(reply.Blocks, uint64(now.MaxBytes)/reply.FragmentSize)
		reply.BlocksFree = min(reply.BlocksFree, left)
		reply.BlocksAvailable = min(reply.BlocksAvailable, left)
	}
	if now.MaxFiles > 0 {
		left := uint64(max(0, now.MaxFiles-now.Files))
		reply.Files = uint64(now.MaxFiles)
		reply.FilesFree = min(reply.FilesFree, left)
		reply.FilesAvailable = min(reply.FilesAvailable, left)
	}
}

// Recount counts the tree below dir again, after other programs have changed it. Writers wait for
// it, readers do not. After an error the old count stays.
func (q *Quota) Recount(ctx context.Context, backend FS, dir string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count(ctx, backend, dir)
}

// count is Recount; the caller holds the lock.
func (q *Quota) count(ctx context.Context, backend FS, dir string) error {
	lister, ok := backend.(Lister)
	if !ok {
		return errUnsupported
	}
	bytes, files, err := q.countBelow(ctx, lister, dir, 0, map[any]bool{})
	if err != nil {
		return err
	}
	for _, f := range q.open {
		if f.unlinked { // a walk does not find it
			bytes += f.size
		}
	}
	before := q.account.Usage()
	q.account.Settle(bytes-before.Bytes, files-before.Files)
	q.counted = true
	return nil
}

// maxWalk is how deep a quota counts: paths to anything deeper are too long for a request.
const maxWalk = maxPath / 2

// countBelow is count for one directory; seen holds the files with several names that were counted.
func (q *Quota) countBelow(ctx context.Context, lister Lister, dir string, depth int,
	seen map[any]bool) (bytes, files int64, err error) {
	var below []string
	for info, err := range withoutDots(lister.List(ctx, dir)) {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				return bytes, files, nil
			}
			return 0, 0, err
		}
		files++
		switch name := path.Join(dir, info.Name()); {
		case info.IsDir():
			below = append(below, name)
		case info.Mode().IsRegular():
			bytes += q.sizeOf(info, name, seen)
		}
	}
	for _, name := range below {
		if depth == maxWalk {
			break
		}
		b, f, err := q.countBelow(ctx, lister, name, depth+1, seen)
		if err != nil {
			return 0, 0, err
		}
		bytes, files = bytes+b, files+f
	}
	return bytes, files, ctx.Err()
}

// sizeOf returns what a file counts for: its size, or what pending writes have reserved if that is
// more.
func (q *Quota) sizeOf(info fs.FileInfo, name string, seen map[any]bool) int64 {
	key := identityOf(info, name)
	if linkCount(info) > 1 {
		if seen[key] {
			return 0
		}
		seen[key] = true
	}
	f := q.open[key]
	if f == nil {
		return info.Size()
	}
	f.size = max(f.size, info.Size())
	return f.size
}

// ready counts the tree unless that has been done. The caller holds the lock.
func (q *Quota) ready(ctx context.Context, v *View) error {
	if q.counted {
		return nil
	}
	return q.count(WithBeneath(ctx, ""), v.fs, v.home)
}

// The quota methods of a View change the backend while holding the quota's lock, so that the count
// and the tree change together.

// quotaMake runs make, which makes one file, directory or link.
func (v *View) quotaMake(ctx context.Context, make func() error) error {
	q := v.quota
	if q == nil {
		return make()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	if err := q.account.Reserve(ctx, 0, 1); err != nil {
		return err
	}
	err := make()
	if err != nil {
		q.account.Settle(0, -1)
	}
	return err
}

// quotaRemove runs remove, which removes a name.
func (v *View) quotaRemove(ctx context.Context, name string, remove func() error) error {
	q := v.quota
	if q == nil {
		return remove()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	info, err := v.lstat(ctx, name)
	if err != nil {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	q.gone(info, name)
	return nil
}

// gone subtracts a file whose name was removed; the caller holds the lock.
func (q *Quota) gone(info fs.FileInfo, name string) {
	q.account.Settle(0, -1)
	if !info.Mode().IsRegular() || linkCount(info) > 1 {
		return
	}
	key := identityOf(info, name)
	f := q.open[key]
	if f == nil {
		q.account.Settle(-info.Size(), 0)
		return
	}
	// The system keeps the contents until the file is closed, and so does the count. A new file may
	// get the same identity meanwhile.
	f.unlinked = true
	delete(q.open, key)
	f.key = f
	q.open[f] = f
}

// quotaReplace runs rename, which may replace a file.
func (v *View) quotaReplace(ctx context.Context, oldName, newName string,
	rename func() error) error {
	q := v.quota
	if q == nil {
		return rename()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	replaced, missing := v.lstat(ctx, newName)
	if err := rename(); err != nil {
		return err
	}
	if missing == nil {
		if _, err := v.lstat(ctx, oldName); err == nil {
			return nil // two names of one file, which POSIX leaves alone
		}
		q.gone(replaced, newName)
	}
	q.moved(oldName, newName)
	return nil
}

// moved follows open files that are known only by their paths. The caller holds the lock.
func (q *Quota) moved(oldName, newName string) {
	for key, f := range q.open {
		name, ok := key.(string)
		if rest, below := strings.CutPrefix(name, oldName); ok && below &&
			(rest == "" || rest[0] == '/') {
			delete(q.open, key)
			f.key = newName + rest
			q.open[f.key] = f
		}
	}
}

// quotaResize runs resize, which changes the size of the file called name.
func (v *View) quotaResize(ctx context.Context, name string, size uint64,
	resize func() error) error {
	q := v.quota
	if q == nil {
		return resize()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	info, err := v.fs.Stat(ctx, name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return resize() // which fails
	}
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	f := q.open[identityOf(info, name)]
	if f == nil {
		f = &quotaFile{size: info.Size()}
	}
	stat := func() (fs.FileInfo, error) { return v.fs.Stat(ctx, name) }
	return q.resize(ctx, f, size, resize, stat)
}

// grow adds to the count of bytes, or subtracts.
func (q *Quota) grow(ctx context.Context, bytes int64) error {
	if bytes > 0 {
		return q.account.Reserve(ctx, bytes, 0)
	}
	q.account.Settle(bytes, 0)
	return nil
}

// resize runs a change that includes a file's size, and may fail in another part. The caller holds
// the lock.
func (q *Quota) resize(ctx context.Context, f *quotaFile, size uint64, resize func() error,
	stat func() (fs.FileInfo, error)) error {
	if size > 1<<62 {
		return ErrQuota
	}
	old, now := f.size, f.atLeast(int64(size))
	if err := q.grow(ctx, now-old); err != nil {
		return err
	}
	f.size = now
	err := resize()
	if err == nil {
		return nil
	}
	now = old
	if info, statErr := stat(); statErr == nil {
		now = max(old, info.Size())
	}
	q.account.Settle(now-f.size, 0)
	f.size = now
	return err
}

// quotaOpen opens a file for writing.
func (v *View) quotaOpen(ctx context.Context, name string, flags uint32, attrs *wire.Attrs,
	open func() (File, error)) (File, error) {
	q := v.quota
	if q == nil || flags&writing == 0 {
		return open()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return nil, err
	}
	charged := int64(0)
	before, missing := v.fs.Stat(ctx, name)
	if missing == nil && before.Mode().IsRegular() {
		charged = before.Size()
	}
	isNew := errors.Is(missing, fs.ErrNotExist) && flags&wire.OpenCreate != 0
	if isNew {
		if attrs.Has(wire.AttrSize) {
			charged = int64(min(attrs.Size, 1<<62))
		}
		if err := q.account.Reserve(ctx, charged, 1); err != nil {
			return nil, err
		}
	}
	file, err := open()
	if err != nil {
		// it may have been created anyway
		if _, missing := v.fs.Stat(ctx, name); isNew && missing != nil {
			q.account.Settle(-charged, -1)
		}
		return nil, err
	}
	info, err := v.statOpen(ctx, file, name)
	if err != nil {
		file.Close()
		return nil, err
	}
	return q.opened(ctx, file, info, name, charged, flags), nil
}

// statOpen describes an open file or directory; file is nil for a directory.
func (v *View) statOpen(ctx context.Context, file File, name string) (fs.FileInfo, error) {
	if stater, ok := file.(FileStater); ok {
		if info, err := stater.Stat(); !errors.Is(err, errors.ErrUnsupported) {
			return info, err
		}
	}
	return v.fs.Stat(ctx, name)
}

// quotaFile is an open file, with any number of handles and names.
type quotaFile struct {
	key      any // in Quota.open
	size     int64
	handles  int
	unlinked bool // its last name is gone

	// The writes that are under way may come after a truncation.
	ends     []int64 // where they end
	appended int64   // their bytes, of those at the end of the file, wherever that is
}

// atLeast returns how large a file of the given size may be after the writes under way.
func (f *quotaFile) atLeast(size int64) int64 {
	for _, end := range f.ends {
		size = max(size, end)
	}
	return size + f.appended
}

// opened records an open file, for which charged bytes were counted; the caller holds the lock.
func (q *Quota) opened(ctx context.Context, file File, info fs.FileInfo, name string, charged int64,
	flags uint32) File {
	size := int64(0)
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	key := identityOf(info, name)
	f := q.open[key]
	switch {
	case f == nil:
		q.account.Settle(size-charged, 0) // opening may have truncated it
		f = &quotaFile{key: key, size: size}
		q.open[key] = f
	case flags&wire.OpenTruncate != 0:
		size = f.atLeast(size)
		q.account.Settle(size-f.size, 0)
		f.size = size
	}
	f.handles++
	return &quotedFile{File: file, ctx: ctx, q: q, f: f, append: flags&wire.OpenAppend != 0}
}

// quotedFile is a File under a quota. It has every method that a File may have.
type quotedFile struct {
	File
	ctx    context.Context // of the session
	q      *Quota
	f      *quotaFile
	append bool
	once   sync.Once
}

func (f *quotedFile) ReadAt(p []byte, offset int64) (int, error) {
	if reader, ok := f.File.(io.ReaderAt); ok {
		return reader.ReadAt(p, offset)
	}
	return 0, errUnsupported
}

// reserve reserves space for length bytes at offset or, for a file opened for appending, at the end
// of all reservations. A range that several handles write to is reserved once. When the write has
// ended, written must be called with the same offset and length.
func (f *quotedFile) reserve(offset, length int64) error {
	f.q.mu.Lock()
	defer f.q.mu.Unlock()
	end := offset + length
	if f.append {
		end = f.f.size + length
	}
	if growth := end - f.f.size; growth > 0 {
		if err := f.q.account.Reserve(f.ctx, growth, 0); err != nil {
			return err
		}
		f.f.size += growth
	}
	if f.append {
		f.f.appended += length
	} else {
		f.f.ends = append(f.f.ends, end)
	}
	return nil
}

func (f *quotedFile) written(offset, length int64) {
	f.q.mu.Lock()
	defer f.q.mu.Unlock()
	if f.append {
		f.f.appended -= length
	} else if i := slices.Index(f.f.ends, offset+length); i >= 0 {
		f.f.ends = slices.Delete(f.f.ends, i, i+1)
	}
}

// WriteAt keeps the reservation if a write fails, since how much was written is not known until
// Close.
func (f *quotedFile) WriteAt(p []byte, offset int64) (int, error) {
	writer, ok := f.File.(io.WriterAt)
	if !ok {
		return 0, errUnsupported
	}
	if err := f.reserve(offset, int64(len(p))); err != nil {
		return 0, err
	}
	defer f.written(offset, int64(len(p)))
	return writer.WriteAt(p, offset)
}

func (f *quotedFile) CopyFrom(ctx context.Context, source File, from, length,
	to int64) (int64, error) {
	copier, ok := f.File.(FileCopier)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if quoted, ok := source.(*quotedFile); ok {
		source = quoted.File
	}
	stater, ok := source.(FileStater)
	if !ok {
		return 0, errors.ErrUnsupported // the session reserves for each piece
	}
	info, err := stater.Stat()
	if err != nil {
		return 0, err
	}
	length = min(length, max(0, info.Size()-from))
	if err := f.reserve(to, length); err != nil {
		return 0, err
	}
	defer f.written(to, length)
	return copier.CopyFrom(ctx, source, from, length, to)
}

func (f *quotedFile) Stat() (fs.FileInfo, error) {
	if stater, ok := f.File.(FileStater); ok {
		return stater.Stat()
	}
	return nil, errUnsupported
}

func (f *quotedFile) Setstat(attrs wire.Attrs) error {
	setstater, ok := f.File.(FileSetstater)
	if !ok {
		return errUnsupported
	}
	if !attrs.Has(wire.AttrSize) {
		return setstater.Setstat(attrs)
	}
	f.q.mu.Lock()
	defer f.q.mu.Unlock()
	set := func() error { return setstater.Setstat(attrs) }
	return f.q.resize(f.ctx, f.f, attrs.Size, set, f.Stat)
}

func (f *quotedFile) Sync() error {
	if syncer, ok := f.File.(FileSyncer); ok {
		return syncer.Sync()
	}
	return errUnsupported
}

func (f *quotedFile) StatVFS() (wire.StatVFSReply, error) {
	if stater, ok := f.File.(FileStatVFSer); ok {
		return stater.StatVFS()
	}
	return wire.StatVFSReply{}, errUnsupported
}

// Close corrects the count to the file's actual size, if the backend can report it.
func (f *quotedFile) Close() error { return f.end(f.File.Close) }

func (f *quotedFile) Abandon() error {
	return f.end(func() error { return abandon(f.File) })
}

func (f *quotedFile) end(end func() error) error {
	info, statErr := f.Stat()
	err := end()
	f.once.Do(func() {
		f.q.mu.Lock()
		defer f.q.mu.Unlock()
		if f.f.handles--; f.f.handles > 0 {
			return
		}
		delete(f.q.open, f.f.key)
		switch {
		case f.f.unlinked:
			f.q.account.Settle(-f.f.size, 0)
		case statErr == nil && info.Mode().IsRegular():
			f.q.account.Settle(info.Size()-f.f.size, 0)
		}
	})
	return err
}
