package server_test

import (
	"context"
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
