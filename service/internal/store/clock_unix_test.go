//go:build unix

package store

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/sshd"
)

// jump sets the database's clock forward or back, as this node sees it, which then does nothing in
// the background: a still one listens for notices, and asks for what it has missed.
func (s *Store) jump(by time.Duration) {
	s.stop()
	s.ended.Wait()
	now := s.db.words
	s.db.words = strings.NewReplacer("@skip", now.Replace("@skip"), "$", now.Replace("$"), "@now",
		fmt.Sprintf("(%s + (%d))", now.Replace("@now"), by.Milliseconds()))
}

// testClockForward: nodes are not taken for dead because the database's clock, or all machines
// together, have jumped. One that then gives no sign of life is.
func testClockForward(t *testing.T, name string) {
	alive, other := still(t, name), still(t, name)
	must(t, other.do(t.Context(), other.bury))
	must(t, alive.live(t.Context(), alive.do))
	must(t, other.do(t.Context(), other.bury))
	if alive.gone(t) {
		t.Skip("the machine is too busy")
	}
	alive.jump(time.Hour)
	other.jump(time.Hour)
	must(t, other.live(t.Context(), other.do))
	must(t, other.do(t.Context(), other.bury))
	if alive.gone(t) {
		t.Error("a node is taken for dead since the clock has jumped")
	}
	testenv.Until(t, "it is dead", func() bool {
		must(t, other.do(t.Context(), other.bury))
		return alive.gone(t)
	})
}

// testClocksApart: who runs a node whose clock is wrong reads it in one line, and in one more when it
// is right, but in none if a clock that drifts is sometimes just within the limit.
func testClocksApart(t *testing.T, name string) {
	var log strings.Builder
	times := quick
	times.tick, times.beat, times.patience = time.Hour, time.Hour, time.Minute
	s, err := open(t.Context(), name, slog.New(slog.NewTextHandler(&log, nil)), times)
	must(t, err)
	defer s.Close()
	most := mostApart
	for _, by := range []time.Duration{0, -time.Hour, time.Hour - most + 10*time.Second, -most, most,
		most - 10*time.Second, 48 * time.Hour, -48 * time.Hour} {
		s.jump(by)
		for range 2 {
			must(t, s.do(t.Context(), s.bury))
		}
	}
	said := regexp.MustCompile(`machine's clock .*`).FindAllString(log.String(), -1)
	for i, want := range []string{"is ahead of the database's: .* by=1h0m", "no longer differs",
		"is behind the database's: .* by=4[78]h", "no longer differs"} {
		if len(said) != 4 || !regexp.MustCompile(want).MatchString(said[i]) {
			t.Fatalf("the log says %q", said)
		}
	}
}

// testClockForwardAndAge: nothing is removed for its age while the database's clock may be wrong,
// since it has jumped by days.
func testClockForwardAndAge(t *testing.T, name string) {
	s := still(t, name)
	s.KeepRecords(90 * 24 * time.Hour)
	s.Record(Record{Time: time.Now(), Kind: "file closed"})
	s.trail.flush(t.Context(), s)
	must(t, s.Post(t.Context(), Message{Hook: "h"}, Message{Hook: "dead"}))
	fail(t, s, take(t, s, "h"), time.Hour, "why")
	fail(t, s, take(t, s, "dead"), -time.Hour, "why")
	wants := func(when string, want int64) {
		t.Helper()
		s.clean(t.Context())
		s.trail.clean(t.Context(), s)
		records := s.count(t, `SELECT count(*) FROM audit`)
		if dead := int64(len(deadLetters(t, s))); records != want || dead != want {
			t.Errorf("%s there are %d records and %d dead letters", when, records, dead)
		}
	}
	wants("at first", 1)
	for _, by := range []time.Duration{100, -100, 100} {
		s.jump(by * 24 * time.Hour)
		fail(t, s, take(t, s, "h"), time.Hour, "why")
		wants(fmt.Sprint("after a jump of ", by), 1)
	}
	for range 2 {
		s.jump(20 * time.Hour)
		s.clean(t.Context())
	}
	wants("after two days", 0)
	fail(t, s, take(t, s, "h"), time.Hour, "why")
	if dead := deadLetters(t, s); len(dead) != 1 {
		t.Errorf("tried for ever: %+v", dead)
	}
}

// testDaysAddUp: if no node ever runs for a whole day, data is removed for its age when the nodes
// have run for a day in all since the first long break. A jump while a node runs, or back, begins a
// new day.
func testDaysAddUp(t *testing.T, name string) {
	var off time.Duration
	run := func(hours, since time.Duration) *Store {
		s := still(t, name)
		off += since
		s.jump(off)
		_, _, err := s.Clock(t.Context())
		must(t, err)
		off += hours * time.Hour
		s.jump(hours * time.Hour)
		return s
	}
	steady := func(s *Store, when string, want bool) {
		t.Helper()
		if _, steady, err := s.Clock(t.Context()); err != nil || steady != want {
			t.Errorf("%s: %t, %v", when, steady, err)
		}
	}
	const days = 72 * time.Hour
	steady(run(9, 0), "at first", true)
	steady(run(9, days), "after 9 hours", false)
	steady(run(9, days), "after 18 hours", false)
	steady(run(9, days), "after 27 hours", true)
	steady(run(9, days), "9 hours after the next break", false)
	s := run(9, days)
	off += days
	s.jump(days)
	steady(s, "after a jump while it runs", false)
	steady(run(9, days), "9 hours later", false)
	steady(run(9, -days), "after one back", false)
	steady(run(20, days), "20 hours later", true)
}

// testClockBack: what a node held that has died is free soon, although the database's clock was set
// back since.
func testClockBack(t *testing.T, name string) {
	dead, buried, other := still(t, name), still(t, name), still(t, name)
	for _, s := range []*Store{dead, buried} {
		_, err := s.Objects("bucket").Lock(t.Context(), "name of "+s.node, "")
		must(t, err)
	}
	testenv.Until(t, "one is dead", func() bool {
		must(t, dead.live(t.Context(), dead.do))
		must(t, other.do(t.Context(), other.bury))
		return buried.gone(t)
	})
	_, err := buried.Objects("bucket").Lock(t.Context(), "another name", "") // and is then killed
	must(t, err)
	must(t, dead.live(t.Context(), dead.do))
	dead.kill()
	buried.kill()
	other.jump(-time.Hour)
	testenv.Until(t, "all is free", func() bool {
		must(t, other.do(t.Context(), other.bury))
		return other.count(t, `SELECT count(*) FROM uploads WHERE node <> ''`) == 0 &&
			other.count(t, `SELECT count(*) FROM nodes WHERE node <> $1`, other.node) == 0
	})
}

// testClockBackAndFailures: if the database's clock was set back, one more failure is no ban, a ban
// is no longer than it was to be, and codes are accepted.
func testClockBackAndFailures(t *testing.T, name string) {
	s := still(t, name)
	s.Bans().Failed(t.Context(), attacker, 1, &rules)
	must(t, s.PutSecret(t.Context(), "u", "secret", nil, false))
	code := func(n int64) func(string) (int64, bool) {
		return func(string) (int64, bool) { return n, n > 0 }
	}
	is(t, s.UseCode(t.Context(), "u", "", code(0)), errCodeWrong)
	banned := attacker
	banned.User = "u"
	must(t, s.Bans().Add(t.Context(), banned, time.Minute))
	s.jump(-3 * time.Hour)
	if _, ban := s.Bans().Failed(t.Context(), attacker, 1, &rules); ban > 0 {
		t.Errorf("the second failure is a ban of %s", ban)
	}
	must(t, s.UseCode(t.Context(), "u", "", code(1)))
	must(t, s.do(t.Context(), cleanBans))
	list, err := s.Bans().List(t.Context())
	if err != nil || len(list) != 1 || list[0].Left > time.Minute {
		t.Errorf("bans: %v, %v", list, err)
	}
}

// testClockBackAndMessages: messages do not wait for the time that the database's clock had before
// it was set back, and no other node gets what one is delivering.
func testClockBackAndMessages(t *testing.T, name string) {
	s := still(t, name)
	must(t, s.Post(t.Context(), Message{Hook: "h", Event: "new"}, Message{Hook: "h"}))
	fail(t, s, take(t, s, "h"), time.Hour, "why")
	s.jump(-3 * time.Hour)
	must(t, s.Post(t.Context(), Message{Hook: "h"}))
	for range 3 {
		taken, err := s.Take(t.Context(), "h", 1, time.Hour)
		if err != nil || len(taken) != 1 {
			t.Errorf("taken %+v, %v", taken, err)
		}
	}
	none(t, s, "h")
}

// testClockBackAndWork: work is done although the database's clock was set back, and users who
// moved bytes on another node before that do not count as moving them there.
func testClockBackAndWork(t *testing.T, name string) {
	s, other := silentNode(t, name), silentNode(t, name) // to which a row of now is no old one
	turn := func() bool {
		mine, err := s.Turn(t.Context(), "work", time.Minute)
		must(t, err)
		return mine
	}
	if !turn() || turn() {
		t.Error("turns are not kept")
	}
	for _, node := range []*Store{other, s} {
		must(t, node.Bandwidth("u", sshd.Rates{Send: 1000}).Send(t.Context(), 1))
		node.movers.share(t.Context())
		node.jump(-3 * time.Hour)
	}
	if !turn() || turn() {
		t.Error("nobody has a turn since the clock was set back")
	}
	must(t, s.Bandwidth("u", sshd.Rates{Send: 1000}).Send(t.Context(), 1))
	s.movers.share(t.Context())
	if n := s.movers.all["u"].nodes.Load(); n != 1 {
		t.Errorf("%d nodes share the bandwidth", n)
	}
	must(t, s.do(t.Context(), s.movers.clean))
	if n := s.count(t, `SELECT count(*) FROM movers`); n != 1 {
		t.Errorf("%d movers are left", n)
	}
}
