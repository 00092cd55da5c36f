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

	// Counted reports whether there is a count, which may become doubtful later. It is asked before
	// each change, which its error fails.
	Counted(ctx context.Context) (bool, error)

	// Await tells that so much more is reserved for what is not there yet, or less: nobody would
	// find it who counts the directory.
	Await(bytes, files int64)

	// BeginCount begins a count, to whose result it adds what other servers await. Later changes
	// correct it; it is ignored if another server's count has ended meanwhile.
	BeginCount(ctx context.Context) (end func(bytes, files int64) error, err error)
}

// A Limitable is an [Account] that users with other limits can share.
type Limitable interface {
	Account

	// WithLimits returns an account of the same count with these limits.
	WithLimits(maxBytes, maxFiles int64) Account
}

// Usage is the used part of a quota, and its limits. A limit of 0 means none.
type Usage struct{ Bytes, Files, MaxBytes, MaxFiles int64 }

// counter is a count in memory.
type counter struct {
	mu           sync.Mutex
	bytes, files int64
}

// limited is an account of a counter.
type limited struct {
	*counter
	maxBytes, maxFiles int64
}

// NewAccount returns an account in memory, which is a [Limitable]. A limit of 0 means none.
func NewAccount(maxBytes, maxFiles int64) Account {
	return limited{&counter{}, maxBytes, maxFiles}
}

func (l limited) WithLimits(maxBytes, maxFiles int64) Account {
	return limited{l.counter, maxBytes, maxFiles}
}

func (l limited) Reserve(_ context.Context, bytes, files int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.maxBytes > 0 && bytes > 0 && l.bytes+bytes > l.maxBytes ||
		l.maxFiles > 0 && files > 0 && l.files+files > l.maxFiles {
		return ErrQuota
	}
	l.bytes, l.files = l.bytes+bytes, l.files+files
	return nil
}

func (l limited) Settle(bytes, files int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes, l.files = max(0, l.bytes+bytes), max(0, l.files+files)
}

func (l limited) Usage() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Usage{l.bytes, l.files, l.maxBytes, l.maxFiles}
}
