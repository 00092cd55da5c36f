package store

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/usftp/usftp/server/sshd"
)

// Bans is the [sshd.Bans] of all nodes. While the store is down it remembers the bans that it knows
// of, and counts failures by itself.
type Bans struct {
	store *Store

	mu    sync.Mutex
	until map[netip.Prefix]time.Time
	alone *sshd.BanList // while the store is down
}

var _ sshd.Bans = (*Bans)(nil)

// mostBans is how many bans a node remembers, and mostFailures how many networks the store does: an
// attacker who has more cannot be kept out by address, and must not fill the memory or the disk.
const (
	mostBans     = 20_000
	mostFailures = 100_000
)

func newBans(s *Store) *Bans {
	return &Bans{store: s, until: map[netip.Prefix]time.Time{}, alone: sshd.NewBanList()}
}

// Bans returns the bans of the store.
func (s *Store) Bans() *Bans { return s.bans }

// Banned implements [sshd.Bans].
func (b *Bans) Banned(network netip.Prefix) bool {
	b.mu.Lock()
	until, alone := b.until[network], b.alone
	b.mu.Unlock()
	return time.Now().Before(until) || alone.Banned(network)
}

// Failed implements [sshd.Bans].
func (b *Bans) Failed(ctx context.Context, network netip.Prefix,
	weight float64) (delay, ban time.Duration) {
	err := b.store.do(ctx, func(t tx) error {
		var failures float64
		if _, err := t.one(`INSERT INTO bans (network, failures, seen, until)
			VALUES ($1, $2, @now, 0)
			ON CONFLICT (network) DO UPDATE SET seen = @now, failures = $2 +
				CASE WHEN bans.failures > (@now - bans.seen) / CAST($3 AS DOUBLE PRECISION)
				THEN bans.failures - (@now - bans.seen) / CAST($3 AS DOUBLE PRECISION) ELSE 0 END
			RETURNING failures`,
			[]any{network.String(), weight, float64(sshd.Forgiveness.Milliseconds())},
			&failures); err != nil {
			return err
		}
		delay, ban = sshd.Penalty(failures)
		if ban == 0 {
			return nil
		}
		return setBan(t, network, ban)
	})
	if err != nil {
		b.mu.Lock()
		alone := b.alone
		b.mu.Unlock()
		return alone.Failed(ctx, network, weight)
	}
	if ban > 0 {
		b.set(network, ban)
	}
	return delay, ban
}

func setBan(t tx, network netip.Prefix, ban time.Duration) error {
	ms := ban.Milliseconds()
	if _, err := t.exec(`INSERT INTO bans (network, failures, seen, until)
		VALUES ($1, 0, @now, @now + $2)
		ON CONFLICT (network) DO UPDATE SET until = @now + $2`, network.String(), ms); err != nil {
		return err
	}
	return t.notify(fmt.Sprintf("%s %d", network, ms))
}

// set bans a network on this node, or lifts its ban.
func (b *Bans) set(network netip.Prefix, ban time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ban <= 0 {
		delete(b.until, network)
	} else if _, known := b.until[network]; known || len(b.until) < mostBans {
		b.until[network] = time.Now().Add(ban)
	}
}

// A Ban is a network that is kept out.
type Ban struct {
	Network netip.Prefix
	Left    time.Duration
}

func listBans(t tx) (list []Ban, err error) {
	var text string
	var ms int64
	err = t.each(`SELECT network, until - @now FROM bans WHERE until > @now
		ORDER BY until DESC LIMIT $1`, []any{mostBans}, []any{&text, &ms}, func() {
		if network, err := netip.ParsePrefix(text); err == nil {
			list = append(list, Ban{network, time.Duration(ms) * time.Millisecond})
		}
	})
	return list, err
}

// List lists the bans, the longest first.
func (b *Bans) List(ctx context.Context) (list []Ban, err error) {
	err = b.store.do(ctx, func(t tx) (err error) {
		list, err = listBans(t)
		return err
	})
	return list, err
}

// Add bans a network on all nodes.
func (b *Bans) Add(ctx context.Context, network netip.Prefix, ban time.Duration) error {
	err := b.store.do(ctx, func(t tx) error { return setBan(t, network, ban) })
	if err == nil {
		b.set(network, ban)
	}
	return err
}

// Lift lifts the ban of a network and forgets its failures. It reports whether it was banned.
func (b *Bans) Lift(ctx context.Context, network netip.Prefix) (banned bool, err error) {
	err = b.store.do(ctx, func(t tx) error {
		rows, err := t.exec(`DELETE FROM bans WHERE network = $1 AND until > @now`,
			network.String())
		if banned = rows > 0; err != nil {
			return err
		}
		return t.notify(network.String() + " 0")
	})
	if err == nil {
		b.set(network, 0)
	}
	return banned, err
}

// look asks the store for the bans.
func (b *Bans) look(ctx context.Context) {
	b.store.do(ctx, b.read)
}

// refresh is look for a store that was down. What this node has counted meanwhile is forgotten:
// the bans of the store can be lifted, those cannot.
func (b *Bans) refresh(ctx context.Context) error {
	err := b.store.db.do(ctx, b.read)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.alone = sshd.NewBanList()
	}
	return err
}

func (b *Bans) read(t tx) error {
	list, err := listBans(t)
	if err != nil {
		return err
	}
	until, now := make(map[netip.Prefix]time.Time, len(list)), time.Now()
	for _, one := range list {
		until[one.Network] = now.Add(one.Left)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = until
	return nil
}

// cleanBans forgets what no longer has an effect, and the oldest of what is too much.
func cleanBans(t tx) error {
	if _, err := t.exec(`DELETE FROM bans WHERE until < @now
		AND failures < (@now - seen) / CAST($1 AS DOUBLE PRECISION)`,
		float64(sshd.Forgiveness.Milliseconds())); err != nil {
		return err
	}
	_, err := t.exec(`DELETE FROM bans WHERE network IN (SELECT network FROM bans
		ORDER BY seen DESC LIMIT 1000000 OFFSET $1)`, mostFailures)
	return err
}
