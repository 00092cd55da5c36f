package objectfs

import (
	"slices"
	"time"

	"github.com/usftp/usftp/wire"
)

// stream reads an object in order, for one handle or several together. Its stretches are fetched
// ahead, many with one request; the further clients read, the longer they are. The source's lock
// guards it all.
type stream struct {
	source    *source
	handles   int        // whose last READ was served from it
	read      time.Time  // the time of that READ
	inOrder   bool       // the handle of that READ reads in order
	stretches []*stretch // in order; each begins where the one before ends
	next      int64      // where the last stretch ends
	length    int64      // of the next stretch
	answer    *answer    // which brings the last stretch, or nil
	asks      int64      // length of the next request
}

const (
	firstStretch   = 256 << 10
	longestStretch = 4 << 20
	mostStretches  = 3
	stretchesAhead = 1 // beyond the one being read
	mostEarly      = longestStretch - wire.MaxData

	// mostShared and mostEarlyShared are for several handles, some of which may be far behind.
	// Stretches that have been read make room as soon as there are mostStretches.
	mostShared      = 8
	mostEarlyShared = mostShared * longestStretch

	longestRequest = 64 << 20 // one costs as much as a few hundred KiB
)

// stream starts a stream.
func (s *source) stream(offset int64) *stream {
	q := &stream{source: s, next: offset, length: firstStretch, asks: firstStretch,
		read: time.Now()}
	s.streams = append(s.streams, q)
	return q
}

// forgetUnused ends a stream from which no handle reads.
func (q *stream) forgetUnused() {
	if q.handles == 0 {
		q.forget()
	}
}

// forget ends the stream and drops its stretches. A stretch that a READ waits for still comes.
func (q *stream) forget() {
	if q.answer != nil {
		q.answer.ended = true
		q.answer.wanted.Broadcast()
		q.answer = nil
	}
	for _, s := range q.stretches {
		q.source.leave(s)
	}
	q.stretches, q.next = nil, -1
	q.source.streams = slices.DeleteFunc(q.source.streams,
		func(other *stream) bool { return other == q })
	q.source.changed.Broadcast()
}

// shared reports whether several handles read from the stream.
func (q *stream) shared() bool { return q.handles > 1 }

// most returns how many stretches the stream may have.
func (q *stream) most() int {
	if q.shared() {
		return mostShared
	}
	return mostStretches
}

// mostEarly returns how far beyond the end a READ that belongs to the stream may begin.
func (q *stream) mostEarly() int64 {
	if q.shared() {
		return mostEarlyShared
	}
	return mostEarly
}

// full reports whether another stretch has to wait until the oldest is no longer being read.
func (q *stream) full() bool {
	return len(q.stretches) >= q.most() && q.stretches[0].users > 0
}

// find returns the stretch that holds an offset, or nil.
func (q *stream) find(offset int64) *stretch {
	for _, s := range q.stretches {
		if s.start <= offset && offset < s.start+s.length {
			return s
		}
	}
	return nil
}

// end returns where the stream ends: with the file, or, unless its handle reads in order, where
// another stream begins.
func (q *stream) end() int64 {
	end := q.source.object.Size
	for _, other := range q.source.streams {
		if !q.inOrder && len(other.stretches) > 0 && other.next > q.next {
			end = min(end, max(other.stretches[0].start, q.next))
		}
	}
	return end
}

// fetchAhead starts to fetch the stretches after the one being read.
func (q *stream) fetchAhead(s *stretch) {
	for len(q.stretches)-slices.Index(q.stretches, s) <= stretchesAhead && !q.full() && q.fetch(s) {
	}
}

// fetch starts to fetch the next stretch, and reports whether there is one, and memory for it.
// Stretches before the one being read make room for it; if that is not enough, it is shorter. It
// comes from the answer of the stretch before it, or from a new one once that has ended.
func (q *stream) fetch(read *stretch) bool {
	end, last, memory := q.end(), q.answer, q.source.fs.memory
	length := min(q.length, end-q.next)
	if length == 0 {
		return false
	}
	if last != nil && last.end > q.next {
		length = min(length, last.end-q.next)
	}
	for tried := false; !memory.ahead.TryAcquire(length); {
		switch {
		case len(q.stretches) > 0 && q.stretches[0] != read && q.stretches[0].users == 0:
			q.leaveOldest()
		case length > firstStretch:
			length = max(length/2, firstStretch)
		case !tried:
			tried = true
			memory.reading.takeBack()
		default:
			return false
		}
	}
	for len(q.stretches) >= mostStretches &&
		(len(q.stretches) >= q.most() || q.stretches[0].spent()) {
		q.leaveOldest()
	}
	s := newStretch(q.source, q.next, length)
	q.stretches = append(q.stretches, s)
	if last == nil || last.end == q.next {
		last = newAnswer(q.source, min(q.next+max(q.asks, length), end))
		q.answer, q.asks = last, min(4*q.asks, longestRequest)
		q.source.loading.Go(func() { q.load(last) })
	}
	last.stretches = append(last.stretches, s)
	last.wanted.Broadcast()
	q.next += length
	q.length = min(2*q.length, longestStretch)
	s.users++
	return true
}

func (q *stream) leaveOldest() {
	oldest := q.stretches[0]
	q.stretches = q.stretches[1:]
	q.source.leave(oldest)
}
