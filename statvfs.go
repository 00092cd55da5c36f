package usftp

import (
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// StatVFS tells of a file system, as POSIX's statvfs does (OpenSSH's PROTOCOL, section 4.4).
type StatVFS struct {
	Bsize   uint64 // the file system's block size, bytes
	Frsize  uint64 // the unit of the three counts of blocks, bytes
	Blocks  uint64
	Bfree   uint64 // blocks
	Bavail  uint64 // blocks that others than root may use
	Files   uint64 // inodes
	Ffree   uint64
	Favail  uint64 // inodes that others than root may use
	Fsid    uint64
	Flag    uint64 // 1: read-only, 2: no setuid
	Namemax uint64 // bytes of a name
}

// TotalSpace returns the size of the file system, in bytes.
func (s *StatVFS) TotalSpace() uint64 { return s.Frsize * s.Blocks }

// FreeSpace returns what is free, in bytes; part of it may be for root only.
func (s *StatVFS) FreeSpace() uint64 { return s.Frsize * s.Bfree }

// AvailableSpace returns what is free for others than root, in bytes.
func (s *StatVFS) AvailableSpace() uint64 { return s.Frsize * s.Bavail }

// HasStatVFS tells whether the server offers statvfs@openssh.com.
func (c *Client) HasStatVFS() bool { return c.offers[wire.ExtStatVFS] == "2" }

// StatVFS asks for the file system that holds name (statvfs@openssh.com). Without that extension the error is one for which
// errors.Is(err, errors.ErrUnsupported) holds. One round trip.
func (c *Client) StatVFS(name string) (*StatVFS, error) {
	call := c.request(wire.TypeExtendedReply)
	call.Request = wire.ExtendedPath{Name: wire.ExtStatVFS, Path: name}.Append(call.Scratch(), 0)
	return run(c.ctx, c.session, operation[*StatVFS]{name: "statvfs", path: name, call: call, result: statVFSReply})
}

func statVFSReply(call *conn.Call) (*StatVFS, error) {
	var r wire.StatVFSReply
	if err := r.Parse(call.Body); err != nil {
		return nil, parse(err)
	}
	return &StatVFS{
		Bsize: r.BlockSize, Frsize: r.FragmentSize, Blocks: r.Blocks, Bfree: r.BlocksFree, Bavail: r.BlocksAvailable,
		Files: r.Files, Ffree: r.FilesFree, Favail: r.FilesAvailable, Fsid: r.FSID, Flag: r.Flags, Namemax: r.NameMax,
	}, nil
}
