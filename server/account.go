package server

import (
	"context"
	"sync"
)

// Account keeps a Quota's count: the usage and its limits. Several servers may share one, for
// directories that they share. It is safe for concurrent use.
type Account interface {
	// Reserve adds to the count, or returns [ErrQuota] if that would exceed a limit, or another
	// error, with which the request fails. The amounts are never negative. Other changes of the
	// same file wait meanwhile, and writers ask for each piece, so a remote account should reserve
	// more than it is asked for, in advance.
	Reserve(ctx context.Context, bytes, files int64) error

	// Settle corrects the count by the actual difference, in either direction. It does not wait.
	Settle(bytes, files int64)

	// Usage returns the count. It does not wait, and may be a little old.
	Usage() Usage
}

// A Countable is an [Account] that may not have a count yet, in which case the directory is walked
// before the first change, and that several servers may count again at the same time.
type Countable interface {
	Account

	// Counted reports whether there is a count. Its error fails the change.
	Counted(ctx context.Context) (bool, error)

	// BeginCount begins a count. Later changes correct its result, which is ignored if another
	// server's count has ended meanwhile.
	BeginCount(ctx context.Context) (end func(bytes, files int64) error, err error)
}

// Usage is the used part of a quota, and its limits. A limit of 0 means none.
type Usage struct{ Bytes, Files, MaxBytes, MaxFiles int64 }

// counter is an Account in memory.
type counter struct {
	mu  sync.Mutex
	now Usage
}

func (c *counter) Reserve(_ context.Context, bytes, files int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.MaxBytes > 0 && bytes > 0 && c.now.Bytes+bytes > c.now.MaxBytes ||
		c.now.MaxFiles > 0 && files > 0 && c.now.Files+files > c.now.MaxFiles {
		return ErrQuota
	}
	c.now.Bytes, c.now.Files = c.now.Bytes+bytes, c.now.Files+files
	return nil
}

func (c *counter) Settle(bytes, files int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Bytes, c.now.Files = max(0, c.now.Bytes+bytes), max(0, c.now.Files+files)
}

func (c *counter) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}
