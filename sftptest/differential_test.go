package sftptest

import (
	"fmt"
	"testing"

	"github.com/usftp/usftp/wire"
)

// The scripted server claims to answer like OpenSSH's, which is stricter than the conformance
// cases.
func TestScriptedAnswersAsOpenSSH(t *testing.T) {
	program := opensshServer(t)
	server := NewServer(t, Script{})
	server.Files.Mkdir("/cases")
	ours := statuses(t, newKit(t, server.Dial(LinkConfig{})), "/cases")
	theirs := statuses(t, newKit(t, dialProgram(t, program)), t.TempDir())
	for i := range ours {
		if ours[i] != theirs[i] {
			t.Errorf("answered %s, OpenSSH's server %s", ours[i], theirs[i])
		}
	}
}

// statuses makes many requests that fail, and some that do not, and returns the answers.
func statuses(t *testing.T, k *kit, dir string) (answers []string) {
	k.dir = dir
	k.create(k.path("file"), "hello")
	k.ok(mkdir(k.path("dir")))
	k.create(k.path("dir/child"), "")
	k.symlink("nowhere", k.path("dangling"))
	k.symlink("loop", k.path("loop"))
	k.symlink("dir", k.path("todir"))
	reading, writing := k.open(k.path("file"), wire.OpenRead), k.open(k.path("file"),
		wire.OpenWrite)
	appending := k.open(k.path("file"), wire.OpenWrite|wire.OpenAppend)
	k.create(k.path("other"), "hello")
	other := k.open(k.path("other"), wire.OpenRead)
	directory := k.open(k.path("dir"), wire.OpenRead)
	size := wire.Attrs{Flags: wire.AttrSize, Size: 1}
	for i, m := range []request{
		wire.Open{Path: k.path("file/below"), Flags: wire.OpenRead},
		wire.Open{Path: k.path("dir"), Flags: wire.OpenWrite},
		wire.Open{Path: k.path("dir"), Flags: create},
		wire.Open{Path: k.path("loop"), Flags: wire.OpenRead},
		wire.Open{Path: k.path("dangling"), Flags: create | wire.OpenExclusive},
		wire.Open{Path: k.path("file"), Flags: create | wire.OpenExclusive},
		wire.Read{Handle: writing, Length: 1},
		wire.Read{Handle: directory, Length: 1},
		wire.Read{Handle: []byte("none"), Length: 1},
		wire.Read{Handle: reading, Length: 0},
		wire.Read{Handle: reading, Offset: 5, Length: 0},
		wire.Write{Handle: reading, Data: []byte("x")},
		wire.Write{Handle: []byte("none"), Data: []byte("x")},
		wire.Write{Handle: writing},
		wire.Write{Handle: appending, Data: []byte("x")},
		wire.HandleRequest{Type: wire.TypeClose, Handle: []byte("none")},
		wire.HandleRequest{Type: wire.TypeFstat, Handle: []byte("none")},
		wire.HandleRequest{Type: wire.TypeReaddir, Handle: reading},
		wire.HandleRequest{Type: wire.TypeReaddir, Handle: directory},
		wire.Fsetstat{Handle: []byte("none"), Attrs: size},
		wire.Fsetstat{Handle: reading, Attrs: size},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: k.path("dir"), Attrs: size},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: k.path("dangling"), Attrs: size},
		mkdir(k.path("dir")),
		mkdir(k.path("file")),
		mkdir(k.path("dangling")),
		mkdir(k.path("file/below")),
		mkdir(k.path("made") + "/"),
		onPath(wire.TypeRmdir, k.path("dir")),
		onPath(wire.TypeRmdir, k.path("file")),
		onPath(wire.TypeRmdir, k.path("todir")),
		onPath(wire.TypeRemove, k.path("dir")),
		onPath(wire.TypeRemove, k.path("none")),
		onPath(wire.TypeOpendir, k.path("file")),
		onPath(wire.TypeReadlink, k.path("file")),
		onPath(wire.TypeReadlink, k.path("none")),
		onPath(wire.TypeRealpath, k.path("none")),
		onPath(wire.TypeRealpath, k.path("none/below")),
		onPath(wire.TypeRealpath, k.path("file/below")),
		onPath(wire.TypeRealpath, k.path("loop")),
		onPath(wire.TypeStat, k.path("loop")),
		onPath(wire.TypeLstat, k.path("loop")),
		onPath(wire.TypeLstat, k.path("todir")+"/"),
		wire.Rename{OldPath: k.path("file"), NewPath: k.path("dir")},
		wire.Rename{OldPath: k.path("file"), NewPath: k.path("dangling")},
		wire.Rename{OldPath: k.path("file"), NewPath: k.path("file")},
		wire.Rename{OldPath: k.path("dir"), NewPath: k.path("dir/below")},
		wire.Rename{OldPath: k.path("dir"), NewPath: k.path("none/dir")},
		wire.Symlink{First: "x", Second: k.path("file")},
		wire.PosixRename{OldPath: k.path("dir"), NewPath: k.path("file")},
		wire.PosixRename{OldPath: k.path("file"), NewPath: k.path("dir")},
		wire.PosixRename{OldPath: k.path("made"), NewPath: k.path("dir")},
		wire.PosixRename{OldPath: k.path("dir"), NewPath: k.path("dir/below")},
		wire.PosixRename{OldPath: k.path("file"), NewPath: k.path("file")},
		wire.Hardlink{OldPath: k.path("dir"), NewPath: k.path("x")},
		wire.Hardlink{OldPath: k.path("file"), NewPath: k.path("dir")},
		wire.Hardlink{OldPath: k.path("todir"), NewPath: k.path("x")},
		wire.ExtendedHandle{Name: wire.ExtFsync, Handle: []byte("none")},
		wire.ExtendedHandle{Name: wire.ExtFstatVFS, Handle: []byte("none")},
		wire.CopyData{FromHandle: []byte("none"), ToHandle: writing},
		wire.CopyData{FromHandle: reading, ToHandle: reading},
		wire.CopyData{FromHandle: reading, FromOffset: 100, ToHandle: writing},
		wire.CopyData{FromHandle: other, FromOffset: 100, ToHandle: writing},
		wire.CopyData{FromHandle: other, Length: 100, ToHandle: writing},
		wire.CopyData{FromHandle: writing, ToHandle: other},
		wire.CopyData{FromHandle: other, ToHandle: reading},
		wire.Lsetstat{Path: k.path("none")},
		wire.Lsetstat{Path: k.path("none"), Attrs: wire.Attrs{Flags: wire.AttrPermissions}},
		wire.Lsetstat{Path: k.path("dangling"), Attrs: size},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: k.path("none")},
		wire.Fsetstat{Handle: reading, Attrs: wire.Attrs{Flags: wire.AttrACModTime}},
		wire.ExtendedPath{Name: wire.ExtHomeDirectory, Path: "nobody-of-that-name"},
		wire.Extended{Name: "none"},
	} {
		r := k.ask(m)
		answer := r.Type.String()
		if code, ok := r.Code(); ok {
			answer = code.String()
		}
		answers = append(answers, fmt.Sprintf("request %d, %T: %s", i, m, answer))
	}
	return answers
}
