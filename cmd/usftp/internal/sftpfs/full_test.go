//go:build linux || darwin

package sftpfs

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// Whatever a program makes on a full disk, the error says that the disk is full. Servers say only
// FAILURE.
func TestMakeOnFullDisk(t *testing.T) {
	refuse := func(t wire.Type) sftptest.Fault {
		return sftptest.Fault{On: t, Do: sftptest.Refuse(wire.Failure, "Failure")}
	}
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, time.Minute, sftptest.Script{
			StatVFS: &wire.StatVFSReply{BlockSize: 4096, FragmentSize: 4096, Blocks: 1000},
			Faults: []sftptest.Fault{refuse(wire.TypeOpen), refuse(wire.TypeMkdir),
				refuse(wire.TypeSymlink)}})
		for name, makes := range map[string]func(name string, out *fuse.EntryOut) fuse.Status{
			"mkdir": func(name string, out *fuse.EntryOut) fuse.Status {
				return s.Mkdir(nil, &fuse.MkdirIn{InHeader: *root(), Mode: 0o755}, name, out)
			},
			"mknod": func(name string, out *fuse.EntryOut) fuse.Status {
				return s.Mknod(nil, &fuse.MknodIn{InHeader: *root(), Mode: 0o644}, name, out)
			},
			"symlink": func(name string, out *fuse.EntryOut) fuse.Status {
				return s.Symlink(nil, root(), "target", name, out)
			},
		} {
			status := makes(name, new(fuse.EntryOut))
			if status != fuse.Status(syscall.ENOSPC) {
				t.Errorf("%s: %v", name, status)
			}
		}
	})
}

// A host that acknowledges what its disk has no room for fails the program's close.
func TestWriteThatIsOnlyClaimed(t *testing.T) {
	for _, size := range []int{5000, 3 << 20} {
		s := mountScripted(t, 0, sftptest.Script{StatVFS: &wire.StatVFSReply{},
			Faults: []sftptest.Fault{{On: wire.TypeWrite, From: uint64(size) - 1, To: 1 << 40,
				Do: sftptest.Refuse(wire.OK, "")}}})
		o := s.create(t, "file")
		o.write(0, strings.Repeat("x", size))
		if status := o.flush(); status != fuse.Status(syscall.ENOSPC) {
			t.Errorf("%d bytes: %v", size, status)
		}
	}
}

// Programs divide by the sizes that statfs reports, whatever a host says.
func TestBlocksOfOddSize(t *testing.T) {
	for _, odd := range []uint64{0, 1 << 32, 1<<64 - 1} {
		s := mountScripted(t, 0, sftptest.Script{
			StatVFS: &wire.StatVFSReply{BlockSize: odd, FragmentSize: odd, Blocks: 1000}})
		var out fuse.StatfsOut
		if status := s.StatFs(nil, root(), &out); status != fuse.OK || out.Bsize == 0 ||
			out.Frsize == 0 {
			t.Errorf("%d: blocks of %d and %d, %v", odd, out.Bsize, out.Frsize, status)
		}
	}
}

// A host that refuses to describe its disk has much space, as one that cannot: else posix_fallocate,
// which asks for that, would fail for files that the host has. pkg/sftp's server in memory looks for
// their paths on the disk.
func TestRefusedStatFs(t *testing.T) {
	for _, code := range []wire.Code{wire.NoSuchFile, wire.PermissionDenied, wire.Failure,
		wire.OpUnsupported} {
		s := mountScripted(t, 0, sftptest.Script{Faults: []sftptest.Fault{
			{On: wire.TypeExtended, Extension: wire.ExtStatVFS, Do: sftptest.Refuse(code, "no")}}})
		var out fuse.StatfsOut
		if status := s.StatFs(nil, root(), &out); status != fuse.OK || out.Bavail == 0 ||
			out.Bsize == 0 || out.NameLen == 0 {
			t.Errorf("%v: %+v, %v", code, out, status)
		}
	}
}
