package server_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// What OpenSSH's server does beyond the draft, and clients have come to rely on.

// TestHandlesAreText: some clients treat handles as text.
func TestHandlesAreText(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	c.put("/f", "text")
	seen := map[string]bool{}
	for range 300 {
		h := c.open("/f", wire.OpenRead)
		for _, b := range h {
			if b < ' ' || b > '~' {
				t.Fatalf("a handle of %q", h)
			}
		}
		if seen[string(h)] {
			t.Fatalf("the handle %q was given twice", h)
		}
		seen[string(h)] = true
		want(t, string(c.do(wire.Read{Handle: h, Length: 4}).data(t)), "text")
		c.close(h)
	}
}

func TestOpenWithoutFlagsReads(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	c.put("/f", "text")
	h := c.open("/f", 0)
	want(t, string(c.do(wire.Read{Handle: h, Length: 4}).data(t)), "text")
	want(t, c.status(wire.Write{Handle: h, Data: []byte("x")}), wire.Failure)
	c.close(h)
}

// TestNoSuchFileInWords: some clients look for these words.
func TestNoSuchFileInWords(t *testing.T) {
	for name, make := range backends {
		t.Run(name, func(t *testing.T) {
			c := start(t, make(t), nil)
			c.put("/f", "text")
			for path, words := range map[string]string{
				"/none":  "No such file",
				"":       "No such file",
				"/f/x":   "No such file: not a directory",
				"/none/": "No such file",
			} {
				if path == "/f/x" && (name == "objectfs" || runtime.GOOS == "windows") {
					// An object may have any name, also below another's, and Windows says no more.
					words = "No such file"
				}
				status := c.do(stat(path)).status(t)
				if status.Code != wire.NoSuchFile || status.Message != words {
					t.Errorf("%q: %v %q", path, status.Code, status.Message)
				}
			}
		})
	}
}

func TestHomeOfTheUser(t *testing.T) {
	backend := memfs.New(0)
	c := start(t, backend, nil)
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/home"})
	c = start(t, backend, &server.Options{Policy: server.Policy{Home: "/home", User: "alice"}})
	expand := func(path string) packet {
		return c.do(wire.ExtendedPath{Name: wire.ExtExpandPath, Path: path})
	}
	want(t, expand("~alice").names(t)[0].Filename, "/home")
	want(t, expand("~alice/x").names(t)[0].Filename, "/home/x")
	want(t, expand("~bob").status(t).Code, wire.NoSuchFile)
	want(t, c.do(wire.ExtendedPath{Name: wire.ExtHomeDirectory,
		Path: "alice"}).names(t)[0].Filename, "/home")
}

// TestCheckFileByItsShortName: paramiko knows no other name.
func TestCheckFileByItsShortName(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	want(t, c.offers[wire.ExtCheckFile], "1")
	c.put("/f", "text")
	h := c.open("/f", wire.OpenRead)
	sum := func(name string) (reply wire.CheckFileReply) {
		p := c.do(wire.CheckFile{Name: name, Target: h, Algorithms: "md5"})
		if err := reply.Parse(p.body); err != nil {
			t.Fatalf("%s: %v, %v", name, p.describe(t), err)
		}
		return reply
	}
	long := sum(wire.ExtCheckFileHandle)
	want(t, long.Name, "")
	long.Name = wire.ExtCheckFile // as paramiko's own server replies
	want(t, sum(wire.ExtCheckFile), long)
	c.close(h)
}

// TestDotsAreListed for directories of the system, with correct attributes.
func TestDotsAreListed(t *testing.T) {
	if runtime.GOOS == "windows" {
		testenv.Unavailable(t, "osfs resolves no paths itself on Windows, and lists no dots")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "d", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "d"), 0o751); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	backend, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	c := start(t, backend, nil)
	for path, modes := range map[string][2]uint32{"/": {0o40750, 0o40750},
		"/d": {0o40751, 0o40750}} {
		var names []string
		for _, n := range c.listAll(path) {
			names = append(names, n.Filename)
			switch n.Filename {
			case ".":
				want(t, n.Attrs.Permissions, modes[0])
			case "..":
				want(t, n.Attrs.Permissions, modes[1])
			}
		}
		if !slices.Contains(names, ".") || !slices.Contains(names, "..") || len(names) != 3 {
			t.Errorf("%s: %q", path, names)
		}
	}
	// A quota and a view's own listings leave them out.
	view, err := server.NewView(backend, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for info, err := range view.List(t.Context(), "/d") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Name())
	}
	want(t, names, []string{"sub"})
	q := server.NewQuota(0, 100)
	if err := q.Recount(t.Context(), backend, "/"); err != nil {
		t.Fatal(err)
	}
	want(t, usage(q), [2]int64{0, 2})
}

// TestOpenWithSetuid: the bits are left out, and the file is created.
func TestOpenWithSetuid(t *testing.T) {
	for _, mode := range []uint32{0o4755, 0o2755, 0o1755} {
		if runtime.GOOS == "windows" {
			testenv.Unavailable(t, "Windows has no permission bits")
		}
		c := start(t, backends["osfs"](t), nil)
		c.close(c.do(wire.Open{Path: "/f", Flags: create, Attrs: wire.Attrs{
			Flags: wire.AttrPermissions, Permissions: mode}}).handle(t))
		want(t, c.stat("/f").Permissions, 0o100755)
	}
}
