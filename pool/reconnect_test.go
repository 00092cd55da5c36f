package pool_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/dial"
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

// TestHostKeyThatHasChanged: once the host cannot prove that it is the same, it is not asked again.
func TestHostKeyThatHasChanged(t *testing.T) {
	for problem, want := range map[dial.HostKeyProblem]int{dial.HostKeyChanged: 1,
		dial.HostKeyRevoked: 1, dial.HostKeyUnknown: 3} {
		client, err := memoryConnection{memfs.New(1 << 20)}.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dials, why := 0, &dial.Error{Host: "h", Err: &dial.HostKeyError{Problem: problem}}
		conn := pool.NewConn(t.Context(), pool.Host{Client: client, Name: "h",
			Redial: func(context.Context) (pool.Host, error) { dials++; return pool.Host{}, why }},
			pool.Retry{Retries: 3, Backoff: func(int) time.Duration { return 0 }})
		client.Close()
		renewed := conn.Renew(client, client.Wait(), func(pool.Attempt) {})
		err = conn.Why(nil)
		if renewed || dials != want || !errors.Is(err, why) ||
			strings.Contains(err.Error(), "; reconnecting failed: h: ") != (want == 1) {
			t.Errorf("problem %d: %d attempts; %v", problem, dials, err)
		}
	}
}
