//go:build linux || darwin || freebsd

package osfs_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

func listed(f *osfs.FS, dir string) (names []string, err error) {
	for info, err := range f.List(context.Background(), dir) {
		if err != nil {
			return names, err
		}
		if info.Name() != "." && info.Name() != ".." {
			names = append(names, info.Name())
		}
	}
	return names, nil
}

// TestRootMadeAgain: a served directory that is removed and made again is opened again by whatever
// request comes first.
func TestRootMadeAgain(t *testing.T) {
	ctx := context.Background()
	write := func(f *osfs.FS) error {
		file, err := f.Open(ctx, "/new", wire.OpenWrite|wire.OpenCreate,
			wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o644})
		if err == nil {
			err = file.Close()
		}
		return err
	}
	for name, request := range map[string]func(f *osfs.FS) error{
		"stat of the top": func(f *osfs.FS) error { _, err := f.Stat(ctx, "/"); return err },
		"lstat of a file": func(f *osfs.FS) error { _, err := f.Lstat(ctx, "/file"); return err },
		"listing the top": func(f *osfs.FS) error {
			names, err := listed(f, "/")
			if err == nil && len(names) == 0 {
				err = errors.New("it is empty")
			}
			return err
		},
		"listing":       func(f *osfs.FS) error { _, err := listed(f, "/dir"); return err },
		"open to write": write,
		"mkdir":         func(f *osfs.FS) error { return f.Mkdir(ctx, "/new", wire.Attrs{}) },
		"rename":        func(f *osfs.FS) error { return f.Rename(ctx, "/file", "/new") },
		"posix-rename":  func(f *osfs.FS) error { return f.PosixRename(ctx, "/file", "/dir/new") },
		"hard link":     func(f *osfs.FS) error { return f.Link(ctx, "/file", "/new") },
		"remove below": func(f *osfs.FS) error {
			return f.Remove(server.WithBeneath(ctx, "/"), "/dir/x")
		},
		"remove": func(f *osfs.FS) error { return f.Remove(ctx, "/dir/x") },
	} {
		t.Run(name, func(t *testing.T) {
			top := filepath.Join(t.TempDir(), "top")
			fill := func() {
				if err := os.MkdirAll(filepath.Join(top, "dir"), 0o755); err != nil {
					t.Fatal(err)
				}
				for _, file := range []string{"file", "dir/x"} {
					if err := os.WriteFile(filepath.Join(top, file), nil, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			fill()
			f, err := osfs.New(top)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := os.RemoveAll(top); err != nil {
				t.Fatal(err)
			}
			if err := request(f); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("while the directory is gone: %v", err)
			}
			fill()
			if err := request(f); err != nil {
				t.Errorf("after it was made again: %v", err)
			}
		})
	}
}

// TestRootReplacedByLink: somebody who may remove the served directory does not choose what is
// served in its place.
func TestRootReplacedByLink(t *testing.T) {
	dir := t.TempDir()
	top, secret := filepath.Join(dir, "above/top"), filepath.Join(dir, "secret")
	for _, name := range []string{top, filepath.Join(secret, "top")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f, err := osfs.New(top)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for link, target := range map[string]string{top: secret, filepath.Dir(top): secret} {
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if names, err := listed(f, "/"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s serves %q, %v", link, names, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		os.MkdirAll(filepath.Dir(top), 0o755)
	}
	if err := os.MkdirAll(top, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := listed(f, "/"); err != nil {
		t.Errorf("a directory made again: %v", err)
	}
}
