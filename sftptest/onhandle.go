package sftptest

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/usftp/usftp/wire"
)

// handle is an open file or directory.
type handle struct {
	node  *node
	path  string
	flags uint32

	commit    *node  // UploadPerHandle: the node that CLOSE replaces
	nextRead  uint64 // where the last READ ended
	nextWrite uint64 // where the last WRITE ended
	wrote     bool
	falseEOFs int

	under *handle // SharedHandles: the older one of the same name

	dir   bool
	names []string // of the directory, as of OPENDIR
	next  int
}

func (s *session) tooManyHandles() bool {
	most := s.script.limits().MaxOpenHandles
	return most > 0 && uint64(s.opened) >= most
}

// newHandle answers with a handle that was not used before, unless the script says otherwise.
func (s *session) newHandle(c *call, h *handle) {
	s.lastHandle++
	name := s.handleName(s.lastHandle)
	if most := s.script.SharedHandles; most > 0 {
		for n := 1; n <= most; n++ {
			if name = s.handleName(uint32(n)); s.handles[name] == nil {
				break
			}
		}
		h.under = s.handles[name]
	}
	s.handles[name] = h
	s.opened++
	s.server.open.Add(1)
	c.answer(wire.Handle{Handle: []byte(name)}.Append(nil, c.ID))
}

func (s *session) handleName(number uint32) string {
	size := max(s.script.HandleSize, 4)
	name := make([]byte, size)
	binary.BigEndian.PutUint32(name[size-4:], number)
	return string(name)
}

// onHandle executes the requests that carry a handle.
func (s *session) onHandle(c *call) {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	h := s.handles[c.Handle]
	if h == nil && c.Type == wire.TypeClose {
		s.status(c, wire.NoSuchFile) // EBADF
		return
	}
	if h == nil {
		s.status(c, wire.InvalidHandle)
		return
	}
	switch c.Type {
	case wire.TypeClose:
		if h.commit != nil {
			h.commit.data, h.commit.mtime = h.node.data, h.node.mtime
		}
		s.drop(c, h)
	case wire.TypeRead:
		s.read(c, h)
	case wire.TypeWrite:
		s.write(c, h)
	case wire.TypeFstat:
		s.attrsReply(c, h.node, wire.OK)
	case wire.TypeFsetstat:
		if c.Attrs.Has(wire.AttrSize) && h.flags&wire.OpenWrite == 0 {
			s.status(c, wire.BadMessage) // EINVAL
			return
		}
		s.status(c, h.node.setAttrs(&c.Attrs))
	case wire.TypeReaddir:
		s.readdir(c, h)
	}
}

// drop drops a handle that is closed or abandoned.
func (s *session) drop(c *call, h *handle) {
	delete(s.handles, c.Handle)
	if h.under != nil {
		s.handles[c.Handle] = h.under
	}
	s.opened--
	s.server.open.Add(-1)
	s.status(c, wire.OK)
}

func (s *session) read(c *call, h *handle) {
	code := wire.OK
	switch {
	case h.dir || h.node.isDir():
		code = wire.Failure // EISDIR
	case h.flags&wire.OpenRead == 0:
		code = wire.NoSuchFile // EBADF
	case s.script.SequentialReads && c.Offset != h.nextRead:
		code = wire.Failure
	case c.Length == 0:
		c.answer(wire.Data{}.Append(nil, c.ID))
		return
	case c.Offset >= h.node.size():
		code = wire.EOF
	}
	if code != wire.OK {
		s.status(c, code)
		return
	}
	h.node.readOnce = true
	n := min(s.script.readLength(uint32(c.Length)), len(h.node.data)-int(c.Offset))
	if n = s.beforeFalseEOF(n, c.Offset, h); n == 0 {
		s.status(c, wire.EOF)
		return
	}
	if s.script.RandomReads {
		n = 1 + s.rng.IntN(n)
	}
	h.nextRead = c.Offset + uint64(n)
	packet := wire.AppendDataHeader(make([]byte, 0, wire.DataHeaderSize+n), c.ID, n)
	packet = packet[:len(packet)+n]
	move(packet[wire.DataHeaderSize:], h.node.data[c.Offset:h.nextRead])
	c.answer(packet)
}

// beforeFalseEOF returns how many of n bytes at offset may be returned; 0 means EOF.
func (s *session) beforeFalseEOF(n int, offset uint64, h *handle) int {
	at := s.script.FalseEOFAt
	if at <= 0 || offset > uint64(at) || h.falseEOFs >= max(s.script.FalseEOFTimes, 1) {
		return n
	}
	if offset == uint64(at) {
		h.falseEOFs++
	}
	return int(min(uint64(n), uint64(at)-offset))
}

func (s *session) write(c *call, h *handle) {
	n := h.node
	limits := s.script.limits()
	switch {
	case h.dir || h.flags&wire.OpenWrite == 0:
		s.status(c, wire.NoSuchFile) // EBADF
		return
	case limits.MaxWrite > 0 && c.Length > limits.MaxWrite,
		s.script.OneWrite && time.Now().Before(n.busyUntil),
		s.script.SequentialWrites && !h.continues(c.Offset):
		s.status(c, wire.Failure)
		return
	}
	offset, data := c.Offset, c.data
	if h.flags&wire.OpenAppend != 0 {
		offset = n.size()
	}
	code := wire.OK
	if at := uint64(s.script.FullAt); s.script.FullAt > 0 && offset+uint64(len(data)) > at {
		code = wire.NoSpaceOnFilesystem
		data = data[:min(uint64(len(data)), at-min(offset, at))]
		s.server.full.Store(true)
	}
	if len(data) > 0 {
		if written := n.writeAt(data, offset); written != wire.OK {
			code = written
		}
	}
	if code == wire.OK {
		h.nextWrite, h.wrote = offset+uint64(len(data)), true
	}
	s.status(c, code)
	if s.script.OneWrite {
		n.busyUntil = time.Now().Add(writeTime)
		c.delay += writeTime
	}
}

// continues reports whether a WRITE at offset is in sequence, for [Script.SequentialWrites].
func (h *handle) continues(offset uint64) bool {
	if h.wrote {
		return offset == h.nextWrite
	}
	return offset == 0 || offset == h.node.size()
}

// writeTime is how long a WRITE takes under [Script.OneWrite].
const writeTime = time.Millisecond

// copy returns a new node with the same contents.
func (n *node) copy() *node {
	c := *n
	c.data = bytes.Clone(n.data)
	return &c
}

func (s *session) readdir(c *call, h *handle) {
	if !h.dir {
		s.status(c, wire.Failure)
		return
	}
	if h.next == len(h.names) && s.script.EndlessReaddir {
		h.next = 0
	}
	if h.next == len(h.names) {
		s.status(c, wire.EOF)
		return
	}
	most := s.script.ReaddirNames
	if most <= 0 {
		most = 100
	}
	packet, count := wire.BeginNames(nil, c.ID), 0
	for ; count < most && h.next < len(h.names); h.next++ {
		name := h.names[h.next]
		n := h.node.children[name]
		if name == "." || name == ".." {
			n = h.node
		}
		if n == nil { // removed since OPENDIR
			continue
		}
		entry := wire.Name{Filename: name, LongName: n.longName(name), Attrs: s.visible(n)}
		if s.script.SlashedDirs && n.isDir() {
			entry.Filename += "/"
		}
		if s.script.BareLines {
			entry.LongName = name
		}
		if s.script.BareListings {
			entry.Attrs = wire.Attrs{}
		}
		packet = entry.Append(packet)
		count++
	}
	if count == 0 {
		s.status(c, wire.EOF)
		return
	}
	c.answer(wire.FinishNames(packet, 0, count))
}
