package transfer_test

import (
	"context"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A lowerFS is a file system in which names that differ only in case are the same file. It stores
// them in lower case.
type lowerFS struct{ *memfs.FS }

func (l lowerFS) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return l.FS.Stat(ctx, strings.ToLower(path))
}

func (l lowerFS) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	return l.FS.Lstat(ctx, strings.ToLower(path))
}

func (l lowerFS) Open(ctx context.Context, path string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	return l.FS.Open(ctx, strings.ToLower(path), flags, attrs)
}

func (l lowerFS) List(ctx context.Context, path string) iter.Seq2[fs.FileInfo, error] {
	return l.FS.List(ctx, strings.ToLower(path))
}

func (l lowerFS) Setstat(ctx context.Context, path string, attrs wire.Attrs) error {
	return l.FS.Setstat(ctx, strings.ToLower(path), attrs)
}

func (l lowerFS) Rename(ctx context.Context, from, to string) error {
	return l.FS.Rename(ctx, strings.ToLower(from), strings.ToLower(to))
}

func (l lowerFS) PosixRename(ctx context.Context, from, to string) error {
	return l.FS.PosixRename(ctx, strings.ToLower(from), strings.ToLower(to))
}

func (l lowerFS) Remove(ctx context.Context, path string) error {
	return l.FS.Remove(ctx, strings.ToLower(path))
}

func (l lowerFS) Rmdir(ctx context.Context, path string) error {
	return l.FS.Rmdir(ctx, strings.ToLower(path))
}

func (l lowerFS) Mkdir(ctx context.Context, path string, attrs wire.Attrs) error {
	return l.FS.Mkdir(ctx, strings.ToLower(path), attrs)
}

// TestSyncToAHostThatIgnoresCase: what was renamed only in case is the same file there, and is not
// deleted as one that the source does not have. Of two names that are one there, one fails.
func TestSyncToAHostThatIgnoresCase(t *testing.T) {
	files := lowerFS{memfs.New(0)}
	host, _ := deltaHostOf(t, files, nil)
	src := t.TempDir()
	fill(t, src, "Photo.jpg", "Dir/File", "other", "gone")
	options := transfer.SyncOptions{Delete: true}
	sync := func() (transfer.Summary, error) {
		return transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src), options)
	}
	have := func(want ...string) {
		t.Helper()
		var names []string
		for _, dir := range []string{"/dst", "/dst/dir"} {
			for info, err := range files.List(t.Context(), dir) {
				if err != nil {
					t.Fatal(err)
				}
				if name := info.Name(); name != "." && name != ".." && !info.IsDir() {
					names = append(names, name)
				}
			}
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("the target has %q, want %q", names, want)
		}
	}
	if _, err := sync(); err != nil {
		t.Fatal(err)
	}
	have("file", "gone", "other", "photo.jpg")
	for from, to := range map[string]string{"Photo.jpg": "photo.JPG", "Dir": "DIR"} {
		if err := os.Rename(filepath.Join(src, from), filepath.Join(src, to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(src, "gone")); err != nil {
		t.Fatal(err)
	}
	if _, err := sync(); err != nil {
		t.Fatal(err)
	}
	have("file", "other", "photo.jpg")

	fill(t, src, "OTHER")
	if entries, err := os.ReadDir(src); err != nil || len(entries) != 4 {
		return // this system ignores case, too
	}
	if summary, err := sync(); err == nil || summary.Failed != 1 ||
		!strings.Contains(err.Error(), "differs only in case") {
		t.Errorf("%+v, %v", summary, err)
	}
	have("file", "other", "photo.jpg")
}
