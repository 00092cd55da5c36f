package osfs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// file is an open file.
type file struct {
	*os.File
	fs   *FS
	name string
}

// appendFile is a file open for appending. os.File refuses WriteAt on such files, so it uses Write;
// the server sends one write at a time.
type appendFile struct{ *file }

func (f appendFile) WriteAt(p []byte, _ int64) (int, error) { return f.Write(p) }

// Open implements server.Opener.
//
// The setuid, setgid and sticky bits are left out of the mode of new files and directories: clients
// that want them must set them afterwards.
func (f *FS) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	if f.tree.atomic() && flags&wire.OpenWrite != 0 {
		return f.openUpload(ctx, name, flags, attrs)
	}
	opened, created, err := f.openOrCreate(ctx, name, openFlags(flags), attrs)
	if unfinished, ok := errors.AsType[*unfinishedError](err); ok && unfinished.ended(ctx) {
		opened, created, err = f.openOrCreate(ctx, name, openFlags(flags), attrs)
	}
	if err != nil {
		return nil, err
	}
	file := &file{File: opened, fs: f, name: name}
	if attrs.Flags &^= wire.AttrPermissions; created && attrs.Flags != 0 {
		if err := file.Setstat(attrs); err != nil {
			f.unmake(ctx, file)
			return nil, err
		}
	}
	return file.opened(flags&wire.OpenAppend != 0), nil
}

// ErrInPlace is the error of OpenUpload for a file that would be changed where it is.
var ErrInPlace = errors.New("the file can only be changed where it is")

// OpenUpload works like Open for writing in a tree made by [NewAtomic], but leaves files alone that
// would be changed where they are, at once: those that are not emptied, and those with several
// names, of other owners, or in directories in which nothing can be made.
func (f *FS) OpenUpload(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	return f.openUpload(ctx, name, flags|notInPlace, attrs)
}

// notInPlace is a flag besides those of OPEN, for OpenUpload.
const notInPlace = 1 << 31

// opened returns a handle for the file, for appending if appends is set.
func (f *file) opened(appends bool) server.File {
	if appends {
		return appendFile{f}
	}
	return f
}

// openFlags translates the flags of OPEN.
func openFlags(flags uint32) (flag int) {
	switch {
	case flags&wire.OpenWrite == 0:
		flag = os.O_RDONLY
	case flags&wire.OpenRead == 0:
		flag = os.O_WRONLY
	default:
		flag = os.O_RDWR
	}
	if flags&wire.OpenAppend != 0 {
		flag |= os.O_APPEND
	}
	if flags&wire.OpenCreate != 0 {
		flag |= os.O_CREATE
		// EXCL means something only with CREAT, and TRUNC also without it (draft-02, section 6.3,
		// wants CREAT with both).
		if flags&wire.OpenExclusive != 0 {
			flag |= os.O_EXCL
		}
	}
	if flags&wire.OpenTruncate != 0 {
		flag |= os.O_TRUNC
	}
	return flag
}

// openOrCreate opens a file. It reports whether it created the file if attributes beyond the mode
// depend on that.
func (f *FS) openOrCreate(ctx context.Context, name string, flag int,
	attrs wire.Attrs) (opened *os.File, created bool, err error) {
	perm := attrs.Permissions & 0o777
	if flag&os.O_CREATE != 0 && attrs.Flags&^wire.AttrPermissions != 0 {
		opened, err = f.tree.open(ctx, name, flag|os.O_EXCL, perm)
		if err == nil || flag&os.O_EXCL != 0 || !errors.Is(err, fs.ErrExist) {
			return opened, err == nil, err
		}
	}
	opened, err = f.tree.open(ctx, name, flag, perm)
	return opened, false, err
}

// unmake closes a file that was just created, and removes it unless its name is another one's now.
func (f *FS) unmake(ctx context.Context, made *file) {
	was, err := made.Stat()
	made.Close()
	ctx = context.WithoutCancel(ctx)
	now, nowErr := f.Lstat(ctx, made.name)
	if err != nil || nowErr != nil {
		return
	}
	one, known := was.(server.Linked)
	other, nowKnown := now.(server.Linked)
	if known && nowKnown && one.FileIdentity() == other.FileIdentity() {
		f.tree.unlink(ctx, made.name)
	}
}

// Stat implements server.FileStater.
func (f *file) Stat() (fs.FileInfo, error) { return statOpen(f.File) }

// Setstat implements server.FileSetstater.
func (f *file) Setstat(attrs wire.Attrs) error {
	size := setSize(attrs, f.Truncate)
	var mode, times, owner error
	if attrs.Has(wire.AttrPermissions) {
		mode = f.Chmod(wire.FileMode(attrs.Permissions & 0o7777))
	}
	if attrs.Has(wire.AttrACModTime) {
		times = f.fs.tree.chtimesOpen(f.File, f.name, seconds(attrs.ATime), seconds(attrs.MTime))
	}
	if attrs.Has(wire.AttrUIDGID) {
		owner = f.Chown(int(int32(attrs.UID)), int(int32(attrs.GID)))
	}
	return cmp.Or(size, mode, times, owner)
}

// StatVFS implements server.FileStatVFSer.
func (f *file) StatVFS() (wire.StatVFSReply, error) { return statVFSOpen(f.File) }

// SystemFile implements server.FileInSystem.
func (f *file) SystemFile() *os.File { return f.File }

// osFile returns the system's file behind a File of this package.
func osFile(f server.File) (*os.File, bool) {
	if system, ok := f.(server.FileInSystem); ok {
		return system.SystemFile(), true
	}
	return nil, false
}

// CopyFrom implements server.FileCopier: the file system shares blocks, the kernel copies, or this
// process does. Holes in the source stay holes.
func (f *file) CopyFrom(ctx context.Context, source server.File, from, length,
	to int64) (int64, error) {
	src, ok := osFile(source)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if length <= 0 {
		return 0, nil
	}
	return localfs.Copy(ctx, f.File, src, localfs.Options{From: from, To: to, Length: length})
}

// CopyFrom leaves the copy to the session, whose writes go to the end.
func (f appendFile) CopyFrom(context.Context, server.File, int64, int64, int64) (int64, error) {
	return 0, errors.ErrUnsupported
}
