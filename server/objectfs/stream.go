package objectfs

import (
	"slices"
	"time"

	"github.com/usftp/usftp/wire"
)

// stream is what is read in order of an object, by one handle or several together. It comes from
// stretches that are fetched in advance, many with one request; the further clients read, the
// longer they are. All is under the source's lock.
type stream struct {
	source    *source
	handles   int        // whose last READ came from it
	read      time.Time  // when that was
	inOrder   bool       // the last one of them reads in order
	stretches []*stretch // in order; each begins where the one before ends
	next      int64      // where the last one ends
	length    int64      // of the next one
	answer    *answer    // from which the last one comes, or nil
	asks      int64      // how much the next request asks for
}

const (
	firstStretch   = 256 << 10
	longestStretch = 4 << 20
	mostStretches  = 3
	stretchesAhead = 1 // of the one that is being read
	mostEarly      = longestStretch - wire.MaxData

	// mostShared and mostEarlyShared are for several handles, some of which may be far behind.
	// Stretches that have been read make room as soon as there are mostStretches.
	mostShared      = 8
	mostEarlyShared = mostShared * longestStretch

	longestRequest = 64 << 20 // one costs as much as a few hundred KiB
)

// stream begins one.
func (s *source) stream(offset int64) *stream {
	q := &stream{source: s, next: offset, length: firstStretch, asks: firstStretch,
		read: time.Now()}
	s.streams = append(s.streams, q)
	return q
}

// forgetUnused gives up a stream from which no handle reads.
func (q *stream) forgetUnused() {
	if q.handles == 0 {
		q.forget()
	}
}

// forget gives up all stretches. Those that a READ waits for come all the same.
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

// shared reports whether several handles read from it.
func (q *stream) shared() bool { return q.handles > 1 }

// most is how many stretches there may be.
func (q *stream) most() int {
	if q.shared() {
		return mostShared
	}
	return mostStretches
}

// mostEarly is how far behind the end a READ may begin that belongs to the stream.
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

// end is where the stream ends: with the file, or, unless its handle reads in order, where another
// one begins.
func (q *stream) end() int64 {
	end := q.source.object.Size
	for _, other := range q.source.streams {
		if !q.inOrder && len(other.stretches) > 0 && other.next > q.next {
			end = min(end, max(other.stretches[0].start, q.next))
		}
	}
	return end
}

// fetchAhead begins with the stretches after one that is being read.
func (q *stream) fetchAhead(s *stretch) {
	for len(q.stretches)-slices.Index(q.stretches, s) <= stretchesAhead && !q.full() && q.fetch(s) {
	}
}

// fetch begins with the next stretch, and reports whether there is one, and memory for it. Those
// before the one that is being read make room for it; if that is not enough, it is shorter. It
// comes from the answer from which the one before comes, or from a new one after its end.
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
