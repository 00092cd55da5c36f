package usftp

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/usftp/usftp/wire"
)

// errNotDirectory is why MkdirAll fails where something else is in the way.
var errNotDirectory = errors.New("not a directory")

// MkdirAll makes a directory and those above it that do not exist, with the permissions that the
// server gives new ones. Where name is a directory already it does nothing. One round trip where
// its parent exists and name does not; two in all where any number are missing, on servers that
// work strictly in order; on others one more for each that is missing.
func (c *Client) MkdirAll(name string) error {
	_, err := run(c.ctx, c.mkdir(name))
	if err == nil {
		return nil
	}
	if c.fatal(err) != nil {
		return err
	}
	parents := above(name)
	if errors.Is(err, fs.ErrNotExist) && len(parents) > 0 {
		err = c.mkdirChain(parents, name)
		if err == nil {
			return nil
		}
	}
	// Version 3 has no code that says "it exists already"; servers say FAILURE, PERMISSION_DENIED
	// and others. What counts is what is there now: perhaps somebody else made it at the same time.
	info, statErr := run(c.ctx, c.stat("mkdir", wire.TypeStat, name))
	switch {
	case statErr != nil:
		return err
	case !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: name, Err: errNotDirectory}
	}
	return nil
}

// mkdirChain makes the directories above name that do not exist, and it.
func (c *Client) mkdirChain(parents []string, name string) error {
	missing := parents
	if !c.inOrder {
		missing = c.missing(parents)
	}
	made := make([]*Pending[none], len(missing))
	var refused error
	for i, parent := range missing {
		made[i] = start(c.ctx, c.session, c.mkdir(parent))
		if !c.inOrder {
			made[i].Wait() // the next one needs it
		}
	}
	_, err := run(c.ctx, c.mkdir(name))
	for _, p := range made {
		// The refusals of those that exist say nothing. Where the whole failed, the first of the
		// others says why.
		if _, failed := p.Wait(); refused == nil && errors.Is(failed, fs.ErrPermission) {
			refused = failed
		}
	}
	if err != nil && errors.Is(err, fs.ErrNotExist) && refused != nil {
		return refused
	}
	return err
}

// missing returns those of the directories, which lie within each other, that do not exist. One
// round trip.
func (c *Client) missing(dirs []string) []string {
	asked := make([]*Pending[fs.FileInfo], len(dirs))
	for i, dir := range dirs {
		asked[i] = start(c.ctx, c.session, c.stat("mkdir", wire.TypeStat, dir))
	}
	exist := 0
	for i, p := range asked {
		if _, err := p.Wait(); err == nil {
			exist = i + 1
		}
	}
	return dirs[exist:]
}

// above returns the directories above a name, the topmost first, without the root and ".".
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
