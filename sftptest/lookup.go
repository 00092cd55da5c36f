package sftptest

import (
	"path"
	"strings"

	"github.com/usftp/usftp/wire"
)

// maxLinks limits the symbolic links that a path may lead through, as on Linux.
const maxLinks = 40

// place is the place that a path leads to: a directory entry, which may be free.
type place struct {
	dir  *node // nil for the root itself
	base string
	node *node  // nil when there is none
	path string // absolute, without symbolic links in its directories
}

// lookup returns the node at a path. It and the functions below are called with the lock held.
func (f *Files) lookup(name string, follow bool) (*node, wire.Code) {
	p, code := f.find(name, follow)
	if code == wire.OK && p.node == nil {
		code = wire.NoSuchFile
	}
	return p.node, code
}

// find resolves a path as POSIX does: ".." is resolved where it stands, after the symbolic links
// before it. The last element need not exist; if it is a symbolic link it is followed only if
// follow is set.
func (f *Files) find(name string, follow bool) (place, wire.Code) {
	if !strings.HasPrefix(name, "/") {
		name = f.home + "/" + name
	}
	at := place{node: f.root, path: "/"}
	trail := []place{at} // the directories from the root down
	rest := strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		element := rest[0]
		rest = rest[1:]
		if element == "" || element == "." {
			continue
		}
		dir := trail[len(trail)-1]
		if element == ".." {
			if len(trail) > 1 {
				trail = trail[:len(trail)-1]
			}
			continue
		}
		next := place{dir: dir.node, base: element, node: dir.node.children[element],
			path: path.Join(dir.path, element)}
		last := strings.Join(rest, "") == "" // only slashes follow
		switch {
		case next.node == nil && last:
			return next, wire.OK
		case next.node == nil:
			return next, wire.NoSuchFile
		case next.node.isSymlink() && (!last || follow || len(rest) > 0):
			if links++; links > maxLinks {
				return next, wire.LinkLoop
			}
			rest = append(strings.Split(next.node.target, "/"), rest...)
			if strings.HasPrefix(next.node.target, "/") {
				trail = trail[:1]
			}
		case next.node.isDir():
			trail = append(trail, next)
		case len(rest) > 0:
			return next, wire.NotADirectory
		default:
			return next, wire.OK
		}
	}
	return trail[len(trail)-1], wire.OK
}

// remove removes a name; a directory must be empty, and is removed only if dir is set.
func (f *Files) remove(name string, dir bool) wire.Code {
	p, code := f.find(name, false)
	switch {
	case code != wire.OK:
		return code
	case p.node == nil:
		return wire.NoSuchFile
	case p.dir == nil:
		return wire.Failure
	case dir && !p.node.isDir():
		return wire.NotADirectory
	case !dir && p.node.isDir():
		return wire.Failure
	case len(p.node.children) > 0:
		return wire.DirNotEmpty
	}
	delete(p.dir.children, p.base)
	p.node.links--
	return wire.OK
}

// put gives a node a new name, which must be free.
func (f *Files) put(name string, n *node) wire.Code {
	p, code := f.find(name, false)
	switch {
	case code != wire.OK:
		return code
	case p.node != nil:
		return wire.FileAlreadyExists
	}
	p.dir.children[p.base] = n
	return wire.OK
}

// rename moves a name. It replaces an existing target only if replace is set, as rename(2) does.
func (f *Files) rename(oldName, newName string, replace, follow bool) wire.Code {
	from, code := f.find(oldName, follow)
	if code != wire.OK {
		return code
	}
	to, code := f.find(newName, follow)
	switch {
	case code != wire.OK:
		return code
	case from.node == nil:
		return wire.NoSuchFile
	case from.dir == nil || to.dir == nil:
		return wire.Failure
	case to.node != nil && !replace:
		return wire.FileAlreadyExists
	case to.node == from.node:
		return wire.OK
	case from.node.isDir() && strings.HasPrefix(to.path+"/", from.path+"/"):
		return wire.BadMessage // EINVAL
	case to.node != nil && from.node.isDir() && !to.node.isDir():
		return wire.NotADirectory
	case to.node != nil && !from.node.isDir() && to.node.isDir():
		return wire.Failure // EISDIR
	case to.node != nil && len(to.node.children) > 0:
		return wire.DirNotEmpty
	}
	if to.node != nil {
		to.node.links--
	}
	delete(from.dir.children, from.base)
	to.dir.children[to.base] = from.node
	return wire.OK
}
