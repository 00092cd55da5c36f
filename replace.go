package usftp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/usftp/usftp/wire"
)

// This file replaces names without following links, as rename(2) does. Most servers pass a RENAME
// on to that. ProFTPD's mod_sftp (1.3.8) resolves both paths first: renaming a link moves the file
// that it leads to, and a file renamed to the name of a link replaces the file that the link leads
// to. Its LSTAT follows links whose target exists, and READLINK answers with a resolved path,
// though only for links. REMOVE and SYMLINK follow no link there. So on servers that may do this,
// READLINK finds the links; a link is removed before another file gets its name, and made again
// rather than renamed.

// knowsLinks reports whether a server is known to follow no link where it must not.
func (s *session) knowsLinks() bool { return s.listsAhead || s.offered(wire.ExtBeneath) }

func (c privateClient) KnowsLinks() bool { return c.knowsLinks() }

// LinksFromLogin implements private.Client.
func (c privateClient) LinksFromLogin() bool { return c.linksFrom.Load() == linksFromLogin }

// ResolvesLinks implements private.Client. ProFTPD's mod_sftp does it, and Go's pkg/sftp where it
// serves another backend than the machine's files.
func (c privateClient) ResolvesLinks() bool {
	version := c.options.serverVersion
	return strings.Contains(version, "mod_sftp") || strings.Contains(version, "SFTPGo") ||
		version == "SSH-2.0-Go"
}

// OnWindows implements private.Client. Microsoft's port of OpenSSH does it.
func (c privateClient) OnWindows() bool {
	return strings.Contains(c.options.serverVersion, "OpenSSH_for_Windows")
}

func (c privateClient) Look(name string) (fs.FileInfo, error) { return c.StartLook(name)() }

func (c privateClient) StartLook(name string) (wait func() (fs.FileInfo, error)) {
	return c.startLook(name, 0)
}

// startLook is like StartLook. kind is the file's type if a listing has told it, or 0.
func (c privateClient) startLook(name string, kind uint32) (wait func() (fs.FileInfo, error)) {
	looked := start(c.ctx, c.session.statOf("lstat", wire.TypeLstat, name, kind))
	look := func() (fs.FileInfo, error) {
		info, err := looked.Wait()
		if untold(err) {
			return c.lookAgain(name, err)
		}
		return info, err
	}
	if c.knowsLinks() {
		return look
	}
	leads := c.Async().ReadLink(name)
	return func() (fs.FileInfo, error) {
		info, err := look()
		to, linkErr := leads.Wait()
		if err == nil && linkErr != nil {
			if err = c.fatal(linkErr); err != nil { // it may be a link
				return nil, err
			}
		}
		if err != nil || linkErr != nil || isLink(info) || path.Clean(to) == path.Clean(name) {
			return info, err
		}
		return linkInfo(name, to), nil
	}
}

// lookAll looks at many listed files, in a few round trips. It calls each once for each file.
func (c privateClient) lookAll(files []*File, each func(f *File, info fs.FileInfo, err error)) {
	for some := range slices.Chunk(files, defaultBatch) {
		looks := make([]func() (fs.FileInfo, error), len(some))
		for i, f := range some {
			looks[i] = c.startLook(f.path, f.attrs.Mode&typeMask)
		}
		for i, look := range looks {
			info, err := look()
			each(some[i], info, err)
		}
	}
}

func isLink(info fs.FileInfo) bool { return info.Mode()&fs.ModeSymlink != 0 }

func (c privateClient) Move(oldname, newname string, replace bool) error {
	rename := c.Rename
	if replace && c.HasPosixRename() {
		rename = c.PosixRename
	}
	if c.knowsLinks() {
		err := rename(oldname, newname)
		if replace && errors.Is(err, fs.ErrExist) {
			if there, err := c.Look(newname); err == nil && isLink(there) {
				return c.overLink(newname, func() error { return c.Rename(oldname, newname) })
			}
		}
		return err
	}
	look := c.StartLook(oldname)
	there, thereErr := c.Look(newname)
	moved, err := look()
	fromLink, toLink := err == nil && isLink(moved), thereErr == nil && isLink(there)
	failed := func(err error) error {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	if ended := cmp.Or(c.fatal(err), c.fatal(thereErr)); ended != nil {
		return ended
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return rename(oldname, newname)
	case thereErr == nil && !replace && !strings.EqualFold(oldname, newname):
		return failed(fs.ErrExist) // the RENAME of many servers would replace it
	case err != nil, !fromLink && !toLink:
		return rename(oldname, newname)
	case thereErr == nil && there.IsDir():
		return failed(syscall.EISDIR)
	case !fromLink:
		return c.overLink(newname, func() error { return c.Rename(oldname, newname) })
	}
	text, err := c.linkText(oldname)
	same := false
	switch {
	case err != nil:
	case toLink:
		err = c.overLink(newname, func() error {
			_, err := c.Look(oldname)
			same = errors.Is(err, fs.ErrNotExist) // another spelling of one name
			return c.Symlink(text, newname)
		})
	default:
		beside := path.Join(path.Dir(newname), "."+path.Base(newname)+".usftp-"+
			strconv.FormatUint(rand.Uint64(), 36))
		err = c.ReplaceByLink(text, newname, beside, beside+"~")
	}
	if err == nil && !same {
		err = c.removeMoved(oldname, newname, thereErr != nil)
	}
	return err
}

// removeMoved removes a link that has another name now. Erlang's server removes no link to a
// directory; then the new name goes again, if it was free before.
func (c privateClient) removeMoved(oldname, newname string, wasFree bool) error {
	err := c.do(c.removeFile(oldname))
	status, refused := errors.AsType[*StatusError](err)
	if !refused || errors.Is(err, fs.ErrNotExist) || wasFree && c.do(c.removeFile(newname)) == nil {
		return err
	}
	return &os.LinkError{Op: "rename", Old: oldname, New: newname, // no refusal: half of it was done
		Err: fmt.Errorf("both are the link now: %s", status.Error())}
}

func (c privateClient) ReplaceByLink(text, name, temporary, aside string) error {
	if c.knowsLinks() && c.HasPosixRename() {
		err := c.Symlink(text, temporary)
		if err == nil {
			if err = c.PosixRename(temporary, name); err != nil {
				left := c.do(c.removeFile(temporary))
				if left != nil && !errors.Is(left, fs.ErrNotExist) {
					err = fmt.Errorf("%w; the new link is still called %s", err, temporary)
				}
			}
		}
		return err
	}
	there, err := c.Look(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.Symlink(text, name)
	case err != nil:
		return err
	case isLink(there):
		return c.overLink(name, func() error { return c.Symlink(text, name) })
	case there.IsDir():
		return &os.LinkError{Op: "symlink", Old: text, New: name, Err: syscall.EISDIR}
	}
	err = c.Rename(name, aside)
	if err == nil {
		err = c.Symlink(text, name)
	} else if c.ctx.Err() == nil { // otherwise it may have been renamed
		return err
	}
	if err != nil {
		late, done := c.late()
		defer done()
		if back := late.Rename(aside, name); back != nil && !errors.Is(back, fs.ErrNotExist) {
			err = fmt.Errorf("%w; what it should have replaced is now called %s", err, aside)
		}
		return err
	}
	if err := c.do(c.removeFile(aside)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; the link was made, and what it replaced is now called %s", err,
			aside)
	}
	return nil
}

// overLink removes a link and calls replace to reuse its name. If that fails it makes the link
// again, even if the caller's context has ended meanwhile.
func (c privateClient) overLink(name string, replace func() error) error {
	text, err := c.linkText(name)
	if errors.Is(err, fs.ErrNotExist) {
		return replace()
	}
	if err != nil {
		return err
	}
	switch err = c.do(c.removeFile(name)); {
	case errors.Is(err, fs.ErrNotExist):
		return replace()
	case err == nil:
		if err = replace(); err == nil {
			return nil
		}
	case c.ctx.Err() == nil: // otherwise it may have been removed
		return err
	}
	late, done := c.late()
	defer done()
	if late.Symlink(text, name) != nil {
		if _, linkErr := late.ReadLink(name); linkErr != nil { // not restored, nor still there
			err = fmt.Errorf("%w; %s was a link to %s, which is removed", err, name, text)
		}
	}
	return err
}

// late returns a client that undoes half of a step, even if the caller's context has ended.
func (c privateClient) late() (*Client, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 5*time.Second)
	return c.WithContext(ctx), cancel
}

func (c privateClient) LinksTo(name, have, want string) bool { return c.linksTo(name, have, want) }

// linksTo reports whether a link means want. have is READLINK's answer.
func (c *Client) linksTo(name, have, want string) bool {
	if have == want || c.knowsLinks() {
		return have == want
	}
	dir, have, err := c.resolvedLink(name)
	if !path.IsAbs(want) {
		want = path.Join(dir, want)
	}
	return err == nil && path.IsAbs(have) && path.Clean(have) == path.Clean(want)
}

// linkText returns the text of a link or, if READLINK does not tell it, a text with which a link
// elsewhere leads to the same place.
func (c *Client) linkText(name string) (string, error) {
	text, err := c.ReadLink(name)
	if err != nil || c.knowsLinks() || path.IsAbs(text) {
		return text, err
	}
	_, text, err = c.resolvedLink(name)
	return text, err
}

// resolvedLink reads a link by its directory's absolute path, which it returns, too. A server that
// resolves the link's text then answers with an absolute path.
func (c *Client) resolvedLink(name string) (dir, text string, err error) {
	if dir, err = c.RealPath(path.Dir(name)); path.IsAbs(name) && untold(err) {
		dir, err = path.Dir(name), nil // the host refuses REALPATH
	}
	if err == nil {
		text, err = c.ReadLink(path.Join(dir, path.Base(name)))
	}
	return dir, text, err
}
