//go:build linux || darwin

package sftpfs

import (
	"context"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// interruptGrace is what a request gets to finish when a signal arrives that does not end the
// program. A kernel tells a file system of every signal, a child's end and a timer's tick too, and
// programs do not expect stat or mkdir to be interrupted by those.
const interruptGrace = 2 * time.Second

// request returns the context of one call by the kernel. stop must be called when it is over.
func (f *FS) request(cancel <-chan struct{}, header *fuse.InHeader) (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(f.ctx)
	if cancel == nil {
		return ctx, func() { end(nil) }
	}
	pid := header.Pid
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-cancel:
		}
		if !dies(pid) && f.link.isUp() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(interruptGrace):
			}
		}
		end(errInterrupted)
	}()
	return ctx, func() { end(nil) }
}
