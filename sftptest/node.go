package sftptest

import (
	"fmt"
	"slices"
	"time"

	"github.com/usftp/usftp/wire"
)

// The file types in POSIX st_mode that a node can have, and the other mode bits used here.
const (
	modeType    = 0o170000
	modeSymlink = 0o120000
	modeRegular = 0o100000
	modeDir     = 0o040000
	modeChmod   = 0o007777
)

// node is a file, a directory or a symbolic link.
type node struct {
	mode         uint32 // type included
	uid, gid     uint32
	atime, mtime uint32
	links        int
	data         []byte           // of a file
	target       string           // of a symbolic link
	children     map[string]*node // of a directory
	extended     []wire.ExtensionPair

	busyUntil time.Time // when the last WRITE is done, for Script.OneWrite
	readOnce  bool      // has been opened and read, for Script.ReadOnce
}

func newNode(mode uint32) *node {
	now := uint32(time.Now().Unix())
	n := &node{mode: mode, uid: 1000, gid: 1000, atime: now, mtime: now, links: 1}
	if n.isDir() {
		n.children = make(map[string]*node)
		n.links = 2
	}
	return n
}

func (n *node) isDir() bool     { return n.mode&modeType == modeDir }
func (n *node) isSymlink() bool { return n.mode&modeType == modeSymlink }

func (n *node) size() uint64 {
	switch {
	case n.isDir():
		return 4096
	case n.isSymlink():
		return uint64(len(n.target))
	}
	return uint64(len(n.data))
}

// part returns up to length bytes from an offset within the file on; a length of 0 means the rest.
func (n *node) part(offset, length uint64) []byte {
	data := n.data[offset:]
	if length > 0 {
		data = data[:min(uint64(len(data)), length)]
	}
	return data
}

func (n *node) touch() { n.mtime = uint32(time.Now().Unix()) }

// attrs returns the attributes for STAT.
func (n *node) attrs() wire.Attrs {
	a := wire.Attrs{
		Flags: wire.AttrSize | wire.AttrUIDGID | wire.AttrPermissions | wire.AttrACModTime,
		Size:  n.size(), UID: n.uid, GID: n.gid, Permissions: n.mode, ATime: n.atime,
		MTime: n.mtime,
	}
	if len(n.extended) > 0 {
		a.Flags |= wire.AttrExtended
		a.Extended = slices.Clone(n.extended)
	}
	return a
}

// setAttrs sets the attributes of a SETSTAT.
func (n *node) setAttrs(a *wire.Attrs) wire.Code {
	if a.Has(wire.AttrSize) {
		if n.isDir() {
			return wire.Failure
		}
		if code := n.resize(a.Size); code != wire.OK {
			return code
		}
	}
	if a.Has(wire.AttrPermissions) {
		n.mode = n.mode&^modeChmod | a.Permissions&modeChmod
	}
	if a.Has(wire.AttrUIDGID) {
		n.uid, n.gid = a.UID, a.GID
	}
	if a.Has(wire.AttrACModTime) {
		n.atime, n.mtime = a.ATime, a.MTime
	}
	if a.Has(wire.AttrExtended) {
		n.extended = slices.Clone(a.Extended)
	}
	return wire.OK
}

// maxFile limits a file's size, so that a WRITE at a huge offset does not use huge memory.
const maxFile = 1 << 31

func (n *node) resize(size uint64) wire.Code {
	switch {
	case size > maxFile:
		return wire.NoSpaceOnFilesystem
	case size <= uint64(len(n.data)):
		clear(n.data[size:])
		n.data = n.data[:size]
	case size <= uint64(cap(n.data)):
		n.data = n.data[:size]
	default: // doubling means few copies of a file that is being written
		data := make([]byte, size, max(int(size), 2*len(n.data)))
		move(data, n.data)
		n.data = data
	}
	n.touch()
	return wire.OK
}

func (n *node) writeAt(p []byte, offset uint64) wire.Code {
	if offset > maxFile || offset+uint64(len(p)) > maxFile {
		return wire.NoSpaceOnFilesystem
	}
	if end := offset + uint64(len(p)); end > uint64(len(n.data)) {
		n.resize(end)
	}
	move(n.data[offset:], p)
	n.touch()
	return wire.OK
}

// longName returns the line for people in a NAME, as ls -l prints it.
func (n *node) longName(name string) string {
	kind := byte('-')
	switch n.mode & modeType {
	case modeDir:
		kind = 'd'
	case modeSymlink:
		kind = 'l'
	}
	line := []byte{kind}
	for bit := 8; bit >= 0; bit-- {
		if n.mode>>bit&1 != 0 {
			line = append(line, "xwr"[bit%3])
		} else {
			line = append(line, '-')
		}
	}
	when := time.Unix(int64(n.mtime), 0).UTC().Format("Jan _2 15:04")
	return fmt.Sprintf("%s %4d %-8d %-8d %8d %s %s", line, n.links, n.uid, n.gid, n.size(), when,
		name)
}
