package transfer_test

import (
	"context"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"testing"

	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
)

// A junctionFS has a directory, /src/junction or /dst/junction, that is one only if it is followed:
// what Go makes of a junction of Windows.
type junctionFS struct{ *memfs.FS }

type irregular struct{ fs.FileInfo }

func (i irregular) Mode() fs.FileMode { return i.FileInfo.Mode().Perm() | fs.ModeIrregular }
func (irregular) IsDir() bool         { return false }
func (irregular) Sys() any            { return nil }

func (j junctionFS) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	info, err := j.FS.Lstat(ctx, path)
	if err == nil && info.Name() == "junction" {
		info = irregular{info}
	}
	return info, err
}

func (j junctionFS) List(ctx context.Context, path string) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		for info, err := range j.FS.List(ctx, path) {
			if err == nil && info.Name() == "junction" {
				info = irregular{info}
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// Remove implements server.Remover. It removes the junction, and nothing that is behind it.
func (j junctionFS) Remove(ctx context.Context, path string) error {
	if info, err := j.Lstat(ctx, path); err == nil && info.Mode()&fs.ModeIrregular != 0 {
		return j.FS.Rename(ctx, path, "/removed")
	}
	return j.FS.Remove(ctx, path)
}

// TestJunctions: a junction is skipped, or followed with all links. A sync deletes one without a
// look at what is behind it.
func TestJunctions(t *testing.T) {
	host, _ := deltaHostOf(t, junctionFS{memfs.New(0)}, nil)
	for _, dir := range []string{"/src", "/src/junction", "/src/dir", "/dst", "/dst/junction"} {
		if err := host.Client.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/src/file", "/src/junction/behind", "/src/dir/file",
		"/dst/junction/behind"} {
		putText(host.Client, name, "text")
	}
	for links, want := range map[transfer.LinkMode][]string{
		transfer.LinksPreserve: {"dir", "dir/file", "file"},
		transfer.LinksSkip:     {"dir", "dir/file", "file"},
		transfer.LinksFollow:   {"dir", "dir/file", "file", "junction", "junction/behind"},
	} {
		dst := t.TempDir()
		var skipped []string
		var o transfer.TreeOptions
		o.Links, o.NoTargetDirectory = links, true
		o.Events = func(e transfer.Event) {
			if e.Kind == transfer.Skipped {
				skipped = append(skipped, e.Source)
			}
		}
		_, err := transfer.CopyTree(t.Context(), transfer.Local(dst), transfer.Remote(host, "/src"), o)
		have := filesIn(dst)
		for i, name := range have {
			have[i] = filepath.ToSlash(name)
		}
		if err != nil || !slices.Equal(have, want) || (len(have) == 3) != slices.Equal(skipped,
			[]string{"/src/junction"}) {
			t.Errorf("%v: there are %q; skipped %q; %v", links, have, skipped, err)
		}
	}

	src := t.TempDir()
	fill(t, src, "file")
	if _, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
		transfer.SyncOptions{Delete: true}); err != nil {
		t.Fatal(err)
	}
	if have := namesOn(t, host.Client, "/dst"); !slices.Equal(have, []string{"dst", "file"}) {
		t.Errorf("the target has %q", have)
	}
	if text := textOf(t, host.Client, "/removed/behind"); text != "text" {
		t.Errorf("behind the junction is %q", text)
	}
}
