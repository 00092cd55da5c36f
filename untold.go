package usftp

import (
	"cmp"
	"errors"
	"io/fs"
	"path"

	"github.com/usftp/usftp/wire"
)

// Some hosts do not describe a path: drop boxes refuse STAT, LSTAT or both, and some servers answer
// FAILURE for a name that does not exist, or even OK. Then other requests may help.

// untold reports whether an answer leaves open whether a path exists, and its type.
func untold(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return !errors.Is(status, fs.ErrNotExist)
	}
	reply, ok := errors.AsType[*ProtocolError](err)
	return ok && !reply.Ended
}

// Find implements private.Client.
func (c privateClient) Find(name string) (fs.FileInfo, error) {
	info, refusal := c.Stat(name)
	if !untold(refusal) {
		return info, refusal
	}
	own, err := c.Lstat(name)
	if err == nil && isLink(own) {
		real, realErr := c.RealPath(name)
		if realErr != nil {
			return nil, cmp.Or(c.fatal(realErr), refusal)
		}
		own, err = c.Lstat(real)
	}
	switch {
	case untold(err):
		return c.listed(name, refusal)
	case err == nil && isLink(own):
		return nil, refusal
	}
	return own, err
}

// lookAgain looks at a path whose LSTAT was refused, without following a link.
func (c privateClient) lookAgain(name string, refusal error) (fs.FileInfo, error) {
	to, err := c.ReadLink(name)
	switch {
	case err == nil:
		return linkInfo(name, to), nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported):
		return nil, refusal // it may be a link all the same
	}
	info, err := c.Stat(name)
	if untold(err) {
		return c.listed(name, refusal)
	}
	return info, err
}

// listed describes a directory that can be listed. For anything else it returns the refusal.
func (c privateClient) listed(name string, refusal error) (fs.FileInfo, error) {
	for _, err := range c.Entries(name) {
		if err != nil {
			return nil, cmp.Or(c.fatal(err), refusal)
		}
		break
	}
	return fileInfo{path.Base(name), &FileStat{Mode: typeDir}}, nil
}

// linkInfo describes a link from nothing but its text.
func linkInfo(name, to string) fs.FileInfo {
	return fileInfo{path.Base(name), &FileStat{Size: uint64(len(to)), Mode: 0o120777,
		present: wire.AttrSize | wire.AttrPermissions}}
}
