package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/internal/endpoint"
)

// ErrTooSlow reports that a copy of a shared stream was abandoned because the others had waited too
// long for it.
var ErrTooSlow = errors.New("too slow for the other copies of the stream")

// DefaultPatience is how long the copies of a stream wait for a slow one by default.
const DefaultPatience = 10 * time.Second

// A Branch is one copy's share of a stream. Its Endpoint is for a single Copy.
type Branch struct {
	Endpoint
	stream *sharedStream

	// The rest is guarded by stream.mu.
	at      int64         // the offset of its next byte
	reading bool          // from a block, which must stay
	waiting bool          // for the stream
	over    bool          // it needs no more
	why     error         // why it was abandoned
	held    time.Duration // how long the others have waited for it
	cancel  context.CancelCauseFunc
}

// Reader returns a branch of r for each of several copies, which should run at the same time. r is
// read once, on a goroutine of its own that starts with the first Read of any copy; see [Reader].
// Each copy gets all of it.
//
// Data that some copies have read and others have not is buffered in as much memory as the Shared
// has; each Reader has its own. When the buffer is full the fastest copies wait for the slowest. A
// copy for which the others have waited longer than patience in total is abandoned with
// [ErrTooSlow]; 0 means [DefaultPatience]. Call Leave on each branch when its copy is over or will
// not run.
func (s *Shared) Reader(r io.Reader, copies int, patience time.Duration) []*Branch {
	stream := &sharedStream{shared: s, r: r, patience: cmp.Or(patience, DefaultPatience)}
	stream.changed.L = &stream.mu
	size := 0
	if sized, ok := r.(interface{ Len() int }); ok {
		size = sized.Len() // asked now, since r must not be used otherwise once it is being read
	}
	for range copies {
		b := &Branch{stream: stream}
		b.Endpoint = Endpoint{path: "-", newSource: func(j *job) (endpoint.Place, error) {
			return endpoint.Stream{Reader: branchReader{b, j, size}}, nil
		}}
		stream.branches = append(stream.branches, b)
	}
	return slices.Clone(stream.branches)
}

// Leave ends a branch once its copy is over. It may be called more than once.
func (b *Branch) Leave() {
	s := b.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	b.over = true
	s.drop()
	s.changed.Broadcast()
}

// branchReader reads a Branch for a job.
type branchReader struct {
	*Branch
	job  *job
	size int // of the stream, 0 if unknown
}

func (r branchReader) Read(p []byte) (int, error) { return r.stream.read(r.Branch, r.job, p) }

func (r branchReader) Len() int { return r.size }

// sharedStream is a stream in blocks. One goroutine reads it, and the branches copy from the
// blocks.
type sharedStream struct {
	shared   *Shared
	r        io.Reader
	patience time.Duration

	mu       sync.Mutex
	changed  sync.Cond
	branches []*Branch
	started  bool
	filling  bool            // the goroutine is reading into the last block
	blocks   []*buffer.Block // from offset base
	base     int64
	end      int64 // how far the stream has been read
	err      error // how the stream ended
	panicked any   // the value of a panic in Read
}

// read copies from one block for a branch, and waits for the stream if there is nothing yet.
func (s *sharedStream) read(b *Branch, j *job, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.cancel = j.cancel
	if !s.started {
		s.started = true
		go s.run()
	}
	if err := s.await(b, j.ctx); err != nil {
		return 0, err
	}
	at := b.at - s.base
	block, from := s.blocks[at/sharedBlockSize], at%sharedBlockSize
	data := block.Bytes()[from:min(sharedBlockSize, from+s.end-b.at)]
	b.reading = true
	s.mu.Unlock()
	n := copy(p, data)
	s.mu.Lock()
	b.reading = false
	if b.at += int64(n); from+int64(n) == sharedBlockSize {
		s.changed.Broadcast() // there may be room now
	}
	return n, nil
}

// await waits until there is data for a branch. Its error says why there will be none.
func (s *sharedStream) await(b *Branch, ctx context.Context) error {
	if b.at == s.end && s.err == nil {
		defer context.AfterFunc(ctx, s.wake)()
		b.waiting = true
		defer func() { b.waiting = false }()
		s.changed.Broadcast() // room must notice that this branch waits
	}
	for b.at == s.end && s.err == nil && b.why == nil && !b.over && ctx.Err() == nil {
		s.changed.Wait()
	}
	switch {
	case b.why != nil:
		return b.why
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case b.over:
		return errors.New("read from a Branch after its Leave")
	case b.at < s.end:
		return nil
	case s.panicked != nil:
		panic(s.panicked)
	}
	return s.err
}

func (s *sharedStream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// run reads the stream for as long as a branch needs it.
func (s *sharedStream) run() {
	for empty := 0; ; {
		p := s.room()
		if p == nil {
			return
		}
		n, err := s.readOnce(p)
		if empty++; n > 0 {
			empty = 0
		} else if empty == 100 && err == nil {
			err = io.ErrNoProgress
		}
		if s.arrived(n, err); err != nil {
			return
		}
	}
}

// readOnce calls the stream's Read. If that panics, the copies panic with the same value.
func (s *sharedStream) readOnce(p []byte) (n int, err error) {
	defer func() {
		if value := recover(); value != nil {
			s.mu.Lock()
			s.panicked = value
			s.mu.Unlock()
			n, err = 0, errors.New("the stream's Read panicked")
		}
	}()
	n, err = s.r.Read(p)
	if n < 0 || n > len(p) {
		return 0, errors.New("the stream's Read returned an invalid count")
	}
	return n, err
}

func (s *sharedStream) arrived(n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared.read.Add(int64(n))
	s.end += int64(n)
	s.err, s.filling = err, false
	s.drop()
	s.changed.Broadcast()
}

// room waits for room in the buffer and returns it, or nil if no branch reads any more.
func (s *sharedStream) room() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		s.drop()
		if s.abandoned() {
			return nil
		}
		capacity := s.base + int64(len(s.blocks))*sharedBlockSize
		if s.end == capacity {
			if int64(len(s.blocks)+1)*sharedBlockSize > s.shared.memory {
				s.wait()
				continue
			}
			s.blocks = append(s.blocks, s.shared.pool.Get(sharedBlockSize))
		}
		s.filling = true
		last := s.blocks[len(s.blocks)-1]
		return last.Bytes()[s.end-s.base-int64(len(s.blocks)-1)*sharedBlockSize : sharedBlockSize]
	}
}

func (s *sharedStream) abandoned() bool {
	return !slices.ContainsFunc(s.branches, (*Branch).needs)
}

// needs reports whether a branch may still read.
func (b *Branch) needs() bool { return b.reading || !b.over && b.why == nil }

// drop frees the blocks that no branch needs. The caller holds the lock.
func (s *sharedStream) drop() {
	keep := s.end
	for _, b := range s.branches {
		if b.needs() {
			keep = min(keep, b.at)
		}
	}
	for len(s.blocks) > 0 && (keep >= s.base+sharedBlockSize ||
		!s.filling && s.abandoned()) {
		s.blocks[0].Release()
		s.blocks = slices.Delete(s.blocks, 0, 1)
		s.base += sharedBlockSize
	}
}

// wait waits for the slowest branches to make room, and abandons any for which the others have
// waited too long. The caller holds the lock.
func (s *sharedStream) wait() {
	var slow []*Branch
	left, waiting := s.patience, false
	for _, b := range s.branches {
		if b.needs() && b.at < s.base+sharedBlockSize {
			slow = append(slow, b)
			left = min(left, s.patience-b.held)
		}
		waiting = waiting || b.waiting && b.needs()
	}
	if !waiting {
		s.changed.Wait()
		return
	}
	timer := time.AfterFunc(left, s.wake)
	defer timer.Stop()
	began := time.Now()
	s.changed.Wait()
	for _, b := range slow {
		b.held += time.Since(began)
		if b.held < s.patience || !b.needs() {
			continue
		}
		b.why = fmt.Errorf("%w: it was %d MiB behind, and they waited %v for it", ErrTooSlow,
			(s.end-b.at)>>20, s.patience)
		if b.cancel != nil {
			b.cancel(b.why)
		}
		s.changed.Broadcast()
	}
}
