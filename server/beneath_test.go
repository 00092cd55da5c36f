//go:build linux || darwin || freebsd

package server_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

var _ server.Beneather = (*osfs.FS)(nil)

// eachTree runs a test on all kinds of trees that osfs serves. prefix is the directory's path in
// the tree.
func eachTree(t *testing.T, options *server.Options,
	test func(t *testing.T, c *raw, dir, prefix string)) {
	for name, serve := range map[string]func(string) (*osfs.FS, error){
		"served directory": osfs.New, "atomic": osfs.NewAtomic} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fs, err := serve(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { fs.Close() })
			test(t, start(t, fs, options), dir, "")
		})
	}
	t.Run("host", func(t *testing.T) {
		dir := t.TempDir()
		test(t, start(t, osfs.Host(), options), dir, dir)
	})
}

// beneath wraps a request on paths that begin with top and a slash.
func beneath(top string, m message) wire.Beneath {
	packet := m.Append(nil, 0)
	return wire.Beneath{Top: uint32(len(strings.TrimSuffix(top, "/")) + 1),
		Request: wire.Type(packet[wire.LengthSize]), Body: packet[wire.LengthSize+5:]}
}

func in(top, name string) string { return strings.TrimSuffix(top, "/") + "/" + name }

func removeBeneath(top, name string) wire.Beneath {
	return beneath(top, wire.PathRequest{Type: wire.TypeRemove, Path: in(top, name)})
}

func rmdirBeneath(top, name string) wire.Beneath {
	return beneath(top, wire.PathRequest{Type: wire.TypeRmdir, Path: in(top, name)})
}

func renameBeneath(top, from, to string) wire.Beneath {
	return beneath(top, wire.Rename{OldPath: in(top, from), NewPath: in(top, to)})
}

// Entries beneath a directory are removed and renamed, and no link is followed on the way.
func TestBeneath(t *testing.T) {
	eachTree(t, nil, func(t *testing.T, c *raw, dir, prefix string) {
		want(t, c.offers[wire.ExtBeneath], "2")
		for _, name := range []string{"top/d/e", "other"} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"top/f", "top/d/f", "top/d/e/f", "other/f"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for name, to := range map[string]string{"link": "top", "top/out": "../other", "top/in": "d",
			"top/d/up": "../d/e"} {
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		there := func(name string) bool {
			_, err := os.Lstat(filepath.Join(dir, name))
			return err == nil
		}
		top := prefix + "/top"
		for _, name := range []string{"out/f", "in/f", "d/up/f", "in/e/f"} {
			want(t, c.status(removeBeneath(top, name)), wire.PermissionDenied)
			want(t, c.status(renameBeneath(top, name, "g")), wire.PermissionDenied)
			want(t, c.status(renameBeneath(top, "f", name+"g")), wire.PermissionDenied)
		}
		want(t, c.status(rmdirBeneath(top, "in/e")), wire.PermissionDenied)
		for _, bad := range []string{"", ".", "..", "../other/f", "d/../f", "./f", "/f", "d//f",
			"f/", "d/e/.."} {
			want(t, c.status(removeBeneath(top, bad)), wire.BadMessage)
			want(t, c.status(renameBeneath(top, "f", bad)), wire.BadMessage)
		}
		want(t, c.status(removeBeneath(top, "d/none")), wire.NoSuchFile)
		want(t, c.status(removeBeneath(top, "none/f")), wire.NoSuchFile)
		want(t, c.status(removeBeneath(top, "f/f")), wire.NoSuchFile)
		want(t, c.status(removeBeneath(prefix+"/none", "f")), wire.NoSuchFile)
		want(t, c.status(removeBeneath(top, "d")), wire.Failure)
		want(t, c.status(rmdirBeneath(top, "d/e")), wire.Failure)
		want(t, c.status(renameBeneath(top, "f", "d/f")), wire.Failure)
		want(t, c.status(beneath(top, wire.PathRequest{Type: wire.TypeRealpath, Path: top + "/d"})),
			wire.OpUnsupported)
		want(t, c.status(beneath(top, removeBeneath(top, "f"))), wire.OpUnsupported)
		for _, bad := range []wire.Beneath{removeBeneath(top, "f"), renameBeneath(top, "f", "g")} {
			bad.Top++ // ends in the middle of a name
			want(t, c.status(bad), wire.BadMessage)
			bad.Top = 1 << 31
			want(t, c.status(bad), wire.BadMessage)
		}
		outside := wire.Rename{OldPath: top + "/f", NewPath: prefix + "/other/g"}
		want(t, c.status(beneath(top, outside)), wire.BadMessage)
		for _, name := range []string{"top/f", "top/d/f", "top/d/e/f", "other/f"} {
			want(t, there(name), true)
		}

		c.ok(removeBeneath(top, "d/e/f"))
		c.ok(rmdirBeneath(top+"/", "d/e"))
		c.ok(renameBeneath(prefix+"/link", "f", "d/g"))
		c.ok(removeBeneath(top, "out")) // the link itself
		for name, stays := range map[string]bool{"top/d/e": false, "top/f": false, "top/d/g": true,
			"top/out": false, "other/f": true, "top/d/f": true} {
			want(t, there(name), stays)
		}
	})
}

// Every request on a path can be wrapped. It does what it does otherwise, except that no link is
// followed, not even in the last element.
func TestRequestsBeneath(t *testing.T) {
	eachTree(t, nil, func(t *testing.T, c *raw, dir, prefix string) {
		for _, name := range []string{"top/d", "top/other"} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name, "f"), []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for name, to := range map[string]string{"out": "other", "d/file": "../other/f",
			"d/none": "../other/none"} {
			if err := os.Symlink(to, filepath.Join(dir, "top", name)); err != nil {
				t.Fatal(err)
			}
		}
		top := prefix + "/top"
		const write = wire.OpenWrite | wire.OpenCreate | wire.OpenTruncate
		mode := wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o600}
		path := func(typ wire.Type, name string) message {
			return wire.PathRequest{Type: typ, Path: top + "/" + name}
		}
		attrs := func(typ wire.Type, name string) message {
			return wire.PathAttrs{Type: typ, Path: top + "/" + name, Attrs: mode}
		}
		open := func(name string, flags uint32) message {
			return wire.Open{Path: top + "/" + name, Flags: flags}
		}
		for what, m := range map[string]message{
			"open":              open("out/f", wire.OpenRead),
			"open to write":     open("out/f", write),
			"open a new one":    open("out/new", write),
			"open a link":       open("d/file", write),
			"open a dangling":   open("d/none", write),
			"opendir":           path(wire.TypeOpendir, "out"),
			"stat":              path(wire.TypeStat, "out/f"),
			"stat of a link":    path(wire.TypeStat, "out"),
			"lstat":             path(wire.TypeLstat, "out/f"),
			"readlink":          path(wire.TypeReadlink, "out/f"),
			"setstat":           attrs(wire.TypeSetstat, "out/f"),
			"setstat of a link": attrs(wire.TypeSetstat, "d/file"),
			"mkdir":             attrs(wire.TypeMkdir, "out/new"),
			"lsetstat":          wire.Lsetstat{Path: top + "/out/f", Attrs: mode},
			"symlink":           wire.Symlink{First: "f", Second: top + "/out/new"},
			"posix-rename":      wire.PosixRename{OldPath: top + "/d/f", NewPath: top + "/out/f"},
			"hardlink":          wire.Hardlink{OldPath: top + "/d/f", NewPath: top + "/out/new"},
			"hardlink from":     wire.Hardlink{OldPath: top + "/out/f", NewPath: top + "/d/new"},
		} {
			if code := c.status(beneath(top, m)); code != wire.PermissionDenied {
				t.Errorf("%s: %v", what, code)
			}
		}
		list, err := os.ReadDir(filepath.Join(dir, "top/other"))
		want(t, err == nil && len(list) == 1, true)
		info, err := os.Stat(filepath.Join(dir, "top/other/f"))
		want(t, err == nil && info.Size() == 3 && info.Mode() == 0o644, true)

		c.ok(beneath(top, wire.PathAttrs{Type: wire.TypeMkdir, Path: top + "/d/new",
			Attrs: wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o700}}))
		c.ok(beneath(top, wire.Symlink{First: "../../other", Second: top + "/d/new/link"}))
		handle := func(m message) []byte {
			t.Helper()
			reply := c.do(beneath(top, m))
			var h wire.Handle
			if err := h.Parse(reply.body); err != nil || reply.typ != wire.TypeHandle {
				t.Fatalf("%v, %v", reply.typ, err)
			}
			return h.Handle
		}
		h := handle(open("d/new/f", write))
		c.ok(wire.Write{Handle: h, Data: []byte("x")})
		c.ok(wire.Fsetstat{Handle: h, Attrs: mode})
		c.close(h)
		c.ok(beneath(top, attrs(wire.TypeSetstat, "d/new/f")))
		c.ok(beneath(top, wire.PosixRename{OldPath: top + "/d/new/f", NewPath: top + "/d/f"}))
		want(t, c.get(top+"/d/f"), "x")
		h = handle(path(wire.TypeOpendir, "d/new"))
		reply := c.do(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h})
		var names wire.Names
		if err := names.Parse(reply.body); err != nil || len(names.Names) != 3 { // with . and ..
			t.Errorf("listed %+v, %v", names, err)
		}
		c.close(h)
	})
}

// The wrapped request is treated like any other: someone who may not remove must not remove beneath
// a directory either, and the quota and the log notice the request.
func TestBeneathObeysPolicy(t *testing.T) {
	truncate := beneath("/", wire.Open{Path: "/d/f", Flags: wire.OpenWrite | wire.OpenTruncate})
	for name, test := range map[string]struct {
		policy  server.Policy
		request wire.Beneath
		code    wire.Code
		offered bool
	}{
		"remove denied": {server.Policy{Denied: []string{"remove"}}, removeBeneath("/", "d/f"),
			wire.PermissionDenied, true},
		"rmdir denied": {server.Policy{Denied: []string{"rmdir"}}, rmdirBeneath("/", "d/e"),
			wire.PermissionDenied, true},
		"rename denied": {server.Policy{Denied: []string{"rename"}}, renameBeneath("/", "d/f", "g"),
			wire.PermissionDenied, true},
		"read-only": {server.Policy{ReadOnly: true}, removeBeneath("/", "d/f"),
			wire.PermissionDenied, false},
		"open denied": {server.Policy{Denied: []string{"open"}}, truncate, wire.PermissionDenied, true},
		"write denied": {server.Policy{Denied: []string{"write"}}, truncate,
			wire.PermissionDenied, true},
		"size denied": {server.Policy{Denied: []string{"write"}},
			beneath("/", wire.PathAttrs{Type: wire.TypeSetstat, Path: "/d/f",
				Attrs: wire.Attrs{Flags: wire.AttrSize}}), wire.PermissionDenied, true},
		"setstat denied": {server.Policy{Denied: []string{"setstat"}},
			beneath("/", wire.Lsetstat{Path: "/d/f",
				Attrs: wire.Attrs{Flags: wire.AttrPermissions}}), wire.PermissionDenied, true},
		"posix-rename denied with rename": {server.Policy{Denied: []string{"rename"}},
			beneath("/", wire.PosixRename{OldPath: "/d/f", NewPath: "/g"}),
			wire.PermissionDenied, true},
		"opendir denied": {server.Policy{Denied: []string{"opendir"}},
			beneath("/", wire.PathRequest{Type: wire.TypeOpendir, Path: "/d"}),
			wire.PermissionDenied, true},
		"lstat denied": {server.Policy{Denied: []string{"lstat"}},
			beneath("/", wire.PathRequest{Type: wire.TypeLstat, Path: "/d"}),
			wire.PermissionDenied, true},
		"denied": {server.Policy{Denied: []string{"beneath"}}, removeBeneath("/", "d/f"),
			wire.PermissionDenied, false},
		"not allowed": {server.Policy{Allowed: []string{"remove"}}, removeBeneath("/", "d/f"),
			wire.PermissionDenied, false},
		"allowed": {server.Policy{Allowed: []string{"remove", "beneath"}},
			removeBeneath("/", "d/f"), wire.OK, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			os.MkdirAll(filepath.Join(dir, "d/e"), 0o755)
			os.WriteFile(filepath.Join(dir, "d/f"), nil, 0o644)
			fs, err := osfs.New(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer fs.Close()
			c := start(t, fs, &server.Options{Policy: test.policy})
			want(t, c.offers[wire.ExtBeneath] == "2", test.offered)
			want(t, c.status(test.request), test.code)
			_, err = os.Stat(filepath.Join(dir, "d/f"))
			want(t, err == nil, test.code != wire.OK)
		})
	}
	t.Run("quota and log", func(t *testing.T) {
		dir := t.TempDir()
		fs, err := osfs.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer fs.Close()
		var log strings.Builder
		quota := server.NewQuota(1<<20, 2)
		c := start(t, fs, &server.Options{Policy: server.Policy{Quota: quota},
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"})
		c.put("/d/f", "x")
		want(t, c.status(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d/e"}) != wire.OK, true)
		c.ok(removeBeneath("/", "d/f"))
		c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d/e"})
		c.ok(renameBeneath("/", "d/e", "e"))
		made := beneath("/", wire.PathAttrs{Type: wire.TypeMkdir, Path: "/e/x"})
		want(t, c.status(made) != wire.OK, true) // two are there
		mode := beneath("/", wire.PathAttrs{Type: wire.TypeSetstat, Path: "/e",
			Attrs: wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o700}})
		c.ok(mode)
		c.over()
		for _, line := range []string{"request=remove path=/d/f",
			"request=rename path=/d/e to=/e", "request=setstat path=/e mode=0700"} {
			if !strings.Contains(log.String(), line) {
				t.Errorf("the log does not say %q:\n%s", line, log.String())
			}
		}
	})
}

// A backend without support does not offer the extension.
func TestBeneathUnsupported(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	want(t, c.offers[wire.ExtBeneath], "")
	want(t, c.status(removeBeneath("/", "f")), wire.OpUnsupported)
}

// Somebody keeps swapping a directory for a link to another one: nothing is ever changed there. The
// swaps happen between the steps of the walk, when it checks whether its context has ended.
func TestBeneathWhileLinksAreSwapped(t *testing.T) {
	const name, mode = "/top/a/b/c/f", wire.AttrPermissions
	for what, request := range map[string]func(ctx context.Context, fs *osfs.FS) error{
		"remove": func(ctx context.Context, fs *osfs.FS) error {
			return fs.Remove(ctx, name)
		},
		"open": func(ctx context.Context, fs *osfs.FS) error {
			f, err := fs.Open(ctx, name, wire.OpenWrite|wire.OpenTruncate,
				wire.Attrs{})
			if err == nil {
				f.Close()
			}
			return err
		},
		"create": func(ctx context.Context, fs *osfs.FS) error {
			f, err := fs.Open(ctx, name+"2", wire.OpenWrite|wire.OpenCreate,
				wire.Attrs{Flags: mode, Permissions: 0o600})
			if err == nil {
				f.Close()
			}
			return err
		},
		"setstat": func(ctx context.Context, fs *osfs.FS) error {
			return fs.Setstat(ctx, name,
				wire.Attrs{Flags: mode | wire.AttrSize, Permissions: 0o600})
		},
		"lsetstat": func(ctx context.Context, fs *osfs.FS) error {
			return fs.Lsetstat(ctx, name,
				wire.Attrs{Flags: mode, Permissions: 0o600})
		},
		"mkdir": func(ctx context.Context, fs *osfs.FS) error {
			return fs.Mkdir(ctx, name+"2", wire.Attrs{})
		},
		"symlink": func(ctx context.Context, fs *osfs.FS) error {
			return fs.Symlink(ctx, "x", name+"2")
		},
		"posix-rename": func(ctx context.Context, fs *osfs.FS) error {
			return fs.PosixRename(ctx, "/top/other", name)
		},
		"rename": func(ctx context.Context, fs *osfs.FS) error {
			return fs.Rename(ctx, name, "/top/a/f")
		},
	} {
		t.Run(what, func(t *testing.T) { swapAtEachStep(t, request) })
	}
}

func swapAtEachStep(t *testing.T, request func(ctx context.Context, fs *osfs.FS) error) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fs, err := osfs.New(dir)
	must(err)
	defer fs.Close()
	to := map[string]string{"a": "victim", "a/b": "victim/b", "a/b/c": "victim/b/c"}
	for swapped := range to {
		for step := range 8 {
			must(os.RemoveAll(at("top")))
			for _, name := range []string{"top/a/b/c", "top/victim/b/c"} {
				must(os.MkdirAll(at(name), 0o755))
			}
			for _, name := range []string{"top/a/b/c/f", "top/other"} {
				must(os.WriteFile(at(name), nil, 0o644))
			}
			for _, name := range []string{"top/victim/f", "top/victim/b/c/f"} {
				must(os.WriteFile(at(name), []byte("victim"), 0o644))
			}
			steps, done := 0, false
			ctx := asked{t.Context(), func() {
				if steps++; steps == step+1 {
					done = true
					must(os.Rename(at("top/"+swapped), at("top/aside")))
					must(os.Symlink(strings.Repeat("../", strings.Count(swapped, "/"))+
						to[swapped], at("top/"+swapped)))
				}
			}}
			request(server.WithBeneath(ctx, "/top"), fs)
			for dir, entries := range map[string]int{"top/victim": 2, "top/victim/b": 1,
				"top/victim/b/c": 1} {
				list, err := os.ReadDir(at(dir))
				if err != nil || len(list) != entries {
					t.Fatalf("%s was swapped at step %d: %v, %v", swapped, step, list, err)
				}
			}
			for _, name := range []string{"top/victim/f", "top/victim/b/c/f"} {
				info, err := os.Stat(at(name))
				if err != nil || info.Size() != 6 || info.Mode() != 0o644 {
					t.Fatalf("%s was swapped at step %d: %v, %v", swapped, step, info, err)
				}
			}
			if step == 0 && !done {
				t.Fatal("nothing was swapped")
			}
		}
	}
}

// asked is a context that signals when someone checks whether it has ended.
type asked struct {
	context.Context
	tell func()
}

func (a asked) Err() error {
	a.tell()
	return a.Context.Err()
}
