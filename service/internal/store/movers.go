package store

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp/server/sshd"
)

// movers are the users whose bandwidth is limited. Every second it is split among the nodes on
// which they move bytes; a node that hears nothing from the store keeps its last share.
type movers struct {
	store *Store
	mu    sync.Mutex
	all   map[string]*mover
}

// mover is the [sshd.Bandwidth] of a user.
type mover struct {
	share *sshd.RateLimit
	rates sshd.Rates
	moved atomic.Bool  // since the last look
	nodes atomic.Int64 // that share it, this one included
}

func (m *movers) init(s *Store) { m.store, m.all = s, map[string]*mover{} }

// Bandwidth returns the limit of a user's bytes per second on all nodes together.
func (s *Store) Bandwidth(name string, rates sshd.Rates) sshd.Bandwidth {
	s.movers.mu.Lock()
	defer s.movers.mu.Unlock()
	m := s.movers.all[name]
	if m == nil || m.rates != rates {
		m = &mover{share: sshd.NewRateLimit(rates), rates: rates}
		s.movers.all[name] = m
	}
	return m
}

func (m *mover) Send(ctx context.Context, n int) error {
	m.moves()
	return m.share.Send(ctx, n)
}

func (m *mover) Receive(ctx context.Context, n int) error {
	m.moves()
	return m.share.Receive(ctx, n)
}

func (m *mover) moves() {
	if !m.moved.Load() { // all sessions of the user share it
		m.moved.Store(true)
	}
}

// share stores which users move bytes here, and reads on how many nodes they do.
func (m *movers) share(ctx context.Context) {
	m.mu.Lock()
	moving := map[string]*mover{}
	for name, one := range m.all {
		if one.moved.Swap(false) {
			moving[name] = one
		}
	}
	m.mu.Unlock()
	if len(moving) == 0 {
		return
	}
	nodes := map[string]int64{}
	err := m.store.do(ctx, func(t tx) error {
		var rows [][]any
		for _, name := range slices.Sorted(maps.Keys(moving)) {
			rows = append(rows, []any{name, m.store.node})
		}
		if err := t.insert(`movers (name, node, seen)`, `(?, ?, @now)`,
			`ON CONFLICT (name, node) DO UPDATE SET seen = excluded.seen`, rows); err != nil {
			return err
		}
		var name string
		var count int64
		return t.each(`SELECT name, count(*) FROM movers WHERE abs(@now - seen) < $1
			GROUP BY name`,
			[]any{m.store.times.active.Milliseconds()}, []any{&name, &count},
			func() { nodes[name] = count })
	})
	if err != nil {
		return
	}
	for name, one := range moving {
		sharing := max(nodes[name], 1)
		one.nodes.Store(sharing)
		one.share.Set(sshd.Rates{Send: part(one.rates.Send, sharing),
			Receive: part(one.rates.Receive, sharing)})
	}
}

// part returns a node's part of a rate, which is never 0 unless the rate is.
func part(rate, nodes int64) int64 {
	if rate == 0 {
		return 0
	}
	return max(rate/nodes, 1)
}

func (m *movers) clean(t tx) error {
	return t.run(`DELETE FROM movers WHERE abs(@now - seen) > $1`,
		m.store.times.dead.Milliseconds())
}
