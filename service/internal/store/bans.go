package store

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/usftp/usftp/server/sshd"
)

// Bans is the [sshd.Bans] of all nodes. While the store is down it keeps the bans that it knows,
// and counts failures by itself.
type Bans struct {
	store *Store

	mu    sync.Mutex
	until map[sshd.Source]time.Time
	news  []func()      // what set has done while the store's bans are read; otherwise nil
	alone *sshd.BanList // while the store is down

	reading sync.Mutex // one at a time
}

var _ sshd.Bans = (*Bans)(nil)

// mostBans is how many bans a node remembers, and mostFailures how many sources the store does: an
// attacker who has more cannot be kept out by address, and must not fill the memory or the disk.
const (
	mostBans     = 20_000
	mostFailures = 100_000
)

func newBans(s *Store) *Bans {
	return &Bans{store: s, until: map[sshd.Source]time.Time{}, alone: sshd.NewBanList()}
}

// Bans returns the bans of the store.
func (s *Store) Bans() *Bans { return s.bans }

func (b *Bans) Banned(source sshd.Source) bool {
	b.mu.Lock()
	until, alone := b.until[source], b.alone
	b.mu.Unlock()
	return time.Now().Before(until) || alone.Banned(source)
}

func (b *Bans) Failed(ctx context.Context, source sshd.Source, weight float64,
	rules *sshd.BanRules) (delay, ban time.Duration) {
	err := b.store.do(ctx, func(t tx) error {
		var failures float64
		if _, err := t.one(`INSERT INTO bans (network, failures, seen, until)
			VALUES ($1, $2, @now, 0)
			ON CONFLICT (network) DO UPDATE SET seen = @now, failures = $2 +
				CASE WHEN bans.failures > abs(@now - bans.seen) / CAST($3 AS DOUBLE PRECISION)
				THEN bans.failures - abs(@now - bans.seen) / CAST($3 AS DOUBLE PRECISION) ELSE 0 END
			RETURNING failures`,
			[]any{source.String(), weight, float64(rules.Forget.Milliseconds())},
			&failures); err != nil {
			return err
		}
		delay, ban = rules.Penalty(source, failures)
		if ban == 0 {
			return nil
		}
		return setBan(t, source, ban)
	})
	if err != nil {
		b.mu.Lock()
		alone := b.alone
		b.mu.Unlock()
		return alone.Failed(ctx, source, weight, rules)
	}
	if ban > 0 {
		b.set(source, ban)
	}
	return delay, ban
}

func setBan(t tx, source sshd.Source, ban time.Duration) error {
	ms := ban.Milliseconds()
	if err := t.run(`INSERT INTO bans (network, failures, seen, until)
		VALUES ($1, 0, @now, @now + $2)
		ON CONFLICT (network) DO UPDATE SET until = @now + $2, seen = @now`, source.String(),
		ms); err != nil {
		return err
	}
	return t.notify(fmt.Sprintf("%s %d", source, ms))
}

// set bans a source on this node. A ban of 0 lifts the source's, and a network's also its users'.
func (b *Bans) set(source sshd.Source, ban time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	until := time.Now().Add(ban)
	set := func() {
		if ban <= 0 {
			maps.DeleteFunc(b.until, func(other sshd.Source, _ time.Time) bool {
				return other == source || source.User == "" && other.Network == source.Network
			})
			b.alone = sshd.NewBanList() // which knows no single ban
		} else if _, known := b.until[source]; known || len(b.until) < mostBans {
			b.until[source] = until
		}
	}
	if set(); b.news != nil {
		b.news = append(b.news, set)
	}
}

// A Ban is a banned source.
type Ban struct {
	sshd.Source
	Left time.Duration
}

func listBans(t tx) (list []Ban, err error) {
	var text string
	var ms int64
	err = t.each(`SELECT network, until - @now FROM bans WHERE until > @now
		ORDER BY until DESC LIMIT $1`, []any{mostBans}, []any{&text, &ms}, func() {
		if source, err := sshd.ParseSource(text); err == nil {
			list = append(list, Ban{source, time.Duration(ms) * time.Millisecond})
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

// Add bans a source on all nodes.
func (b *Bans) Add(ctx context.Context, source sshd.Source, ban time.Duration) error {
	err := b.store.do(ctx, func(t tx) error { return setBan(t, source, ban) })
	if err == nil {
		b.set(source, ban)
	}
	return err
}

// Lift lifts the ban of a source and forgets its failures; of a network, also its users'. It
// reports whether there was a ban.
func (b *Bans) Lift(ctx context.Context, source sshd.Source) (banned bool, err error) {
	err = b.store.do(ctx, func(t tx) error {
		// The users come first, as where failures are counted, so that the two do not deadlock.
		for _, like := range []string{
			`network <> $1 AND substr(network, 1, length($1) + 1) = $1 || ' '`, `network = $1`} {
			key := source.String()
			var bans int64
			if _, err := t.one(`SELECT count(*) FROM bans WHERE until > @now AND `+like,
				[]any{key}, &bans); err != nil {
				return err
			}
			if err := t.run(`DELETE FROM bans WHERE `+like, key); err != nil {
				return err
			}
			banned = banned || bans > 0
		}
		return t.notify(source.String() + " 0")
	})
	if err == nil {
		b.set(source, 0)
	}
	return banned, err
}

// look asks the store for the bans.
func (b *Bans) look(ctx context.Context) {
	b.store.do(ctx, b.read)
}

// refresh works like look while the store still counts as down.
func (b *Bans) refresh(ctx context.Context) error { return b.store.db.do(ctx, b.read) }

// trust drops the bans that this node has counted alone: the store's can be lifted, those cannot.
// The store must have answered for a while by then, or whoever attacks during an outage of some
// statements only would never be banned.
func (b *Bans) trust() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alone = sshd.NewBanList()
}

// read replaces this node's bans by the store's, apart from what changes while they are read.
func (b *Bans) read(t tx) error {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.mu.Lock()
	b.news = []func(){}
	b.mu.Unlock()
	list, err := listBans(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	news := b.news
	b.news = nil
	if err != nil {
		return err
	}
	now := time.Now()
	b.until = make(map[sshd.Source]time.Time, len(list))
	for _, one := range list {
		b.until[one.Source] = now.Add(one.Left)
	}
	for _, set := range news {
		set()
	}
	return nil
}

// cleanBans removes failures that are a day old, and the oldest ones beyond mostFailures. If the
// database's clock was set back, bans from before are as long as they were to be.
func cleanBans(t tx) error {
	if err := t.run(`UPDATE bans SET until = until - (seen - @now), seen = @now
		WHERE seen > @now + $1`, time.Minute.Milliseconds()); err != nil {
		return err
	}
	if err := t.run(`DELETE FROM bans WHERE until < @now AND seen < @now - $1`,
		longestMemory.Milliseconds()); err != nil {
		return err
	}
	return t.run(`DELETE FROM bans WHERE network IN (SELECT network FROM bans
		ORDER BY seen DESC LIMIT 1000000 OFFSET $1)`, mostFailures)
}

// longestMemory is how long failures are remembered, however slowly the rules forget them: nodes
// may have different rules.
const longestMemory = 24 * time.Hour
