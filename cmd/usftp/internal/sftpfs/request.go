//go:build linux || darwin

package sftpfs

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// interruptGrace is how long a request may still run after a signal that is not meant to end the
// program. The kernel reports every signal to a file system, including SIGCHLD and timers, and
// programs do not expect those to interrupt stat or mkdir. Go's runtime sends itself signals, too,
// and calls rmdir again after EINTR, which fails if the first call was carried out. So the grace
// also applies while the link is down.
const interruptGrace = 2 * time.Second

// signalPoll is how often a request checks meanwhile whether a later signal ends the program: the
// kernel reports only the first.
const signalPoll = 50 * time.Millisecond

// interruptDelay is how long a call may take before it can be interrupted. A goroutine for each
// call, to wait for a signal, would cost as much as a call answered from memory.
const interruptDelay = 10 * time.Millisecond

// A call is a call by the kernel. Its context carries it.
type call struct {
	arrived atomic.Pointer[time.Time] // when the host last accepted data that the call waits for
}

type callKey struct{}

// progress notes that the host has accepted data that a call waits for.
func progress(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		now := time.Now()
		c.arrived.Store(&now)
	}
}

// request returns the context of one call by the kernel. It ends with errTimeout when the call has
// waited for too long, for any reason. The caller must call stop when the call is over.
func (f *FS) request(cancel <-chan struct{}, header *fuse.InHeader) (ctx context.Context,
	stop func()) {
	began := time.Now()
	ctx, end := context.WithCancelCause(f.ctx)
	c := new(call)
	ctx = context.WithValue(ctx, callKey{}, c)
	pid := header.Pid
	watch := time.AfterFunc(interruptDelay, func() { end(f.link.overdue(ctx, c, cancel, pid, began)) })
	f.calls.Add(1)
	return ctx, func() {
		f.calls.Add(-1)
		watch.Stop()
		end(nil)
	}
}

// overdue waits until a call must end, and returns the cause: the timeout has passed since it
// began. It waits longer only for a slow host: one that accepts the call's data bit by bit, or that
// is alive over the same connection all the time.
func (l *link) overdue(ctx context.Context, c *call, cancel <-chan struct{}, pid uint32,
	from time.Time) error {
	timer := time.NewTimer(time.Until(from.Add(l.timeout)))
	defer timer.Stop()
	var signals <-chan time.Time
	var signalled time.Time
	slow := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-cancel:
			cancel, signalled = nil, time.Now()
			if dies(pid) {
				return errInterrupted
			}
			signals = time.After(signalPoll)
		case <-signals:
			if dies(pid) || time.Since(signalled) >= interruptGrace {
				return errInterrupted
			}
			signals = time.After(signalPoll)
		case <-timer.C:
			heard, same := l.heardSince(from)
			// A live host is asked for a sign of life well before that.
			slow = slow || same && l.isUp() && time.Since(heard) < l.timeout/4
			if slow && same {
				from = latest(from, heard)
			}
			if arrived := c.arrived.Load(); arrived != nil {
				from = latest(from, *arrived)
			}
			left := time.Until(from.Add(l.timeout))
			if left <= 0 {
				return errTimeout
			}
			timer.Reset(left)
		}
	}
}
