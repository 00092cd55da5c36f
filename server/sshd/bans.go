package sshd

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Bans keeps out networks whose logins fail too often: an IPv4 address, or an IPv6 /64, the least
// that a customer has. Several servers may share one. It is safe for concurrent use.
type Bans interface {
	// Banned reports whether a network is kept out now. It is asked for each connection while
	// others wait, so it must answer from memory.
	Banned(network netip.Prefix) bool

	// Failed counts a failed login, which weighs 1, or a part of that for a connection that did not
	// try. It returns how long to delay the answer to the client and, if the network is banned from
	// now on, for how long. The client waits for it; if the server ends, ctx does.
	Failed(ctx context.Context, network netip.Prefix, weight float64) (delay, ban time.Duration)
}

const (
	// freeFailures is how many logins an address may fail at before it is banned; until then
	// answers are only delayed.
	freeFailures = 10

	// firstBan is how long an address is banned after that; each further failure doubles it, up to
	// longestBan.
	firstBan   = time.Minute
	longestBan = time.Hour

	// firstDelay delays the answer to the first wrong password; each further one doubles it, up to
	// longestDelay.
	firstDelay   = 100 * time.Millisecond
	longestDelay = 5 * time.Second

	// guardMost limits how many addresses are remembered.
	guardMost = 20_000
)

// Forgiveness is how long it takes for one failed login to be forgotten.
const Forgiveness = 2 * time.Minute

// Penalty returns what a [Bans] answers for failed logins that together weigh so much.
func Penalty(failures float64) (delay, ban time.Duration) {
	delay = longestDelay
	if doubled := max(int(failures)-1, 0); doubled < 10 {
		delay = min(firstDelay<<doubled, longestDelay)
	}
	if over := int(failures) - freeFailures; over > 0 {
		ban = longestBan
		if over < 10 {
			ban = min(firstBan<<(over-1), longestBan)
		}
	}
	return delay, ban
}

// What a failed login counts for.
const (
	wrongLogin = 1.0 // a wrong password, or a connection none of whose keys were accepted
	timedOut   = 1.0 // a connection that kept its place until the timeout

	// noLogin is for a connection that ended without trying to log in: a scanner, or a monitor that
	// may come every few seconds forever.
	noLogin = 1.0 / 50
)

// BanList is a Bans in the memory of one server.
type BanList struct {
	now func() time.Time

	mu      sync.Mutex
	records map[netip.Prefix]*record
}

// NewBanList returns an empty list.
func NewBanList() *BanList {
	return &BanList{now: time.Now, records: map[netip.Prefix]*record{}}
}

// record is what is held against a network.
type record struct {
	failures float64 // one is forgotten per Forgiveness
	seen     time.Time
	banned   time.Time // end of the ban
}

// Banned implements [Bans].
func (b *BanList) Banned(network netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.records[network]
	return r != nil && b.now().Before(r.banned)
}

// Failed implements [Bans].
func (b *BanList) Failed(_ context.Context, network netip.Prefix,
	weight float64) (delay, ban time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	r := b.records[network]
	if r == nil {
		b.makeRoom(now)
		r = &record{}
		b.records[network] = r
	}
	r.forget(now)
	r.failures += weight
	if delay, ban = Penalty(r.failures); ban > 0 {
		r.banned = now.Add(ban)
	}
	return delay, ban
}

func (r *record) forget(now time.Time) {
	r.failures = max(0, r.failures-now.Sub(r.seen).Seconds()/Forgiveness.Seconds())
	r.seen = now
}

// makeRoom drops records without effect, and then arbitrary ones: an attacker with that many
// addresses cannot be kept out by address, and must not fill the memory.
func (b *BanList) makeRoom(now time.Time) {
	if len(b.records) < guardMost {
		return
	}
	for key, r := range b.records {
		if r.forget(now); r.failures < 1 && !now.Before(r.banned) {
			delete(b.records, key)
		}
	}
	for key := range b.records { // drop a tenth at once, since scanning all of them is slow
		if len(b.records) <= guardMost*9/10 {
			break
		}
		delete(b.records, key)
	}
}
