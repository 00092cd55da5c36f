// Package memfs serves a tree of files that lives in memory: for tests, for demonstrations, and as
// an example of a backend.
package memfs

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// FS is a tree in memory. It implements every interface of package server that an FS may, except
// server.Beneather, server.HomeDirer and server.OwnerNamer, and is safe for concurrent use. Links
// are followed within the tree, absolute ones from its top. Modes are stored but not enforced.
type FS struct {
	mu    sync.RWMutex // guards everything but the contents of files
	root  *node
	space space
}

// New returns an empty tree whose files hold at most capacity bytes in total; writing more fails as
// on a full disk. A capacity of 0 means no limit.
func New(capacity int64) *FS {
	if capacity <= 0 {
		capacity = math.MaxInt64
	}
	f := new(FS)
	f.space.capacity = capacity
	f.space.left.Store(capacity)
	f.root = f.newNode(fs.ModeDir | 0o755)
	return f
}

// node is a file, directory or link.
type node struct {
	mode         fs.FileMode
	uid, gid     uint32
	atime, mtime time.Time
	links        int
	children     map[string]*node // of a directory
	target       string           // of a link
	content      *content         // of a file
}

func (f *FS) newNode(mode fs.FileMode) *node {
	now := time.Now()
	n := &node{mode: mode, atime: now, mtime: now, links: 1}
	switch {
	case mode.IsDir():
		n.children = map[string]*node{}
	case mode.IsRegular():
		n.content = &content{space: &f.space}
	}
	return n
}

// info is a snapshot of a node.
type info struct {
	name  string
	attrs wire.Attrs
	mtime time.Time
	node  *node // only its identity is used
	links int
}

// FileIdentity and LinkCount implement server.Linked.
func (i *info) FileIdentity() any { return i.node }
func (i *info) LinkCount() uint64 { return uint64(i.links) }

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return int64(i.attrs.Size) }
func (i *info) Mode() fs.FileMode  { return wire.FileMode(i.attrs.Permissions) }
func (i *info) ModTime() time.Time { return i.mtime }
func (i *info) IsDir() bool        { return i.Mode().IsDir() }
func (i *info) Sys() any           { return &i.attrs }

// describe returns a node's info. The caller holds the lock.
func (n *node) describe(name string) *info {
	i := &info{name: name, mtime: n.mtime, node: n, links: n.links, attrs: wire.Attrs{
		Flags:       wire.AttrSize | wire.AttrUIDGID | wire.AttrPermissions | wire.AttrACModTime,
		UID:         n.uid,
		GID:         n.gid,
		Permissions: wire.Permissions(n.mode),
		ATime:       server.Seconds(n.atime),
		MTime:       server.Seconds(n.mtime),
	}}
	switch {
	case n.content != nil:
		size, touched := n.content.state()
		i.attrs.Size = uint64(size)
		if !touched.IsZero() {
			i.mtime, i.attrs.MTime = touched, server.Seconds(touched)
		}
	case n.target != "":
		i.attrs.Size = uint64(len(n.target))
	}
	return i
}

// maxLinks limits the links that a path may lead through, as on Linux.
const maxLinks = 40

// place is the end of a path: a node, nil if none exists, and the directory and name under which it
// is or would be. The directory is nil if the path does not end in a name: at the top, in "." or in
// "..".
type place struct {
	dir   *node
	base  string
	node  *node
	slash bool // the path ends in a slash, so only a directory will do
}

// WalksPaths implements server.PathWalker.
func (f *FS) WalksPaths() {}

// find resolves a path as a kernel does. A link in the last element is followed if follow is set,
// or before a trailing slash; parent never follows it.
func (f *FS) find(name string, follow bool) (p place, err error) {
	p, err = f.walk(name, follow, false)
	if err == nil && p.slash && p.node != nil && !p.node.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	return p, err
}

// parent finds the place where a name is to be made, removed or renamed: a link in the last element
// is not followed.
func (f *FS) parent(name string) (place, error) { return f.walk(name, false, true) }

func (f *FS) walk(name string, follow, parent bool) (p place, err error) {
	p.node = f.root
	links := 0
	var above []*node // the directories on the way to the node, for ".."
	for rest := strings.TrimLeft(name, "/"); rest != ""; {
		element, after, slash := strings.Cut(rest, "/")
		after = strings.TrimLeft(after, "/")
		if !p.node.mode.IsDir() {
			return place{}, syscall.ENOTDIR
		}
		switch element {
		case ".":
			p.dir, p.base, rest = nil, "", after
			continue
		case "..":
			if len(above) > 0 {
				p.node, above = above[len(above)-1], above[:len(above)-1]
			}
			p.dir, p.base, rest = nil, "", after
			continue
		}
		child := p.node.children[element]
		if child == nil && after != "" {
			return place{}, fs.ErrNotExist
		}
		if child != nil && child.target != "" && (follow || after != "" || slash && !parent) {
			if links++; links > maxLinks {
				return place{}, syscall.ELOOP
			}
			if path.IsAbs(child.target) {
				p.node, above = f.root, nil
			}
			rest = child.target
			if slash {
				rest += "/" + after
			}
			rest = strings.TrimLeft(rest, "/")
			continue
		}
		above = append(above, p.node)
		p = place{dir: p.node, base: element, node: child, slash: slash}
		rest = after
	}
	return p, nil
}

// existing finds a node that must exist.
func (f *FS) existing(name string, follow bool) (*node, string, error) {
	p, err := f.find(name, follow)
	if err == nil && p.node == nil {
		err = fs.ErrNotExist
	}
	return p.node, p.base, err
}

// removable finds the place of a node that must exist, and is not the top, "." or "..".
func (f *FS) removable(name string) (place, error) {
	p, err := f.parent(name)
	switch {
	case err != nil:
	case p.dir == nil:
		err = fs.ErrPermission
	case p.node == nil:
		err = fs.ErrNotExist
	case p.slash && !p.node.mode.IsDir():
		err = syscall.ENOTDIR
	}
	return p, err
}

// absent finds the parent of a name that must not exist. Only a directory may be made at a path
// that ends in a slash.
func (f *FS) absent(name string, directory bool) (dir *node, base string, err error) {
	p, err := f.parent(name)
	switch {
	case err != nil:
	case p.node != nil || p.dir == nil:
		err = fs.ErrExist
	case p.slash && !directory:
		err = fs.ErrNotExist
	}
	return p.dir, p.base, err
}

// put adds a name for a node.
func (f *FS) put(dir *node, base string, n *node) {
	dir.children[base] = n
	dir.mtime = time.Now()
}

// take removes a name. A file without another name that is not open is freed.
func (f *FS) take(dir *node, base string) {
	n := dir.children[base]
	delete(dir.children, base)
	dir.mtime = time.Now()
	if n.links--; n.links == 0 && n.content != nil {
		n.content.unlink()
	}
}

var (
	errNotEmpty    = errors.New("directory not empty")
	errIsDirectory = errors.New("is a directory")
)
