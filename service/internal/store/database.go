package store

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite" // and the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/usftp/usftp/internal/localfs"
)

// database is one of the two databases. Both get the same statements, with these words of our own:
//
//	$1     an argument, as PostgreSQL has it
//	@now   the database's time in ms since 1970; the nodes' clocks may differ
//	@skip  after a SELECT: leave out rows that another node is changing. It must be in a WITH AS
//	       MATERIALIZED, or PostgreSQL may run it several times, each with other rows
type database struct {
	*sql.DB
	name     string      // for errors: without the password
	postgres string      // its URL, or "" for SQLite
	file     os.FileInfo // of SQLite, once it is there
	config   *pgx.ConnConfig
	left     chan struct{} // this node has closed its connections
	words    *strings.Replacer
	patience time.Duration
	closing  sync.Mutex // of idle connections: if sql.DB may keep some meanwhile, it closes others

	statements, transactions atomic.Int64 // that were sent
}

// patience is how long a transaction may take, including the wait for a connection. A file does not
// go away; a slow one only means a busy disk or a busy machine. So it gets longer, but less than
// would make a node dead between two signs of life.
const (
	patience     = 2 * time.Second
	filePatience = 8 * time.Second
	lockPatience = 7 * time.Second // with another program, whose lock then is the reason
)

// mostIdle is how long PostgreSQL waits for a node in the middle of a transaction. A node that
// hangs has rows locked, and others that need them would take the store for down.
func (d *database) mostIdle() time.Duration { return d.patience / 2 }

// connections is how many connections a node has to PostgreSQL.
const connections = 8

// openDatabase opens the PostgreSQL database at a URL, or an SQLite file. It does not connect to
// PostgreSQL yet.
func openDatabase(text string) (*database, error) {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return openFile(text)
	}
	config, err := pgx.ParseConfig(text) // whose errors leave out the password
	if err != nil {
		return nil, fmt.Errorf("the store's URL is not valid: %w", err)
	}
	if config.ValidateConnect == nil {
		config.ValidateConnect = takesChanges
	}
	d := &database{
		config:   config,
		left:     make(chan struct{}, 1),
		name:     fmt.Sprintf("PostgreSQL on %s", config.Host),
		postgres: text,
		patience: patience,
		words: strings.NewReplacer("@now", "(extract(epoch from clock_timestamp())*1000)::bigint",
			"@skip", "FOR UPDATE SKIP LOCKED"),
	}
	d.DB = stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(d.usePassword),
		stdlib.OptionAfterConnect(d.prepare))
	d.SetMaxOpenConns(connections)
	d.SetMaxIdleConns(connections)
	d.SetConnMaxLifetime(10 * time.Minute) // so that a preferred host is found again
	return d, nil
}

// prepare prepares a new connection to PostgreSQL.
func (d *database) prepare(ctx context.Context, conn *pgx.Conn) error {
	// What has an order has an index for it. Before there are statistics of a table that has become
	// long, PostgreSQL may rather read all of it by another index, and sort. What it has to sort
	// all the same seems to be so much work then that it would compile it first. The limits that an
	// administrator has given the role would look like a store that is down, and new tables take
	// longer.
	said, err := conn.PgConn().Exec(ctx, fmt.Sprintf(`
		SELECT 1 WHERE current_setting('usftpd.prepared', true) = 'yes';
		SET usftpd.prepared = 'yes'; SET statement_timeout = 0; SET lock_timeout = 0;
		SET idle_in_transaction_session_timeout = %d;
		SET enable_sort = off; SET jit = off`, d.mostIdle().Milliseconds())).ReadAll()
	if err == nil && len(said) > 0 && len(said[0].Rows) > 0 {
		err = errPooled
	}
	return err
}

// errPooled is the error of a connection that another one of a node uses, too. Settings, prepared
// statements and LISTEN belong to one.
var errPooled = errors.New("a pooler gives its connections to others in between: " +
	"set pool_mode = session there")

// lookForPooler returns errPooled if what one connection has set holds for another. Only those that
// are open at once tell: if there is no second one, nothing does.
func (d *database) lookForPooler(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	return d.connected(func() error {
		one, err := d.Conn(ctx)
		if err != nil {
			return err
		}
		defer one.Close()
		other, err := d.Conn(ctx)
		if err == nil {
			return other.Close()
		}
		if errors.Is(err, errPooled) {
			return err
		}
		return nil
	})
}

// takesChanges returns an error for a server that does not.
func takesChanges(ctx context.Context, conn *pgconn.PgConn) error {
	err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, conn)
	if errors.Is(err, pgconn.ErrReadOnlyConnection) {
		err = fmt.Errorf("it takes no changes, as a standby, or if its disk is nearly full: %w", err)
	}
	return err
}

// usePassword reads the password for a connection again: it may have been replaced in the file of
// passwords since.
func (d *database) usePassword(_ context.Context, config *pgx.ConnConfig) error {
	now, err := pgx.ParseConfig(d.postgres)
	if err == nil {
		config.Password = now.Password
	}
	return err
}

// openFile opens an SQLite file, which create has to make.
func openFile(name string) (*database, error) {
	settings := url.Values{
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", lockPatience.Milliseconds()),
			"journal_mode(WAL)", "synchronous(NORMAL)"},
		"_txlock": {"immediate"},
	}
	file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: name}).EscapedPath(),
		RawQuery: settings.Encode()}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // waiting here ends with the context, waiting in SQLite does not
	return &database{
		DB:       db,
		name:     name,
		patience: filePatience,
		words: strings.NewReplacer("@now", "CAST(unixepoch('subsec')*1000 AS INTEGER)",
			"@skip", "", "$", "?"),
	}, nil
}

// create creates the file of SQLite, if there is none, so that only its owner can read it: it has
// password hashes. Afterwards it only looks for the file. Closing it would end the locks that SQLite
// has on it, and another program take itself for the last one, and remove the write-ahead log.
func (d *database) create() error {
	if d.postgres != "" {
		return nil
	}
	if d.file != nil {
		_, err := os.Stat(d.name)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("its file was moved away: put it back, or stop the server: %w", err)
		}
		return err
	}
	_, missing := os.Stat(d.name)
	f, err := os.OpenFile(d.name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	d.file, err = f.Stat()
	if err == nil && errors.Is(missing, fs.ErrNotExist) && os.Geteuid() == 0 {
		err = giveToOwner(f)
	}
	return errors.Join(err, f.Close())
}

// giveToOwner gives a file that root has just made to the owner of its directory: a user added by
// root, before the server's first start, must not keep the server from its store. SQLite takes care
// of the other files.
func giveToOwner(f *os.File) error {
	dir, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	if owner := localfs.OwnerOf(dir); owner.Known && owner.UID != 0 {
		return f.Chown(owner.UID, owner.GID)
	}
	return nil
}

// isReplaced reports whether another file has the name of SQLite's: this node keeps its own.
func (d *database) isReplaced() bool {
	if d.file == nil {
		return false
	}
	now, err := os.Stat(d.name)
	return err == nil && !os.SameFile(d.file, now)
}

// whileBusy is the pause before another attempt to open a file that is busy.
const whileBusy = 20 * time.Millisecond

// isBusy reports whether SQLite did not wait for another process: it does not while a file changes
// to write-ahead logging, as when several nodes start with a new file at once.
func isBusy(err error) bool {
	failed, ok := errors.AsType[*sqlite.Error](err)
	return ok && failed.Code()&0xff == sqlite3.SQLITE_BUSY
}

// isDamaged reports whether the file, or a part of it, is none of SQLite's.
func isDamaged(err error) bool {
	failed, ok := errors.AsType[*sqlite.Error](err)
	return ok && (failed.Code()&0xff == sqlite3.SQLITE_CORRUPT ||
		failed.Code()&0xff == sqlite3.SQLITE_NOTADB)
}

// isFull reports whether the disk of the file had no room, of which there may be some later. SQLite
// does not say so if it could not make another file, or if a quota is used up: then this tries.
func (d *database) isFull(err error) bool {
	if isNoRoom(err) {
		return true
	}
	failed, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch failed.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return true
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		f, err := os.CreateTemp(filepath.Dir(d.name), ".usftpd-*")
		if err != nil {
			return isNoRoom(err)
		}
		defer os.Remove(f.Name())
		defer f.Close()
		_, err = f.Write(make([]byte, 64<<10)) // it needs half of that to open the file
		return isNoRoom(err)
	}
	return false
}

func isNoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// advised adds what to do to an error.
func (d *database) advised(err error) error {
	advice, line := "", oneLine{err}
	switch code := codeOf(err); {
	case d.isFull(err), code == diskFull:
		advice = "its disk is full: make room"
	case code == tooManyConnections:
		advice = "raise max_connections, or the limit of the role"
	case code == notAllowed, code == noSchema:
		advice = "its role lacks a right: GRANT CREATE ON SCHEMA, or GRANT ALL on the tables"
	case code == noTable:
		advice = "its tables have gone: restore them, or start all nodes again"
	case isDamaged(err):
		advice = "its file is damaged: put a copy in its place"
	case isBusy(err):
		advice = "another program has locked it"
	case errors.Is(err, context.DeadlineExceeded) && d.postgres == "":
		advice = "it takes too long: its disk or this machine is too busy"
	case errors.Is(err, context.DeadlineExceeded):
		advice = "it takes too long: see to its machine, and the way there"
	default:
		return line
	}
	return fmt.Errorf("%s: %w", advice, line)
}

// oneLine is an error of the library, which has a line for each address, in one line.
type oneLine struct{ error }

func (e oneLine) Error() string {
	return strings.NewReplacer(":\n\t", ": ", "\n\t", "; ").Replace(e.error.Error())
}

func (e oneLine) Unwrap() error { return e.error }

// Codes of PostgreSQL's errors.
const (
	readOnly           = "25006"
	noSchema           = "3F000"
	notAllowed         = "42501"
	noTable            = "42P01"
	diskFull           = "53100"
	tooManyConnections = "53300"
	endedByAdmin       = "57P01"
	endedAsIdle        = "57P05"
)

// codeOf returns the code of an error of PostgreSQL, or "".
func codeOf(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// Refuses reports whether an error of Err is what the database has answered, and will go on to, such
// as that it knows no role of that name.
func Refuses(err error) bool {
	_, distrusted := errors.AsType[*tls.CertificateVerificationError](err)
	class := codeOf(err)
	class = class[:min(len(class), 2)]
	return distrusted || errors.Is(err, errPooled) ||
		slices.Contains([]string{"28", "3D", "3F", "42"}, class)
}

// tx is a transaction, or a single statement.
type tx struct {
	queries
	ctx context.Context
	db  *database
}

type queries interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, statement string, args ...any) *sql.Row
}

// do runs a transaction, whose statements end with ctx or when patience has run out.
func (d *database) do(ctx context.Context, run func(t tx) error) error {
	return d.doWithin(ctx, d.patience, run)
}

func (d *database) doWithin(ctx context.Context, patience time.Duration,
	run func(t tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return d.connected(func() error {
		d.transactions.Add(1)
		begun, err := d.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer begun.Rollback()
		if err := run(tx{begun, ctx, d}); err != nil {
			return err
		}
		return begun.Commit()
	})
}

// doOne runs a single statement, which takes one round trip instead of a transaction's three.
func (d *database) doOne(ctx context.Context, run func(t tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	return d.connected(func() error { return run(tx{d.DB, ctx, d}) })
}

// connected runs what needs a connection. If PostgreSQL gives this node no more of them, it waits
// for one of those that there are.
func (d *database) connected(run func() error) (err error) {
	for range 2 * connections { // others connect at the same time, and each failure lowers the limit
		if err = run(); codeOf(err) != tooManyConnections {
			break
		}
		may := d.Stats()
		if may.MaxOpenConnections > 1 {
			d.SetMaxOpenConns(may.MaxOpenConnections - 1)
		} else if may.OpenConnections == 0 {
			break
		}
	}
	if needsAnother(err) {
		d.leave()
	}
	return err
}

// mayConnect lets the node have all its connections again, and reports whether it got fewer.
func (d *database) mayConnect() (fewer bool) {
	if d.postgres == "" || d.Stats().MaxOpenConnections == connections || !d.closing.TryLock() {
		return false
	}
	defer d.closing.Unlock()
	d.SetMaxOpenConns(connections)
	d.SetMaxIdleConns(connections)
	return true
}

// needsAnother reports whether a statement needs another connection, and has done nothing on this
// one: the server takes no changes, as one that is no longer the primary, or the connection was
// ended by an administrator, by the limit for idle sessions, or before all of the statement was
// sent.
func needsAnother(err error) bool {
	code := codeOf(err)
	return code == readOnly || code == endedByAdmin || code == endedAsIdle ||
		errors.Is(err, syscall.EPIPE)
}

// leave closes the connections to PostgreSQL when one has become useless: so may be the others.
func (d *database) leave() {
	if d.postgres == "" {
		return
	}
	if !d.closing.TryLock() {
		return
	}
	d.SetMaxIdleConns(0)
	d.SetMaxIdleConns(connections)
	d.closing.Unlock()
	select {
	case d.left <- struct{}{}:
	default:
	}
}

// say translates a statement for the database, and counts it as sent.
func (t tx) say(statement string) string {
	t.db.statements.Add(1)
	return t.db.words.Replace(statement)
}

// exec runs a statement, and returns how many rows it has changed.
func (t tx) exec(statement string, args ...any) (rows int64, err error) {
	result, err := t.ExecContext(t.ctx, t.say(statement), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// run runs a statement.
func (t tx) run(statement string, args ...any) error {
	_, err := t.exec(statement, args...)
	return err
}

// rowsAtOnce is how many rows a statement inserts. With a statement for each row, a transaction
// about thousands would not end in time.
const rowsAtOnce = 500

// insert inserts rows. row has their values, with a ? for each argument.
func (t tx) insert(into, row, onConflict string, rows [][]any) error {
	for some := range slices.Chunk(rows, rowsAtOnce) {
		var values strings.Builder
		var args []any
		for i, one := range some {
			if i > 0 {
				values.WriteString(", ")
			}
			next := len(args)
			args = append(args, one...)
			for j, text := range strings.Split(row, "?") {
				if j > 0 {
					fmt.Fprintf(&values, "$%d", next+j)
				}
				values.WriteString(text)
			}
		}
		if err := t.run(`INSERT INTO `+into+` VALUES `+values.String()+` `+onConflict,
			args...); err != nil {
			return err
		}
	}
	return nil
}

// number is a bool as a column has it.
func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// places returns the list of n arguments, from the one with this number on.
func places(first, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, ", $%d", first+i)
	}
	return strings.TrimPrefix(text.String(), ", ")
}

// one reads a row; found is false if there is none.
func (t tx) one(statement string, args []any, to ...any) (found bool, err error) {
	err = t.QueryRowContext(t.ctx, t.say(statement), args...).Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each reads rows into to, and calls row for each.
func (t tx) each(statement string, args []any, to []any, row func()) error {
	rows, err := t.QueryContext(t.ctx, t.say(statement), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		row()
	}
	return rows.Err()
}
