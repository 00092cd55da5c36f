package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/usftp/usftp/server/sshd"
)

// sessions are the sessions of users on this node, which the store counts over all nodes. While
// the store is down, each node counts its own.
type sessions struct {
	store *Store

	mu     sync.Mutex
	users  map[string]*userSessions
	doubt  bool // the store's count may differ from this node's
	asking sync.RWMutex
}

// userSessions is the [sshd.Sessions] of a user.
type userSessions struct {
	all   *sessions
	name  string
	most  int
	local *sshd.SessionLimit

	used int64 // counted in the store, under the lock of sessions
}

func (s *sessions) init(store *Store) { s.store, s.users = store, map[string]*userSessions{} }

// errTooMany has the text that sshd uses, too.
var errTooMany = errors.New("too many sessions of the user")

// Sessions returns the limit of a user's sessions on all nodes together.
func (s *Store) Sessions(name string, most int) sshd.Sessions {
	all := &s.sessions
	all.mu.Lock()
	defer all.mu.Unlock()
	u := all.users[name]
	if u == nil || u.most != most {
		old := u
		u = &userSessions{all: all, name: name, most: most, local: sshd.NewSessionLimit(most)}
		if old != nil { // its sessions continue
			u.used = old.used
		}
		all.users[name] = u
	}
	return u
}

func (u *userSessions) Most() int { return u.most }

func (u *userSessions) Begin(ctx context.Context) (end func(), err error) {
	freed, err := u.local.Begin(ctx)
	if err != nil {
		return nil, err
	}
	u.all.asking.RLock()
	defer u.all.asking.RUnlock()
	err = u.all.store.doBriefly(ctx, func(t tx) error {
		return enter(t, u.name, u.all.store.node, u.most)
	})
	if errors.As(err, new(refusal)) || ctx.Err() != nil {
		if ctx.Err() != nil {
			u.all.count(u.name, 0, true) // it may have been counted
		}
		freed()
		return nil, errors.Join(err, ctx.Err())
	}
	u.all.count(u.name, 1, err != nil)
	return sync.OnceFunc(func() {
		u.end()
		freed()
	}), nil
}

// end frees the place. If the store does not answer, it is told later.
func (u *userSessions) end() {
	u.all.asking.RLock()
	defer u.all.asking.RUnlock()
	err := u.all.store.doBriefly(context.Background(), func(t tx) error {
		return leave(t, u.name, u.all.store.node)
	})
	if errors.Is(err, errFreed) {
		err = nil
	}
	u.all.count(u.name, -1, err != nil)
}

// errFreed undoes leaving a place that others have freed when they buried this node.
var errFreed = refusal{errors.New("the place is free")}

// doBriefly runs a transaction in a file, and a single statement in PostgreSQL, which is further
// away: users wait for it whenever a session begins.
func (s *Store) doBriefly(ctx context.Context, run func(t tx) error) error {
	if s.db.postgres == "" {
		return s.do(ctx, run)
	}
	return s.doOne(ctx, run)
}

const takePlace = `INSERT INTO places (name, used) VALUES ($1, 1)
	ON CONFLICT (name) DO UPDATE SET used = places.used + 1 WHERE places.used < $2`

// enter takes a place.
func enter(t tx, name, node string, most int) error {
	if t.db.postgres != "" {
		rows, err := t.exec(`WITH place AS (`+takePlace+` RETURNING name)
			INSERT INTO sessions (name, node, used) SELECT name, $3, 1 FROM place
			ON CONFLICT (name, node) DO UPDATE SET used = sessions.used + 1`, name, most, node)
		if err == nil && rows == 0 {
			err = refusal{errTooMany}
		}
		return err
	}
	rows, err := t.exec(takePlace, name, most)
	if err == nil && rows == 0 {
		err = refusal{errTooMany}
	}
	if err == nil {
		err = t.run(`INSERT INTO sessions (name, node, used) VALUES ($1, $2, 1)
			ON CONFLICT (name, node) DO UPDATE SET used = sessions.used + 1`, name, node)
	}
	return err
}

// leave frees a place. It locks the rows in the order in which enter does, or they would deadlock.
func leave(t tx, name, node string) error {
	if t.db.postgres != "" {
		rows, err := t.exec(`WITH place AS (SELECT name FROM places WHERE name = $1 FOR UPDATE),
			mine AS (UPDATE sessions SET used = sessions.used - 1 FROM place
				WHERE sessions.name = place.name AND node = $2 AND sessions.used > 0
				RETURNING sessions.name)
			UPDATE places SET used = places.used - 1 FROM mine WHERE places.name = mine.name`,
			name, node)
		if err == nil && rows == 0 {
			err = errFreed
		}
		return err
	}
	if err := t.run(`UPDATE places SET used = used - 1 WHERE name = $1`, name); err != nil {
		return err
	}
	rows, err := t.exec(`UPDATE sessions SET used = used - 1
		WHERE name = $1 AND node = $2 AND used > 0`, name, node)
	if err == nil && rows == 0 {
		err = errFreed
	}
	return err
}

// count updates this node's count; doubt says that the store's may differ.
func (s *sessions) count(name string, more int64, doubt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[name].used += more
	s.doubt = s.doubt || doubt
}

func (s *sessions) unsure() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubt
}

// rewrite runs write, in a transaction, while no session begins or ends.
func (s *sessions) rewrite(write func() error) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	err := write()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt = err != nil
	return err
}

// write stores this node's counts, which may exceed the limit after the store was down.
func (s *sessions) write(t tx) error {
	if err := forgetSessions(t, s.store.node); err != nil {
		return err
	}
	s.mu.Lock()
	used := map[string]int64{}
	for name, u := range s.users {
		if u.used > 0 {
			used[name] = u.used
		}
	}
	s.mu.Unlock()
	if err := changePlaces(t, used); err != nil {
		return err
	}
	var rows [][]any
	for name, n := range used {
		rows = append(rows, []any{name, s.store.node, n})
	}
	return t.insert(`sessions (name, node, used)`, `(?, ?, ?)`, ``, rows)
}

// changePlaces changes the counts of all sessions of users, in one order everywhere, against
// deadlocks.
func changePlaces(t tx, more map[string]int64) error {
	var rows [][]any
	for _, name := range slices.Sorted(maps.Keys(more)) {
		rows = append(rows, []any{name, more[name]})
	}
	return t.insert(`places (name, used)`, `(?, ?)`,
		`ON CONFLICT (name) DO UPDATE SET used = places.used + excluded.used`, rows)
}

// forgetSessions frees the places of a node. It frees the rows that it has deleted, not rows read
// before: the node may be alive, and one of its sessions may end meanwhile.
func forgetSessions(t tx, node string) error {
	more, name, used := map[string]int64{}, "", int64(0)
	if err := t.each(`DELETE FROM sessions WHERE node = $1 RETURNING name, used`, []any{node},
		[]any{&name, &used}, func() { more[name] = -used }); err != nil {
		return err
	}
	return changePlaces(t, more)
}
