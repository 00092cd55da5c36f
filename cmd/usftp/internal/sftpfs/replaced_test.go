//go:build linux || darwin

package sftpfs

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// replace gives a file's name on the host to another file.
func (s *scripted) replace(t *testing.T, contents string) {
	t.Helper()
	s.server.Files.WriteFile("/new", []byte(contents))
	if err := s.FS.link.client.PosixRename("/new", "/file"); err != nil {
		t.Fatal(err)
	}
}

// replacing gives a file's name to a file that is there as /new, before a request is executed.
func (s *scripted) replacing(t *testing.T) sftptest.Action {
	return sftptest.Call("replace", func(sftptest.Request) {
		if err := s.server.Files.Rename("/new", "/file"); err != nil {
			t.Error(err)
		}
	})
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

// statName answers a request with the attributes of the file that has its path by now.
func (s *scripted) statName(r sftptest.Request) []sftptest.Action {
	a, err := s.server.Files.Lstat(r.Path)
	if err != nil {
		return []sftptest.Action{sftptest.Refuse(wire.NoSuchFile, "")}
	}
	reply := string(wire.AttrsReply{Attrs: a}.Append(nil, r.ID))
	return []sftptest.Action{sftptest.ReplyBytes(reply)}
}

// Apache MINA describes the file that has the name under which a handle was opened. That says
// nothing about a file that was renamed since, which opens again and keeps its node.
func TestOpenRenamedWhereHandlesAreNames(t *testing.T) {
	for _, other := range []string{"", "another"} {
		s := &scripted{version: "SSH-2.0-APACHE-SSHD-2.16.0"}
		s.server = sftptest.NewServer(t, sftptest.Script{
			Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type != wire.TypeFstat {
					return nil
				}
				return s.statName(r)
			}})
		s.mount(t, 0)
		s.server.Files.WriteFile("/file", []byte("contents"))
		o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
		s.move(t, "file", "moved")
		if other != "" {
			s.server.Files.WriteFile("/file", []byte(other))
		}
		s.server.Files.Append("/moved", []byte(" and more"))
		again := s.openFlags(t, fuse.FUSE_ROOT_ID, "moved", os.O_RDONLY)
		if again.header.NodeId != o.header.NodeId {
			t.Errorf("it has two nodes if %q has its name", other)
		}
		for _, file := range []*opened{o, again} {
			if data, status := file.read(30); status != fuse.OK || data != "contents and more" {
				t.Errorf("read: %q, %v", data, status)
			}
			attr, status := file.getAttr()
			if status != fuse.OK || attr.Size != 17 {
				t.Errorf("size %d, %v", attr.Size, status)
			}
		}
	}
}

// A program that has a file open reads it to its end when that is replaced through this mount, also
// where no hard link can keep it, and FSTAT tells of the new file or nothing, as paramiko's does.
func TestReplacedHereWhereHandlesAreNames(t *testing.T) {
	for _, version := range []string{"SSH-2.0-APACHE-SSHD-2.16.0", "SSH-2.0-paramiko_2.12.0"} {
		for _, flags := range []int{os.O_RDONLY, os.O_RDWR} {
			if flags == os.O_RDWR && strings.Contains(version, "APACHE") {
				continue // it is opened again by its name when it is read, which fails with ESTALE
			}
			s := &scripted{version: version}
			s.server = sftptest.NewServer(t, sftptest.Script{
				Intercept: func(r sftptest.Request) []sftptest.Action {
					switch {
					case r.Type == wire.TypeExtended:
						return []sftptest.Action{sftptest.Refuse(wire.OpUnsupported, "")}
					case r.Type != wire.TypeFstat:
						return nil
					case strings.Contains(version, "paramiko"):
						return []sftptest.Action{sftptest.Refuse(wire.OpUnsupported, "")}
					}
					return s.statName(r)
				}})
			s.mount(t, 0)
			s.server.Files.WriteFile("/file", []byte("contents"))
			s.server.Files.WriteFile("/other", []byte("new"))
			o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", flags)
			s.lookup(t, root(), "other")
			s.move(t, "other", "file")
			for _, fh := range []bool{true, false} {
				in, attr := fuse.GetAttrIn{InHeader: o.header}, fuse.AttrOut{}
				if fh {
					in.Flags_, in.Fh_ = fuse.FUSE_GETATTR_FH, o.fh
				}
				if status := s.GetAttr(nil, &in, &attr); status != fuse.OK || attr.Size != 8 {
					t.Errorf("%s, %x: size %d, %v", version, flags, attr.Size, status)
				}
			}
			if data, status := o.read(30); status != fuse.OK || data != "contents" {
				t.Errorf("%s, %x: read %q, %v", version, flags, data, status)
			}
			again := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
			if data, status := again.read(30); status != fuse.OK || data != "new" ||
				again.header.NodeId == o.header.NodeId {
				t.Errorf("%s, %x: the new file has %q, %v", version, flags, data, status)
			}
		}
	}
}

// Where handles are names, and nothing can be appended, what is appended to a file that was renamed
// while it is open, or a directory above it, still arrives.
func TestAppendRenamedWhereHandlesAreNames(t *testing.T) {
	for _, dir := range []string{"", "dir/"} {
		s := &scripted{version: "SSH-2.0-MaverickSynergy"}
		s.server = sftptest.NewServer(t, sftptest.Script{
			Intercept: func(r sftptest.Request) []sftptest.Action {
				const both = wire.OpenRead | wire.OpenAppend
				switch _, err := s.server.Files.Lstat(r.Path); {
				case r.Type == wire.TypeFstat && err != nil:
					return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
				case r.Type == wire.TypeOpen && r.Flags&both == both:
					return []sftptest.Action{sftptest.Hangup()}
				}
				return nil
			}})
		s.mount(t, 0)
		in, from, to, want := uint64(fuse.FUSE_ROOT_ID), "file", "moved", "/moved"
		if dir != "" {
			in, from, want = s.mkdir(t, root(), "dir").NodeId, "dir", "/moved/file"
		}
		s.server.Files.WriteFile("/"+dir+"file", nil)
		o := s.openFlags(t, in, "file", os.O_RDWR|os.O_APPEND)
		o.write(0, "one ")
		if status := o.sync(); status != fuse.OK {
			t.Error(status)
		}
		s.move(t, from, to)
		o.write(4, "two")
		if status := o.flush(); status != fuse.OK {
			t.Error(want, status)
		}
		if got, err := s.server.Files.ReadFile(want); string(got) != "one two" {
			t.Errorf("%s: %q, %v", want, got, err)
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

// A program opens a file in the moment in which another takes its place, which someone else sees
// first. The program reads one of them to its end.
func TestReplacedWhileOpened(t *testing.T) {
	for name, test := range map[string]struct{ spared, flags int }{"known": {0, os.O_RDONLY},
		"changed here": {1, os.O_RDONLY}, "known, to write": {0, os.O_RDWR},
		"changed here, to write": {1, os.O_RDWR}} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, time.Minute, sftptest.Script{})
			s.server.Files.WriteFile("/file", []byte("the one that is opened"))
			s.server.Files.WriteFile("/new", []byte("another"))
			at := s.lookup(t, root(), "file")
			n := s.tree.get(at.NodeId)
			if test.spared > 0 {
				s.outdated(n)
			}
			replaced := new(sftptest.Gate)
			stat := sftptest.Fault{On: wire.TypeStat, Path: "/file", Skip: test.spared, Times: 1}
			replacing, held := stat, stat
			replacing.Do = s.replacing(t)
			held.Do = sftptest.Hold(replaced)
			s.server.AddFaults(replacing, held)
			o := &opened{s, t, *at, 0}
			var out fuse.OpenOut
			done := make(chan fuse.Status)
			go func() { done <- s.Open(nil, &fuse.OpenIn{InHeader: *at, Flags: uint32(test.flags)}, &out) }()
			replaced.Wait(1)
			n.forgetAttrs()
			s.lookup(t, root(), "file")
			replaced.Open()
			if status := <-done; status == fuse.Status(syscall.ESTALE) {
				return // the kernel looks the name up again
			} else if status != fuse.OK {
				t.Fatal(status)
			}
			o.fh = out.Fh
			data, status := o.read(30)
			attr, attrStatus := o.getAttr()
			if status != fuse.OK || data != "the one that is opened" && data != "another" {
				t.Errorf("read: %q, %v", data, status)
			}
			if attrStatus != fuse.OK || attr.Size != uint64(len(data)) {
				t.Errorf("size %d, %v", attr.Size, attrStatus)
			}
		})
	}
}

// A server may carry out what comes after an OPEN before it, and answer it first. A file that takes
// the place of another in between does not get the other's attributes.
func TestReplacedBeforeLateOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, time.Minute, sftptest.Script{})
		s.server.Files.WriteFile("/file", []byte("the one that is replaced"))
		s.server.Files.WriteFile("/new", []byte("another"))
		at := s.lookup(t, root(), "file")
		move := func(names ...string) func(sftptest.Request) {
			return func(sftptest.Request) {
				for i := range names[1:] {
					if err := s.server.Files.Rename(names[i+1], names[i]); err != nil {
						t.Error(err)
					}
				}
			}
		}
		replace := move("/old", "/file", "/new")
		late := new(sftptest.Gate)
		s.server.AddFaults( // the script's server carries out the OPEN first
			sftptest.Fault{On: wire.TypeOpen, Times: 1, Do: sftptest.Call("replace", replace)},
			sftptest.Fault{On: wire.TypeOpen, Times: 1, Do: sftptest.Hold(late)},
			sftptest.Fault{On: wire.TypeStat, Times: 1,
				Do: sftptest.Call("back", move("/new", "/file", "/old"))})
		var out fuse.OpenOut
		done := make(chan fuse.Status)
		go func() { done <- s.Open(nil, &fuse.OpenIn{InHeader: *at}, &out) }()
		synctest.Wait()
		replace(sftptest.Request{})
		late.Open()
		if status := <-done; status != fuse.OK {
			t.Fatal(status)
		}
		o := &opened{s, t, *at, out.Fh}
		attr, attrStatus := o.getAttr()
		if data, status := o.read(30); status != fuse.OK || data != "another" ||
			attrStatus != fuse.OK || attr.Size != uint64(len(data)) {
			t.Errorf("read: %q, %v; size %d, %v", data, status, attr.Size, attrStatus)
		}
	})
}

// A program opens a file that another program has made after the name was found missing, and that
// yet another file replaces in that moment. The program reads one of them to its end.
func TestReplacedWhileCreated(t *testing.T) {
	for name, flags := range map[string]int{"to read": os.O_RDONLY, "to write": os.O_RDWR,
		"new": os.O_RDWR | os.O_EXCL} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, time.Minute, sftptest.Script{})
			want := ""
			if flags&os.O_EXCL == 0 {
				want = "the one that is opened"
				s.server.Files.WriteFile("/file", []byte(want))
			}
			s.server.Files.WriteFile("/new", []byte("another"))
			s.server.AddFaults(sftptest.Fault{On: wire.TypeStat, Path: "/file", Times: 1,
				Do: s.replacing(t)})
			var out fuse.CreateOut
			if status := s.Create(nil, &fuse.CreateIn{InHeader: *root(),
				Flags: uint32(flags | os.O_CREATE), Mode: 0o644}, "file", &out); status != fuse.OK {
				t.Fatal(status)
			}
			o := &opened{s, t, fuse.InHeader{NodeId: out.NodeId}, out.Fh}
			if data, status := o.read(30); status != fuse.OK || data != want ||
				out.Attr.Size != uint64(len(want)) {
				t.Errorf("read: %q, %v, size %d", data, status, out.Attr.Size)
			}
			if at := s.lookup(t, root(), "file"); flags&os.O_EXCL == 0 && at.NodeId == out.NodeId {
				t.Error("the other file has the same node")
			}
		})
	}
}

// A file that took the place of an open one while there was no connection gets a node of its own: a
// program that has read a part of the old one would read the rest from the pages of the new one.
func TestReplacedWhileCut(t *testing.T) {
	for name, find := range map[string]func(t *testing.T, o *opened) fuse.Status{
		"looked up": func(t *testing.T, o *opened) fuse.Status {
			o.lookup(t, root(), "file")
			return fuse.OK
		},
		"listed": func(t *testing.T, o *opened) fuse.Status {
			o.names(t, root())
			o.lookup(t, root(), "file")
			return fuse.OK
		},
		"opened": func(t *testing.T, o *opened) fuse.Status {
			var out fuse.OpenOut
			return o.Open(nil, &fuse.OpenIn{InHeader: o.header}, &out)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, time.Minute, sftptest.Script{})
			s.server.Files.WriteFile("/file", []byte("the one that is open"))
			o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
			s.replace(t, "another")
			s.cut()
			s.tree.get(o.header.NodeId).forgetAttrs()
			if status := find(t, o); status != fuse.OK && status != fuse.Status(syscall.ESTALE) {
				t.Error(status)
			}
			other := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
			if other.header.NodeId == o.header.NodeId {
				t.Error("both files have the same node")
			}
			if data, status := other.read(30); status != fuse.OK || data != "another" {
				t.Errorf("read: %q, %v", data, status)
			}
			if data, status := o.read(30); status != fuse.Status(syscall.ESTALE) {
				t.Errorf("read of the old one: %q, %v", data, status)
			}
		})
	}
}

// A file that is open to be read and written, but was not written, has a lasting version: another
// file gets a node of its own, and a lost connection does not exchange them.
func TestReplacedBeforeWrite(t *testing.T) {
	for name, find := range map[string]func(o *opened) fuse.Status{
		"looked up": func(o *opened) fuse.Status {
			o.lookup(o.t, root(), "file")
			return fuse.OK
		},
		"asked for": func(o *opened) fuse.Status {
			_, status := o.getAttr()
			return status
		},
		"opened": func(o *opened) fuse.Status {
			return o.Open(nil, &fuse.OpenIn{InHeader: o.header}, new(fuse.OpenOut))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, time.Minute, sftptest.Script{})
			s.server.Files.WriteFile("/file", []byte("the one that is open"))
			o := s.open(t, "file")
			s.replace(t, "another")
			s.tree.get(o.header.NodeId).forgetAttrs()
			if status := find(o); status != fuse.OK && status != fuse.Status(syscall.ESTALE) {
				t.Error(status)
			}
			if data, status := o.read(30); status != fuse.OK || data != "the one that is open" {
				t.Errorf("read: %q, %v", data, status)
			}
			if at := s.lookup(t, root(), "file"); at.NodeId == o.header.NodeId {
				t.Error("both files have the same node")
			}
			o.write(0, "THE")
			if status := o.sync(); status != fuse.OK {
				t.Error(status)
			}
			if data, status := o.read(30); status != fuse.OK || data != "THE one that is open" {
				t.Errorf("read what was written: %q, %v", data, status)
			}
			s.cut()
			o.write(0, "lost")
			if status := o.sync(); status != fuse.Status(syscall.ESTALE) {
				t.Errorf("written over the next connection: %v", status)
			}
			if data, _ := s.server.Files.ReadFile("/file"); string(data) != "another" {
				t.Errorf("the host has %q", data)
			}
		})
	}
}

// Asking for the attributes of a file that lost its name waits for other calls on it.
func TestAttrsOfReplaced(t *testing.T) {
	for name, flags := range map[string]int{"read": os.O_RDONLY, "written": os.O_RDWR} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mountScripted(t, 0, sftptest.Script{})
				s.server.Files.WriteFile("/file", []byte("the one that is open"))
				o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", flags)
				s.replace(t, "another")
				s.lookup(t, root(), "file")
				if flags == os.O_RDWR {
					o.write(0, "THE")
				}
				h := s.files.get(o.fh)
				if err := h.turn.lock(s.ctx); err != nil {
					t.Fatal(err)
				}
				done := make(chan fuse.Status, 1)
				go func() {
					_, status := o.getAttr()
					done <- status
				}()
				synctest.Wait()
				h.turn.unlock()
				if status := <-done; status != fuse.OK {
					t.Error(status)
				}
			})
		})
	}
}

// The size of an open file is its own, although others replace it again and again.
func TestSizeOfReplacedTwice(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("the one that is open"))
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	s.replace(t, "another, which is longer")
	s.server.Files.WriteFile("/new", []byte("the third, which is even longer"))
	s.server.AddFaults(sftptest.Fault{On: wire.TypeLstat, Path: "/file", Skip: 1, Times: 1,
		Do: s.replacing(t)})
	if attr, status := o.getAttr(); status != fuse.OK || attr.Size != 20 {
		t.Errorf("size %d, %v", attr.Size, status)
	}
}

// The kernel keeps no pages for an open until it knows of the one that makes it drop those of another
// version: the answers may overtake each other.
func TestPagesKeptLate(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("contents"))
	if err := s.server.Files.SetModTime("/file", time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	at := s.lookup(t, root(), "file")
	open := func() (out fuse.OpenOut) {
		if status := s.Open(nil, &fuse.OpenIn{InHeader: *at}, &out); status != fuse.OK {
			t.Fatal(status)
		}
		return out
	}
	first := open()
	if open().OpenFlags&fuse.FOPEN_KEEP_CACHE != 0 {
		t.Error("the pages are kept before the kernel has dropped the old ones")
	}
	o := &opened{s, t, *at, first.Fh}
	if data, status := o.read(30); status != fuse.OK || data != "contents" {
		t.Errorf("read: %q, %v", data, status)
	}
	if open().OpenFlags&fuse.FOPEN_KEEP_CACHE == 0 {
		t.Error("the pages are not kept")
	}
}

// What the kernel is told of an open file's size, a read gives it, also one by another handle: the
// kernel would fill the rest of the page with zeros.
func TestReadOfGrown(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/log", []byte("one\n"))
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_RDONLY)
	other := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_RDONLY)
	if err := s.server.Files.Append("/log", []byte("two\n")); err != nil {
		t.Fatal(err)
	}
	var attr fuse.AttrOut
	if status := s.GetAttr(nil, &fuse.GetAttrIn{InHeader: o.header, Flags_: fuse.FUSE_GETATTR_FH,
		Fh_: o.fh}, &attr); status != fuse.OK || attr.Size != 8 {
		t.Fatalf("size %d, %v", attr.Size, status)
	}
	for _, by := range []*opened{o, other} {
		if data, status := by.read(4096); status != fuse.OK || data != "one\ntwo\n" {
			t.Errorf("read: %q, %v", data, status)
		}
	}
}

// An old file that gets its name back is another one than the file that is open, although it was
// open before.
func TestOldFileReturns(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("old"))
	old := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	if err := s.server.Files.Append("/file", []byte(" and longer")); err != nil {
		t.Fatal(err)
	}
	n := s.tree.get(old.header.NodeId)
	n.forgetAttrs()
	s.lookup(t, root(), "file")
	s.Release(nil, &fuse.ReleaseIn{InHeader: old.header, Fh: old.fh})
	testenv.Until(t, "the close", func() bool { return n.openFile() == nil })
	if err := s.server.Files.Rename("/file", "/old"); err != nil {
		t.Fatal(err)
	}
	s.server.Files.WriteFile("/file", []byte("another"))
	n.forgetAttrs()
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	if err := s.server.Files.Rename("/old", "/file"); err != nil {
		t.Fatal(err)
	}
	s.tree.root.dropList() // lookups have it renewed, perhaps before
	s.names(t, root())
	n.forgetAttrs()
	if at := s.lookup(t, root(), "file"); at.NodeId == o.header.NodeId {
		t.Error("the name still has the node of the file that is open")
	}
	if data, status := o.read(30); status != fuse.OK || data != "another" {
		t.Errorf("read: %q, %v", data, status)
	}
}
