package memfs

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/usftp/usftp/wire"
)

// Stat implements server.FS.
func (f *FS) Stat(_ context.Context, name string) (fs.FileInfo, error) { return f.stat(name, true) }

// Lstat implements server.Lstater.
func (f *FS) Lstat(_ context.Context, name string) (fs.FileInfo, error) {
	return f.stat(name, false)
}

func (f *FS) stat(name string, follow bool) (fs.FileInfo, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, base, err := f.existing(name, follow)
	if err != nil {
		return nil, err
	}
	return n.describe(base), nil
}

// List implements server.Lister: it yields the entries that existed when it began, sorted by name.
func (f *FS) List(_ context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		list, err := f.list(name)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, i := range list {
			if !yield(i, nil) {
				return
			}
		}
	}
}

func (f *FS) list(name string) (list []*info, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, _, err := f.existing(name, true)
	if err != nil {
		return nil, err
	}
	if !n.mode.IsDir() {
		return nil, syscall.ENOTDIR
	}
	for _, base := range slices.Sorted(maps.Keys(n.children)) {
		list = append(list, n.children[base].describe(base))
	}
	return list, nil
}

// Setstat implements server.Setstater.
func (f *FS) Setstat(_ context.Context, name string, attrs wire.Attrs) error {
	return f.setstat(name, true, attrs)
}

// Lsetstat implements server.Lsetstater.
func (f *FS) Lsetstat(_ context.Context, name string, attrs wire.Attrs) error {
	return f.setstat(name, false, attrs)
}

func (f *FS) setstat(name string, follow bool, attrs wire.Attrs) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, _, err := f.existing(name, follow)
	if err != nil {
		return err
	}
	return n.set(attrs)
}

// set changes attributes; the caller holds the lock.
func (n *node) set(attrs wire.Attrs) error {
	if attrs.Has(wire.AttrSize) {
		switch {
		case n.mode.IsDir():
			return errIsDirectory
		case n.content == nil:
			return errors.ErrUnsupported
		case attrs.Size > math.MaxInt64:
			return fs.ErrInvalid
		}
		n.content.truncate(int64(attrs.Size))
	}
	if attrs.Has(wire.AttrPermissions) {
		n.mode = n.mode.Type() | wire.FileMode(attrs.Permissions&0o7777)
	}
	if attrs.Has(wire.AttrUIDGID) {
		n.uid, n.gid = attrs.UID, attrs.GID
	}
	if attrs.Has(wire.AttrACModTime) {
		n.atime, n.mtime = time.Unix(int64(attrs.ATime), 0), time.Unix(int64(attrs.MTime), 0)
		if n.content != nil {
			n.content.clearTouched()
		}
	}
	return nil
}

// Mkdir implements server.Mkdirer.
func (f *FS) Mkdir(_ context.Context, name string, attrs wire.Attrs) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.absent(name, true)
	if err != nil {
		return err
	}
	n := f.newNode(fs.ModeDir)
	attrs.Flags &^= wire.AttrSize
	if err := n.set(attrs); err != nil {
		return err
	}
	f.put(dir, base, n)
	return nil
}

// Symlink implements server.Symlinker.
func (f *FS) Symlink(_ context.Context, target, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if target == "" {
		return fs.ErrNotExist
	}
	dir, base, err := f.absent(name, false)
	if err != nil {
		return err
	}
	n := f.newNode(fs.ModeSymlink | 0o777)
	n.target = target
	f.put(dir, base, n)
	return nil
}

// Readlink implements server.Readlinker.
func (f *FS) Readlink(_ context.Context, name string) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, _, err := f.existing(name, false)
	if err != nil {
		return "", err
	}
	if n.target == "" {
		return "", fs.ErrInvalid
	}
	return n.target, nil
}

// Link implements server.Linker.
func (f *FS) Link(_ context.Context, oldName, newName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, _, err := f.existing(oldName, false)
	if err != nil {
		return err
	}
	if n.mode.IsDir() {
		return fs.ErrPermission
	}
	dir, base, err := f.absent(newName, false)
	if err != nil {
		return err
	}
	n.links++
	f.put(dir, base, n)
	return nil
}

// Remove implements server.Remover.
func (f *FS) Remove(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.removable(name)
	if err != nil {
		return err
	}
	if p.node.mode.IsDir() {
		return errIsDirectory
	}
	f.take(p.dir, p.base)
	return nil
}

// Rmdir implements server.Rmdirer.
func (f *FS) Rmdir(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.removable(name)
	switch {
	case err != nil:
		return err
	case !p.node.mode.IsDir():
		return syscall.ENOTDIR
	case len(p.node.children) > 0:
		return errNotEmpty
	}
	f.take(p.dir, p.base)
	return nil
}

// Rename implements server.Renamer.
func (f *FS) Rename(_ context.Context, oldName, newName string) error {
	return f.rename(oldName, newName, false)
}

// PosixRename implements server.PosixRenamer.
func (f *FS) PosixRename(_ context.Context, oldName, newName string) error {
	return f.rename(oldName, newName, true)
}

func (f *FS) rename(oldName, newName string, replace bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, err := f.removable(oldName)
	if err != nil {
		return err
	}
	target, err := f.parent(newName)
	n, there := old.node, target.node
	switch {
	case err != nil:
		return err
	case target.dir == nil:
		return fs.ErrPermission
	case there != nil && !replace:
		return fs.ErrExist
	case target.slash && !n.mode.IsDir():
		return syscall.ENOTDIR
	case n.holds(target.dir):
		return fs.ErrInvalid
	case there == n:
		return nil // as in POSIX for two names of one file
	case there != nil && there.mode.IsDir() && !n.mode.IsDir():
		return errIsDirectory
	case there != nil && !there.mode.IsDir() && n.mode.IsDir():
		return syscall.ENOTDIR
	case there != nil && len(there.children) > 0:
		return errNotEmpty
	}
	if there != nil {
		f.take(target.dir, target.base)
	}
	f.put(target.dir, target.base, n)
	delete(old.dir.children, old.base)
	old.dir.mtime = time.Now()
	return nil
}

// holds reports whether d is n or lies below it.
func (n *node) holds(d *node) bool {
	if n == d {
		return true
	}
	for _, child := range n.children {
		if child.mode.IsDir() && child.holds(d) {
			return true
		}
	}
	return false
}

// RealPath implements server.RealPather: the last element need not exist.
func (f *FS) RealPath(_ context.Context, name string) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var names []string
	above := []*node{f.root} // the top, and the node of each name; nil if it does not exist
	links := 0
	for rest := name; rest != ""; {
		element, after, slash := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		rest = after
		dir := above[len(above)-1]
		switch {
		case element == "" || element == ".":
			continue
		case element == "..":
			if len(names) > 0 {
				names, above = names[:len(names)-1], above[:len(above)-1]
			}
			continue
		case !dir.mode.IsDir():
			return "", syscall.ENOTDIR
		}
		child := dir.children[element]
		switch {
		case child == nil && slash:
			return "", fs.ErrNotExist
		case child == nil || child.target == "":
			names, above = append(names, element), append(above, child)
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		if path.IsAbs(child.target) {
			names, above = nil, above[:1]
		}
		rest = child.target
		if slash {
			rest += "/" + after
		}
	}
	return "/" + strings.Join(names, "/"), nil
}

// statBlock is the block size that StatVFS reports.
const statBlock = 4096

// StatVFS implements server.StatVFSer.
func (f *FS) StatVFS(_ context.Context, name string) (wire.StatVFSReply, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if _, _, err := f.existing(name, true); err != nil {
		return wire.StatVFSReply{}, err
	}
	left, capacity := f.space.left.Load(), f.space.capacity
	return wire.StatVFSReply{
		BlockSize:       statBlock,
		FragmentSize:    statBlock,
		Blocks:          uint64(capacity / statBlock),
		BlocksFree:      uint64(left / statBlock),
		BlocksAvailable: uint64(left / statBlock),
		NameMax:         255,
	}, nil
}
