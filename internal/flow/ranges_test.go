package flow

import (
	"io/fs"
	"slices"
	"testing"
)

// step is one thing that happens to Ranges.
type step func(*testing.T, *Ranges)

// hands expects the next range.
func hands(off int64, length int) step {
	return func(t *testing.T, r *Ranges) {
		t.Helper()
		if got, ok := r.Next(); !ok || got.Off != off || got.Len != length {
			t.Fatalf("Next: %+v, %v, want %d bytes at %d", got, ok, length, off)
		}
	}
}

// none expects that there is nothing to hand out.
func none(t *testing.T, r *Ranges) {
	t.Helper()
	if got, ok := r.Next(); ok {
		t.Fatalf("Next: %+v, want none", got)
	}
}

func done(off int64, length, n int) step {
	return func(_ *testing.T, r *Ranges) { r.Done(Range{Off: off, Len: length}, n) }
}

func eof(off int64, length int) step {
	return func(_ *testing.T, r *Ranges) { r.EOF(Range{Off: off, Len: length}) }
}

// eofAgain is an EOF for a range that was asked again.
func eofAgain(off int64, length int) step {
	return func(_ *testing.T, r *Ranges) { r.EOF(Range{Off: off, Len: length, doubted: true}) }
}

func lost(off int64, length int) step {
	return func(_ *testing.T, r *Ranges) { r.Again(Range{Off: off, Len: length}) }
}

func failed(off int64, length int, err error) step {
	return func(_ *testing.T, r *Ranges) { r.Fail(Range{Off: off, Len: length}, err) }
}

func because(want error) step {
	return func(t *testing.T, r *Ranges) {
		t.Helper()
		if r.Err() != want {
			t.Fatalf("Err: %v, want %v", r.Err(), want)
		}
	}
}

func setSize(size int64) step { return func(_ *testing.T, r *Ranges) { r.SetSize(size) } }
func limit(off int64) step    { return func(_ *testing.T, r *Ranges) { r.Limit(off) } }

func reach(off int64) step { return func(_ *testing.T, r *Ranges) { r.Reach(off) } }

func mark(want int64) step {
	return func(t *testing.T, r *Ranges) {
		t.Helper()
		if r.Mark() != want {
			t.Fatalf("Mark: %d, want %d", r.Mark(), want)
		}
	}
}

// over expects that all is done, up to an end.
func over(at int64) step {
	return func(t *testing.T, r *Ranges) {
		t.Helper()
		none(t, r)
		if !r.Finished() || r.Mark() != at || r.Out() != 0 {
			t.Fatalf("finished: %v, mark %d, out %d, want a finish at %d", r.Finished(), r.Mark(),
				r.Out(), at)
		}
	}
}

const k = 10_000 // the request of the tables

func TestRanges(t *testing.T) {
	for _, test := range []struct {
		name       string
		from, size int64
		steps      []step
	}{
		{name: "known size", size: 25_000, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, 5000), hands(25_000, k), none,
			done(k, k, k), mark(0), done(0, k, k), mark(2 * k), done(2*k, 5000,
				5000), mark(25_000), eof(25_000, k), over(25_000)}},
		{name: "known size, a multiple of the request", size: 2 * k, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), none, eof(2*k, k), done(0, k, k), done(k, k,
				k), over(2 * k)}},
		{name: "known size 0", steps: []step{hands(0, k), none, eof(0, k), over(0)}},
		{name: "from the size on", from: 500, size: 500,
			steps: []step{hands(500, k), none, eof(500, k), over(500)}},
		{name: "from beyond the size", from: 900, size: 500,
			steps: []step{hands(900, k), none, eof(900, k), over(900)}},
		{name: "unknown size", size: Unknown, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), done(0, k, k), done(k, k, 500), eof(2*k, k),
			hands(k+500, 4096), hands(k+4596, 4096), hands(k+8692, 1308), none,
			eof(k+4596, 4096), eof(k+8692, 1308), eof(k+500, 4096), over(k + 500)}},
		{name: "unknown size, told in time", size: Unknown, steps: []step{
			hands(0, k), hands(k, k), setSize(k + 500), hands(2*k, k),
			done(0, k, k), done(k, k, 500), none, eof(2*k, k), over(k + 500)}},
		{name: "told when nothing beyond is out", size: Unknown, steps: []step{
			hands(0, k), hands(k, k), setSize(2 * k), hands(2*k, k), none,
			done(0, k, k), done(k, k, k), eof(2*k, k), over(2 * k)}},
		{name: "told, and only the range across the end is out", size: Unknown, steps: []step{
			hands(0, k), setSize(500), hands(k, k), none, done(0, k, 500), none, eof(k,
				k), over(500)}},
		{name: "told what has been disproved", size: Unknown, steps: []step{
			hands(0, k), done(0, k, k), setSize(500), hands(k, k), eof(k, k), over(k)}},
		{name: "the EOF beyond comes before the rest is held", size: k + 500, steps: []step{
			hands(0, k), hands(k, 500), hands(k+500, k), eof(k+500, k), done(k, 500, 500), done(0,
				k, k), over(k + 500)}},
		{name: "held, and the file has grown", size: Unknown, steps: []step{
			hands(0, k), hands(k, k), setSize(500), done(0, k, 500), none, done(k, k, k),
			hands(500, k-500), hands(2*k, k), done(500, k-500, k-500), eof(2*k, k), over(2 * k)}},
		{name: "held, and told another size", size: Unknown, steps: []step{
			hands(0, k), hands(k, k), setSize(500), done(0, k, 500), setSize(k + 500), done(k, k,
				500),
			hands(500, k-500), hands(k+500, k-500), hands(2*k, k), none,
			done(500, k-500, k-500), eof(k+500, k-500), eof(2*k, k), over(k + 500)}},
		{name: "grown", size: 15_000, steps: []step{
			hands(0, k), hands(k, 5000), hands(15_000, k), none, done(15_000, k,
				k), hands(25_000, k),
			done(0, k, k), done(k, 5000, 5000), eof(25_000, k), over(25_000)}},
		{name: "shrunk", size: 35_000, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), hands(3*k, 5000), hands(35_000, k),
			done(0, k, k), eof(3*k, 5000), eof(k, k), eof(2*k, k), eof(35_000, k), over(k)}},
		{name: "EOF with data beyond", size: 30_000, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), hands(3*k, k), done(2*k, k, k), eof(0,
				k), hands(0, k),
			done(0, k, k), done(k, k, k), eof(3*k, k), over(3 * k)}},
		{name: "EOF with data beyond, twice", size: 30_000, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), hands(3*k, k), done(2*k, k, k), eof(k,
				k), hands(k, k),
			eofAgain(k, k), done(0, k, k), eof(3*k, k), over(k)}},
		{name: "data beyond several EOFs", size: Unknown, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), hands(3*k, k), hands(4*k, k),
			eof(k, k), eof(2*k, k), eof(0, k), eof(4*k, k), none, done(3*k, k, k),
			hands(0, k), hands(k, k), hands(2*k, k), none,
			done(2*k, k, k), done(0, k, k), done(k, k, k), over(4 * k)}},
		{name: "lost beyond an EOF that is none", size: Unknown, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), lost(k, k), eof(0, k), none, done(2*k, k,
				k),
			hands(0, k), hands(k, k), done(0, k, k), done(k, k, k), hands(3*k, k), eof(3*k,
				k), over(3 * k)}},
		{name: "reach", size: Unknown, steps: []step{
			reach(15_000), hands(0, k), hands(k, k), none, lost(0, k), hands(0, k), done(k, k,
				k), none, reach(2*k + 1),
			hands(2*k, k), none, done(0, k, k), reach(Unknown), hands(3*k, k), eof(3*k,
				k), done(2*k, k, k), over(3 * k)}},
		{name: "limit", size: Unknown, steps: []step{
			limit(15_000), hands(0, k), hands(k, 5000), none, done(k, 5000, 5000), done(0, k,
				k), over(15_000)}},
		{name: "limit in the middle", size: 50_000, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), lost(0, k), lost(2*k,
				k), limit(2*k + 10), limit(5 * k),
			hands(0, k), hands(2*k, 10), done(k, k, k), done(0, k, k), done(2*k, 10,
				10), over(2*k + 10)}},
		{name: "a failure", size: 50_000, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), lost(k, k), limit(k), done(2*k, k, k), done(0,
				k, k), over(k)}},
		{name: "several failures", size: 50_000, steps: []step{
			hands(0, k), hands(k, k), hands(2*k, k), hands(3*k, k), because(nil),
			failed(2*k, k, fs.ErrPermission), because(fs.ErrPermission),
			failed(3*k, k, fs.ErrExist),
			because(fs.ErrPermission), none, failed(k, k, fs.ErrClosed), because(fs.ErrClosed),
			done(0, k, k), over(k)}},
		{name: "another stream", size: 2 * k, steps: []step{
			hands(0, k), hands(k, k), lost(0, k), hands(0, k), hands(2*k, k),
			done(0, k, k), done(k, k, k), eof(2*k, k), over(2 * k)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewRanges(test.from, test.size, k)
			for _, step := range test.steps {
				step(t, r)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	for _, n := range []int{0, 1, k - 1} {
		r := NewRanges(0, Unknown, k)
		first, _ := r.Next()
		last, _ := r.Next()
		last = r.Shorten(last, n)
		if last.Len != n {
			t.Errorf("%d bytes are left, want %d", last.Len, n)
		}
		none(t, r)
		if n > 0 {
			r.Done(last, n)
		}
		if r.Finished() {
			t.Error("finished before the first range was")
		}
		r.Done(first, k)
		over(int64(k+n))(t, r)
	}
}

// TestRequestAdapts has a server that never gives more than 32 KiB: the request comes down to that
// at once, and tries for more ever more seldom; and then one that was short by chance, after which
// it is back soon.
func TestRequestAdapts(t *testing.T) {
	const most, cap = 255 << 10, 32 << 10
	r := NewRanges(0, Unknown, most)
	asked, short := 0, 0
	for range 4000 {
		got, _ := r.Next()
		asked++
		if n := min(got.Len, cap); n < got.Len {
			short++
			r.Done(got, n)
		} else {
			r.Done(got, n)
		}
	}
	if short > 10 {
		t.Errorf("%d of %d requests were answered short", short, asked)
	}

	r = NewRanges(0, Unknown, most)
	got, _ := r.Next()
	r.Done(got, 5000)
	for requests := 0; r.Request() < most; requests++ {
		if requests > 16*6+60 {
			t.Fatalf("the request is still %d bytes", r.Request())
		}
		got, _ := r.Next()
		r.Done(got, got.Len)
	}

	r = NewRanges(0, Unknown, most)
	got, _ = r.Next()
	r.Done(got, 1) // the end of a small file: no need for hundreds of requests
	var rest []Range
	for got, ok := r.Next(); ok && got.Off < most; got, ok = r.Next() {
		rest = append(rest, got)
	}
	if len(rest) > 64 || slices.ContainsFunc(rest, func(r Range) bool { return r.Len == 0 }) {
		t.Errorf("the rest of a short answer is %d requests", len(rest))
	}
}
