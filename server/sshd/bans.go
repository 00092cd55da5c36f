package sshd

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bans keeps out networks whose logins fail too often: an IPv4 address, or an IPv6 /64, the least
// that a customer has. Within a network, a user with too many failures is banned first. Several
// servers may share one. It is safe for concurrent use.
type Bans interface {
	// Banned reports whether a source is kept out now; it need not report a user whose network is.
	// It is called for each connection while others wait, so it must answer from memory.
	Banned(source Source) bool

	// Failed counts a failed login, which weighs 1, or less for a connection that did not try. By
	// the rules, it returns the delay of the answer to the client and, if the source is banned from
	// now on, the length of the ban. The client waits for it; if the server ends, ctx does.
	Failed(ctx context.Context, source Source, weight float64, rules *BanRules) (delay,
		ban time.Duration)
}

// A Source is the origin of logins: a network, and the user that they name. Without a user it
// stands for the network and any user.
type Source struct {
	Network netip.Prefix
	User    string
}

// longestName limits the user names that are counted with a network; logins with longer ones count
// against the network alone.
const longestName = 128

// String returns the source as a text for [ParseSource].
func (s Source) String() string {
	if s.User == "" {
		return s.Network.String()
	}
	return s.Network.String() + " " + strconv.QuoteToASCII(s.User)
}

// ParseSource parses String's result.
func ParseSource(text string) (s Source, err error) {
	network, user, named := strings.Cut(text, " ")
	if s.Network, err = netip.ParsePrefix(network); err == nil && named {
		s.User, err = strconv.Unquote(user)
	}
	return s, err
}

// BanRules decide when a source is banned, and for how long. Fields that are 0 have their defaults.
type BanRules struct {
	// UserFailures is the number of logins as one user from one address that may fail before
	// passwords of this user from there are refused: 10 by default. Keys are still accepted.
	UserFailures int

	// AddressFailures is the number of logins from one address that may fail, as any users, before
	// the address is banned: 50 by default.
	AddressFailures int

	// First is the length of the first ban, a minute by default. Each further failure doubles it,
	// up to Longest, which is an hour by default.
	First, Longest time.Duration

	// Forget is the time after which one failed login is forgotten: 2 minutes by default.
	Forget time.Duration
}

// WithDefaults returns the rules with defaults for fields that are 0, as [Bans] get them.
func (r BanRules) WithDefaults() BanRules {
	setDefault(&r.UserFailures, 10)
	setDefault(&r.AddressFailures, 50)
	setDefault(&r.First, time.Minute)
	setDefault(&r.Longest, max(time.Hour, r.First))
	setDefault(&r.Forget, 2*time.Minute)
	return r
}

const (
	// firstDelay delays the answer to the first wrong password; each further one doubles it, up to
	// longestDelay.
	firstDelay   = 100 * time.Millisecond
	longestDelay = 5 * time.Second

	// guardMost limits the sources that are remembered.
	guardMost = 20_000
)

// Penalty returns a [Bans]'s answer to failed logins with this total weight.
func (r *BanRules) Penalty(source Source, failures float64) (delay, ban time.Duration) {
	delay = longestDelay
	if doubled := max(int(failures)-1, 0); doubled < 10 {
		delay = min(firstDelay<<doubled, longestDelay)
	}
	free := r.AddressFailures
	if source.User != "" {
		free = r.UserFailures
	}
	// Forgetting during an attack must not add guesses.
	over := int(failures+0.5) - free
	if over < 0 {
		return delay, 0
	}
	ban = r.First
	for ; over > 0 && ban < r.Longest; over-- {
		ban *= 2
	}
	return delay, min(ban, r.Longest)
}

// Weights of a failed login.
const (
	wrongLogin = 1.0 // a wrong password, or a connection none of whose keys were accepted
	timedOut   = 1.0 // a connection that kept its place until the timeout

	// noLogin counts a connection that ended without trying to log in: a scanner, or a monitor that
	// may come every few seconds forever.
	noLogin = 1.0 / 50
)

// BanList is a Bans in the memory of one server.
type BanList struct {
	now func() time.Time

	mu      sync.Mutex
	records map[Source]*record
}

// NewBanList returns an empty list.
func NewBanList() *BanList {
	return &BanList{now: time.Now, records: map[Source]*record{}}
}

// record holds the failures of a source.
type record struct {
	failures float64 // one is forgotten per forget
	forget   time.Duration
	seen     time.Time
	banned   time.Time // end of the ban
}

// Banned implements [Bans].
func (b *BanList) Banned(source Source) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.records[source]
	return r != nil && b.now().Before(r.banned)
}

// Failed implements [Bans].
func (b *BanList) Failed(_ context.Context, source Source, weight float64,
	rules *BanRules) (delay, ban time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	r := b.records[source]
	if r == nil {
		b.makeRoom(now)
		r = &record{}
		b.records[source] = r
	}
	r.forget = rules.Forget
	r.age(now)
	r.failures += weight
	if delay, ban = rules.Penalty(source, r.failures); ban > 0 {
		r.banned = now.Add(ban)
	}
	return delay, ban
}

// age forgets old failures.
func (r *record) age(now time.Time) {
	r.failures = max(0, r.failures-now.Sub(r.seen).Seconds()/r.forget.Seconds())
	r.seen = now
}

// makeRoom drops records without effect, and then arbitrary ones: an attacker with that many
// addresses cannot be banned by address, and must not fill the memory.
func (b *BanList) makeRoom(now time.Time) {
	if len(b.records) < guardMost {
		return
	}
	for key, r := range b.records {
		if r.age(now); r.failures < 1 && !now.Before(r.banned) {
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
