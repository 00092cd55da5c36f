package usftp

import (
	"io/fs"
	"math"
	"time"

	"github.com/usftp/usftp/wire"
)

// Chmod sets the permissions of the file at name, following symbolic links: the nine bits, setuid,
// setgid and sticky. One round trip.
func (c *Client) Chmod(name string, mode fs.FileMode) error {
	return c.change(c.setstat("chmod", name, toMode(mode)))
}

// Chown sets the numbers of a file's owner and group, following symbolic links. Both travel; a
// number below 0 or above 2^32-1 is an error for which errors.Is(err, fs.ErrInvalid) holds. One
// round trip.
func (c *Client) Chown(name string, uid, gid int) error {
	return c.change(c.setstat("chown", name, toOwner(uid, gid)))
}

// Chtimes sets the times of the last access and modification, following symbolic links. The
// protocol has whole seconds, from 1970 to 2106; times outside of that are an error for which
// errors.Is(err, fs.ErrInvalid) holds. One round trip.
func (c *Client) Chtimes(name string, atime, mtime time.Time) error {
	return c.change(c.setstat("chtimes", name, toTimes(atime, mtime)))
}

// Truncate sets the size of the file at name, in bytes; what is added reads as zeros. One round
// trip.
func (c *Client) Truncate(name string, size int64) error {
	c.changed(name)
	defer c.changed(name)
	return c.change(c.setstat("truncate", name, toSize(size)))
}

// SetExtendedData sets attributes that the protocol does not define (draft-02, section 5), by name
// and value. One round trip.
func (c *Client) SetExtendedData(name string, extended []StatExtended) error {
	return c.change(c.setstat("setstat", name, toExtended(extended)))
}

// Lchmod is Chmod for a symbolic link itself. It needs lsetstat@openssh.com (OpenSSH's PROTOCOL,
// section 4.7), or else errors.Is(err, errors.ErrUnsupported) holds. Linux refuses it for links.
// One round trip.
func (c *Client) Lchmod(name string, mode fs.FileMode) error {
	return c.change(c.lsetstat("lchmod", name, toMode(mode)))
}

// Lchown is Chown for a symbolic link itself. It needs lsetstat@openssh.com, or else errors.Is(err,
// errors.ErrUnsupported) holds. One round trip.
func (c *Client) Lchown(name string, uid, gid int) error {
	return c.change(c.lsetstat("lchown", name, toOwner(uid, gid)))
}

// Lchtimes is Chtimes for a symbolic link itself. It needs lsetstat@openssh.com, or else
// errors.Is(err, errors.ErrUnsupported) holds. One round trip.
func (c *Client) Lchtimes(name string, atime, mtime time.Time) error {
	return c.change(c.lsetstat("lchtimes", name, toTimes(atime, mtime)))
}

func (c *Client) change(op operation[none]) error {
	_, err := run(c.ctx, op)
	return err
}

// setstat changes attributes by path (draft-02, section 6.9).
func (s *session) setstat(op, name string, to change) operation[none] {
	if to.err != nil {
		return operation[none]{session: s, name: op, path: name, err: to.err}
	}
	return s.command(op, name, wire.PathAttrs{Type: wire.TypeSetstat, Path: name, Attrs: to.Attrs})
}

// lsetstat changes attributes by path without following a link.
func (s *session) lsetstat(op, name string, to change) operation[none] {
	if to.err != nil {
		return operation[none]{session: s, name: op, path: name, err: to.err}
	}
	return s.command(op, name, wire.Lsetstat{Path: name, Attrs: to.Attrs}).needs(wire.ExtLsetstat)
}

// change is what attributes are to become, or why they cannot.
type change struct {
	wire.Attrs
	err error
}

func toMode(mode fs.FileMode) change {
	return change{Attrs: wire.Attrs{Flags: wire.AttrPermissions,
		Permissions: wire.PermissionBits(mode)}}
}

func toOwner(uid, gid int) change {
	if uid < 0 || gid < 0 || int64(uid) > math.MaxUint32 || int64(gid) > math.MaxUint32 {
		return change{err: fs.ErrInvalid}
	}
	return change{Attrs: wire.Attrs{Flags: wire.AttrUIDGID, UID: uint32(uid), GID: uint32(gid)}}
}

func toSize(size int64) change {
	if size < 0 {
		return change{err: fs.ErrInvalid}
	}
	return change{Attrs: wire.Attrs{Flags: wire.AttrSize, Size: uint64(size)}}
}

func toExtended(extended []StatExtended) change {
	to := change{Attrs: wire.Attrs{Flags: wire.AttrExtended}}
	for _, e := range extended {
		to.Extended = append(to.Extended, wire.ExtensionPair{Name: e.ExtType, Data: e.ExtData})
	}
	return to
}

func toTimes(atime, mtime time.Time) change {
	a, m := atime.Unix(), mtime.Unix()
	if a < 0 || m < 0 || a > math.MaxUint32 || m > math.MaxUint32 {
		return change{err: errTimeRange}
	}
	return change{Attrs: wire.Attrs{Flags: wire.AttrACModTime, ATime: uint32(a), MTime: uint32(m)}}
}

// errTimeRange says that a time cannot travel.
var errTimeRange error = invalidError("SFTP has times from 1970 to 2106 only")
