package transfer

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"syscall"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/quirks"
)

// A location is where a file goes, and under which name it is written.
type location struct {
	name   string      // path, links resolved
	info   fs.FileInfo // what is there, nil if nothing or a link is
	link   bool        // a link is there
	direct bool        // it can only be written in place
	untold bool        // the host does not say what is there, or whether anything is
	temp   string      // path of the temporary file, "" if the target itself is written
	freed  bool        // what was there has been moved away
	hidden bool        // the target itself is written, and the host shows it when it is closed

	// private is set if the temporary file is its owner's alone until it gets its permissions.
	private bool
}

func (l *location) at() *location { return l }
func (l *location) atomic() bool  { return l.temp != "" || l.hidden }

// written is the path that is being written.
func (l *location) written() string {
	if l.temp != "" {
		return l.temp
	}
	return l.name
}

// look records what was found below the target of a tree.
func (l *location) look(info fs.FileInfo, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case private.Untold(err):
		l.untold = true
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0: // it is replaced
		l.link = true
	case !info.Mode().IsRegular():
		return inTheWay(l.name, info.Mode())
	default:
		l.info = info
	}
	return nil
}

// find determines where a single file goes: into the target if that is a directory. name is the
// target as the user gave it, slash says whether it ends in one, valid checks a name in it, and
// stat follows links.
func (l *location) find(c *fileCopy, name string, slash bool, valid func(string) error,
	stat func(string) (fs.FileInfo, error)) error {
	l.name = name
	info, err := stat(name)
	if errors.Is(err, fs.ErrNotExist) && c.options.MakePath {
		if above := c.makePath(name, slash); above != nil {
			return above
		}
		info, err = stat(name)
	}
	switch {
	case err == nil && info.IsDir(), private.Untold(err) && (slash || meansDirectory(name)):
		base := c.src.Base(c.source)
		if base == "" || c.options.NoTargetDirectory {
			return &fs.PathError{Op: "write", Path: name, Err: ErrIsDirectory}
		}
		if err := c.checkBase(base, valid); err != nil {
			return err
		}
		l.name, c.name = c.dst.Join(name, base), base
		c.result.Target = l.name
		if info, err = stat(l.name); err == nil && info.IsDir() {
			return &fs.PathError{Op: "write", Path: l.name, Err: ErrIsDirectory}
		}
	case err == nil && slash:
		return &fs.PathError{Op: "write", Path: name, Err: endpoint.ErrNotDirectory}
	case slash:
		return err
	}
	if err == nil {
		l.info = info
	}
	if l.untold = private.Untold(err); l.untold {
		return nil
	}
	return endpoint.IgnoreMissing(err)
}

// makePath makes the directories above a target that are missing, and with itself also that.
func (j *job) makePath(target string, itself bool) error {
	at, missing := j.dst.Join(target, "."), ""
	if !itself {
		at = above(j.dst, at)
	}
	for ; at != above(j.dst, at); at = above(j.dst, at) {
		if _, err := j.dst.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break // if it is no directory, or cannot be looked at, making one in it will tell
		}
		missing = path.Join(j.dst.Base(at), missing)
	}
	if missing == "" {
		return nil
	}
	root, err := j.dst.Below(at)
	if err != nil {
		return err
	}
	defer root.Close()
	return (&targetDir{Root: root}).mkdirAll(missing)
}

// above returns the directory that holds a name.
func above(e end, name string) string {
	if name = e.Join(name, "."); e.conn() == nil {
		return filepath.Dir(name)
	}
	return path.Dir(name)
}

// meansDirectory reports whether a path can only be a directory's.
func meansDirectory(name string) bool {
	base := path.Base(name)
	return base == "." || base == ".." || base == "/"
}

// checkBase checks the name that a copy gets in a directory.
func (j *job) checkBase(base string, valid func(string) error) error {
	if base == "." {
		return nil
	}
	if err := valid(base); err != nil {
		return &fs.PathError{Op: "copy", Path: j.route.Source, Err: err}
	}
	return nil
}

// placement decides whether a target is written under a temporary name and renamed, or in place. It
// remembers what the target refuses, so that thousands of files need not each find out.
type placement struct{ quirks *quirks.Quirks }

// atomic reports whether to try a temporary name, given what is known about the target and the
// directory. PlaceAtomic always tries.
func (p placement) atomic(c *fileCopy) bool {
	switch {
	case c.options.Placement == PlaceAtomic:
		return true
	case c.options.Placement == PlaceDirect, p.quirks.NoTemporary.Load(), p.quirks.NoRename.Load(),
		c.flags.notRenamed:
		return false
	}
	return c.entry == nil || !c.entry.dir.noTemporary.Load()
}

// fallBack decides what follows when a temporary file could not be created: it returns nil if the
// target may be written in place, otherwise the error to fail with, adding what else the user can
// try.
func (p placement) fallBack(c *fileCopy, err error) error {
	if c.options.Placement != PlaceAtomic && nameRefused(err) {
		return nil
	}
	if c.options.Placement == PlaceAuto && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, usftp.ErrNameCoding) &&
		!errors.Is(err, endpoint.ErrNotDirectory) && !errors.Is(err, syscall.EROFS) {
		c.detail = "no temporary file can be created beside the target, which is untouched" + c.rules().inPlace
	}
	return err
}

// noteNameRefused records that no temporary file could be created where the target itself could.
// Creating a new target needs the same permission, so the name must be what is refused; with an
// existing target it may be just this directory that takes no new names.
func (p placement) noteNameRefused(c *fileCopy, isNew bool) {
	if isNew {
		p.quirks.NoTemporary.Store(true)
	} else if c.entry != nil {
		c.entry.dir.noTemporary.Store(true)
	}
	p.report(c, "no temporary file can be created beside the target: it is written in place")
}

// noteRenameRefused records that a file could not be renamed to a free name, which is then written
// itself. If the refusal has no reason the host may be full, so other files keep their contents. A
// refusal to replace an existing file may concern that file alone, and a full disk refuses writing
// in place too. With untold, there may be an existing file all the same.
func (p placement) noteRenameRefused(c *fileCopy, err error, isNew, untold bool) {
	if !isNew || c.options.Placement == PlaceAtomic || noRoom(err) {
		return
	}
	c.flags.notRenamed = true
	if untold {
		return
	}
	if nameRefused(err) || errors.Is(err, errors.ErrUnsupported) {
		p.quirks.NoRename.Store(true)
	}
	p.reportNoRename(c)
}

func (p placement) reportNoRename(c *fileCopy) {
	p.report(c, "the host does not rename files: new ones are written in place")
}

// report notes why once for all files that it applies to.
func (p placement) report(c *fileCopy, why string) {
	if p.quirks.Reported.Swap(true) {
		return
	}
	if c.entry != nil {
		why += " (reported once for all files of the tree)"
	}
	c.warn(why)
}
