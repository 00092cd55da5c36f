package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
)

// backups is where a sync moves files instead of deleting them.
type backups struct {
	sync *syncing
	dir  string   // relative to the target; "" if files are deleted
	made sync.Map // of a directory's path, what makes its backup directory and returns its path
}

// check refuses a backup directory into which nothing can be moved, before anything is copied. A
// link is not followed: it could lead out of the target.
func (b *backups) check() error {
	if b.dir == "" {
		return nil
	}
	s, t, d := b.sync, b.sync.tree, b.sync.tree.root
	for name := range strings.SplitSeq(b.dir, "/") {
		found, err := s.dst.lookAt(d, name)
		d = s.place(path.Join(d.rel, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it will be made
		case err != nil:
			return err
		case !found.mode.IsDir():
			what := "not a directory"
			if found.mode&fs.ModeSymlink != 0 {
				what = "a symbolic link, which is not followed"
			}
			return fmt.Errorf("cannot use the backup directory %s: %s is %s", b.dir, d.target, what)
		}
	}
	target, backup := t.dst.fileSystem(t.root.target), t.dst.fileSystem(d.target)
	if unknown := [2]uint64{}; target != unknown && backup != unknown && target != backup {
		return fmt.Errorf("cannot use the backup directory %s: "+
			"it is on another file system than %s", b.dir, t.root.target)
	}
	return nil
}

// move moves a file to the backup directory, beside what earlier runs moved there.
func (b *backups) move(d *directory, name string) error {
	in, err := b.of(d.rel)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		err := b.sync.dst.move(d, name, path.Join(in, backupName(name, n)))
		if !errors.Is(err, fs.ErrExist) || n == mostBackups {
			return err
		}
	}
}

// mostBackups is how many names are tried for one backup.
const mostBackups = 1000

func backupName(name string, n int) string {
	if n > 0 {
		name += ".~" + strconv.Itoa(n) + "~"
	}
	return name
}

// of returns where files of a directory are moved, below the target.
func (b *backups) of(rel string) (string, error) {
	made, _ := b.made.LoadOrStore(rel,
		sync.OnceValues(func() (string, error) { return b.make(rel) }))
	return made.(func() (string, error))()
}

// make makes the directory that of returns. Anything else of that name, such as a link that an
// earlier run has moved there, is neither followed nor replaced: the directory gets another name.
func (b *backups) make(rel string) (string, error) {
	if rel == "." {
		return b.dir, b.sync.dst.makeAll(b.dir)
	}
	in, err := b.of(path.Dir(rel))
	if err != nil {
		return "", err
	}
	for n := 0; ; n++ {
		name := backupName(path.Base(rel), n)
		to := path.Join(in, name)
		found, err := b.sync.dst.lookAt(b.sync.place(in), name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return to, b.sync.dst.makeAll(to)
		case err != nil, found.mode.IsDir():
			return to, err
		case n == mostBackups:
			return to, fs.ErrExist
		}
	}
}
