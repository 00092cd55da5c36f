package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Message is an event that waits to be delivered to a hook.
type Message struct {
	ID    string // by which receivers recognize duplicates
	Hook  string
	Event string
	User  string // whose event it is
	Made  time.Time

	// Unsure says that the node that was to make the change was killed before it could report the
	// outcome.
	Unsure bool

	Tries int
	Died  time.Time // when it became a dead letter, if it has
	Error string    // of the last try

	lease int64 // its end proves which node has the message
}

// size is what a message counts for in the limits below: 1, and 1 for each KiB. In JSON a client's
// path may take tens.
func (m *Message) size() int64 { return 1 + int64(len(m.Event))/1024 }

// sizes is the sum of sizes in a statement.
const sizes = `sum(1 + octet_length(event) / 1024)`

const (
	// mostWaiting is how many messages may wait for one hook.
	mostWaiting = 1_000_000

	// Once half as many wait for it, no user may add more than mostOfUser, counted by each node from
	// the time when no more than fewWaiting did: one user alone must not keep all others from making
	// changes.
	mostOfUser = mostWaiting / 10
	fewWaiting = mostWaiting / 100

	// mostUnsent is how many messages a node keeps in memory while the store is down. Once half as
	// many are kept, no user may have more than mostUnsentOfUser.
	mostUnsent       = 10_000
	mostUnsentOfUser = mostUnsent / 10

	// endedAtOnce is how many outcomes a transaction stores, with a statement or more for each.
	endedAtOnce = 100

	// mostDead is how many dead letters are kept, and longestDead how long.
	mostDead    = 100_000
	longestDead = 30 * 24 * time.Hour

	// longestAlive is how long messages wait for a hook that no node has. After times without any
	// node, there is grace for those that have it to come back.
	longestAlive = 7 * 24 * time.Hour
	grace        = time.Hour

	// longestHold is more than any message is kept from nodes. What is kept for longer was so
	// before the database's clock was set back.
	longestHold = 2 * time.Hour

	// longestError limits the length of a stored error.
	longestError = 500
)

// ErrFull is the error of an operation that would send one message too many.
var ErrFull = errors.New("too many events wait for a hook; see the server's log")

// outbox is this node's knowledge of the messages.
type outbox struct {
	mu      sync.Mutex
	posted  chan struct{} // there may be messages to take
	waiting map[string]int64
	sizes   map[string]int64            // of those that wait
	added   map[string]map[string]int64 // to these, by users
	next    map[string]string           // the least name of a user whose turn it is, by hooks
	unsent  []Message                   // the store was down
	ended   []endedPart                 // of announcements
}

// An Outcome is the outcome of an announced change.
type Outcome int

const (
	NotMade Outcome = iota
	Made
	Unsure // it failed, and may have been made all the same
)

// endedPart is a part of an announcement whose end the store has not heard of.
type endedPart struct {
	Message
	outcome Outcome
}

func (o *outbox) init() {
	o.posted = make(chan struct{}, 1)
	o.added, o.next = map[string]map[string]int64{}, map[string]string{}
}

func (o *outbox) wake() {
	select {
	case o.posted <- struct{}{}:
	default:
	}
}

// Posted returns a channel that gets a value when this node has posted messages.
func (s *Store) Posted() <-chan struct{} { return s.outbox.posted }

// Waiting returns how many messages wait for each hook, as of some seconds ago.
func (s *Store) Waiting() map[string]int64 {
	s.outbox.mu.Lock()
	defer s.outbox.mu.Unlock()
	return s.outbox.waiting
}

// room returns an error if too many messages wait for one of the hooks.
func (o *outbox) room(messages []Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range messages {
		waiting := o.sizes[m.Hook]
		if waiting >= mostWaiting ||
			waiting >= mostWaiting/2 && o.added[m.Hook][m.User] >= mostOfUser {
			return ErrFull
		}
	}
	for _, m := range messages {
		if o.added[m.Hook] == nil {
			o.added[m.Hook] = map[string]int64{}
		}
		o.added[m.Hook][m.User] += m.size()
	}
	return nil
}

// keep keeps messages of one user until the store is back, and reports whether there is room.
func (o *outbox) keep(messages []Message) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all, own, more int64
	for _, m := range o.unsent {
		if all += m.size(); m.User == messages[0].User {
			own += m.size()
		}
	}
	for _, m := range messages {
		more += m.size()
	}
	if all+more > mostUnsent || all >= mostUnsent/2 && own+more > mostUnsentOfUser {
		return false
	}
	o.unsent = append(o.unsent, messages...)
	return true
}

// insert puts messages into the outbox. node is the node that announces them, or "".
func insert(t tx, node string, messages []Message) error {
	rows := make([][]any, len(messages))
	for i, m := range messages {
		rows[i] = []any{m.ID, m.Event, m.Hook, node, number(m.Unsure), []byte(m.User)}
	}
	return t.insert(`outbox (id, made, until, event, hook, node, unsure, name)`,
		`(?, @now, @now, ?, ?, ?, ?, ?)`, `ON CONFLICT (id) DO NOTHING`, rows)
}

// Post puts a user's events that have happened into the outbox. While the store is down they wait
// in the node's memory; an error means that they are lost.
func (s *Store) Post(ctx context.Context, messages ...Message) error {
	if err := s.outbox.room(messages); err != nil {
		return err
	}
	named := slices.Clone(messages)
	for i := range named {
		named[i].ID = rand.Text()
	}
	err := s.do(ctx, func(t tx) error { return insert(t, "", named) })
	if err == nil {
		s.outbox.wake()
		return nil
	}
	if s.outbox.keep(named) {
		return nil
	}
	return err
}

// Announce puts events that are about to happen into the outbox. They are not delivered before end
// reports the outcome; if the node is killed before that, they are delivered as unsure.
func (s *Store) Announce(ctx context.Context, messages ...Message) (end func(Outcome),
	err error) {
	if err := s.outbox.room(messages); err != nil {
		return nil, err
	}
	parts := make([]endedPart, len(messages))
	named := slices.Clone(messages)
	for i := range named {
		named[i].ID = rand.Text()
		parts[i].Message = named[i]
	}
	if err := s.do(ctx, func(t tx) error { return insert(t, s.node, named) }); err != nil {
		if err != ErrDown { // they may be there all the same
			s.outbox.missed(parts)
		}
		return nil, err
	}
	return func(outcome Outcome) {
		for i := range parts {
			parts[i].outcome = outcome
		}
		if s.do(context.WithoutCancel(ctx), func(t tx) error { return s.settle(t, parts) }) != nil {
			s.outbox.missed(parts)
			return
		}
		s.outbox.wake()
	}, nil
}

// missed keeps outcomes that the store has not heard of.
func (o *outbox) missed(parts []endedPart) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, parts...)
}

// early is what adopt adds to the ID of a message: one that its own node posts is another.
const early = "-early"

// settle stores the outcomes of announced changes. A message that is not there any more is posted
// once more: others took this node for dead, and have adopted it, perhaps before its change was
// made. Or settle was here before, and only the answer was lost: then it has the same ID.
func (s *Store) settle(t tx, parts []endedPart) error {
	for _, p := range parts {
		if p.outcome == NotMade {
			if err := t.run(`DELETE FROM outbox WHERE id IN ($1, $2)`, p.ID,
				p.ID+early); err != nil {
				return err
			}
			continue
		}
		p.Unsure = p.outcome == Unsure
		rows, err := t.exec(`UPDATE outbox SET node = '', until = @now, unsure = $3
			WHERE id = $1 AND node = $2`, p.ID, s.node, number(p.Unsure))
		if err == nil && rows == 0 {
			err = insert(t, "", []Message{p.Message})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flush writes the messages and outcomes that the store missed while it was down, some in each
// transaction: one with all of them may not end in time.
func (o *outbox) flush(ctx context.Context, s *Store) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.unsent)+len(o.ended) > 0 {
		unsent, ended := min(len(o.unsent), rowsAtOnce), min(len(o.ended), endedAtOnce)
		if s.do(ctx, func(t tx) error {
			if err := s.settle(t, o.ended[:ended]); err != nil {
				return err
			}
			return insert(t, "", o.unsent[:unsent])
		}) != nil {
			return
		}
		o.unsent, o.ended = slices.Delete(o.unsent, 0, unsent), slices.Delete(o.ended, 0, ended)
		o.wake()
	}
}

// end logs how many events are lost with this node.
func (o *outbox) end(s *Store) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if lost := len(o.unsent); lost > 0 {
		s.log.Error("hooks are not told of events, which the store did not take", "lost", lost)
	}
}

// countPatience is how long counting may take: there may be very many messages.
const countPatience = 30 * time.Second

// keepCounting counts the waiting messages now and then, until ctx ends.
func (o *outbox) keepCounting(ctx context.Context, s *Store) {
	again := time.NewTicker(4 * s.times.beat)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if !s.Down() {
			o.count(ctx, s)
		}
	}
}

// count counts the waiting messages. The transaction is over before it takes the lock, which flush
// holds while it waits for one.
func (o *outbox) count(ctx context.Context, s *Store) {
	waiting, size := map[string]int64{}, map[string]int64{}
	var hook string
	var n, sum int64
	if s.db.doWithin(ctx, countPatience, func(t tx) error {
		return t.each(`SELECT hook, count(*), `+sizes+` FROM outbox WHERE dead = 0 GROUP BY hook`,
			nil, []any{&hook, &n, &sum}, func() { waiting[hook], size[hook] = n, sum })
	}) != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting, o.sizes = waiting, size
	for hook := range o.added {
		if size[hook] <= fewWaiting {
			delete(o.added, hook)
		}
	}
}

// adopt releases messages announced by nodes that are gone, as unsure.
func adopt(t tx) error {
	return t.run(`UPDATE outbox SET id = id || $1, node = '', unsure = 1, until = @now
		WHERE node <> '' AND node NOT IN (SELECT node FROM nodes WHERE seen > 0)`, early)
}

// giveUp gives up messages for a hook, some at a time, if no node has it. One that has it posts and
// takes messages for it, whose time then is that of late.
func giveUp(t tx, hook string) error {
	return t.run(`UPDATE outbox SET dead = @now, error = $1 WHERE id IN (SELECT id FROM outbox
		WHERE hook = $2 AND dead = 0 AND node = '' AND NOT EXISTS (SELECT 1 FROM outbox
			WHERE hook = $2 AND dead = 0 AND until > (SELECT @now) - $3) LIMIT $4)`,
		"no node has a hook of this name: is it still in the configuration?", hook,
		longestAlive.Milliseconds(), removedAtOnce)
}

// cleanOutbox removes old dead letters.
func cleanOutbox(t tx) error {
	if err := t.run(`DELETE FROM outbox WHERE dead > 0 AND dead < (SELECT @now) - $1`,
		longestDead.Milliseconds()); err != nil {
		return err
	}
	return trimLetters(t, mostDead)
}

// trimLetters removes the oldest dead letters, if all of them count for more than most.
func trimLetters(t tx, most int64) error {
	return t.run(`DELETE FROM outbox WHERE id IN (SELECT id FROM (SELECT id, `+sizes+`
		OVER (ORDER BY dead DESC, id) AS newer FROM outbox WHERE dead > 0) AS letters
		WHERE newer > $1)`, most)
}

// messageColumns are the columns of a message, in the order of messageRow.fields.
const messageColumns = `id, hook, event, made, unsure, tries, dead, error, until, name`

type messageRow struct {
	Message
	made, unsure, dead int64
}

func (r *messageRow) fields() []any {
	return []any{&r.ID, &r.Hook, &r.Event, &r.made, &r.unsure, &r.Tries, &r.dead, &r.Error,
		&r.lease, &r.User}
}

func (r *messageRow) message() Message {
	m := r.Message
	m.Made, m.Unsure = time.UnixMilli(r.made), r.unsure != 0
	if r.dead > 0 {
		m.Died = time.UnixMilli(r.dead)
	}
	return m
}

// usersAtOnce is how many users a statement looks at.
const usersAtOnce = 100

// nextUsers has the users with messages for hook $1 from name $2 on in the order of names, up to
// usersAtOnce of them: one step in an index finds each.
var nextUsers = fmt.Sprintf(`WITH RECURSIVE users (name, n) AS (SELECT (SELECT name FROM outbox
		WHERE hook = $1 AND dead = 0 AND name >= $2 ORDER BY name LIMIT 1), 1
	UNION ALL SELECT (SELECT outbox.name FROM outbox WHERE hook = $1 AND dead = 0
		AND outbox.name > users.name ORDER BY outbox.name LIMIT 1), n + 1
	FROM users WHERE users.name IS NOT NULL AND n < %d)`, usersAtOnce)

// Take leases messages for a hook, at most so many, for a while in which no other node gets them:
// of each user the one that has been due for longest, and then whosesoever have been. Users take
// turns, so that the backlog of one does not hold up the others. A message that is neither Delivered
// nor Failed by then is taken again: each is delivered at least once.
func (s *Store) Take(ctx context.Context, hook string, most int,
	while time.Duration) (taken []Message, err error) {
	from, many := s.outbox.turn(hook)
	var next string
	err = s.do(ctx, func(t tx) error {
		taken, next = nil, ""
		var r messageRow
		err := t.each(nextUsers+`, turns AS MATERIALIZED (SELECT id FROM (SELECT (SELECT id FROM outbox
				WHERE hook = $1 AND dead = 0 AND node = ''
				AND (outbox.name, until) BETWEEN (users.name, 0) AND (users.name, (SELECT @now))
				ORDER BY outbox.name, until LIMIT 1 @skip) AS id FROM users) AS firsts
				WHERE id IS NOT NULL LIMIT $3),
			due AS MATERIALIZED (SELECT id FROM outbox
				WHERE hook = $1 AND dead = 0 AND node = '' AND until <= (SELECT @now)
				ORDER BY until LIMIT $3 @skip),
			late AS MATERIALIZED (SELECT id FROM outbox
				WHERE hook = $1 AND dead = 0 AND node = '' AND until > (SELECT @now) + $5
				ORDER BY until LIMIT $3 @skip)
			UPDATE outbox SET until = @now + $4 WHERE id IN (SELECT id FROM turns
			UNION ALL SELECT id FROM due WHERE id NOT IN (SELECT id FROM turns)
			UNION ALL SELECT id FROM late LIMIT $3) RETURNING `+messageColumns,
			[]any{hook, named(from), most, while.Milliseconds(),
				max(2*while, longestHold).Milliseconds()}, r.fields(), func() {
				taken = append(taken, r.message())
				if r.User >= from {
					next = max(next, after(r.User))
				}
			})
		if err != nil || !many {
			return err
		}
		var last string // who comes after has had no turn, even if a place was left for one of theirs
		found, err := t.one(nextUsers+fmt.Sprintf(` SELECT name FROM users
			WHERE name IS NOT NULL AND n = %d`, usersAtOnce), []any{hook, named(from)}, &last)
		if found && (next == "" || next > after(last)) {
			next = after(last)
		}
		return err
	})
	if err == nil {
		s.outbox.mu.Lock()
		s.outbox.next[hook] = next
		s.outbox.mu.Unlock()
	}
	slices.SortFunc(taken, func(a, b Message) int { return a.Made.Compare(b.Made) })
	return taken, err
}

// after is the least name that comes after another.
func after(name string) string { return name + "\x00" }

// named is a name as an argument. In SQLite, rows of before there were names have an empty text,
// which comes before bytes.
func named(name string) any {
	if name == "" {
		return ""
	}
	return []byte(name)
}

// turn returns the least name of a user whose turn it is at a hook, and whether there may be more
// users than a statement looks at.
func (o *outbox) turn(hook string) (from string, many bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next[hook], o.waiting[hook] >= usersAtOnce
}

// Delivered removes a message from the outbox.
func (s *Store) Delivered(ctx context.Context, m Message) error {
	return s.do(ctx, func(t tx) error {
		return t.run(`DELETE FROM outbox WHERE id = $1`, m.ID)
	})
}

// Failed records that a message was not delivered, and why. It is taken again after a while, or, if
// its first try was then longer ago than giveUp, becomes a dead letter, all by the database's clock.
// The time before counts for nothing: there may have been no node to try it.
func (s *Store) Failed(ctx context.Context, m Message, again, giveUp time.Duration,
	why error) (dead bool, err error) {
	text := why.Error() // PostgreSQL takes no NUL, and only UTF-8
	text = strings.ReplaceAll(text[:min(len(text), longestError)], "\x00", "?")
	text = strings.ToValidUTF8(text, "?")
	var died int64
	err = s.do(ctx, func(t tx) error {
		died = 0
		_, steady, err := s.lookAtClock(t)
		if err != nil {
			return err
		}
		_, err = t.one(`UPDATE outbox SET tries = tries + 1, error = $1, until = @now + $2,
			failed = CASE WHEN failed BETWEEN made AND @now THEN failed ELSE @now END,
			dead = CASE WHEN $6 = 1 AND $2 + CASE WHEN failed BETWEEN made AND @now
				THEN @now - failed ELSE 0 END > $3 THEN @now ELSE 0 END
			WHERE id = $4 AND until = $5 RETURNING dead`, []any{text, again.Milliseconds(),
			giveUp.Milliseconds(), m.ID, m.lease, number(steady)}, &died)
		return err
	})
	return died > 0, err
}

// GiveBack ends the lease of a message that this node no longer tries to deliver.
func (s *Store) GiveBack(ctx context.Context, m Message) error {
	return s.do(ctx, func(t tx) error {
		return t.run(`UPDATE outbox SET until = @now WHERE id = $1 AND until = $2`, m.ID,
			m.lease)
	})
}

// lettersAtOnce is how many dead letters a statement reads.
const lettersAtOnce = 5000

// DeadLetters calls one for each dead letter, the oldest first. It reads some at a time: all of
// them may not come in time, and a transaction may be run again.
func (s *Store) DeadLetters(ctx context.Context, one func(Message)) error {
	last := messageRow{}
	for {
		var page []Message
		if err := s.do(ctx, func(t tx) error {
			var r messageRow
			page = nil
			return t.each(`SELECT `+messageColumns+` FROM outbox WHERE dead > 0 AND (made > $1
				OR made = $1 AND id > $2) ORDER BY made, id LIMIT $3`,
				[]any{last.made, last.ID, lettersAtOnce}, r.fields(), func() {
					page = append(page, r.message())
				})
		}); err != nil {
			return err
		}
		for _, m := range page {
			one(m)
		}
		if len(page) < lettersAtOnce {
			return nil
		}
		last.Message = page[len(page)-1]
		last.made = last.Made.UnixMilli()
	}
}

// ErrNoLetter is the error of a change to a dead letter that does not exist.
var ErrNoLetter = errors.New("there is no such dead letter")

// Replay lets dead letters be delivered again: all of a hook, or the one with an ID.
func (s *Store) Replay(ctx context.Context, hookOrID string) (n int64, err error) {
	return s.changeLetters(ctx, `UPDATE outbox SET dead = 0, tries = 0, made = @now, until = @now`,
		hookOrID)
}

// Drop removes dead letters: all of a hook, or the one with an ID.
func (s *Store) Drop(ctx context.Context, hookOrID string) (n int64, err error) {
	return s.changeLetters(ctx, `DELETE FROM outbox`, hookOrID)
}

// changeLetters changes dead letters, some at a time, since there may be many.
func (s *Store) changeLetters(ctx context.Context, change, hookOrID string) (n int64, err error) {
	const some = 100
	for rows := int64(some); rows == some; n += rows {
		if err := s.do(ctx, func(t tx) (err error) {
			rows, err = t.exec(change+` WHERE id IN (SELECT id FROM outbox WHERE dead > 0
				AND (hook = $1 OR id = $1) LIMIT $2)`, hookOrID, some)
			return err
		}); err != nil {
			return n, err
		}
	}
	if n == 0 {
		return 0, ErrNoLetter
	}
	return n, nil
}
