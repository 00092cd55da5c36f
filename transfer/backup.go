package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/plan"
)

// backups keeps the files that a sync deletes or replaces.
type backups struct {
	sync *syncing
	dir  string // relative to the target; "" if files are deleted
	// folded is set if the target is known to have dir, and to list it in another case. Otherwise the
	// lock shows whether case counts.
	folded bool
	made   sync.Map // by path, functions that make a backup directory and return its path
	modes  sync.Map // by path, the modes of directories that got another one since

	remade   atomic.Int64 // how often one was made again
	recorded atomic.Int64 // modes
}

// check refuses a backup directory that cannot take files, before anything is copied. It follows no
// link, which could lead out of the target.
func (b *backups) check() error {
	s, t, d := b.sync, b.sync.tree, b.sync.tree.root
	for name := range strings.SplitSeq(b.dir, "/") {
		found, err := t.into.Lstat(path.Join(d.rel, name))
		d = s.place(path.Join(d.rel, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it will be made
		case err != nil:
			return err
		case !found.Mode.IsDir():
			what := "not a directory"
			if found.Mode&fs.ModeSymlink != 0 {
				what = "a symbolic link, which is not followed"
			}
			return fmt.Errorf("cannot use the backup directory %s: %s is %s", b.dir, d.target, what)
		}
	}
	if s.options.NoLock {
		b.look()
	}
	target, backup := t.dst.Volume(t.root.target), t.dst.Volume(d.target)
	if unknown := [2]uint64{}; target != unknown && backup != unknown && target != backup {
		return fmt.Errorf("cannot use the backup directory %s: "+
			"it is on another file system than %s", b.dir, t.root.target)
	}
	return nil
}

// look finds out whether the target lists the backup directory, which it has, in another spelling.
func (b *backups) look() {
	for at := b.dir; at != "." && !b.folded; at = path.Dir(at) {
		err := b.sync.tree.into.entries(path.Dir(at), nil, func(name string, _ *endpoint.Info) error {
			if name == path.Base(at) {
				return fs.SkipAll
			}
			return nil
		})
		b.folded = err == nil
	}
}

// move moves a file to the backup directory.
func (b *backups) move(d *directory, name string) error {
	_, err := b.keep(b.sync.tree.into.Rename, d, name)
	return err
}

// keep moves or links a file to the backup directory, beside the files of earlier runs. It returns
// the new name, relative to the target.
func (b *backups) keep(how func(name, to string) error, d *directory,
	name string) (to string, err error) {
	if err := b.sync.tree.inPlace(d); err != nil {
		return "", err
	}
	in, err := b.of(d.rel)
	for n := 0; err == nil; n++ {
		to = path.Join(in, backupName(name, n))
		switch err = how(path.Join(d.rel, name), to); {
		case n == mostBackups:
			return to, err
		case errors.Is(err, fs.ErrExist):
			err = nil
		case errors.Is(err, fs.ErrNotExist):
			if in, err = b.again(d, name, err); err == nil {
				n-- // the name may be free now
			}
		default:
			return to, err
		}
	}
	return "", err
}

// again makes a missing backup directory again: another program may have moved it away. Without it
// no file would be kept, and the file to be replaced would seem to be missing, too. missing is the
// error so far, which again returns if the file is gone.
func (b *backups) again(d *directory, name string, missing error) (in string, err error) {
	_, err = b.sync.tree.into.Lstat(path.Join(d.rel, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", missing
	case err != nil:
		return "", err
	case b.remade.Add(1) > mostRemade:
		return "", fmt.Errorf("the backup directory %s is removed again and again", b.dir)
	}
	b.made.Clear()
	return b.of(d.rel)
}

// aside frees an entry's name before a write in place, if the target entry is kept or is a link: it
// moves it to the backup directory, or removes the link. A nil b keeps nothing.
func (b *backups) aside(e *entry, mode fs.FileMode, remove func() error) (freed bool, err error) {
	if b != nil {
		err = b.move(e.dir, e.name)
		e.saved = err == nil
		freed, err = e.saved, endpoint.IgnoreMissing(err)
	}
	if link := mode&fs.ModeSymlink != 0; link && !freed && err == nil {
		freed, err = true, remove()
	}
	return freed, err
}

// exchange calls replace, which replaces the target entry at once, and keeps the old one. A file
// gets a second name in the backup directory, if the target has hard links, and so keeps its own
// until it is replaced. Any other entry is moved, also because not every system links links; freed
// is then true. If replace is refused, all is as before. A nil b keeps nothing.
func (b *backups) exchange(e *entry, replace func(freed bool) error) error {
	if b == nil {
		return replace(false)
	}
	into, d, linked := &b.sync.tree.into, e.dir, false
	to, err := "", errors.ErrUnsupported
	if e.existing.Kind() == plan.File {
		to, err = b.keep(into.Link, d, e.name)
		linked = err == nil
	}
	if endpoint.IgnoreMissing(err) != nil {
		to, err = b.keep(into.Rename, d, e.name)
	}
	if e.saved = err == nil; endpoint.IgnoreMissing(err) != nil {
		return fmt.Errorf("what it replaces cannot be kept in %s: %w", b.dir, err)
	}
	err = replace(e.saved && !linked)
	remote := b.sync.tree.dst.Conn() != nil
	if err == nil || !e.saved || remote && !endpoint.Refused(err) { // it may have been replaced
		return err
	}
	if e.saved = false; linked {
		into.Remove(to, false)
	} else if back := into.Rename(to, e.rel()); back != nil {
		err = fmt.Errorf("%w; what it should have replaced is now called %s", err,
			b.sync.tree.dst.Join(b.sync.tree.root.target, to))
	}
	return err
}

const (
	mostBackups = 1000 // names tried for one backup
	mostRemade  = 1000 // how often a run makes backup directories again

	// mostModes limits the modes that are recorded. Backup directories of others get the new mode.
	mostModes = 1 << 17
)

func backupName(name string, n int) string {
	if n > 0 {
		name += ".~" + strconv.Itoa(n) + "~"
	}
	return name
}

// of returns the backup directory for a directory's files, below the target.
func (b *backups) of(rel string) (string, error) {
	made, _ := b.made.LoadOrStore(rel,
		sync.OnceValues(func() (string, error) { return b.make(rel) }))
	return made.(func() (string, error))()
}

// record records the mode of a directory that gets its source's. Entries may be deleted there later.
func (b *backups) record(d *directory) {
	was := d.existing.Perm() // 0 if the host does not tell
	if was == 0 || was == d.info.Perm() || b.recorded.Add(1) > mostModes {
		return
	}
	b.modes.Store(d.rel, was|0o700)
}

// make makes the directory that of returns. It neither follows nor replaces another entry of that
// name, such as a link that an earlier run moved there: the directory gets another name. Who could
// not reach the files in their old place does not reach them here either.
func (b *backups) make(rel string) (string, error) {
	into := &b.sync.tree.into
	if rel == "." {
		return b.dir, endpoint.MkdirAll(into, b.dir, 0o777)
	}
	in, err := b.of(path.Dir(rel))
	if err != nil {
		return "", err
	}
	perm := fs.FileMode(0o777)
	switch of, err := into.Lstat(rel); {
	case err != nil && !endpoint.Refused(err):
		return "", err
	case of.Mode.IsDir():
		perm = of.Perm() | 0o700
	case of.Mode.Type() != 0: // a link that is kept
		perm = 0o700
	}
	if was, changed := b.modes.Load(rel); changed {
		perm = was.(fs.FileMode)
	}
	for n := 0; ; n++ {
		name := backupName(path.Base(rel), n)
		to := path.Join(in, name)
		found, err := into.Lstat(to)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return to, endpoint.MkdirAll(into, to, perm)
		case err != nil, found.Mode.IsDir():
			return to, err
		case n == mostBackups:
			return to, fs.ErrExist
		}
	}
}
