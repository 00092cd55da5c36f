//go:build linux || darwin

package sftpfs

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
)

// replace gives a file's name on the host to another file.
func (s *scripted) replace(t *testing.T, contents string) {
	t.Helper()
	s.server.Files.WriteFile("/new", []byte(contents))
	if err := s.FS.link.client.PosixRename("/new", "/file"); err != nil {
		t.Fatal(err)
	}
}

// A program that opens a file whose name the kernel still knows gets the file that has the name
// now, and the kernel learns that it is another one.
func TestOpenReplaced(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("the one that is open"))
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	s.replace(t, "another")
	var out fuse.OpenOut
	if status := s.Open(nil, &fuse.OpenIn{InHeader: o.header},
		&out); status != fuse.Status(syscall.ESTALE) {
		t.Errorf("by the node: %v", status)
	}
	other := s.open(t, "file")
	for _, file := range []struct {
		opened *opened
		want   string
	}{{o, "the one that is open"}, {other, "another"}} {
		if data, status := file.opened.read(30); status != fuse.OK || data != file.want {
			t.Errorf("read: %q, %v", data, status)
		}
		attr, status := file.opened.getAttr()
		if status != fuse.OK || attr.Size != uint64(len(file.want)) {
			t.Errorf("%s: size %d, %v", file.want, attr.Size, status)
		}
	}
}

// A file that only changes keeps its node, whoever changes it, and however it is asked for.
func TestChangedIsNotReplaced(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("contents"))
	o := s.open(t, "file")
	reader := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	if reader.header.NodeId != o.header.NodeId {
		t.Error("it has two nodes")
	}
	for _, change := range []func(){
		func() { s.server.Files.Append("/file", []byte(" and more")) },
		func() { o.write(8, ", longer than before") },
		func() { o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 3}) },
	} {
		change()
		if status := o.sync(); status != fuse.OK {
			t.Error(status)
		}
		if at := s.lookup(t, root(), "file"); at.NodeId != o.header.NodeId {
			t.Error("it has another node")
		}
		if other := s.open(t, "file"); other.header.NodeId != o.header.NodeId {
			t.Error("it is opened as another node")
		}
	}
}

// A list that shows another version of a file that is open is not believed.
func TestListsReplaced(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("the one that is open"))
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	s.replace(t, "another")
	s.names(t, root())
	s.tree.get(o.header.NodeId).forgetAttrs()
	if at := s.lookup(t, root(), "file"); at.NodeId == o.header.NodeId {
		t.Error("the name still has the node of the file that is open")
	}
}

// A file that is open only for reading keeps its node when its contents change on the host.
func TestReadFileChanges(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("contents"))
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	want := "contents"
	for range 3 {
		s.server.Files.Append("/file", []byte(" and more"))
		want += " and more"
		other := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
		if other.header.NodeId != o.header.NodeId {
			t.Error("it has another node")
		}
		if data, status := o.read(100); status != fuse.OK || data != want {
			t.Errorf("read: %q, %v", data, status)
		}
	}
}
