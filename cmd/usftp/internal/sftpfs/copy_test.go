//go:build linux || darwin

package sftpfs

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// copyTo copies a range as copy_file_range does.
func (o *opened) copyTo(to *opened, from, at, length int) (int, fuse.Status) {
	n, status := o.CopyFileRange(nil, &fuse.CopyFileRangeIn{InHeader: o.header, FhIn: o.fh,
		OffIn: uint64(from), NodeIdOut: to.header.NodeId, FhOut: to.fh, OffOut: uint64(at),
		Len: uint64(length)})
	return int(n), status
}

// A copy between two files of a host does not cross the link, and is right at any offset, of what
// was only just written, and up to the end of the source.
func TestCopyFileRange(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i >> 8)
	}
	s.server.Files.WriteFile("/from", data)
	s.server.Files.WriteFile("/to", []byte("0123456789"))
	from, to := s.open(t, "from"), s.open(t, "to")
	copy(data[100:], "new")
	from.write(100, "new")
	want := []byte("0123456789")
	for _, c := range []struct{ from, at, length, copied int }{
		{100, 5, 3, 3}, {0, 4096, 2<<20 + 1, 2<<20 + 1}, {99, 1, 100_000, 100_000},
		{3<<20 - 10, 3 << 20, 1000, 10}, {3 << 20, 0, 10, 0}, {0, 0, 0, 0},
	} {
		if n, status := from.copyTo(to, c.from, c.at, c.length); status != fuse.OK ||
			n != c.copied {
			t.Errorf("%+v: %d, %v", c, n, status)
			continue
		}
		if end := c.at + c.copied; c.copied > 0 && end > len(want) {
			want = append(want, make([]byte, end-len(want))...)
		}
		copy(want[min(c.at, len(want)):], data[c.from:c.from+c.copied])
		if got, err := s.server.Files.ReadFile("/to"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v: the host has %d bytes, or others, want %d: %v", c, len(got), len(want),
				err)
		}
	}
	if n := len(s.server.Requests(wire.TypeRead)); n != 0 {
		t.Errorf("%d READs", n)
	}
	if n := len(s.server.Requests(wire.TypeWrite)); n != 1 { // what the program wrote
		t.Errorf("%d WRITEs", n)
	}
	to.wantRead(want, 0)
}

// Where the host cannot copy, and within one file, the kernel is told to do it itself.
func TestCopyFileRangeFallsBack(t *testing.T) {
	for name, script := range map[string]sftptest.Script{"one file": {},
		"no extension": {Extensions: []wire.ExtensionPair{}}} {
		s := mountScripted(t, time.Minute, script)
		s.server.Files.WriteFile("/from", []byte("contents"))
		s.server.Files.WriteFile("/to", nil)
		from, to := s.open(t, "from"), s.open(t, "to")
		if name == "one file" {
			to = from
		}
		if n, status := from.copyTo(to, 0, 4, 4); n != 0 ||
			status != fuse.Status(syscall.ENOTSUP) {
			t.Errorf("%s: %d, %v", name, n, status)
		}
	}
}
