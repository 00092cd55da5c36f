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

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// On a host that gives one handle to several open files, programs that have several open read what
// is theirs, and what they write ends up in its own file.
func TestSharedHandles(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{SharedHandles: 1})
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		s.server.Files.WriteFile("/"+name, []byte(strings.Repeat(name, 300_000)))
	}
	s.server.Files.WriteFile("/w", nil)
	var open []*opened
	for _, name := range names {
		open = append(open, s.openFlags(t, 1, name, os.O_RDONLY))
	}
	for off := 0; off < 300_000; off += 50_000 {
		for i, o := range open {
			got, status := o.readAt(off, 50_000)
			if status != fuse.OK || got != strings.Repeat(names[i], 50_000) {
				t.Fatalf("%s at %d: %v, %d bytes, %.10q", names[i], off, status, len(got), got)
			}
		}
	}
	w := s.openFlags(t, 1, "w", os.O_WRONLY)
	w.write(0, "written")
	if status := w.sync(); status != fuse.OK {
		t.Fatal(status)
	}
	if got, _ := s.server.Files.ReadFile("/w"); string(got) != "written" {
		t.Errorf("/w is %q", got)
	}
}

// Where one file may be open at a time, a file that a program has open to read is opened again also
// after it was changed. If the change was not made here, it may be another file by now.
func TestOpenChangedOnAHostWithSharedHandles(t *testing.T) {
	for here, want := range map[bool]fuse.Status{true: fuse.OK, false: fuse.Status(syscall.ESTALE)} {
		s := mountScripted(t, 0, sftptest.Script{SharedHandles: 1})
		s.server.Files.WriteFile("/a", []byte("old"))
		s.server.Files.WriteFile("/b", nil)
		o := s.openFlags(t, 1, "a", os.O_RDONLY)
		s.openFlags(t, 1, "b", os.O_RDONLY) // now it is known that only one may be open
		text := "old"
		if here {
			o.setTimes()
		} else {
			text = "another"
			s.server.Files.WriteFile("/a", []byte(text))
		}
		again := s.openFlags(t, 1, "a", os.O_RDONLY)
		if got, status := again.read(10); got != text || status != fuse.OK {
			t.Errorf("changed here %t: opened later it is %q, %v", here, got, status)
		}
		if got, status := o.read(10); status != want || status == fuse.OK && got != text {
			t.Errorf("changed here %t: opened before it is %q, %v", here, got, status)
		}
	}
}

// Where one file may be open at a time, a program that has several open for writing goes on, and
// its files get what is theirs.
func TestWritersOnAHostWithSharedHandles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, 0, sftptest.Script{SharedHandles: 1})
		for _, name := range []string{"a", "b"} {
			s.server.Files.WriteFile("/"+name, []byte(name))
		}
		a, b := s.openFlags(t, 1, "a", os.O_RDWR), s.openFlags(t, 1, "b", os.O_RDONLY)
		c, d := s.create(t, "c"), s.create(t, "d")
		for i, o := range []*opened{a, c, d, a, c, d} {
			o.write(10*i, strings.Repeat(string(rune('0'+i)), 10))
			if i == 2 {
				for _, o := range []*opened{a, c, d} {
					if status := o.sync(); status != fuse.OK {
						t.Error(status)
					}
				}
			}
		}
		if got, status := b.read(10); got != "b" {
			t.Errorf("b: %q, %v", got, status)
		}
		for i, o := range []*opened{a, c, d} {
			if status := o.flush(); status != fuse.OK {
				t.Error(status)
			}
			want := make([]byte, 10*i+40)
			copy(want[10*i:], strings.Repeat(string(rune('0'+i)), 10))
			copy(want[10*i+30:], strings.Repeat(string(rune('3'+i)), 10))
			name := []string{"/a", "/c", "/d"}[i]
			if got, err := s.server.Files.ReadFile(name); string(got) != string(want) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	})
}

// Where a new file appears when it is closed, one that a program has open does so before something
// is done by its name: read, rename, link or remove.
func TestOpenFilesAppear(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, s *scripted, o *opened){
		"read": func(t *testing.T, s *scripted, o *opened) {
			s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
		},
		"rename": func(t *testing.T, s *scripted, o *opened) { s.move(t, "file", "moved") },
		"link": func(t *testing.T, s *scripted, o *opened) {
			var out fuse.EntryOut
			in := fuse.LinkIn{InHeader: *root(), Oldnodeid: o.header.NodeId}
			if status := s.Link(nil, &in, "other", &out); status != fuse.OK {
				t.Error(status)
			}
		},
		"remove": func(t *testing.T, s *scripted, o *opened) {
			if status := s.Unlink(nil, root(), "file"); status != fuse.OK {
				t.Error(status)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, 0, sftptest.Script{Extensions: []wire.ExtensionPair{
				{Name: wire.ExtUploads, Data: "1"}, {Name: wire.ExtAbandon, Data: "1"},
				{Name: wire.ExtHardlink, Data: "1"}, {Name: wire.ExtPosixRename, Data: "1"}}})
			o := s.create(t, "file")
			o.write(0, "12345")
			s.server.ForgetRequests()
			do(t, s, o)
			var did []wire.Type
			for _, r := range s.server.Requests(wire.TypeWrite, wire.TypeClose, wire.TypeOpen,
				wire.TypeRename, wire.TypeExtended) {
				did = append(did, r.Type)
			}
			if len(did) < 3 || did[0] != wire.TypeWrite || did[1] != wire.TypeClose {
				t.Errorf("did %v", did)
			}
			o.write(5, "678")
			if status := o.flush(); status != fuse.OK {
				t.Error(status)
			}
			for _, name := range []string{"/file", "/moved", "/other"} {
				got, err := s.server.Files.ReadFile(name)
				if err == nil && string(got) != "12345678" {
					t.Errorf("%s: %q", name, got)
				}
			}
		})
	}
}
