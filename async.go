package usftp

import (
	"context"
	"io/fs"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// AsyncClient is a client whose operations are started and not waited for; see [Pending]. A method
// waits only while the budget is full: [WithMaxInFlight] bytes of file contents, or 32,768
// requests.
//
// What is started travels in the order in which it was started, except that requests without data
// overtake WRITEs. Many servers carry requests out in another order: what depends on another
// operation must wait for it.
type AsyncClient struct {
	session *session
	ctx     context.Context
}

// Async returns the asynchronous form of the client. Operations that are started through it end
// when the context of c is done.
func (c *Client) Async() AsyncClient { return AsyncClient{c.session, c.ctx} }

func startOn[T any](a AsyncClient, op operation[T]) *Pending[T] {
	return start(a.ctx, a.session, op)
}

// startChange has what was read ahead of a file dropped: now, and when the operation that changes
// it is complete.
func startChange[T any](p *Pending[T], name string) *Pending[T] {
	p.session.changed(name)
	p.whenEnded(func() { p.session.changed(name) })
	return p
}

// Open opens a file for reading. The pending result of an operation that opens a file must be
// taken: else the file stays open until the client is closed.
func (a AsyncClient) Open(name string) *Pending[*File] { return a.OpenFile(name, 0, 0) }

// OpenFile opens a file, as [Client.OpenFile].
func (a AsyncClient) OpenFile(name string, flag int, perm fs.FileMode) *Pending[*File] {
	f := &File{&fileState{client: a.session, path: name}, a.ctx}
	return startOn(a, f.openWith(flag, perm))
}

// Create creates a file, as [Client.Create].
func (a AsyncClient) Create(name string) *Pending[*File] {
	return startOn(a, a.session.create(a.ctx, name))
}

// Stat asks for attributes, as [Client.Stat].
func (a AsyncClient) Stat(name string) *Pending[fs.FileInfo] {
	return startOn(a, a.session.stat("stat", wire.TypeStat, name))
}

// Lstat asks for attributes, as [Client.Lstat].
func (a AsyncClient) Lstat(name string) *Pending[fs.FileInfo] {
	return startOn(a, a.session.stat("lstat", wire.TypeLstat, name))
}

// Chmod sets permissions, as [Client.Chmod].
func (a AsyncClient) Chmod(name string, mode fs.FileMode) *Pending[struct{}] {
	return startOn(a, a.session.setstat("chmod", name, toMode(mode)))
}

// Chown sets owner and group, as [Client.Chown].
func (a AsyncClient) Chown(name string, uid, gid int) *Pending[struct{}] {
	return startOn(a, a.session.setstat("chown", name, toOwner(uid, gid)))
}

// Chtimes sets times, as [Client.Chtimes].
func (a AsyncClient) Chtimes(name string, atime, mtime time.Time) *Pending[struct{}] {
	return startOn(a, a.session.setstat("chtimes", name, toTimes(atime, mtime)))
}

// Truncate sets a size, as [Client.Truncate].
func (a AsyncClient) Truncate(name string, size int64) *Pending[struct{}] {
	return startChange(startOn(a, a.session.setstat("truncate", name, toSize(size))), name)
}

// SetExtendedData sets extended attributes, as [Client.SetExtendedData].
func (a AsyncClient) SetExtendedData(name string, extended []StatExtended) *Pending[struct{}] {
	return startOn(a, a.session.setstat("setstat", name, toExtended(extended)))
}

// Lchmod sets permissions, as [Client.Lchmod].
func (a AsyncClient) Lchmod(name string, mode fs.FileMode) *Pending[struct{}] {
	return startOn(a, a.session.lsetstat("lchmod", name, toMode(mode)))
}

// Lchown sets owner and group, as [Client.Lchown].
func (a AsyncClient) Lchown(name string, uid, gid int) *Pending[struct{}] {
	return startOn(a, a.session.lsetstat("lchown", name, toOwner(uid, gid)))
}

// Lchtimes sets times, as [Client.Lchtimes].
func (a AsyncClient) Lchtimes(name string, atime, mtime time.Time) *Pending[struct{}] {
	return startOn(a, a.session.lsetstat("lchtimes", name, toTimes(atime, mtime)))
}

// SetAttrs gives a file several attributes at once, as [Client.SetAttrs]. It asks even where there
// are none.
func (a AsyncClient) SetAttrs(name string, attrs NewAttrs) *Pending[struct{}] {
	return startOn(a, a.session.setstat("setstat", name, attrs.change()))
}

// LSetAttrs is SetAttrs for a symbolic link itself, as [Client.LSetAttrs].
func (a AsyncClient) LSetAttrs(name string, attrs NewAttrs) *Pending[struct{}] {
	return startOn(a, a.session.lsetstat("lsetstat", name, attrs.change()))
}

// Remove removes a file or an empty directory, as [Client.Remove].
func (a AsyncClient) Remove(name string) *Pending[struct{}] {
	return startOn(a, a.session.remove(name))
}

// RemoveDirectory removes an empty directory.
func (a AsyncClient) RemoveDirectory(name string) *Pending[struct{}] {
	return startOn(a, a.session.removeDirectory("rmdir", name))
}

// Mkdir makes a directory, as [Client.Mkdir].
func (a AsyncClient) Mkdir(name string) *Pending[struct{}] {
	return startOn(a, a.session.mkdir(name).orExists(name))
}

// Rename gives a file a new name, as [Client.Rename].
func (a AsyncClient) Rename(oldname, newname string) *Pending[struct{}] {
	return startOn(a, a.session.rename(oldname, newname))
}

// PosixRename gives a file a new name, as [Client.PosixRename].
func (a AsyncClient) PosixRename(oldname, newname string) *Pending[struct{}] {
	return startOn(a, a.session.posixRename(oldname, newname))
}

// Link makes a hard link, as [Client.Link].
func (a AsyncClient) Link(oldname, newname string) *Pending[struct{}] {
	return startOn(a, a.session.link(oldname, newname))
}

// Symlink makes a symbolic link. Unlike [Client.Symlink] it does not find out in which order a
// server takes the two paths: where nothing is known, that is OpenSSH's.
func (a AsyncClient) Symlink(oldname, newname string) *Pending[struct{}] {
	return startOn(a, a.session.symlink(oldname, newname, a.session.symlinks.Load()))
}

// ReadLink returns the target of a symbolic link.
func (a AsyncClient) ReadLink(name string) *Pending[string] {
	return startOn(a, a.session.name("readlink", name,
		wire.PathRequest{Type: wire.TypeReadlink, Path: name}))
}

// RealPath returns the absolute path of a name.
func (a AsyncClient) RealPath(name string) *Pending[string] {
	return startOn(a, a.session.name("realpath", name,
		wire.PathRequest{Type: wire.TypeRealpath, Path: name}))
}

// StatVFS returns the state of a file system, as [Client.StatVFS].
func (a AsyncClient) StatVFS(name string) *Pending[StatVFS] {
	return startOn(a, a.session.statVFS(name))
}

// Extended sends any extended request, as [Client.Extended].
func (a AsyncClient) Extended(name string, payload []byte) *Pending[[]byte] {
	return startOn(a, a.session.extended(wire.TypeExtendedReply, name, payload))
}

// AsyncFile is a file whose operations are started and not waited for; see [AsyncClient]. But for
// Close they do not wait for what was written behind, of which some may not even have been sent: a
// WriteAt where a [File.Writer] has just written may be overwritten by it. Call [Writer.Flush] in
// between.
type AsyncFile struct{ file *File }

// Async returns the asynchronous form of the file. Operations that are started through it end when
// the context of f is done.
func (f *File) Async() AsyncFile { return AsyncFile{f} }

func startOnFile[T any](a AsyncFile, op operation[T]) *Pending[T] {
	return start(a.file.ctx, a.file.session(), op)
}

// Open opens the closed file, as [File.Open]; the result is the file.
func (a AsyncFile) Open(flag int, perm fs.FileMode) *Pending[*File] {
	return startOnFile(a, a.file.openWith(flag, perm))
}

// OpenRead opens the closed file for reading.
func (a AsyncFile) OpenRead() *Pending[*File] { return a.Open(0, 0) }

// Close closes the file, as [File.Close]; the file is closed for further calls at once, and the
// result is the server's answer. The file's context does not end it. Where something was written
// behind (see [File.Writer]), Close waits for that before it starts.
func (a AsyncFile) Close() *Pending[struct{}] {
	s := a.file.session()
	if err := a.file.beforeClose(); err != nil {
		op, _ := a.file.closeOperation()
		op.refused = err
		op.result = func(*conn.Call) (none, error) { return none{}, err }
		return start(context.Background(), s, op)
	}
	op, _ := a.file.closeOperation()
	return start(context.Background(), s, op)
}

// Stat asks for the file's attributes and keeps them, as [File.Stat].
func (a AsyncFile) Stat() *Pending[*FileStat] { return startOnFile(a, a.file.statOperation()) }

// Chmod sets the file's permissions.
func (a AsyncFile) Chmod(mode fs.FileMode) *Pending[struct{}] {
	return startOnFile(a, a.file.fsetstat("chmod", toMode(mode)))
}

// Chown sets the file's owner and group.
func (a AsyncFile) Chown(uid, gid int) *Pending[struct{}] {
	return startOnFile(a, a.file.fsetstat("chown", toOwner(uid, gid)))
}

// Chtimes sets the file's times.
func (a AsyncFile) Chtimes(atime, mtime time.Time) *Pending[struct{}] {
	return startOnFile(a, a.file.fsetstat("chtimes", toTimes(atime, mtime)))
}

// Truncate sets the file's size.
func (a AsyncFile) Truncate(size int64) *Pending[struct{}] {
	return startChange(startOnFile(a, a.file.fsetstat("truncate", toSize(size))), a.file.Name())
}

// SetExtendedData sets extended attributes of the file.
func (a AsyncFile) SetExtendedData(extended []StatExtended) *Pending[struct{}] {
	return startOnFile(a, a.file.fsetstat("setstat", toExtended(extended)))
}

// SetAttrs gives the file several attributes at once. It asks even where there are none.
func (a AsyncFile) SetAttrs(attrs NewAttrs) *Pending[struct{}] {
	return startOnFile(a, a.file.fsetstat("setstat", attrs.change()))
}

// Sync has the server write the file to its disk, as [File.Sync]: what was written by operations
// that were started before it, on servers that work in order, and by those that were complete, on
// all.
func (a AsyncFile) Sync() *Pending[struct{}] { return startOnFile(a, a.file.sync()) }

// StatVFS returns the state of the file's file system.
func (a AsyncFile) StatVFS() *Pending[StatVFS] { return startOnFile(a, a.file.statVFS()) }

// Remove removes the file by its name.
func (a AsyncFile) Remove() *Pending[struct{}] {
	return startOnFile(a, a.file.session().remove(a.file.Name()))
}

// ReadAt reads into p, as [File.ReadAt]. p is the library's until the result is there, also by
// cancellation.
func (a AsyncFile) ReadAt(p []byte, off int64) *Pending[int] {
	return a.file.startAt("read", p, off, false)
}

// WriteAt writes p, as [File.WriteAt]. p has been copied when WriteAt returns. It is not ordered
// with other writes: where ranges overlap, wait for one before the other is started. Servers that
// take one WRITE at a time, or only in order, refuse what is started meanwhile: there, too, wait
// for each.
func (a AsyncFile) WriteAt(p []byte, off int64) *Pending[int] {
	if a.file.appends() {
		return startOnFile(a, operation[int]{name: "write", path: a.file.Name(), err: errAppendAt})
	}
	return startChange(a.file.startAt("write", p, off, true), a.file.Name())
}
