package store

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"

	"github.com/usftp/usftp/server"
)

// quotas are the accounts that this node has used.
type quotas struct {
	store *Store
	mu    sync.Mutex
	all   map[accountKey]*Account
}

type accountKey struct {
	tree               string
	maxBytes, maxFiles int64
}

// Account is the [server.Account] of a directory, which all nodes share. A node takes some of the
// remaining quota in advance, so that it need not ask for each piece. While the store is down, it
// has only that.
type Account struct {
	accountKey
	store  *Store
	asking chan struct{} // one question at a time

	mu      sync.Mutex
	total   amount // the store's total, as last heard
	spare   amount // the part that this node has taken or freed and not used; may be negative
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

var _ server.Countable = (*Account)(nil)

// amount is a number of bytes and of files.
type amount struct{ bytes, files int64 }

func (a amount) plus(b amount) amount  { return amount{a.bytes + b.bytes, a.files + b.files} }
func (a amount) minus(b amount) amount { return amount{a.bytes - b.bytes, a.files - b.files} }
func (a amount) most(b amount) amount {
	return amount{max(a.bytes, b.bytes), max(a.files, b.files)}
}

func (q *quotas) init(s *Store) { q.store, q.all = s, map[accountKey]*Account{} }

// Account returns the account of a directory, by a name that is the same on all nodes. A limit of 0
// means none.
func (s *Store) Account(ctx context.Context, tree string, maxBytes, maxFiles int64) *Account {
	key := accountKey{tree, maxBytes, maxFiles}
	s.quotas.mu.Lock()
	a, ok := s.quotas.all[key]
	if !ok {
		a = &Account{accountKey: key, store: s, asking: make(chan struct{}, 1)}
		s.quotas.all[key] = a
	}
	s.quotas.mu.Unlock() // transactions lock it, and this one would wait for them
	if !ok {
		s.do(ctx, a.open) // if this fails, Reserve does it
	}
	return a
}

// open makes sure that the store has a row, and reads it. A count that a dead node has left
// uncertain is taken as it is while other nodes use it.
func (a *Account) open(t tx) error {
	if _, err := t.exec(`INSERT INTO quotas (tree, bytes, files, counted) VALUES ($1, 0, 0, 0)
		ON CONFLICT (tree) DO NOTHING`, a.tree); err != nil {
		return err
	}
	var total amount
	var counted, others int64
	if _, err := t.one(`SELECT bytes, files, counted, (SELECT count(*) FROM leases
		WHERE leases.tree = quotas.tree AND node <> $2) FROM quotas WHERE tree = $1`,
		[]any{a.tree, a.store.node}, &total.bytes, &total.files, &counted, &others); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total, a.known, a.counts = total, true, counted
	a.counted = a.counted || counted > 0 || others > 0
	return nil
}

// Counted implements [server.Countable].
func (a *Account) Counted(ctx context.Context) (bool, error) {
	a.mu.Lock()
	counted := a.counted
	a.mu.Unlock()
	if counted {
		return true, nil
	}
	err := a.store.do(ctx, a.open)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counted, err
}

// BeginCount implements [server.Countable].
func (a *Account) BeginCount(ctx context.Context) (end func(bytes, files int64) error, err error) {
	a.asking <- struct{}{} // spare stays as it is
	defer func() { <-a.asking }()
	var before amount
	var counts int64
	if !a.land(ctx) {
		return nil, ErrDown
	}
	err = a.store.do(ctx, func(t tx) error {
		err := a.open(t)
		a.mu.Lock()
		defer a.mu.Unlock()
		before, counts = a.total.minus(a.spare), a.counts
		return err
	})
	return func(bytes, files int64) error {
		a.asking <- struct{}{} // nothing is on its way back while the total is read
		defer func() { <-a.asking }()
		return a.store.do(ctx, func(t tx) error {
			more := amount{bytes, files}.minus(before)
			if _, err := t.exec(`UPDATE quotas SET bytes = bytes + $2, files = files + $3,
				counted = counted + 1 WHERE tree = $1 AND counted = $4`, a.tree, more.bytes,
				more.files, counts); err != nil {
				return err
			}
			return a.open(t)
		})
	}, err
}

// Usage implements [server.Account].
func (a *Account) Usage() server.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.total.minus(a.spare).most(amount{})
	return server.Usage{Bytes: now.bytes, Files: now.files, MaxBytes: a.maxBytes,
		MaxFiles: a.maxFiles}
}

// Settle implements [server.Account]. The store is told within a second.
func (a *Account) Settle(bytes, files int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spare, a.used = a.spare.minus(amount{bytes, files}), true
}

// take uses the spare amount. It returns the missing amount, and then uses nothing.
func (a *Account) take(want amount) (missing amount) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = true
	if missing = want.minus(a.spare).most(amount{}); want.bytes == 0 {
		missing.bytes = 0
	}
	if want.files == 0 {
		missing.files = 0
	}
	if missing == (amount{}) {
		a.spare = a.spare.minus(want)
	}
	return missing
}

// Reserve implements [server.Account].
func (a *Account) Reserve(ctx context.Context, bytes, files int64) error {
	want := amount{bytes, files}
	if a.take(want) == (amount{}) {
		return nil
	}
	select {
	case a.asking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-a.asking }()
	for {
		missing := a.take(want)
		if missing == (amount{}) {
			return nil
		}
		err := a.more(ctx, missing.plus(a.ahead(missing)))
		if errors.Is(err, server.ErrQuota) {
			err = a.more(ctx, missing)
		}
		if err != nil {
			return err
		}
	}
}

const (
	aheadBytes = 8 << 20
	aheadFiles = 16
)

// ahead returns the amount to take in advance: so little of a small quota that other nodes hardly
// miss it.
func (a *Account) ahead(missing amount) (ahead amount) {
	part := func(want, most, limit int64) int64 {
		switch {
		case want == 0:
			return 0
		case limit > 0:
			return min(most, limit/128)
		}
		return most
	}
	return amount{part(missing.bytes, aheadBytes, a.maxBytes),
		part(missing.files, aheadFiles, a.maxFiles)}
}

// more takes an amount from the store.
func (a *Account) more(ctx context.Context, want amount) error {
	a.mu.Lock()
	known, leased := a.known, a.leased
	a.mu.Unlock()
	var total amount
	err := a.store.do(ctx, func(t tx) error {
		if !known {
			if err := a.open(t); err != nil {
				return err
			}
		}
		found, err := t.one(`UPDATE quotas SET bytes = bytes + $2, files = files + $3
			WHERE tree = $1
			AND (CAST($2 AS BIGINT) <= 0 OR CAST($4 AS BIGINT) = 0 OR bytes + $2 <= $4)
			AND (CAST($3 AS BIGINT) <= 0 OR CAST($5 AS BIGINT) = 0 OR files + $3 <= $5)
			RETURNING bytes, files`,
			[]any{a.tree, want.bytes, want.files, a.maxBytes, a.maxFiles}, &total.bytes,
			&total.files)
		if err != nil {
			return err
		}
		if !found {
			return refusal{server.ErrQuota}
		}
		if !leased {
			_, err = t.exec(`INSERT INTO leases (tree, node) VALUES ($1, $2)
				ON CONFLICT (tree, node) DO NOTHING`, a.tree, a.store.node)
		}
		return err
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.total, a.spare, a.leased = total, a.spare.plus(want), true
	case errors.As(err, new(refusal)):
		return server.ErrQuota
	case err != ErrDown:
		a.doubt = true // it may have been taken
	}
	return err
}

// flush gives the unused amount back, or takes the amount used beyond it. Nobody can use what is on
// its way back.
func (a *Account) flush(ctx context.Context, everything bool) {
	a.asking <- struct{}{}
	defer func() { <-a.asking }()
	if a.land(ctx) && a.takeOff(everything) {
		a.land(ctx)
	}
}

// takeOff makes a flight of the amount to give back, and reports whether there is any.
func (a *Account) takeOff(everything bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	back := a.spare
	if a.used && !everything {
		keep := a.ahead(amount{1, 1})
		back = amount{back.bytes - min(max(back.bytes, 0), keep.bytes),
			back.files - min(max(back.files, 0), keep.files)}
	}
	a.used = false
	if back == (amount{}) || !a.known {
		return false
	}
	a.total, a.spare = a.total.minus(back), a.spare.minus(back)
	a.flight = flight{amount: back, id: rand.Text()}
	return true
}

// land tells the store of the flight, if there is one, and reports whether there is none any more.
func (a *Account) land(ctx context.Context) bool {
	going, total := a.flight, amount{}
	if going.id == "" {
		return true
	}
	err := a.store.do(ctx, func(t tx) error {
		fresh, err := t.one(`UPDATE quotas SET bytes = bytes - $2, files = files - $3
			WHERE tree = $1 AND NOT EXISTS (SELECT 1 FROM leases
				WHERE leases.tree = $1 AND node = $4 AND flushed = $5)
			RETURNING bytes, files`, []any{a.tree, going.bytes, going.files, a.store.node,
			going.id}, &total.bytes, &total.files)
		if err == nil && fresh {
			_, err = t.exec(`INSERT INTO leases (tree, node, flushed) VALUES ($1, $2, $3)
				ON CONFLICT (tree, node) DO UPDATE SET flushed = $3`, a.tree, a.store.node, going.id)
		} else if err == nil { // only the answer was lost
			_, err = t.one(`SELECT bytes, files FROM quotas WHERE tree = $1`, []any{a.tree},
				&total.bytes, &total.files)
		}
		return err
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.total, a.leased, a.flight = total, true, flight{}
	case err == ErrDown && !going.sent: // it stays here
		a.total, a.spare, a.flight = a.total.plus(going.amount), a.spare.plus(going.amount),
			flight{}
	case err != ErrDown:
		a.flight.sent = true
	}
	return err == nil
}

func (q *quotas) list() (list []*Account) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.all {
		list = append(list, a)
	}
	return list
}

// flush writes this node's changes to the store.
func (q *quotas) flush(ctx context.Context, everything bool) {
	for _, a := range q.list() {
		a.flush(ctx, everything)
	}
}

// read reads the totals, which other nodes change, too; not all that there are, since each day may
// bring two for every user. It leaves out accounts that ask for theirs at the moment, and those
// that want to ask wait: what they are told is newer.
func (q *quotas) read(t tx) error {
	var list []*Account
	for _, a := range q.list() {
		select {
		case a.asking <- struct{}{}:
			list = append(list, a)
		default:
		}
	}
	if len(list) == 0 {
		return nil
	}
	defer func() {
		for _, a := range list {
			<-a.asking
		}
	}()
	totals, tree, total := map[string]amount{}, "", amount{}
	var err error
	for some := range slices.Chunk(list, rowsAtOnce) {
		var trees []any
		for _, a := range some {
			trees = append(trees, a.tree)
		}
		if err = t.each(`SELECT tree, bytes, files FROM quotas WHERE tree IN (`+
			places(1, len(trees))+`)`, trees, []any{&tree, &total.bytes, &total.files},
			func() { totals[tree] = total }); err != nil {
			break
		}
	}
	for _, a := range list {
		if total, ok := totals[a.tree]; ok {
			a.mu.Lock()
			a.total = total
			a.mu.Unlock()
		}
	}
	return err
}

// write stores this node's leases: others may have taken it for dead, and ended them. Where it
// holds nothing it needs none.
func (q *quotas) write(t tx) error {
	var rows [][]any
	for _, a := range q.list() {
		a.mu.Lock()
		if a.leased = a.leased && (a.uncertain() || len(a.asking) > 0); a.leased {
			rows = append(rows, []any{a.tree, q.store.node})
		}
		a.mu.Unlock()
	}
	return t.insert(`leases (tree, node)`, `(?, ?)`, `ON CONFLICT (tree, node) DO NOTHING`, rows)
}

// uncertain reports whether the store's total would be wrong if this node ended now. The caller
// holds the lock.
func (a *Account) uncertain() bool {
	return a.doubt || a.flight.id != "" || a.spare != (amount{})
}

// end gives the leases back. Trees whose count may be wrong are counted again.
func (q *quotas) end(t tx) error {
	for _, a := range q.list() {
		a.mu.Lock()
		uncertain := a.uncertain()
		a.mu.Unlock()
		if !uncertain {
			continue
		}
		if _, err := t.exec(`UPDATE quotas SET counted = 0 WHERE tree = $1`, a.tree); err != nil {
			return err
		}
	}
	_, err := t.exec(`DELETE FROM leases WHERE node = $1`, q.store.node)
	return err
}
