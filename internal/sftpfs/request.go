//go:build linux || darwin

package sftpfs

import (
	"context"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// interruptGrace is how long a request may still run after a signal that does not end the program.
// The kernel tells a file system of every signal, including SIGCHLD and timers, and programs do not
// expect those to interrupt stat or mkdir. Go's runtime sends itself signals, too, and calls rmdir
// again after EINTR, which fails if the first call was carried out: hence also while the link is
// down.
const interruptGrace = 2 * time.Second

// brief is how long a call may take before it can be interrupted. A goroutine for each call, to
// wait for a signal, would cost as much as a call that is answered from memory.
const brief = 10 * time.Millisecond

// request returns the context of one call by the kernel. The caller must call stop when the call is
// over.
func (f *FS) request(cancel <-chan struct{}, header *fuse.InHeader) (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(f.ctx)
	if cancel == nil {
		return ctx, func() { end(nil) }
	}
	pid := header.Pid
	watch := time.AfterFunc(brief, func() {
		select {
		case <-ctx.Done():
			return
		case <-cancel:
		}
		if !dies(pid) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(interruptGrace):
			}
		}
		end(errInterrupted)
	})
	return ctx, func() {
		watch.Stop()
		end(nil)
	}
}
