package endpoint

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
)

// These constants decide how many connections a striped transfer has. All times are in round trips,
// each counted as at least gaugeEvery.
const (
	gaugeEvery = 20 * time.Millisecond

	judgeAfter = 8 // before the rate of new connections can be judged: TCP starts slowly
	// how much longer a transfer must take for more connections to be tried: a login, and twice
	// TCP's slow start
	exploreFor  = 30
	testFor     = 60 // the same for finding out whether some add nothing
	drainsFor   = 80 // the longest wait for a lane's requests in flight
	averageOver = 4
	heldFor     = 10 // a connection must be held down for 1/heldFor of the transfer's time

	mostlyWaits = 0.5 // the share of the time spent waiting for the other end

	growing   = 1.25 // the rate is growing, or has grown from the last step
	kept      = 0.9  // fewer connections have kept up the rate
	recovered = 1.1  // fewer connections are faster: the rate with more was measured too early

	// Shares of the rate that the windows allow.
	oneWindowFull = 0.8  // the window limits a single lane
	windowsFull   = 0.5  // the windows limit several lanes
	windowsFree   = 0.25 // the windows do not, and fewer lanes may suffice
)

// These constants say how rates are compared.
const (
	steadyAfter = 3       // round trips before a lane that has joined or rests takes effect
	steadyOver  = 8       // the fewest round trips to average a rate over
	steadyBytes = 4 << 20 // the fewest bytes for an average: they are counted per request
	steadyEach  = 1 << 20 // the same per lane, since each has some in flight

	tooMuch     = 1.2 // a gain above this times the growth in lanes is not real
	independent = 1.6 // the gain of twice as many lanes if each has its own rate
)

const (
	oneStream  = 1
	allStreams = 0 // as many as allowed
)

// An autoscaler decides how many connections a transfer should have.
type autoscaler struct {
	s    *Striper
	pool pools.Pool
	g    *gauge
}

// autoscale opens connections while the transfer runs, and adds them to it.
func autoscale(ctx context.Context, s *Striper) {
	a := &autoscaler{s: s, pool: pools.OfPool(s.Pool), g: newGauge(s)}
	defer a.g.ticker.Stop()
	joins := sync.OnceFunc(func() { s.work.Go(func() { s.join(ctx) }) })
	if sessions, _ := a.pool.Sessions(); len(sessions) > 0 {
		joins() // another file has found that they help
	}
	switch limit, rate := a.await(ctx); limit {
	case windowLimits:
		joins()
		a.byWindows(ctx)
	case heldDown:
		joins()
		a.explore(ctx, rate)
	}
}

// A gauge measures a transfer's rate once per round trip.
type gauge struct {
	s      *Striper
	every  time.Duration
	ticker *time.Ticker
	at     time.Time
	moved  int64
	rates  [averageOver]float64 // bytes per second, newest first
	since  struct {
		at    time.Time
		moved int64
	}
}

func newGauge(s *Striper) *gauge {
	every := max(s.Trip, gaugeEvery)
	return &gauge{s: s, every: every, ticker: time.NewTicker(every), at: time.Now()}
}

// wait waits for a round trip and measures the rate during it. It returns false if ctx has ended.
func (g *gauge) wait(ctx context.Context) bool {
	select {
	case <-g.ticker.C:
	case <-ctx.Done():
		return false
	}
	moved, now := g.s.Moved(), time.Now()
	copy(g.rates[1:], g.rates[:])
	g.rates[0] = float64(moved-g.moved) / now.Sub(g.at).Seconds()
	if g.moved == 0 {
		g.begin()
	}
	g.moved, g.at = moved, now
	return true
}

// rate returns the average of the latest rates.
func (g *gauge) rate() (sum float64) {
	for _, r := range g.rates {
		sum += r
	}
	return sum / averageOver
}

// begin starts a measurement for average.
func (g *gauge) begin() { g.since.at, g.since.moved = time.Now(), g.s.Moved() }

// average returns the rate since begin. enough reports whether it covers at least 1/parts of the
// time and bytes that comparing two rates takes.
func (g *gauge) average(parts int) (rate float64, enough bool) {
	took, moved := g.at.Sub(g.since.at), g.moved-g.since.moved
	lanes := int64(1 + g.s.Count())
	return float64(moved) / max(took.Seconds(), 1e-9),
		took > time.Duration(steadyOver/parts-1)*g.every &&
			moved >= max(steadyBytes, lanes*steadyEach)/int64(parts)
}

// measure measures the rate from now on. ok is false if ctx has ended.
func (g *gauge) measure(ctx context.Context) (rate float64, ok bool) {
	return g.measureUntil(ctx, func() bool { return false })
}

// measureUntil measures like measure, but ends early once clear says that the latest rates suffice.
func (g *gauge) measureUntil(ctx context.Context, clear func() bool) (rate float64, ok bool) {
	for trips := 1; ; trips++ {
		if !g.wait(ctx) {
			return 0, false
		}
		if trips >= averageOver && clear() {
			return g.rate(), true
		}
		if trips == steadyAfter {
			g.begin()
		} else if rate, enough := g.average(1); enough && trips > steadyAfter {
			return rate, true
		}
	}
}

// within reports whether the latest rates lie between two bounds, and cover enough bytes to tell.
func (g *gauge) within(least, most float64) bool {
	const half = averageOver / 2
	for _, rates := range [][]float64{g.rates[:half], g.rates[half:]} {
		rate := 0.0
		for _, r := range rates {
			rate += r / half
		}
		if rate < least || rate > most || rate*half*g.every.Seconds() < steadyBytes/2 {
			return false
		}
	}
	return true
}

// lasts reports whether the transfer will take that many more round trips at the present rate, and
// long enough for another login to pay off.
func (g *gauge) lasts(trips int) bool {
	left := float64(g.left()) / max(g.rate(), 1) // seconds
	return left > max(flow.StripeFor, time.Duration(trips)*g.every).Seconds()
}

func (g *gauge) left() int64 { return g.s.Size - g.s.From - g.moved }

// windows returns the rate that this many lanes' windows allow.
func (g *gauge) windows(lanes int) float64 {
	return float64(lanes) * flow.SSHWindow / g.s.Trip.Seconds()
}

// A limit is a reason why a transfer may need more connections.
type limit int

const (
	noLimit limit = iota
	windowLimits
	heldDown // by something that may apply to each connection separately
)

// await waits until something seems to limit the first connection, and returns the limit and the
// connection's rate.
//
// Over a long round trip the limit is the channel's window, over a shorter one only once the rate
// comes near it. But something else may hold a connection down: a policer, a cloud's limit per
// flow, a server that gives each connection one processor. Only a trial can tell these from a link
// that is simply full. A trial is worth a login if the transfer lasts long enough, and if it waits
// for the other end while this machine has processor time to spare.
func (a *autoscaler) await(ctx context.Context) (limit, float64) {
	s, g := a.s, a.g
	trip, worth := s.Trip, flow.WorthStriping(s.Size-s.From, s.Trip)
	if worth && trip > flow.StripeAtOnce {
		return windowLimits, 0
	}
	file, hasSpare := private.OfFile(s.first), s.Spare(trip)
	began, at, waited, last := g.at, g.at, file.Waited(), 0.0
	var held time.Duration // how long the connection has been held down without a break
	for g.wait(ctx) {
		if worth && g.rate() > oneWindowFull*g.windows(1) {
			return windowLimits, 0
		}
		rate, enough := g.average(2)
		if !enough {
			continue
		}
		took, waits := g.at.Sub(at), file.Waited()-waited
		at, waited = g.at, file.Waited()
		spare := hasSpare()
		// The rate of a transfer's first requests fluctuates. Compared with a low one, any later rate
		// would seem a gain.
		steady := rate < growing*last && last < growing*rate
		if waiting := waits.Seconds() > mostlyWaits*took.Seconds(); waiting && spare {
			held += took
		} else {
			held = 0
		}
		// Two measurements must agree: one covers only a few ticks of the system's clock. A real limit
		// holds from the beginning or for long; on a busy machine a long transfer meets two such
		// measurements by chance.
		if held > took && held > g.at.Sub(began)/heldFor && steady && a.lasts() {
			return heldDown, (rate + last) / 2
		}
		last = rate
		g.begin()
	}
	return noLimit, 0
}

// lasts reports whether more connections are allowed, and enough of the transfer is left to find
// out whether they help.
func (a *autoscaler) lasts() bool {
	_, have, most := a.pool.Stable()
	return have < most && a.g.lasts(exploreFor) && a.g.left() > 4*steadyBytes
}

// explore doubles the number of connections as long as that raises the rate, and quadruples it
// where each has its own rate. It closes connections that do not help.
func (a *autoscaler) explore(ctx context.Context, rate float64) {
	g := a.g
	for doublings := 1; a.lasts(); {
		_, have, most := a.pool.Stable()
		wanted := min(have<<doublings, most)
		if !a.widen(ctx, wanted) {
			return
		}
		before, ok := rate, false
		more := float64(wanted) / float64(have)
		// It takes less time to see that more connections help than that they do not, and the link
		// stays idle until the next ones have logged in.
		if rate, ok = g.measureUntil(ctx, func() bool {
			return g.within(independent*before*more/2, tooMuch*more*before)
		}); !ok {
			return
		}
		// The last doubling must have helped, too.
		low := rate < growing*before*max(1, more/2)
		wrong := rate > tooMuch*more*before // the rate before was not yet the full one
		switch {
		case (low || wrong) && g.lasts(testFor):
			closed, with, without := a.test(ctx)
			for again := closed; again && g.lasts(testFor); {
				again, _, _ = a.test(ctx)
			}
			if closed || with <= growing*without { // or nothing was measured
				return
			}
			rate, doublings = with, 1
		case low:
			return
		case !wrong && rate > independent*before:
			doublings = 2
		default:
			doublings = 1
		}
	}
}

// widen asks for connections, and waits until they have joined. Joining waits behind the requests
// in flight, since the first handle is asked about its file. It returns false if none has joined.
func (a *autoscaler) widen(ctx context.Context, connections int) bool {
	s, g := a.s, a.g
	a.pool.Want(connections, oneStream)
	began := s.Count()
	lanes := began
	for still := 0; still < drainsFor; still++ {
		if !g.wait(ctx) {
			return false
		}
		stable, have, _ := a.pool.Stable()
		if now := s.Count(); !stable || lanes != now {
			lanes, still = now, 0
		} else if now >= have-1 {
			return true
		}
	}
	return lanes > began
}

// byWindows asks for connections: first for as many as the window makes worthwhile, then for twice
// as many each time, while the windows limit the rate and enough is left. It also continues where
// the windows do not limit, as long as each doubling raises the rate enough: on a lossy link each
// connection has its own rate far below its window. Otherwise it closes connections that add
// nothing.
func (a *autoscaler) byWindows(ctx context.Context) {
	s, g := a.s, a.g
	wanted := flow.FirstConnections(s.Size-s.From, s.Trip)
	a.pool.Want(wanted, allStreams)
	lanes, still, base, tested := 0, 0, 0.0, false
	for g.wait(ctx) {
		stable, _, most := a.pool.Stable()
		if still++; !stable || lanes != s.Count() {
			lanes, still = s.Count(), 0
		}
		windows := g.windows(1 + lanes)
		limited := g.moved > 0 &&
			(g.rates[0] > growing*g.rates[1] || g.rates[0] > windowsFull*windows)
		switch {
		case wanted < most && g.lasts(0) && limited,
			wanted < most && g.lasts(exploreFor) && still >= judgeAfter && g.rate() > growing*base:
			base = g.rate()
			wanted *= 2
			a.pool.Want(wanted, allStreams)
		case !tested && g.lasts(testFor) && still >= judgeAfter && g.rate() < windowsFree*windows:
			closed, _, _ := a.test(ctx)
			tested = !closed
			still = 0
		}
	}
}

// test rests the younger half of the further connections, and closes them if the others keep up the
// rate. It reports whether it closed them, and the rates with and without them; 0 if not measured.
func (a *autoscaler) test(ctx context.Context) (closed bool, with, without float64) {
	s, g := a.s, a.g
	half := s.youngerHalf()
	if len(half) == 0 {
		return false, 0, 0
	}
	for again := false; ; again = true {
		var ok bool
		if with, ok = g.measure(ctx); !ok {
			return false, 0, 0
		}
		s.rest(half, true)
		for range drainsFor {
			if !g.wait(ctx) {
				return false, 0, 0
			}
			if s.idle(half) {
				break
			}
		}
		if without, ok = g.measure(ctx); !ok {
			return false, 0, 0
		}
		if without < kept*with || !s.idle(half) {
			s.rest(half, false)
			return false, with, without
		}
		// Connections that start together overflow the link's queue together, and their rate may
		// take several hundred milliseconds to recover. Fewer connections are then faster, which
		// says nothing about how many the link has room for.
		if without < recovered*with || again || !g.lasts(testFor) {
			break
		}
		s.rest(half, false)
	}
	s.leave(half)
	a.pool.Drop(half)
	return true, with, without
}

// Count returns the number of further handles.
func (s *Striper) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes)
}

// youngerHalf returns one session on each connection of the younger half, rounded up, not counting
// the first connection.
func (s *Striper) youngerHalf() []pools.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []pools.Session
	for _, l := range s.lanes {
		if !isOn(all, l) && !pools.OfPool(s.Pool).IsFirst(l.on) {
			all = append(all, l.on)
		}
	}
	return all[len(all)/2:]
}

// isOn reports whether a lane is on one of the sessions' connections.
func isOn(sessions []pools.Session, l lane) bool {
	return slices.ContainsFunc(sessions,
		func(s pools.Session) bool { return s.Shares(l.on) })
}

func (s *Striper) rest(half []pools.Session, rest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if isOn(half, l) {
			s.Rest(l.file, rest)
		}
	}
}

// idle reports whether no request is in flight on the resting connections.
func (s *Striper) idle(half []pools.Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(s.lanes, func(l lane) bool {
		return isOn(half, l) && !s.Idle(l.file)
	})
}

// leave checks and closes the resting lanes, and waits for the host's answers.
func (s *Striper) leave(half []pools.Session) {
	var left []lane
	s.mu.Lock()
	s.lanes = slices.DeleteFunc(s.lanes, func(l lane) bool {
		gone := isOn(half, l)
		if gone {
			left = append(left, l)
		}
		return gone
	})
	s.mu.Unlock()
	s.proveLanes(left, false)
	var closing sync.WaitGroup
	for _, l := range left {
		closing.Go(func() { s.close(l, false) })
	}
	closing.Wait()
}
