package usftp

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Stat returns the attributes of a file, following symbolic links. The result's Sys is a
// [*FileStat]. It takes one round trip, and more if the server does not tell the file's type: other
// requests find it out.
func (c *Client) Stat(name string) (fs.FileInfo, error) {
	return run(c.ctx, c.stat("stat", wire.TypeStat, name))
}

// Lstat returns a name's attributes without following a symbolic link there. Otherwise it is like
// [Client.Stat].
func (c *Client) Lstat(name string) (fs.FileInfo, error) {
	return run(c.ctx, c.stat("lstat", wire.TypeLstat, name))
}

// Stat asks the server for the file's attributes and caches them: by FSTAT if the file is open,
// otherwise, or if the server refuses FSTAT, by STAT. It takes one round trip.
func (f *File) Stat() (fs.FileInfo, error) {
	stat, err := run(f.ctx, f.statOperation())
	if err != nil {
		return nil, err
	}
	return fileInfo{f.BaseName(), stat}, nil
}

func (s *session) stat(op string, t wire.Type, name string) operation[fs.FileInfo] {
	return s.statOf(op, t, name, 0)
}

// statOf is like stat. kind is the file's type if a listing has told it, or 0.
func (s *session) statOf(op string, t wire.Type, name string,
	kind uint32) operation[fs.FileInfo] {
	asked := ask(s, op, name, wire.TypeAttrs, wire.PathRequest{Type: t, Path: name},
		func(call *conn.Call) (fs.FileInfo, error) {
			stat, err := attrsReply(call)
			if err != nil {
				return nil, err
			}
			info := fileInfo{path.Base(name), stat}
			if kind != 0 && !stat.HasType() {
				stat.Mode |= kind
			} else if next := s.findType(question{op, name, info, t == wire.TypeStat}); next != nil {
				return nil, unfinished[fs.FileInfo]{next}
			}
			return info, nil
		})
	// wolfSSH has one answer for everything that it cannot describe (wolfSSH_SFTP_RecvLSTAT). If
	// other servers answer FAILURE, that may mean anything: see untold.
	asked.looks = strings.Contains(s.options.serverVersion, "wolfSSH")
	return asked
}

// statOperation asks for the attributes and caches them.
func (f *File) statOperation() operation[*FileStat] {
	f.mu.Lock()
	open := f.open
	f.mu.Unlock()
	return f.statOpen(open)
}

// statOpen is like statOperation, for an opening or nil.
func (f *File) statOpen(open *openFile) operation[*FileStat] {
	s, name := f.session(), f.Name()
	byPath := func() operation[*FileStat] {
		return ask(s, "stat", name, wire.TypeAttrs,
			wire.PathRequest{Type: wire.TypeStat, Path: name}, f.keepAttrs)
	}
	if open == nil || s.noFstat.Load() {
		return byPath().after(f)
	}
	op := ask(s, "stat", name, wire.TypeAttrs,
		wire.HandleRequest{Type: wire.TypeFstat, Handle: open.handle.Name},
		f.keepAttrs).on(open.handle)
	op.instead = func(refusal error) *operation[*FileStat] {
		if !errors.Is(refusal, errors.ErrUnsupported) {
			return nil
		}
		s.differs(&s.noFstat, "it has no FSTAT; using STAT")
		next := byPath()
		return &next
	}
	return op.after(f)
}

func attrsReply(call *conn.Call) (*FileStat, error) {
	var reply wire.AttrsReply
	if err := reply.Parse(call.Body); err != nil {
		return nil, parse(err)
	}
	stat := newFileStat(&reply.Attrs)
	return &stat, nil
}

// StatVFS describes a file system, like POSIX's struct statvfs (OpenSSH's PROTOCOL, section 4.4).
type StatVFS struct {
	Bsize   uint64 // the file system's block size, in bytes
	Frsize  uint64 // the unit of the three counts of blocks, in bytes
	Blocks  uint64
	Bfree   uint64
	Bavail  uint64 // free to others than root
	Files   uint64 // inodes
	Ffree   uint64
	Favail  uint64 // free to others than root
	Fsid    uint64
	Flag    uint64 // 1: read-only; 2: setuid is ignored
	Namemax uint64 // the longest name, in bytes
}

// TotalSpace returns the size of the file system, in bytes.
func (s *StatVFS) TotalSpace() uint64 { return s.Frsize * s.Blocks }

// FreeSpace returns the free space in bytes, including the space reserved for root. See
// [StatVFS.AvailableSpace].
func (s *StatVFS) FreeSpace() uint64 { return s.Frsize * s.Bfree }

// AvailableSpace returns the free space available to other users than root, in bytes.
func (s *StatVFS) AvailableSpace() uint64 { return s.Frsize * s.Bavail }

// StatVFS describes the file system that holds name. It needs statvfs@openssh.com; without it the
// error matches [errors.ErrUnsupported]. It takes one round trip.
func (c *Client) StatVFS(name string) (*StatVFS, error) {
	return run(c.ctx, c.statVFS(name))
}

func (s *session) statVFS(name string) operation[*StatVFS] {
	message := wire.ExtendedPath{Name: wire.ExtStatVFS, Path: name}
	return ask(s, "statvfs", name, wire.TypeExtendedReply, message,
		statVFSReply).needs(wire.ExtStatVFS)
}

// StatVFS describes the file system that holds the open file. It needs fstatvfs@openssh.com;
// without it the error matches [errors.ErrUnsupported]. It takes one round trip.
func (f *File) StatVFS() (*StatVFS, error) {
	return run(f.ctx, f.statVFS())
}

func (f *File) statVFS() operation[*StatVFS] {
	return onHandle(f, "statvfs", func(open *openFile) operation[*StatVFS] {
		message := wire.ExtendedHandle{Name: wire.ExtFstatVFS, Handle: open.handle.Name}
		return ask(open.client, "statvfs", f.Name(), wire.TypeExtendedReply, message,
			statVFSReply).needs(wire.ExtFstatVFS)
	})
}

func statVFSReply(call *conn.Call) (*StatVFS, error) {
	var r wire.StatVFSReply
	if err := r.Parse(call.Body); err != nil {
		return nil, parse(err)
	}
	return &StatVFS{
		Bsize: r.BlockSize, Frsize: r.FragmentSize,
		Blocks: r.Blocks, Bfree: r.BlocksFree, Bavail: r.BlocksAvailable,
		Files: r.Files, Ffree: r.FilesFree, Favail: r.FilesAvailable,
		Fsid: r.FSID, Flag: r.Flags, Namemax: r.NameMax,
	}, nil
}

// UsersGroups returns the names of users and groups by their IDs, in the same order, with "" for
// IDs that the server does not know. It needs users-groups-by-id@openssh.com (OpenSSH's PROTOCOL,
// section 4.12); without it the error matches [errors.ErrUnsupported]. It takes one round trip, for
// up to a few thousand IDs.
func (c *Client) UsersGroups(uids, gids []uint32) (users, groups []string, err error) {
	message := wire.UsersGroupsByID{UIDs: uids, GIDs: gids}
	names, err := run(c.ctx, ask(c.session, "users-groups-by-id", "", wire.TypeExtendedReply,
		message, func(call *conn.Call) (r wire.UsersGroupsReply, err error) {
			if err := r.Parse(call.Body); err != nil {
				return wire.UsersGroupsReply{}, parse(err)
			}
			if len(r.Users) != len(uids) || len(r.Groups) != len(gids) {
				return wire.UsersGroupsReply{},
					&ProtocolError{What: "the wrong number of names in the reply"}
			}
			return r, nil
		}).needs(wire.ExtUsersGroupsByID))
	return names.Users, names.Groups, err
}

// KeepsUploads implements private.Client. Without abandon@usftp, half an upload would be published.
func (c privateClient) KeepsUploads() bool {
	return c.offered(wire.ExtUploads) && c.offered(wire.ExtAbandon)
}

// Upload implements private.Client.
func (c privateClient) Upload(name string) (fs.FileInfo, error) {
	return run(c.ctx, ask(c.session, "stat", name, wire.TypeAttrs,
		wire.ExtendedPath{Name: wire.ExtUploads, Path: name},
		func(call *conn.Call) (fs.FileInfo, error) {
			stat, err := attrsReply(call)
			if err != nil {
				return nil, err
			}
			return fileInfo{path.Base(name), stat}, nil
		}).needs(wire.ExtUploads))
}
