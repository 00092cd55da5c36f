package pool_test

import (
	"context"
	"testing"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server/memfs"
)

// TestRenewOfAView: a connection is replaced for whoever has found it lost, also through a view of
// its client.
func TestRenewOfAView(t *testing.T) {
	files := memoryConnection{memfs.New(1 << 20)}
	connect := func(ctx context.Context) (pool.Host, error) {
		client, err := files.Open(ctx)
		return pool.Host{Client: client, Name: "memory"}, err
	}
	host, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host.Redial = connect
	conn := pool.NewConn(t.Context(), host, pool.Retry{Retries: 1,
		Backoff: func(int) time.Duration { return 0 }})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	view := conn.Host().Client.WithContext(ctx)
	host.Client.Close()
	attempts := 0
	if !conn.Renew(view, view.Wait(), func(pool.Attempt) { attempts++ }) {
		t.Error("the connection is not replaced")
	}
	defer conn.Host().Client.Close()
	if _, err := conn.Host().Client.Stat("/"); err != nil || attempts != 2 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}
