package server_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// What OpenSSH's server does and its clients have come to rely on, beyond the draft.

// TestHandlesAreText: there are clients that keep handles as text.
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

// TestNoSuchFileInWords: there are clients that look for the words.
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

// TestCheckFileByItsShortName: paramiko knows no other.
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
	want(t, sum(wire.ExtCheckFile), sum(wire.ExtCheckFileHandle))
	c.close(h)
}

// TestDotsAreListed where the directory is one of the system, and described as what they are.
func TestDotsAreListed(t *testing.T) {
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
	for path, modes := range map[string][2]uint32{"/": {0o40750, 0o40750}, "/d": {0o40751, 0o40750}} {
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

// TestOpenWithSetuid: the bits are left out, and the file is made.
func TestOpenWithSetuid(t *testing.T) {
	for _, mode := range []uint32{0o4755, 0o2755, 0o1755} {
		c := start(t, backends["osfs"](t), nil)
		c.close(c.do(wire.Open{Path: "/f", Flags: create, Attrs: wire.Attrs{
			Flags: wire.AttrPermissions, Permissions: mode}}).handle(t))
		want(t, c.stat("/f").Permissions, 0o100755)
	}
}

// TestRangeTooLongToHash: a hole may be of any length.
func TestRangeTooLongToHash(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	c.put("/f", "x")
	c.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f", Attrs: wire.Attrs{Flags: wire.AttrSize,
		Size: 1<<63 - 1}})
	h := c.open("/f", wire.OpenRead)
	for _, m := range []wire.CheckFile{{Name: wire.ExtCheckFileHandle, Target: h},
		{Name: wire.ExtCheckFileName, Target: []byte("/f")},
		{Name: wire.ExtCheckFileHandle, Target: h, Length: 1<<40 + 1}} {
		m.Algorithms = "md5"
		want(t, c.status(m), wire.Failure)
	}
	p := c.do(wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h, Algorithms: "md5",
		Length: 1 << 20})
	want(t, p.typ, wire.TypeExtendedReply)
	c.close(h)
}

// TestChangesAreLogged: a line for each change of the tree, as sftp-server writes at INFO, and what
// a transfer was.
func TestChangesAreLogged(t *testing.T) {
	book := &logBook{}
	c := start(t, memfs.New(0), &server.Options{Logger: slog.New(book)})
	c.put("/f", "text")
	c.get("/f")
	h := c.open("/f", wire.OpenWrite)
	for _, m := range []message{
		wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d", Attrs: wire.Attrs{
			Flags: wire.AttrPermissions, Permissions: 0o750}},
		wire.Rename{OldPath: "/f", NewPath: "/g"},
		wire.PosixRename{OldPath: "/g", NewPath: "/h"},
		wire.Hardlink{OldPath: "/h", NewPath: "/i"},
		wire.Symlink{First: "h", Second: "/l"},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: "/h", Attrs: wire.Attrs{
			Flags: wire.AttrPermissions, Permissions: 0o600}},
		wire.Fsetstat{Handle: h, Attrs: wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o644}},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: "/h", Attrs: wire.Attrs{
			Flags: wire.AttrACModTime}},
		wire.PathRequest{Type: wire.TypeRemove, Path: "/i"},
		wire.PathRequest{Type: wire.TypeRmdir, Path: "/d"},
	} {
		c.ok(m)
	}
	c.close(h)
	want(t, c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/none"}), wire.NoSuchFile)
	for _, line := range []map[string]string{
		{"request": "mkdir", "path": "/d", "mode": "0750"},
		{"request": "rename", "path": "/f", "to": "/g"},
		{"request": "posix-rename", "path": "/g", "to": "/h"},
		{"request": "hardlink", "path": "/h", "to": "/i"},
		{"request": "symlink", "path": "/l", "to": "h"},
		{"request": "setstat", "path": "/h", "mode": "0600"},
		{"request": "fsetstat", "path": "/f", "mode": "0644"},
		{"request": "remove", "path": "/i"},
		{"request": "rmdir", "path": "/d"},
	} {
		line[""] = "tree changed"
		if n := book.count(line); n != 1 {
			t.Errorf("%d lines with %v", n, line)
		}
	}
	want(t, book.count(map[string]string{"": "tree changed"}), 9)
	for _, transfer := range []string{"upload", "download"} {
		line := map[string]string{"": "file closed", "transfer": transfer, "path": "/f"}
		if n := book.count(line); n == 0 {
			t.Errorf("no line with %v", line)
		}
	}
}

// TestAppendsUnderQuota: several who append at once get no more room than there is.
func TestAppendsUnderQuota(t *testing.T) {
	for range 50 {
		backend := memfs.New(0)
		q := server.NewQuota(10, 0)
		view, err := server.NewView(backend, &server.Policy{Quota: q})
		if err != nil {
			t.Fatal(err)
		}
		ready, done := make(chan struct{}), make(chan error)
		const writers = 8
		for range writers {
			f, err := view.Open(t.Context(), "/f", wire.OpenAppend|wire.OpenCreate, wire.Attrs{})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-ready
				f.WriteAt([]byte("123456"), 0)
				done <- f.Close()
			}()
		}
		close(ready)
		for range writers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		info, err := backend.Stat(t.Context(), "/f")
		if err != nil || info.Size() > 10 {
			t.Fatalf("%d bytes under a quota of 10, %v", info.Size(), err)
		}
		want(t, usage(q), [2]int64{info.Size(), 1})
	}
}

// TestViewFileAsksThePolicy: what Open gives out is no way around it.
func TestViewFileAsksThePolicy(t *testing.T) {
	backend := memfs.New(0)
	start(t, backend, nil).put("/f", "text")
	mode := wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o600}
	for denied, try := range map[string]func(f *server.ViewFile) error{
		"read":     func(f *server.ViewFile) error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		"write":    func(f *server.ViewFile) error { _, err := f.WriteAt([]byte("x"), 0); return err },
		"fstat":    func(f *server.ViewFile) error { _, err := f.Stat(); return err },
		"setstat":  func(f *server.ViewFile) error { return f.Setstat(mode) },
		"fsetstat": func(f *server.ViewFile) error { return f.Setstat(mode) },
	} {
		t.Run(denied, func(t *testing.T) {
			for _, policy := range []*server.Policy{nil, {Denied: []string{denied}}} {
				view, err := server.NewView(backend, policy)
				if err != nil {
					t.Fatal(err)
				}
				f, err := view.Open(context.Background(), "/f", wire.OpenRead|wire.OpenWrite, wire.Attrs{})
				if err != nil {
					t.Fatal(err)
				}
				if err := try(f); (err == nil) != (policy == nil) {
					t.Errorf("denied %v: %v", policy != nil, err)
				}
				if _, ok := any(f).(io.Seeker); ok {
					t.Error("the file can do more than it asks about")
				}
				f.Close()
			}
		})
	}
}
