//go:build linux || darwin || freebsd

package osfs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// tree is a directory, or the whole file system if root is nil. Its methods take paths as clients
// send them. Below a directory they are walked; in the whole file system they are left to the
// kernel.
type tree struct {
	root    *root
	above   string   // prefix of paths, if no link is followed below root
	uploads *uploads // if files appear when they are complete
}

// openList is the flag for opening a directory to list it.
const openList = unix.O_DIRECTORY

// WalksPaths implements server.PathWalker.
func (f *FS) WalksPaths() {}

// TakesTurns is for package server only: resolving a long path waits for a turn (server.Work).
func (f *FS) TakesTurns() {}

func openTree(dir string) (tree, error) {
	root, err := openRoot(dir)
	return tree{root: root}, err
}

func hostTree() tree { return tree{} }

func (t *tree) hideUploads() error {
	t.uploads = &uploads{self: uint32(unix.Geteuid())}
	return nil
}

func (t tree) isHost() bool { return t.root == nil }

func (t tree) close() error {
	if t.root == nil {
		return nil
	}
	return t.root.close()
}

// do calls op with a walk of name; what names the operation in errors.
func (t tree) do(ctx context.Context, what, name string, op func(w *walk) error) error {
	below, ok := strings.CutPrefix(name, t.above)
	if !ok {
		return errEscapes
	}
	for renewed := false; ; renewed = true {
		root, atRoot := t.root.file.Load(), true
		err := control(root, func(fd int) error {
			w := newWalk(ctx, fd, below)
			w.unlinked = t.above != ""
			w.hides = t.uploads != nil
			defer w.close()
			err := op(w)
			atRoot = len(w.names) == 0
			return err
		})
		if err == nil || renewed || !atRoot || !t.root.renewed(root, err) {
			return named(what, name, err)
		}
	}
}

// named adds the operation and path to a system error.
func named(what, name string, err error) error {
	if errno, ok := err.(unix.Errno); ok {
		return &fs.PathError{Op: what, Path: name, Err: errno}
	}
	return err
}

// lookUp calls op for the file that name refers to: with a directory, a name there, and the flags
// for a link of that name. follow applies to a link in the last element. An op that a signal
// interrupts is repeated, here and in toParent.
func (t tree) lookUp(ctx context.Context, what, name string, follow bool,
	op func(dir int, base string, flags int) error) error {
	return t.beneath(ctx, name, func(t tree) error { return t.lookUpIn(ctx, what, name, follow, op) })
}

func (t tree) lookUpIn(ctx context.Context, what, name string, follow bool,
	op func(dir int, base string, flags int) error) error {
	if t.root == nil {
		flags := unix.AT_SYMLINK_NOFOLLOW
		if follow {
			flags = 0
		}
		err := retry(func() error { return op(unix.AT_FDCWD, name, flags) })
		return named(what, name, err)
	}
	return t.do(ctx, what, name, func(w *walk) error {
		return w.lookUp(follow, func(dir int, base string) error {
			try := func(base string) error {
				return retry(func() error { return op(dir, base, unix.AT_SYMLINK_NOFOLLOW) })
			}
			err := try(base)
			if err == unix.ENOENT && t.uploads != nil {
				// A client may resume an unfinished upload, and looks for it first.
				err = try(hiddenName(base))
				if err == unix.ENOENT { // it may have got its name in the meantime
					err = try(base)
				}
			}
			return err
		})
	})
}

// change looks up a name whose attributes are to change: it does not call op for a link that is to
// be followed.
func (t tree) change(ctx context.Context, what, name string, follow bool,
	op func(dir int, base string, flags int) error) error {
	return t.lookUp(ctx, what, name, follow, func(dir int, base string, flags int) error {
		if flags != 0 && follow && base != "." { // the link would be changed itself
			if st, err := statAt(dir, base); err != nil {
				return err
			} else if st.Mode&unix.S_IFMT == unix.S_IFLNK {
				return unix.ELOOP
			}
		}
		return op(dir, base, flags)
	})
}

// toParent calls op with the directory of the last element of name, and that element.
func (t tree) toParent(ctx context.Context, what, name string,
	op func(dir int, base string) error) error {
	return t.beneath(ctx, name, func(t tree) error {
		if t.root == nil {
			return named(what, name, retry(func() error { return op(unix.AT_FDCWD, name) }))
		}
		return t.do(ctx, what, name, func(w *walk) error { return w.toParent(op) })
	})
}

// open opens a file. On a pipe it does not wait for the other end.
func (t tree) open(ctx context.Context, name string, flag int, perm uint32) (file *os.File,
	err error) {
	err = t.beneath(ctx, name, func(t tree) error {
		file, err = t.openPath(ctx, name, flag, perm)
		return err
	})
	return file, err
}

// openPath opens a file like open, but ignores [server.Beneath].
func (t tree) openPath(ctx context.Context, name string, flag int, perm uint32) (*os.File, error) {
	flag |= unix.O_NONBLOCK
	if t.root == nil {
		fd, err := openAt(unix.AT_FDCWD, name, flag, perm)
		if err != nil {
			return nil, named("open", name, err)
		}
		return os.NewFile(uintptr(fd), name), nil
	}
	fd := -1
	err := t.do(ctx, "open", name, func(w *walk) error {
		w.create = flag&unix.O_CREAT != 0
		exclusive := unix.O_CREAT | unix.O_EXCL
		return w.lookUp(flag&exclusive != exclusive, func(dir int, base string) (err error) {
			fd, err = openAt(dir, base, flag|unix.O_NOFOLLOW, perm)
			if err == unix.ENOENT && t.uploads != nil {
				switch hidden := hiddenName(base); {
				case !existsAt(dir, hidden): // an upload may have got its name in the meantime
					fd, err = openAt(dir, base, flag|unix.O_NOFOLLOW, perm)
				case flag&(unix.O_ACCMODE|unix.O_CREAT) == unix.O_WRONLY: // to cut it
					fd, err = openAt(dir, hidden, flag|unix.O_NOFOLLOW, 0)
				default:
					err = t.uploads.unfinished(dir, base)
				}
			}
			if err == nil && base == "." && len(w.names) == 0 && t.root.isGone() {
				unix.Close(fd)
				err = unix.ENOENT
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (t tree) stat(ctx context.Context, name string, follow bool) (fs.FileInfo, error) {
	i := &info{name: path.Base(name)}
	err := t.lookUp(ctx, "stat", name, follow, func(dir int, base string, flags int) (err error) {
		if flags == 0 {
			return unix.Fstatat(dir, base, &i.st, 0)
		}
		i.st, err = statAt(dir, base)
		if err == nil && base == "." && i.st.Nlink == 0 && t.root.isGone() {
			err = unix.ENOENT
		}
		if err == nil && follow && i.st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}

// statOpen describes an open file.
func statOpen(file *os.File) (fs.FileInfo, error) {
	i := &info{name: path.Base(file.Name())}
	err := control(file, func(fd int) error { return unix.Fstat(fd, &i.st) })
	return i, named("fstat", file.Name(), err)
}

// control calls op with the descriptor of an open file.
func control(file *os.File, op func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	closed := raw.Control(func(fd uintptr) {
		failed = retry(func() error { return op(int(fd)) })
	})
	if closed != nil {
		return os.ErrClosed // it is another error, which package os translates elsewhere
	}
	return failed
}

// readDir describes the next entries of an open directory, relative to that directory. It leaves
// out entries that vanish meanwhile. Entries that cannot be looked up, as on a bad disk or another
// user's FUSE mount, are only named, unless the directory itself cannot be searched.
func readDir(dir *os.File, n int) (list []fs.FileInfo, err error) {
	names, err := dir.Readdirnames(n)
	failed := control(dir, func(fd int) error {
		for _, name := range names {
			st, err := statAt(fd, name)
			switch {
			case err == unix.ENOENT:
				continue
			case err != nil:
				if _, all := statAt(fd, "."); all != nil {
					return err
				}
			}
			list = append(list, &info{name: name, st: st})
		}
		return nil
	})
	return list, cmp.Or(failed, err)
}

// dots describes the directory name and its parent, unless it cannot be read.
func (t tree) dots(ctx context.Context, name string) (list []fs.FileInfo) {
	for _, dots := range []string{".", ".."} {
		if i, err := t.stat(ctx, name+"/"+dots, false); err == nil {
			i.(*info).name = dots
			list = append(list, i)
		}
	}
	return list
}

func (t tree) truncate(ctx context.Context, name string, size int64) error {
	if _, beneath := server.Beneath(ctx); t.root == nil && !beneath {
		return named("truncate", name, retry(func() error { return unix.Truncate(name, size) }))
	}
	file, err := t.open(ctx, name, unix.O_WRONLY, 0)
	if errors.Is(err, unix.ENXIO) {
		err = named("truncate", name, unix.EINVAL) // a pipe
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Truncate(size)
}

func (t tree) chmod(ctx context.Context, name string, follow bool, mode uint32) error {
	return t.change(ctx, "chmod", name, follow, func(dir int, base string, flags int) error {
		return chmodAt(dir, base, mode, flags)
	})
}

func (t tree) chown(ctx context.Context, name string, follow bool, uid, gid uint32) error {
	return t.change(ctx, "chown", name, follow, func(dir int, base string, flags int) error {
		return unix.Fchownat(dir, base, int(int32(uid)), int(int32(gid)), flags)
	})
}

func (t tree) chtimes(ctx context.Context, name string, follow bool, atime, mtime time.Time) error {
	times := []unix.Timespec{unix.NsecToTimespec(atime.UnixNano()),
		unix.NsecToTimespec(mtime.UnixNano())}
	return t.change(ctx, "chtimes", name, follow, func(dir int, base string, flags int) error {
		return unix.UtimesNanoAt(dir, base, times, flags)
	})
}

// chtimesOpen sets the times of an open file, even if it has been renamed.
func (tree) chtimesOpen(file *os.File, _ string, atime, mtime time.Time) error {
	return control(file, func(fd int) error { return futimes(fd, atime, mtime) })
}

func (t tree) mkdir(ctx context.Context, name string, perm uint32) error {
	return t.toParent(ctx, "mkdir", name, func(dir int, base string) error {
		if err := t.uploads.vacant(dir, base); err != nil {
			return err
		}
		return unix.Mkdirat(dir, base, perm)
	})
}

func (t tree) unlink(ctx context.Context, name string) error {
	return t.toParent(ctx, "unlink", name, func(dir int, base string) error {
		return t.uploads.unlinked(ctx, unix.Unlinkat(dir, base, 0), dir, base)
	})
}

func (t tree) rmdir(ctx context.Context, name string) error {
	return t.toParent(ctx, "rmdir", name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		if (err == unix.ENOTEMPTY || err == unix.EEXIST) && t.uploads.emptied(ctx, dir, base) {
			err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

func (t tree) symlink(ctx context.Context, target, name string) error {
	return t.toParent(ctx, "symlink", name, func(dir int, base string) error {
		if err := t.uploads.vacant(dir, base); err != nil {
			return err
		}
		return unix.Symlinkat(target, dir, base)
	})
}

func (t tree) readlink(ctx context.Context, name string) (target string, err error) {
	err = t.lookUp(ctx, "readlink", name, false, func(dir int, base string, _ int) (err error) {
		target, err = readlinkAt(dir, base)
		return err
	})
	return target, err
}

func (t tree) link(ctx context.Context, oldName, newName string) error {
	return t.beneath(ctx, "", func(t tree) error {
		return t.lookUp(ctx, "link", oldName, false, func(from int, old string, _ int) error {
			return t.toParent(ctx, "link", newName, func(to int, base string) error {
				if t.uploads != nil && isHidden(old) {
					return errUnfinished
				}
				if err := t.uploads.vacant(to, base); err != nil {
					return err
				}
				return unix.Linkat(from, old, to, base, 0)
			})
		})
	})
}

// rename renames like rename(2).
func (t tree) rename(ctx context.Context, oldName, newName string) error {
	return t.twoParents(ctx, oldName, newName, func(from int, old string, to int,
		base string) error {
		return unix.Renameat(from, old, to, base)
	})
}

// renameNew renames to a name that must not exist.
func (t tree) renameNew(ctx context.Context, oldName, newName string) error {
	return t.twoParents(ctx, oldName, newName, renameFresh)
}

// renameFresh renames to a name that must not exist. Where the file system cannot refuse to
// replace, it works like OpenSSH: it links the new name, which fails if that exists, and then
// removes the old one.
func renameFresh(from int, old string, to int, base string) error {
	err := renameNoReplace(from, old, to, base)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	var st unix.Stat_t
	if st, err = statAt(from, old); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		if err := unix.Linkat(from, old, to, base, 0); err != nil {
			return err
		}
		return unix.Unlinkat(from, old, 0)
	}
	if existsAt(to, base) {
		return unix.EEXIST
	}
	return unix.Renameat(from, old, to, base)
}

// twoParents works like toParent, for two names. Most renames stay in one directory, which is then
// looked up once.
func (t tree) twoParents(ctx context.Context, oldName, newName string,
	op func(from int, old string, to int, base string) error) error {
	rename := func(from int, old string, to int, base string) error {
		if t.root != nil && strings.HasSuffix(newName, "/") && !strings.HasSuffix(base, "/") {
			// Not every kernel is given the slash, see withSlash.
			if st, err := statAt(from, old); err != nil {
				return err
			} else if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				return unix.ENOTDIR
			}
		}
		if err := t.uploads.settle(from, old); err != nil {
			return err
		}
		return t.uploads.renamed(ctx, op(from, old, to, base), from, old, to, base)
	}
	base, ok := sibling(oldName, newName)
	shared := "" // a name in the directory of both
	if ok {
		shared = oldName
	}
	return t.beneath(ctx, shared, func(t tree) error {
		return t.toParent(ctx, "rename", oldName, func(from int, old string) error {
			if ok && t.root != nil && !isHidden(base) {
				return named("rename", newName, rename(from, old, from, base))
			}
			return t.toParent(ctx, "rename", newName, func(to int, base string) error {
				return rename(from, old, to, base)
			})
		})
	})
}

// sibling returns the last element of newName, and reports whether it is written as in the same
// directory as oldName.
func sibling(oldName, newName string) (base string, ok bool) {
	dir, old := path.Split(oldName)
	to, base := path.Split(newName)
	return base, dir == to && old != "" && base != ""
}

func (t tree) realPath(ctx context.Context, name string) (resolved string, err error) {
	op := func(w *walk) (err error) {
		resolved, err = w.realPath()
		return err
	}
	if t.root != nil {
		return resolved, t.do(ctx, "realpath", name, op)
	}
	root, err := os.OpenFile("/", unix.O_DIRECTORY|openDirectory, 0)
	if err != nil {
		return "", err
	}
	defer root.Close()
	err = tree{root: rootOf(root)}.do(ctx, "realpath", name, func(w *walk) error {
		w.absolute = true
		return op(w)
	})
	return resolved, err
}

func (t tree) statVFS(ctx context.Context, name string) (reply wire.StatVFSReply, err error) {
	err = t.lookUp(ctx, "statvfs", name, true, func(dir int, base string, flags int) error {
		open := openAny
		if flags != 0 {
			open |= unix.O_NOFOLLOW
		}
		fd, err := openAt(dir, base, open, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if flags != 0 && base != "." {
			// Opened this way, a link is not followed.
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return err
			} else if st.Mode&unix.S_IFMT == unix.S_IFLNK {
				return unix.ELOOP
			}
		}
		reply, err = statVFS(fd)
		return err
	})
	return reply, err
}

func statVFSOpen(file *os.File) (reply wire.StatVFSReply, err error) {
	err = control(file, func(fd int) (err error) {
		reply, err = statVFS(fd)
		return err
	})
	return reply, err
}

// The system calls of the walk. None of them follows a link.

func openAt(dir int, base string, flag int, perm uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, base, flag|unix.O_CLOEXEC, perm)
		return err
	})
	return fd, err
}

func statAt(dir int, base string) (st unix.Stat_t, err error) {
	err = retry(func() error { return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

func readlinkAt(dir int, base string) (string, error) {
	for size := 256; ; size *= 2 {
		b, n := make([]byte, size), 0
		err := retry(func() (err error) {
			n, err = unix.Readlinkat(dir, base, b)
			return err
		})
		if err != nil {
			return "", err
		}
		if n < size {
			return string(b[:n]), nil
		}
	}
}

// retry repeats op if a signal interrupts it.
func retry(op func() error) error {
	for {
		if err := op(); err != unix.EINTR {
			return err
		}
	}
}
