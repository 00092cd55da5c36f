package usftp

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/wire"
)

const (
	// defaultReadAhead is the most that one transfer has in flight.
	defaultReadAhead = maxInFlight

	// firstReadAhead is the number of bytes requested ahead at first. It grows by twice the bytes
	// read: a program that reads a little does not fetch megabytes, and one that reads on soon gets
	// full speed.
	firstReadAhead = 256 << 10
)

// readsOnce reports whether a server, by its SSH version line, counts every read of a file, so that
// needless reads must be avoided.
func readsOnce(version string) bool { return strings.Contains(version, "Sterling") }

// prefetch is a download that runs ahead of a program's Reads: instead of passing data to a sink it
// keeps it until it is read. It runs only within calls of Read; in between, the requested data
// arrives by itself. The data it holds counts in the client's budget.
type prefetch struct {
	*download
	open *openFile
	name string // cleaned

	stale atomic.Bool // the file was written to, or the offset moved

	mu       sync.Mutex // held by the Read that uses it, or to discard it
	gone     bool
	used     int   // bytes of the first parked block that have been read
	held     int64 // bytes parked
	consumed int64 // bytes read, one after the other
}

// Read reads up to len(p) bytes at the file's offset and moves it. It returns io.EOF, unwrapped, at
// the end of the file, and fewer bytes than len(p) only there.
//
// From the second sequential Read on, a regular file is read ahead as far as the link holds, up to
// [WithReadAhead] bytes. Seek drops the data read ahead, and so does any write through this client
// to a file of the same name; changes by others may be seen late. The end of the file is always
// confirmed by the server. To learn whether the file is regular, its attributes are requested along
// with the first Read.
func (f *File) Read(p []byte) (int, error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	f.mu.Lock()
	open, ahead := f.open, f.reading
	f.mu.Unlock()
	if f.ctx.Err() != nil {
		return 0, f.wrap("read", context.Cause(f.ctx))
	}
	n := 0
	if ahead != nil && ahead.open == open && f.writing.Load() == nil {
		n = ahead.readHere(p, f.offset)
	}
	var err error
	if n == 0 {
		n, err = f.readSlow(p)
	}
	if f.readEnd != f.offset {
		f.readRun = 0
	}
	f.readRun += int64(n)
	f.offset += int64(n)
	f.readEnd = f.offset
	if n > 0 && err == io.EOF {
		err = nil // the next Read says so
	}
	return n, err
}

// readSlow reads data that has not all arrived yet.
func (f *File) readSlow(p []byte) (int, error) {
	open, err := f.opened("read", wire.OpenRead)
	if err != nil || len(p) == 0 {
		return 0, err
	}
	n, err := f.readPrefetched(open, p)
	if n == 0 && err == nil {
		n, err = f.ReadAt(p, f.offset)
	}
	return n, err
}

// readHere fills p if that only takes a copy from the current block, and otherwise does nothing.
// Most small Reads end here.
func (a *prefetch) readHere(p []byte, off int64) int {
	a.mu.Lock()
	defer a.unlock()
	if a.gone || a.stale.Load() || a.given+int64(a.used) != off || !a.ready() ||
		len(a.parked[0].Body)-a.used <= len(p) {
		return 0
	}
	n := copy(p, a.parked[0].Body[a.used:])
	a.used += n
	a.consumed += int64(n)
	return n
}

// readPrefetched reads from the data read ahead. It returns 0 and no error if there is none.
func (f *File) readPrefetched(open *openFile, p []byte) (int, error) {
	ahead, err := f.aheadAtOffset(open)
	if ahead == nil {
		return 0, f.wrap("read", err)
	}
	n, err := ahead.read(f, p)
	over, ended := n < len(p) && err == nil, ahead.ended()
	if over || open.closed.Err() != nil {
		f.dropAhead() // a Close before this began has not seen it
	}
	if err != nil {
		return n, f.wrap("read", err)
	}
	if over && n > 0 && !ended { // the budget had no room for more
		m, err := f.ReadAt(p[n:], f.offset+int64(n))
		return n + m, err
	}
	return n, nil
}

// aheadAtOffset returns the data read ahead from the file's offset on, or starts to read ahead if
// Reads are sequential. It returns nil if neither is possible.
func (f *File) aheadAtOffset(open *openFile) (*prefetch, error) {
	ahead := f.ahead()
	if ahead != nil && ahead.open == open && ahead.offset() == f.offset {
		return ahead, nil
	}
	f.dropAhead()
	sequential := f.readEnd > 0 && f.readEnd == f.offset
	switch {
	case open.client.options.readAhead <= 0, open.flags&wire.OpenRead == 0:
		return nil, nil
	case !f.IsRegular():
		if !sequential && f.asked != open {
			f.asked = open
			start(f.ctx, f.statOperation())
		}
		return nil, nil
	case !sequential:
		return nil, nil
	}
	if err := open.client.awaitLimits(f.ctx); err != nil {
		return nil, err
	}
	return f.startAhead(open), nil
}

// ended reports whether the end of the file, or an error, was met.
func (a *prefetch) ended() bool {
	a.mu.Lock()
	defer a.unlock()
	return a.ranges.Err() != nil || a.ranges.End() != flow.Unknown
}

// startAhead starts to read ahead at the file's offset, if the budget has room.
func (f *File) startAhead(open *openFile) *prefetch {
	s := open.client
	request, _ := s.dataSizes()
	request = int(min(int64(request), max(s.options.readAhead/2, 1)))
	if s.conn.Room(0) < int64(request) {
		return nil
	}
	ranges := flow.NewRanges(f.offset, f.expectedSize(), request)
	ahead := &prefetch{open: open, name: path.Clean(f.Name()), consumed: f.readRun}
	ahead.download = &download{
		loop: newLoop(open.closed, f, open, ranges), from: f.offset, given: f.offset,
		kept: func(call *conn.Call) { s.conn.GiveBack(int64(call.Bytes)) },
	}
	s.ahead.add(ahead)
	f.mu.Lock()
	f.reading = ahead
	f.mu.Unlock()
	return ahead
}

func (f *File) ahead() *prefetch {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reading
}

// dropAhead drops the data read ahead of this file.
func (f *File) dropAhead() {
	f.mu.Lock()
	ahead := f.reading
	f.reading = nil
	f.mu.Unlock()
	if ahead != nil {
		ahead.discard()
	}
}

// offset returns the offset at which the next Read must begin.
func (a *prefetch) offset() int64 {
	a.mu.Lock()
	defer a.unlock()
	return a.given + int64(a.used)
}

// read fills p up to the end of the file, or of the data that can be read.
func (a *prefetch) read(f *File, p []byte) (n int, err error) {
	a.mu.Lock()
	defer a.unlock()
	for {
		if a.stale.Load() {
			a.drop()
		}
		if a.gone {
			return n, nil
		}
		a.collect()
		n += a.take(p[n:])
		if err := a.fillAhead(int64(len(p) - n)); err != nil {
			return n, err
		}
		if n == len(p) || a.ranges.Out() == 0 && !a.ready() {
			return n, nil // all, or an end or an error: the next Read asks for itself
		}
		if a.ready() {
			continue
		}
		ctx, done := f.during(a.open)
		call, err := a.queue.Next(ctx)
		done()
		if err != nil {
			return n, err
		}
		if call != nil {
			a.replied(call)
		}
	}
}

// collect takes the replies that have arrived.
func (a *prefetch) collect() {
	for call := a.queue.Take(); call != nil; call = a.queue.Take() {
		a.replied(call)
	}
}

// replied takes one reply. Its data counts in the budget until it is read.
func (a *prefetch) replied(call *conn.Call) {
	asked, got := int64(call.Bytes), int64(len(call.Body))
	if call.Err != nil {
		asked = 0 // the connection gives them back
	}
	before := len(a.parked)
	a.handleReply(call)
	if len(a.parked) > before {
		a.held += got
		asked -= got
	}
	a.open.client.conn.GiveBack(asked)
}

// ready reports whether the next byte has arrived.
func (a *prefetch) ready() bool {
	return len(a.parked) > 0 && a.pieces[a.parked[0].Tag].Off == a.given
}

// take copies data that has arrived to p.
func (a *prefetch) take(p []byte) (n int) {
	for n < len(p) && a.ready() {
		call := a.parked[0]
		got := copy(p[n:], call.Body[a.used:])
		n += got
		a.used += got
		a.consumed += int64(got)
		if a.used < len(call.Body) {
			break
		}
		size := int64(len(call.Body))
		a.given += size
		a.used = 0
		a.parked = append(a.parked[:0], a.parked[1:]...)
		a.held -= size
		a.open.client.conn.GiveBack(size)
		a.loop.idle = append(a.loop.idle, call.Tag)
		a.open.client.conn.Recycle(call)
	}
	return n
}

// fillAhead requests the bytes a Read still wants, and enough ahead of it to keep the link busy and
// no more, however slow the program is.
func (a *prefetch) fillAhead(wanted int64) error {
	limit := wanted + min(a.open.client.options.readAhead, firstReadAhead+2*a.consumed,
		a.lanes[0].window.Limit())
	for {
		ahead := a.held + a.lanes[0].window.InFlight()
		// Never exceed the free budget, not even for one request: data here waits for a program,
		// and other transfers wait for the budget.
		if ahead+int64(a.ranges.Request()) > min(limit, a.open.client.conn.Room(ahead)) {
			return nil
		}
		r, ok := a.claim(0)
		if !ok {
			return nil
		}
		if err := a.ask(0, r); err != nil {
			return err
		}
	}
}

// drop frees everything. The caller holds the lock.
func (a *prefetch) drop() {
	if a.gone {
		return
	}
	a.gone = true
	a.release()
	a.open.client.conn.GiveBack(a.held)
	a.held, a.used = 0, 0
	a.open.client.ahead.remove(a)
}

// discard drops the data: now or, if a Read is using it, when that Read notices or ends.
func (a *prefetch) discard() {
	a.stale.Store(true)
	a.dropStale()
}

// unlock ends a Read's use of the data.
func (a *prefetch) unlock() {
	a.mu.Unlock()
	a.dropStale()
}

// dropStale drops data that was discarded, unless it is in use: unlock then drops it.
func (a *prefetch) dropStale() {
	if a.stale.Load() && a.mu.TryLock() {
		a.drop()
		a.mu.Unlock()
	}
}

// prefetches are the prefetches of one client, by the file's name.
type prefetches struct {
	count atomic.Int32
	mu    sync.Mutex
	files map[string][]*prefetch
}

func (l *prefetches) add(a *prefetch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil {
		l.files = make(map[string][]*prefetch)
	}
	l.files[a.name] = append(l.files[a.name], a)
	l.count.Add(1)
}

func (l *prefetches) remove(a *prefetch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.files[a.name]
	list = slices.DeleteFunc(list, func(other *prefetch) bool { return other == a })
	l.files[a.name] = list
	if len(list) == 0 {
		delete(l.files, a.name)
	}
	l.count.Add(-1)
}

// changed drops the data read ahead of a file. Call it before and after each change of the file,
// since data read in between may be old or new.
func (s *session) changed(name string) {
	if s.ahead.count.Load() == 0 {
		return
	}
	s.ahead.mu.Lock()
	list := slices.Clone(s.ahead.files[path.Clean(name)])
	s.ahead.mu.Unlock()
	for _, a := range list {
		a.discard()
	}
}
