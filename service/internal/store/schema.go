package store

import (
	"fmt"
	"time"
)

// schema is the history of the tables. Versions are only ever added, and add only things that older
// programs can ignore, since nodes are upgraded one at a time.
//
// Times are in ms since 1970 by the database's clock. A limit of 0 means none.
var schema = [][]string{{
	`CREATE TABLE nodes (node TEXT PRIMARY KEY, seen BIGINT NOT NULL)`,

	`CREATE TABLE users (
		name TEXT PRIMARY KEY,
		root TEXT NOT NULL,
		keys TEXT NOT NULL, -- lines of authorized_keys
		password TEXT NOT NULL, -- its hash
		disabled BIGINT NOT NULL,
		read_only BIGINT NOT NULL,
		quota_bytes BIGINT NOT NULL,
		quota_files BIGINT NOT NULL,
		bandwidth BIGINT NOT NULL,
		sessions BIGINT NOT NULL)`,

	// n changes whenever the users do.
	`CREATE TABLE changes (topic TEXT PRIMARY KEY, n BIGINT NOT NULL)`,
	`INSERT INTO changes (topic, n) VALUES ('users', 0)`,

	// places counts all sessions of a user, for the limit; sessions counts them per node.
	`CREATE TABLE places (name TEXT PRIMARY KEY, used BIGINT NOT NULL)`,
	`CREATE TABLE sessions (
		name TEXT NOT NULL,
		node TEXT NOT NULL,
		used BIGINT NOT NULL,
		PRIMARY KEY (name, node))`,

	`CREATE TABLE bans (
		network TEXT PRIMARY KEY,
		failures DOUBLE PRECISION NOT NULL,
		seen BIGINT NOT NULL,
		until BIGINT NOT NULL)`,
	`CREATE INDEX bans_until ON bans (until)`,
	`CREATE INDEX bans_seen ON bans (seen)`,

	// quotas include the amounts that nodes have taken in advance; such nodes have a lease.
	`CREATE TABLE quotas (
		tree TEXT PRIMARY KEY,
		bytes BIGINT NOT NULL,
		files BIGINT NOT NULL,
		counted BIGINT NOT NULL)`,
	`CREATE TABLE leases (
		tree TEXT NOT NULL,
		node TEXT NOT NULL,
		PRIMARY KEY (tree, node))`,

	`CREATE TABLE movers (
		name TEXT NOT NULL,
		node TEXT NOT NULL,
		seen BIGINT NOT NULL,
		PRIMARY KEY (name, node))`,

	`CREATE TABLE outbox (
		id TEXT PRIMARY KEY,
		made BIGINT NOT NULL,
		until BIGINT NOT NULL, -- a node is delivering it
		event TEXT NOT NULL)`,
	`CREATE INDEX outbox_made ON outbox (made)`,
}, {
	// The facts that object storage cannot keep. Names are keys of the bucket. node holds the write
	// lock, '' if no node does; a row without an id counts only while it is locked.
	`CREATE TABLE uploads (
		bucket TEXT NOT NULL,
		name BYTEA NOT NULL,
		fence BIGINT NOT NULL,
		node TEXT NOT NULL,
		target BYTEA NOT NULL,
		id TEXT NOT NULL,
		begun BIGINT NOT NULL,
		closed BIGINT NOT NULL,
		size BIGINT NOT NULL,
		last BIGINT NOT NULL,
		mtime BIGINT NOT NULL,
		broken BIGINT NOT NULL,
		PRIMARY KEY (bucket, name))`,
	`CREATE INDEX uploads_node ON uploads (node)`,
	`CREATE INDEX uploads_pending ON uploads (bucket, name) WHERE id <> ''`,
	`CREATE TABLE stamps (
		bucket TEXT NOT NULL,
		name BYTEA NOT NULL,
		etag TEXT NOT NULL,
		mtime BIGINT NOT NULL,
		PRIMARY KEY (bucket, name))`,
}, {
	// Each message is for one hook. node is the node that announced it, '' once it may be delivered;
	// dead is when it became a dead letter, or 0.
	`ALTER TABLE outbox ADD COLUMN hook TEXT NOT NULL DEFAULT ''`,
	`ALTER TABLE outbox ADD COLUMN node TEXT NOT NULL DEFAULT ''`,
	`ALTER TABLE outbox ADD COLUMN unsure BIGINT NOT NULL DEFAULT 0`,
	`ALTER TABLE outbox ADD COLUMN tries BIGINT NOT NULL DEFAULT 0`,
	`ALTER TABLE outbox ADD COLUMN dead BIGINT NOT NULL DEFAULT 0`,
	`ALTER TABLE outbox ADD COLUMN error TEXT NOT NULL DEFAULT ''`,
	`CREATE INDEX outbox_due ON outbox (hook, until) WHERE dead = 0`,
	`CREATE INDEX outbox_dead ON outbox (dead) WHERE dead > 0`,
	`CREATE INDEX outbox_announced ON outbox (node) WHERE node <> ''`,
}, {
	// The audit trail. name is the user; record is JSON.
	`CREATE TABLE audit (
		id TEXT PRIMARY KEY,
		made BIGINT NOT NULL,
		name TEXT NOT NULL,
		record TEXT NOT NULL)`,
	`CREATE INDEX audit_made ON audit (made, id)`,
	`CREATE INDEX audit_name ON audit (name, made, id)`,

	// The nodes' statuses, in JSON, and the orders to each.
	`CREATE TABLE statuses (node TEXT PRIMARY KEY, status TEXT NOT NULL)`,
	`CREATE TABLE orders (id TEXT PRIMARY KEY, node TEXT NOT NULL, what TEXT NOT NULL)`,
	`CREATE INDEX orders_node ON orders (node)`,

	// Work that one node does at a time, with that node and the end of its turn.
	`CREATE TABLE turns (name TEXT PRIMARY KEY, node TEXT NOT NULL, until BIGINT NOT NULL)`,
}, {
	// Users inherit unset values from a group of the configuration.
	`ALTER TABLE users ADD COLUMN user_group TEXT NOT NULL DEFAULT ''`,
	`ALTER TABLE users ADD COLUMN bandwidth_up BIGINT NOT NULL DEFAULT 0`,
	`ALTER TABLE users ADD COLUMN bandwidth_down BIGINT NOT NULL DEFAULT 0`,
	`ALTER TABLE users ADD COLUMN expires TEXT NOT NULL DEFAULT ''`, // the last day
	`ALTER TABLE users ADD COLUMN allow_from TEXT NOT NULL DEFAULT ''`,
}, {
	// last is the number of the last time step whose code has been used; wrong codes are forgotten
	// as time goes by. Recovery codes are hashed.
	`CREATE TABLE totp (
		name TEXT PRIMARY KEY,
		secret TEXT NOT NULL,
		last BIGINT NOT NULL,
		wrong DOUBLE PRECISION NOT NULL,
		seen BIGINT NOT NULL)`,
	`CREATE TABLE recovery (name TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (name, hash))`,
	`ALTER TABLE users ADD COLUMN second_factor BIGINT NOT NULL DEFAULT 0`,

	// password_set is when the password was set, or 0 if it must be changed.
	`ALTER TABLE users ADD COLUMN password_set BIGINT NOT NULL DEFAULT 0`,
	`UPDATE users SET password_set = @now`,
}, {
	// flushed is the ID of the node's last change of the count, which may not know of its success.
	`ALTER TABLE leases ADD COLUMN flushed TEXT NOT NULL DEFAULT ''`,
}, {
	// What of a quota's total nobody finds who counts the tree, since the node has taken it in
	// advance, or freed it, or reserved it for files that are not there yet.
	`ALTER TABLE leases ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0`,
	`ALTER TABLE leases ADD COLUMN files BIGINT NOT NULL DEFAULT 0`,
}, {
	// The ETag of the object that an upload's parts make, if sealed is the fencing number: otherwise
	// a node that knows no such columns has gone on with the upload.
	`ALTER TABLE uploads ADD COLUMN etag TEXT NOT NULL DEFAULT ''`,
	`ALTER TABLE uploads ADD COLUMN sealed BIGINT NOT NULL DEFAULT 0`,
}, {
	// When the message was first tried in vain; before made, if it was not since then.
	`ALTER TABLE outbox ADD COLUMN failed BIGINT NOT NULL DEFAULT 0`,
}, {
	// name is the user, '' if a node that knows no such column has posted the message. Its order must
	// be that of bytes, also in PostgreSQL.
	`ALTER TABLE outbox ADD COLUMN name BYTEA NOT NULL DEFAULT ''`,
	`CREATE INDEX outbox_turns ON outbox (hook, name, until) WHERE dead = 0`,
}}

// migrationPatience is how long it may take to bring the tables up to date: new ones on a busy
// machine, or a new index of a long trail.
const migrationPatience = 5 * time.Minute

// version returns the version of the tables, 0 if there are none. Nobody else changes it until the
// transaction ends.
func version(t tx) (at int, err error) {
	is := `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'versions')`
	if t.db.postgres != "" {
		if err := t.run(`SELECT pg_advisory_xact_lock(7309940311)`); err != nil {
			return 0, err
		}
		// in whatever schema: the role may have got one of its own
		is = `SELECT to_regclass('versions') IS NOT NULL`
	}
	there := false
	if _, err := t.one(is, nil, &there); err != nil || !there {
		return 0, err
	}
	_, err = t.one(`SELECT coalesce(max(version), 0) FROM versions`, nil, &at)
	return at, err
}

// migrate brings the tables up to date. Nodes that start at once take turns.
func migrate(t tx) error {
	at, err := version(t)
	if err == nil && at == 0 {
		err = t.run(`CREATE TABLE IF NOT EXISTS versions (version BIGINT PRIMARY KEY)`)
	}
	if err != nil {
		return err
	}
	for ; at < len(schema); at++ {
		for _, statement := range schema[at] {
			if err := t.run(statement); err != nil {
				return fmt.Errorf("version %d of the tables: %w", at+1, err)
			}
		}
		if err := t.run(`INSERT INTO versions (version) VALUES ($1)`, at+1); err != nil {
			return err
		}
	}
	return nil
}
