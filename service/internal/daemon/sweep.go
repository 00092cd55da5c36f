package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp/server/osfs"
)

// Abandoned uploads are removed at this age.
const (
	sweepAge   = 7 * 24 * time.Hour
	sweepEvery = 6 * time.Hour
)

// sweeper removes the leftovers of old uploads from all roots.
type sweeper struct {
	log *slog.Logger

	mu    sync.Mutex
	roots []swept
}

// swept is a root that keeps abandoned uploads.
type swept interface {
	Sweep(ctx context.Context, age time.Duration) error
}

func (s *sweeper) add(root swept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roots = append(s.roots, root)
}

// directory opens a root that is a directory, in which uploads appear when they are complete.
func (s *sweeper) directory(root string) (*osfs.FS, error) {
	files, err := osfs.NewAtomic(root)
	if err == nil {
		s.add(files)
	}
	return files, err
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	again := time.NewTicker(sweepEvery)
	defer again.Stop()
	for {
		s.once(ctx, sweepAge)
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *sweeper) once(ctx context.Context, age time.Duration) {
	s.mu.Lock()
	roots := slices.Clone(s.roots)
	s.mu.Unlock()
	for _, root := range roots {
		if err := root.Sweep(ctx, age); err != nil && ctx.Err() == nil {
			s.log.Warn("old uploads are not removed", "error", err)
		}
	}
}
