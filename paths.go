package usftp

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Mkdir makes a directory with the server's default permissions. If the name exists the error
// matches [fs.ErrExist]. It takes one round trip, and one more after a refusal that does not say
// why.
func (c *Client) Mkdir(name string) error {
	return c.do(c.mkdir(name, wire.Attrs{}).orExists(name))
}

// MkdirPerm is [Client.Mkdir] with permissions, to which the server applies its umask.
func (c *Client) MkdirPerm(name string, perm fs.FileMode) error {
	return c.do(c.mkdir(name, toMode(perm).Attrs).orExists(name))
}

func (s *session) mkdir(name string, attrs wire.Attrs) operation[none] {
	message := wire.PathAttrs{Type: wire.TypeMkdir, Path: name, Attrs: attrs}
	return s.command("mkdir", name, message)
}

// MkdirAll makes a directory and its missing parents with the server's default permissions. It does
// nothing if name is a directory. If name or a parent exists but is none, the error matches
// [syscall.ENOTDIR], as in package os. It takes one round trip if only name is missing. If parents are
// missing it takes two in all on servers that work in order, and on others one more for each of
// them.
func (c *Client) MkdirAll(name string) error {
	err := c.do(c.mkdir(name, wire.Attrs{}))
	if err == nil || c.fatal(err) != nil {
		return err
	}
	// Version 3 has no code for a name that exists; servers answer FAILURE, PERMISSION_DENIED and
	// others, and some answer these if a parent is missing. So look at the name itself.
	if !errors.Is(err, fs.ErrNotExist) {
		if there, err := c.madeAlready(name); there || err != nil {
			return err
		}
	}
	parents := above(name)
	if len(parents) == 0 {
		return err
	}
	if chainErr := c.mkdirChain(parents, name); chainErr == nil {
		return nil
	} else if errors.Is(err, fs.ErrNotExist) {
		err = chainErr
	}
	// another client may have made it at the same time
	if there, err := c.madeAlready(name); there || err != nil {
		return err
	}
	for _, parent := range parents { // OpenSSH's server says NO_SUCH_FILE if one is no directory
		if _, err := c.madeAlready(parent); err != nil {
			return err
		}
	}
	return err
}

// madeAlready reports whether a name is known to be a directory's. It fails if the name is known to
// be anything else's, or if nobody can be asked any more.
func (c *Client) madeAlready(name string) (bool, error) {
	info, err := privateClient{c}.Find(name)
	if err == nil && !info.IsDir() {
		return false, &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	}
	return err == nil, c.fatal(err)
}

// mkdirChain makes name and its missing parents.
func (c *Client) mkdirChain(parents []string, name string) error {
	missing := parents
	if !c.inOrder {
		missing = c.missing(parents)
	}
	made := make([]*Pending[none], len(missing))
	var refused error
	for i, parent := range missing {
		made[i] = start(c.ctx, c.mkdir(parent, wire.Attrs{}))
		if !c.inOrder {
			made[i].Wait() // the next one needs it
		}
	}
	err := c.do(c.mkdir(name, wire.Attrs{}))
	for _, p := range made {
		// Existing ones were refused too, which means nothing. If all of it failed, the first
		// refusal for lack of permission is the reason.
		if _, failed := p.Wait(); refused == nil && errors.Is(failed, fs.ErrPermission) {
			refused = failed
		}
	}
	if err != nil && errors.Is(err, fs.ErrNotExist) && refused != nil {
		return refused
	}
	return err
}

// missing returns the nested directories that do not exist. It takes one round trip.
func (c *Client) missing(dirs []string) []string {
	asked := make([]*Pending[fs.FileInfo], len(dirs))
	for i, dir := range dirs {
		asked[i] = start(c.ctx, c.stat("mkdir", wire.TypeStat, dir))
	}
	exist := 0
	for i, p := range asked {
		if _, err := p.Wait(); err == nil {
			exist = i + 1
		}
	}
	return dirs[exist:]
}

// above returns the parents of a name from the top, without the root and ".".
func above(name string) []string {
	var dirs []string
	for i := 1; i < len(name); i++ {
		if name[i] == '/' && name[i-1] != '/' && strings.Trim(name[i:], "/") != "" {
			if dir := name[:i]; dir != "." && dir != ".." {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// CreateTemp makes a new file in dir ("" is where relative paths start) and opens it for reading
// and writing, with mode 0600. The name is pattern with random digits in place of its last "*", or
// at the end if there is none. The caller must remove the file; one that appears after the client's
// context has ended is removed. It takes one round trip.
func (c *Client) CreateTemp(dir, pattern string) (*File, error) {
	var f *File
	err := tryNames("createtemp", dir, pattern, func(name string) (err error) {
		create := func(flag int) (*File, error) {
			op := NewFile(c, name).openWith(flag|os.O_CREATE|os.O_EXCL, 0o600)
			return run(c.ctx, op.unlessWanted(func() operation[none] { return c.removeFile(name) }))
		}
		if !c.noReadWrite.Load() {
			f, err = create(os.O_RDWR)
			if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) ||
				c.fatal(err) != nil {
				return err
			}
		}
		refusal := err
		if f, err = create(os.O_WRONLY); err != nil && refusal != nil {
			return refusal
		}
		return err
	})
	return f, err
}

// MkdirTemp makes a new directory in dir, with mode 0700, and returns its name; see
// [Client.CreateTemp].
func (c *Client) MkdirTemp(dir, pattern string) (string, error) {
	var made string
	err := tryNames("mkdirtemp", dir, pattern, func(name string) error {
		made = name
		return c.do(c.mkdir(name, toMode(0o700).Attrs).orExists(name).unlessWanted(
			func() operation[none] { return c.removeDirectory("rmdir", name) }))
	})
	if err != nil {
		return "", err
	}
	return made, nil
}

// mostNames limits the random names tried.
const mostNames = 1000

// tryNames tries random names until one does not exist.
func tryNames(op, dir, pattern string, try func(name string) error) error {
	if strings.Contains(pattern, "/") {
		return &fs.PathError{Op: op, Path: pattern, Err: errors.New("the pattern contains a slash")}
	}
	prefix, suffix := pattern, ""
	if i := strings.LastIndexByte(pattern, '*'); i >= 0 {
		prefix, suffix = pattern[:i], pattern[i+1:]
	}
	var err error
	for range mostNames {
		name := prefix + strconv.FormatUint(uint64(rand.Uint32()), 10) + suffix
		if err = try(path.Join(dir, name)); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// Rename renames a file or directory. If newname exists it fails (draft-02, section 6.5) and the
// error matches [fs.ErrExist], though some servers replace it; see [Client.PosixRename]. Some
// follow symbolic links at either name (ProFTPD's mod_sftp). It takes one round trip, and one more
// after a refusal that does not say why.
func (c *Client) Rename(oldname, newname string) error {
	return c.do(c.rename(oldname, newname))
}

// PosixRename renames a file or directory and atomically replaces a file at newname, like
// rename(2). It needs posix-rename@openssh.com (OpenSSH's PROTOCOL, section 4.3); without it the
// error matches [errors.ErrUnsupported]. It takes one round trip.
func (c *Client) PosixRename(oldname, newname string) error {
	return c.do(c.posixRename(oldname, newname))
}

// HasPosixRename reports whether the server offers posix-rename@openssh.com.
func (c *Client) HasPosixRename() bool { return c.offered(wire.ExtPosixRename) }

// Rename renames the file, like [Client.Rename]. Name returns the new name from then on.
func (f *File) Rename(newname string) error {
	return f.renamed(newname, f.do(f.session().rename(f.Name(), newname).after(f)))
}

// PosixRename renames the file, like [Client.PosixRename]. Name returns the new name from then on.
func (f *File) PosixRename(newname string) error {
	return f.renamed(newname, f.do(f.session().posixRename(f.Name(), newname).after(f)))
}

func (f *File) renamed(newname string, err error) error {
	if err == nil {
		f.mu.Lock()
		f.path = newname
		f.mu.Unlock()
		f.dropAhead() // it is known by the old name
	}
	return err
}

func (s *session) rename(oldname, newname string) operation[none] {
	return s.command2("rename", oldname, newname,
		wire.Rename{OldPath: oldname, NewPath: newname}).orExists(newname)
}

func (s *session) posixRename(oldname, newname string) operation[none] {
	return s.command2("posix-rename", oldname, newname,
		wire.PosixRename{OldPath: oldname, NewPath: newname}).needs(wire.ExtPosixRename)
}

// Link makes newname a hard link to the file at oldname. It needs hardlink@openssh.com (OpenSSH's
// PROTOCOL, section 4.5); without it the error matches [errors.ErrUnsupported]. If newname exists
// the error matches [fs.ErrExist]. It takes one round trip, and one more after a refusal that does
// not say why.
func (c *Client) Link(oldname, newname string) error {
	return c.do(c.link(oldname, newname))
}

func (s *session) link(oldname, newname string) operation[none] {
	op := s.command2("link", oldname, newname,
		wire.Hardlink{OldPath: oldname, NewPath: newname}).needs(wire.ExtHardlink)
	return op.orExists(newname)
}

// The order in which a server takes SYMLINK's two paths: draft-02, section 6.10, puts the link's
// own first; OpenSSH and the many that follow it put the target first (PROTOCOL, section 4.1).
const (
	symlinksUnknown int32 = iota
	symlinksTargetFirst
	symlinksLinkFirst
)

// symlinkOrder returns the order by the SSH server's version line. The protocol cannot tell.
func symlinkOrder(version string) int32 {
	for _, name := range []string{"OpenSSH", "paramiko", "SFTPGo", "mod_sftp", "Maverick"} {
		if strings.Contains(version, name) {
			return symlinksTargetFirst
		}
	}
	for _, name := range []string{"AsyncSSH", "VShell", "SSH Tectia", "Erlang", "Twisted", "ssh2js"} {
		if strings.Contains(version, name) {
			return symlinksLinkFirst
		}
	}
	return symlinksUnknown
}

// Symlink makes newname a symbolic link to oldname, like [os.Symlink]. Servers take the two paths
// in different orders, and some take a relative oldname to begin at the login directory. If the
// server is unknown, Symlink reads the link back and makes it again if it came out the wrong way
// round, or with an absolute path if it leads elsewhere. If newname exists the error matches
// [fs.ErrExist]. It takes one round trip, and a few more the first time on an unknown server.
func (c *Client) Symlink(oldname, newname string) error {
	if c.isBeneath(newname) {
		return c.do(c.symlink(oldname, newname, symlinksTargetFirst))
	}
	order := c.symlinks.Load()
	if order == symlinksUnknown {
		// In the other order SYMLINK would succeed, and make a link called oldname.
		_, err := c.Lstat(newname)
		if err == nil {
			return &os.LinkError{Op: "symlink", Old: oldname, New: newname,
				Err: &existsError{&StatusError{Code: uint32(wire.Failure)}}}
		}
		if err = c.fatal(err); err != nil {
			return err
		}
	}
	text := oldname
	if c.linksFrom.Load() == linksFromLogin {
		text = beside(newname, oldname)
	}
	err := c.do(c.symlink(text, newname, order))
	if err != nil || order != symlinksUnknown &&
		(c.linksFrom.Load() != linksFromUnknown || path.IsAbs(oldname)) {
		return err
	}
	made, readErr := c.ReadLink(newname)
	if readErr == nil && c.linksTo(newname, made, oldname) {
		c.symlinks.CompareAndSwap(symlinksUnknown, symlinksTargetFirst)
		// In the login directory there is no difference.
		if home, err := c.RealPath("."); err == nil && made == oldname && !path.IsAbs(oldname) &&
			path.IsAbs(newname) && path.Dir(path.Clean(newname)) != home {
			c.linksFrom.Store(linksFromThemselves)
		}
		return nil
	}
	there, missing := c.Lstat(newname)
	switch {
	case missing == nil && isLink(there) && !path.IsAbs(oldname) &&
		(readErr == nil || errors.Is(readErr, fs.ErrNotExist)):
		return c.symlinkFromLogin(oldname, newname, order)
	case order != symlinksUnknown || !errors.Is(missing, fs.ErrNotExist):
		return c.fatal(missing) // the server does not show the link, but reports success
	}
	// Only a new link at oldname that points to newname was made the wrong way round. Had it
	// existed before, SYMLINK would have failed; and had SYMLINK made newname, newname would exist.
	if target, err := c.ReadLink(oldname); err != nil || target != newname {
		return c.fatal(err)
	}
	if err := c.do(c.removeFile(oldname)); err != nil {
		return err
	}
	c.symlinks.Store(symlinksLinkFirst)
	return c.Symlink(oldname, newname)
}

// The directory from which a server takes a relative target of SYMLINK. The draft does not say that
// the target is text, so some servers resolve it like other paths.
const (
	linksFromUnknown int32 = iota
	linksFromThemselves
	linksFromLogin
)

// linksStart returns that directory by the SSH server's version line. Maverick's server cannot be
// tested: it resolves a link's text in the same way when the link is read.
func linksStart(version string) int32 {
	for _, name := range []string{"Erlang", "Maverick", "Twisted"} {
		if strings.Contains(version, name) {
			return linksFromLogin
		}
	}
	if symlinkOrder(version) == symlinksTargetFirst {
		return linksFromThemselves
	}
	return linksFromUnknown
}

// symlinkFromLogin makes a link again whose relative target was not taken as text, so that it leads
// elsewhere. It removes the link if that still leads to the wrong place.
func (c *Client) symlinkFromLogin(oldname, newname string, order int32) error {
	if err := c.do(c.removeFile(newname)); err != nil {
		return err
	}
	text := beside(newname, oldname)
	if err := c.do(c.symlink(text, newname, order)); err != nil {
		return err
	}
	made, err := c.ReadLink(newname)
	if err == nil && c.linksTo(newname, made, text) {
		c.symlinks.CompareAndSwap(symlinksUnknown, symlinksTargetFirst)
		c.linksFrom.Store(linksFromLogin)
		return nil
	}
	if err = cmp.Or(c.do(c.removeFile(newname)), err); c.fatal(err) != nil {
		return err
	}
	return &os.LinkError{Op: "symlink", Old: oldname, New: newname, Err: fmt.Errorf(
		"%w: the server makes links that lead elsewhere", ErrSSHFxOpUnsupported)}
}

// beside returns the path to which a link with this text leads.
func beside(link, text string) string {
	if path.IsAbs(text) {
		return text
	}
	return path.Join(path.Dir(link), text)
}

func (s *session) symlink(oldname, newname string, order int32) operation[none] {
	message := wire.Symlink{First: oldname, Second: newname}
	if order == symlinksLinkFirst && !s.isBeneath(newname) {
		message = wire.Symlink{First: newname, Second: oldname}
	}
	return s.command2("symlink", oldname, newname, message).orExists(newname)
}

// ReadLink returns the target of a symbolic link (draft-02, section 6.10). It takes one round trip.
func (c *Client) ReadLink(name string) (string, error) {
	return run(c.ctx, c.name("readlink", name,
		wire.PathRequest{Type: wire.TypeReadlink, Path: name}))
}

// RealPath returns the server's absolute, cleaned path of name; "." is where relative paths start
// (draft-02, section 6.11). It takes one round trip.
func (c *Client) RealPath(name string) (string, error) {
	return run(c.ctx, c.name("realpath", name,
		wire.PathRequest{Type: wire.TypeRealpath, Path: name}))
}

// Getwd returns the directory where relative paths start, usually the user's home. It takes one
// round trip.
func (c *Client) Getwd() (string, error) { return c.RealPath(".") }

// ExpandPath is like RealPath, but also expands a leading ~ or ~user. It needs
// expand-path@openssh.com (OpenSSH's PROTOCOL, section 4.9); without it the error matches
// [errors.ErrUnsupported]. It takes one round trip.
func (c *Client) ExpandPath(name string) (string, error) {
	return run(c.ctx, c.name("expand-path", name,
		wire.ExtendedPath{Name: wire.ExtExpandPath, Path: name}).needs(wire.ExtExpandPath))
}

// HomeDirectory returns the home directory of a user; "" means the current one. It needs the
// extension home-directory (OpenSSH's PROTOCOL, section 4.11); without it the error matches
// [errors.ErrUnsupported]. It takes one round trip.
func (c *Client) HomeDirectory(user string) (string, error) {
	return run(c.ctx, c.name("home-directory", user,
		wire.ExtendedPath{Name: wire.ExtHomeDirectory, Path: user}).needs(wire.ExtHomeDirectory))
}

// Join joins path elements like [path.Join]: SFTP uses slashes everywhere.
func (c *Client) Join(elem ...string) string { return path.Join(elem...) }

// name returns a request that is answered by a NAME of one entry.
func (s *session) name(op, name string, message appender) operation[string] {
	return ask(s, op, name, wire.TypeName, message, func(call *conn.Call) (string, error) {
		r, err := wire.NewNameReader(call.Body)
		if err != nil {
			return "", parse(err)
		}
		if r.Remaining() != 1 {
			return "", &ProtocolError{What: "not exactly one name in the reply"}
		}
		var n wire.Name
		if err := r.Next(&n); err != nil {
			return "", parse(err)
		}
		return s.decodePath(n.Filename)
	})
}
