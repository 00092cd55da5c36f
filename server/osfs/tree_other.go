//go:build !linux && !darwin && !freebsd

package osfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// tree is a directory held as an os.Root, or the whole file system. The server cleans paths for it,
// which on these systems does not change their meaning.
type tree struct {
	system
}

// system is common to *os.Root and the whole file system. Names are relative to its top, ".".
type system interface {
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

func openTree(dir string) (tree, error) {
	root, err := os.OpenRoot(dir)
	return tree{root}, err
}

func hostTree() tree { return tree{host{}} }

func (t tree) isHost() bool {
	_, ok := t.system.(host)
	return ok
}

func (t tree) close() error { return t.Close() }

func (*tree) hideUploads() error { return errors.ErrUnsupported }

func (tree) atomic() bool { return false }

func (tree) statUpload(context.Context, string) (fs.FileInfo, error) {
	return nil, errors.ErrUnsupported
}

func (f *FS) openUpload(context.Context, string, uint32, wire.Attrs) (server.File, error) {
	return nil, errors.ErrUnsupported
}

// Sweep does nothing, since there are no unfinished uploads.
func (f *FS) Sweep(context.Context, time.Duration, ...*server.Quota) error { return nil }

const openList = 0

var (
	errIsDirectory  = syscall.EISDIR
	errNotDirectory = syscall.ENOTDIR // which is answered as NO_SUCH_FILE, as sftp-server does
)

// local converts a client's clean absolute path to a name below the top. A name that Windows would
// take for another one ("f.", `d\f`) or a device gets a NUL, which every call refuses: an upload of
// "f." must not replace "f", and requests about one file are ordered by its name.
func (t tree) local(name string) string {
	name = strings.TrimPrefix(name, "/")
	if name == "" {
		return "."
	}
	rest := name
	if t.isHost() && runtime.GOOS == "windows" && isDrive(name) {
		rest = strings.TrimPrefix(name[2:], "/")
	}
	for element := range strings.SplitSeq(rest, "/") {
		if rest != "" && localfs.CheckName(element) != nil {
			return "\x00"
		}
	}
	return filepath.FromSlash(name)
}

// isDrive reports whether a path begins with a drive letter.
func isDrive(name string) bool {
	if len(name) < 2 || name[1] != ':' || len(name) > 2 && name[2] != '/' {
		return false
	}
	letter := name[0] | 0x20
	return letter >= 'a' && letter <= 'z'
}

func (t tree) open(_ context.Context, name string, flag int, perm uint32) (*os.File, error) {
	return t.OpenFile(t.local(name), flag, fs.FileMode(perm))
}

func (t tree) stat(_ context.Context, name string, follow bool) (fs.FileInfo, error) {
	stat := t.Lstat
	if follow {
		stat = t.Stat
	}
	info, err := stat(t.local(name))
	if err != nil {
		return nil, err
	}
	if info = markJunction(info); runtime.GOOS != "windows" || !info.Mode().IsRegular() {
		return info, nil
	}
	file, err := t.OpenFile(t.local(name), os.O_RDONLY, 0)
	if err != nil {
		return info, nil // it exists anyway
	}
	defer file.Close()
	if opened, err := file.Stat(); err == nil && opened.Mode().IsRegular() {
		info = identify(info, file)
	}
	return info, nil
}

func statOpen(file *os.File) (fs.FileInfo, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return identify(info, file), nil
}

func readDir(dir *os.File, n int) ([]fs.FileInfo, error) {
	list, err := dir.Readdir(n)
	for i, info := range list {
		list[i] = markListed(info)
	}
	return list, err
}

func (tree) dots(context.Context, string) []fs.FileInfo { return nil }

func (t tree) truncate(ctx context.Context, name string, size int64) error {
	file, err := t.open(ctx, name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Truncate(size)
}

// leaf refuses links that must not be followed, since changing attributes here follows them.
func (t tree) leaf(name string, follow bool) error {
	if follow {
		return nil
	}
	info, err := t.Lstat(t.local(name))
	if err == nil && markJunction(info).Mode()&fs.ModeSymlink != 0 {
		err = errors.ErrUnsupported
	}
	return err
}

func (t tree) chmod(_ context.Context, name string, follow bool, mode uint32) error {
	if err := t.leaf(name, follow); err != nil {
		return err
	}
	return t.Chmod(t.local(name), wire.FileMode(mode))
}

func (t tree) chown(_ context.Context, name string, follow bool, uid, gid uint32) error {
	if follow {
		return t.Chown(t.local(name), int(int32(uid)), int(int32(gid)))
	}
	return t.Lchown(t.local(name), int(int32(uid)), int(int32(gid)))
}

func (t tree) chtimes(_ context.Context, name string, follow bool, atime, mtime time.Time) error {
	if err := t.leaf(name, follow); err != nil {
		return err
	}
	return t.Chtimes(t.local(name), atime, mtime)
}

func (t tree) chtimesOpen(_ *os.File, name string, atime, mtime time.Time) error {
	return t.Chtimes(t.local(name), atime, mtime)
}

func (t tree) mkdir(_ context.Context, name string, perm uint32) error {
	return t.Mkdir(t.local(name), fs.FileMode(perm))
}

func (t tree) unlink(_ context.Context, name string) error {
	info, err := t.Lstat(t.local(name))
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &fs.PathError{Op: "unlink", Path: name, Err: errIsDirectory}
	}
	return t.Remove(t.local(name))
}

func (t tree) rmdir(_ context.Context, name string) error {
	info, err := t.Lstat(t.local(name))
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "rmdir", Path: name, Err: errNotDirectory}
	}
	return t.Remove(t.local(name))
}

func (t tree) symlink(_ context.Context, target, name string) error {
	return t.Symlink(target, t.local(name))
}

func (t tree) readlink(_ context.Context, name string) (string, error) {
	return t.Readlink(t.local(name))
}

func (t tree) link(_ context.Context, oldName, newName string) error {
	return t.Link(t.local(oldName), t.local(newName))
}

func (t tree) rename(_ context.Context, oldName, newName string) error {
	from, to := t.local(oldName), t.local(newName)
	if below := from + string(filepath.Separator); len(to) > len(below) &&
		strings.EqualFold(to[:len(below)], below) {
		// Wine removes the file at the new name before it finds that this is impossible.
		return &fs.PathError{Op: "rename", Path: oldName, Err: syscall.EINVAL}
	}
	old, oldErr := t.Lstat(from)
	replaced, newErr := t.Lstat(to)
	if oldErr == nil && newErr == nil && os.SameFile(old, replaced) &&
		!strings.EqualFold(from, to) {
		return nil // as rename(2) says of two names of one file; Windows would remove one
	}
	return localfs.Replace(t, from, to)
}

// renameNew renames as OpenSSH does: it links the new name, which fails if that exists, and then
// removes the old one.
func (t tree) renameNew(_ context.Context, oldName, newName string) error {
	from, to := t.local(oldName), t.local(newName)
	info, err := t.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		if err := t.Link(from, to); err == nil {
			return t.Remove(from)
		} else if errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if _, err := t.Lstat(to); err == nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	return t.Rename(from, to)
}

// maxLinks limits the links that realPath follows.
const maxLinks = 40

// realPath resolves links. Links that may not be followed are left as written.
func (t tree) realPath(ctx context.Context, name string) (string, error) {
	resolved, rest := "/", strings.TrimPrefix(name, "/")
	for links := 0; rest != ""; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		var element string
		element, rest, _ = strings.Cut(rest, "/")
		next := path.Join(resolved, element)
		if element == "" || element == "." || element == ".." {
			resolved = next
			continue
		}
		info, err := t.Lstat(t.local(next))
		if errors.Is(err, fs.ErrNotExist) && rest != "" {
			return "", err
		}
		if err != nil {
			return path.Join(next, rest), nil
		}
		if markJunction(info).Mode()&fs.ModeSymlink == 0 {
			resolved = next
			continue
		}
		target, err := t.Readlink(t.local(next))
		if target = filepath.ToSlash(target); runtime.GOOS == "windows" && isDrive(target) {
			target = "/" + target // as clients write it
		}
		if links++; err != nil || links > maxLinks || path.IsAbs(target) && !t.isHost() {
			return path.Join(next, rest), nil
		}
		if path.IsAbs(target) {
			resolved = "/"
		}
		rest = strings.TrimPrefix(target, "/") + "/" + rest
	}
	return resolved, nil
}

func (t tree) statVFS(ctx context.Context, name string) (wire.StatVFSReply, error) {
	file, err := t.open(ctx, name, os.O_RDONLY, 0)
	if err != nil {
		return wire.StatVFSReply{}, err
	}
	defer file.Close()
	return statVFSOpen(file)
}

// host is the whole file system.
type host struct{}

// full makes a name below the top absolute. On Windows it begins with a drive letter.
func full(name string) string {
	if name == "." {
		return string(filepath.Separator)
	}
	if runtime.GOOS == "windows" && isDrive(filepath.ToSlash(name)) {
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
