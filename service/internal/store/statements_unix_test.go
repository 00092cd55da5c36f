//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/s3bucket"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
)

// testStatements: what docs/objects.md says that a client's requests cost in the store: three
// statements a file, and with a quota one a part and what its looks cost.
func testStatements(t *testing.T, name string) {
	times := usual
	times.tick = time.Hour // nothing in the background
	s, err := open(t.Context(), name, slog.New(slog.DiscardHandler), times)
	must(t, err)
	t.Cleanup(func() { s.Close() })
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
		put(fmt.Sprint(policy.Quota != nil), 1) // the quota is counted, and some of it taken in advance
		now := time.Now()
		for _, one := range []struct {
			name         string
			do           func()
			most, quotas int64 // what a quota takes besides
		}{
			{"a small file", func() { put("small", 1000) }, 3, 2},
			{"another in its place", func() { put("small", 2000) }, 3, 3},
			{"a file of four parts", func() { put("long", parts*part) }, 4, parts + 2},
			{"times", func() { must(t, client.Chtimes("small", now, now)) }, 1, 0},
			{"a rename", func() { must(t, client.PosixRename("small", "other")) }, 3, 2},
			{"a temporary name", func() { put("new.filepart", parts*part) }, 3, parts + 2},
			{"its rename", func() { must(t, client.PosixRename("new.filepart", "new")) }, 4, 2},
			{"a removal", func() { must(t, client.Remove("other")) }, 2, 1},
			{"STAT", func() { _, err := client.Stat("long"); must(t, err) }, 1, 0},
			{"two removals", func() {
				must(t, errors.Join(client.Remove("long"), client.Remove("new")))
			}, 4, 2},
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

// testConfirm: a node that gives signs of life need not ask whether it still has a right; one that
// was buried, or that has given none for long, asks.
func testConfirm(t *testing.T, name string) {
	one, two := node(t, name), node(t, name)
	ctx := t.Context()
	mine := lock(t, one.Objects("b"), "f")
	eventually(t, "the right is certain", func() bool {
		life, ok := one.rights.life(right{"b", "f"})
		return ok && one.signs.still(life, one.times.dead)
	})
	must(t, one.Objects("b").Confirm(ctx, mine))
	must(t, two.do(ctx, func(t tx) error {
		if _, err := t.exec(`DELETE FROM nodes WHERE node = $1`, one.node); err != nil {
			return err
		}
		return forget(t, one.node)
	}))
	lock(t, two.Objects("b"), "f")
	eventually(t, "the node knows that it was buried", func() bool {
		return one.Objects("b").Confirm(ctx, mine) != nil
	})
	is(t, one.Objects("b").Confirm(ctx, mine), objectfs.ErrLocked)

	silent := lock(t, one.Objects("b"), "g")
	one.signs.given(time.Now().Add(-one.times.dead))
	must(t, two.do(ctx, func(t tx) error { return forget(t, one.node) }))
	lock(t, two.Objects("b"), "g")
	one.signs.given(time.Now().Add(-one.times.dead))
	is(t, one.Objects("b").Confirm(ctx, silent), objectfs.ErrLocked)
}
