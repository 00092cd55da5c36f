package wire

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func TestOpenSSHUnderstandsExtensions(t *testing.T) {
	s := startServer(t)
	if err := os.WriteFile(s.at("a"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	from, to := s.open("a", OpenRead), s.open("b", OpenWrite|OpenCreate)

	if s.has(ExtLimits, "1") {
		var limits LimitsReply
		s.ask(Limits{}, TypeExtendedReply, &limits)
		if limits.MaxPacket != MaxPacket || limits.MaxRead != MaxData ||
			limits.MaxWrite != MaxData {
			t.Errorf("limits: %+v", limits)
		}
	}
	if s.has(ExtStatVFS, "2") && s.has(ExtFstatVFS, "2") {
		var byPath, byHandle StatVFSReply
		s.ask(ExtendedPath{Name: ExtStatVFS, Path: "a"}, TypeExtendedReply, &byPath)
		s.ask(ExtendedHandle{Name: ExtFstatVFS, Handle: from}, TypeExtendedReply, &byHandle)
		if byPath.FSID != byHandle.FSID || byPath.FragmentSize == 0 ||
			byPath.BlocksFree > byPath.Blocks || byPath.NameMax < 14 {
			t.Errorf("statvfs: %+v, fstatvfs: %+v", byPath, byHandle)
		}
	}
	if s.has(ExtCopyData, "1") {
		s.do(CopyData{FromHandle: from, FromOffset: 2, Length: 3, ToHandle: to, ToOffset: 1})
		if got, err := os.ReadFile(s.at("b")); string(got) != "\x00234" {
			t.Errorf("copy-data: %q, %v", got, err)
		}
		s.do(CopyData{FromHandle: from, FromOffset: 8, ToHandle: to})
		if got, err := os.ReadFile(s.at("b")); string(got) != "8934" {
			t.Errorf("copy-data to the end: %q, %v", got, err)
		}
	}
	if s.has(ExtFsync, "1") {
		s.do(ExtendedHandle{Name: ExtFsync, Handle: to})
	}
	if s.has(ExtPosixRename, "1") {
		s.do(PosixRename{OldPath: "b", NewPath: "a"})
		if _, err := os.Lstat(s.at("b")); !os.IsNotExist(err) {
			t.Errorf("posix-rename left the old name: %v", err)
		}
	}
	if s.has(ExtHardlink, "1") {
		s.do(Hardlink{OldPath: "a", NewPath: "c"})
		a, errA := os.Stat(s.at("a"))
		c, errC := os.Stat(s.at("c"))
		if errA != nil || errC != nil || !os.SameFile(a, c) {
			t.Errorf("hardlink: %v, %v", errA, errC)
		}
	}
	if s.has(ExtLsetstat, "1") {
		if err := os.Symlink("nothing", s.at("link")); err != nil {
			t.Fatal(err)
		}
		s.do(Lsetstat{Path: "link", Attrs: Attrs{Flags: AttrACModTime, ATime: 1e9, MTime: 1e9}})
		if info, err := os.Lstat(s.at("link")); err != nil || info.ModTime().Unix() != 1e9 {
			t.Errorf("lsetstat: %v, %v", info, err)
		}
	}
	s.ask(Extended{Name: "nobody-has-this@example.com", Payload: []byte("payload")}, TypeStatus,
		new(Status))
}

func TestOpenSSHUnderstandsQuestionsOfUsers(t *testing.T) {
	s := startServer(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if s.has(ExtExpandPath, "1") {
		want, err := filepath.EvalSymlinks(me.HomeDir)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.name(ExtendedPath{Name: ExtExpandPath, Path: "~" + me.Username}); got != want {
			t.Errorf("expand-path: %q, want %q", got, want)
		}
	}
	if s.has(ExtHomeDirectory, "1") {
		if got := s.name(ExtendedPath{Name: ExtHomeDirectory,
			Path: me.Username}); got != me.HomeDir {
			t.Errorf("home-directory: %q, want %q", got, me.HomeDir)
		}
	}
	if s.has(ExtUsersGroupsByID, "1") {
		uid, err := strconv.ParseUint(me.Uid, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		gid, err := strconv.ParseUint(me.Gid, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		group, err := user.LookupGroupId(me.Gid)
		if err != nil {
			t.Fatal(err)
		}
		const nobodys = 0x7ffffff0
		var reply UsersGroupsReply
		s.ask(UsersGroupsByID{UIDs: []uint32{nobodys, uint32(uid)}, GIDs: []uint32{uint32(gid)}},
			TypeExtendedReply, &reply)
		if !slices.Equal(reply.Users, []string{"", me.Username}) ||
			!slices.Equal(reply.Groups, []string{group.Name}) {
			t.Errorf("users-groups-by-id: %+v", reply)
		}
	}
}
