package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

var oldTime = time.Unix(1_234_567_890, 0)

// sampleLinks is how many links a sample has: making one takes a right on Windows, and Wine has
// none.
var sampleLinks = map[bool]int64{true: 3}[runtime.GOOS != "windows"]

// sample makes a local tree with everything that can be copied.
func (b *bench) sample(name string) string {
	b.t.Helper()
	root := filepath.Join(b.dir, name)
	makeSample(b.t, root)
	return root
}

func makeSample(t *testing.T, root string) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"empty", "deep/er/and/deeper", "private", "read-only"} {
		check(os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	strange := "strange \xff\x01 name\n"
	if runtime.GOOS == "windows" { // where that is no name
		strange = "strange \u00e4\U0001f600 name"
	}
	for file, size := range map[string]int{"zero": 0, "one": 1, "deep/er/small": 4096,
		"deep/packet": 261120, "deep/er/and/large": 700_000,
		"deep/er/and/deeper/last": 77, "private/secret": 5, "read-only/file": 6,
		strange: 9} {
		check(os.WriteFile(filepath.Join(root, file), random(size), 0o644))
		check(os.Chtimes(filepath.Join(root, file), oldTime, oldTime))
	}
	check(os.Chmod(filepath.Join(root, "one"), 0o751))
	if sampleLinks > 0 {
		check(os.Symlink("er/small", filepath.Join(root, "deep/link")))
		check(os.Symlink("/nowhere/at/all", filepath.Join(root, "dangling")))
		check(os.Symlink("er", filepath.Join(root, "deep/dirlink")))
	}
	check(os.Chmod(filepath.Join(root, "private"), 0o700))
	check(os.Chmod(filepath.Join(root, "read-only"), 0o555))
	for _, dir := range []string{"empty", "deep/er/and/deeper", "deep/er/and", "deep/er", "deep",
		"private", "read-only", "."} {
		check(os.Chtimes(filepath.Join(root, dir), oldTime, oldTime))
	}
	t.Cleanup(func() { writable(root) })
}

// sameFiles makes a directory of files with the same contents. They are names of one file, because
// a file system makes those faster than files.
func sameFiles(t *testing.T, dir string, files int, data []byte) {
	t.Helper()
	first := filepath.Join(dir, "file0")
	err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(first, data, 0o644))
	for i := 1; i < files; i++ {
		err = errors.Join(err, os.Link(first, filepath.Join(dir, fmt.Sprintf("file%d", i))))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sameTrees compares two local trees: kinds, contents, permissions, times, links.
func sameTrees(t *testing.T, a, b string) {
	t.Helper()
	list := func(root string) (all []string) {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Error(err)
				return nil
			}
			rel, _ := filepath.Rel(root, path)
			info, _ := d.Info()
			line := fmt.Sprintf("%q %v", rel, info.Mode())
			switch {
			case info.Mode()&fs.ModeSymlink != 0:
				to, _ := os.Readlink(path)
				line += " -> " + to
			case info.Mode().IsRegular():
				data, _ := os.ReadFile(path)
				line += fmt.Sprintf(" %d %x", len(data), data[:min(len(data), 8)])
				fallthrough
			default:
				line += " " + info.ModTime().UTC().Format(time.DateTime)
			}
			all = append(all, line)
			return nil
		})
		return all
	}
	if want, got := list(a), list(b); !slices.Equal(want, got) {
		t.Errorf("the copy differs:\n%s\nwant:\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// A tree is copied to a host and back unchanged, whatever is in it, with a server that works in
// order and one that does not, to an empty target and to one that has it all already.
func TestTreeThereAndBack(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]usftp.ClientOption{"in order": inOrder,
		"unknown": usftp.WithServerVersion("")} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{}, known)
			source := b.sample("source")
			preserve := func(tree *treeJob) { tree.Options.Preserve = true }
			for range 2 {
				s, err := b.tree(upload, source, "/copy", preserve,
					func(tree *treeJob) {
						if b.server.Files.Exists("/copy") {
							tree.Source += "/."
						}
					})
				if err != nil {
					t.Fatal(err)
				}
				if s.Target != "/copy" || s.Files != 9 || s.PlannedFiles != 9 || s.Links != sampleLinks ||
					s.Directories != 8 || !s.Complete || s.Bytes != s.PlannedBytes {
					t.Errorf("%+v", s)
				}
			}
			for range 2 {
				s, err := b.tree(download, "/copy", b.dir, preserve)
				if err != nil {
					t.Fatal(err)
				}
				if s.Target != filepath.Join(b.dir, "copy") || s.Files != 9 || s.Links != sampleLinks ||
					s.Directories != 8 || s.Bytes != s.PlannedBytes {
					t.Errorf("%+v", s)
				}
				sameTrees(t, source, filepath.Join(b.dir, "copy"))
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			last := b.events[len(b.events)-1]
			if last.Kind != transfer.Ended || last.Totals == nil || last.Totals.Files != 9 ||
				last.SourceHost+last.TargetHost != "far" {
				t.Errorf("the last event is %+v", last)
			}
			if done := b.kinds(transfer.Done, "/copy"); len(done) != 9 ||
				!slices.Contains(done, "deep/er/and/large") {
				t.Errorf("done: %q", done)
			}
		})
	}
}

// By default a new tree gets the times of the old one, and an existing directory keeps its own.
func TestTreeTimes(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source := b.sample("source")
	os.MkdirAll(filepath.Join(b.dir, "out/source/empty"), 0o755)
	other := oldTime.Add(time.Hour)
	os.Chtimes(filepath.Join(b.dir, "out/source/empty"), other, other)
	if _, err := b.tree(upload, source, "/"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tree(download, "/source", filepath.Join(b.dir, "out")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Time{"one": oldTime, "deep": oldTime,
		"deep/er/and/large": oldTime, "empty": other, "read-only": oldTime} {
		info, err := os.Stat(filepath.Join(b.dir, "out/source", name))
		if err != nil || !info.ModTime().Equal(want) {
			t.Errorf("%s: %v, %v", name, info.ModTime(), err)
		}
	}
	if info, _ := os.Stat(filepath.Join(b.dir,
		"out/source/read-only")); runtime.GOOS != "windows" && info.Mode().Perm() != 0o555 {
		t.Errorf("read-only has become %v", info.Mode())
	}
}

func TestTreeLinks(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source := filepath.Join(b.dir, "source")
	os.MkdirAll(filepath.Join(source, "dir"), 0o755)
	b.local("source/dir/file", []byte("contents"))
	testenv.Symlink(t, "dir/file", filepath.Join(source, "to-file"))
	testenv.Symlink(t, "dir", filepath.Join(source, "to-dir"))
	testenv.Symlink(t, "..", filepath.Join(source, "dir/up"))
	if _, err := b.tree(upload, source, "/plain"); err != nil {
		t.Fatal(err)
	}
	for direction, from := range map[way]string{upload: source,
		download: "/plain"} {
		for mode, want := range map[transfer.LinkMode][2]int64{transfer.LinksSkip: {1, 3},
			transfer.LinksFollow: {3, 2}} {
			to := "/" + direction.String() + string(mode)
			if direction == download {
				to = b.dir + to
			}
			s, err := b.tree(direction, from, to,
				func(tree *treeJob) { tree.TreeOptions.Links = mode })
			if err != nil {
				t.Fatal(direction, mode, err)
			}
			if s.Files != want[0] || s.Skipped != want[1] || s.Links != 0 {
				t.Errorf("%v %s: %+v", direction, mode, s)
			}
		}
	}
	if data := b.read("downloadfollow/to-dir/file"); string(data) != "contents" {
		t.Errorf("followed to %q", data)
	}
}

// A failure of one file is reported, and leaves the others alone.
func TestTreeErrors(t *testing.T) {
	refuse := sftptest.Fault{On: wire.TypeOpen, Path: "/copy/one",
		Do: sftptest.Refuse(wire.PermissionDenied, "no")}
	b := newTreeBench(t, sftptest.Script{Faults: []sftptest.Fault{refuse,
		{On: wire.TypeOpendir, Path: "/copy/deep",
			Do: sftptest.Refuse(wire.PermissionDenied, "no")}}}, sftptest.LinkConfig{})
	source := b.sample("source")
	if _, err := b.tree(upload, source, "/copy"); err != nil {
		t.Fatal(err)
	}
	s, err := b.tree(download, "/copy", filepath.Join(b.dir, "out"))
	var failed *transfer.TreeError
	if !errors.As(err, &failed) || failed.Failed != 2 || !errors.Is(err, fs.ErrPermission) ||
		s.Failed != 2 || s.Files != 4 {
		t.Errorf("%v; %+v", err, s)
	}
	if got := b.kinds(transfer.Failed, "/copy"); !slices.Equal(got, []string{"deep", "one"}) {
		t.Errorf("failed: %q", got)
	}
	for _, e := range b.events {
		if e.Kind == transfer.Failed && !strings.Contains(e.Message, "cannot copy far:/copy/") {
			t.Errorf("%q", e.Message)
		}
	}
	b.server.AddFaults(refuse)
	_, err = b.tree(download, "/copy", filepath.Join(b.dir, "stopped"),
		func(tree *treeJob) {
			tree.TreeOptions.StopOnError, tree.TreeOptions.MaxFiles = true, 1
			tree.TreeOptions.Filter = rules("deep")
		})
	if !errors.As(err, &failed) || failed.Failed != 1 {
		t.Errorf("stopped with %v", err)
	}
}

// If a directory or a special file is in the way of a file, or the reverse, nothing is replaced.
func TestTreeInTheWay(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source := filepath.Join(b.dir, "source")
	for _, dir := range []string{"source/dir", "source/linked", "outside", "out/source/file"} {
		os.MkdirAll(filepath.Join(b.dir, dir), 0o755)
	}
	b.local("source/dir/inner", []byte("1"))
	b.local("source/linked/inner", []byte("2"))
	b.local("source/file", []byte("3"))
	b.local("source/replaces", []byte("4"))
	if _, err := b.tree(upload, source, "/"); err != nil {
		t.Fatal(err)
	}
	b.local("out/source/dir", []byte("a file"))
	b.local("outside/victim", []byte("safe"))
	testenv.Symlink(t, "../../outside", filepath.Join(b.dir, "out/source/linked"))
	testenv.Symlink(t, "../../outside/victim", filepath.Join(b.dir, "out/source/replaces"))
	b.server.Files.Mkdir("/other/source/file")
	b.server.Files.WriteFile("/other/source/dir", []byte("a file"))
	b.server.Files.Mkdir("/outside")
	b.server.Files.WriteFile("/outside/victim", []byte("safe"))
	b.server.Files.Symlink("/outside", "/other/source/linked")
	b.server.Files.Symlink("/outside/victim", "/other/source/replaces")
	for direction, way := range map[way][2]string{upload: {source,
		"/other"}, download: {"/source", filepath.Join(b.dir, "out")}} {
		s, err := b.tree(direction, way[0], way[1])
		if err == nil || s.Failed != 3 || s.Files != 1 {
			t.Errorf("%v: %+v, %v", direction, s, err)
		}
		if got := b.kinds(transfer.Failed, way[0]); !slices.Equal(got,
			[]string{"dir", "file", "linked"}) {
			t.Errorf("%v: failed: %q", direction, got)
		}
	}
	if got := b.read("outside/victim"); string(got) != "safe" {
		t.Errorf("written through a link: %q", got)
	}
	if got := b.remote("/outside/victim"); string(got) != "safe" {
		t.Errorf("written through a link on the host: %q", got)
	}
	if got := b.read("out/source/replaces"); string(got) != "4" {
		t.Errorf("the link became %q", got)
	}
	if entries, _ := os.ReadDir(filepath.Join(b.dir, "outside")); len(entries) != 1 {
		t.Errorf("something came to lie outside: %v", entries)
	}
}

// A server that lists an endless tree, or names that lead elsewhere, is stopped.
func TestTreeOfAHostileServer(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	deep := "/tree" + strings.Repeat("/d", 20)
	b.server.Files.Mkdir(deep)
	for i := range 50 {
		b.server.Files.WriteFile(fmt.Sprintf("/many/%d", i), nil)
	}
	s, err := b.tree(download, "/tree", filepath.Join(b.dir, "deep"),
		func(tree *treeJob) { tree.TreeOptions.MaxDepth = 5 })
	if err == nil || s.Directories != 6 || s.Failed != 1 ||
		!strings.Contains(err.Error(), "deeper than allowed") {
		t.Errorf("%+v, %v", s, err)
	}
	_, err = b.tree(download, "/many", filepath.Join(b.dir, "many"),
		func(tree *treeJob) { tree.TreeOptions.MaxEntries = 10 })
	if err == nil || !strings.Contains(err.Error(), "more entries than allowed") {
		t.Error(err)
	}
	for _, name := range []string{"../escape", "/etc/escape", "a\x00b"} {
		b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type != wire.TypeReaddir {
				return nil
			}
			evil := wire.Name{Filename: name, Attrs: wire.Attrs{Flags: wire.AttrPermissions,
				Permissions: wire.PermissionBits(0o644) | 0o100000}}
			return []sftptest.Action{
				sftptest.ReplyBytes(string(wire.Names{Names: []wire.Name{evil}}.Append(nil, r.ID)))}
		}}, sftptest.LinkConfig{})
		b.server.Files.Mkdir("/tree/good")
		if _, err := b.tree(download, "/tree", filepath.Join(b.dir, "out")); err == nil {
			t.Errorf("%q was taken", name)
		}
		if entries, _ := os.ReadDir(filepath.Join(b.dir, "out")); len(entries) != 0 {
			t.Errorf("%q: something was written: %v", name, entries)
		}
	}
}

func TestTreeFilters(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	for _, name := range []string{"a.txt", "b.log", "dir/c.txt", "dir/d.log", "cache/e.txt",
		"dir/cache", "x/y/z/f.txt", "x/f.txt"} {
		b.server.Files.WriteFile("/tree/"+name, []byte(name))
	}
	for want, options := range map[string]transfer.TreeOptions{
		"a.txt cache/e.txt dir/c.txt x/f.txt x/y/z/f.txt": {
			Filter: rules("+ *.txt", "+ */", "*")},
		"a.txt b.log dir/c.txt dir/cache dir/d.log x/f.txt x/y/z/f.txt": {
			Filter: rules("cache/")},
		"a.txt cache/e.txt dir/c.txt dir/cache x/f.txt x/y/z/f.txt": {
			Filter: rules("*.log")},
		"a.txt dir/c.txt":     {Filter: rules("/x", "cache", "+ *.txt", "+ */", "*")},
		"x/f.txt x/y/z/f.txt": {Filter: rules("+ x/**f.txt", "+ */", "*")},
	} {
		options.DryRun = true
		_, err := b.tree(download, "/tree", filepath.Join(b.dir, "out"),
			func(tree *treeJob) { tree.TreeOptions = options })
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(b.kinds(transfer.Planned, "/tree"), " "); got != want {
			t.Errorf("%+v: %q, want %q", options, got, want)
		}
		if _, err := os.Stat(filepath.Join(b.dir, "out")); err == nil {
			t.Error("a dry run has written")
		}
	}
	for _, bad := range []string{"", "/"} {
		if _, err := b.tree(download, "/tree", b.dir,
			func(tree *treeJob) {
				tree.TreeOptions.Filter = []transfer.FilterRule{{Pattern: bad}}
			}); err == nil {
			t.Errorf("the pattern %q was taken", bad)
		}
	}
}

// When the connection ends, that is reported once and not for each file.
func TestTreeLosesConnection(t *testing.T) {
	t.Parallel()
	b := newTreeBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeExtended,
		Extension: wire.ExtPosixRename, Skip: 20, Do: sftptest.Hangup()}}}, sftptest.LinkConfig{})
	for i := range 300 {
		b.local(fmt.Sprintf("file%d", i), []byte("x"))
	}
	s, err := b.tree(upload, b.dir, "/copy")
	var lost *usftp.LostError
	if !errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
	if s.Files >= 300 {
		t.Errorf("%+v", s)
	}
	if failed := b.kinds(transfer.Failed, b.dir); len(failed) > 0 {
		t.Errorf("%d files are said to have failed", len(failed))
	}
}

// A host that lists names only, as the draft allows, is asked for the rest of a reply at once.
func TestBareListingsTakeFewRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const trip = time.Second
		b := newTreeBench(t, sftptest.Script{BareListings: true},
			sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
		for i := range 500 {
			b.server.Files.WriteFile(fmt.Sprintf("/copy/%d", i), []byte("x"))
		}
		began := time.Now()
		s, err := b.tree(download, "/copy", filepath.Join(b.dir, "back"))
		if err != nil || s.Files != 500 {
			t.Fatal(s, err)
		}
		// Five replies of 100 names, with a look at each.
		if trips := int(time.Since(began) / trip); trips > 12 {
			t.Errorf("download took %d round trips", trips)
		}
	})
}

// Many small files cost few round trips altogether: those of one file, and those that many share.
func TestTreeRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const trip = time.Second
		b := newTreeBench(t, sftptest.Script{},
			sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
		sameFiles(t, b.dir, 500, bytes.Repeat([]byte{1}, 1000))
		for direction, most := range map[way]int{upload: 6} {
			began := time.Now()
			s, err := b.tree(direction, b.dir, "/copy")
			if err != nil || s.Files != 500 {
				t.Fatal(s, err)
			}
			// Stat of the target, mkdir, three for the files, the directory's times.
			if trips := int(time.Since(began) / trip); trips > most {
				t.Errorf("%v took %d round trips", direction, trips)
			}
		}
		began := time.Now()
		s, err := b.tree(download, "/copy", filepath.Join(b.dir, "back"))
		if err != nil || s.Files != 500 {
			t.Fatal(s, err)
		}
		// Stat of the source, opendir, the first names, and for the last of them two more; the
		// server sends 100 at a time.
		if trips := int(time.Since(began) / trip); trips > 7 {
			t.Errorf("download took %d round trips", trips)
		}
	})
}

// TestMaxFiles: small and large files count together.
func TestMaxFiles(t *testing.T) {
	for _, most := range []int{1, 3} {
		b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		_, err := b.tree(upload, b.localTree("from/target", mixedTree(150)), "/",
			func(j *treeJob) { j.TreeOptions.MaxFiles = most })
		if err != nil {
			t.Fatal(err)
		}
		open, had := 0, 0
		for _, r := range b.server.Requests() {
			switch r.Type {
			case wire.TypeOpen:
				open++
			case wire.TypeClose:
				open--
			}
			had = max(had, open)
		}
		if had == 0 || had > most {
			t.Errorf("%d files were in progress at once, with MaxFiles %d", had, most)
		}
	}
}
