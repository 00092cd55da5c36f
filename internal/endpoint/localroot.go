package endpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/quirks"
)

// LocalRoot is the Root of a local directory. All its operations go through os.Root, so that names
// from a server cannot lead outside.
type LocalRoot struct {
	top  *os.Root // nil if there is no directory, as in a dry run
	base string   // the directory's name in top; "." if it is top
	dirs openDirs
	neverLost

	Quirks *quirks.Quirks // of the file system
}

// neverLost is embedded in Roots whose requests are not repeated.
type neverLost struct{}

func (neverLost) Guard(func() error) {}

// NewLocalRoot returns a Root for the directory base in top, which may not exist yet, or for top
// itself if base is ".". It takes over top. If top is nil, nothing exists.
func NewLocalRoot(top *os.Root, base string) *LocalRoot {
	return &LocalRoot{top: top, base: base, Quirks: new(quirks.Quirks), dirs: openDirs{top: top,
		open: make(map[string]*openDir), moved: make(map[string]bool)}}
}

func (Local) Below(dir string) (Root, error) {
	top, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	return NewLocalRoot(top, "."), nil
}

// Open returns an open directory, which release gives back. No link in its path is followed.
func (r *LocalRoot) Open(dir string) (in *os.Root, release func(), err error) {
	if r.top == nil {
		return nil, nil, fs.ErrNotExist
	}
	return r.dirs.use(path.Join(r.base, dir))
}

// in calls do with the open directory that holds a name, and the name in it.
func (r *LocalRoot) in(name string, do func(in *os.Root, base string) error) error {
	if r.top == nil {
		return fs.ErrNotExist
	}
	name = path.Join(r.base, name)
	in, release, err := r.dirs.use(path.Dir(name))
	if err != nil {
		return err
	}
	defer release()
	return do(in, path.Base(name))
}

func (r *LocalRoot) Lstat(name string) (i Info, err error) {
	err = r.in(name, func(in *os.Root, base string) error {
		i, err = found(r.lookAt(in, name, base))
		return err
	})
	return i, err
}

func (r *LocalRoot) ReadLink(name string) (text string, err error) {
	err = r.in(name, func(in *os.Root, base string) error {
		text, err = in.Readlink(base)
		return err
	})
	return text, err
}

func (*LocalRoot) SameLink(_, have, want string) bool { return have == want }

func (r *LocalRoot) List(dir string, _ *Info, _ func(), each func(string, Info, error) bool) error {
	in, release, err := r.Open(dir)
	if err != nil {
		return err
	}
	defer release()
	_, err = eachEntry(in, each)
	return err
}

func (r *LocalRoot) ReadSmall(name string, most int64) (data []byte, was Info, err error) {
	err = r.in(name, func(in *os.Root, base string) error {
		f, err := openRegular(in, base, os.O_RDONLY)
		if err == nil {
			data, was, err = readSmall(f, most)
		}
		return err
	})
	return data, was, err
}

// openRegular opens an existing regular file. It opens no named pipe, which would wait, and no
// link, which os.Root would follow inside the directory.
func openRegular(in *os.Root, base string, flags int) (*os.File, error) {
	listed, err := in.Lstat(base)
	if err == nil && !listed.Mode().IsRegular() {
		err = fmt.Errorf("%s is %w", base, ErrNotRegular)
	}
	if err != nil {
		return nil, err
	}
	f, err := in.OpenFile(base, flags|localfs.Nonblock, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(listed, opened) {
		err = &fs.PathError{Op: "open", Path: base, Err: ErrReplaced}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (r *LocalRoot) WriteSmall(name string, data []byte, create func()) error {
	return r.in(name, func(in *os.Root, base string) error {
		open := in.OpenFile
		if create == nil {
			open = func(base string, flags int, _ fs.FileMode) (*os.File, error) {
				return openRegular(in, base, flags)
			}
		}
		return writeSmall(base, data, create, open, in.Remove)
	})
}

func (r *LocalRoot) Remove(name string, dir bool) error {
	return r.in(name, func(in *os.Root, base string) error {
		if dir {
			r.dirs.forget(path.Join(r.base, name))
		}
		return remove(base, dir, in.Lstat, in.Remove)
	})
}

// LookDir implements Root. It does not open the directory, which may allow nobody to list it.
func (r *LocalRoot) LookDir(dir string) (i Info, err error) {
	if dir != "." {
		if err := r.Unmoved(path.Dir(dir)); err != nil {
			return i, err
		}
	}
	err = r.in(dir, func(in *os.Root, base string) error {
		i, err = found(isDir(r.lookAt(in, dir, base)))
		return err
	})
	return i, err
}

// lookAt stats base in an open directory. It follows a link that stands for a directory.
func (r *LocalRoot) lookAt(in *os.Root, name, base string) (fs.FileInfo, error) {
	if at := path.Join(r.base, name); r.dirs.links.of(at) != nil {
		return os.Stat(r.dirs.path(at))
	}
	return in.Lstat(base)
}

func (r *LocalRoot) KeepDirLink(name string) (i Info, err error) {
	err = r.in(name, func(in *os.Root, base string) error {
		at := path.Join(r.base, name)
		info, err := os.Stat(r.dirs.path(at))
		if err != nil || !info.IsDir() {
			return ErrLinkInWay
		}
		r.dirs.links.keep(at, &dirLink{info: info})
		i = OfFile(info)
		return nil
	})
	return i, err
}

func (*LocalRoot) FollowsLinks() bool   { return false }
func (*LocalRoot) InPlace(string) error { return nil }

// Unmoved implements Root. It compares the open directories, from the root on, with the present
// entries of their names.
func (r *LocalRoot) Unmoved(dir string) error {
	if dir != "." {
		if err := r.Unmoved(path.Dir(dir)); err != nil {
			return err
		}
	}
	in, release, err := r.Open(dir)
	if err != nil {
		return err
	}
	defer release()
	open, err := in.Stat(".")
	if err != nil || dir == "." {
		return err
	}
	return r.in(dir, func(in *os.Root, base string) error {
		listed, err := r.lookAt(in, dir, base)
		return sameDir(listed, open, err)
	})
}

// sameDir fails if the listed entry is not the open directory.
func sameDir(listed, open fs.FileInfo, err error) error {
	switch {
	case err != nil || os.SameFile(open, listed):
	case listed.Mode()&fs.ModeSymlink != 0:
		err = ErrLinkInWay
	default:
		err = ErrMoved
	}
	return err
}

func (r *LocalRoot) Mkdir(name string, perm fs.FileMode) (made bool, err error) {
	err = r.in(name, func(in *os.Root, base string) error {
		err := in.Mkdir(base, perm)
		if made = err == nil; made {
			r.dirs.forget(path.Join(r.base, name)) // another directory of that name may have been removed
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		_, err = isDir(r.lookAt(in, name, base))
		return err
	})
	return made, err
}

func (r *LocalRoot) Symlink(text, name string) error {
	return r.in(name, func(in *os.Root, base string) error { return in.Symlink(text, base) })
}

func (r *LocalRoot) ReplaceByLink(text, name, temporary, _ string) error {
	return r.in(name, func(in *os.Root, base string) error {
		temporary := path.Base(temporary)
		err := in.Symlink(text, temporary)
		if err == nil {
			if err = localfs.Replace(in, temporary, base); err != nil {
				in.Remove(temporary)
			}
		}
		return err
	})
}

func (r *LocalRoot) Rename(from, to string) error {
	err := r.between(from, to, localfs.RenameNew, renameNew)
	if err == nil { // both names may belong to open directories
		r.dirs.forget(path.Join(r.base, from))
		r.dirs.forget(path.Join(r.base, to))
	}
	return err
}

// renameNew renames to a free name where the system's rename replaces: it links the file to the new
// name, which fails if that exists, and removes the old one.
func renameNew(in *os.Root, from, to string) error {
	err := in.Link(from, to)
	if err == nil {
		return in.Remove(from)
	}
	if _, lookErr := in.Lstat(to); errors.Is(err, fs.ErrExist) || lookErr == nil {
		return fs.ErrExist
	}
	return in.Rename(from, to) // a directory, or there are no hard links here
}

func (r *LocalRoot) Link(name, to string) error {
	return r.between(name, to, localfs.LinkInto, (*os.Root).Link)
}

// between calls do with the open directories that hold two names, and the names in them. Where the
// system does not support that, it checks the directories and calls instead with paths, in which
// os.Root follows links that stay inside.
func (r *LocalRoot) between(from, to string,
	do func(in *os.Root, old string, at *os.Root, name string) error,
	instead func(in *os.Root, from, to string) error) error {
	err := r.in(from, func(in *os.Root, old string) error {
		return r.in(to, func(at *os.Root, name string) error { return do(in, old, at, name) })
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	for _, name := range []string{from, to} {
		if err := r.Unmoved(path.Dir(name)); err != nil {
			return err
		}
	}
	return instead(r.top, path.Join(r.base, from), path.Join(r.base, to))
}

func (r *LocalRoot) SetAttrs(name string, kind fs.FileMode, own bool,
	set usftp.NewAttrs) (unset Unset, err error) {
	try := func(set usftp.NewAttrs) error {
		if r.dirs.links.of(path.Join(r.base, name)) != nil {
			dir, release, err := r.Open(name)
			if err != nil {
				return err
			}
			defer release()
			return setAttrs(dir, name, ".", kind, set)
		}
		return r.in(name, func(in *os.Root, base string) error {
			return setAttrs(in, name, base, kind, set)
		})
	}
	if kind == fs.ModeSymlink {
		return unset, try(set)
	}
	r.Quirks.Settable(&set, kind == fs.ModeDir)
	if err = try(set); Refused(err) {
		unset, err = SetEach(r.Quirks, set, kind, own, try)
		unset.Here = unset.Times || unset.Modes
	}
	return unset, err
}

// setAttrs sets attributes of base in an open directory.
func setAttrs(in *os.Root, name, base string, kind fs.FileMode, set usftp.NewAttrs) error {
	info, err := in.Lstat(base)
	switch {
	case err != nil:
		return err
	case kind == fs.ModeDir && info.Mode()&fs.ModeSymlink != 0:
		return ErrLinkInWay
	case modeOf(info).Type() != kind:
		return &fs.PathError{Op: "chmod", Path: name, Err: ErrReplaced}
	case kind == 0 && localfs.Links(info) > 1:
		return ErrOtherNames
	}
	if set.SetOwner {
		err = in.Lchown(base, set.UID, set.GID)
	}
	switch {
	case err != nil || !set.SetMode:
	case kind == fs.ModeSymlink: // it has none of its own, and Chmod follows it
	case kind == fs.ModeDir:
		err = chmodDir(in, base, set.Mode)
	default:
		err = in.Chmod(base, set.Mode)
	}
	if err == nil && set.SetTimes {
		err = localfs.Lchtimes(in, base, set.Atime, set.Mtime)
		if kind != fs.ModeSymlink && errors.Is(err, errors.ErrUnsupported) {
			err = in.Chtimes(base, set.Atime, set.Mtime)
		}
	}
	return denied(err)
}

// chmodDir sets the mode of a directory, and follows no link that has taken its place. A directory
// that cannot be opened gets its mode by its name; os.Root then keeps the change inside.
func chmodDir(in *os.Root, name string, mode fs.FileMode) error {
	dir, err := openUnfollowed(in, name)
	if err == nil {
		defer dir.Close()
		err = dir.Chmod(".", mode)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = in.Chmod(name, mode)
	}
	if errors.Is(err, fs.ErrPermission) && mode&fs.ModeSetgid != 0 {
		// Linux drops the bit if we are not in the group, other systems refuse the mode.
		err = in.Chmod(name, mode&^fs.ModeSetgid)
	}
	return err
}

func (r *LocalRoot) Leave(dir string) error {
	if r.top == nil {
		return nil
	}
	err := r.dirs.leave(path.Join(r.base, dir))
	if dir == "." && err == nil {
		err = r.dirs.leave(".")
	}
	return err
}

func (r *LocalRoot) Close() {
	r.dirs.close()
	if r.top != nil {
		r.top.Close()
	}
}
