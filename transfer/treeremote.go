package transfer

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/usftp/usftp"
)

// remoteSource is a tree on a host.
type remoteSource struct {
	tree *treeRun
	line *lifeline // the tree's own, or that of a relay's source
}

// over does something about an entry over the source's connection. What is wrong with a relay's
// source is marked as that.
func (s remoteSource) over(name string, do func(client *usftp.Client, again bool) error) error {
	err := s.tree.overLine(s.line, name, do)
	if s.tree.from != nil {
		return ofSource(err)
	}
	return err
}

func (s remoteSource) join(dir, name string) string { return path.Join(dir, name) }

func (s remoteSource) look(name string) (found facts, err error) {
	err = s.over(name, func(*usftp.Client, bool) error {
		host := s.line.current()
		info, err := host.stat(s.tree.ctx, name)
		if err == nil {
			found = s.facts(info)
		}
		return err
	})
	return found, err
}

// facts are what a listing or a stat has told. Those of a relay's source are its upload's too.
func (s remoteSource) facts(info fs.FileInfo) facts {
	f := remoteFacts(info.Sys().(*usftp.FileStat))
	if s.tree.from != nil {
		f.info = info
	}
	return f
}

// statFacts are what is known of a file, nothing where stat is nil.
func statFacts(stat *usftp.FileStat) facts {
	if stat == nil {
		return facts{}
	}
	return remoteFacts(stat)
}

func remoteFacts(stat *usftp.FileStat) facts {
	f := facts{size: -1, hasMode: stat.HasMode(), hasTimes: stat.HasTimes(), mtime: stat.ModTime(),
		atime: stat.AccessTime(),
		owner: remoteOwner(stat)}
	if stat.HasMode() {
		f.mode = stat.FileMode()
	}
	if stat.HasSize() && int64(stat.Size) >= 0 {
		f.size = int64(stat.Size)
	}
	return f
}

// list lists a directory. A listing that was cut off is begun anew, and of what it brings only that
// is handed on which was not before: a server need not keep its order, nor a directory its entries.
func (s remoteSource) list(d *directory, yield func(*item, error) bool) error {
	known := newNames()
	return s.over(d.source, func(client *usftp.Client, again bool) error {
		if again {
			known.again()
		}
		for f, err := range client.Entries(d.source) {
			if err != nil {
				return err
			}
			if known.has(f.BaseName()) {
				continue
			}
			i := &item{dir: d, name: f.BaseName(), facts: s.facts(f.Info())}
			if !i.facts.hasMode { // a listing without attributes
				var info fs.FileInfo
				if info, err = client.Lstat(f.Name()); err == nil {
					i.facts = s.facts(info)
				} else if lost(client) {
					return err
				}
			}
			known.add(f.BaseName())
			s.line.arrive()
			if err != nil && s.tree.from != nil {
				err = ofSource(err)
			}
			if !yield(i, err) {
				break
			}
		}
		return nil
	})
}

func (s remoteSource) readLink(name string) (to string, err error) {
	err = s.over(name, func(client *usftp.Client, _ bool) error {
		to, err = client.ReadLink(name)
		return err
	})
	return to, err
}

// loops tells by the server's word for where directories are whether a link leads back.
func (s remoteSource) loops(d *directory) string {
	real, err := s.realPath(d.source)
	if err != nil {
		return ""
	}
	d.real = real
	for above := d.parent; above != nil; above = above.parent {
		if above.real == "" {
			above.real, _ = s.realPath(above.source)
		}
		if above.real == real {
			return "it leads back to " + above.source
		}
	}
	return ""
}

func (s remoteSource) realPath(name string) (real string, err error) {
	err = s.over(name, func(client *usftp.Client, _ bool) error {
		real, err = client.RealPath(name)
		return err
	})
	return real, err
}

// remoteTree is a tree at a target on a host.
type remoteTree struct{ tree *treeRun }

// openRemoteTree finds out what the target means.
func openRemoteTree(t *treeRun, base string) (*remoteTree, string, error) {
	target := t.Target
	if target == "" {
		target = "."
	}
	tree := &remoteTree{t}
	var info fs.FileInfo
	err := t.over(target, func(*usftp.Client, bool) (err error) {
		host := t.line.current()
		info, err = host.stat(t.ctx, target)
		return err
	})
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
func (r *remoteTree) check(d *directory, name string) error {
	if r.tree.from != nil {
		// In place a file is written to where its name leads, so a source must not make that a link
		// meanwhile.
		if err := foreignName(name); err != nil || r.tree.Options.Placement != InPlace {
			return err
		}
		if d.names[name] {
			return errTwice
		}
		if d.names == nil {
			d.names = make(map[string]bool)
		}
		d.names[name] = true
	}
	if strings.ContainsAny(name, "/\x00") {
		return fs.ErrInvalid
	}
	return nil
}

// errTwice says that a listing is no directory's.
var errTwice = errors.New("the server has sent the same name twice")

func (r *remoteTree) makeDir(d *directory) (fresh bool, err error) {
	err = r.tree.over(d.source, func(client *usftp.Client, again bool) error {
		fresh, err = r.makeDirOver(client, d, again)
		return err
	})
	return fresh, err
}

// makeDirOver makes a directory. Again means that a connection was lost while it was asked for: a
// directory that is there then may be ours.
func (r *remoteTree) makeDirOver(client *usftp.Client, d *directory,
	again bool) (fresh bool, err error) {
	err = client.MkdirPerm(d.target, d.perm()|0o700)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	// Version 3 has no code that says "it exists already"; what counts is what is there.
	look := client.Lstat
	if d.parent == nil {
		look = client.Stat // the target is named by a person, whose links are followed
	}
	info, lookErr := look(d.target)
	switch {
	case lookErr != nil && errors.Is(err, usftp.ErrSSHFxFailure):
		return false, explainFailure(err, client, r.tree.Host.Name, path.Dir(d.target))
	case lookErr != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink != 0:
		return false, errLinkInWay
	case !info.IsDir():
		return false, errNotDirectory
	}
	return again && (d.parent != nil && d.parent.fresh || isEmpty(client, d.target)), nil
}

// isEmpty tells whether a directory is known to hold nothing.
func isEmpty(client *usftp.Client, dir string) bool {
	for range client.Entries(dir) {
		return false // an entry, or an error
	}
	return true
}

func (r *remoteTree) finishDir(d *directory) error {
	t := d.tree
	keep := d.fresh || t.ours || t.Options.Preserve
	var set usftp.NewAttrs
	if err := t.Options.chown(d.facts.owner, func(uid, gid int) error {
		set.SetOwner, set.UID, set.GID = true, uid, gid
		return nil
	}); err != nil {
		return err
	}
	if keep && d.facts.hasMode && (t.Options.Preserve || d.perm()&0o700 != 0o700) {
		set.SetMode, set.Mode = true, d.facts.mode
	}
	if keep && d.facts.hasTimes {
		set.SetTimes, set.Atime, set.Mtime = true, d.facts.atime, d.facts.mtime
	}
	return t.over(d.source, func(client *usftp.Client, _ bool) error { return client.SetAttrs(d.target, set) })
}

func (r *remoteTree) makeLink(i *item, to string) error {
	temporary := path.Join(i.dir.target, temporaryName(i.name))
	return r.tree.over(i.source(), func(client *usftp.Client, again bool) error {
		if again {
			client.Remove(temporary)
			if made, err := client.ReadLink(i.target()); err == nil && made == to {
				return nil
			}
		}
		return makeLinkOver(client, i, to, temporary)
	})
}

func makeLinkOver(client *usftp.Client, i *item, to, temporary string) error {
	target := i.target()
	err := client.Symlink(to, target)
	if err == nil || i.dir.fresh {
		return err
	}
	info, lookErr := client.Lstat(target)
	switch {
	case lookErr != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "replace", Path: target, Err: ErrIsDirectory}
	case info.Mode()&fs.ModeSymlink != 0:
		if old, err := client.ReadLink(target); err == nil && old == to {
			return nil
		}
	}
	if err := client.Symlink(to, temporary); err != nil {
		return err
	}
	if client.HasPosixRename() {
		err = client.PosixRename(temporary, target)
	} else if err = client.Remove(target); err == nil {
		err = client.Rename(temporary, target)
	}
	if err != nil {
		client.Remove(temporary)
	}
	return err
}

// place looks at where a file is to go. No round trip in a directory that we have made.
func (r *remoteTree) place(client *usftp.Client, i *item) (*remoteTarget, error) {
	t := &remoteTarget{path: i.target()}
	if i.dir.fresh {
		return t, nil
	}
	info, err := client.Lstat(t.path)
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
		return nil, inTheWay(t.path, info)
	}
	t.before = info
	return t, nil
}
