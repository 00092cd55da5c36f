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

// eachTree runs a test on both kinds of trees that osfs serves. prefix is the directory's path in
// the tree.
func eachTree(t *testing.T, options *server.Options,
	test func(t *testing.T, c *raw, dir, prefix string)) {
	t.Run("served directory", func(t *testing.T) {
		dir := t.TempDir()
		fs, err := osfs.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fs.Close() })
		test(t, start(t, fs, options), dir, "")
	})
	t.Run("host", func(t *testing.T) {
		dir := t.TempDir()
		test(t, start(t, osfs.Host(), options), dir, dir)
	})
}

func removeBeneath(top, name string) wire.Beneath {
	return wire.Beneath{Request: wire.TypeRemove, Top: top, Path: name}
}

func rmdirBeneath(top, name string) wire.Beneath {
	return wire.Beneath{Request: wire.TypeRmdir, Top: top, Path: name}
}

func renameBeneath(top, from, to string) wire.Beneath {
	return wire.Beneath{Request: wire.TypeRename, Top: top, Path: from, NewPath: to}
}

// Entries beneath a directory are removed and renamed, and no link is followed on the way.
func TestBeneath(t *testing.T) {
	eachTree(t, nil, func(t *testing.T, c *raw, dir, prefix string) {
		want(t, c.offers[wire.ExtBeneath], "1")
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
		want(t, c.status(wire.Beneath{Request: wire.TypeMkdir, Top: top, Path: "x"}),
			wire.OpUnsupported)
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

// The wrapped request is treated like any other: someone who may not remove must not remove beneath
// a directory either, and the quota and the log notice the request.
func TestBeneathObeysPolicy(t *testing.T) {
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
			want(t, c.offers[wire.ExtBeneath] == "1", test.offered)
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
		c.over()
		for _, line := range []string{"request=remove path=/d/f",
			"request=rename path=/d/e to=/e"} {
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

// Somebody keeps swapping a directory for a link to another one: nothing is ever removed there. The
// swaps happen between the steps of the walk, when it checks whether its context has ended.
func TestBeneathWhileLinksAreSwapped(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(in("top/a/b/c"), 0o755))
	must(os.MkdirAll(in("victim/b/c"), 0o755))
	must(os.WriteFile(in("victim/b/c/f"), nil, 0o644))
	must(os.WriteFile(in("victim/f"), nil, 0o644))
	fs, err := osfs.New(dir)
	must(err)
	defer fs.Close()
	for _, swapped := range []string{"a", "a/b", "a/b/c"} {
		for step := range 8 {
			must(os.WriteFile(in("top/a/b/c/f"), nil, 0o644))
			steps, done := 0, false
			ctx := asked{t.Context(), func() {
				if steps++; steps == step+1 {
					done = true
					must(os.Rename(in("top/"+swapped), in("aside")))
					to := map[string]string{"a": "victim", "a/b": "victim/b", "a/b/c": "victim/b/c"}
					must(os.Symlink(in(to[swapped]), in("top/"+swapped)))
				}
			}}
			fs.RemoveBeneath(ctx, "/top", "a/b/c/f")
			for _, name := range []string{"victim/f", "victim/b/c/f"} {
				if _, err := os.Stat(in(name)); err != nil {
					t.Fatalf("%s was swapped at step %d: %v", swapped, step, err)
				}
			}
			if done {
				must(os.Remove(in("top/" + swapped)))
				must(os.Rename(in("aside"), in("top/"+swapped)))
			} else if step == 0 {
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
