package usftp

import (
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Stat asks for the attributes of the file at name, following symbolic links. The result's Sys is a [*FileStat]. One round trip.
func (c *Client) Stat(name string) (fs.FileInfo, error) {
	return run(c.ctx, c.session, c.statOperation("stat", wire.TypeStat, name))
}

// Lstat is Stat for the file itself where it is a symbolic link. One round trip.
func (c *Client) Lstat(name string) (fs.FileInfo, error) {
	return run(c.ctx, c.session, c.statOperation("lstat", wire.TypeLstat, name))
}

func (s *session) statOperation(op string, t wire.Type, name string) operation[fs.FileInfo] {
	call := s.request(wire.TypeAttrs)
	call.Request = wire.PathRequest{Type: t, Path: name}.Append(call.Scratch(), 0)
	return operation[fs.FileInfo]{name: op, path: name, call: call, result: func(call *conn.Call) (fs.FileInfo, error) {
		stat, err := attrsReply(call)
		return fileInfo{path.Base(name), stat}, err
	}}
}

func attrsReply(call *conn.Call) (*FileStat, error) {
	var reply wire.AttrsReply
	if err := reply.Parse(call.Body); err != nil {
		return nil, parse(err)
	}
	return newFileStat(&reply.Attrs), nil
}

// Remove removes the file, or the empty directory, at name. One round trip for a file, two for a directory.
func (c *Client) Remove(name string) error {
	err := c.simple("remove", name, wire.PathRequest{Type: wire.TypeRemove, Path: name})
	if err == nil || errors.Is(err, fs.ErrNotExist) || c.conn.Err() != nil || c.ctx.Err() != nil {
		return err
	}
	// The protocol has one request for files and another for directories, and no code that says "it is a directory" (OpenSSH
	// answers FAILURE, others PERMISSION_DENIED): os.Remove tries both, and reports the more telling error.
	if c.simple("remove", name, wire.PathRequest{Type: wire.TypeRmdir, Path: name}) == nil {
		return nil
	}
	return err
}

// RemoveDirectory removes the empty directory at name. One round trip.
func (c *Client) RemoveDirectory(name string) error {
	return c.simple("rmdir", name, wire.PathRequest{Type: wire.TypeRmdir, Path: name})
}

// Mkdir makes a directory, with the permissions that the server gives new ones. One round trip.
func (c *Client) Mkdir(name string) error {
	return c.simple("mkdir", name, wire.PathAttrs{Type: wire.TypeMkdir, Path: name})
}

// Rename gives a file or directory a new name. By draft-02, section 6.5, it fails where the new name exists; some servers replace it
// all the same. One round trip. See [Client.PosixRename].
func (c *Client) Rename(oldname, newname string) error {
	return c.simpleLink("rename", oldname, newname, wire.Rename{OldPath: oldname, NewPath: newname})
}

// PosixRename gives a file or directory a new name and replaces a file that has it, in one step, as rename(2) does. It needs
// posix-rename@openssh.com; without it the error is one for which errors.Is(err, errors.ErrUnsupported) holds. One round trip.
func (c *Client) PosixRename(oldname, newname string) error {
	return c.simpleLink("posix-rename", oldname, newname, wire.PosixRename{OldPath: oldname, NewPath: newname})
}

// HasPosixRename tells whether the server offers posix-rename@openssh.com.
func (c *Client) HasPosixRename() bool { return c.offers[wire.ExtPosixRename] == "1" }

// Chmod sets the permissions of the file at name, following symbolic links. One round trip.
func (c *Client) Chmod(name string, mode fs.FileMode) error {
	return c.setstat("chmod", name, wire.Attrs{Flags: wire.AttrPermissions, Permissions: wire.PermissionBits(mode)})
}

// Chtimes sets the times of the last access and modification, following symbolic links. The protocol has whole seconds, from 1970 to
// 2106; times outside of that are an error for which errors.Is(err, fs.ErrInvalid) holds. One round trip.
func (c *Client) Chtimes(name string, atime, mtime time.Time) error {
	attrs, err := timeAttrs(atime, mtime)
	if err != nil {
		return &fs.PathError{Op: "chtimes", Path: name, Err: err}
	}
	return c.setstat("chtimes", name, attrs)
}

func timeAttrs(atime, mtime time.Time) (wire.Attrs, error) {
	a, m := atime.Unix(), mtime.Unix()
	if a < 0 || m < 0 || a > 1<<32-1 || m > 1<<32-1 {
		return wire.Attrs{}, errTimeRange
	}
	return wire.Attrs{Flags: wire.AttrACModTime, ATime: uint32(a), MTime: uint32(m)}, nil
}

// errTimeRange says that a time cannot travel.
var errTimeRange error = timeRangeError{}

type timeRangeError struct{}

func (timeRangeError) Error() string { return "SFTP has times from 1970 to 2106 only" }
func (timeRangeError) Unwrap() error { return fs.ErrInvalid }

func (c *Client) setstat(op, name string, attrs wire.Attrs) error {
	return c.simple(op, name, wire.PathAttrs{Type: wire.TypeSetstat, Path: name, Attrs: attrs})
}

// RealPath returns the absolute, cleaned path that the server makes of name; "." is where relative paths start. One round trip.
func (c *Client) RealPath(name string) (string, error) {
	return run(c.ctx, c.session, c.pathOperation("realpath", wire.TypeRealpath, name))
}

// ReadLink returns the target of the symbolic link at name. One round trip.
func (c *Client) ReadLink(name string) (string, error) {
	return run(c.ctx, c.session, c.pathOperation("readlink", wire.TypeReadlink, name))
}

// pathOperation is a request for a path whose reply is a NAME of one entry.
func (s *session) pathOperation(op string, t wire.Type, name string) operation[string] {
	call := s.request(wire.TypeName)
	call.Request = wire.PathRequest{Type: t, Path: name}.Append(call.Scratch(), 0)
	return operation[string]{name: op, path: name, call: call, result: func(call *conn.Call) (string, error) {
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
	}}
}

// appender is a message that can be appended as a packet.
type appender interface {
	Append(b []byte, id uint32) []byte
}

// statusOperation is a request whose good answer is success.
func (s *session) statusOperation(op, name, newname string, message appender) operation[struct{}] {
	call := s.request(wire.TypeStatus)
	call.Request = message.Append(call.Scratch(), 0)
	return operation[struct{}]{name: op, path: name, newPath: newname, call: call}
}

func (c *Client) simple(op, name string, message appender) error {
	return c.simpleLink(op, name, "", message)
}

func (c *Client) simpleLink(op, oldname, newname string, message appender) error {
	_, err := run(c.ctx, c.session, c.statusOperation(op, oldname, newname, message))
	return err
}
