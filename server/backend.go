package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/usftp/usftp/wire"
)

// FS is a session's backend. It must implement Stat; everything else is optional. A backend
// implements the interfaces below that it supports; for the others clients get OP_UNSUPPORTED, or
// the behaviour stated under "Absent". An extension whose interface is absent is not offered.
//
// Paths are absolute, slash-separated and clean as by [path.Clean]: they begin with "/", and
// contain no "..", no NUL and at most 4096 bytes. A [PathWalker] gets them as the client sent them.
// Methods are called concurrently. Their context ends with the session. [StatusError] describes how
// errors are translated.
type FS interface {
	// Stat describes the file at path, following symbolic links. [AttrsOf] describes the attributes
	// that the client is told.
	Stat(ctx context.Context, path string) (fs.FileInfo, error)
}

// PathWalker resolves paths itself as a kernel does, element by element and through links. Its
// methods get paths as the client sent them, only made absolute: they may contain ".", "..", empty
// elements and trailing slashes, where "link/.." is the parent of the link's target, and "file/" is
// an error. It must keep ".." from leading out of the tree. Absent: paths are clean, which makes no
// difference for trees without links.
type PathWalker interface {
	WalksPaths()
}

// Lstater describes a symbolic link itself. Absent: LSTAT is answered as STAT.
type Lstater interface {
	Lstat(ctx context.Context, path string) (fs.FileInfo, error)
}

// Opener opens files. flags are OPEN's, wire.OpenRead and so on, with at least one of read and
// write set; attrs apply to a file that Open creates. Absent: OPEN is unsupported.
type Opener interface {
	Open(ctx context.Context, path string, flags uint32, attrs wire.Attrs) (File, error)
}

// Lister lists a directory, describing entries as Lstat does. A [PathWalker] may list "." and "..",
// which only READDIR passes on, as OpenSSH's server does. An error ends the listing; an error
// before any entry is the answer to OPENDIR. If the client closes the directory early the iteration
// stops early. Absent: OPENDIR is unsupported.
type Lister interface {
	List(ctx context.Context, path string) iter.Seq2[fs.FileInfo, error]
}

// HiddenLister lists a directory's entries that take space, and that Stat describes but List leaves
// out, such as abandoned uploads that a client may resume. A quota counts them.
type HiddenLister interface {
	ListHidden(ctx context.Context, path string) iter.Seq2[fs.FileInfo, error]
}

// Setstater changes the attributes whose flags are set. Absent: SETSTAT is unsupported.
type Setstater interface {
	Setstat(ctx context.Context, path string, attrs wire.Attrs) error
}

// Lsetstater is Setstater for a symbolic link itself, and never sets the size. Absent:
// lsetstat@openssh.com is not offered.
type Lsetstater interface {
	Lsetstat(ctx context.Context, path string, attrs wire.Attrs) error
}

// Renamer renames a file or directory, and fails with fs.ErrExist if the new name exists (draft-02,
// section 6.5). Absent: RENAME is unsupported.
type Renamer interface {
	Rename(ctx context.Context, oldPath, newPath string) error
}

// PosixRenamer renames as POSIX does: an existing target is replaced. Absent:
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

// Symlinker makes a symbolic link at path. target is as the client sent it, neither made absolute
// nor clean. Absent: SYMLINK is unsupported.
type Symlinker interface {
	Symlink(ctx context.Context, target, path string) error
}

// Readlinker reads a symbolic link. Absent: READLINK is unsupported.
type Readlinker interface {
	Readlink(ctx context.Context, path string) (string, error)
}

// Linker makes a hard link, another name for a file. Absent: hardlink@openssh.com is not offered.
type Linker interface {
	Link(ctx context.Context, oldPath, newPath string) error
}

// Beneather follows no symbolic link beneath a directory in requests whose context asks for that:
// see [Beneath]. Absent: beneath@usftp is not offered.
type Beneather interface {
	WalksBeneath()
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

// HomeDirer finds users' home directories. Absent: home-directory and expand-path@openssh.com know
// only the session's own home, which is [Policy].Home.
type HomeDirer interface {
	HomeDir(ctx context.Context, user string) (string, error)
}

// OwnerNamer translates numeric owners and groups to names, "" where there is none; the results are
// as long as the arguments. Listings show these names, too. Absent: users-groups-by-id@openssh.com
// is not offered.
type OwnerNamer interface {
	OwnerNames(ctx context.Context, uids, gids []uint32) (users, groups []string, err error)
}

// File is an open file. Everything but closing is optional again: io.ReaderAt and io.WriterAt for
// READ and WRITE, and the interfaces below. An *os.File is a File. Methods are called concurrently,
// within the order that the package documentation describes; Close comes last. Methods must not
// retain buffers.
//
// On a file opened with wire.OpenAppend, writes come one at a time and their offset is meaningless.
type File interface {
	io.Closer
}

// FileAbandoner gives up a file opened for writing. Abandon is called instead of Close if the
// session ended without CLOSE, or a write failed or was denied: the contents are not those that the
// client meant to store. A backend whose files appear at Close shows nothing then. Absent: Close is
// called.
type FileAbandoner interface {
	Abandon() error
}

// FileDiscarder is a [FileAbandoner] that can keep nothing. Discard is called instead of Abandon if
// a write was denied because it exceeded the quota or the maximum file size: the kept file would go
// on filling the quota, and can never be completed. Absent: Abandon is called.
type FileDiscarder interface {
	FileAbandoner
	Discard() error
}

// AtomicUploader reports whether every created or truncated file appears as a whole when it is
// closed, and an abandoned new file is kept for its client, which learns its size from STAT.
// Absent: files are assumed to change while they are written.
//
// Upload describes the incomplete new file, or returns fs.ErrNotExist if none exists, or if another
// file has its name.
//
// A quota needs a backend that is a [Counter], or whose files have identities; see [Linked].
type AtomicUploader interface {
	UploadsAtomically() bool
	Upload(ctx context.Context, name string) (fs.FileInfo, error)
}

// FileEnder is a file that replaces another when it is closed. Under a quota, and if nothing is to
// be kept, End is called instead of Close and Abandon. It also describes the file that has no name
// any more, if any: the replaced one, or this one if nothing is kept of it. Replaces describes the
// file that it would replace now. Absent: no file loses its name.
type FileEnder interface {
	Replaces() (fs.FileInfo, error)
	End(how Ending) (gone fs.FileInfo, err error)
}

// Ending says how a file ends.
type Ending int

const (
	Closed    Ending = iota // as by Close
	Abandoned               // as by Abandon
	Discarded               // as by Abandon, but nothing is to be kept: it exceeds a limit
)

// abandoned returns the Ending of a file abandoned for a reason.
func abandoned(reason error) Ending {
	if errors.Is(reason, ErrQuota) || errors.Is(reason, ErrTooLarge) {
		return Discarded
	}
	return Abandoned
}

// end ends a file, which is not used again.
func end(file File, how Ending) error {
	if quoted, ok := file.(*quotedFile); ok {
		return quoted.end(how)
	}
	if ender, ok := file.(FileEnder); ok && how == Discarded {
		_, err := ender.End(how)
		return err
	}
	if discarder, ok := file.(FileDiscarder); ok && how == Discarded {
		return discarder.Discard()
	}
	if abandoner, ok := file.(FileAbandoner); ok && how != Closed {
		return abandoner.Abandon()
	}
	return file.Close()
}

// appears reports whether closing a file may make it appear, with what others have written to it.
func appears(file File) bool {
	for inner, ok := unwrap(file); ok; inner, ok = unwrap(file) {
		file = inner
	}
	_, ok := file.(FileEnder)
	return ok
}

// FileHasher is a file that knows hashes of itself, although it may not be readable. Hash returns
// the hash of a range by an algorithm of check-file, such as "md5". Absent, or
// errors.ErrUnsupported: the file is read and hashed.
type FileHasher interface {
	Hash(algorithm string, offset, length int64) ([]byte, error)
}

// FileStater describes an open file. Absent: FSTAT asks [FS] by the path that was opened.
type FileStater interface {
	Stat() (fs.FileInfo, error)
}

// FileSetstater changes the attributes whose flags are set. The size is among them only if the file
// was opened for writing. Absent: FSETSTAT is unsupported.
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
// offset to of itself, and returns how many it copied; fewer mean that source ended. Absent, or
// errors.ErrUnsupported: the session reads and writes.
type FileCopier interface {
	CopyFrom(ctx context.Context, source File, from, length, to int64) (int64, error)
}

// FileInSystem is a file backed by a file of the operating system: reading that file at an offset
// is the same as ReadAt. The session may let the kernel move its contents without a copy through
// the process. Absent: ReadAt is called.
type FileInSystem interface {
	SystemFile() *os.File
}

// AttrsOf returns the attributes that a client is told of a file: size, mode and modification time,
// and the owner, group and access time if info.Sys() has them: a *wire.Attrs is returned as it is,
// and the system's own structure is understood.
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

// Seconds converts a time to the protocol's format: seconds since 1970 in 32 bits, limited to that
// range (draft-02, section 5).
func Seconds(t time.Time) uint32 {
	return uint32(min(max(t.Unix(), 0), 1<<32-1))
}

// Linked may be implemented by a backend's FileInfo, for files that can have several names. Absent:
// on Unix the system's own structure is used, and elsewhere each name counts as a file of its own.
type Linked interface {
	// FileIdentity is equal for infos of one file, and comparable. An info from a listing may
	// return nil if only Stat and Lstat can tell.
	FileIdentity() any

	// LinkCount returns the file's number of names.
	LinkCount() uint64
}

// Changed may be implemented by a backend's FileInfo, where clients may set modification times.
type Changed interface {
	// ChangeTime returns when the file appeared, or last changed in any way, or the zero time.
	ChangeTime() time.Time
}

// linkCount serves listings shown to people, since version 3 has no field for it, and quotas.
func linkCount(info fs.FileInfo) uint64 {
	if linked, ok := info.(Linked); ok {
		return linked.LinkCount()
	}
	if n := systemLinkCount(info); n > 0 {
		return n
	}
	return 1
}

// identityOf identifies a file regardless of its name, or returns the name if it cannot.
func identityOf(info fs.FileInfo, name string) any {
	if linked, ok := info.(Linked); ok {
		return cmp.Or(linked.FileIdentity(), any(name))
	}
	if id, ok := systemIdentity(info); ok {
		return id
	}
	return name
}
