package sftptest

import (
	"strings"

	"github.com/usftp/usftp/wire"
)

const create = wire.OpenWrite | wire.OpenCreate

var fileCases = []conformanceCase{
	{name: "WriteThenRead", run: func(k *kit) {
		data := strings.Repeat("0123456789abcdef", 1000)
		k.create(k.path("a"), data)
		k.wantContents(k.path("a"), data)
	}},
	{name: "EmptyFile", run: func(k *kit) {
		k.create(k.path("a"), "")
		k.wantContents(k.path("a"), "")
	}},
	{name: "ReadStopsAtTheEnd", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		h := k.open(k.path("a"), wire.OpenRead)
		if got := k.read(h, 3, 100); got != "lo" {
			k.Fatalf("READ over the end: %q", got)
		}
		for _, offset := range []uint64{5, 6, 1 << 40} {
			k.code(wire.Read{Handle: h, Offset: offset, Length: 1}, wire.EOF)
		}
	}},
	{name: "ReadOfWildLength", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		h := k.open(k.path("a"), wire.OpenRead)
		if got := k.read(h, 0, 1<<31-1); got != "hello" {
			k.Fatalf("READ of 2 GiB: %q", got)
		}
	}},
	{name: "WritesOutOfOrder", run: func(k *kit) {
		h := k.open(k.path("a"), create)
		k.write(h, 6, "world")
		k.write(h, 0, "hello ")
		k.closeHandle(h)
		k.wantContents(k.path("a"), "hello world")
	}},
	{name: "WriteLeavesAGapOfZeros", run: func(k *kit) {
		h := k.open(k.path("a"), create)
		k.write(h, 4, "x")
		k.closeHandle(h)
		k.wantContents(k.path("a"), "\x00\x00\x00\x00x")
	}},
	{name: "OpenWithoutTruncateKeeps", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		h := k.open(k.path("a"), create)
		k.write(h, 0, "J")
		k.closeHandle(h)
		k.wantContents(k.path("a"), "Jello")
	}},
	{name: "OpenTruncates", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		k.closeHandle(k.open(k.path("a"), create|wire.OpenTruncate))
		k.wantContents(k.path("a"), "")
	}},
	{name: "OpenExclusive", run: func(k *kit) {
		k.closeHandle(k.open(k.path("a"), create|wire.OpenExclusive))
		k.fails(wire.Open{Path: k.path("a"), Flags: create | wire.OpenExclusive})
	}},
	{name: "OpenMissing", run: func(k *kit) {
		k.code(wire.Open{Path: k.path("a"), Flags: wire.OpenRead}, wire.NoSuchFile)
		k.code(wire.Open{Path: k.path("a"), Flags: wire.OpenWrite}, wire.NoSuchFile)
		k.code(wire.Open{Path: k.path("no/a"), Flags: create}, wire.NoSuchFile)
	}},
	{name: "OpenDirectoryForWriting", run: func(k *kit) {
		k.fails(wire.Open{Path: k.dir, Flags: wire.OpenWrite})
	}},
	{name: "OpenReadWrite", run: func(k *kit) {
		h := k.open(k.path("a"), create|wire.OpenRead)
		k.write(h, 0, "hello")
		if got := k.read(h, 1, 3); got != "ell" {
			k.Fatalf("read back %q", got)
		}
	}},
	{name: "OpenAppend", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		h := k.open(k.path("a"), wire.OpenWrite|wire.OpenAppend)
		k.write(h, 0, " world")
		k.closeHandle(h)
		k.wantContents(k.path("a"), "hello world")
	}},
	{name: "OpenSetsMode", run: func(k *kit) {
		var m wire.Handle
		attrs := wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o600}
		k.expect(wire.Open{Path: k.path("a"), Flags: create, Attrs: attrs}, wire.TypeHandle, &m)
		if got := k.stat(k.path("a")); got.Permissions&0o777 != 0o600 {
			k.Fatalf("mode %o, want 600", got.Permissions)
		}
	}},
	{name: "ReadNeedsReading", run: func(k *kit) {
		h := k.open(k.path("a"), create)
		k.write(h, 0, "hello")
		k.fails(wire.Read{Handle: h, Length: 1})
	}},
	{name: "WriteNeedsWriting", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		h := k.open(k.path("a"), wire.OpenRead)
		k.fails(wire.Write{Handle: h, Data: []byte("J")})
		k.wantContents(k.path("a"), "hello")
	}},
	{name: "HandlesOfOneFile", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		first, second := k.open(k.path("a"), wire.OpenWrite), k.open(k.path("a"), wire.OpenWrite)
		if string(first) == string(second) {
			k.Fatalf("two OPENs, one handle %q", first)
		}
		k.write(first, 0, "J")
		k.write(second, 5, "!")
		for _, h := range [][]byte{first, second} {
			if got := k.attrs(wire.HandleRequest{Type: wire.TypeFstat, Handle: h}); got.Size != 6 {
				k.Fatalf("FSTAT: size %d, want 6", got.Size)
			}
		}
		k.closeHandle(first)
		k.closeHandle(second)
		k.wantContents(k.path("a"), "Jello!")
	}},
	{name: "ClosedHandle", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		h := k.open(k.path("a"), wire.OpenRead)
		k.closeHandle(h)
		k.fails(wire.Read{Handle: h, Length: 1})
		k.fails(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
	}},
	{name: "ForeignHandle", run: func(k *kit) {
		for _, h := range [][]byte{nil, []byte("x"), []byte("\xff\xff\xff\xff"),
			make([]byte, 300)} {
			k.fails(wire.Read{Handle: h, Length: 1})
			k.fails(wire.Write{Handle: h, Data: []byte("x")})
			k.fails(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
			k.fails(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h})
			k.fails(wire.HandleRequest{Type: wire.TypeFstat, Handle: h})
			k.fails(wire.Fsetstat{Handle: h})
		}
	}},
	{name: "Setstat", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		set := wire.Attrs{Flags: wire.AttrSize, Size: 4}
		k.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: k.path("a"), Attrs: set})
		k.wantContents(k.path("a"), "hell")
		set = wire.Attrs{Flags: wire.AttrPermissions | wire.AttrACModTime, Permissions: 0o640,
			ATime: 1e9, MTime: 1e9 + 1}
		k.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: k.path("a"), Attrs: set})
		got := k.stat(k.path("a"))
		if got.Size != 4 || got.Permissions&0o777 != 0o640 || got.MTime != 1e9+1 {
			k.Fatalf("STAT after SETSTAT: %+v", got)
		}
		k.code(wire.PathAttrs{Type: wire.TypeSetstat, Path: k.path("no"), Attrs: set},
			wire.NoSuchFile)
	}},
	{name: "Fsetstat", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		h := k.open(k.path("a"), wire.OpenWrite)
		k.ok(wire.Fsetstat{Handle: h, Attrs: wire.Attrs{Flags: wire.AttrSize, Size: 7}})
		k.ok(wire.Fsetstat{Handle: h, Attrs: wire.Attrs{Flags: wire.AttrACModTime, ATime: 1e9,
			MTime: 1e9}})
		got := k.attrs(wire.HandleRequest{Type: wire.TypeFstat, Handle: h})
		if got.Size != 7 || got.MTime != 1e9 {
			k.Fatalf("FSTAT after FSETSTAT: %+v", got)
		}
		k.closeHandle(h)
		k.wantContents(k.path("a"), "hello\x00\x00")
	}},
}
