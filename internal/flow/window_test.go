package flow

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	mib     = 1 << 20
	request = 255 << 10
	ms      = time.Millisecond
)

// link is the way to a server and back: a round trip, and how many bytes a second it brings; 0
// means any number.
type link struct {
	trip time.Duration
	rate int64
	dies time.Duration // when it fails; 0 means never
}

// reply is on its way.
type reply struct {
	Range
	stamp  Stamp
	stream int
	due    time.Duration
	n      int // 0 is an EOF
}

// clock runs a download over links in virtual time, over windows, as the transfer loop does it.
type clock struct {
	t       *testing.T
	now     time.Duration
	ranges  *Ranges
	windows []*Window
	links   []link
	free    []time.Duration // when a link's line is free again
	replies []reply         // by due
	size    int64
	budget  int64         // of all streams
	tell    time.Duration // when the size is told; 0 means never
	most    int64         // bytes that were in flight at most
}

func newClock(t *testing.T, size, announced, start, most int64, links ...link) *clock {
	c := &clock{t: t, ranges: NewRanges(0, announced, request), links: links,
		free: make([]time.Duration, len(links)), size: size, budget: 1 << 40}
	for range links {
		c.windows = append(c.windows, NewWindow(start, mib, most))
	}
	return c
}

// run runs until all has come, and returns how long it took.
func (c *clock) run() time.Duration {
	c.t.Helper()
	for {
		c.fill()
		if len(c.replies) == 0 {
			break
		}
		// what is here is taken before more is asked for
		for c.step(); len(c.replies) > 0 && c.replies[0].due == c.now; {
			c.step()
		}
	}
	if !c.ranges.Finished() || c.ranges.Mark() != c.size {
		c.t.Fatalf("it ended at %d of %d, finished: %v", c.ranges.Mark(), c.size,
			c.ranges.Finished())
	}
	for i, w := range c.windows {
		if w.InFlight() != 0 {
			c.t.Errorf("stream %d is left with %d bytes in flight", i, w.InFlight())
		}
	}
	return c.now
}

func (c *clock) inFlight() (n int64) {
	for _, w := range c.windows {
		n += w.InFlight()
	}
	return n
}

func (c *clock) fill() {
	for i, w := range c.windows {
		for c.alive(i) && w.Has(c.ranges.Request(), c.budget-c.inFlight()+w.InFlight()) {
			r, ok := c.ranges.Next()
			if !ok {
				break
			}
			before := w.InFlight()
			stamp := w.Sent(c.now, r.Len)
			if before > 0 && w.InFlight() > w.Limit() {
				c.t.Fatalf("%d bytes in flight where the limit is %d", w.InFlight(), w.Limit())
			}
			c.most = max(c.most, c.inFlight())
			c.send(i, r, stamp)
		}
	}
}

func (c *clock) alive(i int) bool { return c.links[i].dies == 0 || c.now < c.links[i].dies }

func (c *clock) send(i int, r Range, stamp Stamp) {
	l := c.links[i]
	n := int(min(int64(r.Len), max(c.size-r.Off, 0)))
	c.free[i] = max(c.free[i], c.now+l.trip/2)
	if l.rate > 0 {
		c.free[i] += time.Duration(float64(n) / float64(l.rate) * float64(time.Second))
	}
	p := reply{r, stamp, i, c.free[i] + l.trip/2, n}
	at, _ := slices.BinarySearchFunc(c.replies, p.due, func(o reply, due time.Duration) int {
		if o.due <= due {
			return -1
		}
		return cmp.Compare(o.due, due)
	})
	c.replies = slices.Insert(c.replies, at, p)
}

func (c *clock) step() {
	p := c.replies[0]
	c.replies = c.replies[1:]
	if c.tell > 0 && c.now < c.tell && p.due >= c.tell {
		c.now, c.tell = c.tell, 0
		c.replies = slices.Insert(c.replies, 0, p)
		c.ranges.SetSize(c.size)
		return
	}
	c.now = p.due
	w := c.windows[p.stream]
	switch {
	case !c.alive(p.stream):
		w.Lost(p.Len)
		c.ranges.Again(p.Range)
		return
	case p.n == 0:
		c.ranges.EOF(p.Range)
	default:
		c.ranges.Done(p.Range, p.n)
	}
	w.Acked(c.now, p.stamp, p.Len, p.n)
}

// TestRoundTripsOfADownload has links that carry any number of bytes: time is round trips.
func TestRoundTripsOfADownload(t *testing.T) {
	const trip = 100 * ms
	for _, test := range []struct {
		name        string
		size, known int64
		start       int64
		tell        time.Duration
		want        int
	}{
		{"10 MiB at once", 10 * mib, 10 * mib, 16 * mib, 0, 1},
		// and the question for the end
		{"10 MiB at once, just", 10 * mib, 10 * mib, 10*mib + request, 0, 1},
		// 8 + 16 + 32 requests, of 42
		{"10 MiB, doubling", 10 * mib, 10 * mib, 2 * mib, 0, 3},
		{"56 requests less the question, doubling", 55 * request, 55 * request, 2 * mib, 0, 3},
		{"one more, doubling", 56 * request, 56 * request, 2 * mib, 0, 4},
		{"10 MiB of unknown size", 10 * mib, Unknown, 16 * mib, 0, 2}, // the rest of a short answer
		{"10 MiB, told in time", 10 * mib, Unknown, 16 * mib, trip - 1, 1},
		{"40 requests of unknown size", 40 * request, Unknown, 16 * mib, 0, 1},
		{"an empty file", 0, Unknown, 2 * mib, 0, 1},
		{"an empty file, known", 0, 0, 2 * mib, 0, 1},
		{"a small file", 100, 100, 2 * mib, 0, 1},
		{"a file of one request, across its end", 100, Unknown, 2 * mib, trip - 1, 1},
		{"shrunk", 5 * mib, 10 * mib, 16 * mib, 0, 2},
		// the question finds more; all but the rest of a short answer; that
		{"grown", 10 * mib, 5 * mib, 16 * mib, 0, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClock(t, test.size, test.known, test.start, 64*mib, link{trip: trip})
			c.tell = test.tell
			if took := c.run(); took != time.Duration(test.want)*trip {
				t.Errorf("it took %v, want %d round trips of %v", took, test.want, trip)
			}
		})
	}
}

func TestWindowSettlesAtTwiceWhatTheLinkHolds(t *testing.T) {
	for _, l := range []link{{trip: 10 * ms, rate: 500e6}, {trip: 100 * ms, rate: 100e6},
		{trip: 300 * ms, rate: 50e6}, {trip: 50 * ms, rate: 1e9}} {
		holds := int64(l.trip.Seconds() * float64(l.rate))
		size := 30 * holds
		c := newClock(t, size, size, 2*mib, 256*mib, l)
		took := c.run()
		if limit := c.windows[0].Limit(); limit < holds*19/10 || limit > 2*holds+4*request {
			t.Errorf("%+v holds %d, the window is %d", l, holds, limit)
		}
		if trip := time.Duration(-c.windows[0].trip.best()); trip < l.trip || trip > l.trip+50*ms {
			t.Errorf("%+v: the round trip is thought to be %v", l, trip)
		}
		ideal := l.trip + time.Duration(float64(size)/float64(l.rate)*float64(time.Second))
		if most := ideal + 10*l.trip; took > most {
			t.Errorf("%+v: %v, want %v at most", l, took, most)
		}
	}
}

// TestWindowOfAChannel: on a long link no more is in flight than a channel's window, if that carries
// all that the link holds.
func TestWindowOfAChannel(t *testing.T) {
	for _, test := range []struct {
		link link
		want int64 // twice what the link holds, unless it is SSHWindow
	}{
		{link{trip: 3 * ms, rate: 500e6}, 3e6},
		{link{trip: 10 * ms, rate: 125e6}, SSHWindow},
		{link{trip: 10 * ms, rate: 80e6}, 1.6e6},
		{link{trip: 10 * ms, rate: 250e6}, 5e6},
	} {
		c := newClock(t, 200*mib, 200*mib, 2*mib, 256*mib, test.link)
		c.run()
		limit := c.windows[0].Limit()
		if limit < test.want*19/20 || limit > test.want+4*request ||
			test.want == SSHWindow && limit > SSHWindow {
			t.Errorf("%+v: the window is %d, want %d", test.link, limit, test.want)
		}
	}
}

func TestWindowStaysWithinItsBounds(t *testing.T) {
	c := newClock(t, 64*mib, 64*mib, 2*mib, 16*mib, link{trip: ms / 10, rate: 500e6})
	if c.run(); c.windows[0].Limit() != mib {
		t.Errorf("on a short link the window is %d, want the least, %d", c.windows[0].Limit(), mib)
	}
	c = newClock(t, 300*mib, 300*mib, 2*mib, 16*mib, link{trip: 200 * ms, rate: 1e9})
	if c.run(); c.windows[0].Limit() != 16*mib || c.most > 16*mib {
		t.Errorf("on a long link the window is %d, and at most %d were in flight; want the most, %d", c.windows[0].Limit(), c.most, 16*mib)
	}
	for _, test := range [][4]int64{{2, 1, 4, 2}, {1, 2, 4, 2}, {9, 2, 4, 4}, {9, 8, 4, 4}} {
		if got := NewWindow(test[0], test[1], test[2]).Limit(); got != test[3] {
			t.Errorf("NewWindow(%d, %d, %d) begins with %d, want %d", test[0], test[1], test[2],
				got, test[3])
		}
	}
}

func TestWindowHas(t *testing.T) {
	w := NewWindow(1000, 100, 10_000)
	if !w.Has(5000, 0) {
		t.Error("with nothing in flight one request may go, however large")
	}
	w.Sent(0, 600)
	for _, test := range []struct {
		n    int
		room int64
		want bool
	}{{400, 1 << 40, true}, {401, 1 << 40, false}, {400, 1000, true}, {400, 999, false},
		{1, -5, false}} {
		if got := w.Has(test.n, test.room); got != test.want {
			t.Errorf("Has(%d, %d): %v", test.n, test.room, got)
		}
	}
	if w.Lost(600); w.InFlight() != 0 || w.Limit() != 1000 {
		t.Errorf("after a loss %d are in flight and the limit is %d", w.InFlight(), w.Limit())
	}
	stamp := w.Sent(0, 600)
	if w.Acked(ms, stamp, 600, 0); w.Limit() != 1000 || w.InFlight() != 0 {
		t.Error("an end of file says nothing of the link")
	}
}

// TestWindowRecovers has a transfer that is slowed down by its source for a long while, and then no
// more.
func TestWindowRecovers(t *testing.T) {
	const trip, holds = 100 * ms, 10e6
	w := NewWindow(2*mib, mib, 256*mib)
	now := time.Duration(0)
	for range 300 {
		stamp := w.Sent(now, request)
		now += trip
		w.Acked(now, stamp, request, request)
	}
	if w.Limit() != mib {
		t.Errorf("one request a round trip makes a window of %d, want the least", w.Limit())
	}
	c := newClock(t, 30*holds, 30*holds, 0, 0, link{trip: trip, rate: holds * 10})
	c.windows[0], c.now = w, now
	c.run()
	if w.Limit() < holds*19/10 {
		t.Errorf("afterwards the window is %d on a link that holds %d", w.Limit(), int(holds))
	}
	if took := c.now - now; took > 30*trip+12*trip {
		t.Errorf("it took %v, want %v at most", took, 42*trip)
	}
}

// TestManyStreams shares a file among links of all kinds, some of which fail, under one budget.
func TestManyStreams(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		links := make([]link, 1+rng.IntN(6))
		for i := range links {
			links[i] = link{trip: time.Duration(1+rng.IntN(200)) * ms,
				rate: 1e6 + rng.Int64N(200e6)}
			if i > 0 && rng.IntN(3) == 0 {
				links[i].dies = time.Duration(1+rng.IntN(2000)) * ms
			}
		}
		size := rng.Int64N(200 * mib)
		announced := []int64{size, Unknown, rng.Int64N(200 * mib)}[rng.IntN(3)]
		c := newClock(t, size, announced, 2*mib, 16*mib, links...)
		c.budget = int64(1+rng.IntN(64)) * mib
		c.run()
		if c.most > c.budget+int64(len(links))*request {
			t.Errorf("seed %d: %d bytes in flight, under a budget of %d", seed, c.most, c.budget)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %d bytes, announced %d, budget %d, %+v", seed, size, announced,
				c.budget, links)
		}
	}
}
