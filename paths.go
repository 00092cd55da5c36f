package usftp

import (
	"errors"
	"io/fs"
	"path"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Stat asks for the attributes of the file at name, following symbolic links. The result's Sys is a
// [*FileStat]. One round trip.
func (c *Client) Stat(name string) (fs.FileInfo, error) {
	return run(c.ctx, c.stat("stat", wire.TypeStat, name))
}

// Lstat is Stat for the file itself where it is a symbolic link. One round trip.
func (c *Client) Lstat(name string) (fs.FileInfo, error) {
	return run(c.ctx, c.stat("lstat", wire.TypeLstat, name))
}

func (s *session) stat(op string, t wire.Type, name string) operation[fs.FileInfo] {
	return ask(s, op, name, wire.TypeAttrs, wire.PathRequest{Type: t, Path: name},
		func(call *conn.Call) (fs.FileInfo, error) {
			stat, err := attrsReply(call)
			if err != nil {
				return nil, err
			}
			return fileInfo{path.Base(name), stat}, nil
		})
}

func attrsReply(call *conn.Call) (*FileStat, error) {
	var reply wire.AttrsReply
	if err := reply.Parse(call.Body); err != nil {
		return nil, parse(err)
	}
	stat := newFileStat(&reply.Attrs)
	return &stat, nil
}

// Remove removes the file, or the empty directory, at name. It never follows a symbolic link. One
// round trip for a file, two for a directory.
func (c *Client) Remove(name string) error {
	_, err := run(c.ctx, c.remove(name))
	return err
}

// remove asks to remove a file, and then a directory. The protocol has one request for each, and no
// code that says "it is a directory" (OpenSSH answers FAILURE, others PERMISSION_DENIED): os.Remove
// tries both, and reports the more telling error.
func (s *session) remove(name string) operation[none] {
	op := s.removeFile(name)
	op.instead = func(refusal error) *operation[none] {
		if errors.Is(refusal, fs.ErrNotExist) {
			return nil
		}
		rmdir := s.removeDirectory("remove", name)
		rmdir.refused = refusal
		return &rmdir
	}
	return op
}

func (s *session) removeFile(name string) operation[none] {
	return s.command("remove", name, wire.PathRequest{Type: wire.TypeRemove, Path: name})
}

func (s *session) removeDirectory(op, name string) operation[none] {
	return s.command(op, name, wire.PathRequest{Type: wire.TypeRmdir, Path: name})
}

// RemoveDirectory removes the empty directory at name. One round trip.
func (c *Client) RemoveDirectory(name string) error {
	_, err := run(c.ctx, c.removeDirectory("rmdir", name))
	return err
}

// Mkdir makes a directory, with the permissions that the server gives new ones. Where the name is
// taken, errors.Is(err, fs.ErrExist) holds. One round trip, and one more after a refusal that does
// not say why.
func (c *Client) Mkdir(name string) error {
	_, err := run(c.ctx, c.mkdir(name).orExists(name))
	return err
}

func (s *session) mkdir(name string) operation[none] {
	return s.command("mkdir", name, wire.PathAttrs{Type: wire.TypeMkdir, Path: name})
}

// Rename gives a file or directory a new name. By draft-02, section 6.5, it fails where the new
// name exists, and then errors.Is(err, fs.ErrExist) holds; some servers replace it all the same.
// One round trip, and one more after a refusal that does not say why. See [Client.PosixRename].
func (c *Client) Rename(oldname, newname string) error {
	_, err := run(c.ctx, c.rename(oldname, newname))
	return err
}

func (s *session) rename(oldname, newname string) operation[none] {
	return s.command2("rename", oldname, newname,
		wire.Rename{OldPath: oldname, NewPath: newname}).orExists(newname)
}

// PosixRename gives a file or directory a new name and replaces a file that has it, in one step, as
// rename(2) does. It needs posix-rename@openssh.com (OpenSSH's PROTOCOL, section 4.3); without it
// the error is one for which errors.Is(err, errors.ErrUnsupported) holds. One round trip.
func (c *Client) PosixRename(oldname, newname string) error {
	_, err := run(c.ctx, c.posixRename(oldname, newname))
	return err
}

func (s *session) posixRename(oldname, newname string) operation[none] {
	return s.command2("posix-rename", oldname, newname,
		wire.PosixRename{OldPath: oldname, NewPath: newname}).needs(wire.ExtPosixRename)
}

// HasPosixRename tells whether the server offers posix-rename@openssh.com.
func (c *Client) HasPosixRename() bool { return c.offered(wire.ExtPosixRename) }

// RealPath returns the absolute, cleaned path that the server makes of name; "." is where relative
// paths start (draft-02, section 6.11). One round trip.
func (c *Client) RealPath(name string) (string, error) {
	return run(c.ctx, c.name("realpath", name,
		wire.PathRequest{Type: wire.TypeRealpath, Path: name}))
}

// Getwd returns the directory in which relative paths start, usually the user's home. One round
// trip.
func (c *Client) Getwd() (string, error) { return c.RealPath(".") }

// ReadLink returns the target of the symbolic link at name (draft-02, section 6.10). One round
// trip.
func (c *Client) ReadLink(name string) (string, error) {
	return run(c.ctx, c.name("readlink", name,
		wire.PathRequest{Type: wire.TypeReadlink, Path: name}))
}

// ExpandPath is RealPath that also expands a leading ~ or ~user. It needs expand-path@openssh.com
// (OpenSSH's PROTOCOL, section 4.9), or else errors.Is(err, errors.ErrUnsupported) holds. One round
// trip.
func (c *Client) ExpandPath(name string) (string, error) {
	return run(c.ctx, c.name("expand-path", name,
		wire.ExtendedPath{Name: wire.ExtExpandPath, Path: name}).needs(wire.ExtExpandPath))
}

// HomeDirectory returns the home directory of a user; "" is the user who asks. It needs the
// extension home-directory (OpenSSH's PROTOCOL, section 4.11), or else errors.Is(err,
// errors.ErrUnsupported) holds. One round trip.
func (c *Client) HomeDirectory(user string) (string, error) {
	return run(c.ctx, c.name("home-directory", user,
		wire.ExtendedPath{Name: wire.ExtHomeDirectory, Path: user}).needs(wire.ExtHomeDirectory))
}

// name is a request whose reply is a NAME of one entry.
func (s *session) name(op, name string, message appender) operation[string] {
	return ask(s, op, name, wire.TypeName, message, func(call *conn.Call) (string, error) {
		r, err := wire.NewNameReader(call.Body)
		if err != nil {
			return "", parse(err)
		}
		if r.Remaining() != 1 {
			return "", &ProtocolError{What: "not exactly one name in reply"}
		}
		var n wire.Name
		if err := r.Next(&n); err != nil {
			return "", parse(err)
		}
		return n.Filename, nil
	})
}

// Join joins path elements as [path.Join] does, with the slashes that SFTP has everywhere. No round
// trip.
func (c *Client) Join(elem ...string) string { return path.Join(elem...) }
