package transfer

import (
	"cmp"
	"errors"
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
}

func (l *location) atomic() bool { return l.temp != "" || l.hidden }

// written is the path that is being written.
func (l *location) written() string {
	if l.temp != "" {
		return l.temp
	}
	return l.name
}

// own reports whether the file is new.
func (l *location) own() bool { return l.temp != "" || l.info == nil }

// left reports whether an earlier run for this target may have left a file of this name.
func (l *location) left(c *fileCopy, name string) bool {
	return strings.HasPrefix(c.dst.Base(name), localfs.TempPrefix(c.dst.Base(l.name))) &&
		(c.to == nil || path.Dir(name) == path.Dir(l.name))
}

// apart fails if the target is the source itself.
func (l *location) apart(c *fileCopy, in *input) error {
	source := in.info().Local
	if source != nil && l.info != nil && os.SameFile(source, l.info) {
		return errSameFile
	}
	if c.to == nil || c.from != c.to || c.listed != nil || l.info == nil && !l.untold {
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

// notAtomic is the error of a target that must not be written in place.
func (l *location) notAtomic() error {
	return &fs.PathError{Op: "replace", Path: l.name,
		Err: errors.New("not a regular file with one name, and can only be written in place")}
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
		c.known.notRenamed:
		return false
	}
	return c.listed == nil || !c.found().noTemporary.Load()
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
		c.result.detail = "no temporary file can be created beside the target, which is untouched" + c.rules.inPlace
	}
	return err
}

// noteNameRefused records that no temporary file could be created where the target itself could.
// Creating a new target needs the same permission, so the name must be what is refused; with an
// existing target it may be just this directory that takes no new names.
func (p placement) noteNameRefused(c *fileCopy, isNew bool) {
	if isNew {
		p.quirks.NoTemporary.Store(true)
	} else if c.listed != nil {
		c.found().noTemporary.Store(true)
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
	if c.listed != nil {
		why += " (reported once for all files of the tree)"
	}
	c.warn(why)
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
		l.name, c.listName = c.dst.Join(name, base), base
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

// place examines the target.
func (t *localTarget) place(c *fileCopy, in *input) (*output, error) {
	l := location{placement: t.placement}
	if c.listed == nil {
		files, err := t.find(c, &l)
		if err == nil && l.stream && c.options.Placement == PlaceAtomic {
			return nil, l.notAtomic()
		}
		return &output{location: l, files: files}, err
	}
	l.name = c.target
	_, dir := c.paths()
	files := t.root.Files(dir)
	if c.absent {
		return &output{location: l, files: files}, nil
	}
	// fetching the source from a host may take long: keep no directory open for that time
	defer files.Close()
	err := l.lookBelow(c, files)
	return &output{location: l, files: files}, err
}

// lookBelow examines a path below the target of a tree. A file with other names (hard links) is
// written in place, as a copy of a single file is. A sync replaces it: the source may have other
// contents under another of these names, and the names outside the target belong to somebody else,
// often to a snapshot of it.
func (l *location) lookBelow(c *fileCopy, in *endpoint.LocalFiles) error {
	err := l.look(in.Lstat(l.name))
	l.direct = !c.rules.relinks && l.info != nil && localfs.Links(l.info) > 1
	return err
}

// find examines the target of a single file: a directory is entered, a symbolic link followed.
func (t *localTarget) find(c *fileCopy, o *location) (in endpoint.Files, err error) {
	name := c.target
	c.listName = filepath.Base(name)
	slash := name != "" && os.IsPathSeparator(name[len(name)-1])
	if err := o.find(c, name, slash, localfs.CheckName, os.Stat); err != nil {
		return nil, err
	}
	o.stream = o.info != nil && !o.info.Mode().IsRegular()
	// NUL is meant for the device, as /dev/null is elsewhere, and NUL.txt is not.
	base := filepath.Base(o.name)
	if err := localfs.CheckReserved(base); err != nil &&
		(!o.stream || strings.Contains(base, ".")) {
		return nil, &fs.PathError{Op: "write", Path: o.name, Err: err}
	}
	if o.stream {
		o.direct = true // /dev/stdout may lead to a pipe, which has no name
		return endpoint.FilesIn(filepath.Dir(o.name)), nil
	}
	resolved, err := localfs.FollowLinks(o.name)
	if err != nil {
		return nil, err
	}
	o.name, o.direct = resolved, o.info != nil && localfs.Links(o.info) > 1
	return endpoint.FilesIn(filepath.Dir(o.name)), nil
}

// place examines the target. A file of a tree takes no round trip in a directory that this copy
// made. For a single file, a directory is entered and a symbolic link followed, since a rename
// would replace the link: that takes one round trip, and one more for a directory or a link.
func (t *remoteTarget) place(c *fileCopy, in *input) (*output, error) {
	files := &endpoint.HostFiles{Name: c.to.host.Name, Quirks: t.quirks, Client: c.to.client}
	o := &output{location: location{placement: t.placement}, files: files}
	if c.listed != nil {
		_, dir := c.paths()
		files.Client, _ = t.root.View(c.to.client, dir)
		o.name = c.target
		if err := c.unmoved(); err != nil {
			return nil, err
		}
		if c.absent {
			return o, nil
		}
		err := o.look(files.Lstat(o.name))
		return o, cmp.Or(err, lookBehind(c, &o.location))
	}
	err := t.find(c, &o.location)
	return o, cmp.Or(err, lookBehind(c, &o.location))
}

// find examines the target of a single file.
func (t *remoteTarget) find(c *fileCopy, o *location) error {
	name, link := cmp.Or(c.target, "."), false
	c.listName = path.Base(name)
	stat := func(name string) (info fs.FileInfo, err error) {
		info, link, err = c.to.look(c.ctx, name)
		return info, err
	}
	err := o.find(c, name, strings.HasSuffix(name, "/"), t.checkName, stat)
	if errors.Is(err, fs.ErrNotExist) {
		err = endpoint.ExplainMissing(err, c.to.client, path.Clean(name))
	}
	if err != nil {
		return err
	}
	if err := t.checkReserved(path.Base(o.name)); err != nil {
		return &fs.PathError{Op: "write", Path: o.name, Err: err}
	}
	o.direct = o.info != nil && !o.info.Mode().IsRegular()
	if link {
		resolved, err := c.to.client.RealPath(o.name)
		if err != nil || resolved == o.name {
			c.warn("the target is a symbolic link that cannot be followed: it is written through the link, in place")
			o.direct = true
		} else {
			o.name = resolved
		}
	}
	return nil
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

// above returns the directory that holds a name.
func above(e end, name string) string {
	if name = e.Join(name, "."); e.conn() == nil {
		return filepath.Dir(name)
	}
	return path.Dir(name)
}

// checkReserved returns nil if the host, as far as is known, takes a name for that of the file that
// it names, and of no other.
func (t *remoteTarget) checkReserved(name string) error {
	if !private.OfClient(t.link.Host().Client).OnWindows() || strings.Trim(name, "./") == "" {
		return nil
	}
	if err := localfs.CheckWindows(name); err != nil {
		return endpoint.Explain("the host runs Windows: "+err.Error(), fs.ErrInvalid)
	}
	return nil
}
