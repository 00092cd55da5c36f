package server_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

func TestReadOnly(t *testing.T) {
	g := newGated()
	c := start(t, g, nil)
	c.put("/f", "text")
	c = start(t, g, &server.Options{Policy: server.Policy{ReadOnly: true}})
	want(t, c.get("/f"), "text")
	for _, flags := range []uint32{create, wire.OpenRead | wire.OpenWrite,
		wire.OpenRead | wire.OpenCreate,
		wire.OpenRead | wire.OpenTruncate, wire.OpenAppend} {
		want(t, c.status(wire.Open{Path: "/f", Flags: flags}), wire.PermissionDenied)
	}
	for _, m := range []message{
		wire.PathRequest{Type: wire.TypeRemove, Path: "/f"},
		wire.PathRequest{Type: wire.TypeRmdir, Path: "/f"},
		wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f"},
		wire.Lsetstat{Path: "/f"},
		wire.Rename{OldPath: "/f", NewPath: "/g"},
		wire.PosixRename{OldPath: "/f", NewPath: "/g"},
		wire.Hardlink{OldPath: "/f", NewPath: "/g"},
		wire.Symlink{First: "f", Second: "/g"},
		wire.CopyData{},
	} {
		want(t, c.status(m), wire.PermissionDenied)
	}
	if _, ok := c.offers[wire.ExtPosixRename]; ok {
		t.Error("posix-rename is offered by a read-only server")
	}
	want(t, c.list("/"), []string{"f"})
}

func TestAllowedAndDenied(t *testing.T) {
	c := start(t, memfs.New(0), &server.Options{Policy: server.Policy{Denied: []string{"remove",
		"posix-rename"}}})
	c.put("/f", "x")
	want(t, c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/f"}), wire.PermissionDenied)
	want(t, c.status(wire.PosixRename{OldPath: "/f", NewPath: "/g"}), wire.PermissionDenied)
	want(t, c.offers[wire.ExtPosixRename], "")
	c.ok(wire.Rename{OldPath: "/f", NewPath: "/g"})

	c = start(t, memfs.New(0), &server.Options{Policy: server.Policy{Allowed: []string{"realpath",
		"stat"}}})
	want(t, c.stat("/").Permissions, uint32(0o40755))
	want(t, c.status(wire.Open{Path: "/f", Flags: create}), wire.PermissionDenied)

	if err := server.Serve(t.Context(), nopStream{}, memfs.New(0), &server.Options{
		Policy: server.Policy{Denied: []string{"reed"}},
	}); err == nil || !strings.Contains(err.Error(), `"reed"`) {
		t.Errorf("a request that does not exist: %v", err)
	}
}

type nopStream struct{}

func (nopStream) Read([]byte) (int, error) { return 0, io.EOF }

func (nopStream) Write(p []byte) (int, error) { return len(p), nil }

func (nopStream) Close() error { return nil }

func TestDraftSymlinks(t *testing.T) {
	c := start(t, memfs.New(0), &server.Options{DraftSymlinks: true})
	c.ok(wire.Symlink{First: "/link", Second: "target"})
	want(t, c.do(wire.PathRequest{Type: wire.TypeReadlink, Path: "/link"}).names(t)[0].Filename,
		"target")
}

func TestUmaskAndHome(t *testing.T) {
	f := memfs.New(0)
	c := start(t, f, nil)
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/home"})
	c = start(t, f, &server.Options{Policy: server.Policy{Umask: 0o027, Home: "/home"}})
	c.put("f", "x")
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "d"})
	want(t, c.stat("/home/f").Permissions, uint32(0o100640))
	want(t, c.stat("/home/d").Permissions, uint32(0o40750))
	want(t, c.do(wire.PathRequest{Type: wire.TypeRealpath, Path: "."}).names(t)[0].Filename,
		"/home")
}

// TestViewFileAsksThePolicy: a file returned by Open is no way around the policy.
func TestViewFileAsksThePolicy(t *testing.T) {
	backend := memfs.New(0)
	start(t, backend, nil).put("/f", "text")
	mode := wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o600}
	for denied, try := range map[string]func(f *server.ViewFile) error{
		"read": func(f *server.ViewFile) error {
			_, err := f.ReadAt(make([]byte, 1), 0)
			return err
		},
		"write": func(f *server.ViewFile) error {
			_, err := f.WriteAt([]byte("x"), 0)
			return err
		},
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
				f, err := view.Open(context.Background(), "/f", wire.OpenRead|wire.OpenWrite,
					wire.Attrs{})
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

// TestViewFileSetsByPath: a backend whose files cannot change their attributes is asked by their
// paths, whatever limits apply.
func TestViewFileSetsByPath(t *testing.T) {
	for name, policy := range map[string]server.Policy{
		"no limits":  {},
		"quota":      {Quota: server.NewQuota(100, 0)},
		"size":       {MaxFileSize: 100},
		"all limits": {Quota: server.NewQuota(100, 0), MaxFileSize: 100},
	} {
		t.Run(name, func(t *testing.T) {
			backend := broken{&endings{FS: memfs.New(0)}, func(f *endingFile) server.File {
				return struct {
					server.File
					io.WriterAt
				}{f, f}
			}}
			view, err := server.NewView(backend, &policy)
			if err != nil {
				t.Fatal(err)
			}
			f, err := view.Create(t.Context(), "/f", wire.Attrs{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt([]byte("longer text"), 0)
			if err = errors.Join(err, f.Truncate(4), f.Close()); err != nil {
				t.Error(err)
			}
			info, err := backend.Stat(t.Context(), "/f")
			if err != nil || info.Size() != 4 {
				t.Errorf("the file has become %v, %v", info, err)
			}
			if q := policy.Quota; q != nil {
				want(t, usage(q), [2]int64{4, 1})
			}
		})
	}
}

// TestDenialCoversTheSame: what is denied is denied to every request that would do the same.
func TestDenialCoversTheSame(t *testing.T) {
	size := wire.Attrs{Flags: wire.AttrSize, Size: 1}
	owner := wire.Attrs{Flags: wire.AttrUIDGID}
	mode := wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o600}
	setstat := func(attrs wire.Attrs) func(*raw) message {
		return func(*raw) message {
			return wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f", Attrs: attrs}
		}
	}
	fsetstat := func(attrs wire.Attrs) func(*raw) message {
		return func(c *raw) message {
			return wire.Fsetstat{Handle: c.open("/f", wire.OpenRead|wire.OpenWrite), Attrs: attrs}
		}
	}
	always := func(m message) func(*raw) message { return func(*raw) message { return m } }
	read := func(c *raw) message { return wire.Read{Handle: c.open("/f", wire.OpenRead), Length: 1} }
	write := func(c *raw) message {
		return wire.Write{Handle: c.open("/f", wire.OpenWrite), Data: []byte("x")}
	}
	copyData := func(c *raw) message {
		return wire.CopyData{FromHandle: c.open("/f", wire.OpenRead),
			ToHandle: c.open("/g", wire.OpenWrite)}
	}
	checkHandle := func(c *raw) message {
		return wire.CheckFile{Name: wire.ExtCheckFileHandle,
			Target: c.open("/f", wire.OpenRead), Algorithms: "sha256"}
	}
	checkName := always(wire.CheckFile{Name: wire.ExtCheckFileName, Target: []byte("/f"),
		Algorithms: "sha256"})
	chunks := func(c *raw) message {
		return wire.Chunks{Handle: c.open("/f", wire.OpenRead), Algorithms: "sha256",
			Shortest: wire.MinChunk}
	}
	truncate := always(wire.Open{Path: "/f", Flags: create})
	sized := always(wire.Open{Path: "/new", Flags: wire.OpenWrite | wire.OpenCreate, Attrs: size})
	owned := always(wire.Open{Path: "/new", Flags: wire.OpenWrite | wire.OpenCreate, Attrs: owner})
	made := always(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d", Attrs: owner})
	lsetstat := always(wire.Lsetstat{Path: "/f", Attrs: mode})
	rename := always(wire.Rename{OldPath: "/f", NewPath: "/new"})
	posixRename := always(wire.PosixRename{OldPath: "/f", NewPath: "/g"})

	type requests = map[string]func(*raw) message
	for _, one := range []struct {
		policy        server.Policy
		denied, other requests
	}{
		{server.Policy{Denied: []string{"write"}},
			requests{"write": write, "copy-data": copyData, "truncating open": truncate,
				"open with a size": sized, "setstat of the size": setstat(size),
				"fsetstat of the size": fsetstat(size)},
			requests{"read": read, "check-file": checkName, "chunks": chunks,
				"setstat": setstat(mode), "fsetstat": fsetstat(mode), "rename": rename}},
		{server.Policy{Denied: []string{"read"}},
			requests{"read": read, "copy-data": copyData, "check-file-handle": checkHandle,
				"check-file-name": checkName, "chunks": chunks},
			requests{"write": write, "setstat": setstat(size), "open": truncate}},
		{server.Policy{Denied: []string{"check-file-name"}},
			requests{"by handle": checkHandle, "by name": checkName, "chunks": chunks},
			requests{"read": read, "copy-data": copyData}},
		{server.Policy{Denied: []string{"fsetstat"}},
			requests{"setstat": setstat(mode), "fsetstat": fsetstat(mode), "lsetstat": lsetstat,
				"open with an owner": owned, "mkdir with an owner": made},
			requests{"write": write, "open": truncate}},
		{server.Policy{Denied: []string{"rename"}},
			requests{"rename": rename, "posix-rename": posixRename}, requests{"write": write}},
		{server.Policy{Denied: []string{"posix-rename"}},
			requests{"posix-rename": posixRename}, requests{"rename": rename}},
		{server.Policy{Denied: []string{"copy-data", "chunks"}},
			requests{"copy-data": copyData, "chunks": chunks},
			requests{"read": read, "write": write, "check-file": checkHandle}},
		{server.Policy{Allowed: []string{"open", "read", "setstat"}},
			requests{"truncating open": truncate, "setstat of the size": setstat(size)},
			requests{"read": read, "setstat": setstat(mode)}},
		{server.Policy{Allowed: []string{"open", "copy-data"}},
			requests{"write": write, "read": read}, requests{"copy-data": copyData}},
	} {
		try := func(name string, request func(*raw) message, denied bool) {
			backend := memfs.New(0)
			c := start(t, backend, nil)
			c.put("/f", "text")
			c.put("/g", "text")
			c = start(t, backend, &server.Options{Policy: one.policy})
			p := c.do(request(c))
			got := p.typ == wire.TypeStatus && p.status(t).Code == wire.PermissionDenied
			if got != denied {
				t.Errorf("denied %q, allowed %q: %s is answered by %v", one.policy.Denied,
					one.policy.Allowed, name, p.describe(t))
			}
			if c = start(t, backend, nil); denied && c.get("/f") != "text" {
				t.Errorf("denied %q: %s changed the file", one.policy.Denied, name)
			}
		}
		for name, request := range one.denied {
			try(name, request, true)
		}
		for name, request := range one.other {
			try(name, request, false)
		}
	}
}
