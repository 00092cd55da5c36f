package transfer

import (
	"context"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/pool"
)

// A SharedHost is a host whose files several copies share. All of them use the same connection,
// which is replaced once if it is lost.
type SharedHost struct {
	shared   *Shared
	renewing chan struct{} // holds a token while the connection is being replaced

	mu      sync.Mutex
	host    pool.Host           // with the current connection
	handles *semaphore.Weighted // for files of trees; nil until the limit is known
}

// Host returns a host whose files are read once for all copies of them to other hosts. Data that
// one copy has requested in advance goes to the others as it arrives. Call Host once for each host,
// and close it only when the copies are over.
func (s *Shared) Host(host pool.Host) *SharedHost {
	h := &SharedHost{shared: s, renewing: make(chan struct{}, 1)}
	if host.Quirks == nil {
		host.Quirks = new(pool.Quirks)
	}
	if redial := host.Redial; redial != nil {
		host.Redial = func(ctx context.Context) (pool.Host, error) { return h.redial(ctx, redial) }
	}
	h.host = host
	return h
}

// Remote works like [Remote] for a source whose contents are shared. Each copy lists directories
// itself, moves through the tree at its own pace, and makes sure that a large file has not changed.
// Large files are read over one connection.
func (h *SharedHost) Remote(path string) Endpoint {
	return Endpoint{host: h.current().Name, path: path,
		newSource: func(j *job) (endpoint.Place, error) {
			src, err := Remote(h.current(), path).newSource(j)
			return &sharedSource{src, h.shared, h}, err
		}}
}

func (h *SharedHost) current() pool.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host
}

// redial replaces the connection, unless another copy has already done so.
func (h *SharedHost) redial(ctx context.Context,
	dial func(context.Context) (pool.Host, error)) (pool.Host, error) {
	select {
	case h.renewing <- struct{}{}:
		defer func() { <-h.renewing }()
	case <-ctx.Done():
		return pool.Host{}, context.Cause(ctx)
	}
	host := h.current()
	if !pool.Lost(host.Client) {
		return host, nil
	}
	fresh, err := dial(ctx)
	if err != nil {
		return host, err
	}
	fresh.Redial, fresh.Quirks = host.Redial, host.Quirks
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host = fresh
	return fresh, nil
}

// limit sets how many handles the copies of trees may have open together.
func (h *SharedHost) limit(handles int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handles == nil {
		h.handles = semaphore.NewWeighted(handles)
	}
}

// take waits until a file of a tree may be opened. h may be nil.
func (h *SharedHost) take() (free func()) {
	if h == nil {
		return func() {}
	}
	h.mu.Lock()
	handles := h.handles
	h.mu.Unlock()
	if handles == nil {
		return func() {}
	}
	handles.Acquire(context.Background(), 1) // every open file gives its handle back
	return func() { handles.Release(1) }
}

// A sharedAhead is a stream of a file on a host that runs ahead of the copies. It belongs to one of
// them, and any copy that needs the next block makes it read on: the fastest sets the pace. When
// its owner ends, or has fallen behind and needs it elsewhere, another copy starts its own. The
// Shared's lock guards it.
type sharedAhead struct {
	shared *Shared
	file   *usftp.File

	stream io.ReadCloser // nil until it is needed
	next   blockKey
	busy   chan struct{} // closed when the block being read has arrived; nil if there is none
	failed error         // why the last block could not be read
}

// take returns a block, which the caller must give back. Only the stream's owner calls it.
func (a *sharedAhead) take(ctx context.Context, key blockKey) (*sharedBlock, error) {
	s := a.shared
	for {
		s.mu.Lock()
		b, from := s.blocks[key], s.ahead[key]
		overtaken := a.stream != nil && a.busy == nil && from != a && key.index >= a.next.index
		if overtaken || b == nil && from == nil && a.stream != nil { // it is of no use to this copy
			s.mu.Unlock()
			a.stop()
			continue
		}
		if b != nil {
			b.users++
			from = nil
		} else {
			if from == nil {
				from = a
				a.stream = a.file.ReadRange(key.index*sharedBlockSize, -1)
			}
			b = s.add(key, sharedBlockSize)
			b.users++ // for the goroutine
			delete(s.ahead, key)
			from.busy = make(chan struct{})
			go from.read(b, from.stream)
		}
		s.mu.Unlock()
		if b, err := s.wait(ctx, b); b != nil || err != nil {
			return b, err
		}
		if from == a {
			s.mu.Lock()
			err := a.failed
			s.mu.Unlock()
			a.stop()
			return nil, err
		}
	}
}

// read reads the next block of a stream.
func (a *sharedAhead) read(b *sharedBlock, stream io.Reader) {
	s := a.shared
	n, err := io.ReadFull(stream, b.mem.Bytes()[:sharedBlockSize])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	s.mu.Lock()
	if b.data = b.mem.Bytes()[:n]; err == nil {
		s.read.Add(int64(n))
	}
	s.loaded(b, err == nil)
	a.failed = err
	if a.stream == stream && err == nil {
		a.next = blockKey{b.key.fileKey, b.key.index + 1}
		s.ahead[a.next] = a
	}
	close(a.busy)
	a.busy = nil
	s.mu.Unlock()
	s.give(b)
}

// stop ends the stream. Copies that wait for it continue with one of their own.
func (a *sharedAhead) stop() {
	s := a.shared
	s.mu.Lock()
	stream, busy := a.stream, a.busy
	a.stream = nil
	if s.ahead[a.next] == a {
		delete(s.ahead, a.next)
	}
	s.mu.Unlock()
	if stream != nil {
		stream.Close()
	}
	if busy != nil {
		<-busy
	}
}
