package transfer

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/private"
)

// A targetDir is the directory that a tree is copied to, with everything below it.
type targetDir struct {
	path string
	endpoint.Root
	within string // the copy's name in the directory that was named as the target, or ""
	exists bool   // known to
	made   bool   // by begin
}

// begin makes the directory to copy to, if it does not exist, and opens it.
func (t localTarget) begin(of *tree, source endpoint.Info,
	inside func() error) (to targetDir, err error) {
	to.path = of.route.Target
	err = of.copies.CheckBase(of.base)
	if err == nil {
		err = of.notInside(source.Local)
	}
	if err == nil {
		err = inside()
	}
	if err != nil {
		return to, err
	}
	info, err := os.Stat(to.path)
	at := "."
	switch {
	case err == nil && !info.IsDir():
		return to, &fs.PathError{Op: "write", Path: to.path, Err: endpoint.ErrNotDirectory}
	case err == nil && of.base != ".":
		at = of.base
		to.path = filepath.Join(to.path, at)
	case err == nil:
		to.exists = true
	case !errors.Is(err, fs.ErrNotExist):
		return to, err
	default:
		if to.made, err = of.do.makeTop(to.path, source.Perm()|0o700); err != nil {
			return to, err
		}
		to.exists = to.made
	}
	var top *os.Root // nil if the target does not exist
	if info != nil || to.made {
		if top, err = os.OpenRoot(of.route.Target); err != nil {
			return to, err
		}
	}
	t.Root = endpoint.NewLocalRoot(top, at)
	t.Root.Quirks = t.Quirks()
	to.Root = of.do.root(t.Root)
	return to, nil
}

// notInside refuses to copy a local directory to itself or into a directory below it, and to sync
// it to one above it.
func (t *tree) notInside(source fs.FileInfo) error {
	if source == nil {
		return nil
	}
	target := t.route.Target
	info, err := os.Stat(filepath.Join(target, t.base))
	if err == nil && os.SameFile(info, source) {
		return t.rules.apart
	}
	there, err := os.Stat(target)
	if err != nil {
		target = filepath.Dir(target)
	}
	if liesIn(target, source) || t.rules.mutual && err == nil && liesIn(t.route.Source, there) {
		return t.rules.apart
	}
	return nil // if the target cannot be examined, making it will fail with the reason
}

// liesIn reports whether name leads to dir or below it.
func liesIn(name string, dir fs.FileInfo) bool {
	name, err := endpoint.Local{}.RealPath(name)
	if err != nil {
		return false
	}
	for {
		if info, err := os.Stat(name); err == nil && os.SameFile(info, dir) {
			return true
		}
		above := filepath.Dir(name)
		if above == name {
			return false
		}
		name = above
	}
}

func (t remoteTarget) begin(of *tree, _ endpoint.Info,
	inside func() error) (to targetDir, err error) {
	to.path = of.route.Target
	if err := of.copies.CheckBase(of.base); err != nil {
		return to, err
	}
	to.path = cmp.Or(to.path, ".")
	there, err := t.Stat(to.path)
	untold := private.Untold(err)
	switch {
	case err == nil && there.Mode.IsDir(), untold && (filecopy.MeansDirectory(to.path) ||
		strings.HasSuffix(to.path, "/") && !errors.Is(err, usftp.ErrSSHFxFailure)): // it is missing
		to.path = path.Join(to.path, of.base)
		to.exists = of.base == "."
	case err == nil:
		return to, &fs.PathError{Op: "write", Path: to.path, Err: endpoint.ErrNotDirectory}
	case !untold && !errors.Is(err, fs.ErrNotExist):
		return to, err
	}
	if err := inside(); err != nil {
		return to, err
	}
	t.Root = endpoint.NewHostRoot(t.Host, to.path)
	to.Root = of.do.root(t.Root)
	return to, nil
}

// openDir gives the owner all permissions on a directory, if it is still in its place, and returns
// the mode that the directory had. changed may be true even if openDir failed.
func (t *targetDir) openDir(dir string) (was fs.FileMode, changed bool, err error) {
	i, err := t.LookDir(dir)
	if err != nil || !i.HasMode || i.Mode&0o700 == 0o700 {
		return was, false, err
	}
	return i.Mode, true, t.setMode(dir, i.Mode|0o700)
}

// restoreDir gives a directory back the mode that openDir returned.
func (t *targetDir) restoreDir(dir string, mode fs.FileMode) error {
	_, err := t.LookDir(dir)
	if err == nil {
		err = t.setMode(dir, mode)
	}
	return err
}

func (t *targetDir) setMode(dir string, mode fs.FileMode) error {
	_, err := t.SetAttrs(dir, fs.ModeDir, false,
		usftp.NewAttrs{SetMode: true, Mode: mode &^ fs.ModeType})
	return err
}

// leave closes a directory and those above it after the walk: nothing else uses them.
func (t *targetDir) leave(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		t.Leave(dir)
	}
}
