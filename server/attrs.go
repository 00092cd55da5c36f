package server

import (
	"io/fs"
	"time"

	"github.com/usftp/usftp/wire"
)

// AttrsOf returns what a client is told of a file: size, mode and modification time, and owner, group and access time where
// info.Sys() tells them: a *wire.Attrs is taken as it stands, the system's own structure is understood.
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

// Seconds turns a time into the protocol's: seconds since 1970 in 32 bits, the nearest there is (draft-02, section 5).
func Seconds(t time.Time) uint32 {
	return uint32(min(max(t.Unix(), 0), 1<<32-1))
}

// linkCount is for people only: version 3 has no field for it.
func linkCount(info fs.FileInfo) uint64 {
	if n := systemLinkCount(info); n > 0 {
		return n
	}
	return 1
}
