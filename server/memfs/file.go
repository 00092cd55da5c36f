package memfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// errFull is the error of a full disk.
var errFull = errors.New("no space left on device")

// space counts free bytes.
type space struct {
	left     atomic.Int64
	capacity int64
}

func (s *space) take(n int64) error {
	if s.left.Add(-n) < 0 {
		s.left.Add(n)
		return errFull
	}
	return nil
}

// chunkSize is the size of the chunks in which contents are stored; holes have none.
const chunkSize = 64 << 10

// content is a file's contents.
type content struct {
	space *space

	mu      sync.RWMutex
	size    int64
	chunks  map[int64]*[chunkSize]byte
	touched time.Time // last written; zero if the node's own time is newer
	handles int       // open files
	gone    bool      // no name is left
}

// state returns the size, and the time of the last write, or the zero time if the node's own time
// is newer.
func (c *content) state() (size int64, touched time.Time) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.size, c.touched
}

// clearTouched makes the node's own time current again.
func (c *content) clearTouched() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched = time.Time{}
}

func (c *content) ReadAt(p []byte, offset int64) (n int, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if offset >= c.size {
		return 0, io.EOF
	}
	if left := c.size - offset; int64(len(p)) > left {
		p, err = p[:left], io.EOF
	}
	for n < len(p) {
		index, at := (offset+int64(n))/chunkSize, (offset+int64(n))%chunkSize
		piece := p[n:min(len(p), n+int(chunkSize-at))]
		if chunk := c.chunks[index]; chunk != nil {
			copy(piece, chunk[at:])
		} else {
			clear(piece)
		}
		n += len(piece)
	}
	return n, err
}

func (c *content) WriteAt(p []byte, offset int64) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeAt(p, offset)
}

func (c *content) appendTo(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeAt(p, c.size)
}

func (c *content) writeAt(p []byte, offset int64) (n int, err error) {
	if offset > math.MaxInt64-int64(len(p)) {
		return 0, fs.ErrInvalid
	}
	if c.chunks == nil {
		c.chunks = map[int64]*[chunkSize]byte{}
	}
	for n < len(p) {
		index, at := (offset+int64(n))/chunkSize, (offset+int64(n))%chunkSize
		chunk := c.chunks[index]
		if chunk == nil {
			if err := c.space.take(chunkSize); err != nil {
				return n, err
			}
			chunk = new([chunkSize]byte)
			c.chunks[index] = chunk
		}
		n += copy(chunk[at:], p[n:])
		c.size = max(c.size, offset+int64(n))
	}
	c.touched = time.Now()
	return n, nil
}

func (c *content) truncate(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size < c.size {
		for index, chunk := range c.chunks {
			switch from := size - index*chunkSize; {
			case from <= 0:
				delete(c.chunks, index)
				c.space.left.Add(chunkSize)
			case from < chunkSize:
				clear(chunk[from:])
			}
		}
	}
	c.size = size
	c.touched = time.Now()
}

// unlink records that no name is left, and closed that a handle was closed; the last call frees the
// content.
func (c *content) unlink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.free()
}

func (c *content) closed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handles--
	c.free()
}

func (c *content) free() {
	if c.gone && c.handles == 0 {
		c.space.left.Add(int64(len(c.chunks)) * chunkSize)
		c.chunks = nil
	}
}

// file is an open file.
type file struct {
	*content
	fs     *FS
	node   *node
	base   string
	append bool
	once   sync.Once
}

// Open implements server.Opener.
func (f *FS) Open(_ context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	exclusive := flags&wire.OpenCreate != 0 && flags&wire.OpenExclusive != 0
	p, err := f.walk(name, !exclusive, exclusive)
	dir, base, n := p.dir, p.base, p.node
	switch {
	case err != nil:
		return nil, err
	case p.slash && flags&wire.OpenCreate != 0:
		return nil, errIsDirectory
	case p.slash && n != nil && !n.mode.IsDir():
		return nil, syscall.ENOTDIR
	case n == nil && flags&wire.OpenCreate == 0:
		return nil, fs.ErrNotExist
	case n != nil && exclusive:
		return nil, fs.ErrExist
	case n != nil && n.mode.IsDir():
		return nil, errIsDirectory
	case n == nil:
		n = f.newNode(0)
		if err := n.set(attrs); err != nil {
			return nil, err
		}
		f.put(dir, base, n)
	case flags&wire.OpenTruncate != 0:
		n.content.truncate(0)
	}
	n.content.mu.Lock()
	n.content.handles++
	n.content.mu.Unlock()
	return &file{content: n.content, fs: f, node: n, base: base,
		append: flags&wire.OpenAppend != 0}, nil
}

// WriteAt implements io.WriterAt. If the file is open for appending it writes at the end.
func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	if f.append {
		return f.appendTo(p)
	}
	return f.content.WriteAt(p, offset)
}

// Stat implements server.FileStater.
func (f *file) Stat() (fs.FileInfo, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	return f.node.describe(f.base), nil
}

// Setstat implements server.FileSetstater.
func (f *file) Setstat(attrs wire.Attrs) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.node.set(attrs)
}

// Sync implements server.FileSyncer. It has nothing to do.
func (f *file) Sync() error { return nil }

// StatVFS implements server.FileStatVFSer.
func (f *file) StatVFS() (wire.StatVFSReply, error) {
	return f.fs.StatVFS(context.Background(), "/")
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.once.Do(f.closed)
	return nil
}
