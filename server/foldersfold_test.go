package server_test

import (
	"context"
	"io/fs"
	"iter"
	"path"
	"testing"

	"github.com/usftp/usftp/internal/samename"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// alike is a tree that takes for one all names that any disk does. Few systems that tests run on
// have such a disk.
type alike struct{ m *memfs.FS }

func (a alike) key(name string) string {
	key := "/"
	for _, one := range samename.Keys(name) {
		key = path.Join(key, one)
	}
	return key
}

func (a alike) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return a.m.Stat(ctx, a.key(name))
}

func (a alike) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	return a.m.List(ctx, a.key(name))
}

func (a alike) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	return a.m.Open(ctx, a.key(name), flags, attrs)
}

func (a alike) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	return a.m.Mkdir(ctx, a.key(name), attrs)
}

func (a alike) Rmdir(ctx context.Context, name string) error { return a.m.Rmdir(ctx, a.key(name)) }

func (a alike) Remove(ctx context.Context, name string) error { return a.m.Remove(ctx, a.key(name)) }

func (a alike) Rename(ctx context.Context, oldName, newName string) error {
	return a.m.Rename(ctx, a.key(oldName), a.key(newName))
}

// TestFoldersBySpellings: on a disk that takes names for one, no other name of a folder gets round
// its permissions, and none that is written otherwise round a pattern.
func TestFoldersBySpellings(t *testing.T) {
	t.Parallel()
	const folder = "caf\u00e9-stra\u00dfe"
	for _, name := range []string{folder, "CAF\u00c9-STRASSE", "cafe\u0301-stra\u1e9ee",
		"Cafe\u0301-stra\u00df\u200be", "caf\u00e9-\u017ftrasse"} {
		base := alike{memfs.New(0)}
		c := start(t, base, nil)
		c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/" + folder})
		c.put("/"+folder+"/secret", "text")
		c.put("/free", "text")
		tree, err := server.NewFolders(
			server.Folder{Path: "/", FS: base, RefusedNames: []string{"*.\u00e9xe"}},
			server.Folder{Path: "/" + folder, Policy: server.Policy{ReadOnly: true,
				Denied: []string{"read"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.NewFolders(server.Folder{Path: "/", FS: base},
			server.Folder{Path: "/" + folder}, server.Folder{Path: "/" + name}); err == nil {
			t.Errorf("two folders, one of them as %q", name)
		}
		c = start(t, tree, nil)
		h := c.open("/"+name+"/secret", wire.OpenRead)
		want(t, c.status(wire.Read{Handle: h, Length: 4}), wire.PermissionDenied)
		for what, m := range map[string]message{
			"write":      wire.Open{Path: "/" + name + "/f", Flags: create},
			"remove":     wire.PathRequest{Type: wire.TypeRemove, Path: "/" + name + "/secret"},
			"move out":   wire.Rename{OldPath: "/" + name + "/secret", NewPath: "/out"},
			"move in":    wire.Rename{OldPath: "/free", NewPath: "/" + name + "/in"},
			"rename it":  wire.Rename{OldPath: "/" + name, NewPath: "/other"},
			"remove it":  wire.PathRequest{Type: wire.TypeRmdir, Path: "/" + name},
			"a refused":  wire.Open{Path: "/a.e\u0301XE", Flags: create},
			"by renamed": wire.Rename{OldPath: "/free", NewPath: "/free.E\u0301xe"},
		} {
			if code := c.status(m); code != wire.PermissionDenied {
				t.Errorf("%s by %q: %v", what, name, code)
			}
		}
	}
}
