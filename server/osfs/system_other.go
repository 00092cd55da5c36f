//go:build !linux

package osfs

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/usftp/usftp/wire"
)

// Remove implements server.Remover.
func (f *FS) Remove(_ context.Context, name string) error {
	info, err := f.tree.Lstat(local(name))
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &fs.PathError{Op: "unlink", Path: name, Err: errIsDirectory}
	}
	return f.tree.Remove(local(name))
}

var (
	errIsDirectory  = errors.New("is a directory")
	errNotDirectory = errors.New("not a directory")
)

// Rmdir implements server.Rmdirer.
func (f *FS) Rmdir(_ context.Context, name string) error {
	info, err := f.tree.Lstat(local(name))
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "rmdir", Path: name, Err: errNotDirectory}
	}
	return f.tree.Remove(local(name))
}

// Rename implements server.Renamer, OpenSSH's way: a link to the new name, which fails if there is
// one, and then the old name is removed.
func (f *FS) Rename(ctx context.Context, oldName, newName string) error {
	from, to := local(oldName), local(newName)
	info, err := f.tree.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		if err := f.tree.Link(from, to); err == nil {
			return f.tree.Remove(from)
		} else if errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if _, err := f.tree.Lstat(to); err == nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	return f.tree.Rename(from, to)
}

// lchtimes cannot be had without following links, except on what is none.
func (f *FS) lchtimes(name string, atime, mtime time.Time) error {
	info, err := f.tree.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return errors.ErrUnsupported
	}
	return f.tree.Chtimes(name, atime, mtime)
}

func (f *file) chtimes(atime, mtime time.Time) error {
	return f.fs.tree.Chtimes(f.name, atime, mtime)
}

// StatVFS implements server.StatVFSer.
func (f *FS) StatVFS(context.Context, string) (wire.StatVFSReply, error) {
	return wire.StatVFSReply{}, errors.ErrUnsupported
}
