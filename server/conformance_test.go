package server_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// complete is a backend that implements everything. Since every method is optional, one with a
// misspelled name or the wrong type would otherwise go unnoticed.
type complete interface {
	server.FS
	server.Lstater
	server.Opener
	server.Lister
	server.Setstater
	server.Lsetstater
	server.Renamer
	server.PosixRenamer
	server.Remover
	server.Rmdirer
	server.Mkdirer
	server.Symlinker
	server.Readlinker
	server.Linker
	server.RealPather
	server.StatVFSer
}

var (
	_ complete = (*memfs.FS)(nil)
	_ complete = (*osfs.FS)(nil)
	_ complete = (*server.Folders)(nil)

	// What only a real system has.
	_ server.HomeDirer  = (*osfs.FS)(nil)
	_ server.OwnerNamer = (*osfs.FS)(nil)
)

// backends are the backends that every conformance case runs against.
var backends = map[string]func(t *testing.T) server.FS{
	"memfs": func(*testing.T) server.FS { return memfs.New(0) },
	"objectfs": func(*testing.T) server.FS {
		return objectfs.New(&membucket.Bucket{}, nil)
	},
	"osfs":         func(t *testing.T) server.FS { return serving(t, osfs.New) },
	"osfs, atomic": func(t *testing.T) server.FS { return serving(t, osfs.NewAtomic) },
}

// serving serves a new directory.
func serving(t *testing.T, serve func(dir string) (*osfs.FS, error)) server.FS {
	fs, err := serve(t.TempDir())
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// lacking are backends that are not complete: the cases that do not apply to them, and why.
var lacking = map[string]map[string]string{
	"objectfs": {
		"offers":          "there are no links, no file system and no times of links",
		"write and read":  "a file that is being written cannot be read",
		"open attributes": "objects have no permissions",
		"directories":     "objects have no permissions",
		"links":           "objects have no links",
		"attributes":      "objects have no permissions",
		"real path":       "paths are clean, since there are no links",
		"copy-data":       "a file that is being written cannot be read",
		"statvfs":         "there is no file system",
		"paths":           "paths are clean, since there are no links",
	},
}

// conformance holds the cases that every complete backend must pass.
var conformance = map[string]func(t *testing.T, c *raw){
	"offers":           testOffers,
	"write and read":   testWriteRead,
	"read at the end":  testReadEnd,
	"append":           testAppend,
	"exclusive create": testExclusive,
	"open attributes":  testOpenAttrs,
	"open what is absent": func(t *testing.T, c *raw) {
		want(t, c.status(wire.Open{Path: "/none", Flags: wire.OpenRead}), wire.NoSuchFile)
		want(t, c.status(wire.PathRequest{Type: wire.TypeStat, Path: "/none"}), wire.NoSuchFile)
		want(t, c.status(wire.PathRequest{Type: wire.TypeOpendir, Path: "/none"}), wire.NoSuchFile)
		want(t, c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/none"}), wire.NoSuchFile)
		want(t, c.status(wire.Rename{OldPath: "/none", NewPath: "/x"}), wire.NoSuchFile)
	},
	"rename":         testRename,
	"directories":    testDirectories,
	"long listing":   testLongListing,
	"links":          testLinks,
	"attributes":     testAttributes,
	"real path":      testRealPath,
	"copy-data":      testCopyData,
	"check-file":     testCheckFile,
	"chunks":         testChunks,
	"statvfs":        testStatVFS,
	"expand-path":    testExpandPath,
	"limits":         testLimits,
	"paths":          testPaths,
	"closed handles": testClosedHandles,
}

func TestConformance(t *testing.T) {
	for backend, make := range backends {
		for name, test := range conformance {
			if lacking[backend][name] != "" {
				continue
			}
			t.Run(backend+"/"+name, func(t *testing.T) {
				test(t, start(t, make(t), nil))
			})
		}
	}
}

func want[T any](t *testing.T, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func testOffers(t *testing.T, c *raw) {
	for name, version := range map[string]string{
		wire.ExtPosixRename: "1", wire.ExtStatVFS: "2", wire.ExtFstatVFS: "2",
		wire.ExtHardlink: "1", wire.ExtFsync: "1",
		wire.ExtLsetstat: "1", wire.ExtLimits: "1", wire.ExtExpandPath: "1", wire.ExtCopyData: "1",
		wire.ExtHomeDirectory:   "1",
		wire.ExtCheckFileHandle: "1", wire.ExtCheckFileName: "1", wire.ExtChunks: "1",
		wire.ExtAbandon: "1",
	} {
		if c.offers[name] != version {
			t.Errorf("%s is offered as %q, want %q", name, c.offers[name], version)
		}
	}
}

func testWriteRead(t *testing.T, c *raw) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 3*wire.MaxData/16/2)
	h := c.open("/f", create|wire.OpenRead)
	for offset := 0; offset < len(data); offset += wire.MaxData {
		c.ok(wire.Write{Handle: h, Offset: uint64(offset),
			Data: data[offset:min(len(data), offset+wire.MaxData)]})
	}
	var got []byte
	for len(got) < len(data) {
		got = append(got, c.do(wire.Read{Handle: h, Offset: uint64(len(got)),
			Length: wire.MaxData}).data(t)...)
	}
	if !bytes.Equal(got, data) {
		t.Error("what was read is not what was written")
	}
	want(t, c.do(wire.HandleRequest{Type: wire.TypeFstat, Handle: h}).attrs(t).Size,
		uint64(len(data)))
	c.ok(wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h})
	c.close(h)
	want(t, c.stat("/f").Size, uint64(len(data)))
}

func testReadEnd(t *testing.T, c *raw) {
	c.put("/f", "hello")
	h := c.open("/f", wire.OpenRead)
	want(t, string(c.do(wire.Read{Handle: h, Offset: 3, Length: 100}).data(t)), "lo")
	want(t, c.status(wire.Read{Handle: h, Offset: 5, Length: 1}), wire.EOF)
	want(t, c.status(wire.Read{Handle: h, Offset: 0, Length: 0}), wire.EOF)
	want(t, c.status(wire.Read{Handle: h, Offset: 1 << 40, Length: 1}), wire.EOF)
	want(t, c.status(wire.Read{Handle: h, Offset: 1<<64 - 1, Length: 1}), wire.EOF)
	want(t, c.status(wire.Write{Handle: h, Data: []byte("x")}), wire.Failure)
	c.close(h)
}

func testAppend(t *testing.T, c *raw) {
	c.put("/f", "one ")
	h := c.open("/f", wire.OpenWrite|wire.OpenAppend)
	c.ok(wire.Write{Handle: h, Offset: 0, Data: []byte("two ")})
	c.ok(wire.Write{Handle: h, Offset: 0, Data: []byte("three")})
	c.close(h)
	want(t, c.get("/f"), "one two three")
}

func testExclusive(t *testing.T, c *raw) {
	c.close(c.open("/f", wire.OpenWrite|wire.OpenCreate|wire.OpenExclusive))
	want(t, c.status(wire.Open{Path: "/f",
		Flags: wire.OpenWrite | wire.OpenCreate | wire.OpenExclusive}), wire.Failure)
}

func testOpenAttrs(t *testing.T, c *raw) {
	attrs := wire.Attrs{
		Flags:       wire.AttrSize | wire.AttrPermissions | wire.AttrACModTime,
		Size:        7,
		Permissions: 0o600, ATime: 1000, MTime: 2000,
	}
	c.close(c.do(wire.Open{Path: "/f", Flags: create, Attrs: attrs}).handle(t))
	got := c.stat("/f")
	want(t, got.Permissions, uint32(0o100600))
	want(t, got.MTime, uint32(2000))
	want(t, c.get("/f"), "\x00\x00\x00\x00\x00\x00\x00")
	// Attributes are for a file that OPEN creates.
	attrs.Size, attrs.Permissions, attrs.MTime = 9, 0o644, 3000
	c.close(c.do(wire.Open{Path: "/f", Flags: wire.OpenWrite | wire.OpenCreate,
		Attrs: attrs}).handle(t))
	got = c.stat("/f")
	want(t, got.Size, uint64(7))
	want(t, got.Permissions, uint32(0o100600))
	want(t, got.MTime, uint32(2000))
}

func testRename(t *testing.T, c *raw) {
	c.put("/a", "a")
	c.put("/b", "b")
	want(t, c.status(wire.Rename{OldPath: "/a", NewPath: "/b"}), wire.Failure)
	want(t, c.get("/b"), "b")
	c.ok(wire.Rename{OldPath: "/a", NewPath: "/c"})
	c.ok(wire.PosixRename{OldPath: "/c", NewPath: "/b"})
	want(t, c.get("/b"), "a")
	want(t, c.list("/"), []string{"b"})
}

func testDirectories(t *testing.T, c *raw) {
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d",
		Attrs: wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o750}})
	want(t, c.stat("/d").Permissions, uint32(0o40750))
	want(t, c.status(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"}), wire.Failure)
	c.put("/d/f", "x")
	want(t, c.status(wire.PathRequest{Type: wire.TypeRmdir, Path: "/d"}), wire.Failure)
	// OpenSSH's status for ENOTDIR
	want(t, c.status(wire.PathRequest{Type: wire.TypeRmdir, Path: "/d/f"}), wire.NoSuchFile)
	want(t, c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/d"}), wire.Failure)
	c.ok(wire.Rename{OldPath: "/d", NewPath: "/e"})
	want(t, c.get("/e/f"), "x")
	c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/e/f"})
	c.ok(wire.PathRequest{Type: wire.TypeRmdir, Path: "/e"})
	want(t, c.list("/"), nil)
}

func testLongListing(t *testing.T, c *raw) {
	var made []string
	for i := range 700 {
		name := fmt.Sprintf("%s-%04d", strings.Repeat("n", i%200), i)
		c.close(c.open("/"+name, create))
		made = append(made, name)
	}
	got := c.list("/")
	slices.Sort(made)
	slices.Sort(got)
	want(t, got, made)
}

func testLinks(t *testing.T, c *raw) {
	c.put("/f", "text")
	c.ok(wire.Symlink{First: "f", Second: "/l"})
	want(t, c.do(wire.PathRequest{Type: wire.TypeReadlink, Path: "/l"}).names(t)[0].Filename, "f")
	want(t, c.get("/l"), "text")
	want(t, c.do(wire.PathRequest{Type: wire.TypeLstat, Path: "/l"}).attrs(t).Permissions&0o170000,
		uint32(0o120000))
	want(t, c.stat("/l").Permissions&0o170000, uint32(0o100000))
	c.ok(wire.Hardlink{OldPath: "/f", NewPath: "/h"})
	c.put("/h", "other")
	want(t, c.get("/f"), "other")
	c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/l"})
	want(t, c.list("/")[0] != "l", true)
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"})
	c.ok(wire.Symlink{First: "d", Second: "/dl"})
	c.put("/dl/x", "through")
	want(t, c.get("/d/x"), "through")
	c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/dl/x"})
	want(t, c.list("/d"), nil)
	c.ok(wire.Symlink{First: "loop", Second: "/loop"})
	want(t, c.status(wire.Open{Path: "/loop", Flags: wire.OpenRead}), wire.NoSuchFile)
}

func testAttributes(t *testing.T, c *raw) {
	c.put("/f", "0123456789")
	c.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f", Attrs: wire.Attrs{
		Flags: wire.AttrSize | wire.AttrPermissions | wire.AttrACModTime,
		Size:  4, Permissions: 0o4711, ATime: 5000, MTime: 6000,
	}})
	got := c.stat("/f")
	want(t, got.Size, uint64(4))
	want(t, got.Permissions, uint32(0o104711))
	want(t, got.ATime, uint32(5000))
	want(t, got.MTime, uint32(6000))
	h := c.open("/f", wire.OpenWrite)
	c.ok(wire.Fsetstat{Handle: h, Attrs: wire.Attrs{
		Flags: wire.AttrSize | wire.AttrPermissions | wire.AttrACModTime,
		Size:  6, Permissions: 0o640, ATime: 7000, MTime: 8000,
	}})
	got = c.do(wire.HandleRequest{Type: wire.TypeFstat, Handle: h}).attrs(t)
	want(t, got.Size, uint64(6))
	want(t, got.Permissions, uint32(0o100640))
	want(t, got.MTime, uint32(8000))
	c.close(h)
	want(t, c.get("/f"), "0123\x00\x00")
	h = c.open("/f", wire.OpenRead)
	want(t, c.status(wire.Fsetstat{Handle: h, Attrs: wire.Attrs{Flags: wire.AttrSize}}),
		wire.BadMessage)
	c.close(h)
	want(t, c.get("/f"), "0123\x00\x00")
	c.ok(wire.Symlink{First: "f", Second: "/l"})
	c.ok(wire.Lsetstat{Path: "/l", Attrs: wire.Attrs{Flags: wire.AttrACModTime, ATime: 100,
		MTime: 200}})
	want(t, c.do(wire.PathRequest{Type: wire.TypeLstat, Path: "/l"}).attrs(t).MTime, uint32(200))
	want(t, c.stat("/f").MTime, uint32(8000))
}

func testRealPath(t *testing.T, c *raw) {
	real := func(path string) string {
		return c.do(wire.PathRequest{Type: wire.TypeRealpath, Path: path}).names(t)[0].Filename
	}
	want(t, real("."), "/")
	want(t, real(""), "/")
	for _, path := range []string{"/x/../y", "/y/"} {
		want(t, c.status(wire.PathRequest{Type: wire.TypeRealpath, Path: path}), wire.NoSuchFile)
	}
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/x"})
	want(t, real("/x/../y"), "/y")
	want(t, real("../../.."), "/")
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"})
	c.ok(wire.Symlink{First: "d", Second: "/l"})
	want(t, real("/l/none"), "/d/none")
}

func testCopyData(t *testing.T, c *raw) {
	c.put("/from", "0123456789")
	from, to := c.open("/from", wire.OpenRead), c.open("/to", create|wire.OpenRead)
	c.ok(wire.CopyData{FromHandle: from, FromOffset: 2, Length: 3, ToHandle: to, ToOffset: 1})
	want(t, string(c.do(wire.Read{Handle: to, Length: 99}).data(t)), "\x00234")
	c.ok(wire.CopyData{FromHandle: from, ToHandle: to})
	want(t, string(c.do(wire.Read{Handle: to, Length: 99}).data(t)), "0123456789")
	want(t, c.status(wire.CopyData{FromHandle: from, FromOffset: 5, Length: 100, ToHandle: to}),
		wire.EOF)
	want(t, c.status(wire.CopyData{FromHandle: to, FromOffset: 0, Length: 5, ToHandle: to,
		ToOffset: 3}), wire.Failure)
	// a copy to the end of its own source ends where that was
	appended := c.open("/from", wire.OpenWrite)
	c.ok(wire.CopyData{FromHandle: from, FromOffset: 4, ToHandle: appended, ToOffset: 10})
	want(t, c.get("/from"), "0123456789456789")
	c.ok(wire.CopyData{FromHandle: from, FromOffset: 16, ToHandle: appended, ToOffset: 16})
	c.ok(wire.CopyData{FromHandle: from, FromOffset: 99, ToHandle: appended, ToOffset: 16})
	// and never reads its own output
	want(t, c.status(wire.CopyData{FromHandle: from, Length: 10, ToHandle: appended, ToOffset: 3}),
		wire.Failure)
	tail := c.open("/from", wire.OpenAppend)
	want(t, c.status(wire.CopyData{FromHandle: from, Length: 17, ToHandle: tail}), wire.Failure)
	want(t, c.get("/from"), "0123456789456789")
	c.ok(wire.CopyData{FromHandle: from, Length: 16, ToHandle: tail})
	want(t, c.get("/from"), "01234567894567890123456789456789")
	c.close(from)
}

func testCheckFile(t *testing.T, c *raw) {
	data := bytes.Repeat([]byte("some text "), 1000)
	c.put("/f", string(data))
	hash := func(m message) (reply wire.CheckFileReply) {
		t.Helper()
		p := c.do(m)
		if p.typ != wire.TypeExtendedReply {
			t.Fatalf("got %v", p.describe(t))
		}
		if err := reply.Parse(p.body); err != nil {
			t.Fatal(err)
		}
		return reply
	}
	whole := sha256.Sum256(data)
	reply := hash(wire.CheckFile{Name: wire.ExtCheckFileName, Target: []byte("/f"),
		Algorithms: "crc32,sha256,md5"})
	want(t, reply.Algorithm, "sha256")
	want(t, reply.Hashes, whole[:])
	h := c.open("/f", wire.OpenRead)
	blake := blake3.Sum256(data[10:500])
	reply = hash(wire.CheckFile{
		Name: wire.ExtCheckFileHandle, Target: h, Algorithms: wire.HashBLAKE3, Offset: 10,
		Length: 490,
	})
	want(t, reply.Algorithm, wire.HashBLAKE3)
	want(t, reply.Hashes, blake[:])
	var blocks []byte
	for rest := data; len(rest) > 0; rest = rest[min(len(rest), 4096):] {
		sum := sha256.Sum256(rest[:min(len(rest), 4096)])
		blocks = append(blocks, sum[:]...)
	}
	reply = hash(wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h, Algorithms: "sha256",
		BlockSize: 4096})
	want(t, reply.Hashes, blocks)
	want(t, c.status(wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h, Algorithms: "sha256",
		BlockSize: 255}), wire.BadMessage)
	want(t, c.status(wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h, Algorithms: "rot13"}),
		wire.OpUnsupported)
	want(t, c.status(wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: []byte("gone"),
		Algorithms: "sha256"}), wire.Failure)
	want(t, c.status(wire.CheckFile{Name: wire.ExtCheckFileName, Target: []byte("/none"),
		Algorithms: "sha256"}), wire.NoSuchFile)
}

func testChunks(t *testing.T, c *raw) {
	data := make([]byte, 3<<20)
	rand.New(rand.NewSource(1)).Read(data)
	h := c.open("/f", create)
	for offset := 0; offset < len(data); offset += 128 << 10 {
		c.ok(wire.Write{Handle: h, Offset: uint64(offset), Data: data[offset : offset+128<<10]})
	}
	c.close(h)
	h = c.open("/f", wire.OpenRead)
	list := func(m wire.Chunks) (reply wire.ChunksReply) {
		t.Helper()
		m.Handle = h
		p := c.do(m)
		if p.typ != wire.TypeExtendedReply {
			t.Fatalf("got %v", p.describe(t))
		}
		if err := reply.Parse(p.body); err != nil {
			t.Fatal(err)
		}
		return reply
	}
	for _, m := range []wire.Chunks{
		{Algorithms: "crc32,sha256,md5", Shortest: 4 << 10},
		{Algorithms: "sha256", Shortest: 64 << 10, Length: 1 << 62},
		{Algorithms: "sha256", Shortest: 8 << 10, Offset: 1000, Length: 3<<20 - 1000},
		{Algorithms: "sha256", Shortest: 8 << 10, Offset: 100_000, Length: 1},
		{Algorithms: "sha256", Shortest: 8 << 10, Offset: 1 << 20, Length: 1 << 20},
	} {
		reply := list(m)
		want(t, reply.Algorithm, "sha256")
		at := m.Offset
		for chunk := range reply.All() {
			sum := sha256.Sum256(data[at : at+uint64(chunk.Length)])
			want(t, chunk.Sum, [wire.ChunkSumSize]byte(sum[:]))
			at += uint64(chunk.Length)
			if m.Length > 0 && at >= m.Offset+m.Length && int(at) < len(data) {
				want(t, chunk, slices.Collect(reply.All())[reply.Len()-1])
			}
		}
		if m.Length == 0 || m.Length >= 3<<20-m.Offset {
			want(t, at, 3<<20)
		} else {
			want(t, at >= m.Offset+m.Length && at < m.Offset+m.Length+3*uint64(m.Shortest), true)
		}
	}
	for _, offset := range []uint64{3 << 20, 1 << 40, 1<<63 - 1} {
		reply := list(wire.Chunks{Algorithms: "md5", Shortest: 4 << 10, Offset: offset})
		want(t, reply.Len(), 0)
		want(t, reply.End, true)
	}
	for _, bad := range []struct {
		wire.Chunks
		code wire.Code
	}{
		{wire.Chunks{Algorithms: "rot13", Shortest: 4 << 10}, wire.OpUnsupported},
		{wire.Chunks{Algorithms: "md5", Shortest: 1 << 10}, wire.BadMessage},
		{wire.Chunks{Algorithms: "md5", Shortest: 5000}, wire.BadMessage},
		{wire.Chunks{Algorithms: "md5", Shortest: 128 << 10}, wire.BadMessage},
		{wire.Chunks{Algorithms: "md5", Shortest: 1 << 31}, wire.BadMessage},
		{wire.Chunks{Algorithms: "md5", Shortest: 4 << 10, Offset: 1 << 63}, wire.BadMessage},
	} {
		bad.Handle = h
		want(t, c.status(bad.Chunks), bad.code)
	}
	want(t, c.status(wire.Chunks{Handle: []byte("gone"), Algorithms: "md5", Shortest: 4 << 10}),
		wire.Failure)
	write := c.open("/f", wire.OpenWrite)
	want(t, c.status(wire.Chunks{Handle: write, Algorithms: "md5", Shortest: 4 << 10}),
		wire.Failure)
	c.close(write)
	c.close(h)
}

func testStatVFS(t *testing.T, c *raw) {
	c.put("/f", "x")
	h := c.open("/f", wire.OpenRead)
	for _, m := range []message{
		wire.ExtendedPath{Name: wire.ExtStatVFS, Path: "/f"},
		wire.ExtendedHandle{Name: wire.ExtFstatVFS, Handle: h},
	} {
		p := c.do(m)
		var reply wire.StatVFSReply
		if p.typ != wire.TypeExtendedReply || reply.Parse(p.body) != nil {
			t.Fatalf("got %v", p.describe(t))
		}
		if reply.FragmentSize == 0 || reply.Blocks == 0 || reply.NameMax == 0 {
			t.Errorf("%T: %+v", m, reply)
		}
	}
	want(t, c.status(wire.ExtendedPath{Name: wire.ExtStatVFS, Path: "/none"}), wire.NoSuchFile)
}

func testExpandPath(t *testing.T, c *raw) {
	expand := func(path string) string {
		return c.do(wire.ExtendedPath{Name: wire.ExtExpandPath, Path: path}).names(t)[0].Filename
	}
	want(t, expand("~"), "/")
	want(t, expand("~/x"), "/x")
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/a"})
	want(t, expand("a/../b"), "/b")
	want(t, c.status(wire.ExtendedPath{Name: wire.ExtExpandPath, Path: "~nobody-here/x"}),
		wire.NoSuchFile)
	want(t, c.do(wire.ExtendedPath{Name: wire.ExtHomeDirectory}).names(t)[0].Filename, "/")
}

func testLimits(t *testing.T, c *raw) {
	p := c.do(wire.Limits{})
	var got wire.LimitsReply
	if err := got.Parse(p.body); err != nil || p.typ != wire.TypeExtendedReply {
		t.Fatalf("%v, %v", p.typ, err)
	}
	want(t, got, wire.LimitsReply{MaxPacket: 262144, MaxRead: 261120, MaxWrite: 261120,
		MaxOpenHandles: 1024})
}

func testPaths(t *testing.T, c *raw) {
	c.put("relative", "r")
	want(t, c.get("/relative"), "r")
	want(t, c.get("/../../relative"), "r")
	want(t, c.status(wire.Open{Path: "x/../relative", Flags: wire.OpenRead}), wire.NoSuchFile)
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/x"})
	want(t, c.get("x/../relative"), "r")
	c.ok(wire.PathRequest{Type: wire.TypeRmdir, Path: "/x/"})
	for _, path := range []string{"", "relative/", "relative/.", "relative/.."} {
		want(t, c.status(wire.PathRequest{Type: wire.TypeStat, Path: path}), wire.NoSuchFile)
	}
	want(t, c.status(wire.PathRequest{Type: wire.TypeStat, Path: "/a\x00b"}), wire.BadMessage)
	want(t, c.status(wire.PathRequest{Type: wire.TypeStat, Path: strings.Repeat("x", 100_000)}),
		wire.BadMessage)
	want(t, c.status(wire.Open{Path: "/../" + strings.Repeat("y/", 3000), Flags: create}),
		wire.BadMessage)
	want(t, c.list("/"), []string{"relative"})
}

func testClosedHandles(t *testing.T, c *raw) {
	c.put("/f", "x")
	h := c.open("/f", wire.OpenRead|wire.OpenWrite)
	c.close(h)
	for _, m := range []message{
		wire.HandleRequest{Type: wire.TypeClose, Handle: h},
		wire.HandleRequest{Type: wire.TypeFstat, Handle: h},
		wire.HandleRequest{Type: wire.TypeReaddir, Handle: h},
		wire.Read{Handle: h, Length: 1},
		wire.Write{Handle: h, Data: []byte("y")},
		wire.Write{Handle: bytes.Repeat([]byte("h"), 300), Data: []byte("y")},
		wire.Fsetstat{Handle: h},
		wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h},
		wire.ExtendedHandle{Name: wire.ExtFstatVFS, Handle: h},
		wire.CopyData{FromHandle: h, ToHandle: h},
		wire.Read{Handle: nil, Length: 1},
	} {
		want(t, c.status(m), wire.Failure)
	}
	// The slot is reused with a new key.
	if again := c.open("/f", wire.OpenRead); bytes.Equal(again, h) {
		t.Error("a handle was given twice")
	}
}
