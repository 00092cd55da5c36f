package transfer

import (
	"errors"
	"io/fs"
	"path"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// gone establishes that the source does not have what a sync is about to delete. A listing alone
// does not: if a directory is renamed or its file system unmounted while it is listed, its other
// entries are missing, and OpenSSH's server leaves out what it cannot look at. So each name is
// looked up again, and the directory and the source itself must still be there after that.
type gone struct {
	sync  *syncing
	first func() (mark string, err error) // of the source when the sync began

	mu       sync.Mutex
	vanished map[string]bool // directories, relative to the source, in which something vanished
	skipped  sync.Once       // that those lose nothing was reported
	stopped  error           // why nothing more is deleted
}

// errIncomplete reports that entries of the source were missed while it was listed.
var errIncomplete = errors.New(
	"the source changed or went away while it was read, so nothing more is deleted; run it again")

// begin notes what the source is, without waiting for the answer.
func (g *gone) begin() {
	t := g.sync.tree
	g.first = sync.OnceValues(func() (string, error) { return t.src.Mark(t.route.Source) })
	go g.first()
}

// note records that something vanished from the source.
func (g *gone) note(rel string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vanished == nil {
		g.vanished = make(map[string]bool)
	}
	g.vanished[path.Dir(rel)] = true
}

// unsure reports whether something vanished in a directory or in one above it: nothing is deleted
// there, since it may have been moved to where it has not been seen.
func (g *gone) unsure(dir string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.vanished) > 0 {
		if g.vanished[dir] {
			return true
		}
		if dir == "." {
			break
		}
		dir = path.Dir(dir)
	}
	return false
}

// stop makes sure that nothing more is deleted.
func (g *gone) stop(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped == nil {
		g.stopped = err
		t := g.sync.tree
		t.fail("", t.route.Source, t.root.target, err)
	}
	return g.stopped
}

// confirm returns nil if the source still lacks all names in a directory, given relative to it.
// present is the nearest directory that both sides have. Directories that the source lacks may be
// something else there.
func (g *gone) confirm(present, dir string, names []string, dirs bool) error {
	t := g.sync.tree
	g.mu.Lock()
	stopped := g.stopped
	g.mu.Unlock()
	if stopped != nil {
		return stopped
	}
	if g.unsure(present) {
		g.skipped.Do(func() {
			t.warn(t.route.Source, t.root.target,
				"nothing is deleted where something vanished from the source while it was read")
		})
		return errKept
	}
	err := g.stands(present)
	var looks errgroup.Group
	looks.SetLimit(deleteFiles)
	if err == nil {
		for _, name := range names {
			looks.Go(func() error { return g.lacks(dir, name, dirs) })
		}
		err = looks.Wait()
	}
	if err == nil {
		err = g.stands(present)
	}
	if err == nil {
		err = g.same()
	}
	if err != nil && t.ctx.Err() == nil {
		return g.stop(err)
	}
	return err
}

// stands returns nil if a directory of the source is one.
func (g *gone) stands(dir string) error {
	t := g.sync.tree
	return g.missed(t.src.Join(t.route.Source, dir), t.stands(dir))
}

// same returns nil if the source is what it was.
func (g *gone) same() error {
	t := g.sync.tree
	first, err := g.first()
	if err != nil {
		return err
	}
	now, err := t.src.Mark(t.route.Source)
	if err == nil && now != first {
		err = fs.ErrNotExist
	}
	return g.missed(t.route.Source, err)
}

// missed returns errIncomplete for what should be there and is not.
func (g *gone) missed(at string, err error) error {
	if isAbsent(err) {
		return &fs.PathError{Op: "sync", Path: at, Err: errIncomplete}
	}
	return err
}

// lacks returns nil if the source has no entry of this name, or, for a directory, another one.
func (g *gone) lacks(dir, name string, isDir bool) error {
	t := g.sync.tree
	in := t.src.Join(t.route.Source, dir)
	at := t.src.Join(in, name)
	look := t.src.Lstat
	if isDir && t.options.Links == LinksFollow {
		look = t.src.Stat
	}
	found, err := look(at)
	switch {
	case isAbsent(err):
		return nil
	case err != nil:
		return err
	case isDir && !found.Mode.IsDir():
		return nil
	}
	// A source may take another spelling for this name.
	d := &directory{tree: t, source: in, rel: dir}
	if d.info, err = t.src.Stat(in); err != nil {
		return g.missed(in, err)
	}
	has := false
	err = t.list(d, func(e *entry, _ error) bool {
		has = has || e.name == name
		return !has
	})
	if err == nil && has {
		err = g.missed(at, fs.ErrNotExist)
	}
	return err
}

// isAbsent reports whether an error means that nothing is there.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
