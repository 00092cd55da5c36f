package transfer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/pool"
)

// Shared lets copies that run at the same time read a common source once: a file or a tree that
// goes to many hosts. It keeps the blocks read last in a bounded buffer, however many copies there
// are. The first copy that needs a block reads it, and the others take it from the buffer. A copy
// that falls behind by more than the buffer holds reads the source itself, and delays nobody. The
// source is on this machine ([Shared.Local]) or on a host ([Shared.Host]). Streams cannot be read
// again; see [Shared.Reader] for how slow copies are handled there.
//
// It is safe for concurrent use.
type Shared struct {
	memory int64
	pool   buffer.Pool
	read   atomic.Int64

	mu     sync.Mutex
	held   int64 // bytes of blocks, including those being read
	blocks map[blockKey]*sharedBlock
	order  []*sharedBlock            // blocks in the order they were read
	ahead  map[blockKey]*sharedAhead // streams of files on hosts, by the block that is next
}

const defaultSharedMemory = 64 << 20

// sharedBlockSize is the size of the blocks of large files and of streams.
const sharedBlockSize = buffer.Large

// NewShared returns a buffer of memory bytes; 0 means 64 MiB. Each copy may hold another block of
// 256 KiB. Call Close once the copies are over.
func NewShared(memory int64) *Shared {
	return &Shared{memory: max(cmp.Or(memory, defaultSharedMemory), 2*sharedBlockSize),
		blocks: make(map[blockKey]*sharedBlock), ahead: make(map[blockKey]*sharedAhead)}
}

// Local works like [Local] for a source whose contents are shared. Each copy lists directories
// itself and moves through the tree at its own pace. The path must not be a pipe or a device; open
// those and use [Shared.Reader].
func (s *Shared) Local(path string) Endpoint {
	e := Local(path)
	open := e.newSource
	e.newSource = func(j *job) (endpoint.Place, error) {
		src, err := open(j)
		return &sharedSource{src, s, nil}, err
	}
	return e
}

// BytesRead returns how many bytes have been read from sources.
func (s *Shared) BytesRead() int64 { return s.read.Load() }

// Close frees the memory. No copy may be running.
func (s *Shared) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(s.held)
	s.pool.Close()
}

var (
	errNotShared = errors.New("can be read only once: open it and use Shared.Reader")

	// errOwn reports that a copy must not share the data it read.
	errOwn = errors.New("may be changing")
)

// A fileKey identifies one state of a file: blocks read before a change are not used after it.
type fileKey struct {
	host  *SharedHost // nil for this machine
	name  string
	size  int64
	mtime int64
}

type blockKey struct {
	fileKey
	index int64 // the block's number; wholeFile for a small file
}

const wholeFile = -1

// A sharedBlock is a piece of a file in memory. It is valid once ready is closed.
type sharedBlock struct {
	key   blockKey
	mem   *buffer.Block
	data  []byte
	ready chan struct{}
	bad   bool      // it could not be read
	asked time.Time // when reading it started
	users int       // copies that wait for it or read from it
	gone  bool      // to be freed by its last user
}

// take returns a block, which the caller must give back. The first caller reads it with load, and
// gets load's error; if that fails the others get nil, and should read the source themselves.
func (s *Shared) take(ctx context.Context, key blockKey, size int,
	load func([]byte) (int, error)) (*sharedBlock, error) {
	s.mu.Lock()
	b := s.blocks[key]
	if b == nil {
		b = s.add(key, size)
		s.mu.Unlock()
		return s.load(b, size, load)
	}
	b.users++
	s.mu.Unlock()
	return s.wait(ctx, b)
}

// wait waits for a block that is being read, and gives it back if that fails: then it returns nil.
func (s *Shared) wait(ctx context.Context, b *sharedBlock) (*sharedBlock, error) {
	select {
	case <-b.ready:
	case <-ctx.Done():
		s.give(b)
		return nil, context.Cause(ctx)
	}
	if b.bad {
		s.give(b)
		return nil, nil
	}
	return b, nil
}

// add makes room for a block, which the caller must read. The caller holds the lock.
func (s *Shared) add(key blockKey, size int) *sharedBlock {
	s.evict(s.held + int64(size) - s.memory)
	b := &sharedBlock{key: key, mem: s.pool.Get(size), ready: make(chan struct{}), users: 1,
		asked: time.Now()}
	s.held += int64(len(b.mem.Bytes()))
	s.blocks[key] = b
	return b
}

func (s *Shared) load(b *sharedBlock, size int, load func([]byte) (int, error)) (*sharedBlock,
	error) {
	loaded := false
	defer func() {
		s.mu.Lock()
		s.loaded(b, loaded)
		s.mu.Unlock()
		if !loaded {
			s.give(b)
		}
	}()
	n, err := load(b.mem.Bytes()[:size])
	if err != nil {
		return nil, err
	}
	s.read.Add(int64(n))
	b.data, loaded = b.mem.Bytes()[:n], true
	return b, nil
}

// loaded wakes the copies that wait for a block; ok is false if it could not be read. The caller
// holds the lock.
func (s *Shared) loaded(b *sharedBlock, ok bool) {
	if ok {
		s.order = append(s.order, b)
	} else {
		b.bad, b.gone = true, true
		delete(s.blocks, b.key)
	}
	close(b.ready)
}

func (s *Shared) give(b *sharedBlock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.users--; b.users == 0 && b.gone {
		s.free(b)
	}
}

// evict drops the oldest blocks until this many bytes are free or none are left. Blocks in use are
// freed by their last user. The caller holds the lock.
func (s *Shared) evict(bytes int64) {
	dropped := 0
	for _, b := range s.order {
		if bytes <= 0 {
			break
		}
		dropped++
		bytes -= int64(len(b.mem.Bytes()))
		delete(s.blocks, b.key)
		if b.gone = true; b.users == 0 {
			s.free(b)
		}
	}
	clear(s.order[:dropped])
	s.order = s.order[dropped:]
}

// free frees a block's memory. The caller holds the lock.
func (s *Shared) free(b *sharedBlock) {
	s.held -= int64(len(b.mem.Bytes()))
	b.mem.Release()
	b.mem, b.data = nil, nil
}

// sharedSource is a source whose files are read through a Shared.
type sharedSource struct {
	endpoint.Place
	shared *Shared
	host   *SharedHost // nil for this machine
}

func (s *sharedSource) Opener(on *pool.Host) endpoint.Opener {
	return &sharedOpener{s.Place.Opener(on), s.shared, s.host}
}

func (s *sharedSource) limits(of *tree) (limits, error) {
	l, err := limitsOf(of, s.Place)
	if err == nil && s.host != nil {
		s.host.limit(l.handles)
	}
	return l, err
}

// sharedOpener opens files that are read through a Shared.
type sharedOpener struct {
	endpoint.Opener
	shared *Shared
	host   *SharedHost // nil for this machine
}

func (o *sharedOpener) Open(ctx context.Context, name string,
	how endpoint.Opening) (endpoint.Reader, error) {
	if o.host == nil && how&endpoint.Regular == 0 {
		// opening a pipe again would take part of its data
		info, err := os.Stat(name)
		if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			return nil, &fs.PathError{Op: "share", Path: name, Err: errNotShared}
		}
	}
	free := o.host.take()
	own, err := o.Opener.Open(ctx, name, how)
	if err != nil {
		free()
		return nil, err
	}
	f := &sharedReader{Reader: own, ctx: ctx, shared: o.shared, free: free}
	if info := own.Info(); o.shares(info) { // otherwise it seems to have no blocks
		f.key = o.key(name, info)
		if remote, ok := own.(*endpoint.HostFile); ok {
			f.ahead = &sharedAhead{shared: o.shared, file: remote.File}
		}
	}
	return f, nil
}

// ReadWhole implements [endpoint.Opener].
func (o *sharedOpener) ReadWhole(ctx context.Context, name string, how endpoint.Opening,
	info *endpoint.Info, to endpoint.Memory) error {
	if info.Size <= 0 || !o.shares(info) {
		return o.Opener.ReadWhole(ctx, name, how, info, to)
	}
	key := blockKey{o.key(name, info), wholeFile}
	var own []byte
	b, err := o.shared.take(ctx, key, int(info.Size), func(p []byte) (int, error) {
		defer o.host.take()()
		read := &seenMemory{Memory: to}
		err := o.Opener.ReadWhole(ctx, name, how, info, read)
		if own = read.data; err == nil && o.changing(name, info, key.fileKey) {
			err = errOwn
		}
		return copy(p, own), err
	})
	switch {
	case err == errOwn:
		return nil
	case err != nil:
		return err
	case b == nil:
		return o.Opener.ReadWhole(ctx, name, how, info, to)
	}
	defer o.shared.give(b)
	if own == nil {
		copy(to.Lend(len(b.data)), b.data)
	}
	return nil
}

// seenMemory is memory that keeps the buffer it lends.
type seenMemory struct {
	endpoint.Memory
	data []byte
}

// Closing keeps the copy's handle. If it had to be taken again, that would be while the read counts
// among those of the host, for which others wait with their handles.
func (*seenMemory) Closing() {}

func (m *seenMemory) Lend(n int) []byte {
	m.data = m.Memory.Lend(n)
	return m.data
}

// shares reports whether a file's state is known well enough to share its contents.
func (o *sharedOpener) shares(info *endpoint.Info) bool {
	return info.IsRegular() && (o.host == nil || info.HasTimes)
}

func (o *sharedOpener) key(name string, f *endpoint.Info) fileKey {
	id := ""
	if f.Local != nil {
		id = localfs.ID(f.Local)
	}
	return fileKey{o.host, cmp.Or(id, name), f.Size, f.Mtime.UnixNano()}
}

// changing reports whether a small file was written to since it was listed or, on a host, so
// recently that its time, in whole seconds, would not show another write.
func (o *sharedOpener) changing(name string, now *endpoint.Info, listed fileKey) bool {
	return o.key(name, now) != listed || o.host != nil && time.Since(now.Mtime) < filecopy.RacyFor
}

// sharedReader is an open file that is read through a Shared.
type sharedReader struct {
	endpoint.Reader // the file itself
	ctx             context.Context
	shared          *Shared
	ahead           *sharedAhead // nil for a file on this machine
	key             fileKey
	free            func()    // gives back the handle of a file of a tree on a host
	off             int64     // of the next Read
	oldest          time.Time // when any copy first asked for a part of it
}

// Own implements [filecopy.SharedReader].
func (f *sharedReader) Own() endpoint.Reader { return f.Reader }

// Oldest implements [filecopy.SharedReader].
func (f *sharedReader) Oldest() time.Time { return f.oldest }

func (f *sharedReader) Close() error {
	if f.ahead != nil {
		f.ahead.stop()
	}
	defer f.free()
	return f.Reader.Close()
}

func (f *sharedReader) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += f.off
	case io.SeekEnd:
		off += f.key.size
	}
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	f.off = off
	return off, nil
}

func (f *sharedReader) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.off)
	f.off += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *sharedReader) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		var got int
		got, err = f.readBlock(p[n:], off+int64(n))
		n += got
	}
	return n, err
}

// readBlock reads from a single block.
func (f *sharedReader) readBlock(p []byte, off int64) (int, error) {
	if off >= f.key.size {
		return f.Reader.ReadAt(p, off) // shows whether it has grown
	}
	index, from := off/sharedBlockSize, int(off%sharedBlockSize)
	b, err := f.block(blockKey{f.key, index})
	if err != nil {
		return 0, err
	}
	if b == nil {
		n, err := f.Reader.ReadAt(p, off)
		f.shared.read.Add(int64(n))
		return n, err
	}
	defer f.shared.give(b)
	n := copy(p, b.data[min(from, len(b.data)):])
	if n == 0 {
		return 0, io.EOF
	}
	if f.oldest.IsZero() || b.asked.Before(f.oldest) {
		f.oldest = b.asked
	}
	return n, nil
}

// block returns a block, which the caller must give back, or nil if the caller should read the file
// itself.
func (f *sharedReader) block(key blockKey) (*sharedBlock, error) {
	if f.ahead != nil {
		return f.ahead.take(f.ctx, key)
	}
	return f.shared.take(f.ctx, key, sharedBlockSize, func(mem []byte) (int, error) {
		n, err := f.Reader.ReadAt(mem, key.index*sharedBlockSize)
		if err == io.EOF {
			err = nil
		}
		return n, err
	})
}
