package sshd

import (
	"container/list"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// guard limits the connections that are logging in, and refuses banned ones. IPv6 addresses count
// by their /64, the least that a customer has.
type guard struct {
	now  func() time.Time
	draw func(n int) int // a random number below n
	bans Bans

	mu     sync.Mutex
	known  map[netip.Prefix]struct{} // networks that have logged in
	places map[netip.Prefix][]*place // held by connections that are logging in
	taken  [2]int                    // places held by strangers, and by known addresses
	queue  list.List                 // of *waiter: connections that wait for a place
	queued map[netip.Prefix]int      // number of them
}

// place is held by a connection while it is logging in.
type place struct {
	network netip.Prefix
	since   time.Time
	known   int  // 1 if the address is known, otherwise 0
	queued  bool // the connection is waiting for the place
	drop    func()
	dropped bool
}

// waiter is a connection that waits for a place.
type waiter struct {
	*place
	limits   *loginLimits
	admitted chan struct{} // closed when it has the place
}

// loginLimits limit the connections that are logging in. start, rate and full are the numbers of
// sshd's MaxStartups.
type loginLimits struct {
	start   int           // up to this many strangers, nobody is dropped
	rate    int           // from there on, percentage of newcomers that displace another
	full    int           // maximum of strangers; then every newcomer displaces another
	known   int           // additional places for known addresses
	each    int           // maximum per address
	stale   time.Duration // time for which a place is safe
	timeout time.Duration // maximum time to wait for a place
	safe    bool          // the address is never banned
}

func newGuard(bans Bans) *guard {
	return &guard{
		now:    time.Now,
		draw:   rand.IntN,
		bans:   bans,
		known:  map[netip.Prefix]struct{}{},
		places: map[netip.Prefix][]*place{},
		queued: map[netip.Prefix]int{},
	}
}

// Network returns the prefix by which an address is counted.
func Network(address netip.Addr) netip.Prefix {
	address = address.Unmap()
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.WithZone("").Prefix(bits)
	return prefix
}

// Maximum numbers of connections that wait for a place to log in, in total and per address. Each
// costs a descriptor and little else.
const (
	maxQueued     = 2000
	maxQueuedEach = 100
)

// begin requests a place to log in for a connection from address; drop closes the connection. end
// returns the place. If there is no place, begin waits until the timeout.
//
// Honest bursts get through: a login takes a moment, and then passes its place on. Silent
// connections do not keep others out: from limits.start strangers on, a newcomer may displace a
// connection that has held its place for long, with a probability that grows with the number of
// strangers. The victim belongs to the address with the most connections, if these are no fewer
// than the newcomer's, so that attackers who open many lose their own.
func (g *guard) begin(address netip.Addr, limits *loginLimits, drop func()) (*place, string) {
	p := &place{network: Network(address), drop: drop}
	g.mu.Lock()
	reason, wait := g.tryBegin(p, limits)
	if !wait || g.queue.Len() >= maxQueued || g.queued[p.network] >= maxQueuedEach {
		g.mu.Unlock()
		return p, reason
	}
	p.queued = true
	w := &waiter{p, limits, make(chan struct{})}
	element := g.queue.PushBack(w)
	g.queued[p.network]++
	g.mu.Unlock()
	timeout := time.NewTimer(limits.timeout)
	defer timeout.Stop()
	// By then a place may no longer be safe.
	again := time.NewTicker(max(limits.stale/4, time.Millisecond))
	defer again.Stop()
	for {
		last := false
		select {
		case <-w.admitted:
			return p, ""
		case <-again.C:
		case <-timeout.C:
			last = true
		}
		if reason, wait := g.tryAgain(w, element, last); !wait {
			return p, reason
		}
	}
}

// tryAgain tries to begin for a waiter, which leaves the queue unless it must wait on.
func (g *guard) tryAgain(w *waiter, element *list.Element, last bool) (reason string, wait bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.admitted:
		return "", false
	default:
	}
	if reason, wait = g.tryBegin(w.place, w.limits); last || !wait {
		g.leaveQueue(element)
		wait = false
	}
	return reason, wait
}

// leaveQueue removes a waiter. The caller holds the lock.
func (g *guard) leaveQueue(element *list.Element) {
	network := g.queue.Remove(element).(*waiter).network
	if g.queued[network]--; g.queued[network] == 0 {
		delete(g.queued, network)
	}
}

// admit hands a returned place to the first waiter that may have it. Waking all of them for each
// place would be slow: 9.7 ms for 2000. The caller holds the lock.
func (g *guard) admit() {
	for element := g.queue.Front(); element != nil; element = element.Next() {
		w := element.Value.(*waiter)
		if g.refusal(w.place, w.limits) == "" {
			g.leaveQueue(element)
			g.take(w.place)
			close(w.admitted)
			return
		}
	}
}

// refusal returns the reason why a connection cannot have a place without displacing another, or
// "". The caller holds the lock.
func (g *guard) refusal(p *place, limits *loginLimits) string {
	if !limits.safe && g.bans.Banned(Source{Network: p.network}) {
		return errBanned
	}
	if len(g.places[p.network]) >= limits.each {
		return "too many connections from the address are logging in"
	}
	p.known = 0
	if _, known := g.known[p.network]; known {
		p.known = 1
	}
	full := g.taken[0] >= limits.full
	if p.known == 1 {
		full = g.taken[0]+g.taken[1] >= limits.full && g.taken[1] >= limits.known
	}
	if full {
		return errFull
	}
	return ""
}

const (
	errBanned = "the address is banned"
	errFull   = "too many connections are logging in"
)

// take gives a connection a place. The caller holds the lock.
func (g *guard) take(p *place) {
	p.since = g.now()
	g.places[p.network] = append(g.places[p.network], p)
	g.taken[p.known]++
}

// tryBegin gives a connection a place, or returns the reason why not, and whether to wait for one.
// The caller holds the lock.
func (g *guard) tryBegin(p *place, limits *loginLimits) (reason string, wait bool) {
	reason = g.refusal(p, limits)
	if reason != "" && reason != errFull {
		return reason, reason != errBanned
	}
	if reason == errFull || p.known == 0 && g.drops(limits) {
		if victim := g.stale(p, limits.stale); victim != nil {
			victim.dropped = true
			g.remove(victim)
			victim.drop()
		} else if reason == errFull {
			return reason, true
		}
	}
	g.take(p)
	return "", false
}

// drops decides whether a newcomer displaces another connection: never below start, with
// probability rate there, and always when full, like sshd's should_drop_connection.
func (g *guard) drops(limits *loginLimits) bool {
	over, room := g.taken[0]-limits.start, limits.full-limits.start
	if over < 0 || room <= 0 {
		return false
	}
	return g.draw(100) < limits.rate+(100-limits.rate)*over/room
}

// stale returns a random stranger's place that has been held for at least age, of an address with
// the most connections, waiting ones included; nil if none is. An address with more connections
// than the victim's never displaces it, one with equally many only after three times age.
func (g *guard) stale(newcomer *place, age time.Duration) *place {
	demand := func(network netip.Prefix) int { return len(g.places[network]) + g.queued[network] }
	own := demand(newcomer.network)
	if !newcomer.queued {
		own++
	}
	now := g.now()
	var candidates []*place
	most := own
	for network, places := range g.places {
		count := demand(network)
		if count < most {
			continue
		}
		for _, p := range places {
			held := now.Sub(p.since)
			if p.known == 1 || held < age || count == own && held < 3*age {
				continue
			}
			if count > most {
				most, candidates = count, nil
			}
			candidates = append(candidates, p)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return candidates[g.draw(len(candidates))]
}

// remove takes a place back. The caller holds the lock.
func (g *guard) remove(p *place) {
	rest := slices.DeleteFunc(g.places[p.network], func(q *place) bool { return q == p })
	if g.places[p.network] = rest; len(rest) == 0 {
		delete(g.places, p.network)
	}
	g.taken[p.known]--
}

// end returns a place, and reports whether another connection has displaced this one.
func (g *guard) end(p *place) (dropped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !p.dropped {
		g.remove(p)
		g.admit()
	}
	return p.dropped
}

// loggedIn records a successful login from an address.
func (g *guard) loggedIn(address netip.Addr) {
	key := Network(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	for other := range g.known {
		if len(g.known) < guardMost {
			break
		}
		delete(g.known, other)
	}
	g.known[key] = struct{}{}
}
