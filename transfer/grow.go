package transfer

import (
	"context"
	"slices"
	"sync"
	"time"
)

// How a striped transfer finds out how many connections it should have. All times are in round
// trips, but no less than gaugeEvery each.
const (
	gaugeEvery = 20 * time.Millisecond

	settleFor = 8 // until the rate of what has joined can be judged: TCP begins slowly
	// how long a transfer must still last for more connections to be tried out: a login, and twice
	// TCP's slow start
	exploreFor  = 30
	testFor     = 60 // and for it to be found out whether some add nothing
	testTakes   = 10 // how long that takes, once nothing is in flight on those that rest
	drainsFor   = 80 // how long that may take
	averageOver = 4

	growing = 1.25 // the rate grows, or has grown, by what was done
	near    = 0.5  // of a window a round trip for each lane: the windows bound the rate
	few     = 0.25 // of the same: they do not, and it may be that fewer would do
	same    = 0.9  // a rate that fewer connections have kept up
)

// gauge measures the rate of a transfer, once a round trip.
type gauge struct {
	every time.Duration
	last  int64
	rates [averageOver]float64 // bytes a second; the newest first
}

func (g *gauge) take(moved int64) {
	copy(g.rates[1:], g.rates[:averageOver-1])
	g.rates[0] = float64(moved-g.last) / g.every.Seconds()
	g.last = moved
}

func (g *gauge) rate() (sum float64) {
	for _, r := range g.rates {
		sum += r
	}
	return sum / averageOver
}

// binding is the part of a window a round trip at which one lane by itself is taken to be bound by
// it.
const binding = 0.8

// windowBinds waits until the window is what bounds the rate of the first lane, over a round trip
// so short that it may well not be.
func (s *striper) windowBinds(ctx context.Context) bool {
	if s.trip > stripeAtOnce {
		return true
	}
	g := gauge{every: max(s.trip, gaugeEvery)}
	ticker := time.NewTicker(g.every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
		if g.take(s.stripes.Moved()); g.rate() > binding*sshWindow/s.trip.Seconds() {
			return true
		}
	}
}

// grow asks for connections: at once for as many as the window makes worth it, then for twice as
// many each time, while the windows bound the rate and enough is left, and also where they do not,
// as long as each doubling has raised the rate by as much as to be worth it: on a link that loses
// packets each connection has a rate of its own far below its window. Where neither is so, those
// that add nothing are given back.
func (s *striper) grow(ctx context.Context) {
	pool := s.pool
	wanted := firstWanted(s.size-s.from, s.trip)
	pool.want(wanted)
	g := gauge{every: max(s.trip, gaugeEvery)}
	ticker := time.NewTicker(g.every)
	defer ticker.Stop()
	lanes, still, base, tested := 0, 0, 0.0, false
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		g.take(s.stripes.Moved())
		settled, most := pool.settled()
		if still++; !settled || lanes != s.count() {
			lanes, still = s.count(), 0
		}
		windows := float64(1+lanes) * sshWindow / s.trip.Seconds()
		left := float64(s.size-s.from-g.last) / max(g.rate(), 1) // seconds
		lasts := func(trips int) bool {
			return left > max(stripeFor,
				time.Duration(trips)*g.every).Seconds()
		}
		bound := g.last > 0 && (g.rates[0] > growing*g.rates[1] || g.rates[0] > near*windows)
		switch {
		case wanted < most && lasts(0) && bound,
			wanted < most && lasts(exploreFor) && still >= settleFor && g.rate() > growing*base:
			base = g.rate()
			wanted *= 2
			pool.want(wanted)
		case !tested && lasts(testFor) && still >= settleFor && g.rate() < few*windows:
			tested = !s.test(ctx, &g, ticker.C)
			still = 0
		}
	}
}

// test has the younger half of the further connections rest, and gives them back where the others
// keep up the rate. It returns whether they did.
func (s *striper) test(ctx context.Context, g *gauge, tick <-chan time.Time) bool {
	half := s.youngerHalf()
	if len(half) == 0 {
		return false
	}
	before := g.rate()
	s.rest(half, true)
	for drains, takes := 0, 0; takes < testTakes && drains < drainsFor; {
		select {
		case <-tick:
		case <-ctx.Done():
			return false
		}
		g.take(s.stripes.Moved())
		if takes > 0 || s.idle(half) {
			takes++
		} else {
			drains++
		}
	}
	if g.rate() < same*before || !s.idle(half) {
		s.rest(half, false)
		return false
	}
	s.leave(half)
	s.pool.giveBack(half)
	return true
}

func (s *striper) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes)
}

// youngerHalf returns half of the connections, rounded up, that take part besides the first.
func (s *striper) youngerHalf() []*pooled {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*pooled
	for _, lane := range s.lanes {
		if !slices.Contains(all, lane.on) && !s.pool.isFirst(lane.on) {
			all = append(all, lane.on)
		}
	}
	return all[len(all)/2:]
}

func (s *striper) rest(conns []*pooled, rest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lane := range s.lanes {
		if slices.Contains(conns, lane.on) {
			s.stripes.Rest(lane.file, rest)
		}
	}
}

// idle tells whether nothing is in flight on connections that rest.
func (s *striper) idle(conns []*pooled) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(s.lanes, func(lane stripeLane) bool {
		return slices.Contains(conns, lane.on) && !s.stripes.Idle(lane.file)
	})
}

// leave closes what rests, and waits for what the host has to say about it.
func (s *striper) leave(conns []*pooled) {
	var left []stripeLane
	s.mu.Lock()
	s.lanes = slices.DeleteFunc(s.lanes, func(lane stripeLane) bool {
		gone := slices.Contains(conns, lane.on)
		if gone {
			left = append(left, lane)
		}
		return gone
	})
	s.mu.Unlock()
	s.proveLanes(left, false)
	var closing sync.WaitGroup
	for _, lane := range left {
		closing.Go(func() { s.close(lane) })
	}
	closing.Wait()
}
