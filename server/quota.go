package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"

	"github.com/usftp/usftp/wire"
)

// Quota bounds what a directory may hold: the bytes of its files, and the number of files, directories and links. Sessions
// that may write there share one. It is safe for concurrent use.
//
// What is there is counted when it is first needed, by walking the directory, and kept up with what sessions do from then
// on. Changes by others are not seen before Recount. A hole in a file counts as if it were filled; a file with several
// names counts with each of them while it is walked, and until its last name is gone afterwards.
type Quota struct {
	maxBytes, maxFiles int64

	mu      sync.Mutex
	counted bool
	bytes   int64
	files   int64
	open    map[string]*quotaFile // files that are open for writing, by path
}

// quotaFile is a file that is open, by however many handles.
type quotaFile struct {
	size    int64
	handles int
}

// NewQuota returns a quota; 0 means no bound.
func NewQuota(maxBytes, maxFiles int64) *Quota {
	return &Quota{maxBytes: maxBytes, maxFiles: maxFiles, open: map[string]*quotaFile{}}
}

// ErrQuota is what goes beyond a quota.
var ErrQuota = &StatusError{Code: wire.Failure, Message: "quota exceeded"}

// Usage returns what has been counted; both are 0 before the first time.
func (q *Quota) Usage() (bytes, files int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes, q.files
}

// limit makes a file system look no emptier than the quota leaves it.
func (q *Quota) limit(reply *wire.StatVFSReply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.maxBytes > 0 && reply.FragmentSize > 0 {
		left := uint64(max(0, q.maxBytes-q.bytes)) / reply.FragmentSize
		reply.Blocks = min(reply.Blocks, uint64(q.maxBytes)/reply.FragmentSize)
		reply.BlocksFree, reply.BlocksAvailable = min(reply.BlocksFree, left), min(reply.BlocksAvailable, left)
	}
	if q.maxFiles > 0 {
		left := uint64(max(0, q.maxFiles-q.files))
		reply.Files = uint64(q.maxFiles)
		reply.FilesFree, reply.FilesAvailable = min(reply.FilesFree, left), min(reply.FilesAvailable, left)
	}
}

// Recount counts anew what lies below dir.
func (q *Quota) Recount(ctx context.Context, backend FS, dir string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count(ctx, backend, dir)
}

func (q *Quota) count(ctx context.Context, backend FS, dir string) error {
	lister, ok := backend.(Lister)
	if !ok {
		return errUnsupported
	}
	bytes, files, err := countBelow(ctx, lister, dir, 0)
	if err != nil {
		return err
	}
	q.bytes, q.files, q.counted = bytes, files, true
	return nil
}

// maxWalk is how deep a quota looks; the paths of what lies deeper are too long to be asked for.
const maxWalk = maxPath / 2

func countBelow(ctx context.Context, lister Lister, dir string, depth int) (bytes, files int64, err error) {
	var below []string
	for info, err := range lister.List(ctx, dir) {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				return bytes, files, nil
			}
			return 0, 0, err
		}
		files++
		switch {
		case info.IsDir():
			below = append(below, path.Join(dir, info.Name()))
		case info.Mode().IsRegular():
			bytes += info.Size()
		}
	}
	for _, name := range below {
		if depth == maxWalk {
			break
		}
		b, f, err := countBelow(ctx, lister, name, depth+1)
		if err != nil {
			return 0, 0, err
		}
		bytes, files = bytes+b, files+f
	}
	return bytes, files, ctx.Err()
}

// ready counts if nobody has yet; the caller holds the lock.
func (q *Quota) ready(ctx context.Context, v *View) error {
	if q.counted {
		return nil
	}
	return q.count(ctx, v.fs, v.home)
}

// take asks for more; the caller holds the lock. Giving back never fails.
func (q *Quota) take(bytes, files int64) error {
	if q.maxBytes > 0 && bytes > 0 && q.bytes+bytes > q.maxBytes || q.maxFiles > 0 && files > 0 && q.files+files > q.maxFiles {
		return ErrQuota
	}
	q.bytes, q.files = max(0, q.bytes+bytes), max(0, q.files+files)
	return nil
}

// quotaMake runs what makes one more file, directory or link.
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
	if err := q.take(0, 1); err != nil {
		return err
	}
	err := make()
	if err != nil {
		q.take(0, -1)
	}
	return err
}

// quotaRemove runs what takes the name of something away.
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
	q.gone(info)
	return nil
}

// gone takes off what had the name that is gone; the caller holds the lock.
func (q *Quota) gone(info fs.FileInfo) {
	var bytes int64
	if info.Mode().IsRegular() && linkCount(info) == 1 {
		bytes = info.Size()
	}
	q.take(-bytes, -1)
}

// quotaReplace runs a rename, which may take away what has the new name.
func (v *View) quotaReplace(ctx context.Context, oldName, newName string, rename func() error) error {
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
	if missing == nil && oldName != newName {
		q.gone(replaced)
	}
	// Who has the file open goes on under its new name.
	if f := q.open[oldName]; f != nil {
		delete(q.open, oldName)
		q.open[newName] = f
	}
	return nil
}

// quotaResize runs what gives the file at name another size.
func (v *View) quotaResize(ctx context.Context, name string, size uint64, resize func() error) error {
	q := v.quota
	if q == nil {
		return resize()
	}
	info, err := v.fs.Stat(ctx, name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return resize() // which fails
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return err
	}
	old := info.Size()
	f := q.open[name]
	if f != nil {
		old = f.size
	}
	return q.resize(f, old, size, resize)
}

// resize runs what gives a file another size; the caller holds the lock.
func (q *Quota) resize(f *quotaFile, old int64, size uint64, resize func() error) error {
	if size > 1<<62 {
		return ErrQuota
	}
	before := q.bytes
	if err := q.take(int64(size)-old, 0); err != nil {
		return err
	}
	if err := resize(); err != nil {
		q.bytes = before
		return err
	}
	if f != nil {
		f.size = int64(size)
	}
	return nil
}

// quotaOpen opens a file for writing.
func (v *View) quotaOpen(ctx context.Context, name string, flags uint32, open func() (File, error)) (File, error) {
	q := v.quota
	if q == nil || flags&writing == 0 {
		return open()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx, v); err != nil {
		return nil, err
	}
	before, missing := v.fs.Stat(ctx, name)
	isNew := errors.Is(missing, fs.ErrNotExist) && flags&wire.OpenCreate != 0
	if isNew {
		if err := q.take(0, 1); err != nil {
			return nil, err
		}
	}
	file, err := open()
	if err != nil {
		if isNew {
			q.take(0, -1)
		}
		return nil, err
	}
	f := q.open[name]
	if f == nil {
		f = &quotaFile{}
		if missing == nil && before.Mode().IsRegular() {
			f.size = before.Size()
		}
		q.open[name] = f
	}
	if flags&wire.OpenTruncate != 0 {
		q.take(-f.size, 0)
		f.size = 0
	}
	f.handles++
	return &quotedFile{File: file, q: q, f: f, append: flags&wire.OpenAppend != 0}, nil
}

// quotedFile is a File under a quota. It has a method for all that a File can do.
type quotedFile struct {
	File
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

// reserve asks for the room up to end, and returns by how much the file grows. Written by several at once it is asked for
// once.
func (f *quotedFile) reserve(end int64) (growth int64, err error) {
	f.q.mu.Lock()
	defer f.q.mu.Unlock()
	if growth = max(0, end-f.f.size); growth > 0 {
		err = f.q.take(growth, 0)
	}
	if err != nil {
		return 0, err
	}
	f.f.size += growth
	return growth, nil
}

// WriteAt keeps what was asked for when a write fails: how far it came is not known, and closing tells.
func (f *quotedFile) WriteAt(p []byte, offset int64) (int, error) {
	writer, ok := f.File.(io.WriterAt)
	if !ok {
		return 0, errUnsupported
	}
	end := offset + int64(len(p))
	if f.append {
		f.q.mu.Lock()
		end = f.f.size + int64(len(p))
		f.q.mu.Unlock()
	}
	if _, err := f.reserve(end); err != nil {
		return 0, err
	}
	return writer.WriteAt(p, offset)
}

func (f *quotedFile) CopyFrom(ctx context.Context, source File, from, length, to int64) (int64, error) {
	copier, ok := f.File.(FileCopier)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if quoted, ok := source.(*quotedFile); ok {
		source = quoted.File
	}
	stater, ok := source.(FileStater)
	if !ok {
		return 0, errors.ErrUnsupported // written piece by piece, each is asked for
	}
	info, err := stater.Stat()
	if err != nil {
		return 0, err
	}
	length = min(length, max(0, info.Size()-from))
	if _, err := f.reserve(to + length); err != nil {
		return 0, err
	}
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
	return f.q.resize(f.f, f.f.size, attrs.Size, func() error { return setstater.Setstat(attrs) })
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

// Close corrects what was counted by what the file is, where that can be told.
func (f *quotedFile) Close() error {
	info, statErr := f.Stat()
	err := f.File.Close()
	f.once.Do(func() {
		f.q.mu.Lock()
		defer f.q.mu.Unlock()
		if f.f.handles--; f.f.handles > 0 {
			return
		}
		if statErr == nil {
			f.q.take(min(0, info.Size()-f.f.size), 0)
		}
		for name, open := range f.q.open {
			if open == f.f {
				delete(f.q.open, name)
			}
		}
	})
	return err
}
