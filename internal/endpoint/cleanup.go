package endpoint

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/private"
)

// CleanupTime limits how long cleaning up after an interruption may take.
const CleanupTime = 5 * time.Second

const (
	// silentTime is how long a host may be silent before its cleanup is given up: a user who
	// interrupts a stuck run wants it to end.
	silentTime = time.Second

	// leastSilent is the time that a host gets in any case.
	leastSilent = 250 * time.Millisecond
)

// A cleanup is the work on a host that remains after the run's context has ended. All its
// concurrent users share a context, which one goroutine watches.
type cleanup struct {
	mu     sync.Mutex
	users  int
	ctx    context.Context
	cancel context.CancelFunc
	silent atomic.Bool // the host was silent, so it gets no further requests
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

// watch calls end if the host is silent: if its answers are overdue, or it does not even answer a
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
