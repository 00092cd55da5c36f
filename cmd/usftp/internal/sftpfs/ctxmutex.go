//go:build linux || darwin

package sftpfs

import (
	"context"
)

// A ctxMutex is a lock for which callers can stop waiting.
type ctxMutex chan struct{}

func newCtxMutex() ctxMutex { return make(ctxMutex, 1) }

func (m ctxMutex) lock(ctx context.Context) error {
	if m.tryLock() {
		return nil
	}
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryLock reports whether it could lock at once.
func (m ctxMutex) tryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

func (m ctxMutex) unlock() { <-m }
