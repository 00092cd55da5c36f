// Package flow is the arithmetic of a transfer: which range of the file goes next, how many bytes a
// stream should have in flight, the meaning of a short read or an end of file, and the offset below
// which everything has arrived.
//
// It is pure: no I/O, no goroutines, no clock. Its values are not safe for concurrent use.
package flow

import (
	"cmp"
	"math"
	"slices"
)

// Range is a piece of a file that one request carries.
type Range struct {
	Off int64
	Len int

	doubted bool // an end of file at Off was doubted, and the range requested again
}

// End returns the offset after the range.
func (r Range) End() int64 { return r.Off + int64(r.Len) }

// Unknown stands for the size of a file that has not been announced.
const Unknown = math.MaxInt64

// smallest is the least that a request shrinks to when the server's replies are short. A shorter
// reply is not a server's limit: the file probably ends there, and its rest should not be requested
// in hundreds of pieces.
const smallest = 4 << 10

// growAfter is how many full replies make a shrunk request grow again, since a short reply may have
// been chance. Each time growing proves wrong, it takes twice as many.
const growAfter = 16

// Ranges hands out the ranges of one file, for reading or writing, to any number of streams, and
// records their outcomes. Every range that it hands out must be reported by exactly one call of
// Done, EOF, Again or Fail.
type Ranges struct {
	request int // bytes of a range now
	largest int // bytes of a range at most

	next   int64   // the lowest offset that was never handed out
	newest int64   // the offset of the range that ends at next
	mark   int64   // everything below it is done
	size   int64   // of the file, as announced
	end    int64   // where the file ends, by the lowest of ends
	probed bool    // a range at or beyond size is in flight or was answered
	ends   []Range // ranges that an EOF has answered; requested again if data comes from beyond

	again []Range // ranges to hand out again before anything new, by offset
	limit int64   // nothing at or beyond it is handed out
	err   error   // of the lowest range that failed
	reach int64   // nothing new at or beyond it is handed out for now
	// rests of short reads that end at the expected end of the file: the answer to another range
	// shows whether they must be requested
	held   []Range
	done   []span // done beyond mark, by offset, none adjacent
	out    int    // ranges handed out but not reported
	whole  int    // full answers since the last short one
	enough int    // how many of them make the request grow
	grown  bool   // it has grown since it last shrank
}

type span struct{ from, to int64 }

// NewRanges starts at offset from. Size says where the file should end, or Unknown; a file that
// ends elsewhere is followed to its real end. A range has at most request bytes.
func NewRanges(from, size int64, request int) *Ranges {
	r := new(Ranges)
	r.Reset(from, size, request)
	return r
}

// Reset starts over and reuses the memory.
func (r *Ranges) Reset(from, size int64, request int) {
	*r = Ranges{request: request, largest: request, enough: growAfter, newest: -1,
		next: from, mark: from, size: size, end: Unknown, limit: Unknown, reach: Unknown,
		ends: r.ends[:0], again: r.again[:0], held: r.held[:0], done: r.done[:0]}
}

// Next hands out a range; false means that there is none now. A range ends at the announced size,
// and one more beyond it asks whether there is more, along with the others: only an EOF ends a
// file.
func (r *Ranges) Next() (Range, bool) {
	got, ok := r.pick()
	if ok {
		r.out++
	}
	return got, ok
}

func (r *Ranges) pick() (Range, bool) {
	if r.waiting() {
		first := r.again[0]
		if first.Len > r.request {
			r.again[0] = Range{Off: first.Off + int64(r.request), Len: first.Len - r.request}
			first.Len = r.request
			return first, true
		}
		r.again = slices.Delete(r.again, 0, 1)
		return first, true
	}
	stop := min(r.end, r.limit)
	if r.next >= min(stop, r.reach) {
		return Range{}, false
	}
	length := min(int64(r.request), stop-r.next)
	switch {
	case r.size == Unknown:
	case r.next < r.size:
		length = min(length, r.size-r.next)
	case r.probed:
		return Range{}, false
	default:
		r.probed = true
	}
	got := Range{Off: r.next, Len: int(length)}
	r.next, r.newest = got.End(), got.Off
	return got, true
}

// waiting reports whether a range is to be handed out again. Ranges beyond the end are kept in case
// that end proves wrong.
func (r *Ranges) waiting() bool { return len(r.again) > 0 && r.again[0].Off < r.end }

// Limit stops handing out anything at or beyond an offset, the end of the wanted part. A limit only
// falls.
func (r *Ranges) Limit(off int64) {
	if off >= r.limit {
		return
	}
	r.limit = off
	for i := range r.again {
		r.again[i].Len = int(min(int64(r.again[i].Len), max(off-r.again[i].Off, 0)))
	}
	r.again = slices.DeleteFunc(r.again, func(a Range) bool { return a.Len == 0 })
	r.held = slices.DeleteFunc(r.held, func(a Range) bool { return a.Off >= off })
}

// Reach hands out nothing new that begins at or beyond an offset, until it is called with another.
// Data that arrives out of order waits in memory for the data before it, and a peer that withholds
// one reply must not fill memory with the others.
func (r *Ranges) Reach(off int64) { r.reach = off }

// SetSize sets a size that becomes known after the start.
func (r *Ranges) SetSize(size int64) {
	if r.beyond(size) {
		return // it has grown since
	}
	r.size = size
	r.probed = r.newest >= size
}

// Done reports that the first n bytes of a range have arrived or been acknowledged; n is at least
// 1. The rest of a short reply is handed out again, in smaller requests, as the server may not
// return more at once.
func (r *Ranges) Done(got Range, n int) {
	r.out--
	switch {
	case n < got.Len:
		r.short(got, n)
	case got.Len >= r.request:
		r.full()
	}
	reached := got.Off + int64(n)
	if reached > r.size {
		r.size = Unknown // it has grown
	}
	if reached > r.end {
		r.reopen(reached)
	}
	r.add(span{got.Off, reached})
	r.decideHeld()
}

// full counts a full reply.
func (r *Ranges) full() {
	if r.whole++; r.whole >= r.enough && r.request < r.largest {
		r.whole = 0
		r.request = min(2*r.request, r.largest)
		r.grown = true
	}
}

func (r *Ranges) short(got Range, n int) {
	rest := Range{Off: got.Off + int64(n), Len: got.Len - n}
	if rest.Off == r.size {
		r.held = append(r.held, rest)
		return
	}
	r.whole = 0
	if least := max(n, smallest); least < r.request {
		r.request = least
		if r.grown {
			r.enough, r.grown = min(2*r.enough, math.MaxInt32), false
		}
	}
	r.insert(rest)
}

// decideHeld decides about the rest of a short read that ended at the announced size. If a request
// that was already in flight gets an EOF at or beyond it, the file ends there. If there is data
// beyond it, or no such request is left, the rest is requested.
func (r *Ranges) decideHeld() {
	r.held = slices.DeleteFunc(r.held, func(rest Range) bool {
		switch {
		case r.end != Unknown && rest.Off <= r.end && r.size == rest.Off:
			r.ends = append(r.ends, rest)
			r.end = rest.Off
		case r.out == 0 || r.size != rest.Off:
			r.insert(rest)
		default:
			return false
		}
		return true
	})
}

// EOF reports that the server says the file ends at a range's offset. If data has come from beyond
// it, the range is requested once more; if the server insists, the file has shrunk.
func (r *Ranges) EOF(got Range) {
	r.out--
	if !got.doubted && got.Off < r.end && r.beyond(got.Off) {
		got.doubted = true
		r.insert(got)
		return
	}
	r.ends = append(r.ends, got)
	r.end = min(r.end, got.Off)
	r.decideHeld()
}

// beyond reports whether data has come from beyond an offset.
func (r *Ranges) beyond(off int64) bool {
	return r.mark > off || (len(r.done) > 0 && r.done[len(r.done)-1].to > off)
}

// reopen requests again, once, the ranges whose EOF is disproved by data from beyond it, up to an
// offset.
func (r *Ranges) reopen(reached int64) {
	r.end = Unknown
	r.ends = slices.DeleteFunc(r.ends, func(e Range) bool {
		if e.Off < reached && !e.doubted {
			e.doubted = true
			r.insert(e)
			return true
		}
		r.end = min(r.end, e.Off)
		return false
	})
}

// Trim shortens the range that was handed out last, before it is sent, because the source has only
// n bytes right now. The rest is handed out next.
func (r *Ranges) Trim(got Range, n int) Range {
	rest := Range{Off: got.Off + int64(n), Len: got.Len - n}
	got.Len = n
	if rest.End() == r.next {
		r.next = rest.Off
	} else {
		r.insert(rest)
	}
	return got
}

// Shorten shortens the range that was handed out last, before it is sent, to n bytes, because the
// source has ended. If n is 0 there is nothing to report.
func (r *Ranges) Shorten(got Range, n int) Range {
	got.Len = n
	r.end = got.End()
	r.next = r.end
	if n == 0 {
		r.out--
	}
	return got
}

// Again reports that a range's stream has failed, and hands it out again.
func (r *Ranges) Again(got Range) {
	r.out--
	r.insert(got)
}

// Fail reports that a range has failed for good: the data before it still counts, the data after it
// does not.
func (r *Ranges) Fail(got Range, err error) {
	r.out--
	if got.Off < r.limit {
		r.err = err
	}
	r.Limit(got.Off)
}

// Err returns the error of the lowest range that failed, or nil.
func (r *Ranges) Err() error { return r.err }

func (r *Ranges) insert(got Range) {
	if got.Len = int(min(int64(got.Len), r.limit-got.Off)); got.Len <= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(r.again, got.Off,
		func(a Range, off int64) int { return cmp.Compare(a.Off, off) })
	r.again = slices.Insert(r.again, at, got)
}

// add records a span as done and moves the mark.
func (r *Ranges) add(s span) {
	at, _ := slices.BinarySearchFunc(r.done, s.from,
		func(d span, off int64) int { return cmp.Compare(d.from, off) })
	r.done = slices.Insert(r.done, at, s)
	if at+1 < len(r.done) && r.done[at].to >= r.done[at+1].from {
		r.done[at].to = max(r.done[at].to, r.done[at+1].to)
		r.done = slices.Delete(r.done, at+1, at+2)
	}
	if at > 0 && r.done[at-1].to >= r.done[at].from {
		r.done[at-1].to = max(r.done[at-1].to, r.done[at].to)
		r.done = slices.Delete(r.done, at, at+1)
	}
	if len(r.done) > 0 && r.done[0].from <= r.mark {
		r.mark = max(r.mark, r.done[0].to)
		r.done = slices.Delete(r.done, 0, 1)
	}
}

// Mark returns the offset below which everything is done: the progress, the part that is safe after
// a failure, and where to continue.
func (r *Ranges) Mark() int64 { return r.mark }

// Out returns how many ranges are handed out but not reported.
func (r *Ranges) Out() int { return r.out }

// End returns where the file ends, or Unknown until an EOF has said so.
func (r *Ranges) End() int64 { return r.end }

// Request returns the current size of a range in bytes, which shrinks with short replies.
func (r *Ranges) Request() int { return r.request }

// Finished reports whether everything before the limit or the end of the file is done, and nothing
// in flight could change that.
func (r *Ranges) Finished() bool {
	return r.out == 0 && !r.waiting() && len(r.held) == 0 && r.mark >= min(r.end, r.limit)
}
