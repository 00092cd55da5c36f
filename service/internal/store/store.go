// Package store keeps the data that the nodes of a service share: users, bans, sessions, quotas,
// bandwidth, uploads to object storage and events, in an SQLite file or in PostgreSQL. Each node
// keeps a little of it in memory, so that it can continue for a while when the store is down; each
// type documents the limits of that.
package store

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/pace"
)

// A Store is a node's connection to the database. It is safe for concurrent use.
type Store struct {
	db    *database
	node  string
	log   *slog.Logger
	times times

	bans     *Bans
	sessions sessions
	quotas   quotas
	movers   movers
	users    userList
	rights   rights
	signs    signs
	jumps    jumps
	outbox   outbox
	trail    trail
	told     told
	looked   atomic.Bool // at the database's clock
	joined   bool        // the store has answered; only join uses it
	replaced bool        // another file has the name of SQLite's; only run uses it

	mu    sync.Mutex
	down  bool
	since time.Time // of being down, or up
	cause error     // the first error
	said  bool      // the log has that it is down

	complained time.Time // the last time

	stop  context.CancelFunc
	ended sync.WaitGroup
}

// times are intervals and timeouts. Tests use shorter ones.
type times struct {
	tick   time.Duration // between looks for changes
	beat   time.Duration // between signs of life
	dead   time.Duration // without one, a node is dead
	stale  time.Duration // how long the users known before are let in while the store is down
	active time.Duration // how long a user counts as moving bytes on a node
	clean  time.Duration // between removals of old rows

	patience time.Duration // with a transaction, if it is longer than the database's
}

var usual = times{tick: time.Second, beat: 5 * time.Second, dead: 15 * time.Second,
	stale: 10 * time.Minute, active: 3 * time.Second, clean: time.Minute}

// ErrDown is the error of operations that need the store while it does not answer.
var ErrDown = errors.New("the store does not answer: try again later, or see the server's log")

// errFell is ErrDown where the transaction may have been made. The cause is in the log, and is not
// for clients.
var errFell = fmt.Errorf("%w", ErrDown)

// Open opens the store at a PostgreSQL URL or in a file. It fails if the name makes no sense; if
// PostgreSQL does not answer, or the file's disk is full, Open succeeds and keeps trying in the
// background.
func Open(ctx context.Context, name string, log *slog.Logger) (*Store, error) {
	return open(ctx, name, log, usual)
}

func open(ctx context.Context, name string, log *slog.Logger, times times) (*Store, error) {
	db, err := openDatabase(name)
	if err != nil {
		return nil, err
	}
	db.patience = max(db.patience, times.patience)
	host, _ := os.Hostname()
	s := &Store{db: db, log: log, times: times, down: true, since: time.Now(), said: true,
		node: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8])}
	s.bans = newBans(s)
	s.sessions.init(s)
	s.quotas.init(s)
	s.movers.init(s)
	s.users.store = s
	s.rights.init()
	s.outbox.init()
	s.trail.init()
	err = s.join(ctx)
	for since := time.Now(); isBusy(err) && time.Since(since) < db.patience; {
		if pace.Sleep(ctx, whileBusy) != nil {
			break
		}
		err = s.join(ctx)
	}
	if err != nil {
		if db.postgres == "" && !db.isFull(err) {
			db.Close()
			return nil, fmt.Errorf("cannot use the store %s: %w", db.name, db.advised(err))
		}
		err = db.advised(err)
		log.Warn("the store does not answer; starting without it", "store", db.name, "error", err)
		s.cause = err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.ended.Go(func() { s.run(running) })
	s.ended.Go(func() { s.beat(running) })
	s.ended.Go(func() { s.outbox.keepCounting(running, s) })
	s.ended.Go(func() { s.trail.run(running, s) })
	if db.postgres != "" {
		s.ended.Go(func() { s.listen(running) })
	}
	return s, nil
}

// join connects this node, and catches up on changes missed while the store was down.
func (s *Store) join(ctx context.Context) error {
	at, err := 0, s.db.create()
	if err == nil && s.db.postgres != "" && !s.joined {
		err = s.db.lookForPooler(ctx)
	}
	if err == nil {
		err = s.db.do(ctx, func(t tx) (err error) {
			at, err = version(t)
			return err
		})
	}
	if err == nil && at == 0 && s.joined { // it may be about to be restored
		err = errEmptied
	}
	if err == nil && at < len(schema) {
		err = s.db.doWithin(ctx, migrationPatience, migrate)
	}
	if err == nil {
		err = s.live(ctx, s.db.do)
	}
	if err == nil {
		err = s.bans.refresh(ctx)
	}
	if err == nil {
		err = s.users.read(ctx)
	}
	if err == nil {
		s.joined = true
		s.up()
	}
	return err
}

var errEmptied = errors.New("its tables have gone: restore them, or start all nodes again")

// run keeps this node and the store in step until ctx ends.
func (s *Store) run(ctx context.Context) {
	tick := time.NewTicker(s.times.tick)
	defer tick.Stop()
	var beaten, cleaned time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.Down() {
			if s.join(ctx) != nil {
				s.mu.Lock()
				s.complain()
				s.mu.Unlock()
				s.users.expire(s.lasts())
				continue
			}
			s.users.tell()
		}
		// Not cut off at the end, since then the trees would have to be counted again.
		s.quotas.flush(context.WithoutCancel(ctx), false)
		s.outbox.flush(ctx, s)
		s.movers.share(ctx)
		beats := time.Since(beaten) >= s.times.beat
		if beats {
			beaten = time.Now()
			s.lookAtFile()
			s.do(ctx, s.bury)
			s.do(ctx, s.quotas.read)
			s.giveBackRights(ctx)
			s.do(ctx, adopt)
			s.told.tell(ctx, s)
		}
		if time.Since(cleaned) >= s.times.clean {
			cleaned = time.Now()
			s.clean(ctx)
		}
		if beats || s.db.postgres == "" { // PostgreSQL notifies us
			s.bans.look(ctx)
			s.users.look(ctx)
			s.told.obey(ctx, s)
		}
	}
}

// lookAtFile notices that the file of SQLite is no longer what other programs find.
func (s *Store) lookAtFile() {
	if err := s.db.create(); err != nil {
		s.fell(err)
	}
	is := s.db.isReplaced()
	if is && !s.replaced {
		s.log.Error("the store's file was replaced, which has no effect until this server is "+
			"started again", "store", s.db.name)
	}
	s.replaced = is
}

// clean removes rows that are no longer needed.
func (s *Store) clean(ctx context.Context) {
	if s.db.mayConnect() {
		s.log.Warn("this node had too few connections to the store: raise max_connections there, " +
			"or the limit of the role")
	}
	s.do(ctx, recallStrays)
	s.do(ctx, cleanBans)
	if !s.Down() && s.lasts() >= s.times.clean {
		s.bans.trust()
	}
	s.do(ctx, s.movers.clean)
	s.do(ctx, s.quotas.cleanTransfers)
	s.do(ctx, cleanUploads)
	if _, steady, err := s.Clock(ctx); err != nil || !steady {
		return
	}
	s.do(ctx, cleanOutbox)
	if s.lasts() > grace {
		for hook := range s.Waiting() {
			s.do(ctx, func(t tx) error { return giveUp(t, hook) })
		}
	}
}

// beat gives signs of life until ctx ends. Nothing else that this node does may delay them: others
// would free the sessions of a node that is only busy.
func (s *Store) beat(ctx context.Context) {
	tick := time.NewTicker(s.times.beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.live(ctx, s.do)
		}
	}
}

// live gives a sign of life of this node. If others have buried it, or may not know all its
// sessions, it writes everything again.
func (s *Store) live(ctx context.Context, do func(context.Context, func(tx) error) error) error {
	known, begun := int64(0), time.Now()
	err := do(ctx, func(t tx) (err error) {
		known, err = t.exec(`UPDATE nodes SET seen = @now WHERE node = $1 AND seen > 0`, s.node)
		return err
	})
	if err == nil && known > 0 {
		s.signs.given(begun)
	}
	if err != nil || known > 0 && !s.sessions.unsure() {
		return err
	}
	if known == 0 {
		s.signs.buried()
	}
	err = s.sessions.rewrite(func() error {
		return do(ctx, func(t tx) error {
			if err := t.run(`INSERT INTO nodes (node, seen) VALUES ($1, @now)
				ON CONFLICT (node) DO UPDATE SET seen = @now`, s.node); err != nil {
				return err
			}
			if err := s.quotas.write(t); err != nil {
				return err
			}
			return s.sessions.write(t)
		})
	})
	if err == nil {
		s.signs.given(begun)
	}
	return err
}

// signs are the signs of life that this node has given to the store.
type signs struct {
	mu    sync.Mutex
	lives int       // how often others have buried this node
	last  time.Time // when the last sign was sent
}

func (s *signs) given(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = at
}

func (s *signs) buried() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives++
}

func (s *signs) life() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lives
}

// still reports whether this node cannot have been buried since it had so many lives, and will not
// be for a while. It checks both clocks: the monotonic one stands still while a machine is
// suspended.
func (s *signs) still(lives int, dead time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	ago := max(now.Sub(s.last), now.Round(0).Sub(s.last.Round(0)).Abs())
	return s.lives == lives && ago < dead/2
}

// Statements returns how many statements this node has sent to the database, apart from the
// beginnings and ends of transactions.
func (s *Store) Statements() int64 { return s.db.statements.Load() }

// bury frees everything held by nodes without a sign of life. A node that is alive after all may
// take sessions, quotas and locks until it hears of its burial, and then be killed. So its row
// stays for as long again, with a negative time, and then it is buried once more.
func (s *Store) bury(t tx) error {
	var silent []string
	var node string
	var now int64
	if err := t.each(`SELECT node, @now FROM nodes WHERE node = $1 OR abs(abs(seen) - @now) > $2`,
		[]any{s.node, s.times.dead.Milliseconds()}, []any{&node, &now},
		func() { silent = append(silent, node) }); err != nil {
		return err
	}
	s.compareClocks(now)
	if s.jumps.lately(now, s.times.dead) {
		return nil
	}
	for _, node := range silent {
		if node == s.node {
			continue
		}
		if err := s.buryOne(t, node); err != nil {
			return err
		}
	}
	return nil
}

// buryOne buries a silent node. The node that changes its row first does the rest. A time to come
// is from before the database's clock was set back: the node may give another sign.
func (s *Store) buryOne(t tx, node string) error {
	dead := s.times.dead.Milliseconds()
	if err := t.run(`UPDATE nodes SET seen = CASE WHEN seen > 0 THEN @now ELSE -(@now) END
		WHERE node = $1 AND abs(seen) > @now + $2`, node, dead); err != nil {
		return err
	}
	again, err := t.exec(`DELETE FROM nodes WHERE node = $1 AND seen < 0
		AND abs(seen) < @now - $2`, node, dead)
	if err != nil {
		return err
	}
	first, err := t.exec(`UPDATE nodes SET seen = -(@now) WHERE node = $1 AND seen > 0
		AND seen < @now - $2`, node, dead)
	if err != nil || first+again == 0 {
		return err
	}
	if err := forget(t, node); err != nil {
		return err
	}
	if first > 0 {
		s.log.Warn("a node is dead; its sessions are free", "node", node)
	}
	return nil
}

// jumps compares the database's clock with this node's monotonic one.
type jumps struct {
	mu    sync.Mutex
	began time.Time
	ahead time.Duration // the database's clock, of the time since began
	quiet time.Time     // until then, the other nodes may not have given a sign since a jump
	apart bool          // it is known that this machine's clock differs
}

// lately reports whether the database's clock has jumped in the last while, or this machine was
// suspended, and the others may have been with it.
func (c *jumps) lately(now int64, while time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		c.began = time.Now()
		c.ahead = time.Duration(now) * time.Millisecond
	}
	ahead := time.Duration(now)*time.Millisecond - time.Since(c.began)
	if (ahead - c.ahead).Abs() > while {
		c.quiet = time.Now().Add(while)
	}
	c.ahead = ahead
	return time.Now().Before(c.quiet)
}

// mostApart is by how much the clocks of this machine and of the database may differ without a word.
const mostApart = time.Minute

// compareClocks tells who runs this node if its clock differs from the database's: by this one users,
// keys and certificates expire, and by that one all else.
func (s *Store) compareClocks(now int64) {
	s.jumps.mu.Lock()
	defer s.jumps.mu.Unlock()
	ahead := time.Since(time.UnixMilli(now)).Round(time.Second)
	limit := mostApart
	if s.jumps.apart { // so that a clock that drifts past the limit is not told of again and again
		limit /= 2
	}
	apart := ahead.Abs() > limit
	switch {
	case now == 0, apart == s.jumps.apart:
		return
	case ahead > 0 && apart:
		s.log.Warn("this machine's clock is ahead of the database's: set the wrong one", "by",
			ahead.String())
	case apart:
		s.log.Warn("this machine's clock is behind the database's: set the wrong one", "by",
			(-ahead).String())
	default:
		s.log.Info("this machine's clock no longer differs from the database's")
	}
	s.jumps.apart = apart
}

// recallStrays gives a row to nodes that hold something and have none, so that they are buried once
// more: they took it after the last burial, or a transaction of theirs was under way then. A live
// node writes its row itself, with its next sign of life.
func recallStrays(t tx) error {
	return t.run(`INSERT INTO nodes (node, seen) SELECT node, -(@now) FROM (
			SELECT node FROM sessions UNION SELECT node FROM leases
			UNION SELECT node FROM uploads WHERE node > ''
			UNION SELECT node FROM statuses UNION SELECT node FROM orders) AS held
		WHERE node NOT IN (SELECT node FROM nodes) ON CONFLICT (node) DO NOTHING`)
}

// forget frees the sessions of a node that has ended. Its leased quota stays counted until the tree
// is counted again: how much of it was used is not known.
func forget(t tx, node string) error {
	if err := forgetSessions(t, node); err != nil {
		return err
	}
	if err := forgetRights(t, node); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM movers WHERE node = $1`,
		`UPDATE quotas SET counted = 0 WHERE tree IN (SELECT tree FROM leases WHERE node = $1)`,
		`DELETE FROM leases WHERE node = $1`,
		`DELETE FROM statuses WHERE node = $1`,
		`DELETE FROM orders WHERE node = $1`,
	} {
		if err := t.run(statement, node); err != nil {
			return err
		}
	}
	return nil
}

// do runs a transaction, or returns ErrDown if the store is known to be down. If the transaction
// fails the store counts as down, until an attempt in the background succeeds.
func (s *Store) do(ctx context.Context, run func(t tx) error) error {
	return s.try(ctx, run, s.db.do)
}

// doOne runs a single statement, which needs no transaction.
func (s *Store) doOne(ctx context.Context, run func(t tx) error) error {
	return s.try(ctx, run, s.db.doOne)
}

func (s *Store) try(ctx context.Context, run func(t tx) error,
	do func(context.Context, func(t tx) error) error) error {
	if s.Down() {
		return ErrDown
	}
	var refused refusal
	err := do(ctx, run)
	for range 3 {
		// Class 40 of PostgreSQL: the transaction conflicted with another. The others: it has ended
		// the connection, as of a node that was suspended for longer than mostIdle, or takes no
		// changes any more.
		if !strings.HasPrefix(codeOf(err), "40") && !errors.Is(err, driver.ErrBadConn) &&
			!needsAnother(err) {
			break
		}
		err = do(ctx, run)
	}
	switch {
	case err == nil, errors.As(err, &refused):
		return err
	case ctx.Err() != nil:
		return ctx.Err() // the caller has gone
	}
	s.fell(err)
	return errFell
}

// A refusal is an error in an answer of the store, which is not down.
type refusal struct{ error }

// plainly unwraps a refusal.
func plainly(err error) error {
	if refused, ok := errors.AsType[refusal](err); ok {
		return refused.error
	}
	return err
}

// Err returns nil, or why the store does not answer.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		return nil
	}
	return fmt.Errorf("the store does not answer: %s: %w", s.db.name, s.cause)
}

// lasts returns how long the store has been down, or has answered.
func (s *Store) lasts() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.since)
}

// Down reports whether the store does not answer.
func (s *Store) Down() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *Store) fell(err error) {
	s.db.leave()            // if a server has gone, none of its connections may cost a try
	err = s.db.advised(err) // before the lock: a disk may be slow
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		s.down, s.since, s.cause = true, time.Now(), err
		s.complain()
	}
}

// A store that answers some statements only, as with a full disk, would fall each second.
const (
	betweenComplaints = time.Minute
	certainlyDown     = 10 * time.Second
)

// complain logs that the store is down. The caller holds the lock.
func (s *Store) complain() {
	if !s.down || s.said || time.Since(s.complained) < betweenComplaints &&
		time.Since(s.since) < certainlyDown {
		return
	}
	s.said, s.complained = true, time.Now()
	s.log.Error("the store does not answer", "store", s.db.name, "error", s.cause)
}

func (s *Store) up() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		s.down, s.since = false, time.Now()
		if s.said {
			s.log.Info("the store answers", "store", s.db.name)
		}
		s.said = false
	}
}

// Close frees everything that this node holds.
func (s *Store) Close() error {
	s.stop()
	s.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), s.db.patience)
	defer cancel()
	if s.Down() {
		s.join(ctx) // it may be back by now, and nobody asks it later
	}
	s.quotas.flush(ctx, true)
	s.outbox.flush(ctx, s)
	s.outbox.end(s)
	s.trail.end(ctx, s)
	s.giveBackRights(ctx)
	err := s.do(ctx, func(t tx) error {
		if err := s.quotas.end(t); err != nil {
			return err
		}
		if err := t.run(`DELETE FROM nodes WHERE node = $1`, s.node); err != nil {
			return err
		}
		return forget(t, s.node)
	})
	return errors.Join(err, s.db.Close())
}
