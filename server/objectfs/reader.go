package objectfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// reader is a file opened for reading: the object that was there then, and no other. A client that
// reads in order gets it from stretches that are fetched in advance, many with one request; the
// further it reads, the longer they are. Everything else is fetched as it is asked for.
type reader struct {
	fs   *FS
	ctx  context.Context
	stop context.CancelFunc
	name string
	info *info

	mu        sync.Mutex
	changed   sync.Cond
	reads     int        // how many READs are being executed
	stretches []*stretch // in order; each begins where the one before ends
	next      int64      // where the last one ends
	length    int64      // of the next one
	last      int64      // where the last READ ended that was in none
	answer    *answer    // from which the last one comes, or nil
	asks      int64      // how much the next request asks for
	loading   sync.WaitGroup
}

var (
	_ server.FileStater    = (*reader)(nil)
	_ server.FileSetstater = (*reader)(nil)
)

const (
	firstStretch   = 256 << 10
	longestStretch = 4 << 20
	mostStretches  = 3
	stretchesAhead = 1 // of the one that is being read
	mostEarly      = longestStretch - wire.MaxData

	longestRequest = 64 << 20 // one costs as much as a few hundred KiB
)

var errReplaced = errors.New("the file was replaced while it was read: open it again")

func newReader(ctx context.Context, f *FS, name string, i *info) *reader {
	r := &reader{fs: f, name: name, info: i, length: firstStretch, asks: firstStretch}
	r.changed.L = &r.mu
	r.ctx, r.stop = context.WithCancel(ctx)
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	defer func() { r.reads-- }()
	s := r.find(offset)
	if s == nil {
		s = r.begin(b, offset)
	}
	if s == nil {
		r.mu.Unlock()
		defer r.mu.Lock()
		return r.readDirectly(b, offset)
	}
	s.users++
	defer r.leave(s)
	if offset > 0 { // a client that reads only the beginning gets no more
		r.fetchAhead(s)
	}
	at := offset - s.start
	for s.got <= at && s.err == nil {
		r.changed.Wait()
	}
	if s.got <= at {
		return 0, s.err
	}
	have := s.got
	r.mu.Unlock() // what is there does not change any more
	defer r.mu.Lock()
	return s.copy(b, at, have), nil
}

// begin begins with the stretch at an offset, if that is where the last one ends or the last READ
// ended. It returns nil if it is not, or there is no memory.
func (r *reader) begin(b []byte, offset int64) *stretch {
	for r.follows(offset) && len(r.stretches) >= mostStretches && r.stretches[0].users > 0 {
		r.changed.Wait()
	}
	if s := r.find(offset); s != nil {
		return s
	}
	if !r.follows(offset) {
		if offset != r.last {
			r.last = offset + int64(len(b))
			return nil
		}
		r.forget()
		r.next, r.length, r.asks = offset, firstStretch, firstStretch
	}
	r.length = max(r.length, min(offset+int64(len(b))-r.next, longestStretch))
	for r.next <= offset && r.fetch(nil) {
	}
	r.last = r.next
	return r.find(offset)
}

// follows reports whether an offset is where the last stretch ends, or soon after: of the READs
// that a client sends at once, a later one may be executed first.
func (r *reader) follows(offset int64) bool {
	early := offset - r.next
	return early == 0 || early > 0 && early < mostEarly && r.reads > 1 && r.next >= 0
}

// forget gives up all stretches. Those that a READ waits for come all the same.
func (r *reader) forget() {
	if r.answer != nil {
		r.answer.ended, r.answer = true, nil
	}
	for _, s := range r.stretches {
		r.leave(s)
	}
	r.stretches, r.next = nil, -1
	r.changed.Broadcast()
}

// find returns the stretch that holds an offset, or nil.
func (r *reader) find(offset int64) *stretch {
	for _, s := range r.stretches {
		if s.start <= offset && offset < s.start+s.length {
			return s
		}
	}
	return nil
}

// fetchAhead begins with the stretches after one that is being read.
func (r *reader) fetchAhead(s *stretch) {
	for r.next < r.info.size {
		n := len(r.stretches)
		if n-slices.Index(r.stretches, s) > stretchesAhead ||
			n >= mostStretches && r.stretches[0].users > 0 || !r.fetch(s) {
			return
		}
	}
}

// fetch begins with the next stretch, and reports whether there was memory for it. Those before the
// one that is being read make room for it; if that is not enough, it is shorter. It comes from the
// answer from which the one before comes, or from a new one after its end.
func (r *reader) fetch(read *stretch) bool {
	length, last := min(r.length, r.info.size-r.next), r.answer
	if last != nil && last.end > r.next {
		length = min(length, last.end-r.next)
	}
	for !r.fs.memory.ahead.TryAcquire(length) {
		switch {
		case len(r.stretches) > 0 && r.stretches[0] != read && r.stretches[0].users == 0:
			r.leaveOldest()
		case length > firstStretch:
			length = max(length/2, firstStretch)
		default:
			return false
		}
	}
	if len(r.stretches) >= mostStretches {
		r.leaveOldest()
	}
	s := newStretch(r.fs.memory, r.next, length)
	r.stretches = append(r.stretches, s)
	if last == nil || last.end == r.next {
		last = &answer{end: min(r.next+max(r.asks, length), r.info.size)}
		r.answer, r.asks = last, min(4*r.asks, longestRequest)
		r.loading.Go(func() { r.load(last) })
	}
	last.stretches = append(last.stretches, s)
	r.next += length
	r.length = min(2*r.length, longestStretch)
	s.users++
	r.changed.Broadcast()
	return true
}

func (r *reader) leaveOldest() {
	oldest := r.stretches[0]
	r.stretches = r.stretches[1:]
	r.leave(oldest)
}

// leave ends the use of a stretch. The caller holds the lock.
func (r *reader) leave(s *stretch) {
	s.users--
	r.changed.Broadcast()
	if s.users < 0 {
		s.drop()
	}
}

func (r *reader) get(offset, length int64) (io.ReadCloser, error) {
	o := &r.info.object
	body, err := r.fs.bucket.Get(r.ctx, o.Key, o.ETag, offset, length)
	if errors.Is(err, io.EOF) { // a connection's, and not that of the file
		err = fmt.Errorf("%v: %w", err, io.ErrUnexpectedEOF)
	}
	return body, err
}

// readDirectly goes on as more does if an answer ends early.
func (r *reader) readDirectly(b []byte, offset int64) (n int, err error) {
	for cuts := 1; ; cuts++ {
		body, err := r.get(offset+int64(n), int64(len(b)-n))
		if err != nil {
			return n, err
		}
		m, err := io.ReadFull(body, b[n:])
		body.Close()
		n += m
		if err == nil || m == 0 || cuts == mostCuts {
			return n, cutShort(err)
		}
	}
}

// cutShort makes sure that an answer that ends too early is not taken for the end of the file.
func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Stat implements [server.FileStater].
func (r *reader) Stat() (fs.FileInfo, error) { return r.info, nil }

// Setstat implements [server.FileSetstater].
func (r *reader) Setstat(attrs wire.Attrs) error {
	if attrs.Has(wire.AttrSize) {
		return fs.ErrInvalid
	}
	return r.fs.Setstat(r.ctx, r.name, attrs)
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.stop()
	r.mu.Lock()
	r.forget()
	r.mu.Unlock()
	r.loading.Wait()
	return nil
}
