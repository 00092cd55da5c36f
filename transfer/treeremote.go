package transfer

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/usftp/usftp"
)

// remoteSource is a tree on a host.
type remoteSource struct{ client *usftp.Client }

func (s remoteSource) join(dir, name string) string { return path.Join(dir, name) }

func (s remoteSource) look(name string) (facts, error) {
	info, err := s.client.Stat(name)
	if err != nil {
		return facts{}, err
	}
	return remoteFacts(info.Sys().(*usftp.FileStat)), nil
}

func remoteFacts(stat *usftp.FileStat) facts {
	f := facts{size: -1, hasMode: stat.HasMode(), hasTimes: stat.HasTimes(), mtime: stat.ModTime(), atime: stat.AccessTime()}
	if stat.HasMode() {
		f.mode = stat.FileMode()
	}
	if stat.HasSize() && int64(stat.Size) >= 0 {
		f.size = int64(stat.Size)
	}
	return f
}

func (s remoteSource) list(d *directory, yield func(*item, error) bool) error {
	for f, err := range s.client.Entries(d.source) {
		if err != nil {
			return err
		}
		i := &item{dir: d, name: f.BaseName(), facts: remoteFacts(f.FileStat())}
		if !i.facts.hasMode { // a listing without attributes
			var info fs.FileInfo
			if info, err = s.client.Lstat(f.Name()); err == nil {
				i.facts = remoteFacts(info.Sys().(*usftp.FileStat))
			}
		}
		if !yield(i, err) {
			break
		}
	}
	return nil
}

func (s remoteSource) readLink(name string) (string, error) { return s.client.ReadLink(name) }

// loops tells by the server's word for where directories are whether a link leads back.
func (s remoteSource) loops(d *directory) string {
	real, err := s.client.RealPath(d.source)
	if err != nil {
		return ""
	}
	d.real = real
	for above := d.parent; above != nil; above = above.parent {
		if above.real == "" {
			above.real, _ = s.client.RealPath(above.source)
		}
		if above.real == real {
			return "it leads back to " + above.source
		}
	}
	return ""
}

// remoteTree is a tree at a target on a host.
type remoteTree struct {
	client *usftp.Client
}

// openRemoteTree finds out what the target means.
func openRemoteTree(t *treeRun, base string) (*remoteTree, string, error) {
	target := t.Target
	if target == "" {
		target = "."
	}
	tree := &remoteTree{t.Host.Client}
	info, err := tree.client.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tree, target, nil
	case err != nil:
		return nil, target, err
	case !info.IsDir():
		return nil, target, &fs.PathError{Op: "write", Path: target, Err: errNotDirectory}
	}
	return tree, path.Join(target, base), nil
}

func (r *remoteTree) join(dir, name string) string { return path.Join(dir, name) }
func (r *remoteTree) close()                       {}
func (r *remoteTree) leave(*directory)             {}

// check refuses what SFTP cannot name.
func (r *remoteTree) check(_ *directory, name string) error {
	if strings.ContainsAny(name, "/\x00") {
		return fs.ErrInvalid
	}
	return nil
}

func (r *remoteTree) makeDir(d *directory) (fresh bool, err error) {
	err = r.client.MkdirPerm(d.target, d.perm()|0o700)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	// Version 3 has no code that says "it exists already"; what counts is what is there.
	look := r.client.Lstat
	if d.parent == nil {
		look = r.client.Stat // the target is named by a person, whose links are followed
	}
	info, lookErr := look(d.target)
	switch {
	case lookErr != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink != 0:
		return false, errLinkInWay
	case !info.IsDir():
		return false, errNotDirectory
	}
	return false, nil
}

func (r *remoteTree) finishDir(d *directory) error {
	t := d.tree
	if !d.fresh && !t.Options.Preserve {
		return nil
	}
	var set usftp.NewAttrs
	if d.facts.hasMode && (t.Options.Preserve || d.perm()&0o700 != 0o700) {
		set.SetMode, set.Mode = true, d.facts.mode
	}
	if d.facts.hasTimes {
		set.SetTimes, set.Atime, set.Mtime = true, d.facts.atime, d.facts.mtime
	}
	return r.client.SetAttrs(d.target, set)
}

func (r *remoteTree) makeLink(i *item, to string) error {
	target := i.target()
	err := r.client.Symlink(to, target)
	if err == nil || i.dir.fresh {
		return err
	}
	info, lookErr := r.client.Lstat(target)
	switch {
	case lookErr != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "replace", Path: target, Err: ErrIsDirectory}
	case info.Mode()&fs.ModeSymlink != 0:
		if old, err := r.client.ReadLink(target); err == nil && old == to {
			return nil
		}
	}
	temporary := path.Join(i.dir.target, temporaryName(i.name))
	if err := r.client.Symlink(to, temporary); err != nil {
		return err
	}
	if r.client.HasPosixRename() {
		err = r.client.PosixRename(temporary, target)
	} else if err = r.client.Remove(target); err == nil {
		err = r.client.Rename(temporary, target)
	}
	if err != nil {
		r.client.Remove(temporary)
	}
	return err
}

// place looks at where a file is to go. No round trip in a directory that we have made.
func (r *remoteTree) place(i *item) (*remoteTarget, error) {
	t := &remoteTarget{path: i.target()}
	if i.dir.fresh {
		return t, nil
	}
	info, err := r.client.Lstat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "write", Path: t.path, Err: ErrIsDirectory}
	case info.Mode()&fs.ModeSymlink != 0: // the rename replaces it
		return t, nil
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "write", Path: t.path, Err: errors.New(kindOf(info.Mode()) + " is in the way")}
	}
	t.before = info
	return t, nil
}
