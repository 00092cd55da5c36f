package transfer

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/plan"
)

// repeatRenames repeats the source's renames, in order where that matters. Entries that cannot be
// renamed are copied and deleted later.
func repeatRenames(s *syncing) {
	var renames []plan.Rename
	for _, r := range s.options.Within.Renames {
		renames = append(renames, plan.Rename(r))
	}
	if len(renames) > 0 {
		s.tree.into.Unmoved(".") // the others need its result, and report its error
	}
	for len(renames) > 0 && s.tree.ctx.Err() == nil {
		n := plan.Unrelated(renames)
		var work errgroup.Group
		work.SetLimit(plan.RenamesAtOnce)
		for _, r := range renames[:n] {
			work.Go(func() error { repeatRename(s, r); return nil })
		}
		work.Wait()
		renames = renames[n:]
	}
}

func repeatRename(s *syncing, r plan.Rename) {
	src := s.tree.src
	from, to := path.Clean(r.From), path.Clean(r.To)
	if !plan.IsBelow(from) || !plan.IsBelow(to) {
		return
	}
	if _, err := src.Lstat(src.Join(s.tree.root.source, from)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	now, err := src.Stat(src.Join(s.tree.root.source, to))
	dir := now.Mode.IsDir()
	if err != nil || excludesPath(s, from, dir) || excludesPath(s, to, dir) {
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
	if s.decides.IsRenamed(&now, s.decides.Owners.Hold(&old)) {
		target.Rename(from, to)
	}
}

// excludesPath works like directory.excludes for a path that may lie in an excluded directory.
func excludesPath(s *syncing, rel string, dir bool) bool {
	src := s.tree.src
	in := &directory{tree: s.tree, rel: ".", source: s.tree.root.source}
	for rest := rel; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if s.options.IgnoreFile != "" {
			if _, err := src.Lstat(in.source); err != nil || s.readIgnore(in) != nil {
				return true // its rules are gone
			}
		}
		if in.excludes(name, dir || rest != "") {
			return true
		}
		in = in.child(name)
	}
	return false
}
