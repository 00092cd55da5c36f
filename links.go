package usftp

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/usftp/usftp/wire"
)

// Link makes newname another name of the file at oldname. It needs hardlink@openssh.com (OpenSSH's
// PROTOCOL, section 4.5), or else errors.Is(err, errors.ErrUnsupported) holds; where newname is
// taken, errors.Is(err, fs.ErrExist) does. One round trip, and one more after a refusal that does
// not say why.
func (c *Client) Link(oldname, newname string) error {
	_, err := run(c.ctx, c.link(oldname, newname))
	return err
}

func (s *session) link(oldname, newname string) operation[none] {
	op := s.command2("link", oldname, newname,
		wire.Hardlink{OldPath: oldname, NewPath: newname}).needs(wire.ExtHardlink)
	return op.orExists(newname)
}

// The order in which a server takes SYMLINK's two paths: draft-02, section 6.10, has the link's own
// first, OpenSSH and the many that follow it the target (PROTOCOL, section 4.1).
const (
	symlinksUnknown int32 = iota
	symlinksTargetFirst
	symlinksLinkFirst
)

// symlinkOrder tells the order by the SSH server's version line. Nobody says it in the protocol.
func symlinkOrder(version string) int32 {
	for _, name := range []string{"OpenSSH", "paramiko", "SFTPGo", "mod_sftp"} {
		if strings.Contains(version, name) {
			return symlinksTargetFirst
		}
	}
	for _, name := range []string{"AsyncSSH", "VShell", "SSH Tectia"} {
		if strings.Contains(version, name) {
			return symlinksLinkFirst
		}
	}
	return symlinksUnknown
}

// Symlink makes newname a symbolic link to oldname, as os.Symlink does. Servers take the two paths
// in different orders; where the server is not known, the link is read back and, if it came out the
// wrong way round, made again. Where newname is taken, errors.Is(err, fs.ErrExist) holds. One round
// trip, three the first time on a server that is not known.
func (c *Client) Symlink(oldname, newname string) error {
	order := c.symlinks.Load()
	_, err := run(c.ctx, c.symlink(oldname, newname, order))
	if err != nil || order != symlinksUnknown {
		return err
	}
	if target, err := c.ReadLink(newname); err == nil && target == oldname {
		c.symlinks.Store(symlinksTargetFirst)
		return nil
	}
	// Only a link that is there, that was not there before and that points to newname is taken for
	// one that was made the wrong way round. Had it been there before, SYMLINK would have failed;
	// and had SYMLINK made newname, it would be there.
	_, missing := c.Lstat(newname)
	if target, err := c.ReadLink(oldname); err != nil || target != newname ||
		!errors.Is(missing, fs.ErrNotExist) {
		return nil // the server does not say what it has made: it says that all is well
	}
	if _, err := run(c.ctx, c.removeFile(oldname)); err != nil {
		return err
	}
	c.symlinks.Store(symlinksLinkFirst)
	_, err = run(c.ctx, c.symlink(oldname, newname, symlinksLinkFirst))
	return err
}

func (s *session) symlink(oldname, newname string, order int32) operation[none] {
	message := wire.Symlink{First: oldname, Second: newname}
	if order == symlinksLinkFirst {
		message = wire.Symlink{First: newname, Second: oldname}
	}
	return s.command2("symlink", oldname, newname, message).orExists(newname)
}
