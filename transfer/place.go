package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
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
	stream bool        // it is no file, and what was written cannot be taken back

	placement
	maker // nil for a stream

	// stored opens what is here for reading, nil if that is impossible or on a host.
	stored reopen

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

// left reports whether an earlier run for this target may have left a file of this name.
func (l *location) left(c *fileCopy, name string) bool {
	return strings.HasPrefix(c.dst.Base(name), localfs.TempPrefix(c.dst.Base(l.name))) &&
		(c.to == nil || path.Dir(name) == path.Dir(l.name))
}

// rereads returns how to read again what is here or, on a host, the source; nil if that is
// impossible.
func (l *location) rereads(c *fileCopy, in *input) reopen {
	if c.to != nil {
		return in.reopen()
	}
	return l.stored
}

// verify compares what is stored with what was copied.
func (l *location) verify(c *fileCopy, in *input) error {
	if c.to != nil {
		return c.to.verify(c, l.written(), nil, in.reopen())
	}
	return in.verify(l.stored)
}

// holds reports whether the host's file matches the hash of the other end; known is false if that
// cannot be told. What no host can hash for a comparison is copied again.
func (l *location) holds(c *fileCopy) (same, known bool) {
	switch {
	case c.to != nil:
		return c.to.holds(c.hashing.digests, l.name, nil)
	case c.from != nil:
		return c.from.holds(c.hashing.digests, c.source, nil)
	}
	return false, true
}

// apart fails if the target is the source itself.
func (l *location) apart(c *fileCopy, in *input) error {
	source := in.info().Local
	if source != nil && l.info != nil && os.SameFile(source, l.info) {
		return errSameFile
	}
	if c.to == nil || c.from != c.to || c.entry != nil || l.info == nil && !l.untold {
		return nil
	}
	from, err := c.to.client.RealPath(c.source)
	if err != nil {
		return nil
	}
	if to, err := c.to.client.RealPath(l.name); err == nil && to == from {
		return errSameFile
	}
	return nil
}

// A maker makes and removes files in the directory of a location. It repeats nothing.
type maker interface {
	openFile(c *fileCopy, name string, flag int, perm fs.FileMode) error
	lstat(name string) (fs.FileInfo, error)
	discard(ctx context.Context, name string) error
	explain(err error) error // says more about why the file cannot be made

	// overwrite opens the target itself; old is what was found there, or nil.
	overwrite(c *fileCopy, source *endpoint.Info, old fs.FileInfo, flag int, perm fs.FileMode) error

	// kept returns the permissions of the old file for the new one.
	kept(c *fileCopy) fs.FileMode

	// prove returns up to where the open file is the beginning of the source, or why it is not.
	prove(c *fileCopy, in *input, m *mark) (offset int64, why error)
}

// resume opens what an interrupted copy left and returns where to continue, or why it cannot.
func (l *location) resume(c *fileCopy, in *input, out output, m *mark) (offset int64, why error) {
	temporary := c.dst.Join(above(c.dst, l.name), c.dst.Base(m.Temporary))
	if err := l.openFile(c, temporary, os.O_RDWR, 0); err != nil {
		return 0, fmt.Errorf("it cannot be opened: %w", err)
	}
	if why = stillUpload(c, m); why == nil {
		offset, why = l.prove(c, in, m) // which may cut it
	}
	if why != nil {
		out.writer().Abandon(c.ctx)
		return 0, why
	}
	if l.hidden = m.Hidden; !m.Hidden {
		l.temp, c.attempts.made = temporary, temporary
	}
	return offset, nil
}

// create creates the temporary file, or opens the target if it is to be written in place.
func (l *location) create(c *fileCopy, source *endpoint.Info) (err error) {
	perm, denied := fs.FileMode(0o666), false
	if source.HasMode {
		perm = c.options.perm(source)
	}
	if hides(c, l) {
		// With EXCL it follows no link, and replaces nothing that has come since. If it is refused,
		// the server may not know yet that another connection is lost over which the file was sent.
		err = l.openFile(c, l.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if l.hidden = err == nil; l.hidden {
			return nil
		}
		if c.flags.seat.crowded(err) || c.interrupted() || sharesHandle(err) {
			return err
		}
	}
	if !l.direct && l.tries(c) {
		temporary := c.dst.Join(above(c.dst, l.name), c.token.Name(c.dst.Base(l.name)))
		c.journal.noteBefore(c, temporary)
		lost := c.to.lost()
		err = l.openFile(c, temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, l.until(c, source, perm))
		c.attempts.made = temporary
		if err == nil {
			l.temp = temporary
			return nil
		}
		if c.flags.seat.crowded(err) { // that says nothing about the name
			return err
		}
		if c.interrupted() || sharesHandle(err) {
			if !lost { // the server may have created it
				ctx, cancel := c.dst.Cleanup(c.ctx)
				defer cancel()
				removeTemporary(ctx, c, temporary, l.discard)
			}
			return err
		}
		if err := l.fallBack(c, l.explain(err)); err != nil {
			return err
		}
		c.flags.seat.inVain(err)
		denied = true
	}
	if c.options.Placement == PlaceAtomic {
		return l.notAtomic()
	}
	// If no target exists, nothing can be harmed, and the reason most likely lies in the directory:
	// opening the target itself yields an error with the name the user knows.
	if err = l.openInPlace(c, source, perm); err == nil && denied {
		l.noteNameRefused(c, l.info == nil)
	}
	return l.explain(err)
}

// hides reports whether a target is written without a temporary name, since the host shows a new
// file when it is closed, and keeps what has come of it if it never is; see docs/uploads.md. One
// that replaces another could not be gone on with; one that is proved after it was closed, by its
// hash, needs a name for that.
func hides(c *fileCopy, l *location) bool {
	return c.to != nil && l.info == nil && !l.untold && !l.link && !l.direct && l.tries(c) &&
		!c.verifies() && c.options.List == nil && private.OfClient(c.to.client).KeepsUploads()
}

// lookBehind finds out whether what has the target's name is an upload that is not complete: for
// all others there is no file.
func lookBehind(c *fileCopy, l *location) error {
	client := private.OfClient(c.to.client)
	if l.info == nil || !l.info.Mode().IsRegular() || !client.KeepsUploads() {
		return nil
	}
	_, err := client.Upload(l.name)
	switch {
	case err == nil:
		l.info = nil
	case !endpoint.Refused(err):
		return err
	}
	return nil
}

// stillUpload returns an error if what was just opened to go on with may be a file that everybody
// sees: it was completed, or somebody else has made one.
func stillUpload(c *fileCopy, m *mark) error {
	if !m.Hidden {
		return nil
	}
	_, err := private.OfClient(c.to.client).Upload(m.Temporary)
	return err
}

// notAtomic is the error of a target that must not be written in place.
func (l *location) notAtomic() error {
	return &fs.PathError{Op: "replace", Path: l.name,
		Err: errors.New("it is not a regular file with one name and can only be written in place")}
}

// until returns the permissions of a temporary file until it gets its final ones.
func (l *location) until(c *fileCopy, source *endpoint.Info, perm fs.FileMode) fs.FileMode {
	preserves := c.options.preservesMode(source)
	switch noModes := l.quirks.NoModes.Load(); {
	case l.info == nil && !preserves:
	case !noModes:
		l.private = true
		return 0o600
	case !preserves:
		return l.info.Mode().Perm()
	}
	return perm
}

// attrs returns the attributes to set.
func (l *location) attrs(c *fileCopy, source *endpoint.Info) (set usftp.NewAttrs, err error) {
	atime, mtime := source.Times()
	exists := c.to == nil || endpoint.Nearest(mtime).Unix() == mtime.Unix()
	if source.HasTimes && !c.options.NoTimes && (c.options.Preserve || c.entry != nil && exists) {
		set.SetTimes, set.Atime, set.Mtime = true, atime, mtime
		c.settable(&set)
	}
	if err := c.options.addOwner(&set, source.Owner); err != nil {
		return set, err
	}
	if c.options.preservesMode(source) {
		// without setuid and setgid: the copy would run as the user who made it
		set.SetMode, set.Mode = true, c.options.perm(source)
	} else if l.info != nil && l.temp != "" {
		set.SetMode, set.Mode = true, l.kept(c)
		if set.SetOwner { // its new owner may never have agreed to that
			set.Mode &^= fs.ModeSetuid | fs.ModeSetgid
		}
	}
	l.quirks.Settable(&set, false)
	return set, nil
}

// openInPlace opens the target itself. Below the target of a tree it must still be what can be
// written, and a link is replaced by the file, as a rename would. A new file is created
// exclusively; an existing regular file may stem from an earlier attempt.
func (l *location) openInPlace(c *fileCopy, source *endpoint.Info, perm fs.FileMode) error {
	old, flag := l.info, os.O_WRONLY|os.O_CREATE
	if c.entry != nil {
		var err error
		freed := false
		switch old, err = l.lstat(l.name); {
		case errors.Is(err, fs.ErrNotExist):
			freed = true
		case private.Untold(err):
			l.untold = true
		case err != nil:
			return err
		case !old.Mode().IsRegular() && old.Mode()&fs.ModeSymlink == 0:
			return inTheWay(l.name, old.Mode())
		default:
			freed, err = c.entry.backups().aside(c.entry, old.Mode(),
				func() error { return l.discard(c.ctx, l.name) })
			if err != nil {
				return err
			}
		}
		if freed {
			old, flag = nil, flag|os.O_EXCL
		}
	}
	if old == nil && !l.untold && c.isSmall() || old != nil && !old.Mode().IsRegular() {
		return l.overwrite(c, source, old, flag, perm) // it stays smaller, or keeps nothing
	}
	c.journal.noteInPlace(c, l.name)
	err := l.overwrite(c, source, old, flag, perm)
	c.journal.halfway = c.journal.halfway || err == nil
	return err
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

// mayMake is makePath for a dry run: it fails if the target, or with itself a file in it, could not
// be made, as far as can be told.
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
		// not every server takes a file with a slash for something that exists
		if is, err := j.dst.Stat(at); at != target && err == nil && !is.Mode.IsDir() {
			return &fs.PathError{Op: "write", Path: target, Err: endpoint.ErrNotDirectory}
		}
		at = above(j.dst, at)
	}
	for ; ; at = above(j.dst, at) {
		is, err := j.dst.Stat(at)
		switch {
		case err == nil && !is.Mode.IsDir():
			return &fs.PathError{Op: "write", Path: at, Err: endpoint.ErrNotDirectory}
		case !errors.Is(err, fs.ErrNotExist) || at == above(j.dst, at):
			return nil
		case !j.options.MakePath:
			return &fs.PathError{Op: "mkdir", Path: target, Err: fs.ErrNotExist}
		}
	}
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

// tries reports whether to try a temporary name, given what is known about the target and the
// directory. PlaceAtomic always tries.
func (p placement) tries(c *fileCopy) bool {
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

const renamesNone = "the host does not rename files: they are written in place"

func (p placement) reportNoRename(c *fileCopy) {
	p.report(c, renamesNone)
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
