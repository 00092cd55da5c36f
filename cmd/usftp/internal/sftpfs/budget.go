//go:build linux || darwin

package sftpfs

import (
	"context"
	"sync"
	"time"
)

// budget limits the bytes that are not on the host yet.
type budget struct {
	mu      sync.Mutex
	free    int64
	changed chan struct{}
}

func newBudget(bytes int64) *budget { return &budget{free: bytes, changed: make(chan struct{})} }

// take waits until there is room. It may take more than is free, so that one request always fits.
func (b *budget) take(ctx context.Context, l *link, n int) error {
	began := time.Now()
	patience := l.patience()
	for {
		b.mu.Lock()
		if b.free > 0 {
			b.free -= int64(n)
			b.mu.Unlock()
			return nil
		}
		changed := b.changed
		b.mu.Unlock()
		if err := patience.over(); err != nil {
			return err
		}
		if !l.isUp() {
			if _, err := l.get(ctx, latest(began, l.heard())); err != nil {
				return err
			}
		}
		select {
		case <-changed:
			patience.arrived()
			progress(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second): // look at the link again
		}
	}
}

// charge takes bytes without waiting. The next call of take waits instead.
func (b *budget) charge(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free -= int64(n)
}

func (b *budget) put(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += int64(n)
	close(b.changed)
	b.changed = make(chan struct{})
}
