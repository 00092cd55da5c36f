package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/usftp/usftp/server/internal/turn"
	"github.com/usftp/usftp/wire"
)

// View is a backend with a policy applied. It answers every request; requests for which the backend
// has no method fail with errors.ErrUnsupported. It is safe for concurrent use.
type View struct {
	fs         FS
	walks      bool // fs resolves paths itself
	takesTurns bool // fs takes turns while resolving
	home       string
	user       string
	readOnly   bool
	umask      uint32
	quota      *Quota
	inner      bool // it is part of another view, and its rules apply to handles, too
	forbidden  operationSet
	withheld   effect    // effects that no request may have
	reports    *Reporter // of changes to the tree; may be nil
	lists      *OpenFiles

	maxFileSize        int64
	uploads, downloads Account
}

// NewView returns a view of backend; policy may be nil. It fails if the policy names unknown
// operations.
func NewView(backend FS, policy *Policy) (*View, error) {
	policy = cmp.Or(policy, &Policy{})
	forbidden, withheld, err := policy.forbidden()
	if err != nil {
		return nil, err
	}
	_, walks := backend.(PathWalker)
	_, takesTurns := backend.(turn.Taker)
	v := &View{
		fs:         backend,
		walks:      walks,
		takesTurns: takesTurns,
		user:       policy.User,
		home:       path.Clean("/" + policy.Home),
		readOnly:   policy.ReadOnly,
		umask:      wire.PermissionBits(policy.Umask),
		quota:      policy.Quota,
		forbidden:  forbidden,
		withheld:   withheld,

		maxFileSize: max(policy.MaxFileSize, 0),
		uploads:     policy.Uploads,
		downloads:   policy.Downloads,
	}
	return v, nil
}

// Path makes a client's path absolute, and clean unless the backend is a [PathWalker].
func (v *View) Path(name string) string {
	if !strings.HasPrefix(name, "/") {
		name = strings.TrimSuffix(v.home, "/") + "/" + name
	}
	if v.walks {
		return name
	}
	return path.Clean(name)
}

// permit returns an error if the policy forbids an operation.
func (v *View) permit(o operation) error { return v.permitTo(o, 0) }

// permitTo permits, or denies, an operation with more effects than it always has.
func (v *View) permitTo(o operation, more effect) error {
	row := &operationTable[o]
	if v.forbidden.has(o) || v.withheld&(row.does|more) != 0 {
		return errForbidden
	}
	if v.readOnly && row.writes {
		return errReadOnly
	}
	return nil
}

// Allows returns nil if the policy allows all the named operations, otherwise an error that says
// which it does not. The names are those of [Operations].
func (v *View) Allows(names ...string) error {
	set, err := parseOperations(names)
	if err != nil {
		return err
	}
	for o := opOpen; o < operationCount; o++ {
		if err := v.permit(o); set.has(o) && err != nil {
			return err
		}
	}
	return nil
}

// writing holds the flags of OPEN that can change something, even if only by creating the file.
const writing = wire.OpenWrite | wire.OpenAppend | wire.OpenCreate | wire.OpenTruncate

// open opens a file for a session, which checks the policy itself for each request on the handle;
// others use [View.Open].
func (v *View) open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (File, error) {
	if err := v.permitTo(opOpen, openDoes(flags, &attrs)); err != nil {
		return nil, err
	}
	if flags&writing != 0 && v.readOnly {
		return nil, errReadOnly
	}
	flags = openFlags(flags)
	opener, ok := v.fs.(Opener)
	if !ok {
		return nil, errUnsupported
	}
	if flags&wire.OpenCreate != 0 && attrs.Has(wire.AttrSize) {
		if err := v.fits(attrs.Size); err != nil {
			return nil, err
		}
	}
	file, err := v.quotaOpen(ctx, name, flags, &attrs, func(ctx context.Context) (File, error) {
		file, err := opener.Open(ctx, name, flags, v.masked(attrs, 0o666))
		if err == nil && file == nil {
			err = errUnsupported
		}
		return file, err
	})
	if err != nil {
		return nil, err
	}
	return v.ruled(file, name, flags), nil
}

// openFlags completes the flags of OPEN. Appending implies writing: OpenSSH's server does not
// support one without the other, though draft-02, section 6.3, does not forbid it. Neither read nor
// write means read, as with OpenSSH's server. Truncating implies writing, so that the file is an
// upload like any other that changes.
func openFlags(flags uint32) uint32 {
	if flags&wire.OpenAppend != 0 {
		flags |= wire.OpenWrite
	}
	if flags&wire.OpenWrite == 0 {
		flags |= wire.OpenRead
	}
	if flags&wire.OpenTruncate != 0 {
		flags |= wire.OpenWrite
	}
	return flags
}

// uploadsAtomically reports whether files appear when they are closed.
func (v *View) uploadsAtomically() bool {
	atomic, ok := v.fs.(AtomicUploader)
	return ok && atomic.UploadsAtomically()
}

// Upload describes the unfinished upload of a new file.
func (v *View) Upload(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := v.permit(opUploads); err != nil {
		return nil, err
	}
	if !v.serves(opUploads) {
		return nil, errUnsupported
	}
	return v.fs.(AtomicUploader).Upload(ctx, name)
}

// masked applies the umask to the mode of a file about to be created; without a mode in attrs it
// uses the given one.
func (v *View) masked(attrs wire.Attrs, mode uint32) wire.Attrs {
	if !attrs.Has(wire.AttrPermissions) {
		attrs.Flags |= wire.AttrPermissions
		attrs.Permissions = mode
	}
	attrs.Permissions &^= v.umask
	return attrs
}

// method returns the backend as the interface that an operation needs, if the policy allows it.
func method[T any](v *View, o operation) (backend T, err error) {
	backend, ok := v.fs.(T)
	if err = v.permit(o); err == nil && !ok {
		err = errUnsupported
	}
	return backend, err
}

// change runs a change of names through the interface that the operation needs, if the policy and
// the gate allow it, and reports it. name, to and attrs are for the report.
func change[T any](v *View, o operation, name, to string, attrs *wire.Attrs,
	run func(backend T) error) error {
	backend, err := method[T](v, o)
	if err != nil {
		return err
	}
	end, err := v.reports.Begin(treeChanged(o, name, to, attrs))
	if err != nil {
		return err
	}
	err = permitted(end, func() error { return run(backend) })
	return v.changed(err, o, name, to, attrs)
}

// Stat describes a file, following links.
func (v *View) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := v.permit(opStat); err != nil {
		return nil, err
	}
	return v.fs.Stat(ctx, name)
}

// Lstat describes a file or link.
func (v *View) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := v.permit(opLstat); err != nil {
		return nil, err
	}
	return v.lstat(ctx, name)
}

func (v *View) lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if lstater, ok := v.fs.(Lstater); ok {
		return lstater.Lstat(ctx, name)
	}
	return v.fs.Stat(ctx, name)
}

// List lists a directory as [Lister] does, without "." and "..".
func (v *View) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	if err := v.permit(opReaddir); err != nil {
		return failedList(err)
	}
	return func(yield func(fs.FileInfo, error) bool) {
		if !v.lists.take() {
			yield(nil, errHandles)
			return
		}
		defer v.lists.give()
		withoutDots(v.listAll(ctx, name))(yield)
	}
}

// Limited returns the view with a limit of the directories that List lists at once.
func (v *View) Limited(o *OpenFiles) *View {
	limited := *v
	limited.lists = o
	return &limited
}

func withoutDots(list iter.Seq2[fs.FileInfo, error]) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		for info, err := range list {
			if !isDots(info) && !yield(info, err) {
				return
			}
		}
	}
}

func isDots(info fs.FileInfo) bool {
	return info != nil && (info.Name() == "." || info.Name() == "..")
}

// listAll lists a directory with "." and "..", if the backend lists them.
func (v *View) listAll(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	if err := v.permit(opOpendir); err != nil {
		return failedList(err)
	}
	if lister, ok := v.fs.(Lister); ok {
		return lister.List(ctx, name)
	}
	return failedList(errUnsupported)
}

func failedList(err error) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) { yield(nil, err) }
}

// Setstat changes attributes, following links.
func (v *View) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	if err := v.permitTo(opSetstat, sizeDoes(&attrs)); err != nil {
		return err
	}
	return v.set(v.setstat(ctx, name, attrs), opSetstat, name, attrs,
		func() (fs.FileInfo, error) { return v.fs.Stat(ctx, name) })
}

func (v *View) setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	setstater, ok := v.fs.(Setstater)
	switch {
	case !ok:
		return errUnsupported
	case attrs.Has(wire.AttrSize):
		if err := v.fits(attrs.Size); err != nil {
			return err
		}
		if _, composed := v.fs.(*Folders); v.maxFileSize > 0 && !composed { // folders do it
			if info, err := v.fs.Stat(ctx, name); err == nil {
				g := growths.use(identityOf(info, name))
				defer g.leave()
				defer g.enter(false)()
			}
		}
		return v.quotaResize(ctx, name, attrs.Size,
			func(ctx context.Context) error { return setstater.Setstat(ctx, name, attrs) })
	}
	return setstater.Setstat(ctx, name, attrs)
}

// Lsetstat changes attributes of a file or link. The size is not among them, as with OpenSSH's
// server: SETSTAT sets it, within the limits.
func (v *View) Lsetstat(ctx context.Context, name string, attrs wire.Attrs) error {
	backend, err := method[Lsetstater](v, opLsetstat)
	if err == nil && attrs.Has(wire.AttrSize) {
		err = fs.ErrInvalid
	}
	if err == nil {
		err = backend.Lsetstat(ctx, name, attrs)
	}
	return v.set(err, opLsetstat, name, attrs,
		func() (fs.FileInfo, error) { return v.lstat(ctx, name) })
}

// Rename renames a file. The new name must not exist.
func (v *View) Rename(ctx context.Context, oldName, newName string) error {
	return change(v, opRename, oldName, newName, nil, func(backend Renamer) error {
		return v.quotaReplace(ctx, oldName, newName,
			func(ctx context.Context) error {
				return v.conditional(ctx, oldName,
					func() error { return backend.Rename(ctx, oldName, newName) })
			})
	})
}

// PosixRename renames a file, replacing an existing one.
func (v *View) PosixRename(ctx context.Context, oldName, newName string) error {
	return change(v, opPosixRename, oldName, newName, nil, func(backend PosixRenamer) error {
		return v.quotaReplace(ctx, oldName, newName,
			func(ctx context.Context) error { return backend.PosixRename(ctx, oldName, newName) })
	})
}

// Remove removes a file or link.
func (v *View) Remove(ctx context.Context, name string) error {
	return change(v, opRemove, name, "", nil, func(backend Remover) error {
		return v.quotaRemove(ctx, name, func(ctx context.Context) error {
			return v.conditional(ctx, name, func() error { return backend.Remove(ctx, name) })
		})
	})
}

// Rmdir removes an empty directory.
func (v *View) Rmdir(ctx context.Context, name string) error {
	return change(v, opRmdir, name, "", nil, func(backend Rmdirer) error {
		return v.quotaRmdir(ctx, name,
			func(ctx context.Context) error { return backend.Rmdir(ctx, name) })
	})
}

// Mkdir makes a directory.
func (v *View) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	if err := v.permitTo(opMkdir, makeDoes(&attrs)); err != nil {
		return err
	}
	attrs = v.masked(attrs, 0o777)
	return change(v, opMkdir, name, "", &attrs, func(backend Mkdirer) error {
		return v.quotaMake(ctx, false, name,
			func(ctx context.Context) error { return backend.Mkdir(ctx, name, attrs) })
	})
}

// Symlink makes a symbolic link at name.
func (v *View) Symlink(ctx context.Context, target, name string) error {
	return change(v, opSymlink, name, target, nil, func(backend Symlinker) error {
		return v.quotaMake(ctx, true, name,
			func(ctx context.Context) error { return backend.Symlink(ctx, target, name) })
	})
}

// Readlink reads a symbolic link.
func (v *View) Readlink(ctx context.Context, name string) (string, error) {
	readlinker, err := method[Readlinker](v, opReadlink)
	if err != nil {
		return "", err
	}
	return readlinker.Readlink(ctx, name)
}

// Link makes a hard link, another name for a file.
func (v *View) Link(ctx context.Context, oldName, newName string) error {
	return change(v, opHardlink, oldName, newName, nil, func(backend Linker) error {
		return v.quotaLink(ctx, oldName, newName,
			func() error { return backend.Link(ctx, oldName, newName) })
	})
}

// RealPath resolves a path.
func (v *View) RealPath(ctx context.Context, name string) (string, error) {
	if err := v.permit(opRealpath); err != nil {
		return "", err
	}
	return v.realPath(ctx, name)
}

func (v *View) realPath(ctx context.Context, name string) (string, error) {
	if real, ok := v.fs.(RealPather); ok {
		return real.RealPath(ctx, name)
	}
	return name, nil
}

// StatVFS describes the file system that holds a path.
func (v *View) StatVFS(ctx context.Context, name string) (wire.StatVFSReply, error) {
	if err := v.permit(opStatVFS); err != nil {
		return wire.StatVFSReply{}, err
	}
	return v.statVFS(ctx, name)
}

func (v *View) statVFS(ctx context.Context, name string) (wire.StatVFSReply, error) {
	s, ok := v.fs.(StatVFSer)
	if !ok {
		return wire.StatVFSReply{}, errUnsupported
	}
	reply, err := s.StatVFS(ctx, name)
	return v.limitStatVFS(reply), err
}

// limitStatVFS applies the policy to a description of a file system.
func (v *View) limitStatVFS(reply wire.StatVFSReply) wire.StatVFSReply {
	if v.readOnly {
		reply.Flags |= wire.StatVFSReadOnly
	}
	if v.quota != nil {
		v.quota.limit(&reply)
	}
	return reply
}

// HomeDir returns a user's home; "" means the session's user.
func (v *View) HomeDir(ctx context.Context, user string) (string, error) {
	if user == "" || user == v.user {
		return v.home, nil
	}
	if h, ok := v.fs.(HomeDirer); ok {
		return h.HomeDir(ctx, user)
	}
	return "", errNoUser
}

// ownerNames translates numeric owners and groups to names.
func (v *View) ownerNames(ctx context.Context, uids,
	gids []uint32) (users, groups []string, err error) {
	if namer, ok := v.fs.(OwnerNamer); ok {
		return namer.OwnerNames(ctx, uids, gids)
	}
	return nil, nil, errUnsupported
}

// extensions lists VERSION's extensions: those that the backend supports and the policy allows.
func (v *View) extensions() []wire.ExtensionPair {
	var list []wire.ExtensionPair
	offer := func(name, version string) {
		list = append(list, wire.ExtensionPair{Name: name, Data: version})
	}
	offers := func(o operation) bool { return v.permit(o) == nil && v.serves(o) }
	for o := opPosixRename; o < operationCount; o++ {
		if offers(o) {
			offer(operationTable[o].extension, cmp.Or(operationTable[o].version, "1"))
		}
	}
	if offers(opCheckFileHandle) {
		offer(wire.ExtCheckFile, "1")
	}
	if offers(opCheckFileHandle) || offers(opCheckFileName) {
		offer(wire.ExtCheckFileAlgorithms, hashNames())
	}
	return list
}

// serves reports whether the backend supports an extension.
func (v *View) serves(o operation) (ok bool) {
	switch o {
	case opPosixRename:
		_, ok = v.fs.(PosixRenamer)
	case opStatVFS, opFstatVFS:
		_, ok = v.fs.(StatVFSer)
	case opHardlink:
		_, ok = v.fs.(Linker)
	case opLsetstat:
		_, ok = v.fs.(Lsetstater)
	case opUsersGroups:
		_, ok = v.fs.(OwnerNamer)
	case opFsync, opCopyData, opCheckFileHandle, opCheckFileName, opChunks, opAbandon:
		_, ok = v.fs.(Opener)
	case opPutFiles:
		_, ok = v.fs.(PosixRenamer)
		ok = ok && v.takesSteps(opOpen, opWrite, opFsetstat, opPosixRename)
	case opGetFiles:
		ok = v.takesSteps(opOpen, opRead, opFstat)
	case opBeneath:
		_, ok = v.fs.(Beneather)
	case opUploads: // without opAbandon, clients need temporary names
		ok = v.uploadsAtomically() && v.permit(opAbandon) == nil
		if tree, composed := v.fs.(*Folders); ok && composed {
			ok = tree.allow(opUploads, opAbandon)
		}
	case opLimits, opExpandPath, opHomeDirectory:
		ok = true
	}
	return ok
}

// ViewFile is an open file behind a view: each method checks the policy, and the backend's file is
// out of reach. Its methods may be called concurrently; Close comes last.
type ViewFile struct {
	view   *View
	ctx    context.Context
	name   string
	flags  uint32
	file   File
	reader io.ReaderAt
	writer io.WriterAt
}

// Open opens a file as [Opener] does. ctx also applies to later operations on the file. It fails
// with errors.ErrUnsupported if the backend's file cannot be read or written as flags require.
func (v *View) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (*ViewFile, error) {
	flags = openFlags(flags)
	file, err := v.open(ctx, name, flags, attrs)
	if err != nil {
		return nil, err
	}
	f := &ViewFile{view: v, ctx: ctx, name: name, flags: flags, file: file}
	ok := true
	if flags&wire.OpenRead != 0 {
		f.reader, ok = file.(io.ReaderAt)
	}
	if flags&wire.OpenWrite != 0 && ok {
		f.writer, ok = file.(io.WriterAt)
	}
	if !ok {
		f.Abandon(errUnsupported)
		return nil, errUnsupported
	}
	return f, nil
}

// Create opens a file to be written from its beginning, or creates it. Existing contents stay until
// they are overwritten: the file may be the very one that the client is reading, under another name
// or on another host, and truncating it first would lose it. Truncate removes the rest at the end.
// Only if the backend cannot do that, or keeps the contents until the new ones are complete, is the
// file truncated here.
func (v *View) Create(ctx context.Context, name string, attrs wire.Attrs) (*ViewFile, error) {
	flags := uint32(wire.OpenWrite | wire.OpenCreate)
	if _, ok := v.fs.(Setstater); !ok || v.uploadsAtomically() {
		flags |= wire.OpenTruncate
	}
	return v.Open(ctx, name, flags, attrs)
}

// permit checks the policy of the view and the rules of the file.
func (f *ViewFile) permit(o operation, more effect) error {
	if err := f.view.permitTo(o, more); err != nil {
		return err
	}
	return permitOn(f.file, o, more)
}

// ReadAt implements io.ReaderAt.
func (f *ViewFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.permit(opRead, 0); err != nil {
		return 0, err
	}
	if f.reader == nil {
		return 0, errBadHandle
	}
	n, err := readAt(f.reader, p, offset)
	if err := moves(f.ctx, f.view.downloads, n); err != nil {
		return 0, err
	}
	return n, err
}

// WriteAt implements io.WriterAt.
func (f *ViewFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.permit(opWrite, 0); err != nil {
		return 0, err
	}
	if f.writer == nil {
		return 0, errBadHandle
	}
	if err := moves(f.ctx, f.view.uploads, len(p)); err != nil {
		return 0, err
	}
	return f.writer.WriteAt(p, offset)
}

// Stat describes the open file, even if its name now belongs to another.
func (f *ViewFile) Stat() (fs.FileInfo, error) {
	if err := f.permit(opFstat, 0); err != nil {
		return nil, err
	}
	return f.view.statOpen(f.ctx, f.file, f.name)
}

// Setstat changes attributes. The policy must allow that by handle as well as by path.
func (f *ViewFile) Setstat(attrs wire.Attrs) error {
	for _, o := range []operation{opSetstat, opFsetstat} {
		if err := f.permit(o, sizeDoes(&attrs)); err != nil {
			return err
		}
	}
	return f.view.set(f.setstat(attrs), opFsetstat, f.name, attrs,
		func() (fs.FileInfo, error) { return f.view.statOpen(f.ctx, f.file, f.name) })
}

// Truncate removes the contents beyond size, as opening the file with wire.OpenTruncate would have;
// the policy need only allow writing.
func (f *ViewFile) Truncate(size int64) error {
	if err := f.permit(opWrite, 0); err != nil {
		return err
	}
	info, err := f.view.statOpen(f.ctx, f.file, f.name)
	if err == nil && info.Size() <= size {
		return nil
	}
	return f.setstat(wire.Attrs{Flags: wire.AttrSize, Size: uint64(size)})
}

func (f *ViewFile) setstat(attrs wire.Attrs) error {
	if setstater, ok := f.file.(FileSetstater); ok {
		// This very error means that only the wrapper has the method.
		if err := setstater.Setstat(attrs); err != errUnsupported {
			return err
		}
	}
	return f.view.setstat(f.ctx, f.name, attrs)
}

// Close closes the file, and returns the backend's error.
func (f *ViewFile) Close() error { return f.file.Close() }

// Abandon is called instead of Close on a file that the client did not complete, with the reason;
// see [FileAbandoner] and [Ending].
func (f *ViewFile) Abandon(reason error) error {
	if f.flags&wire.OpenWrite == 0 {
		return f.file.Close()
	}
	return end(f.file, abandoned(reason))
}

// statOpen describes an open file or directory; file is nil for a directory.
func (v *View) statOpen(ctx context.Context, file File, name string) (fs.FileInfo, error) {
	if stater, ok := file.(FileStater); ok {
		if info, err := stater.Stat(); !errors.Is(err, errors.ErrUnsupported) {
			return info, err
		}
	}
	return v.fs.Stat(ctx, name)
}

// sizeOpen returns the size of an open file, or -1 if only its name could tell: that may belong to
// another file.
func sizeOpen(file File) int64 {
	if stater, ok := file.(FileStater); ok {
		if info, err := stater.Stat(); err == nil {
			return info.Size()
		}
	}
	return -1
}
