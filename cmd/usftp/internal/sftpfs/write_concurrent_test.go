//go:build linux || darwin

package sftpfs

import (
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A flush does not close the file that another call is using. The kernel sends one when a child
// process closes its copy of the descriptor.
func TestFlushDuringSync(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("old"))
	gate, closed := new(sftptest.Gate), new(sftptest.Gate)
	s.server.AddFaults(sftptest.Fault{On: wire.TypeExtended, Extension: wire.ExtFsync,
		Do: sftptest.Hold(gate)})
	o := s.open(t, "file")
	o.write(0, "new")
	synced := make(chan fuse.Status)
	go func() { synced <- o.sync() }()
	gate.Wait(1)
	if status := o.Flush(nil, &fuse.FlushIn{InHeader: o.header, Fh: o.fh}); status != fuse.OK {
		t.Errorf("flush: %v", status)
	}
	if n := len(s.server.Requests(wire.TypeClose)); n != 0 {
		t.Errorf("%d CLOSE while the file is being synced", n)
	}
	gate.Open()
	if status := <-synced; status != fuse.OK {
		t.Errorf("fsync: %v", status)
	}
	o.write(3, "er")
	if status := o.sync(); status != fuse.OK {
		t.Errorf("the next fsync: %v", status)
	}
	s.server.AddFaults(sftptest.Fault{On: wire.TypeClose, Do: sftptest.Hold(closed)})
	defer closed.Open()
	o.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
	closed.Wait(1)
	if got, err := s.server.Files.ReadFile("/file"); err != nil || string(got) != "newer" {
		t.Errorf("the host has %q, %v", got, err)
	}
}

// A file does not look shorter than what was written to it because the last of that arrives while
// its attributes are being answered. The kernel would take the rest for gone.
func TestSizeWhileWritesArrive(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("old"))
	o := s.open(t, "file")
	o.write(0, "longer")
	n := s.tree.get(o.header.NodeId)
	a, _, ok := s.known(n)
	if !ok || a.size != 3 {
		t.Fatalf("before: %+v, %v", a, ok)
	}
	if status := o.sync(); status != fuse.OK {
		t.Fatal(status)
	}
	var out fuse.Attr
	s.fill(n, a, &out)
	if out.Size != 6 {
		t.Errorf("%d bytes, want 6", out.Size)
	}
}
