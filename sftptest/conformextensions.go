package sftptest

import (
	"crypto/sha256"
	"strings"

	"github.com/usftp/usftp/wire"
)

var extensionCases = []conformanceCase{
	{name: "PosixRename", extension: wire.ExtPosixRename, run: func(k *kit) {
		k.create(k.path("a"), "new")
		k.create(k.path("b"), "old")
		k.ok(wire.PosixRename{OldPath: k.path("a"), NewPath: k.path("b")})
		k.missing(k.path("a"))
		k.wantContents(k.path("b"), "new")
		k.code(wire.PosixRename{OldPath: k.path("a"), NewPath: k.path("b")}, wire.NoSuchFile)
		k.ok(mkdir(k.path("d")))
		k.create(k.path("d/x"), "")
		k.ok(mkdir(k.path("e")))
		k.fails(wire.PosixRename{OldPath: k.path("e"), NewPath: k.path("d")})
		k.fails(wire.PosixRename{OldPath: k.path("b"), NewPath: k.path("d")})
		k.fails(wire.PosixRename{OldPath: k.path("d"), NewPath: k.path("d/below")})
		k.ok(wire.PosixRename{OldPath: k.path("d"), NewPath: k.path("e")})
		k.wantContents(k.path("e/x"), "")
	}},
	{name: "Hardlink", extension: wire.ExtHardlink, run: func(k *kit) {
		k.create(k.path("a"), "hello")
		k.ok(wire.Hardlink{OldPath: k.path("a"), NewPath: k.path("b")})
		h := k.open(k.path("b"), wire.OpenWrite)
		k.write(h, 0, "J")
		k.closeHandle(h)
		k.wantContents(k.path("a"), "Jello")
		k.fails(wire.Hardlink{OldPath: k.path("a"), NewPath: k.path("b")})
		k.code(wire.Hardlink{OldPath: k.path("no"), NewPath: k.path("c")}, wire.NoSuchFile)
	}},
	{name: "Fsync", extension: wire.ExtFsync, run: func(k *kit) {
		h := k.open(k.path("a"), create)
		k.write(h, 0, "hello")
		k.ok(wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h})
		k.closeHandle(h)
		k.fails(wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h})
	}},
	{name: "Abandon", extension: wire.ExtAbandon, run: func(k *kit) {
		h := k.open(k.path("a"), create)
		k.write(h, 0, "hello")
		k.ok(wire.ExtendedHandle{Name: wire.ExtAbandon, Handle: h})
		k.fails(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
		k.fails(wire.ExtendedHandle{Name: wire.ExtAbandon, Handle: h})
		k.create(k.path("b"), "hello")
		h = k.open(k.path("b"), wire.OpenRead)
		k.ok(wire.ExtendedHandle{Name: wire.ExtAbandon, Handle: h})
		k.wantContents(k.path("b"), "hello")
	}},
	{name: "StatVFS", extension: wire.ExtStatVFS, run: func(k *kit) {
		m := extendedReply[wire.StatVFSReply](k,
			wire.ExtendedPath{Name: wire.ExtStatVFS, Path: k.dir})
		if m.FragmentSize == 0 || m.BlocksAvailable > m.Blocks {
			k.Fatalf("statvfs: %+v", m)
		}
		k.code(wire.ExtendedPath{Name: wire.ExtStatVFS, Path: k.path("no")}, wire.NoSuchFile)
	}},
	{name: "FstatVFS", extension: wire.ExtFstatVFS, run: func(k *kit) {
		h := k.open(k.path("a"), create)
		m := extendedReply[wire.StatVFSReply](k,
			wire.ExtendedHandle{Name: wire.ExtFstatVFS, Handle: h})
		if m.FragmentSize == 0 || m.BlocksAvailable > m.Blocks {
			k.Fatalf("fstatvfs: %+v", m)
		}
	}},
	{name: "Lsetstat", extension: wire.ExtLsetstat, run: func(k *kit) {
		k.create(k.path("a"), "hello")
		k.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: k.path("a"),
			Attrs: wire.Attrs{Flags: wire.AttrACModTime, ATime: 1, MTime: 1}})
		k.symlink("a", k.path("link"))
		k.ok(wire.Lsetstat{Path: k.path("link"),
			Attrs: wire.Attrs{Flags: wire.AttrACModTime, ATime: 1e9, MTime: 1e9}})
		if link, file := k.lstat(k.path("link")), k.stat(k.path("link")); link.MTime != 1e9 ||
			file.MTime != 1 {
			k.Fatalf("mtime of the link is %d, want 1000000000; of the file %d, want 1", link.MTime,
				file.MTime)
		}
	}},
	{name: "Limits", extension: wire.ExtLimits, run: func(k *kit) {
		m := extendedReply[wire.LimitsReply](k, wire.Limits{})
		k.create(k.path("a"), "")
		h := k.open(k.path("a"), wire.OpenRead|wire.OpenWrite)
		if m.MaxWrite == 0 || m.MaxWrite > 1<<20 {
			return // do not test a reply of unlimited length
		}
		k.write(h, 0, strings.Repeat("x", int(m.MaxWrite)))
		k.closeHandle(h)
		if got := k.stat(k.path("a")).Size; got != m.MaxWrite {
			k.Fatalf("the longest WRITE left %d bytes, want %d", got, m.MaxWrite)
		}
	}},
	{name: "ExpandPath", extension: wire.ExtExpandPath, run: func(k *kit) {
		if got := k.name(wire.ExtendedPath{Name: wire.ExtExpandPath,
			Path: "~"}); !strings.HasPrefix(got, "/") {
			k.Fatalf("expand-path of ~: %q", got)
		}
		real := k.name(onPath(wire.TypeRealpath, k.dir))
		if got := k.name(wire.ExtendedPath{Name: wire.ExtExpandPath, Path: k.dir}); got != real {
			k.Fatalf("expand-path of an absolute path: %q, want %q", got, real)
		}
	}},
	{name: "CopyData", extension: wire.ExtCopyData, run: func(k *kit) {
		k.create(k.path("a"), "hello world")
		from, to := k.open(k.path("a"), wire.OpenRead), k.open(k.path("b"), create)
		k.ok(wire.CopyData{FromHandle: from, FromOffset: 6, ToHandle: to, ToOffset: 2})
		k.ok(wire.CopyData{FromHandle: from, FromOffset: 0, Length: 2, ToHandle: to})
		k.closeHandle(to)
		k.wantContents(k.path("b"), "heworld")
		k.fails(wire.CopyData{FromHandle: from, ToHandle: to})
	}},
	{name: "UsersGroupsByID", extension: wire.ExtUsersGroupsByID, run: func(k *kit) {
		m := extendedReply[wire.UsersGroupsReply](k,
			wire.UsersGroupsByID{UIDs: []uint32{0, 4e9}, GIDs: []uint32{4e9}})
		if len(m.Users) != 2 || len(m.Groups) != 1 || m.Users[1] != "" || m.Groups[0] != "" {
			k.Fatalf("users-groups-by-id: %q", m)
		}
	}},
	{name: "CheckFileHandle", extension: wire.ExtCheckFileHandle, run: func(k *kit) {
		data := strings.Repeat("0123456789", 100)
		k.create(k.path("a"), data)
		ask := wire.CheckFile{Name: wire.ExtCheckFileHandle,
			Target: k.open(k.path("a"), wire.OpenRead), Algorithms: "no-such,sha256"}
		wantHashes(k, ask, data)
		ask.Offset, ask.Length = 10, 20
		wantHashes(k, ask, data[10:30])
		ask.Offset, ask.Length, ask.BlockSize = 0, 0, 400
		wantHashes(k, ask, data[:400], data[400:800], data[800:])
	}},
	{name: "CheckFileName", extension: wire.ExtCheckFileName, run: func(k *kit) {
		k.create(k.path("a"), "hello")
		wantHashes(k, wire.CheckFile{Name: wire.ExtCheckFileName, Target: []byte(k.path("a")),
			Algorithms: "sha256"}, "hello")
		k.fails(wire.CheckFile{Name: wire.ExtCheckFileName, Target: []byte(k.path("a")),
			Algorithms: "no-such"})
		k.fails(wire.CheckFile{Name: wire.ExtCheckFileName, Target: []byte(k.path("no")),
			Algorithms: "sha256"})
	}},
}

// extendedReply asks for an EXTENDED_REPLY and parses its payload.
func extendedReply[T any, P interface {
	*T
	Parse([]byte) error
}](k *kit, m request) T {
	k.Helper()
	var reply T
	k.expect(m, wire.TypeExtendedReply, P(&reply))
	return reply
}

// wantHashes expects the SHA-256 of each block.
func wantHashes(k *kit, m wire.CheckFile, blocks ...string) {
	k.Helper()
	var want []byte
	for _, block := range blocks {
		sum := sha256.Sum256([]byte(block))
		want = append(want, sum[:]...)
	}
	got := extendedReply[wire.CheckFileReply](k, m)
	if got.Algorithm != "sha256" || string(got.Hashes) != string(want) {
		k.Fatalf("%s: %s %x, want sha256 %x", m.Name, got.Algorithm, got.Hashes, want)
	}
}
