//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/s3bucket"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
)

// testStatements: what docs/objects.md says that a client's requests cost in the store: three
// statements a file, and with a quota one a part.
func testStatements(t *testing.T, name string) {
	s := silentNode(t, name)
	bucket, err := s3bucket.New("bucket", s3bucket.Config{Endpoint: s3test.Storage(t, "bucket"),
		Region: "us-east-1", PathStyle: true, AccessKey: s3test.AccessKey,
		SecretKey: s3test.SecretKey})
	must(t, err)
	const part, parts = 8 << 20, 4
	quota := server.NewQuotaOf(s.Account(t.Context(), "s3://bucket", 1<<40, 1<<20))
	for _, policy := range []server.Policy{{}, {Quota: quota}} {
		client := serve(t, objectfs.New(bucket, &objectfs.Options{State: s.Objects("bucket")}),
			policy)
		put := func(name string, size int) {
			t.Helper()
			f, err := client.Create(name)
			must(t, err)
			_, err = f.WriteAt(make([]byte, size), 0)
			must(t, err)
			must(t, f.Close())
		}
		// the quota is counted, and some of it taken in advance
		put(fmt.Sprint(policy.Quota != nil), 1)
		now := time.Now()
		for _, one := range []struct {
			name         string
			do           func()
			most, quotas int64 // what a quota takes besides
		}{
			{"a small file", func() { put("small", 1000) }, 3, 1},
			{"another in its place", func() { put("small", 2000) }, 3, 1},
			{"a file of four parts", func() { put("long", parts*part) }, 4, parts},
			{"times", func() { must(t, client.Chtimes("small", now, now)) }, 3, 0},
			{"a rename", func() { must(t, client.PosixRename("small", "other")) }, 5, 0},
			{"a temporary name", func() { put("new.filepart", parts*part) }, 3, parts},
			{"its rename", func() { must(t, client.PosixRename("new.filepart", "new")) }, 4, 0},
			{"a removal", func() { must(t, client.Remove("other")) }, 3, 0},
			{"STAT", func() { _, err := client.Stat("long"); must(t, err) }, 2, 0},
			{"two removals", func() {
				must(t, errors.Join(client.Remove("long"), client.Remove("new")))
			}, 6, 0},
		} {
			if policy.Quota != nil {
				one.most += one.quotas
			}
			before := s.Statements()
			one.do()
			if n := s.Statements() - before; n > one.most || n == 0 {
				t.Errorf("%s, quota %v: %d statements, want at most %d", one.name,
					policy.Quota != nil, n, one.most)
			}
		}
	}
}

// testCountWhileOthersUpload: a count leaves out nothing that another node holds: what it has taken
// in advance, or freed, and what it has reserved for a file that is not there yet.
func testCountWhileOthersUpload(t *testing.T, name string) {
	const size = 3 << 20
	ctx := t.Context()
	bucket, err := s3bucket.New("bucket", s3bucket.Config{Endpoint: s3test.Storage(t, "bucket"),
		Region: "us-east-1", PathStyle: true, AccessKey: s3test.AccessKey,
		SecretKey: s3test.SecretKey})
	must(t, err)
	one, two := silentNode(t, name), silentNode(t, name)
	of := func(s *Store) (*objectfs.FS, *server.Quota) {
		return objectfs.New(bucket, &objectfs.Options{State: s.Objects("bucket")}),
			server.NewQuotaOf(s.Account(ctx, "s3://bucket", 0, 0))
	}
	files, quota := of(one)
	others, theirs := of(two)
	client := serve(t, others, server.Policy{Quota: theirs})
	create := func(name string) *usftp.File {
		f, err := client.Create(name)
		must(t, err)
		_, err = f.WriteAt(make([]byte, size), 0)
		must(t, err)
		return f
	}
	must(t, create("kept").Close())
	must(t, create("removed").Close())
	two.quotas.flush(ctx, false)
	var upload *usftp.File
	for _, one := range []struct {
		name          string
		before, after func()
		bytes, files  int64
	}{
		{"taken in advance", func() {}, func() {}, 2 * size, 2},
		{"a removed file", func() { must(t, client.Remove("removed")) }, func() {}, size, 1},
		{"an upload", func() { upload = create("new") }, func() { must(t, upload.Close()) },
			2 * size, 2},
	} {
		one.before()
		two.quotas.flush(ctx, false)
		must(t, quota.Recount(ctx, files, "/"))
		one.after()
		two.quotas.flush(ctx, true)
		var bytes, number int64
		must(t, two.do(ctx, func(t tx) error {
			_, err := t.one(`SELECT bytes, files FROM quotas`, nil, &bytes, &number)
			return err
		}))
		if bytes != one.bytes || number != one.files {
			t.Errorf("%s: %d bytes in %d files are counted, want %d in %d", one.name, bytes, number,
				one.bytes, one.files)
		}
	}
}

// silentNode opens a store that does nothing in the background, and waits for the store for long.
func silentNode(t *testing.T, name string) *Store {
	t.Helper()
	times := usual
	times.tick, times.dead, times.patience = time.Hour, time.Hour, time.Minute
	s, err := open(t.Context(), name, slog.New(slog.DiscardHandler), times)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	s.stop()
	s.ended.Wait()
	return s
}

// serve serves a client until the test ends.
func serve(t *testing.T, files server.FS, policy server.Policy) *usftp.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(context.Background(), theirs, files, &server.Options{Policy: policy})
	}()
	client, err := usftp.NewClientPipe(ours, ours)
	must(t, err)
	t.Cleanup(func() {
		client.Close()
		<-served
	})
	return client
}

// testHungNode: a node that hangs in the middle of a transaction holds up others only for a moment.
func testHungNode(t *testing.T, name string) {
	hung, other := patient(t, name), patient(t, name)
	if hung.db.postgres == "" {
		return // a file has one node
	}
	begun, err := hung.db.Begin()
	must(t, err)
	defer begun.Rollback()
	_, err = begun.Exec(`UPDATE nodes SET seen = seen WHERE node = $1`, other.node)
	must(t, err)
	must(t, other.live(t.Context(), other.do))
	if other.Down() {
		t.Error("the store is down for others")
	}
}

// testPause: a node that is suspended in the middle of a transaction begins it again, and does not
// take the store for down.
func testPause(t *testing.T, name string) {
	s := timedNode(t, name, times{tick: time.Hour, beat: time.Hour, dead: time.Hour,
		patience: quick.patience})
	if s.db.postgres == "" {
		return // a file does not mind
	}
	tries := 0
	must(t, s.do(t.Context(), func(t tx) error {
		if tries++; tries == 1 {
			time.Sleep(s.db.mostIdle() * 5 / 4) // the rest of its time is for a busy machine
		}
		return t.run(`UPDATE nodes SET seen = seen`)
	}))
	if tries != 2 || s.Down() {
		t.Errorf("%d tries, and the store is down: %t", tries, s.Down())
	}
}

// testConfirm: a node need not ask whether it still has a right while the store has a fresh sign of
// life of it. If it has given none for long it asks, and also if it was buried and lives again.
func testConfirm(t *testing.T, name string) {
	silent := quick
	silent.tick, silent.beat = time.Hour, time.Hour
	one, err := open(t.Context(), name, slog.New(slog.DiscardHandler), silent)
	must(t, err)
	t.Cleanup(func() { one.Close() })
	ctx := t.Context()
	mine := lock(t, one.Objects("b"), "f")
	must(t, one.Objects("b").Confirm(ctx, mine))
	two, undertaker := patient(t, name), node(t, name)
	var theirs objectfs.Upload
	testenv.Until(t, "the silent node is dead", func() bool {
		theirs, err = two.Objects("b").Lock(ctx, "f", "")
		return err == nil
	})
	must(t, undertaker.Close()) // before it takes the silent one for dead again
	is(t, one.Objects("b").Confirm(ctx, mine), objectfs.ErrLocked)
	must(t, one.live(ctx, one.do))
	is(t, one.Objects("b").Confirm(ctx, mine), objectfs.ErrLocked)
	// Nor does it have the right again that another of its sessions gets.
	must(t, two.Objects("b").Unlock(ctx, theirs, false))
	must(t, one.Objects("b").Confirm(ctx, lock(t, one.Objects("b"), "f")))
	is(t, one.Objects("b").Confirm(ctx, mine), objectfs.ErrLocked)
}

// TestDown: an error that clients see does not say where the database is, and why it does not
// answer.
func TestDown(t *testing.T) {
	t.Parallel()
	s := still(t, filepath.Join(t.TempDir(), "store.db"))
	s.db.Close()
	for range 2 {
		_, err := s.Objects("b").Lock(t.Context(), "f", "")
		if !errors.Is(err, ErrDown) || err.Error() != ErrDown.Error() {
			t.Errorf("%v", err)
		}
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("the server knows %v", err)
	}
}
