package sftptest

import (
	"fmt"
	"strings"

	"github.com/usftp/usftp/wire"
)

func mkdir(name string) wire.PathAttrs { return wire.PathAttrs{Type: wire.TypeMkdir, Path: name} }

func onPath(t wire.Type, name string) wire.PathRequest {
	return wire.PathRequest{Type: t, Path: name}
}

var nameCases = []conformanceCase{
	{name: "Stat", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		if got := k.stat(k.path("a")); !got.Has(wire.AttrSize|wire.AttrPermissions) ||
			got.Size != 5 || got.Permissions&modeType != modeRegular {
			k.Fatalf("STAT of a file: %+v", got)
		}
		if got := k.stat(k.dir); got.Permissions&modeType != modeDir {
			k.Fatalf("STAT of a directory: %+v", got)
		}
		k.code(onPath(wire.TypeStat, k.path("no")), wire.NoSuchFile)
		k.code(onPath(wire.TypeLstat, k.path("no")), wire.NoSuchFile)
		k.code(onPath(wire.TypeStat, k.path("a/below")), wire.NoSuchFile)
	}},
	{name: "MkdirRmdir", run: func(k *kit) {
		k.ok(mkdir(k.path("d")))
		k.fails(mkdir(k.path("d")))
		k.code(mkdir(k.path("no/d")), wire.NoSuchFile)
		k.create(k.path("d/a"), "x")
		k.fails(onPath(wire.TypeRmdir, k.path("d")))
		k.fails(onPath(wire.TypeRmdir, k.path("d/a")))
		k.ok(onPath(wire.TypeRemove, k.path("d/a")))
		k.ok(onPath(wire.TypeRmdir, k.path("d")))
		k.code(onPath(wire.TypeRmdir, k.path("d")), wire.NoSuchFile)
	}},
	{name: "Remove", run: func(k *kit) {
		k.create(k.path("a"), "x")
		k.ok(onPath(wire.TypeRemove, k.path("a")))
		k.missing(k.path("a"))
		k.code(onPath(wire.TypeRemove, k.path("a")), wire.NoSuchFile)
		k.fails(onPath(wire.TypeRemove, k.dir))
	}},
	{name: "RemovedFileStaysOpen", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		h := k.open(k.path("a"), wire.OpenRead)
		k.ok(onPath(wire.TypeRemove, k.path("a")))
		if got := k.read(h, 0, 5); got != "hello" {
			k.Fatalf("READ of a removed file: %q", got)
		}
	}},
	{name: "Rename", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		k.ok(wire.Rename{OldPath: k.path("a"), NewPath: k.path("b")})
		k.missing(k.path("a"))
		k.wantContents(k.path("b"), "hello")
		k.ok(mkdir(k.path("d")))
		k.ok(wire.Rename{OldPath: k.path("d"), NewPath: k.path("e")})
		k.code(wire.Rename{OldPath: k.path("a"), NewPath: k.path("c")}, wire.NoSuchFile)
	}},
	{name: "RenameNeverReplaces", run: func(k *kit) {
		k.create(k.path("a"), "new")
		k.create(k.path("b"), "old")
		k.fails(wire.Rename{OldPath: k.path("a"), NewPath: k.path("b")})
		k.wantContents(k.path("a"), "new")
		k.wantContents(k.path("b"), "old")
	}},
	{name: "Symlink", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		k.symlink("a", k.path("link"))
		if got := k.name(onPath(wire.TypeReadlink, k.path("link"))); got != "a" {
			k.Fatalf("READLINK: %q", got)
		}
		if got := k.lstat(k.path("link")); got.Permissions&modeType != modeSymlink {
			k.Fatalf("LSTAT of a link: %+v", got)
		}
		if got := k.stat(k.path("link")); got.Permissions&modeType != modeRegular || got.Size != 5 {
			k.Fatalf("STAT through a link: %+v", got)
		}
		k.wantContents(k.path("link"), "hello")
		k.ok(onPath(wire.TypeRemove, k.path("link")))
		k.wantContents(k.path("a"), "hello")
		k.fails(onPath(wire.TypeReadlink, k.path("a")))
	}},
	{name: "SymlinkDangling", run: func(k *kit) {
		k.symlink("nowhere", k.path("link"))
		k.code(onPath(wire.TypeStat, k.path("link")), wire.NoSuchFile)
		k.code(wire.Open{Path: k.path("link"), Flags: wire.OpenRead}, wire.NoSuchFile)
		if got := k.name(onPath(wire.TypeReadlink, k.path("link"))); got != "nowhere" {
			k.Fatalf("READLINK: %q", got)
		}
	}},
	{name: "SymlinkLoop", run: func(k *kit) {
		k.symlink("b", k.path("a"))
		k.symlink("a", k.path("b"))
		k.fails(onPath(wire.TypeStat, k.path("a")))
	}},
	{name: "Realpath", run: func(k *kit) {
		if got := k.name(onPath(wire.TypeRealpath, ".")); !strings.HasPrefix(got, "/") {
			k.Fatalf("REALPATH of .: %q", got)
		}
		k.ok(mkdir(k.path("d")))
		real := k.name(onPath(wire.TypeRealpath, k.dir)) // Dir may lead through a link
		for name, want := range map[string]string{"d": "/d", "d/.": "/d", "d/..": "",
			"d/../d/": "/d", "./d//": "/d"} {
			if got := k.name(onPath(wire.TypeRealpath, k.dir+"/"+name)); got != real+want {
				k.Fatalf("REALPATH of %q: %q, want %q", k.dir+"/"+name, got, real+want)
			}
		}
	}},
	{name: "Readdir", run: func(k *kit) {
		if got := k.list(k.dir); len(got) != 0 {
			k.Fatalf("an empty directory lists %d names", len(got))
		}
		const count = 250 // more than a packet of most servers
		for i := range count {
			k.create(k.path(fmt.Sprintf("f%03d", i)), strings.Repeat("x", i))
		}
		got := k.list(k.dir)
		if len(got) != count {
			k.Fatalf("listed %d names, want %d", len(got), count)
		}
		for i, n := range got {
			if want := fmt.Sprintf("f%03d", i); n.Filename != want || !n.Attrs.Has(wire.AttrSize) ||
				n.Attrs.Size != uint64(i) {
				k.Fatalf("entry %d is %q of size %d, want %q", i, n.Filename, n.Attrs.Size, want)
			}
		}
	}},
	{name: "ReaddirKinds", run: func(k *kit) {
		k.create(k.path("a"), "x")
		k.ok(mkdir(k.path("b")))
		k.symlink("b", k.path("c"))
		got := k.list(k.dir)
		if len(got) != 3 {
			k.Fatalf("listed %d names, want 3", len(got))
		}
		for i, want := range []uint32{modeRegular, modeDir, modeSymlink} {
			if got[i].Attrs.Permissions&modeType != want {
				k.Fatalf("%s has mode %o, want type %o", got[i].Filename, got[i].Attrs.Permissions,
					want)
			}
		}
	}},
	{name: "OpendirRefuses", run: func(k *kit) {
		k.create(k.path("a"), "x")
		k.code(onPath(wire.TypeOpendir, k.path("no")), wire.NoSuchFile)
		k.fails(onPath(wire.TypeOpendir, k.path("a")))
	}},
	{name: "StrangeNames", run: func(k *kit) {
		names := []string{" ", "-n", "a\nb", "a\\b", "naïve", "\xff\xfe", "~", "*",
			strings.Repeat("n", 255)}
		for _, name := range names {
			k.create(k.path(name), name)
		}
		for _, name := range names {
			k.wantContents(k.path(name), name)
		}
		if got := k.list(k.dir); len(got) != len(names) {
			k.Fatalf("listed %d names, want %d", len(got), len(names))
		}
	}},
}
