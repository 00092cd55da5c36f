//go:build unix

package store

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// asAdmin runs statements as PostgreSQL's administrator.
func asAdmin(t *testing.T, url string, statements ...string) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer admin.Close(context.Background())
	for _, statement := range statements {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// TestLimitsOfARole: the limits that an administrator has given a role, or all, are not for nodes,
// which have limits of their own.
func TestLimitsOfARole(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	asAdmin(t, url, `ALTER ROLE usftpd SET statement_timeout = 50`,
		`ALTER ROLE usftpd SET lock_timeout = 50`)
	s := still(t, url)
	must(t, s.Err())
	locked, waits, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.do(context.Background(), func(t tx) error {
			err := t.run(`LOCK TABLE users`)
			close(locked)
			<-waits
			if err == nil {
				err = t.run(`SELECT pg_sleep(0.1)`)
			}
			return err
		})
	}()
	go func() {
		<-locked
		ended <- s.PutUser(context.Background(), User{Name: "ann"}, true)
	}()
	<-locked
	testenv.Until(t, "another waits for the lock", func() bool {
		return s.count(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`) > 0
	})
	close(waits)
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("%v, because of %v", err, s.Err())
		}
	}
}

// TestTooManyConnections: a node that gets no further connection goes on with those that it has.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	asAdmin(t, url, `CREATE ROLE node LOGIN CONNECTION LIMIT 3`,
		`GRANT CREATE ON SCHEMA public TO node`, `GRANT pg_read_all_stats TO node`)
	s := still(t, strings.Replace(url, "usftpd@", "node@", 1))
	testenv.Until(t, "it listens", func() bool {
		return s.count(t, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`) == 1
	})
	many := make(chan error)
	for range 50 {
		go func() {
			many <- s.do(context.Background(), func(t tx) error {
				return t.run(`SELECT pg_sleep(0.01)`)
			})
		}()
	}
	for range 50 {
		if err := <-many; err != nil {
			t.Errorf("%v, because of %v", err, s.Err())
		}
	}
}

// TestTablesOfAnAdministrator: a node needs no right to make tables if they are there, and takes
// those that it finds, although a schema of its own has come. Without any, it says what to do.
func TestTablesOfAnAdministrator(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	asAdmin(t, url, `CREATE ROLE node LOGIN`, `CREATE ROLE other LOGIN`)
	must(t, still(t, url).PutUser(t.Context(), User{Name: "ann"}, false))
	asAdmin(t, url, `GRANT ALL ON ALL TABLES IN SCHEMA public TO node`,
		`REVOKE CREATE ON SCHEMA public FROM PUBLIC`, `CREATE SCHEMA other AUTHORIZATION other`,
		`GRANT node TO other`)
	for _, role := range []string{"node", "other"} {
		s := still(t, strings.Replace(url, "usftpd@", role+"@", 1))
		must(t, s.Err())
		if _, there := s.User("ann"); !there {
			t.Errorf("%s has other tables", role)
		}
	}
	asAdmin(t, url, `CREATE DATABASE empty`)
	asAdmin(t, url+"&dbname=empty", `REVOKE CREATE ON SCHEMA public FROM PUBLIC`)
	s := still(t, strings.Replace(url, "usftpd@", "node@", 1)+"&dbname=empty")
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "GRANT CREATE ON SCHEMA") {
		t.Errorf("without tables: %v", err)
	}
}

// TestServerThatIsGone: once a server does not answer, nothing is tried on the other connections to
// it, as after a failover, when its name leads to another.
func TestServerThatIsGone(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	s := timedNode(t, url, times{tick: time.Hour, beat: time.Hour})
	var all sync.WaitGroup
	begun, ended := make(chan struct{}), make(chan struct{})
	for range connections {
		all.Go(func() {
			if err := s.do(context.Background(), func(t tx) error {
				err := t.run(`SELECT 1`)
				begun <- struct{}{}
				<-ended
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	for range connections {
		<-begun
	}
	close(ended)
	all.Wait()
	admin, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer admin.Close(context.Background())
	rows, err := admin.Query(t.Context(), `SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
	must(t, err)
	stopped, err := pgx.CollectRows(rows, pgx.RowTo[int])
	must(t, err)
	for _, pid := range stopped {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
		defer syscall.Kill(pid, syscall.SIGCONT)
	}
	if err := s.PutUser(t.Context(), User{Name: "ann"}, true); !errors.Is(err, ErrDown) {
		t.Errorf("while the server does not answer: %v", err)
	}
	must(t, s.join(t.Context()))
	must(t, s.PutUser(t.Context(), User{Name: "ann"}, true))
}

// TestFullDiskOfPostgreSQL: the log says once a minute what is wrong, and not whenever a statement
// succeeds that needs no room.
func TestFullDiskOfPostgreSQL(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	var log bytes.Buffer
	s, err := open(t.Context(), url, slog.New(slog.NewTextHandler(&log, nil)),
		times{tick: time.Hour, beat: time.Hour})
	must(t, err)
	asAdmin(t, url, `CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$`,
		`CREATE TRIGGER no_room BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION no_room()`,
		`CREATE TRIGGER no_room BEFORE INSERT ON bans FOR EACH ROW EXECUTE FUNCTION no_room()`)
	for range 5 {
		if err := s.PutUser(t.Context(), User{Name: "u"}, true); !errors.Is(err, ErrDown) {
			t.Errorf("with a full disk: %v", err)
		}
		must(t, s.join(t.Context()))
	}
	for range rules.AddressFailures {
		s.Bans().Failed(t.Context(), attacker, 1, &rules)
		must(t, s.join(t.Context()))
	}
	if !s.Bans().Banned(attacker) {
		t.Error("nobody is banned as long as the disk is full")
	}
	if banned, err := s.Bans().Lift(t.Context(), attacker); err != nil || s.Bans().Banned(attacker) {
		t.Errorf("a ban that is lifted: %v, %v", banned, err)
	}
	must(t, s.Close())
	if n := strings.Count(log.String(), "does not answer"); n != 1 ||
		!strings.Contains(log.String(), "its disk is full: make room") {
		t.Errorf("the log:\n%s", &log)
	}
}

// TestEmptiedDatabase: a node makes no new tables in place of those that it knew, as in a database
// that is about to be restored, and no user is gone. Nor does it once they are back.
func TestEmptiedDatabase(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	s := still(t, url)
	must(t, s.PutUser(t.Context(), User{Name: "ann"}, false))
	asAdmin(t, url, `ALTER SCHEMA public RENAME TO away`, `CREATE SCHEMA public`)
	if err := s.PutUser(t.Context(), User{Name: "bob"}, false); !errors.Is(err, ErrDown) {
		t.Errorf("without tables: %v", err)
	}
	if err := s.join(t.Context()); err == nil || !strings.Contains(err.Error(), "restore") {
		t.Errorf("without tables: %v", err)
	}
	if s.Gone("ann") {
		t.Error("a user is gone")
	}
	asAdmin(t, url, `DROP SCHEMA public`, `ALTER SCHEMA away RENAME TO public`)
	must(t, s.join(t.Context()))
	must(t, s.PutUser(t.Context(), User{Name: "bob"}, false))
}

// TestReadOnly: a node whose only server takes no changes for a while says so, and goes on then.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	s := still(t, url)
	for _, is := range []string{"on", "off"} {
		asAdmin(t, url, `ALTER SYSTEM SET default_transaction_read_only = `+is,
			`SELECT pg_reload_conf()`)
		testenv.Until(t, "the node sees that", func() bool {
			if s.Down() {
				s.join(t.Context())
			}
			s.PutUser(t.Context(), User{Name: "ann"}, true)
			return s.Down() == (is == "on")
		})
		if err := s.Err(); is == "on" && !strings.Contains(err.Error(), "it takes no changes") {
			t.Error(err)
		}
	}
}

// TestPooler: a node says at the start what PgBouncer needs that gives its connections to others in
// between, and uses one that does not.
func TestPooler(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	for mode, works := range map[string]bool{"session": true, "transaction": false,
		"statement": false} {
		var log strings.Builder
		times := quick
		times.tick, times.beat = time.Hour, time.Hour
		s, err := open(t.Context(), storetest.Pooler(t, url, "pool_mode = "+mode),
			slog.New(slog.NewTextHandler(&log, nil)), times)
		must(t, err)
		if err := s.PutUser(t.Context(), User{Name: mode}, true); (err == nil) != works {
			t.Errorf("%s: %v", mode, err)
		}
		s.Close()
		said := strings.Count(log.String(), "a pooler gives its connections to others in between: "+
			"set pool_mode = session there")
		if works != (said == 0) || said > 1 {
			t.Errorf("%s: the log says\n%s", mode, &log)
		}
	}
}

// TestPoolerWithoutRoom: a node uses the only connection that PgBouncer gives it, as while the
// process before it has the others.
func TestPoolerWithoutRoom(t *testing.T) {
	t.Parallel()
	url := storetest.Pooler(t, storetest.Postgres(t), "pool_mode = session\ndefault_pool_size = 2")
	other, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { other.Close(context.Background()) })
	must(t, other.Ping(t.Context()))
	times := quick
	times.tick, times.beat, times.patience = time.Hour, time.Hour, time.Second
	s := timedNode(t, url, times)
	must(t, s.PutUser(t.Context(), User{Name: "ann"}, true))
}
