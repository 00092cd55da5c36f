package server

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/usftp/usftp/wire"
)

// FS is what a session serves. It must answer STAT; everything else is optional: a backend
// implements those of the interfaces below that it can honour, and clients are told OP_UNSUPPORTED
// for the others, or what the interface says. An extension whose interface is absent is not
// offered.
//
// Paths are absolute, slash-separated and clean as by [path.Clean]: they begin with "/", and hold
// no "..", no NUL and no more than 4096 bytes. A [PathWalker] gets them as the client sent them.
// Methods are called concurrently. Their context ends with the session. For how errors become
// answers see [StatusError].
type FS interface {
	// Stat describes the file at path and follows symbolic links. For what the client is told of it
	// see [AttrsOf].
	Stat(ctx context.Context, path string) (fs.FileInfo, error)
}

// PathWalker resolves paths itself, as a kernel does: element by element, through links. Its
// methods get paths as the client sent them, only made absolute: they may hold ".", "..", empty
// elements and slashes at the end, where "link/.." is the parent of what the link names, and
// "file/" is an error. It must keep ".." from leading out of the tree. Absent: paths are clean,
// which for trees without links means the same.
type PathWalker interface {
	WalksPaths()
}

// Lstater describes a symbolic link itself. Absent: LSTAT is answered as STAT.
type Lstater interface {
	Lstat(ctx context.Context, path string) (fs.FileInfo, error)
}

// Opener opens files. Flags are wire.OpenRead and its like, of which at least one of read and write
// is set; attrs are for a file that this creates. Absent: OPEN is unsupported.
type Opener interface {
	Open(ctx context.Context, path string, flags uint32, attrs wire.Attrs) (File, error)
}

// Lister lists a directory, describing entries as Lstat does. A [PathWalker] may list "." and "..",
// which READDIR passes on, as OpenSSH's server does, and nothing else does. An error ends
// the listing; an error that comes first is the answer to OPENDIR. The iterator is left unfinished
// when the client closes the directory early. Absent: OPENDIR is unsupported.
type Lister interface {
	List(ctx context.Context, path string) iter.Seq2[fs.FileInfo, error]
}

// Setstater changes those attributes whose flags are set. Absent: SETSTAT is unsupported.
type Setstater interface {
	Setstat(ctx context.Context, path string, attrs wire.Attrs) error
}

// Lsetstater is Setstater for a symbolic link itself. Absent: lsetstat@openssh.com is not offered.
type Lsetstater interface {
	Lsetstat(ctx context.Context, path string, attrs wire.Attrs) error
}

// Renamer renames a file or directory and fails with fs.ErrExist when the new name exists
// (draft-02, section 6.5). Absent: RENAME is unsupported.
type Renamer interface {
	Rename(ctx context.Context, oldPath, newPath string) error
}

// PosixRenamer renames as POSIX has it: an existing target is replaced. Absent:
// posix-rename@openssh.com is not offered.
type PosixRenamer interface {
	PosixRename(ctx context.Context, oldPath, newPath string) error
}

// Remover removes a file or link, and refuses directories. Absent: REMOVE is unsupported.
type Remover interface {
	Remove(ctx context.Context, path string) error
}

// Rmdirer removes an empty directory, and refuses everything else. Absent: RMDIR is unsupported.
type Rmdirer interface {
	Rmdir(ctx context.Context, path string) error
}

// Mkdirer makes a directory. Absent: MKDIR is unsupported.
type Mkdirer interface {
	Mkdir(ctx context.Context, path string, attrs wire.Attrs) error
}

// Symlinker makes a symbolic link at path. Target is what the client sent, neither absolute nor
// clean. Absent: SYMLINK is unsupported.
type Symlinker interface {
	Symlink(ctx context.Context, target, path string) error
}

// Readlinker reads a symbolic link. Absent: READLINK is unsupported.
type Readlinker interface {
	Readlink(ctx context.Context, path string) (string, error)
}

// Linker makes another name for a file. Absent: hardlink@openssh.com is not offered.
type Linker interface {
	Link(ctx context.Context, oldPath, newPath string) error
}

// RealPather resolves links in a path, whose last element need not exist. Absent: REALPATH answers
// with the clean path.
type RealPather interface {
	RealPath(ctx context.Context, path string) (string, error)
}

// StatVFSer describes the file system that holds a path. Absent: statvfs@openssh.com is not
// offered.
type StatVFSer interface {
	StatVFS(ctx context.Context, path string) (wire.StatVFSReply, error)
}

// HomeDirer finds users' homes. Absent: home-directory and expand-path@openssh.com
// know the session's own home only, which is [Policy].Home.
type HomeDirer interface {
	HomeDir(ctx context.Context, user string) (string, error)
}

// OwnerNamer gives names to numbers, "" where there is none; the answers are as long as the
// questions. They are also used in the lines that listings carry for people. Absent:
// users-groups-by-id@openssh.com is not offered.
type OwnerNamer interface {
	OwnerNames(ctx context.Context, uids, gids []uint32) (users, groups []string, err error)
}

// File is an open file. What it can do beyond closing is optional again: io.ReaderAt and
// io.WriterAt for READ and WRITE, and the interfaces below. An *os.File is a File. Methods are
// called concurrently, within the order that the package documentation describes; Close comes last.
// Buffers must not be kept.
//
// On a file opened with wire.OpenAppend, writes come one at a time and their offset means nothing.
type File interface {
	io.Closer
}

// FileStater describes an open file. Absent: FSTAT asks [FS] by the path that was opened.
type FileStater interface {
	Stat() (fs.FileInfo, error)
}

// FileSetstater changes those attributes whose flags are set. Absent: FSETSTAT is unsupported.
type FileSetstater interface {
	Setstat(attrs wire.Attrs) error
}

// FileSyncer commits a file to disk. Absent: fsync@openssh.com is unsupported for the file.
type FileSyncer interface {
	Sync() error
}

// FileStatVFSer describes the file system that holds an open file. Absent: fstatvfs@openssh.com
// asks [StatVFSer] by the path that was opened.
type FileStatVFSer interface {
	StatVFS() (wire.StatVFSReply, error)
}

// FileCopier copies up to length bytes at offset from of source, which is a File of the same FS, to
// offset to of itself, and returns how many; fewer mean that source ends there. Absent, or
// errors.ErrUnsupported: the session reads and writes.
type FileCopier interface {
	CopyFrom(ctx context.Context, source File, from, length, to int64) (int64, error)
}

// FileInSystem is a file whose contents are just those of a file of the operating system: reading
// from that at an offset is the same as ReadAt. The session may have the kernel move them, without
// a copy in the process. Absent: ReadAt is called.
type FileInSystem interface {
	SystemFile() *os.File
}

// AttrsOf returns what a client is told of a file: size, mode and modification time, and owner,
// group and access time where info.Sys() tells them: a *wire.Attrs is taken as it stands, the
// system's own structure is understood.
func AttrsOf(info fs.FileInfo) wire.Attrs {
	if attrs, ok := info.Sys().(*wire.Attrs); ok && attrs != nil {
		return *attrs
	}
	mtime := Seconds(info.ModTime())
	attrs := wire.Attrs{
		Flags:       wire.AttrSize | wire.AttrPermissions | wire.AttrACModTime,
		Size:        uint64(max(info.Size(), 0)),
		Permissions: wire.Permissions(info.Mode()),
		ATime:       mtime,
		MTime:       mtime,
	}
	addSystemAttrs(&attrs, info)
	return attrs
}

// Seconds turns a time into the protocol's: seconds since 1970 in 32 bits, the nearest there is
// (draft-02, section 5).
func Seconds(t time.Time) uint32 {
	return uint32(min(max(t.Unix(), 0), 1<<32-1))
}

// Linked is what a FileInfo of a backend may tell of a file that can have several names. Absent:
// the system's own structure is understood on Unix, and elsewhere each name is taken for a file of
// its own.
type Linked interface {
	// FileIdentity is equal for infos of one file, and comparable.
	FileIdentity() any

	// LinkCount is how many names the file has.
	LinkCount() uint64
}

// linkCount is for people, as version 3 has no field for it, and for quotas.
func linkCount(info fs.FileInfo) uint64 {
	if linked, ok := info.(Linked); ok {
		return linked.LinkCount()
	}
	if n := systemLinkCount(info); n > 0 {
		return n
	}
	return 1
}

// identityOf is what a file is known by, whatever its name; where that cannot be told it is the
// name.
func identityOf(info fs.FileInfo, name string) any {
	if linked, ok := info.(Linked); ok {
		return linked.FileIdentity()
	}
	if id, ok := systemIdentity(info); ok {
		return id
	}
	return name
}
