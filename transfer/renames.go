package transfer

import (
	"errors"
	"io/fs"
	"path"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/internal/endpoint"
)

// repeatRenames repeats the source's renames, in order as far as that matters. What cannot be
// renamed is copied and deleted later.
func repeatRenames(s *syncing) {
	renames := s.options.Within.Renames
	if len(renames) > 0 {
		s.tree.into.Unmoved(".") // the others need what it finds out, and report its error
	}
	for len(renames) > 0 && s.tree.ctx.Err() == nil {
		n := unrelated(renames)
		var work errgroup.Group
		work.SetLimit(renamesAtOnce)
		for _, r := range renames[:n] {
			work.Go(func() error { repeatRename(s, r); return nil })
		}
		work.Wait()
		renames = renames[n:]
	}
}

// renamesAtOnce is how many renames are made at once: each takes a few round trips.
const renamesAtOnce = 64

// unrelated returns how many of the first renames may be made in any order: none of their paths
// is another's, or lies in it.
func unrelated(renames []SyncRename) int {
	met := make(map[string]bool)   // paths
	above := make(map[string]bool) // all directories above them
	for i, r := range renames[:min(len(renames), renamesAtOnce)] {
		for _, name := range []string{r.From, r.To} {
			name = path.Clean(name)
			if above[name] {
				return i
			}
			for at := name; at != "." && at != "/"; at = path.Dir(at) {
				if met[at] {
					return i
				}
			}
		}
		for _, name := range []string{r.From, r.To} {
			name = path.Clean(name)
			met[name] = true
			for name != "." && name != "/" {
				name = path.Dir(name)
				above[name] = true
			}
		}
	}
	return min(len(renames), renamesAtOnce)
}

func repeatRename(s *syncing, r SyncRename) {
	src := s.tree.src
	from, to := path.Clean(r.From), path.Clean(r.To)
	if !isBelow(from) || !isBelow(to) {
		return
	}
	if _, err := src.Lstat(src.Join(s.tree.root.source, from)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	now, err := src.Stat(src.Join(s.tree.root.source, to))
	dir := now.Mode.IsDir()
	if err != nil || s.filter.excludesPath(from, dir) || s.filter.excludesPath(to, dir) {
		return
	}
	target := &s.tree.into
	defer target.leave(path.Dir(from))
	defer target.leave(path.Dir(to))
	var old endpoint.Info
	var looks errgroup.Group
	looks.Go(func() error { return target.Unmoved(path.Dir(from)) })
	looks.Go(func() error { return target.Unmoved(path.Dir(to)) })
	looks.Go(func() (err error) {
		old, err = target.Lstat(from)
		return err
	})
	if looks.Wait() != nil {
		return
	}
	existing := newTargetEntry(&old)
	if existing.kind() == heldKindOf(now.Mode) && (now.Mode.IsDir() ||
		now.Mode.IsRegular() && existing.sameSize(&now) && existing.sameTime(s.asStored(&now),
			s.options.ModifyWindow)) {
		target.Rename(from, to)
	}
}
