//go:build unix

package store

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/usftp/usftp/internal/testenv"
)

// trailOf reads the audit trail.
func trailOf(t *testing.T, s *Store, user string, since, until time.Time) (all []Record) {
	t.Helper()
	must(t, s.Records(t.Context(), user, since, until, func(r Record) error {
		all = append(all, r)
		return nil
	}))
	return all
}

// wantTrail waits until there are so many records.
func wantTrail(t *testing.T, s *Store, many int) {
	t.Helper()
	testenv.Until(t, fmt.Sprint(many, " records"), func() bool {
		n := 0
		err := s.Records(t.Context(), "", time.Time{}, time.Time{}, func(Record) error {
			n++
			return nil
		})
		return err == nil && n == many
	})
}

// testTrail: what all nodes record is read in the order in which it was recorded, names as they
// were, of one user or from a time to another, and removed at its age.
func testTrail(t *testing.T, name string) {
	times := quick
	times.dead, times.patience = time.Minute, time.Minute // a page of records takes a while
	one, two := timedNode(t, name, times), timedNode(t, name, times)
	const many = 3*recordsAtOnce + 7
	odd := "/\xff\x00\n=1"
	for i := range many {
		one.Record(Record{Time: time.Now(), Kind: "file closed", User: "ann",
			Path: fmt.Sprint("/", i)})
	}
	two.Record(Record{Time: time.Now().Add(-time.Hour), Kind: "file closed", User: "b\x00\xff",
		Path: odd, PathBytes: []byte(odd), Written: 1 << 40})
	wantTrail(t, one, many+1)
	ann := trailOf(t, two, "ann", time.Now().Add(-time.Minute), time.Now().Add(time.Minute))
	if len(ann) != many {
		t.Fatalf("%d records of ann, want %d", len(ann), many)
	}
	for i, r := range ann {
		if r.Path != fmt.Sprint("/", i) || r.Node != one.node ||
			time.Since(r.Time).Abs() > time.Minute {
			t.Fatalf("record %d is %+v", i, r)
		}
	}
	old := trailOf(t, one, "", time.Time{}, time.Now().Add(-30*time.Minute))
	if len(old) != 1 || old[0].Path != odd || old[0].Written != 1<<40 {
		t.Errorf("the old record: %+v", old)
	}
	if got := trailOf(t, one, "b\x00\xff", time.Time{}, time.Time{}); len(got) != 1 {
		t.Errorf("of an odd name: %+v", got)
	}
	enough := errors.New("enough")
	if err := one.Records(t.Context(), "", time.Time{}, time.Time{}, func(Record) error {
		return enough
	}); err != enough {
		t.Errorf("reading was ended with %v", err)
	}
	one.KeepRecords(30 * time.Minute)
	wantTrail(t, two, many)
}

// conflicting is a database in which a SELECT of records conflicts with another transaction once,
// when it has returned some.
type conflicting struct {
	database driver.Driver
	name     string
	rows     int // that are returned before
}

func (c *conflicting) Driver() driver.Driver { return c.database }

func (c *conflicting) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.database.Open(c.name)
	return conflictingConn{conn, c}, err
}

type conflictingConn struct {
	driver.Conn
	all *conflicting
}

func (c conflictingConn) Prepare(query string) (driver.Stmt, error) {
	prepared, err := c.Conn.Prepare(query)
	return conflictingStmt{prepared, c.all}, err
}

type conflictingStmt struct {
	driver.Stmt
	all *conflicting
}

func (s conflictingStmt) QueryContext(ctx context.Context,
	args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	return conflictingRows{rows, s.all}, err
}

type conflictingRows struct {
	driver.Rows
	all *conflicting
}

func (r conflictingRows) Next(row []driver.Value) error {
	if r.all.rows--; r.all.rows == 0 {
		return &pgconn.PgError{Code: "40001"}
	}
	return r.Rows.Next(row)
}

// TestTrailAfterConflict: all records are read, also if the database breaks off somewhere in a page
// and the page is read again.
func TestTrailAfterConflict(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "store.db")
	s := silentNode(t, name)
	const many = 2*recordsAtOnce + 7
	for i := range many {
		s.Record(Record{Time: time.Now(), Kind: "file closed", Path: fmt.Sprint("/", i)})
	}
	s.trail.flush(t.Context(), s)
	for _, rows := range []int{1, 2, recordsAtOnce, recordsAtOnce + 9, many} {
		broken := &conflicting{s.db.Driver(), name, rows}
		sound := s.db.DB
		s.db.DB = sql.OpenDB(broken)
		all := trailOf(t, s, "", time.Time{}, time.Time{})
		s.db.DB.Close()
		s.db.DB = sound
		if len(all) != many || broken.rows > 0 {
			t.Errorf("a conflict at row %d: %d records, want %d", rows, len(all), many)
			continue
		}
		for i, r := range all {
			if r.Path != fmt.Sprint("/", i) {
				t.Fatalf("a conflict at row %d: record %d is %s", rows, i, r.Path)
			}
		}
	}
}

// testStatementsOfTrail: a record costs no statement of its own.
func testStatementsOfTrail(t *testing.T, name string) {
	s := silentNode(t, name)
	before := s.Statements()
	for range 2 * recordsAtOnce {
		s.Record(Record{Time: time.Now(), Kind: "file closed"})
	}
	s.trail.flush(t.Context(), s)
	if n := s.Statements() - before; n != 3 { // one asks for the time, once a minute
		t.Errorf("%d records took %d statements", 2*recordsAtOnce, n)
	}
}

// lines is a log that a test reads while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// testTrailInAnOutage: records wait in memory, up to a limit; what is lost is counted in the log
// and in the trail.
func testTrailInAnOutage(t *testing.T, name string) {
	var log lines
	s, err := open(t.Context(), name, slog.New(slog.NewTextHandler(&log, nil)), quick)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	end := outage(t, s)
	defer end()
	long := Record{Time: time.Now(), Kind: "file closed", Path: strings.Repeat("x", 10_000)}
	const kept = 5
	s.trail.mu.Lock()
	s.trail.most = kept * 11_000
	s.trail.mu.Unlock()
	for range kept + 2 {
		s.Record(long)
	}
	testenv.Until(t, "the store is down", s.Down)
	if !strings.Contains(log.String(), "loses records") {
		t.Errorf("the log:\n%s", log.String())
	}
	end()
	testenv.Until(t, "what was kept is written", func() bool {
		count, lost := 0, int64(0)
		if s.Records(t.Context(), "", time.Time{}, time.Time{}, func(r Record) error {
			count, lost = count+1, lost+r.Count
			return nil
		}) != nil {
			return false
		}
		return count == kept+1 && lost == 2
	})
}
