package filecopy

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/journal"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
)

// Conns returns the run's connections, the target's first.
func (r *Run) Conns() []*pool.Conn { return present(r.Dst.Conn(), r.Src.Conn()) }

// Why returns the error to report for err: the reason why a connection was given up, or err itself
// if none was.
func (r *Run) Why(err error) error {
	from, to := r.Src.Conn(), r.Dst.Conn()
	if from != nil && from != to {
		if gaveUp := from.Why(err); gaveUp != err {
			return endpoint.OfSource(gaveUp)
		}
	}
	if to != nil {
		return to.Why(err)
	}
	return err
}

// present returns the target's and the source's connection, without nil ones, and once if they are
// the same.
func present[T any](to, from *T) (all []*T) {
	if to != nil {
		all = append(all, to)
	}
	if from != nil && from != to {
		all = append(all, from)
	}
	return all
}

// shown returns a path on the target's side as users write it.
func (r *Run) shown(path string) string { return endpoint.Shown(r.TargetHost, path) }

// Nearest replaces times that files at the target cannot have by the nearest that they can. The
// first time in a run it returns a warning.
func (r *Run) Nearest(set *usftp.NewAttrs) (warning string) {
	to := r.Dst.Conn()
	if !set.SetTimes {
		return ""
	}
	atime, mtime := endpoint.Nearest(set.Atime, to), endpoint.Nearest(set.Mtime, to)
	if mtime.Unix() != set.Mtime.Unix() {
		r.oldTimes.Do(func() {
			warning = "SFTP has no times before 1970 or after 2106: the nearest is set"
			if to == nil {
				warning = "usftp sets no times before 1678 or after 2262 here: the nearest is set"
			} else if endpoint.LastTime(to) == math.MaxInt32 {
				warning = "SFTP has no times before 1970, and the host cannot list files with times after " +
					"January 2038: the nearest is set"
			}
		})
	}
	set.Atime, set.Mtime = atime, mtime
	return warning
}

// JournalKey returns the name of a copy's file in the journal, "" if no journal is kept or an
// endpoint is a stream.
func (r *Run) JournalKey(kind, source, target string) string {
	from, source, isFile := r.Src.Identity(source)
	to, target, isToFile := r.Dst.Identity(target)
	if r.Options.Journal == "" || !isFile || !isToFile {
		return ""
	}
	return journal.Name(r.Options.Journal, kind, from, source, to, target)
}

// IsHalfway reports whether an earlier run wrote a target in place and did not complete it. Most
// journals hold no such mark, and then paths is not called.
func (r *Run) IsHalfway(paths func() (source, target string)) bool {
	if r.Options.Journal == "" || !r.halfways.Any(r.Options.Journal) {
		return false
	}
	source, target := paths()
	return r.halfways.Has(r.JournalKey("file", source, target))
}

// CheckBase checks the name that a copy gets in a directory.
func (r *Run) CheckBase(base string) error {
	if base == "." {
		return nil
	}
	if err := r.Dst.CheckName(base, r.Src.Conn() != nil); err != nil {
		return &fs.PathError{Op: "copy", Path: r.SourcePath, Err: err}
	}
	return nil
}

// MakePath creates the missing directories above a target, and with itself also the target.
func (r *Run) MakePath(target string, itself bool) error {
	at, missing := r.Dst.Join(target, "."), ""
	if !itself {
		at = Above(r.Dst, at)
	}
	for ; at != Above(r.Dst, at); at = Above(r.Dst, at) {
		if _, err := r.Dst.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break // if it is no directory or inaccessible, making one in it will tell
		}
		missing = path.Join(r.Dst.Base(at), missing)
	}
	if missing == "" {
		return nil
	}
	root, err := r.Dst.Below(at)
	if err != nil {
		return err
	}
	defer root.Close()
	return endpoint.MkdirAll(root, missing, 0o777)
}

// Above returns the directory that holds a name.
func Above(e endpoint.Place, name string) string {
	if name = e.Join(name, "."); e.Conn() == nil {
		return filepath.Dir(name)
	}
	return path.Dir(name)
}

// MeansDirectory reports whether a path can only be a directory's.
func MeansDirectory(name string) bool {
	base := path.Base(name)
	return base == "." || base == ".." || base == "/"
}

// A Target is a place to copy files to: one of the types below.
type Target interface {
	endpoint.Place

	// place examines where a file goes. For files of trees it leaves nothing open.
	place(c *Copy) (*output, error)

	// CheckName refuses names that the target takes for others and, if they are foreign, names that a
	// source server must not choose.
	CheckName(name string, foreign bool) error

	// Quirks returns the quirks that the target has shown.
	Quirks() *quirks.Quirks
}

// A LocalTarget is this machine. Everything below the target of a tree is written through os.Root,
// so that names from a server cannot lead outside.
type LocalTarget struct {
	endpoint.Local
	quirks quirks.Quirks
	Root   *endpoint.LocalRoot // of a tree
}

// Quirks implements Target.
func (t *LocalTarget) Quirks() *quirks.Quirks { return &t.quirks }

func (t *LocalTarget) CheckName(name string, _ bool) error { return localfs.CheckName(name) }

// A HostTarget is a host.
type HostTarget struct {
	*endpoint.Host
	Root *endpoint.HostRoot // of a tree
}

// noFiles is common to targets that hold no files.
type noFiles struct{ endpoint.Stream }

func (noFiles) CheckName(string, bool) error { return nil }
func (noFiles) Quirks() *quirks.Quirks       { return new(quirks.Quirks) }

// A WriterTarget is an io.Writer.
type WriterTarget struct {
	noFiles
	W io.Writer
}

// Nowhere is the target of files that are only read.
type Nowhere struct{ noFiles }

func (Nowhere) Join(dir, name string) string { return "" }
func (Nowhere) place(*Copy) (*output, error) { return nil, endpoint.ErrStream }

// A location is where a file goes, and under which name it is written.
type location struct {
	name   string      // path, links resolved
	info   fs.FileInfo // the target entry, nil if there is none or it is a link
	link   bool        // the target entry is a link
	direct bool        // it can only be written in place
	untold bool        // the host does not tell the entry's type, or whether it exists
	temp   string      // path of the temporary file, "" if the target itself is written
	freed  bool        // the old target entry has been moved away
	hidden bool        // the target itself is written, and the host shows it when it is closed
	stream bool        // it is not a file, and written data cannot be taken back

	// quirks are the target's refusals, so that thousands of files need not each find out.
	quirks *quirks.Quirks
}

func (l *location) atomic() bool { return l.temp != "" || l.hidden }

// written returns the path that is being written.
func (l *location) written() string {
	if l.temp != "" {
		return l.temp
	}
	return l.name
}

// own reports whether the file is new.
func (l *location) own() bool { return l.temp != "" || l.info == nil }

// setsMode reports whether a temporary file gets its permissions when it is finished.
func (l *location) setsMode(c *Copy, source *endpoint.Info) bool {
	return l.info != nil || c.Options.PreservesMode(source)
}

// left reports whether an earlier run for this target may have left a file of this name.
func (l *location) left(c *Copy, name string) bool {
	return strings.HasPrefix(c.Dst.Base(name), localfs.TempPrefix(c.Dst.Base(l.name))) &&
		(c.to == nil || path.Dir(name) == path.Dir(l.name))
}

// apart fails if the target is the source itself.
func (l *location) apart(c *Copy, in *input) error {
	source := in.info().Local
	if source != nil && l.info != nil && os.SameFile(source, l.info) {
		return errSameFile
	}
	if c.to == nil || c.from != c.to || c.Listed != nil || l.info == nil && !l.untold {
		return nil
	}
	from, err := c.to.client.RealPath(c.Source)
	if err != nil {
		return nil
	}
	if to, err := c.to.client.RealPath(l.name); err == nil && to == from {
		return errSameFile
	}
	return nil
}

// notAtomic returns the error for a target that must not be written in place.
func (l *location) notAtomic() error {
	return &fs.PathError{Op: "replace", Path: l.name,
		Err: errors.New("not a regular file with one name, and can only be written in place")}
}

// tries reports whether to try a temporary name, given the known quirks of the target and the
// directory. PlaceAtomic always tries.
func (l *location) tries(c *Copy) bool {
	switch {
	case c.Options.Placement == PlaceAtomic:
		return true
	case c.Options.Placement == PlaceDirect, l.quirks.NoTemporary.Load(), l.quirks.NoRename.Load(),
		c.known.notRenamed:
		return false
	}
	return c.Listed == nil || !c.Findings().noTemporary.Load()
}

// fallBack decides how to go on when a temporary file could not be created: it returns nil if the
// target may be written in place, otherwise the error to fail with, and tells the user other ways.
func (l *location) fallBack(c *Copy, err error) error {
	if c.Options.Placement != PlaceAtomic && endpoint.NameRefused(err) {
		return nil
	}
	if c.Options.Placement == PlaceAuto && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, usftp.ErrNameCoding) &&
		!errors.Is(err, endpoint.ErrNotDirectory) && !errors.Is(err, syscall.EROFS) {
		c.Result.Detail = "no temporary file can be created beside the target, which is untouched"
		isNew := l.info == nil && !l.untold
		if isNew && endpoint.NoRoom(err) {
			c.Result.Detail = "" // there is as little room for the target itself
		} else if !endpoint.Refused(err) || endpoint.Unexplained(err) {
			c.Result.Detail += c.Rules.InPlace
		}
	}
	return err
}

// noteNameRefused records that no temporary file could be created where the target itself could.
// Creating a new target needs the same permission, so the host must refuse the name; with an
// existing target, perhaps only this directory takes no new names.
func (l *location) noteNameRefused(c *Copy) {
	if l.info == nil {
		l.quirks.NoTemporary.Store(true)
	} else if c.Listed != nil {
		c.Findings().noTemporary.Store(true)
	}
	l.report(c, "no temporary file can be created beside the target: it is written in place")
}

// RenamesNone warns that a host renames nothing.
const RenamesNone = "the host does not rename files: they are written in place"

// report warns why, once for all files that it applies to.
func (l *location) report(c *Copy, why string) {
	if l.quirks.Reported.Swap(true) {
		return
	}
	if c.Listed != nil {
		why += " (reported once for all files of the tree)"
	}
	c.Warn(why)
}

// look records the target entry found below the target of a tree.
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
		return endpoint.InTheWay(l.name, info.Mode())
	default:
		l.info = info
	}
	return nil
}

// find determines where a single file goes: into the target if that is a directory. name is the
// target as the user gave it, slash says whether it ends in one, and stat follows links.
func (l *location) find(c *Copy, name string, slash bool,
	stat func(string) (fs.FileInfo, error)) error {
	l.name = name
	info, err := stat(name)
	if errors.Is(err, fs.ErrNotExist) && c.Options.MakePath {
		if above := c.MakePath(name, slash); above != nil {
			return above
		}
		info, err = stat(name)
	}
	switch {
	case err == nil && info.IsDir(), private.Untold(err) && (slash || MeansDirectory(name)):
		base := c.Src.Base(c.Source)
		if base == "" || c.Options.NoTargetDirectory {
			return &fs.PathError{Op: "write", Path: name, Err: endpoint.ErrIsDirectory}
		}
		if err := c.CheckBase(base); err != nil {
			return err
		}
		l.name, c.ListName = c.Dst.Join(name, base), base
		c.Result.Target = l.name
		if info, err = stat(l.name); err == nil && info.IsDir() {
			return &fs.PathError{Op: "write", Path: l.name, Err: endpoint.ErrIsDirectory}
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
func (t *LocalTarget) place(c *Copy) (*output, error) {
	l := location{quirks: &t.quirks}
	if c.Listed == nil {
		err := t.find(c, &l)
		if err == nil && l.stream && c.Options.Placement == PlaceAtomic {
			err = l.notAtomic()
		}
		return &output{location: l, files: endpoint.FilesIn(filepath.Dir(l.name), &t.quirks)}, err
	}
	l.name = c.Target
	_, dir := c.Paths()
	files := t.Root.Files(dir)
	if c.Absent {
		return &output{location: l, files: files}, nil
	}
	// fetching the source from a host may take long: keep no directory open for that time
	defer files.Close()
	err := l.look(files.Lstat(l.name))
	// A file with other names (hard links) is written in place, as a copy of a single file is. A sync
	// replaces it: the source may have other contents under another of these names, and names outside
	// the target belong to others, often to a snapshot of it.
	l.direct = !c.Rules.Relinks && l.info != nil && localfs.Links(l.info) > 1
	return &output{location: l, files: files}, err
}

// find examines the target of a single file: a directory is entered, a symbolic link followed.
func (*LocalTarget) find(c *Copy, o *location) error {
	name := c.Target
	c.ListName = filepath.Base(name)
	slash := name != "" && os.IsPathSeparator(name[len(name)-1])
	if err := o.find(c, name, slash, os.Stat); err != nil {
		return err
	}
	if c.Options.ReplaceLink {
		if entry, err := os.Lstat(o.name); err == nil && entry.Mode()&fs.ModeSymlink != 0 {
			o.info, o.link = nil, true
			return nil
		}
	}
	o.stream = o.info != nil && !o.info.Mode().IsRegular()
	// NUL is meant for the device, as /dev/null is elsewhere, and NUL.txt is not.
	base := filepath.Base(o.name)
	if err := localfs.CheckReserved(base); err != nil &&
		(!o.stream || strings.Contains(base, ".")) {
		return &fs.PathError{Op: "write", Path: o.name, Err: err}
	}
	if o.stream {
		o.direct = true // /dev/stdout may lead to a pipe, which has no name
		return nil
	}
	resolved, err := localfs.FollowLinks(o.name)
	if err != nil {
		return err
	}
	o.name, o.direct = resolved, o.info != nil && localfs.Links(o.info) > 1
	return nil
}

// place examines the target. A file of a tree takes no round trip in a directory that this copy
// made. For a single file, a directory is entered and a symbolic link followed, since a rename
// would replace the link: that takes one round trip, and one more for a directory or a link.
func (t *HostTarget) place(c *Copy) (*output, error) {
	known := c.to.quirks()
	files := &endpoint.HostFiles{Name: c.to.host.Name, Quirks: known, Client: c.to.client}
	o := &output{location: location{quirks: known}, files: files}
	if c.Listed != nil {
		_, dir := c.Paths()
		files.Client, _ = t.Root.View(c.to.client, dir)
		o.name = c.Target
		if err := c.Unmoved(); err != nil {
			return nil, err
		}
		if c.Absent {
			return o, nil
		}
		err := o.look(files.Lstat(o.name))
		return o, cmp.Or(err, lookBehind(c, &o.location))
	}
	err := t.find(c, &o.location)
	return o, cmp.Or(err, lookBehind(c, &o.location))
}

// find examines the target of a single file.
func (t *HostTarget) find(c *Copy, o *location) error {
	name, link := cmp.Or(c.Target, "."), false
	c.ListName = path.Base(name)
	stat := func(name string) (info fs.FileInfo, err error) {
		info, link, err = c.to.look(c.Ctx, name)
		return info, err
	}
	err := o.find(c, name, strings.HasSuffix(name, "/"), stat)
	if errors.Is(err, fs.ErrNotExist) {
		err = endpoint.ExplainMissing(err, c.to.client, path.Clean(name))
	}
	if err != nil {
		return err
	}
	if err := t.checkReserved(path.Base(o.name)); err != nil {
		return &fs.PathError{Op: "write", Path: o.name, Err: err}
	}
	if c.Options.ReplaceLink && link {
		o.info, o.link = nil, true
		return nil
	}
	o.direct = o.info != nil && !o.info.Mode().IsRegular()
	// WRITE has an offset, which a pipe has not, and OPEN would wait for a reader.
	if o.direct && o.info.Mode()&fs.ModeNamedPipe != 0 {
		return endpoint.InTheWay(o.name, o.info.Mode())
	}
	if link {
		resolved, err := c.to.client.RealPath(o.name)
		if err != nil || resolved == o.name {
			c.Warn("the target is a symbolic link that cannot be followed: it is written through the link, in place")
			o.direct = true
		} else {
			o.name = resolved
		}
	}
	return nil
}

// lookBehind forgets the target entry if it is an incomplete upload: nobody else sees a file there.
func lookBehind(c *Copy, l *location) error {
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

// CheckName implements Target. It also refuses names that SFTP cannot carry.
func (t *HostTarget) CheckName(name string, foreign bool) error {
	if strings.ContainsAny(name, "/\x00") {
		return localfs.ErrBadName
	}
	if foreign {
		if err := localfs.CheckForeignName(name); err != nil {
			return err
		}
	}
	return t.checkReserved(name)
}

// checkReserved fails if the host is known to take a name for another file's.
func (t *HostTarget) checkReserved(name string) error {
	if !private.OfClient(t.Conn().Host().Client).OnWindows() || strings.Trim(name, "./") == "" {
		return nil
	}
	if err := localfs.CheckWindows(name); err != nil {
		return endpoint.Explain("the host runs Windows: "+err.Error(), fs.ErrInvalid)
	}
	return nil
}
