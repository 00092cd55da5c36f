package osfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/wire"
)

const (
	openNonblock  = unix.O_NONBLOCK
	openDirectory = unix.O_DIRECTORY | unix.O_NONBLOCK
)

// at opens the directory that holds name and calls op with its descriptor and the last element, on
// which system calls that do not follow links then act: os.Root has no method for them.
func (f *FS) at(name, what string, op func(dir int, base string) error) error {
	dir, err := f.tree.OpenFile(filepath.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := op(int(dir.Fd()), filepath.Base(name)); err != nil {
		return &fs.PathError{Op: what, Path: name, Err: err}
	}
	return nil
}

// Remove implements server.Remover.
func (f *FS) Remove(_ context.Context, name string) error {
	return f.at(local(name), "unlink", func(dir int, base string) error {
		return unix.Unlinkat(dir,
			base, 0)
	})
}

// Rmdir implements server.Rmdirer.
func (f *FS) Rmdir(_ context.Context, name string) error {
	return f.at(local(name), "rmdir", func(dir int, base string) error {
		return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
	})
}

// Rename implements server.Renamer. File systems that cannot refuse to replace by themselves get
// OpenSSH's way: a link to the new name, which fails if there is one, and then the old name is
// removed.
func (f *FS) Rename(ctx context.Context, oldName, newName string) error {
	from, to := local(oldName), local(newName)
	err := f.at(from, "rename", func(fromDir int, fromBase string) error {
		return f.at(to, "rename", func(toDir int, toBase string) error {
			return unix.Renameat2(fromDir, fromBase, toDir, toBase, unix.RENAME_NOREPLACE)
		})
	})
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	info, err := f.tree.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		if err := f.tree.Link(from, to); err != nil {
			return err
		}
		return f.Remove(ctx, oldName)
	}
	if _, err := f.tree.Lstat(to); err == nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	return f.tree.Rename(from, to)
}

func (f *FS) lchtimes(name string, atime, mtime time.Time) error {
	return f.at(name, "utimensat", func(dir int, base string) error {
		return unix.UtimesNanoAt(dir, base, timespecs(atime, mtime), unix.AT_SYMLINK_NOFOLLOW)
	})
}

func timespecs(atime, mtime time.Time) []unix.Timespec {
	return []unix.Timespec{unix.NsecToTimespec(atime.UnixNano()),
		unix.NsecToTimespec(mtime.UnixNano())}
}

// chtimes sets the times of the open file, whatever its name is by now.
func (f *file) chtimes(atime, mtime time.Time) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	times := []unix.Timeval{unix.NsecToTimeval(atime.UnixNano()),
		unix.NsecToTimeval(mtime.UnixNano())}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.Futimes(int(fd), times) })
	return errors.Join(err, failed)
}

// StatVFS implements server.StatVFSer.
func (f *FS) StatVFS(_ context.Context, name string) (wire.StatVFSReply, error) {
	opened, err := f.tree.OpenFile(local(name), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		// What cannot be read can still be asked about, if it is no link: O_PATH would open that
		// itself.
		opened, err = f.tree.OpenFile(local(name), unix.O_PATH, 0)
	}
	if err != nil {
		return wire.StatVFSReply{}, err
	}
	defer opened.Close()
	return statVFS(opened)
}

// StatVFS implements server.FileStatVFSer.
func (f *file) StatVFS() (wire.StatVFSReply, error) { return statVFS(f.File) }

func statVFS(file *os.File) (reply wire.StatVFSReply, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return reply, err
	}
	var st unix.Statfs_t
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Fstatfs(int(fd), &st) }); err != nil {
		return reply, err
	}
	if failed != nil {
		return reply, failed
	}
	reply = wire.StatVFSReply{
		BlockSize:       uint64(st.Bsize),
		FragmentSize:    uint64(st.Frsize),
		Blocks:          st.Blocks,
		BlocksFree:      st.Bfree,
		BlocksAvailable: st.Bavail,
		Files:           st.Files,
		FilesFree:       st.Ffree,
		FilesAvailable:  st.Ffree,
		FSID:            uint64(uint32(st.Fsid.Val[0])) | uint64(uint32(st.Fsid.Val[1]))<<32,
		NameMax:         uint64(st.Namelen),
	}
	if reply.FragmentSize == 0 {
		reply.FragmentSize = reply.BlockSize
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		reply.Flags |= wire.StatVFSReadOnly
	}
	if st.Flags&unix.ST_NOSUID != 0 {
		reply.Flags |= wire.StatVFSNoSetuid
	}
	return reply, nil
}
