package filecopy

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/journal"
	"github.com/usftp/usftp/internal/private"
)

// Files that cannot be written under a temporary name are written in place.

var errReplacesNoLink = errors.New("a symbolic link, which can only be written through here")

// openInPlace opens the target itself. In a tree it must still be a regular file or a link, and the
// file replaces a link, as a rename would. A new file is created exclusively; an existing regular
// file may stem from an earlier attempt.
func (o *output) openInPlace(c *Copy, source *endpoint.Info, perm fs.FileMode) error {
	old, flag := o.info, os.O_WRONLY|os.O_CREATE
	if err := c.MayCommit(); err != nil {
		return err
	}
	if c.Listed == nil && o.link {
		return &fs.PathError{Op: "write", Path: o.name, Err: errReplacesNoLink}
	}
	if c.Listed != nil {
		var err error
		freed := false
		switch old, err = o.files.Lstat(o.name); {
		case errors.Is(err, fs.ErrNotExist):
			freed = true
		case private.Untold(err):
			o.untold = true
		case err != nil:
			return err
		case !old.Mode().IsRegular() && old.Mode()&fs.ModeSymlink == 0:
			return endpoint.InTheWay(o.name, old.Mode())
		default:
			freed, err = c.Aside(old.Mode(),
				func() error { return o.files.Remove(c.Ctx, o.name) })
			if err != nil {
				return err
			}
		}
		if freed {
			old, flag = nil, flag|os.O_EXCL
		}
	}
	if old == nil && !o.untold && c.IsSmall() || old != nil && !old.Mode().IsRegular() {
		return o.overwrite(c, source, old, flag, perm) // it stays smaller, or keeps nothing
	}
	c.journal.write(c, journal.Mark{Temporary: o.name, InPlace: true})
	err := o.overwrite(c, source, old, flag, perm)
	c.journal.halfway = c.journal.halfway || err == nil
	return err
}

func (o *output) overwrite(c *Copy, source *endpoint.Info, old fs.FileInfo, flag int,
	perm fs.FileMode) error {
	if c.to != nil {
		return onHost{o}.overwriteThere(c, source, old, flag, perm)
	}
	return onDisk{o}.overwriteHere(c, source, old, flag, perm)
}

// overwriteHere opens no file but old below the target of a tree, no matter who put it there: a
// hostile server may send a link and then a file of the same name. os.Root alone would keep writes
// inside the target, but follow links within it.
func (o onDisk) overwriteHere(c *Copy, source *endpoint.Info, old fs.FileInfo, flag int,
	perm fs.FileMode) (err error) {
	if c.Listed != nil && old != nil {
		flag, perm = os.O_WRONLY, 0
	}
	if err = o.open(c, o.name, flag, perm); err != nil {
		return err
	}
	if o.direct && c.Options.Placement != PlaceDirect {
		c.Warn("the target has other names (hard links): it is written in place")
	}
	return o.opened(c, source, old)
}

// opened checks the file that was opened to be written in place. An old file is emptied only if the
// source is another file of this machine. A source on a host may be this very file: then it must
// keep its contents, and finalize truncates it to its new size.
func (o onDisk) opened(c *Copy, source *endpoint.Info, old fs.FileInfo) error {
	file := o.writer.(*endpoint.LocalWriter)
	now, err := file.Stat()
	switch {
	case err != nil:
		return err
	case c.Listed != nil && old != nil &&
		(!os.SameFile(now, old) || o.info != nil && !os.SameFile(now, o.info)):
		return &fs.PathError{Op: "write", Path: o.name, Err: endpoint.ErrReplaced}
	case source.Local != nil && os.SameFile(now, source.Local):
		return errSameFile
	case now.Mode().IsRegular() && now.Size() > 0 && source.Local != nil:
		return file.Truncate(0)
	}
	if now.Mode().IsRegular() {
		o.over = now.Size()
	}
	return nil
}

// overwriteThere opens the target itself. Version 3 has no flag that stops OPEN from following
// links (draft-ietf-secsh-filexfer-02, section 6.3), so between LSTAT and OPEN another user on the
// host could still put a link in the file's place; the source cannot.
func (o onHost) overwriteThere(c *Copy, source *endpoint.Info, old fs.FileInfo, flag int,
	perm fs.FileMode) error {
	switch {
	case o.untold && c.Options.Placement != PlaceDirect:
		err := o.open(c, o.name, flag|os.O_EXCL, perm)
		if endpoint.Refused(err) && !endpoint.BadName(err) && o.quirks.NoRename.Load() {
			err = o.openOver(c, source, nil, perm) // there is no other way to replace it
		}
		if endpoint.BadName(err) {
			c.Result.Detail = endpoint.NoSuchName
		} else if endpoint.Unexplained(err) {
			c.Result.Detail = "the host does not say what has this name: a directory's must end in /" +
				c.Rules.InPlace
		}
		return err
	case old == nil && c.known.notRenamed: // a file created since keeps its contents
		return o.open(c, o.name, flag|os.O_EXCL, perm)
	case old == nil:
		return o.open(c, o.name, flag|os.O_TRUNC, perm)
	case !old.Mode().IsRegular():
		return o.open(c, o.name, flag, perm)
	}
	return o.openOver(c, source, old, perm)
}

// openOver opens an existing file to write over it. It does not empty the file, which may be the
// source: the host may be this machine, and a file can have several names. finalize truncates it to
// its new size. On hosts that take only whole files, or empty them to cut them, it is emptied if it
// is certainly not the source: an attempt that wrote to it would have changed that. old is nil if the
// host does not tell.
func (o onHost) openOver(c *Copy, source *endpoint.Info, old fs.FileInfo,
	perm fs.FileMode) (err error) {
	// a source that can be read only once is not a file
	other := c.known.spent || c.known.tried[emptied] > 0 || old != nil && isOther(source, old)
	whole := o.quirks.WholeFiles.Load() || private.OfClient(c.to.client).EmptiesToCut()
	if !other || old != nil && !whole {
		if err = o.open(c, o.name, os.O_WRONLY|os.O_CREATE, perm); err == nil {
			o.over = sizeOf(old)
		}
		if !other || !endpoint.Refused(err) {
			return err
		}
	}
	truncErr := o.open(c, o.name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err == nil {
		return truncErr
	}
	if truncErr != nil {
		return err
	}
	o.quirks.WholeFiles.Store(true)
	return nil
}

// isOther reports whether a file on a host is certainly not the source.
func isOther(source *endpoint.Info, target fs.FileInfo) bool {
	stat, ok := target.Sys().(*usftp.FileStat)
	if !ok {
		return false
	}
	return source.HasMode && !source.Mode.IsRegular() ||
		source.Size >= 0 && stat.HasSize() && uint64(source.Size) != stat.Size ||
		source.HasTimes && stat.HasTimes() && uint32(source.Mtime.Unix()) != stat.Mtime
}

// sizeOf returns the size of a file on a host, or the largest possible if the host did not tell.
func sizeOf(info fs.FileInfo) int64 {
	if info == nil {
		return math.MaxInt64
	}
	if stat, ok := info.Sys().(*usftp.FileStat); ok && stat.HasSize() && int64(stat.Size) >= 0 {
		return int64(stat.Size)
	}
	return math.MaxInt64
}
