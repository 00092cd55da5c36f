package transfer_test

import (
	"context"
	"errors"
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

// A foldFS is a file system that takes names for the same file if fold makes the same of them, and
// stores that.
type foldFS struct {
	*memfs.FS
	fold func(string) string
}

func (l foldFS) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return l.FS.Stat(ctx, l.fold(path))
}

func (l foldFS) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	return l.FS.Lstat(ctx, l.fold(path))
}

func (l foldFS) Open(ctx context.Context, path string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	return l.FS.Open(ctx, l.fold(path), flags, attrs)
}

func (l foldFS) List(ctx context.Context, path string) iter.Seq2[fs.FileInfo, error] {
	return l.FS.List(ctx, l.fold(path))
}

func (l foldFS) Setstat(ctx context.Context, path string, attrs wire.Attrs) error {
	return l.FS.Setstat(ctx, l.fold(path), attrs)
}

func (l foldFS) Rename(ctx context.Context, from, to string) error {
	return l.FS.Rename(ctx, l.fold(from), l.fold(to))
}

func (l foldFS) PosixRename(ctx context.Context, from, to string) error {
	return l.FS.PosixRename(ctx, l.fold(from), l.fold(to))
}

func (l foldFS) Remove(ctx context.Context, path string) error {
	return l.FS.Remove(ctx, l.fold(path))
}

func (l foldFS) Rmdir(ctx context.Context, path string) error {
	return l.FS.Rmdir(ctx, l.fold(path))
}

func (l foldFS) Mkdir(ctx context.Context, path string, attrs wire.Attrs) error {
	return l.FS.Mkdir(ctx, l.fold(path), attrs)
}

// TestSyncToAHostThatIgnoresCase: what was renamed only in case is the same file there, and is not
// deleted as one that the source does not have, with a lock or without; nor does a dry run say so.
// Of two names that are one there, one fails.
func TestSyncToAHostThatIgnoresCase(t *testing.T) {
	for _, noLock := range []bool{false, true} {
		files := foldFS{memfs.New(0), strings.ToLower}
		host, _ := deltaHostOf(t, files, nil)
		src := t.TempDir()
		fill(t, src, "Photo.jpg", "Dir/File", "other", "gone")
		options := transfer.SyncOptions{Delete: true, NoLock: noLock}
		var deleted []string
		options.Events = func(e transfer.Event) {
			if e.Kind == transfer.Deleted || e.Reason == transfer.ReasonExtra {
				deleted = append(deleted, e.Target)
			}
		}
		sync := func() (transfer.Summary, error) {
			deleted = nil
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
		for _, options.DryRun = range []bool{true, false} {
			if _, err := sync(); err != nil || !slices.Equal(deleted, []string{"/dst/gone"}) {
				t.Errorf("deleted: %q, %v", deleted, err)
			}
		}
		have("file", "other", "photo.jpg")

		fill(t, src, "OTHER")
		if entries, err := os.ReadDir(src); err != nil || len(entries) != 4 {
			return // this system ignores case, too
		}
		if summary, err := sync(); err == nil || summary.Failed != 1 ||
			!errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), `for "`) {
			t.Errorf("%+v, %v", summary, err)
		}
		have("file", "other", "photo.jpg")
	}
}

// TestSyncWhereCaseCounts: a name that differs only in case from one of the source is deleted,
// although without a lock nobody knows that case counts.
func TestSyncWhereCaseCounts(t *testing.T) {
	host, _ := deltaHostOf(t, memfs.New(0), nil)
	src := t.TempDir()
	fill(t, src, "README", "both")
	if _, err := os.Stat(filepath.Join(src, "readme")); err == nil {
		return // this system ignores case: see TestSyncFromASourceThatIgnoresCase
	}
	if err := host.Client.Mkdir("/dst"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Readme", "both", "BOTH"} {
		putText(host.Client, "/dst/"+name, "old")
	}
	if _, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
		transfer.SyncOptions{Delete: true, NoLock: true}); err != nil {
		t.Fatal(err)
	}
	if have := namesOn(t, host.Client, "/dst"); !slices.Equal(have, []string{"dst", "README", "both"}) {
		t.Errorf("the target has %q", have)
	}
}

// TestOwnEntriesOnAHostThatIgnoresCase: a file of the source that would be the lock there is left
// out, and the backup directory is known again by the name that the host lists, with a lock or
// without.
func TestOwnEntriesOnAHostThatIgnoresCase(t *testing.T) {
	for _, noLock := range []bool{false, true} {
		files := foldFS{memfs.New(0), strings.ToLower}
		host, _ := deltaHostOf(t, files, nil)
		src := t.TempDir()
		fill(t, src, "gone", "other")
		if !noLock {
			fill(t, src, ".USFTP-Sync.Lock")
		}
		options := transfer.SyncOptions{Delete: true, BackupDir: "Old/s", NoLock: noLock}
		for run := range 3 {
			s, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
				options)
			if err != nil || run == 1 && s.Deleted != 1 || run != 1 && s.Deleted != 0 {
				t.Errorf("run %d: %+v, %v", run, s.Totals, err)
			}
			os.Remove(filepath.Join(src, "gone"))
		}
		var names []string
		for _, dir := range []string{"/dst", "/dst/old", "/dst/old/s"} {
			for info, err := range files.List(t.Context(), dir) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, info.Name())
			}
		}
		names = slices.DeleteFunc(names,
			func(name string) bool { return strings.Trim(name, ".") == "" })
		if slices.Sort(names); !slices.Equal(names, []string{"gone", "old", "other", "s"}) {
			t.Errorf("no lock %v: the target has %q", noLock, names)
		}
	}
}
