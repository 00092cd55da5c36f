//go:build unix

package transfer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// linked makes a source, and a target with links in the place of the source's directories: to
// directories in store, and to what is none.
func linked(t *testing.T, dir, store string) {
	t.Helper()
	fill(t, filepath.Join(dir, "src"), "a/file", "a/deep/file", "a/deep/sub/file", "a/new/file",
		"at/a/time", "file", "to file/file", "nowhere/file")
	fill(t, dir, "dst/extra", "dst/real/extra")
	fill(t, filepath.Join(dir, store), "away/extra", "away/gone/extra", "deeper/extra",
		"sub/extra", "kept/file")
	for link, to := range map[string]string{"dst/a": store + "/away", "dst/to file": "dst/extra",
		store + "/away/deep": store + "/deeper", "dst/nowhere": "dst/missing",
		"dst/file": store + "/kept", "dst/not in src": store + "/kept",
		store + "/deeper/sub": store + "/sub"} {
		to, err := filepath.Rel(filepath.Dir(link), to)
		if err == nil {
			err = os.Symlink(to, filepath.Join(dir, link))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// With KeepDirLinks, links to directories are what they are to rsync -K, also if something is
// deleted; the second run does nothing. They lead to where rsync 3.5 still follows them: into the
// target, here to what is excluded.
func TestSyncKeepsDirLinksAsRsync(t *testing.T) {
	rsync := testenv.Program(t, "rsync")
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for name, flags := range map[string][]string{"keep": nil, "delete": {"--delete-after"}} {
			ours, theirs := t.TempDir(), t.TempDir()
			linked(t, theirs, "dst/store")
			ask(t, ours, "cp", "-a", theirs+"/.", ".")
			ask(t, theirs, slices.Concat([]string{rsync, "-rlptK", "--exclude=/store"}, flags,
				[]string{"src/", "dst"})...)
			j := &syncJob{direction: direction, far: far, src: filepath.Join(ours, "src"),
				dst: filepath.Join(ours, "dst")}
			j.options.KeepDirLinks = true
			j.options.Filter = transfer.AppendFilter(nil, "/store", false)
			j.options.Delete, j.options.MaxDelete = name == "delete", 100
			dry := *j
			dry.options.DryRun = true
			before := census(t, ours, true)
			dry.must(t)
			if now := census(t, ours, true); !slices.Equal(now, before) {
				t.Errorf("%s: a dry run has changed something", name)
			}
			done := j.must(t)
			a, b := census(t, ours, false), census(t, theirs, false)
			if !slices.Equal(a, b) {
				t.Errorf("%s: only ours has\n%s\nonly rsync's has\n%s", name, lacking(a, b),
					lacking(b, a))
			}
			planned := dry.told(transfer.Planned)
			for path := range j.told(transfer.Deleted) {
				if planned[path] != transfer.ReasonExtra {
					t.Errorf("%s: %s was not planned to be deleted", name, path)
				}
			}
			if s := j.must(t); s.Files+s.Deleted+s.Links > 0 || s.Kept != done.Files+done.Kept {
				t.Errorf("%s: again: %+v", name, s.Totals)
			}
		}
	})
}

// So does cp -r. What is no directory stays in the way.
func TestTreeKeepsDirLinks(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		linked(t, dir, "out")
		j := treeJob{Host: far, From: far, Direction: direction, Source: filepath.Join(dir, "src"),
			Target: filepath.Join(dir, "dst")}
		j.Options.NoTargetDirectory = true
		_, err := j.Run(t.Context())
		if !errors.Is(err, endpoint.ErrLinkInWay) {
			t.Errorf("as ever: %v", err)
		}
		j.TreeOptions.KeepDirLinks = true
		_, err = j.Run(t.Context())
		if failed, ok := errors.AsType[*transfer.TreeError](err); !ok || failed.Failed != 2 ||
			!errors.Is(err, endpoint.ErrLinkInWay) {
			t.Errorf("with links: %v", err)
		}
		for _, name := range []string{"out/away/file", "out/deeper/file", "out/sub/file",
			"out/away/new/file", "dst/at/a/time"} {
			if info, err := os.Lstat(filepath.Join(dir, name)); err != nil ||
				!info.ModTime().Equal(oldTime) {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		for _, name := range []string{"dst/a", "out/away/deep", "out/deeper/sub", "dst/to file",
			"dst/nowhere"} {
			if info, err := os.Lstat(filepath.Join(dir, name)); err != nil ||
				info.Mode()&fs.ModeSymlink == 0 {
				t.Errorf("%s is no link: %v, %v", name, info, err)
			}
		}
	})
}

// Through a server that follows no link beneath a directory on its own, the wanted ones are
// followed, and no others.
func TestKeepDirLinksBeneath(t *testing.T) {
	dir := t.TempDir()
	linked(t, dir, "out")
	host := hostOver(t, dir, func(files *osfs.FS) server.FS { return files }, nil)
	j := &syncJob{direction: upload, far: host, src: filepath.Join(dir, "src"), dst: "/dst"}
	j.options.KeepDirLinks = true
	j.options.Delete, j.options.MaxDelete = true, 100
	j.must(t)
	sameTrees(t, filepath.Join(dir, "src/a/new"), filepath.Join(dir, "out/away/new"))
	if _, err := os.Stat(filepath.Join(dir, "out/away/extra")); err == nil {
		t.Error("what the source does not have is left")
	}
	if s := j.must(t); s.Files+s.Deleted > 0 {
		t.Errorf("again: %+v", s.Totals)
	}
}

// A link that leads to the source, into it, or to what it is in, would change the source.
func TestDirLinksIntoTheSource(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for name, to := range map[string]string{"itself": "src", "in it": "src/b", "around it": ""} {
			dir := t.TempDir()
			src := filepath.Join(dir, "src")
			fill(t, src, "a/one", "b/two")
			fill(t, dir, "dst/three")
			before := census(t, src, false)
			if err := os.Symlink(filepath.Join(dir, to), filepath.Join(dir, "dst/a")); err != nil {
				t.Fatal(err)
			}
			j := &syncJob{direction: direction, far: far, src: src, dst: filepath.Join(dir, "dst")}
			j.options.KeepDirLinks = true
			j.options.Delete, j.options.MaxDelete = true, 100
			if _, err := j.run(t); err == nil {
				t.Errorf("%s: the sync succeeds", name)
			}
			tree := treeJob{Host: far, From: far, Direction: direction, Source: src, Target: j.dst}
			tree.Options.NoTargetDirectory, tree.TreeOptions.KeepDirLinks = true, true
			if _, err := tree.Run(t.Context()); err == nil {
				t.Errorf("%s: the copy succeeds", name)
			}
			if now := census(t, src, false); !slices.Equal(now, before) {
				t.Errorf("%s: the source has\n%s", name, lacking(now, before))
			}
		}
	})
}

// A server that sends a link, and then a directory of the same name, does not choose where its
// files go.
func TestKeepDirLinksOfAHostileSource(t *testing.T) {
	outside := t.TempDir()
	var listed atomic.Bool
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		switch {
		case r.Type == wire.TypeReadlink:
			return names(r, wire.Name{Filename: outside})
		case r.Type != wire.TypeReaddir || listed.Swap(true):
			return nil
		}
		return names(r, wire.Name{Filename: "evil", Attrs: wire.Attrs{Flags: wire.AttrPermissions,
			Permissions: 0o120777}})
	}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/tree/evil/file", []byte("evil"))
	_, err := b.tree(download, "/tree", filepath.Join(b.dir, "copy"), func(j *treeJob) {
		j.TreeOptions.KeepDirLinks = true
	})
	if err == nil || !strings.Contains(err.Error(), "sent the same file name twice") {
		t.Error(err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Walkers find links in the place of directories at the same time: what one is told about the
// source, no other changes (a race detector sees it).
func TestManyDirLinks(t *testing.T) {
	dir := t.TempDir()
	for n := range 32 {
		name := fmt.Sprint("d", n)
		fill(t, dir, filepath.Join("src", name, "file"), filepath.Join("store", name, "extra"))
		link := filepath.Join(dir, "dst", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700),
			os.Symlink(filepath.Join(dir, "store", name), link)); err != nil {
			t.Fatal(err)
		}
	}
	options := transfer.TreeOptions{KeepDirLinks: true}
	options.NoTargetDirectory = true
	s, err := transfer.CopyTree(t.Context(), transfer.Local(filepath.Join(dir, "dst")),
		transfer.Local(filepath.Join(dir, "src")), options)
	if err != nil || s.Files != 32 {
		t.Fatalf("%d files, %v", s.Files, err)
	}
	for n := range 32 {
		if _, err := os.Stat(filepath.Join(dir, "store", fmt.Sprint("d", n), "file")); err != nil {
			t.Error(err)
		}
	}
}
