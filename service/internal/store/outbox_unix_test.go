//go:build unix

package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// take takes a message for a hook as soon as there is one.
func take(t *testing.T, s *Store, hook string) (m Message) {
	t.Helper()
	testenv.Until(t, "a message for "+hook, func() bool {
		taken, err := s.Take(t.Context(), hook, 1, time.Hour)
		must(t, err)
		if len(taken) > 0 {
			m = taken[0]
		}
		return len(taken) > 0
	})
	return m
}

// fail records a failure, after which a message is taken again if it is not older than giveUp.
func fail(t *testing.T, s *Store, m Message, giveUp time.Duration, why string) {
	t.Helper()
	_, err := s.Failed(t.Context(), m, 0, giveUp, errors.New(why))
	must(t, err)
}

// none fails if there is a message for a hook.
func none(t *testing.T, s *Store, hook string) {
	t.Helper()
	if taken, err := s.Take(t.Context(), hook, 1, time.Hour); err != nil || len(taken) > 0 {
		t.Fatalf("taken %+v, %v", taken, err)
	}
}

func testOutbox(t *testing.T, name string) {
	one, two := patient(t, name), patient(t, name)
	for i := range 4 {
		must(t, one.Post(t.Context(), Message{Hook: "h", Event: fmt.Sprint("a", i)},
			Message{Hook: "h", Event: fmt.Sprint("b", i)}, Message{Hook: "other"}))
	}
	seen := map[string]int{}
	var all []Message
	for i := range 8 {
		hold := time.Hour
		if i == 7 { // this one is to come again, and no other before
			hold = quick.tick
		}
		taken, err := []*Store{one, two}[i%2].Take(t.Context(), "h", 1, hold)
		must(t, err)
		for _, m := range taken {
			seen[m.Event]++
			all = append(all, m)
		}
	}
	if len(seen) != 8 || len(all) != 8 {
		t.Fatalf("taken: %v", seen)
	}
	for _, m := range all[:7] {
		must(t, two.Delivered(t.Context(), m))
	}
	testenv.Until(t, "what is not delivered comes again", func() bool {
		taken, err := two.Take(t.Context(), "h", 10, time.Hour)
		must(t, err)
		return len(taken) == 1 && taken[0].ID == all[7].ID
	})
	// One who has lost the message to another does not decide what becomes of it.
	fail(t, one, all[7], -time.Hour, "late")
	must(t, one.GiveBack(t.Context(), all[7]))
	must(t, one.DeadLetters(t.Context(), func(m Message) { t.Errorf("a dead letter: %+v", m) }))
	none(t, two, "h")
	testenv.Until(t, "it is counted", func() bool { return two.Waiting()["other"] == 4 })
}

// testTakeWithAnyPlan: no more messages are taken than were asked for, whatever PostgreSQL takes
// for the cheapest way.
func testTakeWithAnyPlan(t *testing.T, name string) {
	if strings.HasPrefix(name, "postgres:") {
		for _, plan := range []string{"hashagg", "hashjoin", "mergejoin", "sort", "material"} {
			name += "&enable_" + plan + "=off"
		}
	}
	s := still(t, name)
	for range 9 {
		must(t, s.Post(t.Context(), Message{Hook: "h"}))
	}
	for _, want := range []int{2, 7} {
		taken, err := s.Take(t.Context(), "h", want, time.Hour)
		if err != nil || len(taken) != want {
			t.Errorf("taken %d of %d, %v", len(taken), want, err)
		}
	}
}

// testUsersTakeTurns: the backlog of one user, new or replayed, does not hold up the events of others,
// whatever their names; those of each come in their order.
func testUsersTakeTurns(t *testing.T, name string) {
	s := still(t, name)
	post := func(user string, n int) {
		for range n {
			must(t, s.Post(t.Context(), Message{Hook: "h", User: user, Event: user}))
		}
	}
	made := map[string]time.Time{}
	takeSome := func(most int) (users []string) {
		taken, err := s.Take(t.Context(), "h", most, time.Hour)
		must(t, err)
		for _, m := range taken {
			if users = append(users, m.User); m.Event != m.User || m.Made.Before(made[m.User]) {
				t.Errorf("an event of %q at %s, as one of %q after %s", m.Event, m.Made, m.User,
					made[m.User])
			}
			made[m.User] = m.Made
		}
		return users
	}
	users := []string{"a", "B", "c", "z", "é"}
	post("a", 60)
	for _, user := range users[1:] {
		post(user, 4)
	}
	for _, most := range []int{1, 4} {
		seen := map[string]bool{}
		for n := 0; n < 12; n += most {
			for _, user := range takeSome(most) {
				seen[user] = true
			}
		}
		if len(seen) != len(users) {
			t.Errorf("%d at once: those of %v are taken first", most, seen)
		}
	}
	for takeSome(10) != nil {
	}
	must(t, s.do(t.Context(), func(t tx) error {
		return t.run(`UPDATE outbox SET dead = @now`)
	}))
	_, err := s.Replay(t.Context(), "h")
	must(t, err)
	post("b", 1)
	if users := append(takeSome(4), takeSome(4)...); !slices.Contains(users, "b") {
		t.Errorf("taken after a replay: those of %v", users)
	}

	// More users than a statement looks at have messages that are not due yet.
	for i := range usersAtOnce + 50 {
		post(fmt.Sprint("k", i), 1)
	}
	must(t, s.do(t.Context(), func(t tx) error {
		return t.run(`UPDATE outbox SET until = @now + 60000 WHERE name >= $1`, []byte("k"))
	}))
	post("zz", 1)
	s.outbox.count(t.Context(), s)
	var taken []string
	for range 10 {
		taken = append(taken, takeSome(1)...)
	}
	if !slices.Contains(taken, "zz") {
		t.Errorf("taken beside many who wait for another try: those of %v", taken)
	}
}

// testTurnsOfAll: a backlog holds up neither the events of users who come after more than one
// statement looks at, nor those that a node has posted which knows no users.
func testTurnsOfAll(t *testing.T, name string) {
	s := still(t, name)
	for i := range usersAtOnce + 50 {
		must(t, s.Post(t.Context(), Message{Hook: "h", User: fmt.Sprint("k", i)}))
	}
	must(t, s.do(t.Context(), func(t tx) error {
		err := t.run(`UPDATE outbox SET until = @now + 60000`) // of another try
		return err
	}))
	for range 50 {
		must(t, s.Post(t.Context(), Message{Hook: "h", User: "zz"}))
	}
	must(t, s.Post(t.Context(), Message{Hook: "h", User: "m"}))
	must(t, s.do(t.Context(), func(t tx) error {
		return t.run(`INSERT INTO outbox (id, made, until, event, hook)
			VALUES ('older', @now, @now, '', 'h')`)
	}))
	s.outbox.count(t.Context(), s)
	seen := map[string]bool{}
	for range 12 {
		taken, err := s.Take(t.Context(), "h", 1, time.Hour)
		must(t, err)
		for _, m := range taken {
			seen[m.User] = true
		}
	}
	if !seen["m"] || !seen[""] {
		t.Errorf("taken beside a backlog: those of %v", seen)
	}
}

// testNothingIsCompiled: PostgreSQL does not compile a statement, which takes long, since it has to
// sort although it is told not to.
func testNothingIsCompiled(t *testing.T, name string) {
	s := still(t, name)
	if s.db.postgres == "" {
		return // SQLite compiles nothing
	}
	var line, plan string
	must(t, s.do(t.Context(), func(t tx) error {
		return t.each(`EXPLAIN ANALYZE SELECT event FROM outbox ORDER BY event`, nil, []any{&line},
			func() { plan += line + "\n" })
	}))
	if plan == "" || strings.Contains(plan, "JIT") {
		t.Errorf("the plan is:\n%s", plan)
	}
}

func testDeadLetters(t *testing.T, name string) {
	s := still(t, name)
	must(t, s.Post(t.Context(), Message{Hook: "h", Event: "e"}))
	first := take(t, s, "h")
	fail(t, s, first, time.Hour, "no\x00 \xffanswer")
	again := take(t, s, "h")
	if again.ID != first.ID || again.Tries != 1 || again.Error != "no? ?answer" ||
		!again.Made.Equal(first.Made) {
		t.Errorf("%+v after %+v", again, first)
	}
	must(t, s.GiveBack(t.Context(), again))
	again = take(t, s, "h")
	if again.Tries != 1 {
		t.Errorf("giving it back counts: %+v", again)
	}
	fail(t, s, again, -time.Hour, "gone")
	none(t, s, "h")
	var dead []Message
	list := func() []Message {
		dead = nil
		must(t, s.DeadLetters(t.Context(), func(m Message) { dead = append(dead, m) }))
		return dead
	}
	if list(); len(dead) != 1 || dead[0].Tries != 2 || dead[0].Error != "gone" ||
		dead[0].Died.IsZero() || dead[0].Event != "e" {
		t.Fatalf("dead letters: %+v", dead)
	}
	if _, err := s.Replay(t.Context(), "nothing"); err != ErrNoLetter {
		t.Errorf("replayed nothing: %v", err)
	}
	for _, which := range []string{"h", first.ID} {
		if n, err := s.Replay(t.Context(), which); err != nil || n != 1 {
			t.Fatalf("replayed %d, %v", n, err)
		}
		replayed := take(t, s, "h")
		if replayed.ID != first.ID || replayed.Tries != 0 {
			t.Errorf("replayed: %+v", replayed)
		}
		fail(t, s, replayed, -time.Hour, "gone again")
	}
	if n, err := s.Drop(t.Context(), "h"); err != nil || n != 1 || len(list()) > 0 {
		t.Errorf("dropped %d, %v, leaves %+v", n, err, dead)
	}

	const many = lettersAtOnce + 250
	for range many / 50 {
		must(t, s.Post(t.Context(), make([]Message, 50)...))
	}
	must(t, s.do(t.Context(), func(t tx) error {
		return t.run(`UPDATE outbox SET dead = @now`)
	}))
	seen := map[string]bool{}
	must(t, s.DeadLetters(t.Context(), func(m Message) {
		if len(seen) == 0 { // no transaction is open, which might be run again
			_, _, err := s.LatestDead(t.Context(), 1)
			must(t, err)
		}
		seen[m.ID] = true
	}))
	if len(seen) != many {
		t.Errorf("%d dead letters of %d", len(seen), many)
	}
	if n, err := s.Drop(t.Context(), ""); err != nil || n != many {
		t.Errorf("dropped %d of %d, %v", n, many, err)
	}
}

// testGivenUpFromFirstTry: a message that has waited for long, since no node was there, is tried for
// as long as any other.
func testGivenUpFromFirstTry(t *testing.T, name string) {
	s := still(t, name)
	must(t, s.Post(t.Context(), Message{Hook: "h"}))
	age(t, s, "made", 48*time.Hour)
	fail(t, s, take(t, s, "h"), 24*time.Hour, "the first try")
	age(t, s, "failed", 23*time.Hour)
	fail(t, s, take(t, s, "h"), 24*time.Hour, "a later one")
	if dead := deadLetters(t, s); len(dead) > 0 {
		t.Fatalf("given up: %+v", dead)
	}
	age(t, s, "failed", 2*time.Hour)
	fail(t, s, take(t, s, "h"), 24*time.Hour, "the last one")
	if dead := deadLetters(t, s); len(dead) != 1 {
		t.Fatalf("dead letters: %+v", dead)
	}
	_, err := s.Replay(t.Context(), "h")
	must(t, err)
	fail(t, s, take(t, s, "h"), 24*time.Hour, "the first one again")
	if dead := deadLetters(t, s); len(dead) > 0 {
		t.Errorf("given up after one try: %+v", dead)
	}
}

// age makes the messages older.
func age(t *testing.T, s *Store, column string, by time.Duration) {
	t.Helper()
	must(t, s.do(t.Context(), func(t tx) error {
		return t.run(`UPDATE outbox SET `+column+` = `+column+` - $1`, by.Milliseconds())
	}))
}

func deadLetters(t *testing.T, s *Store) (dead []Message) {
	t.Helper()
	must(t, s.DeadLetters(t.Context(), func(m Message) { dead = append(dead, m) }))
	return dead
}

// testGoneHooks: what waits for a hook that nobody has, and what has been dead for long, goes. What
// waits for a hook that has too much to do, or after all nodes were away for long, stays.
func testGoneHooks(t *testing.T, name string) {
	s := still(t, name)
	for range 3 {
		must(t, s.Post(t.Context(), Message{Hook: "h"}))
	}
	age(t, s, "made", 2*longestAlive)
	age(t, s, "until", 2*longestAlive)
	take(t, s, "h")
	must(t, s.do(t.Context(), func(t tx) error { return giveUp(t, "h") }))
	if dead := deadLetters(t, s); len(dead) > 0 {
		t.Errorf("given up while the hook takes others: %+v", dead)
	}
	age(t, s, "until", 2*longestAlive)

	times := quick
	times.clean = 0
	back := timedNode(t, name, times) // after a long time without any
	for i := range 2 {                // the second time the node has cleaned once
		id := fmt.Sprint("announced", i)
		must(t, s.do(t.Context(), func(t tx) error {
			return insert(t, "of before", []Message{{ID: id, Hook: "other"}})
		}))
		testenv.Until(t, "the node works", func() bool {
			return s.count(t, `SELECT count(*) FROM outbox WHERE id = $1 AND node = ''`,
				id+early) == 1
		})
	}
	if dead := deadLetters(t, s); len(dead) > 0 {
		t.Errorf("given up before nodes with the hook can be back: %+v", dead)
	}
	must(t, back.Close())

	must(t, s.do(t.Context(), func(t tx) error { return giveUp(t, "h") }))
	dead := deadLetters(t, s)
	if len(dead) != 3 || dead[0].Hook != "h" || dead[0].Error == "" {
		t.Errorf("dead letters: %+v", dead)
	}
	age(t, s, "dead", longestDead+time.Hour)
	must(t, s.do(t.Context(), cleanOutbox))
	if dead := deadLetters(t, s); len(dead) > 0 {
		t.Errorf("kept for ever: %+v", dead)
	}
}

func testAnnounced(t *testing.T, name string) {
	one, two := patient(t, name), patient(t, name)
	announce := func(event string) func(Outcome) {
		end, err := one.Announce(t.Context(), Message{Hook: "h", Event: event})
		must(t, err)
		return end
	}
	made, not := announce("made"), announce("not made")
	none(t, two, "h")
	not(NotMade)
	made(Made)
	if m := take(t, two, "h"); m.Event != "made" || m.Unsure {
		t.Errorf("%+v", m)
	}
	none(t, two, "h")
	announce("failed")(Unsure)
	if m := take(t, two, "h"); m.Event != "failed" || !m.Unsure {
		t.Errorf("%+v", m)
	}

	// A node that is only taken for dead makes the change later: then it is told again.
	for outcome, unsure := range map[Outcome]bool{Made: false, Unsure: true} {
		slow := announce("slow")
		must(t, two.do(t.Context(), func(t tx) error {
			if err := t.run(`DELETE FROM nodes WHERE node = $1`, one.node); err != nil {
				return err
			}
			return adopt(t)
		}))
		early := take(t, two, "h")
		if early.Event != "slow" || !early.Unsure {
			t.Errorf("early: %+v", early)
		}
		must(t, two.Delivered(t.Context(), early))
		slow(outcome)
		if m := take(t, two, "h"); m.Event != "slow" || m.Unsure != unsure || m.ID == early.ID {
			t.Errorf("late: %+v, want unsure: %t", m, unsure)
		}
		testenv.Until(t, "the node is back", func() bool {
			found := false
			must(t, two.do(t.Context(), func(t tx) (err error) {
				found, err = t.one(`SELECT node FROM nodes WHERE node = $1`, []any{one.node},
					new(string))
				return err
			}))
			return found
		})
	}

	announce("killed")
	one.kill()
	node(t, name) // takes it for dead
	if m := take(t, two, "h"); m.Event != "killed" || !m.Unsure {
		t.Errorf("after the node was killed: %+v", m)
	}
}

func testOutboxInAnOutage(t *testing.T, name string) {
	s := patient(t, name)
	finish, err := s.Announce(t.Context(), Message{Hook: "h", Event: "announced before"})
	must(t, err)
	undo, err := s.Announce(t.Context(), Message{Hook: "h", Event: "not made"})
	must(t, err)
	end := outage(t, s)
	defer end()
	finish(Made) // takes until the store is known to be down
	undo(NotMade)
	if !s.Down() {
		t.Error("the store is not down")
	}
	if _, err := s.Announce(t.Context(), Message{Hook: "h"}); !errors.Is(err, ErrDown) {
		t.Errorf("announced without the store: %v", err)
	}
	must(t, s.Post(t.Context(), Message{Hook: "h", Event: "posted during"}))
	many := make([]Message, mostUnsent)
	if err := s.Post(t.Context(), many...); !errors.Is(err, ErrDown) {
		t.Errorf("the node's memory has no end: %v", err)
	}
	end()
	testenv.Until(t, "the store answers", func() bool { return !s.Down() })
	seen := map[string]bool{}
	for range 2 {
		seen[take(t, s, "h").Event] = true
	}
	if !seen["announced before"] || !seen["posted during"] {
		t.Errorf("delivered: %v", seen)
	}
	none(t, s, "h")
	// No more than so many wait.
	s.stop() // so that nobody counts
	s.ended.Wait()
	s.outbox.mu.Lock()
	s.outbox.sizes = map[string]int64{"h": mostWaiting}
	s.outbox.mu.Unlock()
	err = s.Post(t.Context(), Message{Hook: "h"})
	if _, also := s.Announce(t.Context(), Message{Hook: "h"}); err != ErrFull || also != ErrFull {
		t.Errorf("one more than may wait: %v, %v", err, also)
	}
}

// testShareOfAUser: one user's events do not fill up a hook that is away, so that all other users'
// changes would fail; once few wait the user may go on.
func testShareOfAUser(t *testing.T, name string) {
	s := still(t, name)
	busy := Message{Hook: "h", User: "busy"}
	posts := func(when string, waiting int64, m Message, want error) {
		t.Helper()
		s.outbox.mu.Lock()
		s.outbox.sizes = map[string]int64{"h": waiting}
		s.outbox.mu.Unlock()
		if err := s.Post(t.Context(), m); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	s.outbox.added["h"] = map[string]int64{"busy": mostOfUser - 2}
	posts("the last but one", mostWaiting/2, busy, nil)
	posts("the last", mostWaiting/2, busy, nil)
	posts("one more", mostWaiting/2, busy, ErrFull)
	posts("of another user", mostWaiting/2, Message{Hook: "h", User: "other"}, nil)
	posts("for another hook", mostWaiting/2, Message{Hook: "other", User: "busy"}, nil)
	posts("while fewer wait", mostWaiting/2-1, busy, nil)
	s.outbox.count(t.Context(), s) // in fact few wait
	posts("after few have waited", mostWaiting/2, busy, nil)

	// Long messages count for more.
	long := Message{Hook: "long", User: "busy", Event: strings.Repeat("x", 10<<10)}
	posts("a long one", 0, long, nil)
	if n := s.outbox.added["long"]["busy"]; n != 11 {
		t.Errorf("10 KiB count for %d", n)
	}
	s.outbox.count(t.Context(), s)
	if n, size := s.Waiting()["long"], s.outbox.sizes["long"]; n != 1 || size != 11 {
		t.Errorf("%d messages wait, which count for %d", n, size)
	}
}

// testUnsentOfAUser: in an outage one user's events, or long ones, do not take all of the memory
// that there is for those of all.
func testUnsentOfAUser(t *testing.T, name string) {
	s := still(t, name)
	s.fell(errors.New("an outage"))
	posts := func(when string, m Message, many int, want error) {
		t.Helper()
		messages := make([]Message, many)
		for i := range messages {
			messages[i] = m
		}
		if err := s.Post(t.Context(), messages...); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	long := Message{Hook: "h", User: "busy", Event: strings.Repeat("x", 9<<10)}
	posts("more than there is room for", long, mostUnsent/10+1, ErrDown)
	posts("half of it", long, mostUnsent/20, nil)
	posts("one more", Message{Hook: "h", User: "busy"}, 1, ErrDown)
	posts("of another user", Message{Hook: "h", User: "other"}, mostUnsentOfUser, nil)
	posts("one more of the other", Message{Hook: "h", User: "other"}, 1, ErrDown)
}

// testOldLetters: the oldest dead letters are removed once all take too much room.
func testOldLetters(t *testing.T, name string) {
	s := still(t, name)
	for age, text := range []string{"newest", strings.Repeat("x", 10<<10), "oldest"} {
		must(t, s.do(t.Context(), func(t tx) error {
			if err := insert(t, "", []Message{{ID: fmt.Sprint(age), Event: text}}); err != nil {
				return err
			}
			return t.run(`UPDATE outbox SET dead = @now - $1 WHERE dead = 0`, 1000*age)
		}))
	}
	for _, c := range []struct{ most, left int64 }{{13, 3}, {12, 2}, {11, 1}, {0, 0}} {
		must(t, s.do(t.Context(), func(t tx) error { return trimLetters(t, c.most) }))
		if n := s.count(t, `SELECT count(*) FROM outbox`); int64(n) != c.left {
			t.Errorf("%d are left of what may count for %d, not %d", n, c.most, c.left)
		}
	}
}

// testEndAfterAnOutage: a node that ends before it has found out that the store is back tells it
// everything.
func testEndAfterAnOutage(t *testing.T, name string) {
	s := still(t, name)
	ended, err := s.Announce(t.Context(), Message{Hook: "h", Event: "announced"})
	must(t, err)
	s.fell(errors.New("away"))
	ended(Made)
	must(t, s.Post(t.Context(), Message{Hook: "h", Event: "posted"}))
	s.Record(Record{Time: time.Now(), Kind: "recorded"})
	must(t, s.Close())
	other, seen := still(t, name), map[string]bool{}
	for range 2 {
		m := take(t, other, "h")
		seen[m.Event] = !m.Unsure
	}
	if !seen["announced"] || !seen["posted"] {
		t.Errorf("delivered: %v", seen)
	}
	recorded := 0
	must(t, other.Records(t.Context(), "", time.Time{}, time.Time{}, func(Record) error {
		recorded++
		return nil
	}))
	if recorded != 1 {
		t.Errorf("%d records are in the trail", recorded)
	}
}

// lossy is a database whose answer to a COMMIT is lost.
type lossy struct {
	database driver.Driver
	name     string
}

func (l *lossy) Driver() driver.Driver { return l.database }

func (l *lossy) Connect(context.Context) (driver.Conn, error) {
	conn, err := l.database.Open(l.name)
	return lossyConn{conn}, err
}

type lossyConn struct{ driver.Conn }

func (c lossyConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	begun, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return lossyTx{begun}, err
}

type lossyTx struct{ driver.Tx }

func (l lossyTx) Commit() error {
	return errors.Join(l.Tx.Commit(), errors.New("the connection is lost"))
}

// TestRefusedForALostAnswer: a change that was refused because the store did not answer is not
// announced in the end, although the store has heard of it.
func TestRefusedForALostAnswer(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "store.db")
	s := silentNode(t, name)
	sound := s.db.DB
	s.db.DB = sql.OpenDB(&lossy{s.db.Driver(), name})
	_, err := s.Announce(t.Context(), Message{Hook: "h", Event: "refused"})
	s.db.DB.Close()
	s.db.DB = sound
	s.up()
	if n := s.count(t, `SELECT count(*) FROM outbox`); err == nil || n != 1 {
		t.Fatalf("announced: %v; the store has %d", err, n)
	}
	s.outbox.flush(t.Context(), s)
	if n := s.count(t, `SELECT count(*) FROM outbox`); n != 0 {
		t.Errorf("the store still has %d events that did not happen", n)
	}
}

// TestLostAnswerOfAnOutcome: an event whose outcome is told twice, since the store's answer was
// lost, has the same ID if it is delivered twice.
func TestLostAnswerOfAnOutcome(t *testing.T) {
	t.Parallel()
	for _, outcome := range []Outcome{Made, Unsure} {
		for _, delivered := range []bool{false, true} {
			name := filepath.Join(t.TempDir(), "store.db")
			s := silentNode(t, name)
			end, err := s.Announce(t.Context(), Message{Hook: "h"})
			must(t, err)
			sound := s.db.DB
			s.db.DB = sql.OpenDB(&lossy{s.db.Driver(), name})
			end(outcome)
			s.db.DB.Close()
			s.db.DB = sound
			s.up()
			ids := map[string]bool{}
			if delivered {
				m := take(t, s, "h")
				ids[m.ID] = true
				must(t, s.Delivered(t.Context(), m))
			}
			s.outbox.flush(t.Context(), s)
			taken, err := s.Take(t.Context(), "h", 9, time.Hour)
			must(t, err)
			for _, m := range taken {
				ids[m.ID] = true
			}
			if len(ids) != 1 || len(taken) > 1 {
				t.Errorf("outcome %d, delivered: %t: IDs %v, %d at the end", outcome, delivered,
					ids, len(taken))
			}
		}
	}
}

// testCountBesideFlush: counting has no transaction open while it waits for its turn. One file has
// one connection, for which whoever has the turn may wait.
func testCountBesideFlush(t *testing.T, name string) {
	s := silentNode(t, name)
	before := s.Statements()
	s.outbox.mu.Lock()
	var counted sync.WaitGroup
	counted.Go(func() { s.outbox.count(t.Context(), s) })
	testenv.Until(t, "messages are counted", func() bool { return s.Statements() > before })
	err := s.do(t.Context(), func(t tx) error { return insert(t, "", []Message{{ID: "id"}}) })
	s.outbox.mu.Unlock()
	counted.Wait()
	must(t, err)
}

// TestLostAnswerOfACount: a change of a count is made once, although the store's answer is lost,
// and users with other limits change it, too.
func TestLostAnswerOfACount(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "store.db")
	s := silentNode(t, name)
	a, b := s.Account(t.Context(), "/srv", 0, 0), s.Account(t.Context(), "/srv", 9000, 0)
	count(t, a, 5000, 50)
	sound := s.db.DB
	s.db.DB = sql.OpenDB(&lossy{s.db.Driver(), name})
	s.db.SetMaxOpenConns(1)
	a.Settle(-1000, -1)
	a.flush(t.Context(), true)
	must(t, s.db.DB.Close())
	s.db.DB = sound
	if !s.Down() {
		t.Fatal("the answer is not lost")
	}
	b.Settle(-200, -1)
	b.flush(t.Context(), true) // not sent
	must(t, s.join(t.Context()))
	b.flush(t.Context(), true)
	a.flush(t.Context(), true)
	if now := a.Usage(); now.Bytes != 3800 || now.Files != 48 {
		t.Errorf("counted %+v here", now)
	}
	var bytes int64
	must(t, s.do(t.Context(), func(t tx) error {
		_, err := t.one(`SELECT bytes FROM quotas`, nil, &bytes)
		return err
	}))
	if bytes != 3800 {
		t.Errorf("%d bytes are counted", bytes)
	}
}
