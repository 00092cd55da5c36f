package flow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// dice decides what happens: a random number below n. A seeded generator or a fuzzer's bytes throw
// them.
type dice func(n int) int

// bytesDice throws what data says, and zeros when that is used up.
func bytesDice(data []byte) dice {
	return func(n int) int {
		v := 0
		for range 2 {
			v <<= 8
			if len(data) > 0 {
				v |= int(data[0])
				data = data[1:]
			}
		}
		return v % n
	}
}

// recipe is a server with a file, and the streams that lead to it. Answers come in whatever order
// the dice say.
type recipe struct {
	from, size int64 // of the file when it begins
	announced  int64 // what the client thinks
	setSize    int   // after how many answers the client hears the size; 0 means never
	request    int
	streams    int
	inFlight   int // ranges a stream may have out
	cap        int // the most that one READ gets; 0 means all
	short      int // one answer of so many is short by chance; 0 means none
	// one answer of so many kills its stream, as long as there is another; 0 means none
	fail int
	// one answer of so many is an EOF where there is none; 0 means none. It does not happen twice
	// at one offset
	falseEOF      int
	resize        int // the file changes its size with one answer of so many; 0 means never
	grow, shrink  bool
	inOrderServer bool // each stream's answers come in order
	limit         int64
}

func (r recipe) String() string { return fmt.Sprintf("%+v", r.plain()) }

func (r recipe) plain() any {
	type plain recipe
	return plain(r)
}

func throwRecipe(d dice) recipe {
	one := func(n int) int { // once in so many, or never
		if d(2) == 0 {
			return 0
		}
		return 2 + d(n)
	}
	r := recipe{
		size: int64(d(20_000)), announced: Unknown, request: 1 + d(20_000), streams: 1 +
			d(4), inFlight: 1 + d(20),
		short: one(20), fail: one(20), falseEOF: 0, resize: one(10), limit: Unknown,
		inOrderServer: d(2) == 0,
	}
	if d(4) == 0 {
		r.from = int64(d(25_000))
	}
	switch d(3) {
	case 0:
		r.announced = r.size
	case 1:
		r.announced = int64(d(30_000))
	}
	if d(3) == 0 {
		r.setSize = 1 + d(10)
	}
	if d(3) == 0 {
		r.cap = 1 + d(10_000)
	}
	if d(4) == 0 {
		r.limit = r.from + int64(d(30_000))
	}
	switch d(4) {
	case 0:
		r.grow = true
	case 1:
		r.shrink = true
	case 2:
		r.falseEOF = one(10)
	}
	return r
}

// outstanding is a range on its way.
type outstanding struct {
	Range
	stream int
}

// simulate runs a transfer to its end and checks, at each step, what must hold.
func simulate(t *testing.T, r recipe, d dice) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nrecipe: %v", fmt.Sprintf(format, args...), r)
	}
	ranges := NewRanges(r.from, r.announced, r.request)
	ranges.Limit(r.limit)
	size, least, most := r.size, r.size, r.size
	var out []outstanding
	var got []bool // which bytes have come
	dead := make([]bool, r.streams)
	alive := r.streams
	lied := make(map[int64]bool)
	mark := r.from
	answers := 0
	for {
		for stream := range r.streams {
			for !dead[stream] && inFlight(out, stream) < r.inFlight {
				next, ok := ranges.Next()
				if !ok {
					break
				}
				if next.Len < 1 || next.Len > r.request || next.Off < r.from ||
					next.End() > r.limit {
					fail("handed out %+v", next)
				}
				for _, o := range out {
					if o.Off < next.End() && next.Off < o.End() {
						fail("%+v overlaps %+v, which is in flight", next, o)
					}
				}
				out = append(out, outstanding{next, stream})
			}
		}
		if ranges.Out() != len(out) {
			fail("Out is %d, want %d", ranges.Out(), len(out))
		}
		if len(out) == 0 {
			break
		}
		if answers++; answers > 500_000 {
			fail("it does not end")
		}
		if answers == r.setSize {
			ranges.SetSize(size)
		}
		if r.resize > 0 && (r.grow || r.shrink) && d(r.resize) == 0 && answers < 50 {
			if r.grow {
				size += int64(d(2000))
			} else {
				size -= min(size, int64(d(2000)))
			}
			least, most = min(least, size), max(most, size)
		}
		at := d(len(out))
		if r.inOrderServer {
			at = slices.IndexFunc(out, func(o outstanding) bool {
				return o.stream == out[at].stream
			})
		}
		o := out[at]
		out = slices.Delete(out, at, at+1)
		n := int(min(int64(o.Len), size-o.Off))
		if n > 0 && r.cap > 0 {
			n = min(n, r.cap)
		}
		switch {
		case r.fail > 0 && alive > 1 && d(r.fail) == 0:
			dead[o.stream] = true
			alive--
			ranges.Again(o.Range)
			out = slices.DeleteFunc(out, func(other outstanding) bool {
				if other.stream == o.stream {
					ranges.Again(other.Range)
					return true
				}
				return false
			})
		case n <= 0:
			ranges.EOF(o.Range)
		case r.falseEOF > 0 && !lied[o.Off] && o.Off+int64(o.Len) < size && d(r.falseEOF) == 0:
			lied[o.Off] = true
			ranges.EOF(o.Range)
		default:
			if r.short > 0 && d(r.short) == 0 {
				n = 1 + d(n)
			}
			for len(got) < int(o.Off)+n {
				got = append(got, false)
			}
			for i := range n {
				if got[int(o.Off)+i] {
					fail("byte %d has come twice, with %+v", int(o.Off)+i, o.Range)
				}
				got[int(o.Off)+i] = true
			}
			ranges.Done(o.Range, n)
		}
		want := mark
		for want < int64(len(got)) && got[want] {
			want++
		}
		if ranges.Mark() != want || want < mark {
			fail("the mark is %d after %d, want %d", ranges.Mark(), mark, want)
		}
		mark = want
	}
	if !ranges.Finished() {
		fail("nothing is in flight, and it is not finished: mark %d, end %d, %d again, %d held",
			mark, ranges.End(), len(ranges.again), len(ranges.held))
	}
	// What may be the end: where the file ended at one time or other. A lie is found out where data
	// comes from beyond it.
	first, last := max(min(least, r.limit), r.from), max(min(most, r.limit), r.from)
	if r.falseEOF > 0 {
		first = mark
		if int64(len(got)) > mark {
			fail("it ended at %d by a lie, with data up to %d", mark, len(got))
		}
	}
	if mark < first || mark > last {
		fail("it ended at %d, want %d to %d", mark, first, last)
	}
}

func inFlight(out []outstanding, stream int) (n int) {
	for _, o := range out {
		if o.stream == stream {
			n++
		}
	}
	return n
}

func TestRangesWhateverComes(t *testing.T) {
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		if !t.Run(fmt.Sprint("seed ", seed),
			func(t *testing.T) { simulate(t, throwRecipe(rng.IntN), rng.IntN) }) {
			return
		}
	}
}

func FuzzRanges(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("every byte exactly once in the result, in whatever order the answers come"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := bytesDice(data)
		simulate(t, throwRecipe(d), d)
	})
}
