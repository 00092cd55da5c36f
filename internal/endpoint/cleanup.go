package endpoint

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// CleanupTime limits how long cleaning up after an interruption may take.
const CleanupTime = 5 * time.Second

const (
	// silentTime is how long a host may be silent until it is not cleaned up any more: whoever
	// interrupts a run because nothing moves wants it to end.
	silentTime = time.Second

	// leastSilent is how long it has in any case.
	leastSilent = 250 * time.Millisecond
)

// cleanup is a host's part of the work that remains after the run's context has ended. All who do
// such work at the same time share a context, which one goroutine watches.
type cleanup struct {
	mu     sync.Mutex
	users  int
	ctx    context.Context
	cancel context.CancelFunc
	silent atomic.Bool // the host was, so nothing more is asked of it
}

// Cleanup implements Place.
func (Local) Cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), CleanupTime)
}

// Cleanup implements Place.
func (h *Host) Cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.ctx.Err() == nil {
		return Local{}.Cleanup(ctx)
	}
	c := &h.cleanup
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users++; c.users == 1 {
		c.ctx, c.cancel = context.WithTimeout(context.WithoutCancel(h.ctx), CleanupTime)
		go h.watch(c.ctx, c.cancel)
	}
	return c.ctx, sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.users--; c.users == 0 {
			c.cancel()
		}
	})
}

// watch calls end if the host is silent: if what it owes is overdue, or it does not even answer a
// ping. A host that takes its time for a request is not silent.
func (h *Host) watch(ctx context.Context, end func()) {
	client, began := h.conn.Host().Client, time.Now()
	var answered atomic.Bool
	go func() {
		if err := client.Ping(ctx); err == nil || errors.Is(err, errors.ErrUnsupported) {
			answered.Store(true)
		}
	}()
	tick := time.NewTicker(silentTime / 10)
	defer tick.Stop()
	for !h.cleanup.silent.Load() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		silent := !answered.Load() && time.Since(began) >= silentTime &&
			time.Since(private.OfClient(client).Heard()) >= silentTime
		if since, _ := Overdue(h.conn.Host()); !since.IsZero() {
			silent = time.Since(since) >= silentTime && time.Since(began) >= leastSilent
		}
		h.cleanup.silent.Store(silent)
	}
	end()
}

// Overdue returns since when all sessions of a host that owe something have sent nothing of it, and
// when the connection is given up for that. Both are zero if nothing is overdue.
func Overdue(host pool.Host) (since, end time.Time) {
	clients := []*usftp.Client{host.Client}
	if host.Pool != nil {
		others, _ := pools.OfPool(host.Pool).Sessions()
		for _, other := range others {
			clients = append(clients, other.Client())
		}
	}
	for _, client := range clients {
		if from, to := private.OfClient(client).Overdue(); from.After(since) {
			since, end = from, to
		}
	}
	return since, end
}
