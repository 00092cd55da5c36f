package sshd

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// freeFailures are how many logins an address may fail at without consequences beyond a delay.
	freeFailures = 10

	// firstBan is how long an address is shut out after that; each further failure doubles it, up
	// to longestBan.
	firstBan   = time.Minute
	longestBan = time.Hour

	// forgiveness is how long it takes until a failure is forgotten.
	forgiveness = 2 * time.Minute

	// firstDelay is how long the first failed password waits for its answer; each further one
	// doubles it, up to longestDelay.
	firstDelay   = 100 * time.Millisecond
	longestDelay = 5 * time.Second

	// guardMost is how many addresses are remembered.
	guardMost = 20_000
)

// What a login that fails counts for.
const (
	wrongLogin = 1.0 // a wrong password, a connection whose keys were all without success
	timedOut   = 1.0 // a connection that kept a place until its time was over

	// noLogin is a connection that ended without having tried to log in: a scanner, or a monitor,
	// which may come every few seconds for ever.
	noLogin = 1.0 / 50
)

// guard remembers which addresses have failed to log in, and bounds the connections that are
// logging in. IPv6 addresses count by their /64, the least that a customer has.
type guard struct {
	now  func() time.Time
	draw func(n int) int // a random number below n

	mu      sync.Mutex
	records map[netip.Prefix]*record
	known   map[netip.Prefix]struct{} // those that have logged in
	places  map[netip.Prefix][]*place // of connections that are logging in
	taken   [2]int                    // places of strangers, and of known addresses
	queued  map[netip.Prefix]int      // connections that wait until they may
	waiting int                       // their sum
	freed   chan struct{}             // closed when a place is given back
}

// record is what is held against an address.
type record struct {
	failures float64 // one is forgotten every forgiveness
	seen     time.Time
	banned   time.Time // until then
}

// place is what a connection has while it is logging in.
type place struct {
	network netip.Prefix
	since   time.Time
	known   int  // whether the address is known: 0 or 1
	queued  bool // whether the connection waits for it
	drop    func()
	dropped bool
}

// loginLimits bound the connections that are logging in. Start, rate and full are those of sshd's
// MaxStartups.
type loginLimits struct {
	start   int           // strangers up to which nobody is dropped
	rate    int           // percent of newcomers that have somebody dropped from there on
	full    int           // strangers at most, where every newcomer has somebody dropped
	known   int           // places that known addresses have besides
	each    int           // those of one address at most
	stale   time.Duration // how long a place is safe
	timeout time.Duration // how long to wait for a place
}

func newGuard() *guard {
	return &guard{
		now:     time.Now,
		draw:    rand.IntN,
		records: map[netip.Prefix]*record{},
		known:   map[netip.Prefix]struct{}{},
		places:  map[netip.Prefix][]*place{},
		queued:  map[netip.Prefix]int{},
		freed:   make(chan struct{}),
	}
}

// network is what an address counts as.
func network(address netip.Addr) netip.Prefix {
	address = address.Unmap()
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.WithZone("").Prefix(bits)
	return prefix
}

// How many connections wait for a place to log in, and how many of one address: they cost a
// descriptor and little else.
const (
	maxQueued     = 2000
	maxQueuedEach = 100
)

// begin asks for a place to log in for a connection from address, which drop closes; end gives it
// back. Where there is none it waits, until the timeout.
//
// Honest bursts pass: a login takes a moment, and gives its place to one that waits. Silent
// connections do not keep others out: from limits.start strangers on, a newcomer takes the place of
// one that has had it for long, the more often the more there are. It is one of the address that
// has most of them and no fewer than the newcomer's, so that whoever opens many loses its own.
func (g *guard) begin(address netip.Addr, limits *loginLimits, drop func()) (*place, string) {
	p := &place{network: network(address), drop: drop}
	reason, freed := g.tryBegin(p, limits)
	if freed == nil || !g.queue(p.network, 1) {
		return p, reason
	}
	p.queued = true
	defer g.queue(p.network, -1)
	timer := time.NewTimer(limits.timeout)
	defer timer.Stop()
	for freed != nil {
		again := time.NewTimer(limits.stale / 4) // when somebody may have had a place for long
		select {
		case <-freed:
		case <-again.C:
		case <-timer.C:
			again.Stop()
			return p, reason
		}
		again.Stop()
		reason, freed = g.tryBegin(p, limits)
	}
	return p, reason
}

// queue counts a connection that waits; false means that too many do.
func (g *guard) queue(network netip.Prefix, n int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n > 0 && (g.waiting >= maxQueued || g.queued[network] >= maxQueuedEach) {
		return false
	}
	g.waiting += n
	if g.queued[network] += n; g.queued[network] == 0 {
		delete(g.queued, network)
	}
	return true
}

// tryBegin is begin without waiting. The channel, if there is one, is closed when it is worth
// another try.
func (g *guard) tryBegin(p *place, limits *loginLimits) (reason string, freed chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.records[p.network]; r != nil && g.now().Before(r.banned) {
		return "the address is banned", nil
	}
	if len(g.places[p.network]) >= limits.each {
		return "too many connections from the address are logging in", g.freed
	}
	if _, known := g.known[p.network]; known {
		p.known = 1
	}
	full := g.taken[0] >= limits.full
	if p.known == 1 {
		full = g.taken[0]+g.taken[1] >= limits.full && g.taken[1] >= limits.known
	}
	if full || p.known == 0 && g.drops(limits) {
		if victim := g.stale(p, limits.stale); victim != nil {
			victim.dropped = true
			g.remove(victim)
			victim.drop()
		} else if full {
			return "too many connections are logging in", g.freed
		}
	}
	p.since = g.now()
	g.places[p.network] = append(g.places[p.network], p)
	g.taken[p.known]++
	return "", nil
}

// drops decides whether a newcomer has somebody dropped: never below start, with the probability
// rate there, and always when it is full, as sshd's should_drop_connection has it.
func (g *guard) drops(limits *loginLimits) bool {
	over, room := g.taken[0]-limits.start, limits.full-limits.start
	if over < 0 || room <= 0 {
		return false
	}
	return g.draw(100) < limits.rate+(100-limits.rate)*over/room
}

// stale returns one of the strangers that have had a place for at least so long, of an address with
// most connections, those that wait among them; nil if there is none. Many do not push out few, and
// as many only who has been there three times as long.
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

// remove takes a place back; the caller holds the lock.
func (g *guard) remove(p *place) {
	rest := slices.DeleteFunc(g.places[p.network], func(q *place) bool { return q == p })
	if g.places[p.network] = rest; len(rest) == 0 {
		delete(g.places, p.network)
	}
	g.taken[p.known]--
}

// end gives a place back, and reports whether it had been given to somebody else.
func (g *guard) end(p *place) (dropped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !p.dropped {
		g.remove(p)
	}
	close(g.freed)
	g.freed = make(chan struct{})
	return p.dropped
}

// loggedIn notes that somebody has logged in from an address.
func (g *guard) loggedIn(address netip.Addr) {
	key := network(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	for any := range g.known {
		if len(g.known) < guardMost {
			break
		}
		delete(g.known, any)
	}
	g.known[key] = struct{}{}
}

// failed notes a failed login, which counts for so much, and returns how long its answer should
// wait, and for how long the address is banned now.
func (g *guard) failed(address netip.Addr, weight float64) (delay, ban time.Duration) {
	key := network(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	r := g.records[key]
	if r == nil {
		g.makeRoom(now)
		r = &record{}
		g.records[key] = r
	}
	r.forget(now)
	r.failures += weight
	delay = longestDelay
	if doubled := max(int(r.failures)-1, 0); doubled < 10 {
		delay = min(firstDelay<<doubled, longestDelay)
	}
	if over := int(r.failures) - freeFailures; over > 0 {
		ban = longestBan
		if over < 10 {
			ban = min(firstBan<<(over-1), longestBan)
		}
		r.banned = now.Add(ban)
	}
	return delay, ban
}

func (r *record) forget(now time.Time) {
	r.failures = max(0, r.failures-now.Sub(r.seen).Seconds()/forgiveness.Seconds())
	r.seen = now
}

// makeRoom drops records that say nothing any more, or else any: an attacker with so many addresses
// cannot be kept out by address, and must not fill the memory.
func (g *guard) makeRoom(now time.Time) {
	if len(g.records) < guardMost {
		return
	}
	for key, r := range g.records {
		if r.forget(now); r.failures < 1 && !now.Before(r.banned) {
			delete(g.records, key)
		}
	}
	for key := range g.records { // a tenth, as to look through all of them costs time
		if len(g.records) <= guardMost*9/10 {
			break
		}
		delete(g.records, key)
	}
}
