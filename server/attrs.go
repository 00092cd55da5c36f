package server

import (
	"io/fs"
	"time"

	"github.com/usftp/usftp/wire"
)

// AttrsOf returns what a client is told of a file: size, mode and modification time, and owner,
// group and access time where info.Sys() tells them: a *wire.Attrs is taken as it stands, the
// system's own structure is understood.
func AttrsOf(info fs.FileInfo) wire.Attrs {
	if attrs, ok := info.Sys().(*wire.Attrs); ok && attrs != nil {
		return *attrs
	}
	mtime := Seconds(info.ModTime())
	attrs := wire.Attrs{
		Flags:       wire.AttrSize | wire.AttrPermissions | wire.AttrACModTime,
		Size:        uint64(max(info.Size(), 0)),
		Permissions: wire.Permissions(info.Mode()),
		ATime:       mtime,
		MTime:       mtime,
	}
	addSystemAttrs(&attrs, info)
	return attrs
}

// Seconds turns a time into the protocol's: seconds since 1970 in 32 bits, the nearest there is
// (draft-02, section 5).
func Seconds(t time.Time) uint32 {
	return uint32(min(max(t.Unix(), 0), 1<<32-1))
}

// Linked is what a FileInfo of a backend may tell of a file that can have several names. Absent:
// the system's own structure is understood on Unix, and elsewhere each name is taken for a file of
// its own.
type Linked interface {
	// FileIdentity is equal for infos of one file, and comparable.
	FileIdentity() any

	// LinkCount is how many names the file has.
	LinkCount() uint64
}

// linkCount is for people, as version 3 has no field for it, and for quotas.
func linkCount(info fs.FileInfo) uint64 {
	if linked, ok := info.(Linked); ok {
		return linked.LinkCount()
	}
	if n := systemLinkCount(info); n > 0 {
		return n
	}
	return 1
}

// identityOf is what a file is known by, whatever its name; where that cannot be told it is the
// name.
func identityOf(info fs.FileInfo, name string) any {
	if linked, ok := info.(Linked); ok {
		return linked.FileIdentity()
	}
	if id, ok := systemIdentity(info); ok {
		return id
	}
	return name
}
