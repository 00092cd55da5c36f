package store

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/server"
)

// quotas are the counts that this node has used, by trees.
type quotas struct {
	store *Store
	mu    sync.Mutex
	all   map[string]*holding
}

// Account is the [server.Account] of a directory, which all nodes share. A node takes some of the
// remaining quota in advance, so that it need not ask for each piece. While the store is down, it
// has only that. Accounts of one directory differ only in their limits.
type Account struct {
	*holding
	limits amount
}

// holding is what a node holds of the count of a directory.
type holding struct {
	tree   string
	store  *Store
	asking chan struct{} // one question at a time

	mu      sync.Mutex
	least   amount // the least limits of all accounts, 0 for none
	total   amount // the store's total, as last heard
	spare   amount // the part that this node has taken or freed and not used; may be negative
	awaited amount // the part that is reserved for files that are not there yet
	told    amount // of spare and awaited, as the store knows it
	others  amount // the same of other nodes, as last read
	counts  int64  // how often it has been counted, as last read
	counted bool   // an uncertain count of a dead node no longer matters
	known   bool   // the store has a row
	leased  bool   // it has a lease
	used    bool   // since the last flush
	doubt   bool   // the store's total may be wrong
	flight  flight // changed only by who asks
}

// flight is an amount on its way back to the store, which may have got it although it has not
// answered. By the ID it knows it again.
type flight struct {
	amount
	id   string // "" if there is none
	sent bool
}

var _ interface {
	server.Countable
	server.Limitable
} = (*Account)(nil)

// amount is a number of bytes and of files.
type amount struct{ bytes, files int64 }

func (a amount) plus(b amount) amount  { return amount{a.bytes + b.bytes, a.files + b.files} }
func (a amount) minus(b amount) amount { return amount{a.bytes - b.bytes, a.files - b.files} }
func (a amount) most(b amount) amount {
	return amount{max(a.bytes, b.bytes), max(a.files, b.files)}
}

func (q *quotas) init(s *Store) { q.store, q.all = s, map[string]*holding{} }

// Account returns the account of a directory, by a name that is the same on all nodes. A limit of 0
// means none.
func (s *Store) Account(ctx context.Context, tree string, maxBytes, maxFiles int64) *Account {
	s.quotas.mu.Lock()
	h, ok := s.quotas.all[tree]
	if !ok {
		h = &holding{tree: tree, store: s, asking: make(chan struct{}, 1)}
		s.quotas.all[tree] = h
	}
	s.quotas.mu.Unlock() // transactions lock it, and this one would wait for them
	if !ok {
		h.open(ctx) // if this fails, Reserve does it
	}
	return h.limited(maxBytes, maxFiles)
}

func (a *Account) WithLimits(maxBytes, maxFiles int64) server.Account {
	return a.limited(maxBytes, maxFiles)
}

func (h *holding) limited(maxBytes, maxFiles int64) *Account {
	h.mu.Lock()
	defer h.mu.Unlock()
	less := func(a, b int64) int64 {
		if a == 0 || b == 0 {
			return a + b
		}
		return min(a, b)
	}
	h.least = amount{less(h.least.bytes, maxBytes), less(h.least.files, maxFiles)}
	return &Account{h, amount{maxBytes, maxFiles}}
}

// reading is what a transaction has read of a directory's row. It counts once that is committed:
// otherwise there may be no row.
type reading struct {
	total, others amount
	counts, nodes int64
}

// row makes sure that the store has a row, and reads it.
func (h *holding) row(t tx) (r reading, err error) {
	if err := t.run(`INSERT INTO quotas (tree, bytes, files, counted) VALUES ($1, 0, 0, 0)
		ON CONFLICT (tree) DO NOTHING`, h.tree); err != nil {
		return r, err
	}
	_, err = t.one(`SELECT q.bytes, q.files, q.counted, count(l.node),
		CAST(coalesce(sum(l.bytes), 0) AS BIGINT), CAST(coalesce(sum(l.files), 0) AS BIGINT)
		FROM quotas q LEFT JOIN leases l ON l.tree = q.tree AND l.node <> $2 WHERE q.tree = $1
		GROUP BY q.tree`, []any{h.tree, h.store.node}, &r.total.bytes, &r.total.files, &r.counts,
		&r.nodes, &r.others.bytes, &r.others.files)
	return r, err
}

// learn takes over the row that a committed transaction has read. A dead node may have left its
// count uncertain; while other nodes use the directory it is not counted again. The caller holds
// the lock.
func (h *holding) learn(r reading) {
	h.total, h.known, h.counts, h.others = r.total, true, r.counts, r.others
	h.counted = h.counted || r.counts > 0 || r.nodes > 0
}

// open makes sure that the store has a row, and learns what is in it after first, if there is one.
func (h *holding) open(ctx context.Context, first ...func(t tx) error) error {
	var r reading
	err := h.store.do(ctx, func(t tx) (err error) {
		for _, run := range first {
			if err := run(t); err != nil {
				return err
			}
		}
		r, err = h.row(t)
		return err
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.learn(r)
	}
	return err
}

func (h *holding) Counted(ctx context.Context) (bool, error) {
	h.mu.Lock()
	counted := h.counted
	h.mu.Unlock()
	if counted {
		return true, nil
	}
	err := h.open(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counted, err
}

// Await implements [server.Countable]. The store is told within a second.
func (h *holding) Await(bytes, files int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.awaited = h.awaited.plus(amount{bytes, files})
}

// held returns what a count by another node does not find. The caller holds the lock.
func (h *holding) held() amount { return h.spare.plus(h.awaited) }

func (h *holding) BeginCount(ctx context.Context) (end func(bytes, files int64) error, err error) {
	h.asking <- struct{}{} // spare stays as it is
	defer func() { <-h.asking }()
	if !h.land(ctx) {
		return nil, ErrDown
	}
	err = h.open(ctx)
	h.mu.Lock()
	before, counts := h.total.minus(h.spare).minus(h.others), h.counts
	h.mu.Unlock()
	return func(bytes, files int64) error {
		h.asking <- struct{}{} // nothing is on its way back while the total is read
		defer func() { <-h.asking }()
		more := amount{bytes, files}.minus(before)
		return h.open(ctx, func(t tx) error {
			return t.run(`UPDATE quotas SET bytes = bytes + $2, files = files + $3,
				counted = counted + 1 WHERE tree = $1 AND counted = $4`, h.tree, more.bytes,
				more.files, counts)
		})
	}, err
}

func (a *Account) Usage() server.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.total.minus(a.spare).most(amount{})
	return server.Usage{Bytes: now.bytes, Files: now.files, MaxBytes: a.limits.bytes,
		MaxFiles: a.limits.files}
}

// Settle implements [server.Account]. The store is told within a second.
func (h *holding) Settle(bytes, files int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spare, h.used = h.spare.minus(amount{bytes, files}), true
}

// take uses the spare amount, unless the total, which includes it, is beyond the limits: it was
// taken for users with others then, and only the store knows whether there is room. If it does not,
// it returns how much of what is wanted is not spare.
func (a *Account) take(want amount) (lacking amount, taken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = true
	beyond := func(want, total, limit int64) bool { return want > 0 && limit > 0 && total > limit }
	if !beyond(want.bytes, a.total.bytes, a.limits.bytes) &&
		!beyond(want.files, a.total.files, a.limits.files) && a.use(want) {
		return amount{}, true
	}
	if lacking = want.minus(a.spare); want.bytes == 0 {
		lacking.bytes = 0
	}
	if want.files == 0 {
		lacking.files = 0
	}
	return lacking, false
}

func (a *Account) Reserve(ctx context.Context, bytes, files int64) error {
	want := amount{bytes, files}
	if _, taken := a.take(want); taken {
		return nil
	}
	select {
	case a.asking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-a.asking }()
	for {
		lacking, taken := a.take(want)
		if taken {
			return nil
		}
		taken, err := a.more(ctx, want, lacking, true)
		if errors.Is(err, server.ErrQuota) {
			taken, err = a.more(ctx, want, lacking, false)
		}
		if taken || err != nil {
			return err
		}
	}
}

const (
	aheadBytes = 8 << 20
	aheadFiles = 16
)

// ahead returns the amount to take in advance: so little of a small quota that other nodes hardly
// miss it. The caller holds the lock.
func (h *holding) ahead(want amount) amount {
	part := func(want, most, limit int64) int64 {
		switch {
		case want <= 0:
			return 0
		case limit > 0:
			return min(most, limit/128)
		}
		return most
	}
	return amount{part(want.bytes, aheadBytes, h.least.bytes),
		part(want.files, aheadFiles, h.least.files)}
}

// more uses an amount if the store has room for it and, with advance, for some more, which it
// takes, too. lacking is how much of it is not spare.
func (a *Account) more(ctx context.Context, want, lacking amount, advance bool) (taken bool,
	err error) {
	a.mu.Lock()
	known, leased, add, limits := a.known, a.leased, lacking.most(amount{}), a.limits
	if advance {
		ahead := a.ahead(lacking)
		add, lacking = add.plus(ahead), lacking.plus(ahead)
	}
	a.mu.Unlock()
	if want.bytes == 0 {
		limits.bytes = 0
	}
	if want.files == 0 {
		limits.files = 0
	}
	var total amount
	var r reading
	err = a.store.do(ctx, func(t tx) (err error) {
		if !known {
			if r, err = a.row(t); err != nil {
				return err
			}
		}
		found, err := t.one(`UPDATE quotas SET bytes = bytes + $2, files = files + $3
			WHERE tree = $1
			AND (CAST($6 AS BIGINT) = 0 OR bytes + $4 <= $6)
			AND (CAST($7 AS BIGINT) = 0 OR files + $5 <= $7)
			RETURNING bytes, files`,
			[]any{a.tree, add.bytes, add.files, lacking.bytes, lacking.files, limits.bytes,
				limits.files}, &total.bytes, &total.files)
		if err != nil {
			return err
		}
		if !found {
			return refusal{server.ErrQuota}
		}
		if !leased {
			err = t.run(`INSERT INTO leases (tree, node) VALUES ($1, $2)
				ON CONFLICT (tree, node) DO NOTHING`, a.tree, a.store.node)
		}
		return err
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		if !known {
			a.learn(r)
		}
		a.total, a.spare, a.leased = total, a.spare.plus(add), true
		return a.use(want), nil
	case errors.As(err, new(refusal)):
		return false, server.ErrQuota
	case err != ErrDown:
		a.doubt = true // it may have been taken
	}
	return false, err
}

// use uses the spare amount if it is enough. The caller holds the lock.
func (h *holding) use(want amount) bool {
	if want.bytes > max(h.spare.bytes, 0) || want.files > max(h.spare.files, 0) {
		return false
	}
	h.spare = h.spare.minus(want)
	return true
}

// flush gives the unused amount back, or takes the amount used beyond it. Nobody can use what is on
// its way back.
func (h *holding) flush(ctx context.Context, everything bool) {
	h.asking <- struct{}{}
	defer func() { <-h.asking }()
	if h.land(ctx) && h.takeOff(everything) {
		h.land(ctx)
	}
}

// takeOff makes a flight of the amount to give back, and reports whether there is any.
func (h *holding) takeOff(everything bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	back := h.spare
	if h.used && !everything {
		keep := h.ahead(amount{1, 1})
		back = amount{back.bytes - min(max(back.bytes, 0), keep.bytes),
			back.files - min(max(back.files, 0), keep.files)}
	}
	h.used = false
	if back == (amount{}) || !h.known {
		return false
	}
	h.total, h.spare = h.total.minus(back), h.spare.minus(back)
	h.flight = flight{amount: back, id: rand.Text()}
	return true
}

// land tells the store of the flight, if there is one, and reports whether there is none any more.
func (h *holding) land(ctx context.Context) bool {
	going, total := h.flight, amount{}
	if going.id == "" {
		return true
	}
	h.mu.Lock()
	held := h.held()
	h.mu.Unlock()
	err := h.store.do(ctx, func(t tx) error {
		fresh, err := t.one(`UPDATE quotas SET bytes = bytes - $2, files = files - $3
			WHERE tree = $1 AND NOT EXISTS (SELECT 1 FROM leases
				WHERE leases.tree = $1 AND node = $4 AND flushed = $5)
			RETURNING bytes, files`, []any{h.tree, going.bytes, going.files, h.store.node,
			going.id}, &total.bytes, &total.files)
		if err == nil && fresh {
			err = t.run(`INSERT INTO leases (tree, node, flushed, bytes, files)
				VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tree, node)
				DO UPDATE SET flushed = $3, bytes = $4, files = $5`, h.tree, h.store.node, going.id,
				held.bytes, held.files)
		} else if err == nil { // only the answer was lost
			_, err = t.one(`SELECT bytes, files FROM quotas WHERE tree = $1`, []any{h.tree},
				&total.bytes, &total.files)
		}
		return err
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.total, h.told, h.leased, h.flight = total, held, true, flight{}
	case err == ErrDown && !going.sent: // it stays here
		h.total, h.spare, h.flight = h.total.plus(going.amount), h.spare.plus(going.amount),
			flight{}
	case err != ErrDown:
		h.flight.sent = true
	}
	return err == nil
}

func (q *quotas) list() (list []*holding) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range q.all {
		list = append(list, h)
	}
	return list
}

// flush writes this node's changes to the store.
func (q *quotas) flush(ctx context.Context, everything bool) {
	for _, h := range q.list() {
		h.flush(ctx, everything)
	}
	if !everything {
		q.tell(ctx)
	}
}

// tell tells the store what a count by another node does not find. Nobody counts what users move.
func (q *quotas) tell(ctx context.Context) {
	list, done := q.unasked()
	defer done()
	var rows [][]any
	news := map[*holding]amount{}
	for _, h := range list {
		h.mu.Lock()
		if held := h.held(); held != h.told && h.known && h.flight.id == "" &&
			!strings.HasPrefix(h.tree, site.TransferTree) {
			news[h] = held
			rows = append(rows, []any{h.tree, q.store.node, held.bytes, held.files})
		}
		h.mu.Unlock()
	}
	if len(rows) == 0 || q.store.do(ctx, func(t tx) error {
		return t.insert(`leases (tree, node, bytes, files)`, `(?, ?, ?, ?)`, `ON CONFLICT
			(tree, node) DO UPDATE SET bytes = excluded.bytes, files = excluded.files`, rows)
	}) != nil {
		return
	}
	for h, held := range news {
		h.mu.Lock()
		h.told, h.leased = held, true
		h.mu.Unlock()
	}
}

// unasked returns the accounts that ask for nothing at the moment. Until done is called, those that
// want to ask wait.
func (q *quotas) unasked() (list []*holding, done func()) {
	for _, h := range q.list() {
		select {
		case h.asking <- struct{}{}:
			list = append(list, h)
		default:
		}
	}
	return list, func() {
		for _, h := range list {
			<-h.asking
		}
	}
}

// read reads the totals, which other nodes change, too, and whether they are certain; not all that
// there are, since each day may bring two for every user. It leaves out accounts that ask for
// theirs: what they are told is newer.
func (q *quotas) read(t tx) error {
	list, done := q.unasked()
	defer done()
	if len(list) == 0 {
		return nil
	}
	totals, tree, total := map[string]amount{}, "", amount{}
	var certain int64
	doubtful := map[string]bool{}
	var err error
	for some := range slices.Chunk(list, rowsAtOnce) {
		args := []any{q.store.node}
		for _, h := range some {
			args = append(args, h.tree)
		}
		if err = t.each(`SELECT tree, bytes, files, CASE WHEN counted > 0 THEN 1 ELSE
			(SELECT count(*) FROM leases WHERE leases.tree = quotas.tree AND node <> $1) END
			FROM quotas WHERE tree IN (`+places(2, len(some))+`)`, args,
			[]any{&tree, &total.bytes, &total.files, &certain},
			func() { totals[tree], doubtful[tree] = total, certain == 0 }); err != nil {
			break
		}
	}
	for _, h := range list {
		if total, ok := totals[h.tree]; ok {
			h.mu.Lock()
			h.total = total
			// A node has died that had some of it, and no other one that lives has.
			h.counted = h.counted && !doubtful[h.tree]
			h.mu.Unlock()
		}
	}
	return err
}

// write stores this node's leases: others may have taken it for dead, and ended them. Where it
// holds nothing it needs none.
func (q *quotas) write(t tx) error {
	var rows [][]any
	for _, h := range q.list() {
		h.mu.Lock()
		h.leased = h.leased && (h.uncertain() || h.told != (amount{}) || len(h.asking) > 0)
		if h.leased {
			rows = append(rows, []any{h.tree, q.store.node, h.told.bytes, h.told.files})
		}
		h.mu.Unlock()
	}
	return t.insert(`leases (tree, node, bytes, files)`, `(?, ?, ?, ?)`,
		`ON CONFLICT (tree, node) DO NOTHING`, rows)
}

// uncertain reports whether the store's total would be wrong if this node ended now. The caller
// holds the lock.
func (h *holding) uncertain() bool {
	return h.doubt || h.flight.id != "" || h.spare != (amount{}) || h.awaited != (amount{})
}

// end gives the leases back. Trees whose count may be wrong are counted again.
func (q *quotas) end(t tx) error {
	for _, h := range q.list() {
		h.mu.Lock()
		uncertain := h.uncertain()
		h.mu.Unlock()
		if !uncertain {
			continue
		}
		if err := t.run(`UPDATE quotas SET counted = 0 WHERE tree = $1`, h.tree); err != nil {
			return err
		}
	}
	return t.run(`DELETE FROM leases WHERE node = $1`, q.store.node)
}
