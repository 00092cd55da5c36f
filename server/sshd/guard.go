package sshd

import (
	"net/netip"
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

// guard remembers which addresses have failed to log in. IPv6 addresses count by their /64, the
// least that a customer has.
type guard struct {
	now func() time.Time

	mu      sync.Mutex
	records map[netip.Prefix]*record
	waiting map[netip.Prefix]int // connections that are logging in
	all     int                  // their sum
	queued  int                  // connections that wait until they may
	freed   chan struct{}        // closed when a place is given back
}

// record is what is held against an address.
type record struct {
	failures float64 // one is forgotten every forgiveness
	seen     time.Time
	banned   time.Time // until then
}

func newGuard() *guard {
	return &guard{
		now:     time.Now,
		records: map[netip.Prefix]*record{},
		waiting: map[netip.Prefix]int{},
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

// maxQueued is how many connections wait for a place to log in: they cost a descriptor and little
// else.
const maxQueued = 2000

// begin asks whether a connection from address may log in, and counts it if so; end takes it off
// again. While there are too many it waits, until the timeout: bursts pass, floods do not.
func (g *guard) begin(address netip.Addr, most, mostEach int,
	timeout time.Duration) (reason string) {
	reason, freed := g.tryBegin(address, most, mostEach)
	if freed == nil {
		return reason
	}
	g.mu.Lock()
	if g.queued >= maxQueued {
		g.mu.Unlock()
		return reason
	}
	g.queued++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.queued--
		g.mu.Unlock()
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for freed != nil {
		select {
		case <-freed:
		case <-timer.C:
			return reason
		}
		reason, freed = g.tryBegin(address, most, mostEach)
	}
	return reason
}

// tryBegin is begin without waiting. The channel, if there is one, is closed when it is worth
// another try.
func (g *guard) tryBegin(address netip.Addr, most,
	mostEach int) (reason string, freed chan struct{}) {
	key := network(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.records[key]; r != nil && g.now().Before(r.banned) {
		return "the address is banned", nil
	}
	if g.all >= most {
		return "too many connections are logging in", g.freed
	}
	if g.waiting[key] >= mostEach {
		return "too many connections from the address are logging in", g.freed
	}
	g.all++
	g.waiting[key]++
	return "", nil
}

func (g *guard) end(address netip.Addr) {
	key := network(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.waiting[key]--; g.waiting[key] == 0 {
		delete(g.waiting, key)
	}
	close(g.freed)
	g.freed = make(chan struct{})
}

// failed notes a failed login and returns how long its answer should wait, and for how long the
// address is banned now.
func (g *guard) failed(address netip.Addr) (delay, ban time.Duration) {
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
	r.failures++
	delay = longestDelay
	if doubled := int(r.failures) - 1; doubled < 10 {
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
	for key := range g.records {
		if len(g.records) < guardMost {
			break
		}
		delete(g.records, key)
	}
}
