//go:build linux || darwin

package sftpfs

import (
	"os"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
)

// A sizeKernel keeps the size of a file as Linux does: it takes it from an answer only if nothing
// has changed what it knows since it asked. It gives the answer to the program all the same.
type sizeKernel struct {
	kernel
	changes int
	size    uint64
}

func (k *sizeKernel) InodeNotify(uint64, int64, int64) fuse.Status {
	k.changes++
	return fuse.OK
}

func (k *sizeKernel) take(asked int, size uint64) {
	if k.changes == asked {
		k.size = size
		k.changes++
	}
}

// A program maps as much of a file as fstat says. The kernel knows that size, although a second
// program opens the file before it has the answer to fstat: else the first one gets SIGBUS.
func TestSizeOfOpenedTwice(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	k := new(sizeKernel)
	s.FS.server = k
	s.server.Files.WriteFile("/file", []byte("short"))
	var entry fuse.EntryOut
	asked := k.changes
	if status := s.Lookup(nil, root(), "file", &entry); status != fuse.OK {
		t.Fatal(status)
	}
	k.take(asked, entry.Size)
	const longer = "the one that is mapped"
	s.replace(t, longer)
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	asked = k.changes
	attr, status := o.getAttr()
	s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	k.take(asked, attr.Size)
	if status != fuse.OK || attr.Size != uint64(len(longer)) || k.size != attr.Size {
		t.Errorf("the program was told %d, %v; the kernel knows %d", attr.Size, status, k.size)
	}
}

// The kernel is made to ask for the size of a file that is opened if it may know another one.
func TestSizeAskedAgain(t *testing.T) {
	const size = 8
	for name, test := range map[string]struct {
		asks   bool
		change func(o *opened, resize func(int64))
	}{
		"nothing":           {false, func(*opened, func(int64)) {}},
		"a read to the end": {false, func(o *opened, _ func(int64)) { o.read(4096) }},
		"a short read": {true, func(o *opened, resize func(int64)) {
			resize(3)
			if data, status := o.read(size); status != fuse.OK || len(data) != 3 {
				o.t.Errorf("read: %q, %v", data, status)
			}
		}},
		"another size told": {true, func(o *opened, resize func(int64)) {
			resize(12)
			o.tree.get(o.header.NodeId).forgetAttrs()
			if attr, status := o.getAttr(); status != fuse.OK || attr.Size != 12 {
				o.t.Errorf("size %d, %v", attr.Size, status)
			}
		}},
		"a write": {true, func(o *opened, _ func(int64)) {
			w := o.open(o.t, "file")
			w.write(0, "longer than that")
			if status := w.sync(); status != fuse.OK {
				o.t.Error(status)
			}
		}},
		"a truncation": {true, func(o *opened, _ func(int64)) {
			if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE,
				Size: 1}); status != fuse.OK {
				o.t.Error(status)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, time.Minute, sftptest.Script{})
			k := new(sizeKernel)
			s.FS.server = k
			resize := func(size int64) {
				if err := s.server.Files.Resize("/file", size); err != nil {
					t.Error(err)
				}
				if err := s.server.Files.SetModTime("/file", time.Unix(1e9, 0)); err != nil {
					t.Error(err)
				}
			}
			s.server.Files.WriteFile("/file", nil)
			resize(size)
			o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
			test.change(o, resize)
			resize(size)
			s.tree.get(o.header.NodeId).forgetAttrs()
			before := k.changes
			s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
			if asks := k.changes != before; asks != test.asks || before == 0 {
				t.Errorf("made to ask: %t, before %d times", asks, before)
			}
		})
	}
}
