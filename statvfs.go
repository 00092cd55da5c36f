package usftp

import (
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// StatVFS is what a server says of a file system: POSIX's struct statvfs (OpenSSH's PROTOCOL,
// section 4.4).
type StatVFS struct {
	Bsize   uint64 // the file system's block size, in bytes
	Frsize  uint64 // the unit of the three counts of blocks, in bytes
	Blocks  uint64
	Bfree   uint64
	Bavail  uint64 // free to others than root
	Files   uint64 // inodes
	Ffree   uint64
	Favail  uint64 // free to others than root
	Fsid    uint64
	Flag    uint64 // 1: read-only; 2: setuid is ignored
	Namemax uint64 // the longest name, in bytes
}

// TotalSpace returns the size of the file system, in bytes.
func (s *StatVFS) TotalSpace() uint64 { return s.Frsize * s.Blocks }

// FreeSpace returns what is free, in bytes, that kept for root included. See
// [StatVFS.AvailableSpace].
func (s *StatVFS) FreeSpace() uint64 { return s.Frsize * s.Bfree }

// AvailableSpace returns what is free to others than root, in bytes.
func (s *StatVFS) AvailableSpace() uint64 { return s.Frsize * s.Bavail }

// HasStatVFS tells whether the server offers statvfs@openssh.com.
func (c *Client) HasStatVFS() bool { return c.offered(wire.ExtStatVFS) }

// StatVFS returns the state of the file system that holds name. It needs statvfs@openssh.com, or
// else errors.Is(err, errors.ErrUnsupported) holds. One round trip.
func (c *Client) StatVFS(name string) (*StatVFS, error) {
	stat := new(StatVFS)
	if err := c.StatVFSInto(name, stat); err != nil {
		return nil, err
	}
	return stat, nil
}

// StatVFSInto is StatVFS into the caller's memory.
func (c *Client) StatVFSInto(name string, stat *StatVFS) (err error) {
	*stat, err = run(c.ctx, c.statVFS(name))
	return err
}

func (s *session) statVFS(name string) operation[StatVFS] {
	message := wire.ExtendedPath{Name: wire.ExtStatVFS, Path: name}
	return ask(s, "statvfs", name, wire.TypeExtendedReply, message,
		statVFSReply).needs(wire.ExtStatVFS)
}

// StatVFS returns the state of the file system that holds the open file. It needs
// fstatvfs@openssh.com, or else errors.Is(err, errors.ErrUnsupported) holds. One round trip.
func (f *File) StatVFS() (*StatVFS, error) {
	stat, err := run(f.ctx, f.statVFS())
	if err != nil {
		return nil, err
	}
	return &stat, nil
}

func (f *File) statVFS() operation[StatVFS] {
	return onHandle(f, "statvfs", func(open *openFile) operation[StatVFS] {
		message := wire.ExtendedHandle{Name: wire.ExtFstatVFS, Handle: open.handle}
		return ask(open.client, "statvfs", f.Name(), wire.TypeExtendedReply, message,
			statVFSReply).needs(wire.ExtFstatVFS)
	})
}

func statVFSReply(call *conn.Call) (StatVFS, error) {
	var r wire.StatVFSReply
	if err := r.Parse(call.Body); err != nil {
		return StatVFS{}, parse(err)
	}
	return StatVFS{
		Bsize: r.BlockSize, Frsize: r.FragmentSize,
		Blocks: r.Blocks, Bfree: r.BlocksFree, Bavail: r.BlocksAvailable,
		Files: r.Files, Ffree: r.FilesFree, Favail: r.FilesAvailable,
		Fsid: r.FSID, Flag: r.Flags, Namemax: r.NameMax,
	}, nil
}
