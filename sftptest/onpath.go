package sftptest

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/usftp/usftp/wire"
)

// onPath executes the requests that carry a path.
func (s *session) onPath(c *call) {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	switch c.Type {
	case wire.TypeOpen:
		s.open(c)
	case wire.TypeOpendir:
		s.opendir(c)
	case wire.TypeStat, wire.TypeLstat:
		n, code := s.files.lookup(c.Path, c.Type == wire.TypeStat || s.script.FollowLinks)
		if code != wire.OK && c.Type == wire.TypeLstat {
			n, code = s.files.lookup(c.Path, false)
		}
		s.attrsReply(c, n, code)
	case wire.TypeSetstat:
		s.status(c, s.setstat(c, true))
	case wire.TypeMkdir:
		s.status(c, s.files.put(c.Path, newNode(modeDir|c.mode(0o777))))
	case wire.TypeRemove, wire.TypeRmdir:
		s.status(c, s.files.remove(c.Path, c.Type == wire.TypeRmdir))
	case wire.TypeRename:
		s.status(c, s.files.rename(c.Path, c.Path2, false, s.script.FollowLinks))
	case wire.TypeSymlink:
		n := newNode(modeSymlink | 0o777)
		n.target = c.Path2
		s.status(c, s.files.put(c.Path, n))
	case wire.TypeReadlink:
		n, code := s.files.lookup(c.Path, false)
		switch {
		case code != wire.OK:
			s.status(c, code)
		case !n.isSymlink():
			s.status(c, wire.BadMessage) // EINVAL
		case s.script.FollowLinks && !path.IsAbs(n.target):
			s.nameReply(c, path.Join(path.Dir(c.Path), n.target))
		default:
			s.nameReply(c, n.target)
		}
	case wire.TypeRealpath:
		s.realpath(c, c.Path)
	}
	// Like OpenSSH, do not answer unknown types.
}

// umask is the server's umask.
const umask = 0o022

// mode returns the mode of the new file or directory.
func (c *call) mode(standard uint32) uint32 {
	if c.Attrs.Has(wire.AttrPermissions) {
		standard = c.Attrs.Permissions & modeChmod
	}
	return standard &^ umask
}

func (s *session) setstat(c *call, follow bool) wire.Code {
	if c.Attrs.Flags == 0 {
		return wire.OK // nothing to do, nothing looked up
	}
	n, code := s.files.lookup(c.Path, follow)
	if code == wire.OK {
		code = n.setAttrs(&c.Attrs)
	}
	return code
}

// realpath answers with the absolute path; the last element need not exist.
func (s *session) realpath(c *call, name string) {
	p, code := s.files.find(name, true)
	if code != wire.OK {
		s.status(c, code)
		return
	}
	s.nameReply(c, p.path)
}

// nameReply answers READLINK and REALPATH: one name, without attributes (draft-02, sections 6.10
// and 6.11).
func (s *session) nameReply(c *call, name string) {
	c.answer(wire.Names{Names: []wire.Name{{Filename: name, LongName: name}}}.Append(nil, c.ID))
}

func (s *session) attrsReply(c *call, n *node, code wire.Code) {
	if code != wire.OK {
		s.status(c, code)
		return
	}
	c.answer(wire.AttrsReply{Attrs: s.visible(n)}.Append(nil, c.ID))
}

// visible returns the node's attributes that the script does not hide.
func (s *session) visible(n *node) wire.Attrs {
	a := n.attrs()
	a.Flags &^= s.script.HideAttrs
	if s.script.HideTypes {
		a.Permissions &^= modeType
	}
	return a
}

func (s *session) open(c *call) {
	p, code := s.files.find(c.Path, c.Flags&wire.OpenExclusive == 0)
	both := wire.OpenRead | wire.OpenWrite
	switch {
	case s.script.NoReadWrite && c.Flags&both == both:
		code = wire.PermissionDenied
	case code != wire.OK:
	case p.node == nil && c.Flags&wire.OpenCreate == 0:
		code = wire.NoSuchFile
	case p.node != nil && c.Flags&wire.OpenCreate != 0 && c.Flags&wire.OpenExclusive != 0:
		code = wire.FileAlreadyExists
	case p.node != nil && p.node.isDir() && c.Flags&wire.OpenWrite != 0:
		code = wire.Failure // EISDIR
	case p.node != nil && p.node.isSymlink():
		code = wire.LinkLoop
	case p.node != nil && p.node.readOnce && s.script.ReadOnce:
		code = wire.NoSuchFile
	case s.tooManyHandles():
		code = cmp.Or(s.script.Crowded, wire.Failure)
	}
	if code != wire.OK {
		s.status(c, code)
		return
	}
	if p.node == nil {
		p.node = newNode(modeRegular | c.mode(0o666))
		p.dir.children[p.base] = p.node
	}
	h := &handle{node: p.node, path: c.Path, flags: c.Flags}
	if s.script.UploadPerHandle && c.Flags&wire.OpenWrite != 0 {
		h.node, h.commit = p.node.copy(), p.node
	}
	if c.Flags&wire.OpenTruncate != 0 && c.Flags&wire.OpenWrite != 0 {
		h.node.resize(0)
	}
	s.newHandle(c, h)
}

func (s *session) opendir(c *call) {
	n, code := s.files.lookup(c.Path, true)
	switch {
	case code != wire.OK:
	case !n.isDir():
		code = wire.NotADirectory
	case s.tooManyHandles():
		code = wire.Failure
	}
	if code != wire.OK {
		s.status(c, code)
		return
	}
	h := &handle{node: n, path: c.Path, dir: true, names: []string{".", ".."}}
	for name := range n.children {
		h.names = append(h.names, name)
	}
	// A fixed order that is not alphabetical, as in real directories.
	slices.SortFunc(h.names[2:],
		func(a, b string) int { return strings.Compare(scramble(a), scramble(b)) })
	s.newHandle(c, h)
}

func scramble(name string) string {
	b := []byte(path.Base(name))
	slices.Reverse(b)
	return string(b)
}
