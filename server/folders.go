package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/usftp/usftp/internal/filter"
	"github.com/usftp/usftp/internal/samename"
	"github.com/usftp/usftp/server/internal/turn"
	"github.com/usftp/usftp/wire"
)

// Folder is a part of the tree of [Folders], with rules of its own.
type Folder struct {
	// Path is its place in the tree, absolute and clean. The nearest folder decides about a path.
	Path string

	// FS is its backend. Nil means the enclosing folder's files at this path.
	FS FS

	// Policy has the rules. Home, User, Uploads and Downloads are the session's, and ignored here.
	// Without an FS, Quota is the enclosing folder's.
	Policy Policy

	// RefusedNames are patterns of names that no file may get, in rsync's syntax: "*.exe" is a name
	// anywhere, "/in/*.tmp" a path of the whole tree. Their case does not matter.
	RefusedNames []string
}

// Folders is a backend composed of others, and of directories within these that have their own
// rules. Every path goes through one function, which resolves its links and then decides which
// folder it is in. That folder's backend is asked to follow no link, so that a link put there
// meanwhile leads nowhere. Links lead from a folder into folders below it, and never out of one
// that has its own FS.
//
// Folders are listed in the directory above them, and can be neither removed nor renamed, nor can
// the directories on the way to them. Nothing is renamed or linked from one FS to another: that
// fails with FAILURE, as OpenSSH's server answers EXDEV. Names that some disk may take for a
// folder's mean the folder, such as names that differ in case, or in how Unicode composes a letter.
type Folders struct {
	root *folder
	all  []*folder
}

// folder is a Folder in use.
type folder struct {
	elements []string // of its path
	keys     []string // of these, see package samename
	path     string   // without a slash at the end, "" for the root
	owner    *folder  // the folder whose FS it uses: itself, or an enclosing one
	view     *View    // with its rules
	refused  filter.Rules
}

var (
	errFolderHere = &StatusError{Code: wire.PermissionDenied,
		Message: "it is, or holds, a folder of the server, which stays where it is"}
	errCrossing = &StatusError{Code: wire.Failure,
		Message: "the names are in different folders of the server: copy, and remove the original"}
	errRefusedName = &StatusError{Code: wire.PermissionDenied,
		Message: "the server accepts no files of this name"}
	errManyLinks = &StatusError{Code: wire.NoSuchFile,
		Message: noSuchFile + ": too many levels of symbolic links"}
)

// NewFolders composes a tree. The first folder is "/", and has an FS. It fails if a path is invalid
// or listed twice, if a policy or pattern is wrong, or with errors.ErrUnsupported if an FS has
// links but is not a [Beneather]: its links could not be confined.
func NewFolders(folders ...Folder) (*Folders, error) {
	t := &Folders{}
	for i, one := range folders {
		if !path.IsAbs(one.Path) || path.Clean(one.Path) != one.Path ||
			(one.Path == "/") != (i == 0) {
			return nil, fmt.Errorf("sftp server: %q is no path for a folder", one.Path)
		}
		f := &folder{elements: elementsOf(one.Path), keys: samename.Keys(one.Path),
			path: strings.TrimSuffix(one.Path, "/")}
		if f.owner = f; t.find(f.keys) {
			return nil, fmt.Errorf("sftp server: there are two folders %q", one.Path)
		}
		t.all = append(t.all, f)
	}
	if len(t.all) == 0 {
		return nil, errors.New("sftp server: there is no folder")
	}
	t.root = t.all[0]
	for i, f := range t.all {
		if err := t.complete(f, &folders[i], folders); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// find reports whether a folder has this path.
func (t *Folders) find(keys []string) bool {
	return slices.ContainsFunc(t.all, func(f *folder) bool { return slices.Equal(f.keys, keys) })
}

// complete makes a folder's view and rules.
func (t *Folders) complete(f *folder, from *Folder, folders []Folder) (err error) {
	files, policy := from.FS, from.Policy
	if files == nil {
		for i, around := range t.all { // the nearest one that has an FS
			if folders[i].FS != nil && begins(f.keys, around.keys) &&
				(files == nil || len(around.elements) > len(f.owner.elements)) {
				f.owner, files = around, folders[i].FS
				policy.Quota = folders[i].Policy.Quota
			}
		}
	}
	if files == nil {
		return errors.New("sftp server: the folder / has no files")
	}
	_, links := files.(Readlinker)
	if _, ok := files.(Beneather); links && !ok {
		return fmt.Errorf("sftp server: folder %s: links in it cannot be kept in: %w", from.Path,
			errors.ErrUnsupported)
	}
	policy.Home, policy.Uploads, policy.Downloads = "", nil, nil
	if f.view, err = NewView(files, &policy); err != nil {
		return err
	}
	f.view.inner = true
	for _, pattern := range from.RefusedNames {
		rule, err := filter.NewRefusal(samename.Key(pattern))
		if err != nil {
			return fmt.Errorf("sftp server: the pattern %q: %w", pattern, err)
		}
		f.refused = append(f.refused, rule)
	}
	return nil
}

func elementsOf(name string) []string {
	name = strings.Trim(name, "/")
	if name == "" {
		return nil
	}
	return strings.Split(name, "/")
}

// begins reports whether a path equals another one, or lies below it, by their keys.
func begins(name, with []string) bool {
	return len(name) >= len(with) && slices.Equal(name[:len(with)], with)
}

// A place is the location that a path stands for.
type place struct {
	*folder
	ctx  context.Context // for requests at path; they follow no link
	path string          // in the folder's FS
	full string          // in the tree, without links
}

// at returns the place of a path without links.
func (t *Folders) at(ctx context.Context, name string) place {
	elements, keys := elementsOf(name), samename.Keys(name)
	p := place{folder: t.root}
	for _, f := range t.all {
		if begins(keys, f.keys) && len(f.elements) >= len(p.elements) {
			p.folder = f
		}
	}
	rest := elements[len(p.elements):]
	p.full = path.Join("/", p.folder.path, strings.Join(rest, "/"))
	p.path = path.Join("/", strings.Join(elementsOf(p.full)[len(p.owner.elements):], "/"))
	top := ""
	if p.path != "/" && p.view.serves(opBeneath) {
		top = "/"
	}
	p.ctx = WithBeneath(ctx, top)
	return p
}

// fixed reports whether a path is a folder's, or on the way to one.
func (t *Folders) fixed(name string) bool {
	keys := samename.Keys(name)
	return slices.ContainsFunc(t.all, func(f *folder) bool { return begins(f.keys, keys) })
}

// made reports whether a path is a directory regardless of the enclosing FS: a folder with its own
// FS, or on the way to one.
func (t *Folders) made(name string) bool { return len(t.below(name, true)) > 0 }

// below returns the names in a directory that belong to folders with their own FS, or lie on the
// way to them; with itself, also "" for the directory itself.
func (t *Folders) below(name string, itself bool) (names []string) {
	keys := samename.Keys(name)
	for _, f := range t.all {
		switch {
		case f.owner != f || !begins(f.keys, keys):
		case len(f.elements) > len(keys):
			names = append(names, f.elements[len(keys)])
		case itself:
			names = append(names, "")
		}
	}
	return names
}

// maxLinks limits how often a path may cross from one folder to another through links, as on Linux;
// each of its elements may take one or two more queries.
const maxLinks = 40

// real resolves the links in a path, whose last element need not exist.
func (t *Folders) real(ctx context.Context, name string) (string, error) {
	most := maxLinks + 2*len(elementsOf(name))
	return t.resolve(WithBeneath(ctx, ""), name, &most)
}

// resolve works like real, with at most *most queries to the folders.
func (t *Folders) resolve(ctx context.Context, name string, most *int) (string, error) {
	for ; *most > 0; *most-- {
		p, made, err := t.seek(ctx, name)
		if err != nil {
			return "", err
		}
		resolver, ok := p.view.fs.(RealPather)
		if !ok || p.path == "/" || made {
			return p.full, nil
		}
		resolved, err := resolver.RealPath(ctx, p.path)
		if errors.Is(err, fs.ErrNotExist) { // there may be a link above it to another folder
			*most--
			dir, base := path.Split(p.full)
			if dir, err = t.resolve(ctx, path.Clean(dir), most); err != nil {
				return "", err
			}
			if name = path.Join(dir, base); name == p.full {
				return "", fs.ErrNotExist
			}
			continue
		}
		if err != nil {
			return "", err
		}
		name = path.Join("/", p.owner.path, resolved)
		if again := t.at(ctx, name); again.owner == p.owner {
			return again.full, nil
		}
	}
	return "", errManyLinks
}

// seek returns the place of a path without links, and whether it is made. For a long path it waits
// for a turn, which ends before the folder is asked: that takes turns of its own.
func (t *Folders) seek(ctx context.Context, name string) (p place, made bool, err error) {
	if len(name) > 2*longPath {
		end, err := turn.Take(ctx)
		if err != nil {
			return p, false, err
		}
		defer end()
	}
	p = t.at(ctx, name)
	return p, t.made(p.full), nil
}

// TakesTurns is for this package only: resolving a long path waits for a turn, here as in a folder.
func (t *Folders) TakesTurns() {}

// locate is the only way from a client's path to its place. follow is set if a link in the last
// element is followed.
func (t *Folders) locate(ctx context.Context, name string, follow bool) (place, error) {
	dir, base := path.Split(name)
	if top, ok := Beneath(ctx); ok { // no link beneath it is followed
		dir, base = top, strings.TrimPrefix(name, top)
	} else if follow {
		dir, base = name, ""
	}
	real, err := t.real(ctx, path.Clean("/"+dir))
	if err != nil {
		return place{}, err
	}
	return t.at(ctx, path.Join(real, base)), nil
}

// naming locates a path that is about to become a file's name.
func (t *Folders) naming(ctx context.Context, name string, dir bool) (place, error) {
	p, err := t.locate(ctx, name, false)
	if err == nil {
		err = p.accepts(dir)
	}
	return p, err
}

// accepts returns an error for a refused name.
func (p *place) accepts(dir bool) error {
	if p.refused.Exclude(samename.Key(strings.TrimPrefix(p.full, "/")), dir) {
		return errRefusedName
	}
	return nil
}

// moving locates a file whose name is about to change.
func (t *Folders) moving(ctx context.Context, name string) (place, error) {
	p, err := t.locate(ctx, name, false)
	if err == nil && t.fixed(p.full) {
		err = errFolderHere
	}
	return p, err
}

// Stat implements [FS].
func (t *Folders) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	p, err := t.locate(ctx, name, true)
	if err != nil {
		return nil, err
	}
	return t.described(p, p.view.Stat)
}

// Lstat implements [Lstater].
func (t *Folders) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	p, err := t.locate(ctx, name, false)
	if err != nil {
		return nil, err
	}
	return t.described(p, p.view.Lstat)
}

// described describes a place, which may exist only on the way to a folder.
func (t *Folders) described(p place,
	stat func(ctx context.Context, name string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	info, err := stat(p.ctx, p.path)
	if errors.Is(err, fs.ErrNotExist) && p.path != "/" && t.made(p.full) {
		return wayTo(path.Base(p.full)), nil
	}
	return info, err
}

// List implements [Lister].
func (t *Folders) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	p, err := t.locate(ctx, name, true)
	if err != nil {
		return failedList(err)
	}
	return func(yield func(fs.FileInfo, error) bool) {
		folders := t.below(p.full, false)
		for info, err := range p.view.List(p.ctx, p.path) {
			if errors.Is(err, fs.ErrNotExist) && len(folders) > 0 {
				break // it exists only on the way to them
			}
			if err == nil && contains(folders, info.Name()) {
				continue
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
		for i, name := range folders {
			if !contains(folders[:i], name) && !yield(t.entry(ctx, path.Join(p.full, name)), nil) {
				return
			}
		}
	}
}

func contains(names []string, name string) bool {
	key := samename.Key(name)
	return slices.ContainsFunc(names, func(one string) bool { return samename.Key(one) == key })
}

// entry describes a folder, or a directory on the way to one, in a listing.
func (t *Folders) entry(ctx context.Context, name string) fs.FileInfo {
	p := t.at(ctx, name)
	if info, err := t.described(p, p.view.fs.Stat); err == nil {
		return &renamedInfo{info, path.Base(name)}
	}
	return wayTo(path.Base(name))
}

// Open implements [Opener].
func (t *Folders) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (File, error) {
	const fresh = wire.OpenCreate | wire.OpenExclusive // which follows no link
	p, err := t.locate(ctx, name, flags&fresh != fresh)
	if err == nil && flags&writing != 0 {
		err = p.accepts(false)
	}
	if err == nil && flags&wire.OpenCreate != 0 && t.fixed(p.full) {
		err = errFolderHere // a file there would be in the way, and could not be removed
	}
	if err != nil {
		return nil, err
	}
	return p.view.open(p.ctx, p.path, flags, attrs)
}

// Setstat implements [Setstater].
func (t *Folders) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	p, err := t.locate(ctx, name, true)
	if err != nil {
		return err
	}
	return p.view.Setstat(p.ctx, p.path, attrs)
}

// Lsetstat implements [Lsetstater].
func (t *Folders) Lsetstat(ctx context.Context, name string, attrs wire.Attrs) error {
	p, err := t.locate(ctx, name, false)
	if err != nil {
		return err
	}
	return p.view.Lsetstat(p.ctx, p.path, attrs)
}

// Remove implements [Remover].
func (t *Folders) Remove(ctx context.Context, name string) error {
	p, err := t.moving(ctx, name)
	if err != nil {
		return err
	}
	return p.view.Remove(p.ctx, p.path)
}

// Rmdir implements [Rmdirer].
func (t *Folders) Rmdir(ctx context.Context, name string) error {
	p, err := t.moving(ctx, name)
	if err != nil {
		return err
	}
	return p.view.Rmdir(p.ctx, p.path)
}

// Mkdir implements [Mkdirer].
func (t *Folders) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	p, err := t.naming(ctx, name, true)
	switch {
	case err != nil:
		return err
	case t.made(p.full):
		return fs.ErrExist
	}
	return p.view.Mkdir(p.ctx, p.path, attrs)
}

// Symlink implements [Symlinker].
func (t *Folders) Symlink(ctx context.Context, target, name string) error {
	p, err := t.naming(ctx, name, false)
	switch {
	case err != nil:
		return err
	case t.fixed(p.full):
		return errFolderHere
	}
	return p.view.Symlink(p.ctx, target, p.path)
}

// Readlink implements [Readlinker].
func (t *Folders) Readlink(ctx context.Context, name string) (string, error) {
	p, err := t.locate(ctx, name, false)
	if err != nil {
		return "", err
	}
	return p.view.Readlink(p.ctx, p.path)
}

// Rename implements [Renamer].
func (t *Folders) Rename(ctx context.Context, oldName, newName string) error {
	from, to, err := t.two(ctx, opRename, oldName, newName)
	if err != nil {
		return err
	}
	return from.view.Rename(from.ctx, from.path, to.path)
}

// PosixRename implements [PosixRenamer].
func (t *Folders) PosixRename(ctx context.Context, oldName, newName string) error {
	from, to, err := t.two(ctx, opPosixRename, oldName, newName)
	if err != nil {
		return err
	}
	return from.view.PosixRename(from.ctx, from.path, to.path)
}

// Link implements [Linker].
func (t *Folders) Link(ctx context.Context, oldName, newName string) error {
	from, to, err := t.two(ctx, opHardlink, oldName, newName)
	if err != nil {
		return err
	}
	return from.view.Link(from.ctx, from.path, to.path)
}

// two locates a file that is to get another name, and the new name. Both folders must allow it.
func (t *Folders) two(ctx context.Context, o operation, oldName, newName string) (from, to place,
	err error) {
	if from, err = t.moving(ctx, oldName); err != nil {
		return from, to, err
	}
	if to, err = t.moving(ctx, newName); err != nil {
		return from, to, err
	}
	for _, p := range []place{from, to} {
		if err := p.view.permit(o); err != nil {
			return from, to, err
		}
	}
	if from.owner != to.owner {
		return from, to, errCrossing
	}
	// Its new name must not allow what its present one forbids.
	const held = readsContents | writesContents | setsAttributes
	if from.view.withheld&^to.view.withheld&held != 0 {
		return from, to, errForbidden
	}
	info, err := from.view.lstat(from.ctx, from.path)
	if err != nil {
		return from, to, err
	}
	// Nor must a move take it to where it can be removed, or listed. A link leaves its first name.
	gains := operationSet(1 << opRemove)
	if info.IsDir() {
		gains |= 1<<opRmdir | 1<<opOpendir | 1<<opReaddir
	}
	if o != opHardlink && from.view.forbidden&^to.view.forbidden&gains != 0 {
		return from, to, errForbidden
	}
	return from, to, to.accepts(info.IsDir())
}

// RealPath implements [RealPather].
func (t *Folders) RealPath(ctx context.Context, name string) (string, error) {
	real, err := t.real(ctx, name)
	if err == nil {
		err = t.at(ctx, real).view.permit(opRealpath)
	}
	return real, err
}

// StatVFS implements [StatVFSer].
func (t *Folders) StatVFS(ctx context.Context, name string) (wire.StatVFSReply, error) {
	p, err := t.locate(ctx, name, true)
	if err != nil {
		return wire.StatVFSReply{}, err
	}
	reply, err := p.view.StatVFS(p.ctx, p.path)
	if errors.Is(err, fs.ErrNotExist) && t.made(p.full) {
		return p.view.StatVFS(WithBeneath(ctx, ""), "/")
	}
	return reply, err
}

// OwnerNames implements [OwnerNamer].
func (t *Folders) OwnerNames(ctx context.Context, uids, gids []uint32) (users, groups []string,
	err error) {
	return t.root.view.ownerNames(ctx, uids, gids)
}

// WalksBeneath implements [Beneather].
func (t *Folders) WalksBeneath() {}

var _ AtomicUploader = (*Folders)(nil)

// Upload implements [AtomicUploader].
func (t *Folders) Upload(ctx context.Context, name string) (fs.FileInfo, error) {
	p, err := t.locate(ctx, name, false)
	if err != nil {
		return nil, err
	}
	return p.view.Upload(p.ctx, p.path)
}

// allow reports whether all folders allow some operations.
func (t *Folders) allow(list ...operation) bool {
	for _, f := range t.all {
		for _, o := range list {
			if f.view.permit(o) != nil {
				return false
			}
		}
	}
	return true
}

// UploadsAtomically implements [AtomicUploader]: true only if all folders do.
func (t *Folders) UploadsAtomically() bool {
	for _, f := range t.all {
		if !f.view.uploadsAtomically() {
			return false
		}
	}
	return true
}
