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

// leaving is the context of a client who is gone after a number of looks.
type leaving struct {
	context.Context
	looks *int
}

func (l leaving) Err() error {
	if *l.looks--; *l.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestClientGoneWhileMaking: whenever its client goes, a request that has failed has made nothing,
// which is what quotas count.
func TestClientGoneWhileMaking(t *testing.T) {
	t.Parallel()
	times := wire.Attrs{Flags: wire.AttrACModTime, ATime: 1, MTime: 2}
	tooLarge := wire.Attrs{Flags: wire.AttrSize, Size: 1 << 63}
	f, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Mkdir(t.Context(), "/d", wire.Attrs{Permissions: 0o755}); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(ctx context.Context) error{
		"/d/dir": func(ctx context.Context) error { return f.Mkdir(ctx, "/d/dir", times) },
		"/d/file": func(ctx context.Context) error {
			file, err := f.Open(ctx, "/d/file", create, tooLarge)
			if err == nil {
				file.Close()
			}
			return err
		},
	} {
		for most := range 20 {
			looks := most
			err := run(leaving{t.Context(), &looks})
			if err == nil {
				break
			}
			if _, found := f.Stat(t.Context(), name); !errors.Is(found, fs.ErrNotExist) {
				t.Errorf("%s, after %d looks: %v, and it is there: %v", name, most, err, found)
				break
			}
		}
	}
}

// TestQuotaOfClientsWhoAreGone: whenever its client goes in the middle of a change, a quota counts
// what is there afterwards.
func TestQuotaOfClientsWhoAreGone(t *testing.T) {
	t.Parallel()
	open := func(ctx context.Context, view *server.View, flags uint32, attrs wire.Attrs) error {
		f, err := view.Open(ctx, "/d/f", flags, attrs)
		if err == nil {
			f.Abandon(context.Canceled)
		}
		return err
	}
	size := wire.Attrs{Flags: wire.AttrSize | wire.AttrACModTime, Size: 20}
	for name, run := range map[string]func(ctx context.Context, view *server.View) error{
		"rename": func(ctx context.Context, view *server.View) error {
			return view.PosixRename(ctx, "/d/new", "/d/f")
		},
		"rename to a new name": func(ctx context.Context, view *server.View) error {
			return view.Rename(ctx, "/d/new", "/d/g")
		},
		"rename of a directory": func(ctx context.Context, view *server.View) error {
			return view.PosixRename(ctx, "/d", "/e")
		},
		"remove": func(ctx context.Context, view *server.View) error {
			return view.Remove(ctx, "/d/f")
		},
		"mkdir": func(ctx context.Context, view *server.View) error {
			return view.Mkdir(ctx, "/d/g", size)
		},
		"rmdir": func(ctx context.Context, view *server.View) error {
			return view.Rmdir(ctx, "/d/empty")
		},
		"symlink": func(ctx context.Context, view *server.View) error {
			return view.Symlink(ctx, "f", "/d/g")
		},
		"link": func(ctx context.Context, view *server.View) error {
			return view.Link(ctx, "/d/f", "/d/g")
		},
		"setstat": func(ctx context.Context, view *server.View) error {
			return view.Setstat(ctx, "/d/f", size)
		},
		"open": func(ctx context.Context, view *server.View) error {
			return open(ctx, view, wire.OpenWrite, wire.Attrs{})
		},
		"truncation": func(ctx context.Context, view *server.View) error {
			return open(ctx, view, truncate, size)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for most := 0; ; most++ {
				a := newAtomics(t)
				a.must(os.MkdirAll(filepath.Join(a.dir, "d", "empty"), 0o755))
				a.abandoned("/d/f", "leftover")
				a.abandoned("/d/empty/g", "leftovers")
				write(t, filepath.Join(a.dir, "d", "f"), "file")
				write(t, filepath.Join(a.dir, "d", "new"), "older")
				quota := server.NewQuota(0, 0)
				view, err := server.NewView(a.fs, &server.Policy{Quota: quota})
				a.must(err)
				a.must(quota.Recount(t.Context(), a.fs, "/"))
				first, err := view.Open(t.Context(), "/d/new", truncate, wire.Attrs{})
				a.must(err)
				lost, err := view.Open(t.Context(), "/d/new", wire.OpenWrite, wire.Attrs{})
				a.must(err)
				a.at(first, 0, "news")
				a.must(first.Close()) // a rename publishes it
				looks := most
				failed := run(leaving{t.Context(), &looks}, view)
				a.must(lost.Abandon(context.Canceled))
				bytes, files := quota.Usage()
				a.must(quota.Recount(t.Context(), a.fs, "/"))
				if b, f := quota.Usage(); bytes != b || files != f {
					t.Errorf("after %d looks: %v: %d bytes in %d files are counted, not %d in %d",
						most, failed, bytes, files, b, f)
				}
				if looks >= 0 {
					break
				}
			}
		})
	}
}
