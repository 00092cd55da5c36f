package objectfs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// reader is a file opened for reading: the object present at that time, and no other. READs in
// order are served from the streams of the object's source; any other is a request of its own.
type reader struct {
	fs     *FS
	ctx    context.Context
	stop   context.CancelFunc
	info   *info
	source *source

	// Under the source's lock.
	at       *stream // the stream of the last READ served from one, or nil
	directly bool    // the last READ was served from no stream
	last     int64   // where the last such READ ended, or -1
	reached  int64   // the end of the READ that went furthest, or -1
	skipped  int64   // bytes before that not read, at most 2*mostEarly
}

var (
	_ server.FileStater    = (*reader)(nil)
	_ server.FileSetstater = (*reader)(nil)
)

var errReplaced = errors.New("the file was replaced or removed while it was read: open it again")

func newReader(ctx context.Context, f *FS, i *info) *reader {
	r := &reader{fs: f, info: i, last: -1, reached: -1}
	r.ctx, r.stop = context.WithCancel(ctx)
	r.source = f.sources.join(r)
	return r
}

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(b []byte, offset int64) (n int, err error) {
	var end error
	if left := r.info.size - offset; left < int64(len(b)) {
		b, end = b[:max(left, 0)], io.EOF
	}
	for n < len(b) && err == nil {
		var m int
		m, err = r.readSome(b[n:], offset+int64(n))
		n += m
	}
	if errors.Is(err, ErrPrecondition) {
		err = errReplaced
	}
	if err == nil {
		err = end
	}
	return n, err
}

// readSome reads at least one byte, unless it fails.
func (r *reader) readSome(b []byte, offset int64) (int, error) {
	mu := &r.source.mu
	mu.Lock()
	defer mu.Unlock()
	if r.ctx.Err() != nil { // it is closed, or its session has ended
		return 0, context.Cause(r.ctx)
	}
	r.source.reads++
	defer func() { r.source.reads-- }()
	r.note(offset, int64(len(b)))
	q, s := r.find(offset)
	if s == nil {
		q, s = r.begin(b, offset)
	}
	if r.directly = s == nil; r.directly {
		r.last = offset + int64(len(b))
		if !r.inOrder() && len(r.source.handles) > 1 {
			r.use(nil)
		}
		mu.Unlock()
		defer mu.Lock()
		return r.readDirectly(b, offset)
	}
	r.use(q)
	q.inOrder, q.read = r.inOrder(), time.Now()
	s.users++
	defer r.source.leave(s)
	if offset > 0 { // a client that reads only the beginning gets no more
		q.fetchAhead(s)
	}
	at := offset - s.start
	r.await(&s.came, func() bool { return s.got > at || s.err != nil })
	if s.got <= at {
		return 0, cmp.Or(s.err, context.Cause(r.ctx))
	}
	have, err := s.got, s.err
	mu.Unlock() // fetched bytes do not change any more
	n := s.copy(b, at, have)
	mu.Lock()
	s.taken += int64(n)
	if n == len(b) {
		err = nil
	}
	return n, err
}

// note keeps account of how many bytes a handle skips. Bytes that it skips and then reads, as
// clients do that send many READs at once, no longer count; nor does a single jump, in the long
// run.
func (r *reader) note(offset, length int64) {
	if r.reached < 0 || offset <= r.reached {
		r.skipped = max(r.skipped-length, 0)
	} else {
		r.skipped = min(r.skipped+offset-r.reached, 2*mostEarly)
	}
	r.reached = max(r.reached, offset+length)
}

// inOrder reports whether a handle reads the whole file, not only the ranges that others leave.
func (r *reader) inOrder() bool { return r.skipped <= mostEarly }

// find returns the stretch that holds an offset, and its stream, or nil. A handle that reads in
// order stays with its stream: it would lose another one that is a little too fast for it.
func (r *reader) find(offset int64) (*stream, *stretch) {
	if r.at != nil && r.inOrder() {
		if s := r.at.find(offset); s != nil || r.at.next == offset {
			return r.at, s
		}
	}
	return r.source.find(offset)
}

// await waits until so returns true, or the session has ended. The caller holds the lock, which is
// released meanwhile.
func (r *reader) await(changed *sync.Cond, so func() bool) {
	if so() {
		return
	}
	defer context.AfterFunc(r.ctx, func() {
		r.source.mu.Lock()
		defer r.source.mu.Unlock()
		changed.Broadcast()
	})()
	for !so() && r.ctx.Err() == nil {
		changed.Wait()
	}
}

// begin starts to fetch the stretch at an offset, if a stream continues there or should start
// there. It returns nil if not, or if there is no memory.
func (r *reader) begin(b []byte, offset int64) (*stream, *stretch) {
	r.await(&r.source.changed, func() bool {
		q := r.follows(offset)
		return q == nil || !q.full()
	})
	if r.ctx.Err() != nil {
		return nil, nil
	}
	if q, s := r.find(offset); s != nil {
		return q, s
	}
	q := r.follows(offset)
	if q == nil {
		if !r.starts(offset) {
			return nil, nil
		}
		q = r.source.stream(offset)
		r.use(q)
	}
	q.length = max(q.length, min(offset+int64(len(b))-q.next, longestStretch))
	for q.next <= offset && q.fetch(nil) {
	}
	return q, q.find(offset)
}

// follows returns the stream that ends at an offset, or a little before it: of the READs that
// clients send at once, a later one may be executed first.
func (r *reader) follows(offset int64) (closest *stream) {
	if r.at != nil && r.at.next == offset && r.inOrder() {
		return r.at
	}
	for _, q := range r.source.streams {
		early := offset - q.next
		if early == 0 {
			return q
		}
		if early > 0 && early < q.mostEarly() && r.source.reads > 1 && !r.directly &&
			(closest == nil || q.next > closest.next) {
			closest = q
		}
	}
	return closest
}

// starts reports whether a stream should start at an offset: a READ of this or another handle ended
// there, or it is 0. While handles share a stream, a handle that skips starts no other, which would
// take the memory that the shared one needs to be wide enough for all.
func (r *reader) starts(offset int64) bool {
	if !r.inOrder() && slices.ContainsFunc(r.source.streams, (*stream).shared) {
		return false
	}
	return offset == 0 && r.at == nil ||
		slices.ContainsFunc(r.source.handles, func(h *reader) bool { return h.last == offset })
}

// use records the stream that this handle reads from. A stream that no handle reads from is given
// up.
func (r *reader) use(q *stream) {
	old := r.at
	if old == q {
		return
	}
	r.at = q
	if q != nil {
		q.handles++
	}
	if old != nil {
		old.handles--
		old.forgetUnused()
	}
}

// readDirectly reads without a stream. Like more, it continues if an answer ends early.
func (r *reader) readDirectly(b []byte, offset int64) (n int, err error) {
	for cuts := 1; ; cuts++ {
		body, err := r.fs.get(r.ctx, &r.info.object, offset+int64(n), int64(len(b)-n))
		if err != nil {
			return n, err
		}
		m, err := io.ReadFull(body, b[n:])
		body.Close()
		n += m
		if err == nil || m == 0 || cuts == mostCuts {
			return n, err
		}
	}
}

// Stat implements [server.FileStater].
func (r *reader) Stat() (fs.FileInfo, error) { return r.info, nil }

// Setstat implements [server.FileSetstater].
func (r *reader) Setstat(attrs wire.Attrs) error {
	if attrs.Has(wire.AttrSize) {
		return fs.ErrInvalid
	}
	if err := r.fs.unwanted(attrs); err != nil {
		return err
	}
	mtime := mtimeOf(attrs)
	if mtime.IsZero() {
		return nil
	}
	return r.fs.setTime(r.ctx, r.info.object.Key, r.info.object.ETag, mtime)
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.stop()
	r.fs.sources.leave(r)
	return nil
}
