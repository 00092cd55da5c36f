//go:build linux || darwin || freebsd

package osfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/kept"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// TestDirectoriesAreKept: the steps of a request for several files open each directory once, and
// stay in it if it is replaced by a link meanwhile. The next request does not follow the link.
func TestDirectoriesAreKept(t *testing.T) {
	for name, serve := range map[string]func(string) (*osfs.FS, error){
		"directory": osfs.New,
		"uploads":   osfs.NewAtomic,
	} {
		t.Run(name, func(t *testing.T) {
			dir, outside := t.TempDir(), t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "top/a/b"), 0o755); err != nil {
				t.Fatal(err)
			}
			f, err := serve(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			beneath := server.WithBeneath(t.Context(), "/top")
			ctx, end := kept.With(beneath)
			put := func(name string) error {
				file, err := f.Open(ctx, name+".new", wire.OpenWrite|wire.OpenCreate|wire.OpenExclusive,
					wire.Attrs{})
				if err != nil {
					return err
				}
				if err := file.Close(); err != nil {
					return err
				}
				return f.PosixRename(ctx, name+".new", name)
			}
			if err := put("/top/a/b/before"); err != nil {
				t.Fatal(err)
			}
			aside := filepath.Join(dir, "top/aside")
			if err := os.Rename(filepath.Join(dir, "top/a/b"), aside); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(dir, "top/a/b")); err != nil {
				t.Fatal(err)
			}
			if err := put("/top/a/b/meanwhile"); err != nil {
				t.Error(err)
			}
			end()
			ctx, end = kept.With(beneath)
			defer end()
			if err := put("/top/a/b/afterwards"); err == nil {
				t.Error("a link was followed")
			}
			for i := range 10 { // more than are kept
				name := fmt.Sprintf("/top/dir%d", i)
				if err := f.Mkdir(ctx, name, wire.Attrs{}); err != nil {
					t.Fatal(err)
				}
				if err := put(name + "/file"); err != nil {
					t.Error(err)
				}
			}
			if names := entries(t, aside); !slices.Equal(names, []string{"before", "meanwhile"}) {
				t.Errorf("the directory has %q", names)
			}
			if names := entries(t, outside); len(names) > 0 {
				t.Errorf("outside there is %q", names)
			}
		})
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
