package usftp

import (
	"io/fs"
	"time"

	"github.com/usftp/usftp/wire"
)

// NewAttrs are attributes that a file or directory is to have. What its flags do not name stays as
// it is.
type NewAttrs struct {
	SetMode  bool
	Mode     fs.FileMode // the nine bits, setuid, setgid and sticky
	SetTimes bool
	Atime    time.Time // whole seconds, from 1970 to 2106
	Mtime    time.Time
	SetOwner bool
	UID, GID int
}

// change makes one of all of them: they travel in one request.
func (a *NewAttrs) change() change {
	var all change
	add := func(part change) {
		all.Flags |= part.Flags
		if all.err == nil {
			all.err = part.err
		}
	}
	if a.SetMode {
		part := toMode(a.Mode)
		all.Permissions = part.Permissions
		add(part)
	}
	if a.SetTimes {
		part := toTimes(a.Atime, a.Mtime)
		all.ATime, all.MTime = part.ATime, part.MTime
		add(part)
	}
	if a.SetOwner {
		part := toOwner(a.UID, a.GID)
		all.UID, all.GID = part.UID, part.GID
		add(part)
	}
	return all
}

// empty tells whether nothing is to be changed.
func (a NewAttrs) empty() bool { return !a.SetMode && !a.SetTimes && !a.SetOwner }

// SetAttrs gives the file at name several attributes at once, following symbolic links.
// errors.Is(err, fs.ErrInvalid) holds where one of them cannot travel; nothing is sent then. One
// round trip, none where nothing is to be set.
func (c *Client) SetAttrs(name string, attrs NewAttrs) error {
	if attrs.empty() {
		return nil
	}
	return c.change(c.setstat("setstat", name, attrs.change()))
}

// LSetAttrs is SetAttrs for a symbolic link itself. It needs lsetstat@openssh.com (OpenSSH's
// PROTOCOL, section 4.7), or else errors.Is(err, errors.ErrUnsupported) holds, as it does where a
// server cannot set a link's mode.
func (c *Client) LSetAttrs(name string, attrs NewAttrs) error {
	if attrs.empty() {
		return nil
	}
	return c.change(c.lsetstat("lsetstat", name, attrs.change()))
}

// SetAttrs gives the open file several attributes at once, as [Client.SetAttrs].
func (f *File) SetAttrs(attrs NewAttrs) error {
	if attrs.empty() {
		return nil
	}
	_, err := run(f.ctx, f.fsetstat("setstat", attrs.change()))
	return err
}

// MkdirPerm makes a directory with permissions, to which the server applies its umask. Where the
// name is taken, errors.Is(err, fs.ErrExist) holds. One round trip, and one more after a refusal
// that does not say why.
func (c *Client) MkdirPerm(name string, perm fs.FileMode) error {
	message := wire.PathAttrs{Type: wire.TypeMkdir, Path: name, Attrs: toMode(perm).Attrs}
	_, err := run(c.ctx, c.command("mkdir", name, message).orExists(name))
	return err
}
