//go:build linux || darwin

package sftpfs

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A file that is closed while the host gives it the hidden name of a removed one leaves nothing
// behind: the kernel closes files in the background, so a program can close one and then remove it.
func TestClosedWhileRemoved(t *testing.T) {
	for name, want := range map[string][]string{
		"remove an open file":  {"/dir/", "/spare"},
		"replace an open file": {"/dir/", "/file"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t)
				for _, kind := range []wire.Type{wire.TypeRename, wire.TypeExtended} {
					o.server.AddFaults(sftptest.Fault{On: kind, Do: sftptest.Delay(time.Second)})
				}
				done := make(chan fuse.Status)
				go func() {
					status := calls[name](o)
					o.Forget(o.header.NodeId, 1) // as the kernel does at once
					done <- status
				}()
				time.Sleep(time.Second / 2)
				o.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
				if status := <-done; status != fuse.OK {
					t.Error(status)
				}
				time.Sleep(time.Minute)
				if names := o.server.Files.List(); !slices.Equal(names, want) {
					t.Errorf("the host has %q, want %q", names, want)
				}
			})
		})
	}
}

// An open file that is replaced keeps its contents, and leaves nothing behind, although the answer
// to the request for its hidden name was lost.
func TestReplacedOverLostLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := mountFile(t)
		o.server.AddFaults(sftptest.Fault{On: wire.TypeExtended, Extension: wire.ExtHardlink, Times: 1,
			Do: sftptest.Truncate(0)})
		if status := calls["replace an open file"](o); status != fuse.OK {
			t.Fatal(status)
		}
		o.cut()
		synctest.Wait()
		if data, status := o.read(8); status != fuse.OK || data != "contents" {
			t.Errorf("over a new connection: %q, %v", data, status)
		}
		o.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
		synctest.Wait()
		if got, want := o.server.Files.List(), []string{"/dir/", "/file"}; !slices.Equal(got, want) {
			t.Errorf("the host has %q, want %q", got, want)
		}
	})
}

// A directory that holds only a file that was removed while open is empty: another can replace it,
// and a list of it does not show the file, wherever that is by now.
func TestRemovedFileInDirectory(t *testing.T) {
	for name, test := range map[string]struct {
		change func(o *opened) fuse.Status
		want   fuse.Status
		lists  map[string][]string
		left   []string
	}{
		"replaced": {func(o *opened) fuse.Status {
			in := fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID}
			return o.Rename(nil, &in, "spare", "dir")
		}, fuse.OK, map[string][]string{"dir": {"kept"}, "": {"dir"}}, []string{"/dir/", "/dir/kept"}},
		"not removed": {func(o *opened) fuse.Status {
			o.server.Files.WriteFile("/dir/new", nil)
			return o.Rmdir(nil, root(), "dir")
		}, fuse.Status(syscall.ENOTEMPTY), map[string][]string{"dir": {}, "": {"dir", "spare"}},
			[]string{"/dir/", "/dir/new", "/spare/", "/spare/kept"}},
		"closed": {func(o *opened) fuse.Status {
			o.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
			synctest.Wait()
			return fuse.OK
		}, fuse.OK, map[string][]string{"dir": {}}, []string{"/dir/", "/spare/", "/spare/kept"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mountScripted(t, time.Minute, sftptest.Script{})
				s.server.Files.WriteFile("/dir/file", nil)
				s.server.Files.WriteFile("/spare/kept", nil)
				dir := s.lookup(t, root(), "dir")
				s.lookup(t, root(), "spare")
				o := s.openIn(t, dir.NodeId, "file")
				if status := o.Unlink(nil, dir, "file"); status != fuse.OK {
					t.Fatal(status)
				}
				s.readNames(s.ctx, s.tree.get(dir.NodeId), 0)
				if got := s.names(t, dir); len(got) != 0 {
					t.Errorf("after the removal: %q", got)
				}
				if status := test.change(o); status != test.want {
					t.Errorf("%v, want %v", status, test.want)
				}
				for name, want := range test.lists {
					of := root()
					if name != "" {
						of = s.lookup(t, of, name)
					}
					if got := s.names(t, of); !slices.Equal(got, want) {
						t.Errorf("%q holds %q, want %q", name, got, want)
					}
				}
				o.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
				synctest.Wait()
				if got := s.server.Files.List(); !slices.Equal(got, test.left) {
					t.Errorf("the host has %q, want %q", got, test.left)
				}
			})
		})
	}
}

// When the mount ends, nothing is left of a file that was removed and is still open.
func TestRemovedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := mountFile(t)
		if status := calls["remove an open file"](o); status != fuse.OK {
			t.Fatal(status)
		}
		o.write(0, "more")
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if got, want := o.server.Files.List(), []string{"/dir/", "/spare"}; !slices.Equal(got, want) {
			t.Errorf("the host has %q, want %q", got, want)
		}
	})
}

// A link that is made, but about which the host then says nothing, fails, and leaves no reference
// to the node that the kernel does not know of.
func TestLinkWithoutAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, time.Minute, sftptest.Script{})
		s.server.Files.WriteFile("/file", nil)
		file := s.lookup(t, root(), "file")
		for _, kind := range []wire.Type{wire.TypeLstat, wire.TypeStat} {
			s.server.AddFaults(sftptest.Fault{On: kind, Do: sftptest.Refuse(wire.PermissionDenied, "")})
		}
		in := fuse.LinkIn{InHeader: *root(), Oldnodeid: file.NodeId}
		if status := s.Link(nil, &in, "other", new(fuse.EntryOut)); status != fuse.EACCES {
			t.Fatal(status)
		}
		s.Forget(file.NodeId, 1)
		if n := s.tree.get(file.NodeId); n != nil {
			t.Errorf("%d references are left", n.lookups)
		}
	})
}

// A file that a program makes is not taken for the one of the same name that another program has
// removed on the host and that is still open here.
func TestMadeAfterRemoval(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("old"))
	old := s.open(t, "file")
	s.server.Files.Remove("/file")
	var out fuse.EntryOut
	if status := s.Lookup(nil, root(), "file", &out); status != fuse.OK || out.NodeId != 0 {
		t.Fatalf("lookup: node %d, %v", out.NodeId, status)
	}
	made := s.create(t, "file")
	if made.header.NodeId == old.header.NodeId {
		t.Error("both are one file")
	}
	made.write(0, "new")
	if status := made.flush(); status != fuse.OK {
		t.Error(status)
	}
	if data, status := old.read(10); status != fuse.OK || data != "old" {
		t.Errorf("the old one: %q, %v", data, status)
	}
}

// A file that is removed on the host just after it was opened is open, as on any file system.
func TestRemovedWhileOpened(t *testing.T) {
	for name, open := range map[string]func(s *scripted, t *testing.T) *opened{
		"opened": func(s *scripted, t *testing.T) *opened { return s.open(t, "file") },
		"created": func(s *scripted, t *testing.T) *opened {
			var out fuse.CreateOut
			if status := s.Create(nil, &fuse.CreateIn{InHeader: *root(),
				Flags: uint32(os.O_RDWR | os.O_CREATE)}, "file", &out); status != fuse.OK {
				t.Fatal(status)
			}
			return &opened{s, t, fuse.InHeader{NodeId: out.NodeId}, out.Fh}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, time.Minute, sftptest.Script{})
			s.server.Files.WriteFile("/file", []byte("contents"))
			s.server.AddFaults(sftptest.Fault{On: wire.TypeStat, Path: "/file", Times: 1,
				Do: sftptest.Call("remove", func(sftptest.Request) { s.server.Files.Remove("/file") })})
			o := open(s, t)
			if data, status := o.read(30); status != fuse.OK || data != "contents" {
				t.Errorf("read: %q, %v", data, status)
			}
		})
	}
}

// An open file that was removed on the host has its attributes, and its name has none.
func TestAttrsOfRemoved(t *testing.T) {
	for name, flags := range map[string]int{"to read": os.O_RDONLY, "to write": os.O_RDWR} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, 0, sftptest.Script{})
			s.server.Files.WriteFile("/file", []byte("contents"))
			o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", flags)
			s.server.Files.Remove("/file")
			if attr, status := o.getAttr(); status != fuse.OK || attr.Size != 8 {
				t.Errorf("size %d, %v", attr.Size, status)
			}
			var out fuse.EntryOut
			if status := s.Lookup(nil, root(), "file", &out); status != fuse.OK || out.NodeId != 0 {
				t.Errorf("lookup: node %d, %v", out.NodeId, status)
			}
		})
	}
}

// Calls on a node whose file is gone make Linux look the name up again, and the host is asked then.
func TestGoneByNode(t *testing.T) {
	want := fuse.ENOENT
	if runtime.GOOS == "linux" {
		want = fuse.Status(syscall.ESTALE)
	}
	for name, call := range map[string]func(s *scripted, at fuse.InHeader) fuse.Status{
		"OPEN": func(s *scripted, at fuse.InHeader) fuse.Status {
			return s.Open(nil, &fuse.OpenIn{InHeader: at}, new(fuse.OpenOut))
		},
		"GETATTR": func(s *scripted, at fuse.InHeader) fuse.Status {
			s.outdated(s.tree.get(at.NodeId))
			return s.GetAttr(nil, &fuse.GetAttrIn{InHeader: at}, new(fuse.AttrOut))
		},
		"SETATTR": func(s *scripted, at fuse.InHeader) fuse.Status {
			in := fuse.SetAttrInCommon{InHeader: at, Valid: fuse.FATTR_MODE, Mode: 0o600}
			return s.SetAttr(nil, &fuse.SetAttrIn{SetAttrInCommon: in}, new(fuse.AttrOut))
		},
		"READLINK": func(s *scripted, at fuse.InHeader) fuse.Status {
			_, status := s.Readlink(nil, &at)
			return status
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, time.Minute, sftptest.Script{})
			s.server.Files.WriteFile("/file", nil)
			at := *s.lookup(t, root(), "file")
			s.server.Files.Remove("/file")
			if status := call(s, at); status != want {
				t.Error(status)
			}
			var out fuse.EntryOut
			if status := s.Lookup(nil, root(), "file", &out); status != fuse.OK || out.NodeId != 0 {
				t.Errorf("lookup: node %d, %v", out.NodeId, status)
			}
		})
	}
}

// That a file is gone whose attributes are to be set does not mean that the host sets none.
func TestAttrsOfRemovedAreNotRefused(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", nil)
	o := s.open(t, "file")
	o.write(0, "contents")
	if _, status := o.getAttr(); status != fuse.OK { // shows a time that is then set
		t.Error(status)
	}
	s.server.Files.Remove("/file")
	if status := o.sync(); status != fuse.OK {
		t.Error(status)
	}
	if s.quirks.NoTimes.Load() {
		t.Error("the host is taken for one that does not set times")
	}
}

// What is written to a file while the host removes one of its names goes to another of them, also if
// the file must be opened again.
func TestOneNameRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		on   wire.Type
		call func(s *scripted) fuse.Status
	}{
		"removed": {wire.TypeRemove, func(s *scripted) fuse.Status {
			return s.Unlink(nil, root(), "other")
		}},
		"replaced": {wire.TypeExtended, func(s *scripted) fuse.Status {
			return s.Rename(nil, &fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID},
				"new", "other")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mountScripted(t, 0, sftptest.Script{})
				s.server.Files.WriteFile("/file", nil)
				s.server.Files.WriteFile("/new", []byte("another"))
				o := s.open(t, "file")
				link := fuse.LinkIn{InHeader: *root(), Oldnodeid: o.header.NodeId}
				if status := s.Link(nil, &link, "other", new(fuse.EntryOut)); status != fuse.OK {
					t.Fatal(status)
				}
				s.lookup(t, root(), "new")
				o.write(0, "contents")
				s.server.AddFaults(sftptest.Fault{On: test.on, Times: 1, Do: sftptest.Truncate(0)},
					sftptest.Fault{On: test.on, Skip: 1, Do: sftptest.Delay(time.Second)})
				first := s.FS.link.client
				var calls sync.WaitGroup
				calls.Go(func() {
					if status := test.call(s); status != fuse.OK {
						t.Error(status)
					}
				})
				<-first.Done()
				if status := o.sync(); status != fuse.OK {
					t.Error(status)
				}
				calls.Wait()
				if data, err := s.server.Files.ReadFile("/file"); string(data) != "contents" {
					t.Errorf("the host has %q, %v", data, err)
				}
			})
		})
	}
}
