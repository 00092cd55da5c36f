package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
)

// localTarget is a path on this machine as a target. Everything below the target of a tree is
// written through os.Root, so that names from a server cannot lead outside.
type localTarget struct {
	localEnd
	job *job
	placement
	root *endpoint.LocalRoot // of a tree
}

func (t *localTarget) asSource() end { return t.localEnd }

// dispose removes one of our temporary files on this machine.
func (t *localTarget) dispose(temporary string) bool {
	dir, name := filepath.Split(temporary)
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return false
	}
	defer root.Close()
	return root.Remove(name) == nil
}

// begin makes the directory to copy to, if it does not exist, and opens it.
func (t *localTarget) begin(source endpoint.Info, base string,
	inside func() error) (to targetDir, err error) {
	to.path = t.job.route.Target
	err = t.job.checkBase(base, localfs.CheckName)
	if err == nil {
		err = t.notInside(base, source.Local)
	}
	if err == nil {
		err = inside()
	}
	if err != nil {
		return to, err
	}
	info, err := os.Stat(to.path)
	at, dryRun := ".", t.job.tree.options.DryRun
	switch {
	case err == nil && !info.IsDir():
		return to, &fs.PathError{Op: "write", Path: to.path, Err: endpoint.ErrNotDirectory}
	case err == nil && base != ".":
		at = base
		to.path = filepath.Join(to.path, base)
	case err == nil:
		to.exists = true
	case !errors.Is(err, fs.ErrNotExist):
		return to, err
	case !dryRun:
		if err := os.Mkdir(to.path, source.Perm()|0o700); err != nil {
			return to, err
		}
		to.exists, to.made = true, true
	}
	var top *os.Root // a dry run may have none
	if !dryRun || err == nil {
		if top, err = os.OpenRoot(t.job.route.Target); err != nil {
			return to, err
		}
	}
	t.root = endpoint.NewLocalRoot(top, at)
	to.Root = t.root
	return to, nil
}

// notInside refuses to copy a local directory to itself or into a directory below it, and to sync
// it to one above it.
func (t *localTarget) notInside(base string, source fs.FileInfo) error {
	if source == nil {
		return nil
	}
	target := t.job.route.Target
	info, err := os.Stat(filepath.Join(target, base))
	if err == nil && os.SameFile(info, source) {
		return t.job.tree.rules.apart
	}
	there, err := os.Stat(target)
	if err != nil {
		target = filepath.Dir(target)
	}
	if liesIn(target, source) ||
		t.job.tree.rules.mutual && err == nil && liesIn(t.job.route.Source, there) {
		return t.job.tree.rules.apart
	}
	return nil // if the target cannot be examined, making it will fail with the reason
}

// liesIn reports whether name leads to dir, or to something below it.
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

// check refuses names that the system takes for others, and a link made by the source to stand for
// a directory of the same name.
func (t *localTarget) check(d *directory, name string) error {
	if t.job.tree.options.KeepDirLinks && t.job.src.conn() != nil && !d.names.addExactly(name) {
		return errTwice
	}
	return localfs.CheckName(name)
}

// place examines the target.
func (t *localTarget) place(c *fileCopy, in *input) (output, error) {
	o := &localOutput{end: t, entry: c.entry}
	o.placement, o.maker, o.stored = t.placement, o, o.reopen
	if c.entry == nil {
		if err := o.find(c); err != nil || !o.stream {
			return o, err
		}
		if c.options.Placement == PlaceAtomic {
			return nil, o.notAtomic()
		}
		return &writerOutput{location: o.location}, nil
	}
	o.name = c.entry.target()
	if c.entry.dir.fresh {
		return o, nil
	}
	// fetching the source from a host may take long: keep no directory open for that time
	defer o.close()
	return o, o.lookBelow()
}
