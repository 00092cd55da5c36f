package daemon

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
)

// Abandoned uploads are removed at this age.
const (
	sweepAge   = 7 * 24 * time.Hour
	sweepEvery = 6 * time.Hour
	sweepAgain = 5 * time.Minute // while nobody knows how old they are
)

// sweeper removes the leftovers of old uploads from all roots.
type sweeper struct {
	log    *slog.Logger
	quotas func(root string) []*server.Quota // from which what is removed is subtracted
	clock  func(ctx context.Context) (now time.Time, ok bool)

	mu    sync.Mutex
	roots map[string]sweep
}

// sweep removes the leftovers that are so old from a root with these quotas.
type sweep func(ctx context.Context, age time.Duration, quotas ...*server.Quota) error

// add adds a root. Nothing of it may stay open for the sweep: its users may be forgotten.
func (s *sweeper) add(root string, one sweep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.roots == nil {
		s.roots = map[string]sweep{}
	}
	s.roots[root] = one
}

// directory opens a root that is a directory, in which uploads appear when they are complete.
func (s *sweeper) directory(root string) (*osfs.FS, error) {
	files, err := osfs.NewAtomic(root)
	if err == nil {
		s.add(root, func(ctx context.Context, age time.Duration, quotas ...*server.Quota) error {
			return sweepDirectory(ctx, root, age, quotas)
		})
	}
	return files, err
}

func sweepDirectory(ctx context.Context, root string, age time.Duration,
	quotas []*server.Quota) error {
	files, err := osfs.NewAtomic(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer files.Close()
	return files.Sweep(ctx, age, quotas...)
}

// clock returns the time from which the age of files counts, and whether they may be removed for
// it: that of the database or of this machine, whichever is earlier, since one may be far ahead.
func (s *service) clock(ctx context.Context) (now time.Time, ok bool) {
	now = time.Now()
	if s.store == nil {
		return now, true
	}
	databases, ok, err := s.store.Clock(ctx)
	if databases.Before(now) {
		now = databases
	}
	return now, ok && err == nil
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	for {
		next := time.After(sweepAgain)
		if now, ok := s.clock(ctx); ok {
			next = time.After(sweepEvery)
			s.once(ctx, sweepAge+time.Since(now))
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

func (s *sweeper) once(ctx context.Context, age time.Duration) {
	s.mu.Lock()
	roots := maps.Clone(s.roots)
	s.mu.Unlock()
	// A root within another comes first: its own quota counts what its users have left.
	inner := func(a, b string) int { return cmp.Compare(len(b), len(a)) }
	for _, root := range slices.SortedFunc(maps.Keys(roots), inner) {
		err := roots[root](ctx, age, s.quotas(root)...)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("old uploads are not removed", "root", root, "error", err)
		}
	}
}
