//go:build linux || darwin

package sftpfs

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A call that uses an open file succeeds although the host has just given the file, or the
// directory that it is in, another name, and the answer that says so is still on its way.
func TestCallDuringRename(t *testing.T) {
	rename := func(name, to string) func(o *opened) fuse.Status {
		return func(o *opened) fuse.Status {
			in := fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID}
			return o.Rename(nil, &in, name, to)
		}
	}
	for change, test := range map[string]struct {
		file   string
		change func(o *opened) fuse.Status
		back   bool
	}{
		"the file is renamed":      {"/file", rename("file", "new"), false},
		"the file is removed":      {"/file", calls["remove an open file"], false},
		"the directory is renamed": {"/dir/file", rename("dir", "new"), false},
		"it is renamed and back":   {"/dir/file", rename("dir", "new"), true},
	} {
		for _, call := range []string{"getattr", "truncate", "open", "close"} {
			t.Run(change+"/"+call, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := openAt(t, test.file)
					slow := sftptest.Delay(time.Second)
					for _, kind := range []wire.Type{wire.TypeRename, wire.TypeExtended} {
						o.server.AddFaults(sftptest.Fault{On: kind, Do: slow})
					}
					if test.back { // the answer that there is no file comes when there is one
						for _, kind := range []wire.Type{wire.TypeLstat, wire.TypeOpen,
							wire.TypeSetstat} {
							o.server.AddFaults(sftptest.Fault{On: kind, Path: test.file,
								Do: sftptest.Delay(5 * time.Second)})
						}
					}
					done := make(chan fuse.Status)
					go func() {
						status := test.change(o)
						if test.back && status == fuse.OK {
							status = rename("new", "dir")(o)
						}
						done <- status
					}()
					time.Sleep(time.Second / 2)
					if status := calls[call](o); status != fuse.OK {
						t.Error(status)
					}
					if status := <-done; status != fuse.OK {
						t.Error(status)
					}
				})
			})
		}
	}
}

// What a call learns by a path is about the file that it was asked for, although the host had
// already given the file another name, and its path to another file.
func TestPathOfAnotherFile(t *testing.T) {
	for _, test := range []struct {
		name    string
		request wire.Type
		make    func(files *sftptest.Files, name, what string)
		what    func(s *scripted, of fuse.InHeader) (string, fuse.Status)
	}{
		{"getattr", wire.TypeLstat, writeNamed,
			func(s *scripted, of fuse.InHeader) (string, fuse.Status) {
				var out fuse.AttrOut
				status := s.GetAttr(nil, &fuse.GetAttrIn{InHeader: of}, &out)
				return strings.Repeat("x", int(out.Size)), status
			}},
		{"open", wire.TypeOpen, writeNamed,
			func(s *scripted, of fuse.InHeader) (string, fuse.Status) {
				var out fuse.OpenOut
				if status := s.Open(nil, &fuse.OpenIn{InHeader: of}, &out); status != fuse.OK {
					return "", status
				}
				defer s.Release(nil, &fuse.ReleaseIn{InHeader: of, Fh: out.Fh})
				return (&opened{scripted: s, header: of, fh: out.Fh}).read(8)
			}},
		{"readlink", wire.TypeReadlink,
			func(files *sftptest.Files, name, what string) { files.Symlink(what, name) },
			func(s *scripted, of fuse.InHeader) (string, fuse.Status) {
				target, status := s.Readlink(nil, &of)
				return string(target), status
			}},
		{"list", wire.TypeOpendir, makeWith,
			func(s *scripted, of fuse.InHeader) (string, fuse.Status) {
				entries, err := s.list(s.ctx, s.tree.get(of.NodeId))
				if err != nil || len(entries) != 1 {
					return fmt.Sprint(entries), statusOf(err)
				}
				return entries[0].name, fuse.OK
			}},
		{"lookup", wire.TypeLstat,
			func(files *sftptest.Files, name, what string) {
				files.Mkdir(name)
				writeNamed(files, name+"/in", what)
			},
			func(s *scripted, of fuse.InHeader) (string, fuse.Status) {
				var out fuse.EntryOut
				status := s.Lookup(nil, &of, "in", &out)
				return strings.Repeat("x", int(out.Size)), status
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := mountScripted(t, 0, sftptest.Script{})
			test.make(s.server.Files, "/file", "xx")
			test.make(s.server.Files, "/other", "y")
			nodes := make(map[string]fuse.InHeader)
			for _, name := range []string{"file", "other"} {
				var out fuse.EntryOut
				if status := s.Lookup(nil, root(), name, &out); status != fuse.OK {
					t.Fatal(status)
				}
				nodes[name] = fuse.InHeader{NodeId: out.NodeId}
			}
			// The host has renamed file to new and other to file, and nothing here knows.
			removeAll(s.server.Files, "/file", "/file/xx", "/file/in", "/other", "/other/y",
				"/other/in")
			test.make(s.server.Files, "/new", "xx")
			test.make(s.server.Files, "/file", "y")
			gate := new(sftptest.Gate)
			s.server.AddFaults(sftptest.Fault{On: test.request, Times: 1, Do: sftptest.Hold(gate)})
			type result struct {
				what   string
				status fuse.Status
			}
			done := make(chan result)
			go func() {
				what, status := test.what(s, nodes["file"])
				done <- result{what, status}
			}()
			gate.Wait(1)
			for _, names := range [][2]string{{"file", "new"}, {"other", "file"}} {
				from, to := place{s.tree.root, names[0]}, place{s.tree.root, names[1]}
				moved, err := s.tree.move(t.Context(), from)
				if err != nil {
					t.Error(err)
				}
				s.movedName(from, to)
				moved()
			}
			gate.Open()
			if got := <-done; got != (result{"xx", fuse.OK}) {
				t.Errorf("got %q, %v", got.what, got.status)
			}
		})
	}
}

func writeNamed(files *sftptest.Files, name, what string) { files.WriteFile(name, []byte(what)) }

// makeWith makes a directory that holds a file.
func makeWith(files *sftptest.Files, name, what string) {
	files.Mkdir(name)
	writeNamed(files, name+"/"+what, what)
}

func removeAll(files *sftptest.Files, names ...string) {
	for _, name := range slices.Backward(names) {
		if files.Exists(name) {
			files.Remove(name)
		}
	}
}

// openAt mounts a directory with a file at a path, which is open.
func openAt(t *testing.T, name string) *opened {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile(name, []byte("contents"))
	above := uint64(fuse.FUSE_ROOT_ID)
	if name != "/file" {
		var dir fuse.EntryOut
		if status := s.Lookup(nil, root(), "dir", &dir); status != fuse.OK {
			t.Fatal(status)
		}
		above = dir.NodeId
	}
	return s.openIn(t, above, "file")
}

// A change below a directory is made in that directory, although the host has renamed it and
// another has taken its path before the answer comes that says so.
func TestChangeBelowRenamed(t *testing.T) {
	for name, test := range changesBelow {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, dir := mountTwoDirs(t)
				for _, kind := range []wire.Type{wire.TypeRename, wire.TypeExtended} {
					s.server.AddFaults(sftptest.Fault{On: kind, Times: 1,
						Do: sftptest.Delay(time.Second)})
				}
				moved := make(chan bool)
				go func() {
					s.move(t, "dir", "new")
					close(moved)
				}()
				time.Sleep(time.Second / 2)
				makeWith(s.server.Files, "/dir", "file") // by another program on the host
				if status := test.change(s, dir); status != fuse.OK {
					t.Error(status)
				}
				<-moved
				test.check(t, s, "/new", "/dir")
			})
		})
	}
}

// A directory is renamed only when the host has made what it was asked to change below it: a server
// may work on several requests at once, and may be asked again over a new connection.
func TestRenameWaitsForChanges(t *testing.T) {
	for name, test := range changesBelow {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, dir := mountTwoDirs(t)
				gate := new(sftptest.Gate)
				s.server.AddFaults(sftptest.Fault{On: test.request, Times: 1,
					Do: sftptest.Hold(gate)})
				done := make(chan fuse.Status)
				go func() { done <- test.change(s, dir) }()
				gate.Wait(1)
				moved := make(chan bool)
				go func() {
					s.move(t, "dir", "new")
					s.move(t, "other", "dir")
					close(moved)
				}()
				time.Sleep(time.Second)
				gate.Open()
				if status := <-done; status != fuse.OK {
					t.Error(status)
				}
				<-moved
				test.check(t, s, "/new", "/dir")
			})
		})
	}
}

// changesBelow are changes in a directory that holds a file, and what shows where they were made:
// right is that directory, and wrong another that holds such a file.
var changesBelow = map[string]struct {
	request wire.Type
	change  func(s *scripted, dir fuse.InHeader) fuse.Status
	check   func(t *testing.T, s *scripted, right, wrong string)
}{
	"mkdir": {wire.TypeMkdir, func(s *scripted, dir fuse.InHeader) fuse.Status {
		return s.Mkdir(nil, &fuse.MkdirIn{InHeader: dir}, "made", new(fuse.EntryOut))
	}, wantIn("made", true)},
	"create": {wire.TypeOpen, func(s *scripted, dir fuse.InHeader) fuse.Status {
		return s.Create(nil, &fuse.CreateIn{InHeader: dir}, "made", new(fuse.CreateOut))
	}, wantIn("made", true)},
	"unlink": {wire.TypeRemove, func(s *scripted, dir fuse.InHeader) fuse.Status {
		return s.Unlink(nil, &dir, "file")
	}, wantIn("file", false)},
}

// wantIn checks that a change was made to a name in the right directory.
func wantIn(name string, exists bool) func(t *testing.T, s *scripted, right, wrong string) {
	return func(t *testing.T, s *scripted, right, wrong string) {
		t.Helper()
		files := s.server.Files
		if files.Exists(right+"/"+name) != exists || files.Exists(wrong+"/"+name) == exists {
			t.Errorf("the host has %q", files.List())
		}
	}
}

// mountTwoDirs mounts a directory with two directories that hold a file each, and returns one.
func mountTwoDirs(t *testing.T) (*scripted, fuse.InHeader) {
	t.Helper()
	s := mountScripted(t, time.Minute, sftptest.Script{})
	makeWith(s.server.Files, "/dir", "file")
	makeWith(s.server.Files, "/other", "file")
	dir := s.lookup(t, root(), "dir")
	s.lookup(t, root(), "other")
	s.lookup(t, dir, "file")
	return s, *dir
}

// A name that was renamed to another of the same file is still there, as on any file system.
func TestRenameToLink(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/a", nil)
	if err := s.FS.link.client.Link("/a", "/b"); err != nil {
		t.Fatal(err)
	}
	s.names(t, root())
	s.lookup(t, root(), "a")
	s.lookup(t, root(), "b")
	s.move(t, "a", "b")
	want := s.server.Files.Exists("/a")
	var out fuse.EntryOut
	if status := s.Lookup(nil, root(), "a", &out); (status == fuse.OK && out.NodeId != 0) != want {
		t.Errorf("lookup: %v, node %d; on the host: %v", status, out.NodeId, want)
	}
	if got := s.names(t, root()); slices.Contains(got, "a") != want {
		t.Errorf("listed: %q; on the host: %v", got, want)
	}
	if !want {
		t.Error("the server does not do as rename(2)")
	}
}

// On a server whose renames follow links, what a link leads to is neither replaced nor moved.
func TestRenameWhereLinksAreFollowed(t *testing.T) {
	for name, extensions := range map[string][]wire.ExtensionPair{"all": nil, "none": {}} {
		s := mountScripted(t, time.Minute, sftptest.Script{FollowLinks: true,
			Extensions: extensions})
		for _, file := range []string{"precious", "other", "new"} {
			s.server.Files.WriteFile("/"+file, []byte(file))
		}
		s.server.Files.Symlink("precious", "/by file")
		s.server.Files.Symlink("precious", "/by link")
		s.server.Files.Symlink("other", "/link")
		for _, name := range []string{"by file", "by link", "link", "new"} {
			var out fuse.EntryOut
			status := s.Lookup(nil, root(), name, &out)
			if link := out.Mode&syscall.S_IFMT == syscall.S_IFLNK; status != fuse.OK ||
				link != (name != "new") {
				t.Errorf("%s is of mode %o, %v", name, out.Mode, status)
			}
		}
		s.move(t, "new", "by file")
		s.move(t, "link", "by link")
		want := []string{"/by file", "/by link -> /other", "/other", "/precious"}
		if got := s.server.Files.List(); !slices.Equal(got, want) {
			t.Errorf("extensions %s: there are %q", name, got)
		}
		for file, want := range map[string]string{"precious": "precious", "other": "other",
			"by file": "new"} {
			if got, err := s.server.Files.ReadFile("/" + file); string(got) != want {
				t.Errorf("extensions %s: %s holds %q, %v", name, file, got, err)
			}
		}
	}
}

// On a server that only has RENAME, which replaces nothing, the mount replaces what rename(2) does:
// files and empty directories, and leaves nothing behind.
func TestReplaceWithoutPosixRename(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		want     fuse.Status
		left     []string
	}{
		"file": {"one", "two", fuse.OK,
			[]string{"/empty/", "/full/", "/full/file", "/spare/", "/two"}},
		"empty directory": {"spare", "empty", fuse.OK,
			[]string{"/empty/", "/full/", "/full/file", "/one", "/two"}},
		"directory": {"spare", "full", fuse.Status(syscall.ENOTEMPTY),
			[]string{"/empty/", "/full/", "/full/file", "/one", "/spare/", "/two"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, time.Minute,
				sftptest.Script{Extensions: []wire.ExtensionPair{}})
			for _, file := range []string{"/one", "/two", "/full/file"} {
				s.server.Files.WriteFile(file, nil)
			}
			s.server.Files.Mkdir("/empty")
			s.server.Files.Mkdir("/spare")
			s.names(t, root())
			in := fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID}
			if status := s.Rename(nil, &in, test.from, test.to); status != test.want {
				t.Errorf("%v, want %v", status, test.want)
			}
			if got := s.server.Files.List(); !slices.Equal(got, test.left) {
				t.Errorf("the host has %q, want %q", got, test.left)
			}
		})
	}
}

// A server that has moved a target out of the way gets the new file in its place, although the
// answer was lost or a signal came meanwhile.
func TestReplacementIsCompleted(t *testing.T) {
	for name, aside := range map[string]sftptest.Action{"lost": sftptest.Truncate(0),
		"interrupted": sftptest.Delay(5 * time.Second)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mountScripted(t, time.Minute,
					sftptest.Script{Extensions: []wire.ExtensionPair{}})
				s.server.Files.WriteFile("/old", []byte("old"))
				s.server.Files.WriteFile("/new", []byte("new"))
				s.names(t, root())
				s.server.AddFaults(sftptest.Fault{On: wire.TypeRename, Path: "/old", Times: 1,
					Do: aside})
				cancel := make(chan struct{})
				if name == "interrupted" {
					time.AfterFunc(time.Second, func() { close(cancel) })
				}
				in := fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID}
				if status := s.Rename(cancel, &in, "new", "old"); status != fuse.OK {
					t.Error(status)
				}
				if data, err := s.server.Files.ReadFile("/old"); string(data) != "new" {
					t.Errorf("the host has %q, %v, of %q", data, err, s.server.Files.List())
				}
			})
		})
	}
}
