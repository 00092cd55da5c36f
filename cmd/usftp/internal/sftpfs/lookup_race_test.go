//go:build linux || darwin

package sftpfs

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

func (s *scripted) mkdir(t *testing.T, dir *fuse.InHeader, name string) *fuse.InHeader {
	t.Helper()
	var out fuse.EntryOut
	if status := s.Mkdir(nil, &fuse.MkdirIn{InHeader: *dir, Mode: 0o755}, name,
		&out); status != fuse.OK {
		t.Fatal(status)
	}
	return &fuse.InHeader{NodeId: out.NodeId}
}

func (s *scripted) move(t *testing.T, from, to string) {
	t.Helper()
	in := fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID}
	if status := s.Rename(nil, &in, from, to); status != fuse.OK {
		t.Fatal(status)
	}
}

// The kernel looks up names that it knows while it has others changed. An answer that comes after
// such a change, and does not know of it, changes nothing.
func TestLateLookup(t *testing.T) {
	for name, test := range map[string]struct {
		is     func(files *sftptest.Files) // what the lookup finds
		change func(t *testing.T, s *scripted) *fuse.InHeader
		want   []string // in the root
	}{
		"made": {func(*sftptest.Files) {},
			func(t *testing.T, s *scripted) *fuse.InHeader { return s.mkdir(t, root(), "name") },
			[]string{"dir", "name"}},
		"renamed": {func(*sftptest.Files) {},
			func(t *testing.T, s *scripted) *fuse.InHeader {
				s.move(t, "dir", "name")
				return s.lookup(t, root(), "name")
			}, []string{"name"}},
		"replaced": {func(files *sftptest.Files) { files.WriteFile("/name", nil) },
			func(t *testing.T, s *scripted) *fuse.InHeader {
				if status := s.Unlink(nil, root(), "name"); status != fuse.OK {
					t.Fatal(status)
				}
				return s.mkdir(t, root(), "name")
			}, []string{"dir", "name"}},
		"removed": {func(files *sftptest.Files) { files.WriteFile("/name", nil) },
			func(t *testing.T, s *scripted) *fuse.InHeader {
				if status := s.Unlink(nil, root(), "name"); status != fuse.OK {
					t.Fatal(status)
				}
				return nil
			}, []string{"dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mountScripted(t, time.Minute, sftptest.Script{})
				test.is(s.server.Files)
				s.server.Files.Mkdir("/dir")
				s.lookup(t, root(), "dir")
				gate := new(sftptest.Gate)
				s.server.AddFaults(sftptest.Fault{On: wire.TypeLstat, Path: "/name", Times: 1,
					Do: sftptest.Hold(gate)})
				late := make(chan fuse.Status)
				go func() { late <- s.Lookup(nil, root(), "name", new(fuse.EntryOut)) }()
				gate.Wait(1)
				s.names(t, root())
				time.Sleep(time.Second)
				made := test.change(t, s)
				time.Sleep(time.Second)
				gate.Open()
				want := fuse.OK
				if made == nil {
					want = fuse.ENOENT
				}
				if status := <-late; status != want && (want == fuse.OK || status != fuse.OK) {
					t.Errorf("the late lookup: %v, want %v", status, want)
				}
				if got := s.names(t, root()); !slices.Equal(got, test.want) {
					t.Errorf("%q, want %q", got, test.want)
				}
				var out fuse.EntryOut
				status := s.Lookup(nil, root(), "name", &out)
				if made == nil {
					if status == fuse.OK && out.NodeId != 0 {
						t.Error("the name that was removed is there")
					}
					return
				}
				if status != fuse.OK || out.NodeId != made.NodeId {
					t.Errorf("%v, node %d, want %d", status, out.NodeId, made.NodeId)
				}
				s.mkdir(t, made, "in")
				if got := s.names(t, made); !slices.Equal(got, []string{"in"}) {
					t.Errorf("in it: %q", got)
				}
			})
		})
	}
}

// A lookup that learns from the host that a name is gone, before the answer that says where the
// host has moved it, does not take the name from what was moved.
func TestLookupDuringRename(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, 0, sftptest.Script{})
		s.server.Files.WriteFile("/dir/file", nil)
		dir := s.lookup(t, root(), "dir")
		for _, kind := range []wire.Type{wire.TypeRename, wire.TypeExtended} {
			s.server.AddFaults(sftptest.Fault{On: kind, Do: sftptest.Delay(time.Second)})
		}
		done := make(chan bool)
		go func() {
			s.move(t, "dir", "new")
			close(done)
		}()
		time.Sleep(time.Second / 2)
		if status := s.Lookup(nil, root(), "dir", new(fuse.EntryOut)); status != fuse.OK &&
			status != fuse.ENOENT {
			t.Error(status)
		}
		<-done
		if got := s.names(t, dir); !slices.Equal(got, []string{"file"}) {
			t.Errorf("in the renamed directory: %q", got)
		}
	})
}

// A list that comes after changes that it does not know of shows them.
func TestLateList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, 0, sftptest.Script{})
		s.server.Files.WriteFile("/kept", nil)
		s.server.Files.WriteFile("/removed", nil)
		gate := new(sftptest.Gate)
		s.server.AddFaults(sftptest.Fault{On: wire.TypeReaddir, Times: 1, Do: sftptest.Hold(gate)})
		listed := make(chan []string)
		go func() { listed <- s.names(t, root()) }()
		gate.Wait(1)
		s.mkdir(t, root(), "made")
		if status := s.Unlink(nil, root(), "removed"); status != fuse.OK {
			t.Error(status)
		}
		gate.Open()
		if got := <-listed; !slices.Equal(got, []string{"kept", "made"}) {
			t.Errorf("%q", got)
		}
	})
}

// The rest of a list does not tell the kernel that what was removed since it was made is still
// there.
func TestRestOfList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, time.Minute, sftptest.Script{})
		s.server.Files.WriteFile("/name", nil)
		var out fuse.OpenOut
		if status := s.OpenDir(nil, &fuse.OpenIn{InHeader: *root()}, &out); status != fuse.OK {
			t.Fatal(status)
		}
		in := fuse.ReadIn{InHeader: *root(), Fh: out.Fh, Size: 1}
		if status := s.ReadDirPlus(nil, &in, fuse.NewDirEntryList(nil, 0)); status != fuse.OK {
			t.Fatal(status)
		}
		time.Sleep(time.Second)
		if status := s.Unlink(nil, root(), "name"); status != fuse.OK {
			t.Fatal(status)
		}
		in.Offset, in.Size = 2, 4096
		if status := s.ReadDirPlus(nil, &in, fuse.NewDirEntryList(make([]byte, in.Size),
			in.Offset)); status != fuse.OK {
			t.Fatal(status)
		}
		var entry fuse.EntryOut
		if status := s.Lookup(nil, root(), "name", &entry); entry.NodeId != 0 {
			t.Errorf("%v, node %d", status, entry.NodeId)
		}
	})
}

// What is known of a file from before it was changed here is not taken for what the host says of
// its new name.
func TestRenamedAfterWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, time.Minute, sftptest.Script{})
		s.server.Files.WriteFile("/file", nil)
		old := time.Unix(1000, 0)
		if err := s.server.Files.SetModTime("/file", old); err != nil {
			t.Fatal(err)
		}
		o := s.open(t, "file")
		time.Sleep(time.Second)
		o.write(0, "new")
		if status := o.Flush(nil, &fuse.FlushIn{InHeader: o.header,
			Fh: o.fh}); status != fuse.OK {
			t.Fatal(status)
		}
		o.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
		synctest.Wait()
		time.Sleep(time.Second)
		o.names(t, root())
		o.move(t, "file", "name")
		var entry fuse.EntryOut
		status := o.Lookup(nil, root(), "name", &entry)
		if status != fuse.OK || entry.Mtime == uint64(old.Unix()) {
			t.Errorf("%v, time %d", status, entry.Mtime)
		}
	})
}

// After a change has failed because another program has made or removed the name, or because the
// answer to the first request was lost, a lookup finds what the host has.
func TestLookupAfterRefusal(t *testing.T) {
	dir := func(s *scripted) { s.server.Files.Mkdir("/name") }
	for what, test := range map[string]struct {
		before, meanwhile func(s *scripted)
		change            func(s *scripted) fuse.Status
		want              fuse.Status
		exists            bool
	}{
		"mkdir": {nil, dir, func(s *scripted) fuse.Status {
			return s.Mkdir(nil, &fuse.MkdirIn{InHeader: *root()}, "name", new(fuse.EntryOut))
		}, fuse.Status(syscall.EEXIST), true},
		"create": {nil, dir, func(s *scripted) fuse.Status {
			in := &fuse.CreateIn{InHeader: *root(), Flags: uint32(os.O_CREATE | os.O_EXCL)}
			return s.Create(nil, in, "name", new(fuse.CreateOut))
		}, fuse.Status(syscall.EEXIST), true},
		"rename to a new name": {nil, dir, func(s *scripted) fuse.Status {
			in := fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID,
				Flags: renameNoReplace}
			return s.Rename(nil, &in, "other", "name")
		}, fuse.Status(syscall.EEXIST), true},
		"rename": {dir, func(s *scripted) { s.server.Files.Remove("/name") },
			func(s *scripted) fuse.Status {
				in := fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID}
				return s.Rename(nil, &in, "name", "new")
			}, fuse.ENOENT, false},
		"rmdir": {dir, func(s *scripted) { s.server.Files.Remove("/name") },
			func(s *scripted) fuse.Status { return s.Rmdir(nil, root(), "name") }, fuse.ENOENT,
			false},
	} {
		t.Run(what, func(t *testing.T) {
			s := mountScripted(t, time.Minute, sftptest.Script{})
			s.server.Files.WriteFile("/other", nil)
			if test.before != nil {
				test.before(s)
				s.lookup(t, root(), "name")
			}
			s.names(t, root()) // which are known now
			test.meanwhile(s)
			if status := test.change(s); status != test.want {
				t.Errorf("%v, want %v", status, test.want)
			}
			var out fuse.EntryOut
			status := s.Lookup(nil, root(), "name", &out)
			if exists := out.NodeId != 0; status != fuse.OK || exists != test.exists {
				t.Errorf("lookup: %v, exists: %v", status, exists)
			}
			if got := s.names(t, root()); slices.Contains(got, "name") != test.exists {
				t.Errorf("listed: %q", got)
			}
		})
	}
}
