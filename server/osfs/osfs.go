// Package osfs serves a directory of the operating system.
//
// # Paths and links
//
// A tree made by [New] is closed: no path, link or race leads out of it. On Linux, macOS and
// FreeBSD a path is resolved as the kernel would, element by element, so that "link/.." is the
// parent of the link's target and "file/" is not a file; see server.PathWalker. The served
// directory is its own parent. Relative links work as long as they stay inside. Absolute links, and
// relative ones that lead out, can be listed, read, made, renamed and removed, but not followed:
// going through them fails with PERMISSION_DENIED. That includes absolute links to places inside
// the directory, since other programs on the server would find something else there. A tree made by
// [Host] is the whole file system as the process sees it.
package osfs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/usftp/usftp/wire"
)

// FS serves a directory. It implements every interface of package server that the operating system
// supports, and is safe for concurrent use.
type FS struct {
	tree  tree
	names names
}

// New serves the directory dir, and nothing outside it. The FS must be closed.
func New(dir string) (*FS, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	return &FS{tree: t}, nil
}

// NewAtomic serves a directory in which files appear when they are closed; see the package
// documentation. It fails with errors.ErrUnsupported on systems other than Linux, macOS and
// FreeBSD.
func NewAtomic(dir string) (*FS, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	if err := t.hideUploads(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return &FS{tree: t}, nil
}

// UploadsAtomically implements server.AtomicUploader.
func (f *FS) UploadsAtomically() bool { return f.tree.atomic() }

// Upload implements server.AtomicUploader.
func (f *FS) Upload(ctx context.Context, name string) (fs.FileInfo, error) {
	return f.tree.statUpload(ctx, name)
}

// Host serves the whole file system with the rights of the process. It is for servers that run as
// the user they serve.
func Host() *FS { return &FS{tree: hostTree()} }

// Close releases the directory. Open files stay open.
func (f *FS) Close() error { return f.tree.close() }

// Stat implements server.FS.
func (f *FS) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return f.tree.stat(ctx, name, true)
}

// Lstat implements server.Lstater.
func (f *FS) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return f.tree.stat(ctx, name, false)
}

// listBatch is the number of entries read at once.
const listBatch = 128

// List implements server.Lister.
func (f *FS) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	if !f.tree.atomic() {
		return f.listAll(ctx, name)
	}
	return f.listSome(ctx, name, false)
}

// ListHidden implements server.HiddenLister: it lists unfinished uploads.
func (f *FS) ListHidden(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	if !f.tree.atomic() {
		return func(func(fs.FileInfo, error) bool) {}
	}
	return f.listSome(ctx, name, true)
}

// listSome lists the hidden entries, or the others.
func (f *FS) listSome(ctx context.Context, name string,
	hidden bool) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		for info, err := range f.listAll(ctx, name) {
			if (err != nil || isHidden(info.Name()) == hidden) && !yield(info, err) {
				return
			}
		}
	}
}

func (f *FS) listAll(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		dir, err := f.tree.open(ctx, name, os.O_RDONLY|openList, 0)
		if err != nil {
			yield(nil, err)
			return
		}
		defer dir.Close()
		for _, dots := range f.tree.dots(ctx, name) {
			if !yield(dots, nil) {
				return
			}
		}
		for {
			list, err := readDir(dir, listBatch)
			for _, info := range list {
				if !yield(info, nil) {
					return
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(nil, err)
				}
				return
			}
		}
	}
}

// Mkdir implements server.Mkdirer.
func (f *FS) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	if err := f.tree.mkdir(ctx, name, attrs.Permissions&0o777); err != nil {
		return err
	}
	attrs.Flags &^= wire.AttrPermissions | wire.AttrSize
	err := f.Setstat(ctx, name, attrs)
	if err != nil { // the client is told that there is no directory, and quotas do not count it
		f.tree.rmdir(context.WithoutCancel(ctx), name)
	}
	return err
}

// Remove implements server.Remover.
func (f *FS) Remove(ctx context.Context, name string) error { return f.tree.unlink(ctx, name) }

// Rmdir implements server.Rmdirer.
func (f *FS) Rmdir(ctx context.Context, name string) error { return f.tree.rmdir(ctx, name) }

// Rename implements server.Renamer.
func (f *FS) Rename(ctx context.Context, oldName, newName string) error {
	return f.tree.renameNew(ctx, oldName, newName)
}

// PosixRename implements server.PosixRenamer.
func (f *FS) PosixRename(ctx context.Context, oldName, newName string) error {
	return f.tree.rename(ctx, oldName, newName)
}

// Link implements server.Linker.
func (f *FS) Link(ctx context.Context, oldName, newName string) error {
	return f.tree.link(ctx, oldName, newName)
}

// Symlink implements server.Symlinker.
func (f *FS) Symlink(ctx context.Context, target, name string) error {
	return f.tree.symlink(ctx, filepath.FromSlash(target), name)
}

// Readlink implements server.Readlinker.
func (f *FS) Readlink(ctx context.Context, name string) (string, error) {
	target, err := f.tree.readlink(ctx, name)
	return filepath.ToSlash(target), err
}

// RealPath implements server.RealPather. As with OpenSSH's server the last element need not exist.
// If the last element is a link that may not be followed, it stays as it is.
func (f *FS) RealPath(ctx context.Context, name string) (string, error) {
	return f.tree.realPath(ctx, name)
}

// StatVFS implements server.StatVFSer.
func (f *FS) StatVFS(ctx context.Context, name string) (wire.StatVFSReply, error) {
	return f.tree.statVFS(ctx, name)
}

// Setstat implements server.Setstater. As with OpenSSH's server, attributes are set even if an
// earlier one fails.
func (f *FS) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	size := setSize(attrs, func(size int64) error { return f.tree.truncate(ctx, name, size) })
	return cmp.Or(size, f.setOthers(ctx, name, true, attrs))
}

// setSize calls truncate if the size is to be set.
func setSize(attrs wire.Attrs, truncate func(size int64) error) error {
	switch {
	case !attrs.Has(wire.AttrSize):
		return nil
	case int64(attrs.Size) < 0:
		return fs.ErrInvalid
	}
	return truncate(int64(attrs.Size))
}

// Lsetstat implements server.Lsetstater. Setting the size is an error, and so is, on Linux, setting
// the mode of a link.
func (f *FS) Lsetstat(ctx context.Context, name string, attrs wire.Attrs) error {
	if attrs.Has(wire.AttrSize) {
		return fs.ErrInvalid
	}
	return f.setOthers(ctx, name, false, attrs)
}

// setOthers sets all attributes but the size. It returns the first error: errors.Join would send
// more than one line to the client.
func (f *FS) setOthers(ctx context.Context, name string, follow bool, attrs wire.Attrs) error {
	var mode, times, owner error
	if attrs.Has(wire.AttrPermissions) {
		mode = f.tree.chmod(ctx, name, follow, attrs.Permissions&0o7777)
	}
	if attrs.Has(wire.AttrACModTime) {
		times = f.tree.chtimes(ctx, name, follow, seconds(attrs.ATime), seconds(attrs.MTime))
	}
	if attrs.Has(wire.AttrUIDGID) {
		owner = f.tree.chown(ctx, name, follow, attrs.UID, attrs.GID)
	}
	return cmp.Or(mode, times, owner)
}

func seconds(t uint32) time.Time { return time.Unix(int64(t), 0) }
