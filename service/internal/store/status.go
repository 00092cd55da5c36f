package store

import (
	"context"
	"crypto/rand"
	"sync"
	"time"
)

// A NodeStatus is the status that a node reported some seconds ago.
type NodeStatus struct {
	Node string
	Seen time.Duration // since its last sign of life
	Text string
}

// told holds the functions that return this node's status and carry out orders to it.
type told struct {
	mu     sync.Mutex
	status func() string
	order  func(what string)
}

// Tell sets a function that is called now and then for the status that this node shows to the
// others, and another that is called for each order from them. Neither may take long.
func (s *Store) Tell(status func() string, order func(what string)) {
	s.told.mu.Lock()
	defer s.told.mu.Unlock()
	s.told.status, s.told.order = status, order
}

func (t *told) functions() (status func() string, order func(string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status, t.order
}

// Node returns the name of this node.
func (s *Store) Node() string { return s.node }

func (t *told) tell(ctx context.Context, s *Store) {
	status, _ := t.functions()
	if status == nil {
		return
	}
	text := column(status()) // slow, so not within the transaction
	s.doOne(ctx, func(t tx) error {
		return t.run(`INSERT INTO statuses (node, status) VALUES ($1, $2)
			ON CONFLICT (node) DO UPDATE SET status = $2`, s.node, text)
	})
}

// obey carries out the orders to this node.
func (t *told) obey(ctx context.Context, s *Store) {
	_, order := t.functions()
	if order == nil {
		return
	}
	var all []string
	if s.doOne(ctx, func(t tx) error {
		all = nil
		var what string
		return t.each(`DELETE FROM orders WHERE node = $1 RETURNING what`, []any{s.node},
			[]any{&what}, func() { all = append(all, what) })
	}) != nil {
		return
	}
	for _, what := range all {
		order(what)
	}
}

// Statuses returns the statuses of all live nodes.
func (s *Store) Statuses(ctx context.Context) (all []NodeStatus, err error) {
	err = s.doOne(ctx, func(t tx) error {
		all = nil
		var one NodeStatus
		var ms int64
		return t.each(`SELECT nodes.node, @now - seen, status FROM nodes
			JOIN statuses ON statuses.node = nodes.node WHERE nodes.seen > 0
			ORDER BY nodes.node`, nil,
			[]any{&one.Node, &ms, &one.Text}, func() {
				one.Seen = time.Duration(ms) * time.Millisecond
				all = append(all, one)
			})
	})
	return all, err
}

// Order orders a node to do something soon, and reports whether there is one that takes orders.
func (s *Store) Order(ctx context.Context, node, what string) (there bool, err error) {
	err = s.do(ctx, func(t tx) error {
		rows, err := t.exec(`INSERT INTO orders (id, node, what)
			SELECT $1, node, $2 FROM statuses WHERE node = $3`, rand.Text(), what, node)
		if there = rows > 0; err != nil {
			return err
		}
		return t.notify(ordersNotice)
	})
	return there, err
}

// LatestDead returns the latest dead letters, at most so many, and the number of dead letters of
// each hook.
func (s *Store) LatestDead(ctx context.Context, most int) (latest []Message, count map[string]int64,
	err error) {
	err = s.do(ctx, func(t tx) error {
		latest, count = nil, map[string]int64{}
		var r messageRow
		if err := t.each(`SELECT `+messageColumns+` FROM outbox WHERE dead > 0
			ORDER BY dead DESC, id LIMIT $1`, []any{most}, r.fields(),
			func() { latest = append(latest, r.message()) }); err != nil {
			return err
		}
		var hook string
		var n int64
		return t.each(`SELECT hook, count(*) FROM outbox WHERE dead > 0 GROUP BY hook`, nil,
			[]any{&hook, &n}, func() { count[hook] = n })
	})
	return latest, count, err
}
