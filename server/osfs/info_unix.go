//go:build linux || darwin || freebsd

package osfs

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// info describes a file by the system's data.
type info struct {
	name string
	st   unix.Stat_t
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return i.st.Size }
func (i *info) ModTime() time.Time { return time.Unix(i.st.Mtim.Unix()) }
func (i *info) IsDir() bool        { return i.Mode().IsDir() }

func (i *info) Mode() fs.FileMode {
	if !i.known() {
		return fs.ModeIrregular
	}
	return wire.FileMode(uint32(i.st.Mode))
}

// known reports whether there is more than a name: every file has a type.
func (i *info) known() bool { return i.st.Mode != 0 }

// Sys returns a *wire.Attrs for [server.AttrsOf].
func (i *info) Sys() any {
	if !i.known() {
		return &wire.Attrs{}
	}
	return &wire.Attrs{
		Flags:       wire.AttrSize | wire.AttrUIDGID | wire.AttrPermissions | wire.AttrACModTime,
		Size:        uint64(max(i.st.Size, 0)),
		UID:         i.st.Uid,
		GID:         i.st.Gid,
		Permissions: uint32(i.st.Mode),
		ATime:       server.Seconds(time.Unix(i.st.Atim.Unix())),
		MTime:       server.Seconds(i.ModTime()),
	}
}

// ChangeTime implements server.Changed.
func (i *info) ChangeTime() time.Time { return time.Unix(i.st.Ctim.Unix()) }

// FileIdentity and LinkCount implement server.Linked.
func (i *info) FileIdentity() any { return [2]uint64{uint64(i.st.Dev), uint64(i.st.Ino)} }
func (i *info) LinkCount() uint64 { return uint64(i.st.Nlink) }
