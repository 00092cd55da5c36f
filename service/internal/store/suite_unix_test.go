//go:build unix

package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// quick is for tests, which cannot wait for a node to be dead. But on a busy machine this process
// or PostgreSQL may pause for a second, and the store is not to be taken for down then.
var quick = times{tick: 20 * time.Millisecond, beat: 100 * time.Millisecond,
	dead: time.Second, stale: time.Second, active: 500 * time.Millisecond,
	clean: 100 * time.Millisecond, patience: 6 * time.Second}

// suite is what both databases must do. name names a new one.
var suite = map[string]func(t *testing.T, name string){
	"nodes that start at once": startAtOnce,
	"bans":                     testBans,
	"bans in between":          testBansInBetween,
	"sessions":                 testSessions,
	"sessions of a dead node":  testDeadNode,
	"a busy node":              testBusyNode,
	"what a session costs":     testSessionCosts,
	"a session ends at burial": testSessionEndsAtBurial,
	"killed after burial":      testKilledAfterBurial,
	"killed after forgotten":   testKilledAfterForgotten,
	"leases of the revived":    testLeasesOfTheRevived,
	"count of the killed":      testCountOfTheKilled,
	"quotas":                   testQuotas,
	"quotas over a restart":    testQuotasOverRestart,
	"small quotas":             testSmallQuotas,
	"quotas of one tree":       testQuotasOfOneTree,
	"refused at first":         testRefusedAtFirst,
	"totals in between":        testTotalsInBetween,
	"totals of others":         testOwnTotals,
	"bandwidth":                testBandwidth,
	"transfers":                testTransfers,
	"users":                    testUsers,
	"codes":                    testCodes,
	"passwords":                testPasswords,
	"outbox":                   testOutbox,
	"taken with any plan":      testTakeWithAnyPlan,
	"users take turns":         testUsersTakeTurns,
	"turns of all":             testTurnsOfAll,
	"nothing is compiled":      testNothingIsCompiled,
	"dead letters":             testDeadLetters,
	"given up from first try":  testGivenUpFromFirstTry,
	"messages of gone hooks":   testGoneHooks,
	"announced changes":        testAnnounced,
	"outbox in an outage":      testOutboxInAnOutage,
	"share of a user":          testShareOfAUser,
	"unsent of a user":         testUnsentOfAUser,
	"old letters":              testOldLetters,
	"counting and flushing":    testCountBesideFlush,
	"objects":                  testObjects,
	"objects of a dead node":   testObjectsOfADeadNode,
	"objects in an outage":     testObjectsInAnOutage,
	"end after an outage":      testEndAfterAnOutage,
	"statuses and orders":      testStatuses,
	"changes are known":        testChangesAreKnown,
	"latest dead letters":      testLatestDead,
	"turns":                    testTurns,
	"statements":               testStatements,
	"tables of before":         testTablesOfBefore,
	"count while others write": testCountWhileOthersUpload,
	"audit trail":              testTrail,
	"statements of a trail":    testStatementsOfTrail,
	"audit trail in an outage": testTrailInAnOutage,
	"rights are confirmed":     testConfirm,
	"a node that hangs":        testHungNode,
	"many users":               testManyUsers,
	"many missed events":       testManyMissed,
	"a node that pauses":       testPause,
	"outage":                   testOutage,
	"outage at the start":      testOutageAtStart,
	"nobody is in a hurry":     testEndOfCaller,
	"clock forward":            testClockForward,
	"clock forward, and age":   testClockForwardAndAge,
	"days add up":              testDaysAddUp,
	"clock back":               testClockBack,
	"clocks apart":             testClocksApart,
	"clock back, and failures": testClockBackAndFailures,
	"clock back, and messages": testClockBackAndMessages,
	"clock back, and work":     testClockBackAndWork,
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, filepath.Join(t.TempDir(), "a store%20?.db"))
		})
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	number := 0
	for name, test := range suite {
		number++
		database := fmt.Sprintf("test%d", number)
		if _, err := db.Exec("CREATE DATABASE " + database); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, url+"&dbname="+database)
		})
	}
}

// node opens a store as a node does, until the test ends. It takes nodes for dead that pause for a
// second, as they may on a busy machine, and itself, too.
func node(t *testing.T, name string) *Store {
	t.Helper()
	return timedNode(t, name, quick)
}

// timedNode works like node, with the given times.
func timedNode(t *testing.T, name string, times times) *Store {
	t.Helper()
	s, err := open(t.Context(), name, slog.New(slog.NewTextHandler(t.Output(), nil)), times)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// patient opens a node that takes nobody for dead.
func patient(t *testing.T, name string) *Store {
	t.Helper()
	times := quick
	times.dead = time.Minute
	return timedNode(t, name, times)
}

// still opens a node that does nothing in the background, and waits for the store for long.
func still(t *testing.T, name string) *Store {
	t.Helper()
	times := quick
	times.tick, times.beat, times.patience = time.Hour, time.Hour, time.Minute
	return timedNode(t, name, times)
}

// kill ends a node as kill -9 does.
func (s *Store) kill() {
	s.stop()
	s.ended.Wait()
	s.db.Close()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func startAtOnce(t *testing.T, name string) {
	times := quick
	times.patience = time.Minute // each may wait for all others
	var group sync.WaitGroup
	var stores [4]*Store
	for i := range stores {
		group.Go(func() {
			s, err := open(context.Background(), name, slog.New(slog.DiscardHandler), times)
			if err != nil {
				t.Error(err)
				return
			}
			stores[i] = s
		})
	}
	group.Wait()
	for _, s := range stores {
		if s == nil {
			continue
		}
		testenv.Until(t, "the store answers", func() bool { return !s.Down() })
		must(t, s.Close())
	}
}

// testTablesOfBefore: a node brings the tables of the version before up to date.
func testTablesOfBefore(t *testing.T, name string) {
	must(t, still(t, name).Close())
	db, err := openDatabase(name)
	must(t, err)
	defer db.Close()
	must(t, db.do(t.Context(), func(t tx) error {
		for _, statement := range []string{
			`ALTER TABLE uploads DROP COLUMN etag`,
			`ALTER TABLE uploads DROP COLUMN sealed`,
			`ALTER TABLE outbox DROP COLUMN failed`,
			`DROP INDEX outbox_turns`,
			`ALTER TABLE outbox DROP COLUMN name`,
			`DELETE FROM versions WHERE version >= 9`,
		} {
			if err := t.run(statement); err != nil {
				return err
			}
		}
		return t.run(`INSERT INTO uploads (bucket, name, fence, node, target, id, begun, closed,
			size, last, mtime, broken) VALUES ('b', $1, 7, '', $2, 'id', 1, 1, 1, 1, 1, 0)`,
			[]byte("f.filepart"), []byte("f"))
	}))
	found, err := still(t, name).Objects("b").Find(t.Context(), "f.filepart")
	if err != nil || found.ID != "id" || found.ETag != "" {
		t.Errorf("the upload of before: %+v, %v", found, err)
	}
}

var (
	attacker = sshd.Source{Network: netip.MustParsePrefix("192.0.2.7/32")}
	rules    = sshd.BanRules{AddressFailures: 10, First: time.Hour}.WithDefaults()
)

func testBans(t *testing.T, name string) {
	one, two := patient(t, name), patient(t, name)
	local := sshd.NewBanList()
	for i := range 10 {
		s := []*Store{one, two}[i%2]
		delay, ban := s.Bans().Failed(t.Context(), attacker, 1, &rules)
		wantDelay, wantBan := local.Failed(t.Context(), attacker, 1, &rules)
		if delay < wantDelay/2 || ban != wantBan {
			t.Errorf("failure %d: delay %s, ban %s; a server alone has %s, %s", i, delay, ban,
				wantDelay, wantBan)
		}
	}
	for _, s := range []*Store{one, two} {
		testenv.Until(t, "the ban holds", func() bool { return s.Bans().Banned(attacker) })
	}
	list, err := two.Bans().List(t.Context())
	if err != nil || len(list) != 1 || list[0].Source != attacker || list[0].Left > time.Hour ||
		list[0].Left < 30*time.Second {
		t.Errorf("%v, %v", list, err)
	}
	must(t, one.Close())
	one = patient(t, name)
	if !one.Bans().Banned(attacker) {
		t.Error("the ban is forgotten at a restart")
	}
	if banned, err := two.Bans().Lift(t.Context(), attacker); err != nil || !banned {
		t.Errorf("lifted %t, %v", banned, err)
	}
	for _, s := range []*Store{one, two} {
		testenv.Until(t, "the ban is lifted", func() bool { return !s.Bans().Banned(attacker) })
	}
	if _, ban := one.Bans().Failed(t.Context(), attacker, 1, &rules); ban > 0 {
		t.Error("the failures are not forgotten with the ban")
	}
	if banned, err := two.Bans().Lift(t.Context(), attacker); err != nil || banned {
		t.Errorf("lifted %t, %v", banned, err)
	}
	customer := sshd.Source{Network: netip.MustParsePrefix("2001:db8:1:2::/64")}
	must(t, two.Bans().Add(t.Context(), customer, time.Hour))
	testenv.Until(t, "the added ban holds", func() bool { return one.Bans().Banned(customer) })
	must(t, two.Bans().Add(t.Context(), customer, 100*time.Millisecond))
	testenv.Until(t, "the added ban ends", func() bool { return !one.Bans().Banned(customer) })

	// Bans of users, whatever they call themselves, are those of all nodes, and lifted with those
	// of the network, or alone.
	users := []sshd.Source{{Network: attacker.Network, User: "ann"},
		{Network: attacker.Network, User: "5 \"0\x00\xff"}}
	neighbour := sshd.Source{Network: netip.MustParsePrefix("192.0.2.70/32"), User: "ann"}
	for _, source := range append(users, neighbour) {
		for range 10 {
			one.Bans().Failed(t.Context(), source, 1, &rules)
		}
		testenv.Until(t, "the user's ban holds", func() bool { return two.Bans().Banned(source) })
	}
	if two.Bans().Banned(attacker) {
		t.Error("the network is banned for one user")
	}
	if list, err := two.Bans().List(t.Context()); err != nil || len(list) != 3 {
		t.Errorf("%v, %v", list, err)
	}
	if banned, err := two.Bans().Lift(t.Context(), users[1]); err != nil || !banned {
		t.Errorf("lifted %t, %v", banned, err)
	}
	testenv.Until(t, "one ban is lifted", func() bool {
		return !one.Bans().Banned(users[1]) && one.Bans().Banned(users[0])
	})
	if banned, err := two.Bans().Lift(t.Context(), attacker); err != nil || !banned {
		t.Errorf("lifted %t, %v", banned, err)
	}
	testenv.Until(t, "all of the network are", func() bool { return !one.Bans().Banned(users[0]) })
	must(t, one.do(t.Context(), cleanBans))
	if list, err := one.Bans().List(t.Context()); err != nil || len(list) != 1 ||
		list[0].Source != neighbour {
		t.Errorf("what is left: %v, %v", list, err)
	}
}

// between is what runs a transaction's queries, and does something before a result is read.
type between struct {
	queries
	do func()
}

func (b between) QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows,
	error) {
	rows, err := b.queries.QueryContext(ctx, statement, args...)
	b.do()
	return rows, err
}

// testBansInBetween: what a node hears of a ban while it reads all of them is not forgotten.
func testBansInBetween(t *testing.T, name string) {
	s := silentNode(t, name)
	for _, ban := range []time.Duration{time.Hour, 0} {
		must(t, s.do(t.Context(), func(all tx) error {
			all.queries = between{all.queries, func() { s.bans.set(attacker, ban) }}
			return s.bans.read(all)
		}))
		if s.Bans().Banned(attacker) != (ban > 0) {
			t.Errorf("a ban for %s: banned is %t", ban, ban == 0)
		}
		must(t, s.Bans().Add(t.Context(), attacker, time.Hour)) // which is then lifted
	}
}

func testSessions(t *testing.T, name string) {
	const most = 5
	nodes := []sshd.Sessions{patient(t, name).Sessions("u", most), patient(t, name).Sessions("u", most)}
	var in, refused atomic.Int64
	var group sync.WaitGroup
	ends := make(chan func(), 40)
	for i := range cap(ends) {
		group.Go(func() {
			end, err := nodes[i%2].Begin(t.Context())
			switch {
			case err == nil:
				in.Add(1)
				ends <- end
			case err.Error() == "too many sessions of the user":
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if in.Load() != most || refused.Load() != int64(cap(ends))-most {
		t.Fatalf("%d sessions, %d refused", in.Load(), refused.Load())
	}
	(<-ends)()
	end, err := nodes[1].Begin(t.Context())
	if err != nil {
		t.Fatalf("after one has ended: %v", err)
	}
	end()
	end() // counts once
	for _, s := range nodes[:1] {
		if end, err = s.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := nodes[1].Begin(t.Context()); err == nil {
		t.Error("one session too many")
	}
	end()
}

func testDeadNode(t *testing.T, name string) {
	dead, other := still(t, name), node(t, name)
	for range 2 {
		if _, err := dead.Sessions("u", 2).Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	must(t, dead.live(t.Context(), dead.do)) // its last sign of life
	last := other.count(t, `SELECT seen FROM nodes WHERE node = $1`, dead.node)
	dead.kill()
	testenv.Until(t, "the dead node's sessions are free", func() bool {
		end, err := other.Sessions("u", 2).Begin(t.Context())
		if err == nil {
			end()
		}
		return err == nil
	})
	if took := other.count(t, `SELECT @now`) - last; took < quick.dead.Milliseconds() {
		t.Errorf("its sessions were free %d ms after its last sign of life", took)
	}
	// One that was only taken for dead counts its sessions again.
	slow := node(t, name)
	if _, err := slow.Sessions("u", 2).Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, other.do(t.Context(), func(t tx) error {
		if err := t.run(`DELETE FROM nodes WHERE node = $1`, slow.node); err != nil {
			return err
		}
		return forget(t, slow.node)
	}))
	testenv.Until(t, "the session counts again", func() bool {
		end, err := other.Sessions("u", 1).Begin(t.Context())
		if err == nil {
			end()
		}
		return err != nil
	})
}

func count(t *testing.T, a *Account, bytes, files int64) {
	t.Helper()
	end, err := a.BeginCount(t.Context())
	must(t, err)
	must(t, end(bytes, files))
}

func testQuotas(t *testing.T, name string) {
	const most, writers, piece = 1 << 20, 8, 1000
	stores := []*Store{patient(t, name), patient(t, name)}
	var accounts []*Account
	for _, s := range stores {
		accounts = append(accounts, s.Account(t.Context(), "/srv", most, 500))
	}
	if counted, err := accounts[0].Counted(t.Context()); err != nil || counted {
		t.Fatalf("a new tree is counted: %t, %v", counted, err)
	}
	first, err := accounts[0].BeginCount(t.Context())
	must(t, err)
	late, err := accounts[1].BeginCount(t.Context())
	must(t, err)
	must(t, first(1000, 2))
	must(t, late(5000, 3)) // the same, a little later
	if counted, err := accounts[1].Counted(t.Context()); err != nil || !counted ||
		accounts[1].Usage() != (server.Usage{Bytes: 1000, Files: 2, MaxBytes: most,
			MaxFiles: 500}) {
		t.Fatalf("%t, %v, %+v", counted, err, accounts[1].Usage())
	}
	// Counted again, while some is taken in advance and the count changes.
	must(t, accounts[0].Reserve(t.Context(), 10, 1))
	again, err := accounts[0].BeginCount(t.Context())
	must(t, err)
	accounts[0].Settle(-4, 0)
	must(t, again(2000, 7))
	if now := accounts[0].Usage(); now.Bytes != 1996 || now.Files != 7 {
		t.Errorf("counted again: %+v", now)
	}
	accounts[0].Settle(-996, -5)
	var got atomic.Int64
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			a := accounts[i%2]
			for {
				err := a.Reserve(t.Context(), piece, 0)
				if errors.Is(err, server.ErrQuota) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if total := got.Add(piece); total > most-1000 {
					t.Errorf("%d bytes were given", total)
				}
			}
		})
	}
	group.Wait()
	if least := int64(most - 1000 - 4*most/128); got.Load() < least {
		t.Errorf("only %d bytes were given, of %d", got.Load(), least)
	}
	accounts[0].Settle(-got.Load(), 0)
	testenv.Until(t, "what one frees is there for the other", func() bool {
		return accounts[1].Reserve(t.Context(), most-most/50, 0) == nil
	})
	accounts[1].Settle(-(most - most/50), 0)
	for _, s := range stores {
		must(t, s.Close())
	}
	if now := patient(t, name).Account(t.Context(), "/srv", most, 500).Usage(); now.Bytes != 1000 ||
		now.Files != 2 {
		t.Errorf("at the end %+v", now)
	}
}

func testQuotasOverRestart(t *testing.T, name string) {
	s := patient(t, name)
	a := s.Account(t.Context(), "/srv", 0, 0)
	count(t, a, 0, 0)
	must(t, a.Reserve(t.Context(), 123, 1))
	must(t, s.Close())
	s = patient(t, name)
	a = s.Account(t.Context(), "/srv", 0, 0)
	if counted, err := a.Counted(t.Context()); err != nil || !counted || a.Usage().Bytes != 123 ||
		a.Usage().Files != 1 {
		t.Errorf("after a restart: %t, %v, %+v", counted, err, a.Usage())
	}
	// What a node that was killed had taken in advance, nobody knows.
	must(t, a.Reserve(t.Context(), 77, 1))
	s.kill()
	s = patient(t, name)
	a = s.Account(t.Context(), "/srv", 0, 0)
	if now := a.Usage(); now.Bytes < 200 {
		t.Errorf("after kill -9 %+v is less than what is there", now)
	}
	node(t, name) // takes the killed one for dead
	testenv.Until(t, "the tree is to be counted again", func() bool {
		now := patient(t, name)
		defer now.Close()
		counted, err := now.Account(t.Context(), "/srv", 0, 0).Counted(t.Context())
		return err == nil && !counted
	})
}

// testRefusedAtFirst: a user whose first request is refused, while the store has no row of the
// directory yet, is not locked out.
func testRefusedAtFirst(t *testing.T, name string) {
	s := still(t, name)
	s.fell(errors.New("for a moment"))
	a := s.Account(t.Context(), "/srv", 1000, 10)
	s.up()
	is(t, a.Reserve(t.Context(), 1001, 1), server.ErrQuota)
	must(t, a.Reserve(t.Context(), 900, 9))
	a.Settle(-400, -4)
	s.quotas.flush(t.Context(), true)
	if n := s.count(t, `SELECT bytes FROM quotas WHERE tree = '/srv'`); n != 500 {
		t.Errorf("the store has %d bytes", n)
	}
}

func testSmallQuotas(t *testing.T, name string) {
	for i, most := range []int64{1, 10, 300} {
		a := patient(t, name).Account(t.Context(), fmt.Sprint("/", i), most*1000, most)
		count(t, a, 0, 0)
		for range most {
			must(t, a.Reserve(t.Context(), 1000, 1))
		}
		if err := a.Reserve(t.Context(), 1, 0); err != server.ErrQuota {
			t.Errorf("one byte more: %v", err)
		}
		if err := a.Reserve(t.Context(), 0, 1); err != server.ErrQuota {
			t.Errorf("one file more: %v", err)
		}
		a.Settle(-1000, -1)
		must(t, a.Reserve(t.Context(), 1000, 1))
	}
}

// testQuotasOfOneTree: accounts of one directory share its count, and each keeps its limits.
func testQuotasOfOneTree(t *testing.T, name string) {
	s, ctx := still(t, name), t.Context()
	small, large := s.Account(ctx, "/srv", 1000, 0), s.Account(ctx, "/srv", 0, 0)
	count(t, large, 0, 0)
	must(t, large.Reserve(ctx, 5000, 1))
	if spare := small.spare.bytes; spare > 1000/128 {
		t.Errorf("%d bytes were taken in advance, too many for the smaller quota", spare)
	}
	refused := func() {
		t.Helper()
		if err := small.Reserve(ctx, 1, 0); err != server.ErrQuota {
			t.Errorf("beyond the smaller quota: %v", err)
		}
	}
	refused()
	large.Settle(-4500, 0) // which this node may use again
	must(t, small.Reserve(ctx, 500, 0))
	refused()
	must(t, large.Reserve(ctx, 1, 0))
	raised := small.WithLimits(2000, 0)
	must(t, raised.Reserve(ctx, 900, 1))
	refused()
	if n := s.count(t, `SELECT count(*) FROM leases`); n != 1 {
		t.Errorf("there are %d leases", n)
	}
	var group sync.WaitGroup
	for _, a := range []server.Account{small.WithLimits(3000, 0), large} {
		group.Go(func() {
			for range 30 {
				if err := a.Reserve(ctx, 20, 1); err != nil {
					t.Error(err)
				}
				s.quotas.flush(ctx, false)
				a.Settle(-10, -1)
			}
		})
	}
	group.Wait()
	want := server.Usage{Bytes: 1901 + 2*30*10, Files: 2}
	if now := large.Usage(); now != want {
		t.Errorf("%+v, want %+v", now, want)
	}
	must(t, s.Close())
	other := still(t, name).Account(ctx, "/srv", 0, 0)
	if counted, err := other.Counted(ctx); !counted || err != nil || other.Usage() != want {
		t.Errorf("another node: %t, %v, %+v, want %+v", counted, err, other.Usage(), want)
	}
}

// testTotalsInBetween: what a node takes while it reads the totals is not forgotten, and counts at
// once.
func testTotalsInBetween(t *testing.T, name string) {
	s := silentNode(t, name)
	if s.db.postgres == "" {
		return // transactions do not overlap
	}
	account := s.Account(t.Context(), "/srv", 0, 0)
	count(t, account, 0, 0)
	taken := make(chan error, 1)
	must(t, s.do(t.Context(), func(all tx) error {
		all.queries = between{all.queries, func() {
			waits := len(account.asking) > 0
			go func() { taken <- account.Reserve(t.Context(), 100, 1) }()
			testenv.Until(t, "it is taken, or waits", func() bool { return waits || len(taken) > 0 })
		}}
		return s.quotas.read(all)
	}))
	must(t, <-taken)
	if now := account.Usage(); now.Bytes != 100 || now.Files != 1 {
		t.Errorf("of 100 bytes and a file %+v count", now)
	}
}

// testOwnTotals: a node reads what it uses, and not what all users have moved on all days.
func testOwnTotals(t *testing.T, name string) {
	one, two := silentNode(t, name), silentNode(t, name)
	if one.db.postgres != "" {
		return // where a number cannot be a text, on which to stumble
	}
	const most = rowsAtOnce + 1
	var mine []*Account
	for i := range most {
		a := one.Account(t.Context(), fmt.Sprint("/srv/", i), 0, 0)
		count(t, two.Account(t.Context(), a.tree, 0, 0), int64(i), 1)
		mine = append(mine, a)
	}
	must(t, one.do(t.Context(), func(t tx) error {
		return t.run(`INSERT INTO quotas (tree, bytes, files, counted)
			VALUES ('others', 'unread', 0, 0)`)
	}))
	must(t, one.do(t.Context(), one.quotas.read))
	for i, a := range mine {
		if now := a.Usage(); now.Bytes != int64(i) || now.Files != 1 {
			t.Fatalf("account %d: %+v", i, now)
		}
	}
}

func testBandwidth(t *testing.T, name string) {
	rates := sshd.Rates{Send: 100 << 20}
	one, two := patient(t, name).Bandwidth("u", rates), patient(t, name).Bandwidth("u", rates)
	move := func(b sshd.Bandwidth) { must(t, b.Send(t.Context(), 1)) }
	sharing := func(b sshd.Bandwidth) int64 { return b.(*mover).nodes.Load() }
	testenv.Until(t, "one has everything", func() bool {
		move(one)
		return sharing(one) == 1
	})
	testenv.Until(t, "each has half", func() bool {
		move(one)
		move(two)
		return sharing(one) == 2 && sharing(two) == 2
	})
	testenv.Until(t, "the other has everything", func() bool {
		move(two)
		return sharing(two) == 1
	})
}

func testUsers(t *testing.T, name string) {
	one, two := patient(t, name), patient(t, name)
	heard := make(chan struct{}, 100)
	two.OnUsers(func() { heard <- struct{}{} })
	u := User{Name: "ann", Root: "/srv/ann", Keys: []string{"ssh-ed25519 AAAA a", "ssh-rsa BBBB b"},
		Password: "$argon2id$x", ReadOnly: true, QuotaBytes: 1 << 40, QuotaFiles: 7,
		Bandwidth: 1 << 33, Sessions: 3, Group: "partners", Up: 1 << 34, Down: 1 << 35,
		Expires: "2027-01-31", AllowFrom: []string{"10.0.0.0/8", "2001:db8::/32"},
		SecondFactor: true}
	must(t, one.PutUser(t.Context(), u, false))
	<-heard
	if got := two.Users(); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(u) {
		t.Errorf("%+v, want %+v", got, u)
	}
	if err := two.PutUser(t.Context(), User{Name: "ann"}, false); err == nil {
		t.Error("a user is added twice")
	}
	u.Root = "/srv/elsewhere"
	must(t, one.PutUser(t.Context(), u, true))
	<-heard
	must(t, one.DisableUser(t.Context(), "ann", false))
	<-heard
	testenv.Until(t, "both changes", func() bool {
		got := two.Users()
		return len(got) == 1 && got[0].Disabled && got[0].Root == "/srv/elsewhere"
	})
	u.Root = "/srv/ann"
	must(t, one.PutUser(t.Context(), u, true))
	if now, _ := one.User("ann"); !now.Disabled || now.Root != u.Root {
		t.Errorf("a disabled user was changed, and is now %+v", now)
	}
	for _, err := range []error{one.DisableUser(t.Context(), "bob", false),
		one.RemoveUser(t.Context(), "bob")} {
		if !errors.Is(err, ErrNoUser) {
			t.Errorf("bob: %v", err)
		}
	}
	must(t, one.RemoveUser(t.Context(), "ann"))
	testenv.Until(t, "nobody is left", func() bool { return len(two.Users()) == 0 })
}

// outage keeps everybody from the tables until it is ended.
func outage(t *testing.T, s *Store) (end func()) {
	t.Helper()
	db, err := openDatabase(cmp.Or(s.db.postgres, s.db.name))
	must(t, err)
	db.patience = s.db.patience
	begun, err := db.Begin()
	must(t, err)
	for db.postgres != "" {
		_, err := begun.Exec(`SET LOCAL idle_in_transaction_session_timeout = 0`)
		must(t, err)
		_, err = begun.Exec(`LOCK TABLE nodes, users, changes, places, sessions, bans, quotas,
			leases, movers, outbox, uploads, stamps, audit, turns, statuses, orders, totp, recovery,
			versions`)
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "SQLSTATE 40P01") { // a node locks in another order
			t.Fatal(err)
		}
		begun.Rollback()
		begun, err = db.Begin()
		must(t, err)
	}
	return sync.OnceFunc(func() {
		begun.Rollback()
		db.Close()
	})
}

func testOutage(t *testing.T, name string) {
	s := patient(t, name)
	account := s.Account(t.Context(), "/srv", 0, 0)
	count(t, account, 0, 0)
	must(t, account.Reserve(t.Context(), 1, 1))
	must(t, s.PutUser(t.Context(), User{Name: "u", Root: "/srv"}, false))
	must(t, s.Bans().Add(t.Context(), attacker, time.Hour))
	before, err := s.Sessions("u", 3).Begin(t.Context())
	must(t, err)
	testenv.Until(t, "some is taken in advance, and does not go back", func() bool {
		must(t, account.Reserve(t.Context(), 1, 0))
		account.asking <- struct{}{}
		account.mu.Lock()
		defer account.mu.Unlock()
		taken := account.spare.bytes >= 1000
		if !taken {
			<-account.asking
		}
		return taken
	})
	goOn := sync.OnceFunc(func() { <-account.asking })
	defer goOn()
	end := outage(t, s)
	defer end()
	testenv.Until(t, "the store is down", s.Down)
	goOn()

	if err := account.Reserve(t.Context(), 1000, 0); err != nil {
		t.Errorf("what was taken in advance cannot be used: %v", err)
	}
	if err := account.Reserve(t.Context(), 1<<30, 0); !errors.Is(err, ErrDown) {
		t.Errorf("more than that: %v", err)
	}
	if !s.Bans().Banned(attacker) {
		t.Error("bans are forgotten")
	}
	other := sshd.Source{Network: netip.MustParsePrefix("192.0.2.8/32")}
	for range 12 {
		s.Bans().Failed(t.Context(), other, 1, &rules)
	}
	if !s.Bans().Banned(other) {
		t.Error("nobody is banned")
	}
	during, err := s.Sessions("u", 3).Begin(t.Context())
	if err != nil {
		t.Errorf("a session: %v", err)
	}
	before()
	if _, err := s.Bans().List(t.Context()); !errors.Is(err, ErrDown) {
		t.Errorf("a list: %v", err)
	}
	if len(s.Users()) == 0 && s.lasts() < quick.stale {
		t.Error("users are gone at once")
	}
	testenv.Until(t, "users are no longer let in", func() bool { return len(s.Users()) == 0 })

	end()
	testenv.Until(t, "the users are back", func() bool { return len(s.Users()) == 1 })
	two := patient(t, name)
	for range 2 {
		if _, err := two.Sessions("u", 3).Begin(t.Context()); err != nil {
			t.Errorf("of three sessions one is taken: %v", err)
		}
	}
	if _, err := two.Sessions("u", 3).Begin(t.Context()); err == nil {
		t.Error("a session that began during the outage does not count")
	}
	during()
	if _, err := two.Sessions("u", 3).Begin(t.Context()); err != nil {
		t.Errorf("after it has ended: %v", err)
	}
}

// testOutageAtStart: a node of several starts without the store, and joins it later. A file that
// somebody else keeps is an error.
func testOutageAtStart(t *testing.T, name string) {
	one := patient(t, name)
	must(t, one.Bans().Add(t.Context(), attacker, time.Hour))
	end := outage(t, one)
	defer end()
	if one.db.postgres == "" {
		_, err := open(t.Context(), name, slog.New(slog.DiscardHandler), quick)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a file that is in use: %v", err)
		}
		return
	}
	two := patient(t, name)
	if !two.Down() || two.Err() == nil || two.Bans().Banned(attacker) {
		t.Errorf("without the store: down %t, %v", two.Down(), two.Err())
	}
	finish, err := two.Sessions("u", 1).Begin(t.Context())
	must(t, err)
	end()
	testenv.Until(t, "the ban is known", func() bool { return two.Bans().Banned(attacker) })
	testenv.Until(t, "the session counts", func() bool {
		other, err := one.Sessions("u", 1).Begin(t.Context())
		if err == nil {
			other()
		}
		return err != nil && err != ErrDown
	})
	finish()
}

// testEndOfCaller: who has gone is not waited for, and the store is not down because of that.
func testEndOfCaller(t *testing.T, name string) {
	s := patient(t, name)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Sessions("u", 1).Begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a session: %v", err)
	}
	if err := s.Account(t.Context(), "/", 0, 0).Reserve(ctx, 1, 1); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a quota: %v", err)
	}
	if s.Down() {
		t.Error("the store is down")
	}
	if _, err := s.Sessions("u", 1).Begin(t.Context()); err != nil {
		t.Errorf("the place of who has gone is taken: %v", err)
	}
}

// testTransfers: what users have moved is forgotten after two months, and nothing else.
func testTransfers(t *testing.T, name string) {
	s := still(t, name) // which cleans when it is told to
	now, kept := time.Now().UTC(), []string(nil)
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, month := range []int{0, -1, -3, -12} {
		tree := site.TransferTree + first.AddDate(0, month, 0).Format("2006-01") + "-01/up/u"
		if must(t, s.Account(t.Context(), tree, 1000, 0).Reserve(t.Context(), 1, 0)); month > -2 {
			kept = append(kept, tree)
		}
	}
	must(t, s.Account(t.Context(), "/srv/a", 1000, 0).Reserve(t.Context(), 1, 0))
	must(t, s.do(t.Context(), s.quotas.cleanTransfers))
	var tree string
	var found []string
	must(t, s.do(t.Context(), func(t tx) error {
		return t.each(`SELECT tree FROM quotas UNION SELECT tree FROM leases`, nil, []any{&tree},
			func() { found = append(found, tree) })
	}))
	slices.Sort(found)
	if kept = append(kept, "/srv/a"); !slices.Equal(found, sorted(kept)) ||
		len(s.quotas.list()) != 3 {
		t.Errorf("there are %q and %d accounts, want %q", found, len(s.quotas.list()), kept)
	}
	// What has been moved in a period that is over, and is in the store, takes no memory.
	periods := map[string]bool{now.AddDate(0, 0, -10).Format(time.DateOnly): false,
		now.AddDate(0, 0, -1).Format(time.DateOnly): true, now.Format("2006-01"): true}
	for period := range periods {
		a := s.Account(t.Context(), site.TransferTree+period+"/up/v", 1000, 0)
		must(t, a.Reserve(t.Context(), 1, 0))
		must(t, s.do(t.Context(), s.quotas.cleanTransfers))
		if !slices.Contains(s.quotas.list(), a.holding) {
			t.Errorf("what the store does not know of %s is forgotten", period)
		}
		a.flush(t.Context(), true)
	}
	must(t, s.do(t.Context(), s.quotas.cleanTransfers))
	for period, want := range periods {
		if has := slices.ContainsFunc(s.quotas.list(), func(h *holding) bool {
			return h.tree == site.TransferTree+period+"/up/v"
		}); has != want {
			t.Errorf("the account of %s is in memory: %t", period, has)
		}
	}
	// What thousands of users have moved in a month goes some at a time.
	old := make([][]any, removedAtOnce+10)
	for i := range old {
		old[i] = []any{fmt.Sprint(site.TransferTree, "2020-01-01/up/u", i)}
	}
	must(t, s.do(t.Context(), func(t tx) error {
		return t.insert(`quotas (tree, bytes, files, counted)`, `(?, 0, 0, 0)`, ``, old)
	}))
	must(t, s.do(t.Context(), s.quotas.cleanTransfers))
	if n := s.count(t, `SELECT count(*) FROM quotas WHERE tree LIKE '%2020%'`); n != 10 {
		t.Errorf("%d of %d are left", n, len(old))
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
