package transfer

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/plan"
	"github.com/usftp/usftp/internal/private"
)

// telling is the executor of a dry run.
type telling struct{}

func (telling) makeAbove(t *tree) error { return t.mayMake(t.route.Target, false) }

func (telling) makeTop(string, fs.FileMode) (made bool, err error)   { return false, nil }
func (telling) root(r endpoint.Root) endpoint.Root                   { return rehearsal{r} }
func (telling) touch(*tree, string) (remove func() error, err error) { return nil, nil }
func (telling) note(treeMark) treeMark                               { return "" }
func (telling) openNotes(*tree)                                      {}
func (telling) did(t *tree, e *Event)                                { e.Kind = Planned; t.tell(e) }

// hand waits for no connection unless contents have to be compared.
func (telling) hand(w *walk, e *entry) {
	if e.do.Do == plan.Compare {
		w.queue(e)
		return
	}
	e.dir.pending.Add(1)
	w.copy(e)
	w.done(e.dir)
}

func (telling) single(c *fileTask) (Summary, error) {
	j, to := c.job, c.job.route.Target
	var err error
	if _, untold := j.src.Stat(j.route.Source); private.Untold(untold) {
		j.once = filecopy.OpenOnce
		err = c.copy()
	}
	if err == nil {
		err = j.mayMake(to, strings.HasSuffix(filepath.ToSlash(to), "/"))
		if err != nil {
			err = newError(j, j.route.Source, to, err)
		}
	}
	if err != nil {
		return alone(c, err)
	}
	j.tell(&Event{Kind: Planned, Route: j.route, Size: -1})
	return Summary{Target: to}, nil
}

// mayMake returns the error that MakePath would return, for a dry run. It cannot foresee those that
// only making a directory shows.
func (j *job) mayMake(target string, itself bool) error {
	if _, _, isPath := j.dst.Identity(target); !isPath {
		return nil
	}
	is, err := j.dst.Stat(target)
	switch {
	case private.Untold(err):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && (itself || j.tree != nil) && !is.Mode.IsDir():
		return &fs.PathError{Op: "write", Path: target, Err: endpoint.ErrNotDirectory}
	case err == nil:
		return nil
	}
	at := j.dst.Join(target, ".")
	if !itself {
		// not every server finds a file by a name with a slash
		if is, err := j.dst.Stat(at); at != target && err == nil && !is.Mode.IsDir() {
			return &fs.PathError{Op: "write", Path: target, Err: endpoint.ErrNotDirectory}
		}
		at = filecopy.Above(j.dst, at)
	}
	for ; ; at = filecopy.Above(j.dst, at) {
		is, err := j.dst.Stat(at)
		switch {
		case err == nil && !is.Mode.IsDir():
			return &fs.PathError{Op: "write", Path: at, Err: endpoint.ErrNotDirectory}
		case !errors.Is(err, fs.ErrNotExist) || at == filecopy.Above(j.dst, at):
			return nil
		case !j.options.MakePath:
			return &fs.PathError{Op: "mkdir", Path: target, Err: fs.ErrNotExist}
		}
	}
}

// told reports the change planned for an entry.
func (telling) told(e *entry) bool {
	route, size := e.route(), e.info.Size
	if e.info.Mode.IsDir() {
		route.Source, route.Target, size = route.Source+"/", route.Target+"/", -1
	}
	e.dir.tree.tell(&Event{Kind: Planned, Route: route, Size: size, Reason: reasons[e.do.Why]})
	return true
}

// rehearsal is a Root whose changes do nothing and succeed. It skips checks that only a change
// needs, such as whether a directory is still in its place.
type rehearsal struct{ endpoint.Root }

func (rehearsal) WriteSmall(string, []byte, func()) error          { return nil }
func (rehearsal) Remove(string, bool) error                        { return nil }
func (rehearsal) LookDir(string) (endpoint.Info, error)            { return endpoint.Info{}, nil }
func (rehearsal) FollowsLinks() bool                               { return false }
func (rehearsal) Unmoved(string) error                             { return nil }
func (rehearsal) Mkdir(string, fs.FileMode) (made bool, err error) { return true, nil }
func (rehearsal) Symlink(_, _ string) error                        { return nil }
func (rehearsal) ReplaceByLink(_, _, _, _ string) error            { return nil }
func (rehearsal) Rename(_, _ string) error                         { return nil }
func (rehearsal) Link(_, _ string) error                           { return nil }
func (rehearsal) Leave(string) error                               { return nil }

// SetAttrs refuses files known to have other names, as a real run's does.
func (u rehearsal) SetAttrs(name string, kind fs.FileMode, own bool,
	_ usftp.NewAttrs) (endpoint.Unset, error) {
	if _, local := u.Root.(*endpoint.LocalRoot); local && kind == 0 && !own {
		if i, err := u.Lstat(name); err == nil && localfs.Links(i.Local) > 1 {
			return endpoint.Unset{}, endpoint.ErrOtherNames
		}
	}
	return endpoint.Unset{}, nil
}
