package transfer

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/plan"
	"github.com/usftp/usftp/internal/samename"
)

// gone makes sure that the source lacks the entries that a sync is about to delete. A listing alone
// does not: if a directory is renamed or its file system unmounted while it is listed, its other
// entries are missing, and OpenSSH's server leaves out entries that it cannot look at. So each name
// is looked up again, after which the directory and the source itself must still exist.
type gone struct {
	sync  *syncing
	first func() (mark string, err error) // the source's mark when the sync began

	mu       sync.Mutex
	vanished map[string]bool // source directories, by relative path, in which an entry vanished
	skipped  sync.Once       // warned that these lose nothing
	stopped  error           // why nothing more is deleted
}

// errIncomplete reports that entries of the source were missed while it was listed.
var errIncomplete = errors.New(
	"the source changed or went away while it was read, so nothing more is deleted; run it again")

// errUnlisted reports an entry that the source has and does not list. OpenSSH's server takes an
// error while it reads a directory, as on a bad disk, for the end of the directory.
var errUnlisted = errors.New("the source has it, but does not list it: " +
	"its list of the directory is not complete, so nothing more is deleted")

// begin asks for the source's mark, without waiting for the answer.
func (g *gone) begin() {
	t := g.sync.tree
	g.first = sync.OnceValues(func() (string, error) { return t.src.Mark(t.route.Source) })
	go g.first()
}

// note records that an entry vanished from the source.
func (g *gone) note(rel string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vanished == nil {
		g.vanished = make(map[string]bool)
	}
	g.vanished[path.Dir(rel)] = true
}

// unsure reports whether an entry vanished in a directory or in one above it: nothing is deleted
// there, since the entry may have moved where the walk did not see it.
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

// stop reports err, and stops all deleting.
func (g *gone) stop(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped == nil {
		g.stopped = err
		g.sync.tree.root.fail(err)
	}
	return g.stopped
}

// confirm returns the names of lost that the source still lacks, or an error if none are to be
// deleted, which was reported. With dirs, the source may have an entry of the same name that is no
// directory.
func (g *gone) confirm(lost plan.Lost, dirs bool) (lacking []string, err error) {
	t := g.sync.tree
	g.mu.Lock()
	stopped := g.stopped
	g.mu.Unlock()
	if stopped != nil {
		return nil, stopped
	}
	if g.unsure(lost.Present) {
		g.skipped.Do(func() {
			t.root.warn(
				"nothing is deleted where something vanished from the source while it was read")
		})
		return nil, fs.SkipDir
	}
	err = g.stands(lost.Present)
	taken := make([]bool, len(lost.Names))
	// Twice: a directory that is renamed away and back stands before and after a look that misses
	// its entries.
	for look := range 2 {
		var looks errgroup.Group
		looks.SetLimit(deleteFiles)
		for i, name := range lost.Names {
			if err != nil || taken[i] {
				continue
			}
			looks.Go(func() (err error) {
				taken[i], err = g.taken(lost.Present, path.Join(lost.Dir, name), dirs, look == 1)
				return err
			})
		}
		if err = cmp.Or(err, looks.Wait()); err == nil {
			err = g.stands(lost.Present)
		}
	}
	if err == nil {
		err = g.same()
	}
	if err != nil && t.ctx.Err() == nil {
		err = g.stop(err)
	}
	for i, name := range lost.Names {
		if !taken[i] {
			lacking = append(lacking, name)
		}
	}
	return lacking, err
}

// stands fails unless dir is still a directory of the source.
func (g *gone) stands(dir string) error {
	t := g.sync.tree
	return g.missed(t.src.Join(t.route.Source, dir), t.stands(dir))
}

// same fails unless the source still has its first mark.
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

// missed returns errIncomplete if a path that should exist is absent.
func (g *gone) missed(at string, err error) error {
	if endpoint.IsAbsent(err) {
		return &fs.PathError{Op: "sync", Path: at, Err: errIncomplete}
	}
	return err
}

// taken reports whether the source, which lacks a path, takes it for another that it has: such a
// source can have only one of both, and the target may have the only copy of the other. If the
// source has the path after all, taken fails. It compares contents only with compares, and otherwise
// takes files of one size and time for equal.
func (g *gone) taken(present, rel string, isDir, compares bool) (bool, error) {
	t := g.sync.tree
	at := t.src.Join(t.route.Source, rel)
	look := t.src.Lstat
	if isDir && t.options.Links == LinksFollow {
		look = t.src.Stat
	}
	found, err := look(at)
	switch {
	case endpoint.IsAbsent(err):
		return false, nil
	case err != nil:
		if listed, lists := g.lists(present, rel); lists == nil && listed == throughLink {
			return false, nil // a link that leads to itself, or where we may not look
		}
		return false, err
	case isDir && !found.Mode.IsDir():
		return false, nil
	}
	switch listed, err := g.lists(present, rel); {
	case err != nil:
		return false, err
	case listed == throughLink:
		return false, nil
	case listed == notListed:
		return false, &fs.PathError{Op: "sync", Path: at, Err: errUnlisted}
	case listed == asSpelt && !isDir && found.Mode.IsDir() && excludesPath(g.sync, rel, true):
		return false, nil // rules exclude directories of this name, and the target has a file
	case listed == asSpelt:
		return false, g.missed(at, fs.ErrNotExist)
	}
	if isDir { // the entries taken for others are still in it
		return false, nil
	}
	there, err := t.into.Lstat(rel)
	if err != nil {
		return false, endpoint.IgnoreMissing(err)
	}
	if found.IsRegular() && there.IsRegular() && found.Size == there.Size &&
		found.HasTimes && there.HasTimes && endpoint.Apart(found.Mtime, there.Mtime) == 0 {
		if !compares {
			return false, nil
		}
		renamed := entry{dir: g.sync.place(path.Dir(rel)), name: path.Base(rel), info: found}
		same, err := differ{g.sync}.sameContents(&renamed)
		if t.ctx.Err() != nil {
			return false, context.Cause(t.ctx)
		}
		if same && err == nil {
			return false, nil
		}
	}
	t.warn("", t.dst.Join(t.root.target, rel),
		"it is not deleted: the source takes its name for another one, which the source has")
	return true, nil
}

// listing is how the source lists a path.
type listing int

const (
	notListed   listing = iota
	asSpelt             // in this spelling
	respelt             // in another one, which differs in case or the like, or may be a long name
	throughLink         // as a path through a link, which is no directory of the source
)

// form returns a form shared by all names that a source takes for one. Windows drops what is after a
// colon, the name of a stream, and dots and spaces at the end.
func form(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return samename.Form(strings.TrimRight(name, ". "))
}

// isShort reports whether Windows or Samba may take a name for a long one that looks different: it
// has at most 8 characters, such as LONGNA~1, before an extension. Backups of editors end with ~.
func isShort(name string) bool {
	base, extension, _ := strings.Cut(name, ".")
	tilde := strings.IndexByte(base, '~')
	return tilde > 0 && tilde < len(base)-1 && len(base) <= 8 && len(extension) <= 3
}

// lists looks for a path in the source's listings, below a directory that both sides have.
func (g *gone) lists(present, rel string) (listing, error) {
	t := g.sync.tree
	below := rel
	if present != "." {
		below = strings.TrimPrefix(rel, present+"/")
	}
	link := false
	for name := range strings.SplitSeq(below, "/") {
		if link && t.options.Links != LinksFollow {
			return throughLink, nil
		}
		d := &directory{tree: t, source: t.src.Join(t.route.Source, present), rel: present}
		var err error
		if d.info, err = t.src.Stat(d.source); err != nil {
			return notListed, g.missed(d.source, err)
		}
		listed := notListed
		err = t.list(d, func(e *entry, _ error) bool {
			switch {
			case e.name == name:
				listed, link = asSpelt, e.info.Mode&fs.ModeSymlink != 0
			case isShort(name), form(e.name) == form(name):
				listed = respelt
			}
			return listed != asSpelt
		})
		if err != nil || listed != asSpelt {
			return listed, err
		}
		present = path.Join(present, name)
	}
	return asSpelt, nil
}
