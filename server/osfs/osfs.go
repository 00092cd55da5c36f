// Package osfs serves a directory of the operating system.
//
// # What clients see of links
//
// A tree made by [New] is closed: no path, link or race leads out of it, which os.Root sees to.
// Relative links work as long as they stay inside. Absolute links, and relative ones that lead out,
// can be listed, read, made, renamed and removed, but not followed: what goes through them fails
// with PERMISSION_DENIED, also where an absolute link names a place inside the directory, as its
// target is not what the server's own programs would find there. A tree made by [Host] is the whole
// file system, as the process sees it.
package osfs

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/usftp/usftp/wire"
)

// tree is what *os.Root and the whole file system have in common. Names are relative to its top,
// which is ".".
type tree interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
	Lchown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error
	Mkdir(name string, perm fs.FileMode) error
	Remove(name string) error
	Rename(oldName, newName string) error
	Link(oldName, newName string) error
	Symlink(target, name string) error
	Readlink(name string) (string, error)
	Close() error
}

// FS serves a directory. It implements every interface of package server that the operating system
// can honour, and is safe for concurrent use.
type FS struct {
	tree  tree
	names names
}

// New serves the directory dir, and nothing outside of it. The FS must be closed.
func New(dir string) (*FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &FS{tree: root}, nil
}

// Host serves the whole file system with the rights of the process. It is for servers that run as
// the user they serve.
func Host() *FS { return &FS{tree: host{}} }

// Close gives up the directory. Files that are open stay so.
func (f *FS) Close() error { return f.tree.Close() }

// local turns a client's clean absolute path into a name below the top.
func local(name string) string {
	name = strings.TrimPrefix(name, "/")
	if name == "" {
		return "."
	}
	return filepath.FromSlash(name)
}

// Stat implements server.FS.
func (f *FS) Stat(_ context.Context, name string) (fs.FileInfo, error) {
	return f.tree.Stat(local(name))
}

// Lstat implements server.Lstater.
func (f *FS) Lstat(_ context.Context, name string) (fs.FileInfo, error) {
	return f.tree.Lstat(local(name))
}

// listBatch is how many entries are read at once.
const listBatch = 128

// List implements server.Lister.
func (f *FS) List(_ context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		dir, err := f.tree.OpenFile(local(name), os.O_RDONLY|openDirectory, 0)
		if err != nil {
			yield(nil, err)
			return
		}
		defer dir.Close()
		for {
			// Readdir describes each entry by way of the open directory, where os.ReadDir would go
			// by its path again, and leaves out those that vanish meanwhile.
			list, err := dir.Readdir(listBatch)
			for _, info := range list {
				if !yield(info, nil) {
					return
				}
			}
			if len(list) == 0 {
				if err != nil && !isEOF(err) {
					yield(nil, err)
				}
				return
			}
		}
	}
}

// Mkdir implements server.Mkdirer.
func (f *FS) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	if err := f.tree.Mkdir(local(name), mode(attrs)&fs.ModePerm); err != nil {
		return err
	}
	attrs.Flags &^= wire.AttrPermissions | wire.AttrSize
	return f.Setstat(ctx, name, attrs)
}

func mode(attrs wire.Attrs) fs.FileMode {
	return wire.FileMode(attrs.Permissions & 0o7777)
}

// Symlink implements server.Symlinker.
func (f *FS) Symlink(_ context.Context, target, name string) error {
	return f.tree.Symlink(filepath.FromSlash(target), local(name))
}

// Readlink implements server.Readlinker.
func (f *FS) Readlink(_ context.Context, name string) (string, error) {
	target, err := f.tree.Readlink(local(name))
	return filepath.ToSlash(target), err
}

// Link implements server.Linker.
func (f *FS) Link(_ context.Context, oldName, newName string) error {
	return f.tree.Link(local(oldName), local(newName))
}

// PosixRename implements server.PosixRenamer.
func (f *FS) PosixRename(_ context.Context, oldName, newName string) error {
	return f.tree.Rename(local(oldName), local(newName))
}

// maxLinks is how many links RealPath follows, as Linux does.
const maxLinks = 40

// RealPath implements server.RealPather. What does not exist, or may not be followed, stays as it
// is written.
func (f *FS) RealPath(_ context.Context, name string) (string, error) {
	resolved, rest := "/", strings.TrimPrefix(name, "/")
	for links := 0; rest != ""; {
		var element string
		element, rest, _ = strings.Cut(rest, "/")
		next := path.Join(resolved, element)
		if element == "" || element == "." || element == ".." {
			resolved = next
			continue
		}
		info, err := f.tree.Lstat(local(next))
		if err != nil {
			return path.Join(next, rest), nil
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			resolved = next
			continue
		}
		target, err := f.tree.Readlink(local(next))
		target = filepath.ToSlash(target)
		if links++; err != nil || links > maxLinks || path.IsAbs(target) && !f.absoluteLinks() {
			return path.Join(next, rest), nil
		}
		if path.IsAbs(target) {
			resolved = "/"
		}
		rest = strings.TrimPrefix(target, "/") + "/" + rest
	}
	return resolved, nil
}

// absoluteLinks tells whether absolute links mean to clients what they mean to the system.
func (f *FS) absoluteLinks() bool {
	_, ok := f.tree.(host)
	return ok
}

// Setstat implements server.Setstater. As in OpenSSH's server the first thing that fails does not
// keep the others from being done.
func (f *FS) Setstat(_ context.Context, name string, attrs wire.Attrs) error {
	name = local(name)
	var errs []error
	if attrs.Has(wire.AttrSize) {
		errs = append(errs, f.truncate(name, attrs.Size))
	}
	if attrs.Has(wire.AttrPermissions) {
		errs = append(errs, f.tree.Chmod(name, mode(attrs)))
	}
	if attrs.Has(wire.AttrACModTime) {
		errs = append(errs, f.tree.Chtimes(name, seconds(attrs.ATime), seconds(attrs.MTime)))
	}
	if attrs.Has(wire.AttrUIDGID) {
		errs = append(errs, f.tree.Chown(name, int(int32(attrs.UID)), int(int32(attrs.GID))))
	}
	return first(errs)
}

func seconds(t uint32) time.Time { return time.Unix(int64(t), 0) }

// first returns the first error. errors.Join would say more than one line to a client.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *FS) truncate(name string, size uint64) error {
	if int64(size) < 0 {
		return fs.ErrInvalid
	}
	file, err := f.tree.OpenFile(name, os.O_WRONLY|openNonblock, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Truncate(int64(size))
}

// Lsetstat implements server.Lsetstater. A link has neither size nor, on Linux, a mode.
func (f *FS) Lsetstat(_ context.Context, name string, attrs wire.Attrs) error {
	name = local(name)
	if attrs.Has(wire.AttrSize) {
		return errors.ErrUnsupported
	}
	var errs []error
	if attrs.Has(wire.AttrPermissions) {
		errs = append(errs, f.lchmod(name, attrs))
	}
	if attrs.Has(wire.AttrACModTime) {
		errs = append(errs, f.lchtimes(name, seconds(attrs.ATime), seconds(attrs.MTime)))
	}
	if attrs.Has(wire.AttrUIDGID) {
		errs = append(errs, f.tree.Lchown(name, int(int32(attrs.UID)), int(int32(attrs.GID))))
	}
	return first(errs)
}

func (f *FS) lchmod(name string, attrs wire.Attrs) error {
	info, err := f.tree.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return errors.ErrUnsupported
	}
	return f.tree.Chmod(name, mode(attrs))
}

// host is the whole file system.
type host struct{}

// full makes a name below the top absolute. On Windows it begins with the drive's letter.
func full(name string) string {
	if name == "." {
		return string(filepath.Separator)
	}
	if runtime.GOOS == "windows" && len(name) >= 2 && name[1] == ':' {
		return filepath.Clean(name + string(filepath.Separator))
	}
	return string(filepath.Separator) + name
}

func (host) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(full(name), flag, perm)
}
func (host) Stat(name string) (fs.FileInfo, error)     { return os.Stat(full(name)) }
func (host) Lstat(name string) (fs.FileInfo, error)    { return os.Lstat(full(name)) }
func (host) Chmod(name string, mode fs.FileMode) error { return os.Chmod(full(name), mode) }
func (host) Chown(name string, uid, gid int) error     { return os.Chown(full(name), uid, gid) }
func (host) Lchown(name string, uid, gid int) error    { return os.Lchown(full(name), uid, gid) }
func (host) Chtimes(name string, atime, mtime time.Time) error {
	return os.Chtimes(full(name), atime, mtime)
}
func (host) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(full(name), perm) }
func (host) Remove(name string) error                  { return os.Remove(full(name)) }
func (host) Rename(oldName, newName string) error {
	return os.Rename(full(oldName), full(newName))
}
func (host) Link(oldName, newName string) error {
	return os.Link(full(oldName), full(newName))
}
func (host) Symlink(target, name string) error    { return os.Symlink(target, full(name)) }
func (host) Readlink(name string) (string, error) { return os.Readlink(full(name)) }
func (host) Close() error                         { return nil }
