package sftptest

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"path"
	"strings"

	"github.com/usftp/usftp/wire"
)

// extended executes an extended request that the script offers.
func (s *session) extended(c *call) {
	if !s.script.offers(c.Extension) {
		s.status(c, wire.OpUnsupported)
		return
	}
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	switch c.Extension {
	case wire.ExtPosixRename:
		s.status(c, s.files.rename(c.Path, c.Path2, true, s.script.FollowLinks))
	case wire.ExtHardlink:
		s.status(c, s.hardlink(c))
	case wire.ExtLsetstat:
		if c.Attrs.Has(wire.AttrSize) {
			s.status(c, wire.BadMessage)
			return
		}
		s.status(c, s.setstat(c, false))
	case wire.ExtStatVFS:
		_, code := s.files.lookup(c.Path, true)
		s.statvfs(c, code)
	case wire.ExtFstatVFS:
		code := wire.OK
		if s.handles[c.Handle] == nil {
			code = wire.InvalidHandle
		}
		s.statvfs(c, code)
	case wire.ExtFsync:
		if s.handles[c.Handle] == nil {
			s.status(c, wire.NoSuchFile) // EBADF
			return
		}
		s.status(c, wire.OK)
	case wire.ExtAbandon:
		h := s.handles[c.Handle]
		if h == nil {
			s.status(c, wire.InvalidHandle)
			return
		}
		s.drop(c, h)
	case wire.ExtUploads: // files appear when they are opened
		s.status(c, wire.NoSuchFile)
	case wire.ExtLimits:
		c.answer(s.script.limits().Append(nil, c.ID))
	case wire.ExtExpandPath:
		name := c.Path
		if name == "~" || strings.HasPrefix(name, "~/") {
			name = path.Join(s.files.home, name[1:])
		}
		s.realpath(c, name)
	case wire.ExtHomeDirectory:
		if c.Path != "" && c.Path != userName {
			s.status(c, wire.Failure)
			return
		}
		s.nameReply(c, s.files.home)
	case wire.ExtUsersGroupsByID:
		s.usersGroups(c)
	case wire.ExtCopyData:
		s.status(c, s.copyData(c))
	case wire.ExtCheckFile, wire.ExtCheckFileHandle, wire.ExtCheckFileName:
		s.checkFile(c)
	default:
		s.status(c, wire.OpUnsupported)
	}
}

func (s *session) hardlink(c *call) wire.Code {
	n, code := s.files.lookup(c.Path, false)
	if code == wire.OK && n.isDir() {
		code = wire.PermissionDenied // EPERM
	}
	if code == wire.OK {
		code = s.files.put(c.Path2, n)
	}
	if code == wire.OK {
		n.links++
	}
	return code
}

func (s *session) statvfs(c *call, code wire.Code) {
	if code != wire.OK {
		s.status(c, code)
		return
	}
	const blocks = 1 << 40 / 4096
	reply := wire.StatVFSReply{BlockSize: 4096, FragmentSize: 4096,
		Blocks: blocks, BlocksFree: blocks / 2, BlocksAvailable: blocks / 2,
		Files: 1 << 20, FilesFree: 1 << 19, FilesAvailable: 1 << 19, FSID: s.server.fsid,
		NameMax: 255}
	if s.server.full.Load() {
		reply.BlocksFree, reply.BlocksAvailable = 0, 0
	}
	if s.script.StatVFS != nil {
		reply = *s.script.StatVFS
	}
	c.answer(reply.Append(nil, c.ID))
}

// userName is the user as whom clients are logged in, and the owner of the files that they create.
const userName = "user"

// usersGroups answers with the names of root and userName, the only known ones.
func (s *session) usersGroups(c *call) {
	var m wire.UsersGroupsByID
	if m.Parse(c.payload) != nil {
		s.status(c, wire.BadMessage)
		return
	}
	name := func(ids []uint32) []string {
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = map[uint32]string{0: "root", 1000: userName}[id]
		}
		return names
	}
	c.answer(wire.UsersGroupsReply{Users: name(m.UIDs), Groups: name(m.GIDs)}.Append(nil, c.ID))
}

func (s *session) copyData(c *call) wire.Code {
	var m wire.CopyData
	if m.Parse(c.payload) != nil {
		return wire.BadMessage
	}
	from, to := s.handles[c.Handle], s.handles[c.handle2]
	switch {
	case from == nil || to == nil || from.dir || to.dir || from.path == to.path:
		return wire.Failure
	case from.flags&wire.OpenRead == 0 || to.flags&wire.OpenWrite == 0:
		return wire.NoSuchFile // EBADF
	case m.FromOffset >= from.node.size():
		return wire.OK
	}
	data := from.node.part(m.FromOffset, m.Length)
	return to.node.writeAt(bytes.Clone(data), m.ToOffset)
}

// checkFile hashes a file (draft-ietf-secsh-filexfer-extensions-00, section 3).
func (s *session) checkFile(c *call) {
	var m wire.CheckFile
	n, code := (*node)(nil), wire.BadMessage
	if m.Parse(c.payload) == nil {
		if c.Extension == wire.ExtCheckFileName {
			n, code = s.files.lookup(c.Path, true)
		} else if h := s.handles[c.Handle]; h != nil {
			n, code = h.node, wire.OK
		}
	}
	name, newHash := chooseHash(m.Algorithms)
	switch {
	case code != wire.OK:
	case newHash == nil || m.BlockSize != 0 && m.BlockSize < 256:
		code = wire.OpUnsupported
	case n.isDir() || m.Offset > n.size():
		code = wire.Failure
	}
	if code != wire.OK {
		s.status(c, code)
		return
	}
	data := n.part(m.Offset, m.Length)
	block := cmp.Or(uint64(m.BlockSize), uint64(len(data)))
	var sums []byte
	for first := true; first || len(data) > 0; first = false {
		h := newHash()
		size := min(block, uint64(len(data)))
		h.Write(data[:size])
		sums = h.Sum(sums)
		data = data[size:]
	}
	c.answer(wire.CheckFileReply{Algorithm: name, Hashes: sums}.Append(nil, c.ID))
}

// chooseHash returns the first known algorithm of a list.
func chooseHash(list string) (string, func() hash.Hash) {
	for name := range strings.SplitSeq(list, ",") {
		switch name {
		case "md5":
			return name, md5.New
		case "sha1":
			return name, sha1.New
		case "sha256":
			return name, sha256.New
		case "sha512":
			return name, sha512.New
		}
	}
	return "", nil
}
