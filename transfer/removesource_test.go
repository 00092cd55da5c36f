package transfer_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// age makes everything in a tree an hour old.
func age(t *testing.T, root string) {
	t.Helper()
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chtimes(name, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// files lists what is in a tree and is no directory.
func files(t *testing.T, root string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(name, root+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// What was copied leaves the source, and nothing else does.
func TestRemoveSource(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		src := listedTree(t)
		age(t, src)
		before, dst := census(t, src, true), src+"-dst"
		to, from := direction.endpoints(far, far, src, dst, nil, nil)
		o := transfer.TreeOptions{DryRun: true}
		o.RemoveSource, o.Preserve = true, true
		if _, err := transfer.CopyTree(t.Context(), to, from, o); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(census(t, src, true), before) {
			t.Error("a dry run changed the source")
		}
		o.DryRun = false
		s, err := transfer.CopyTree(t.Context(), to, from, o)
		if left := files(t, src); err != nil || len(left) > 0 || s.Removed != 8 {
			t.Errorf("%v, %+v; left are %q", err, s.Totals, left)
		}
		if got := census(t, dst, true); !slices.Equal(got, before) {
			t.Errorf("the copy has\n%s\nthe source had\n%s", strings.Join(got, "\n"),
				strings.Join(before, "\n"))
		}
		if _, err := os.Stat(filepath.Join(src, "a/b")); err != nil {
			t.Error(err)
		}
	})
}

// A sync compares the contents of files that look equal before it removes them. What it does not
// copy stays.
func TestRemoveSourceOfSync(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		src := listedTree(t)
		age(t, src)
		j := &syncJob{direction: direction, far: far, src: src, dst: src + "-dst"}
		j.must(t)
		change := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(src, name), []byte(text), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(filepath.Join(src, "top"))
		if err != nil {
			t.Fatal(err)
		}
		change("top", strings.ToUpper(string(data))) // of the same size
		change("left-out", "")
		change("new", "new")
		age(t, src)
		change("young", "young")
		j.options.RemoveSource, j.options.MinAge = true, time.Minute
		j.options.Filter = rules("left-out")
		s := j.must(t)
		if left := files(t, src); !slices.Equal(left, []string{"left-out", "young"}) ||
			s.Removed != 9 || s.Files != 2 || s.Skipped != 1 || s.Young != 1 {
			t.Errorf("%+v; left are %q", s.Totals, left)
		}
		got, err := os.ReadFile(filepath.Join(j.dst, "top"))
		if err != nil || string(got) != strings.ToUpper(string(data)) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A source stays if it may be anything but what was copied, or its copy anything but the same.
func TestRemoveSourceOnlyIfProved(t *testing.T) {
	t.Parallel()
	data := random(1000)
	hashes := append(sftptest.OpenSSHExtensions(),
		wire.ExtensionPair{Name: wire.ExtCheckFileName, Data: "1"})
	for name, test := range map[string]struct {
		direction  way
		extensions []wire.ExtensionPair
		when       func(r sftptest.Request, renamed bool) bool
		do         func(b *bench, source string) error
		age        time.Duration // of a host's file
		why        string
	}{
		"rewritten": {direction: upload, when: isRename, do: func(_ *bench, source string) error {
			return os.WriteFile(source, append(data, 1), 0o644)
		}, why: "it grew"},
		"touched": {direction: upload, when: isRename, do: func(_ *bench, source string) error {
			return os.Chtimes(source, time.Now(), time.Now())
		}, why: "modification time"},
		"replaced": {direction: upload, when: isRename, do: func(_ *bench, source string) error {
			info, err := os.Stat(source)
			return errors.Join(err, os.Rename(source, source+"-moved"),
				os.WriteFile(source, data, 0o644), os.Chtimes(source, info.ModTime(), info.ModTime()))
		}, why: "another file"},
		"its copy is cut off": {direction: upload, when: isLook, do: func(b *bench, _ string) error {
			return b.server.Files.Resize("/target", 10)
		}, why: "its copy has 10 bytes and not 1000"},
		"its copy is gone": {direction: upload, when: isLook, do: func(b *bench, _ string) error {
			b.server.Files.Remove("/target")
			return nil
		}, why: "cannot be found"},
		"its copy was stored wrongly": {direction: upload, extensions: hashes,
			when: func(r sftptest.Request, _ bool) bool {
				return r.Extension == wire.ExtCheckFileName
			}, do: func(b *bench, _ string) error {
				stored := b.temporaries()[0]
				b.server.Files.WriteFile(stored, bytes.Repeat([]byte{1}, len(data)))
				return nil
			}, why: transfer.ErrVerify.Error()},
		"a host's is written to": {direction: download, when: func(r sftptest.Request, _ bool) bool {
			return r.Type == wire.TypeLstat && r.Path == "/source"
		}, do: func(b *bench, _ string) error { return b.server.Files.Append("/source", data) },
			why: "it grew"},
		"a host's was written to just before": {direction: download, age: -1,
			when: isLook, why: "just before"},
		"a host's is of the future": {direction: download, age: -time.Hour, when: isLook,
			why: "in the future"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "replaced" && runtime.GOOS == "windows" {
				testenv.Unavailable(t, "what is open cannot be replaced")
			}
			var b *bench
			var renamed, done atomic.Bool
			source := "/source"
			b = newBench(t, sftptest.Script{Extensions: test.extensions,
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if test.do != nil && test.when(r, renamed.Load()) && !done.Swap(true) {
						if err := test.do(b, source); err != nil {
							t.Error(err)
						}
					}
					if isRename(r, false) {
						renamed.Store(true)
					}
					return nil
				}}, sftptest.LinkConfig{})
			target, old := "/target", time.Now().Add(-time.Hour)
			if test.age != 0 {
				old = time.Now().Add(-test.age)
			}
			if test.direction == upload {
				source = b.local("source", data)
				if err := os.Chtimes(source, old, old); err != nil {
					t.Fatal(err)
				}
			} else {
				target = filepath.Join(b.dir, "target")
				b.server.Files.WriteFile(source, data)
				b.server.Files.SetModTime(source, old)
			}
			result, err := b.job(test.direction, source, target,
				func(j *copyJob) { j.Options.RemoveSource = true })
			if err == nil || !strings.Contains(err.Error(), test.why) || result.Removed {
				t.Errorf("%v, %+v", err, result)
			}
			if test.do != nil && !done.Load() {
				t.Error("nothing was changed")
			}
			var gone error
			if test.direction == upload {
				_, gone = os.Stat(source)
			} else if !b.server.Files.Exists(source) {
				gone = fs.ErrNotExist
			}
			if gone != nil {
				t.Error(gone)
			}
		})
	}
}

// A link that leads elsewhere by now stays, be it new at the target or what a sync found equal.
func TestRemoveSourceLinkThatChanges(t *testing.T) {
	t.Parallel()
	testenv.Symlink(t, "nothing", filepath.Join(t.TempDir(), "link"))
	for _, there := range []bool{false, true} {
		var b *bench
		var changed atomic.Bool
		b = newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeLstat && r.Path == "/src/link" && !changed.Swap(true) {
				b.server.Files.Remove("/src/link")
				b.server.Files.Symlink("elsewhere", "/src/link")
			}
			return nil
		}}, sftptest.LinkConfig{})
		b.server.Files.Mkdir("/src")
		b.server.Files.Symlink("where", "/src/link")
		dst := filepath.Join(b.dir, "dst")
		if there {
			if err := errors.Join(os.Mkdir(dst, 0o755),
				os.Symlink("where", filepath.Join(dst, "link"))); err != nil {
				t.Fatal(err)
			}
		}
		var o transfer.SyncOptions
		o.RemoveSource = true
		s, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Remote(b.host, "/src"), o)
		if !errors.Is(err, transfer.ErrSourceChanged) || s.Removed > 0 || !changed.Load() ||
			!b.server.Files.Exists("/src/link") {
			t.Errorf("there already: %v: %v, %+v", there, err, s.Totals)
		}
		if to, err := os.Readlink(filepath.Join(dst, "link")); to != "where" {
			t.Errorf("there already: %v: it leads to %q, %v", there, to, err)
		}
	}
}

func isRename(r sftptest.Request, _ bool) bool { return r.Extension == wire.ExtPosixRename }

// isLook reports whether a request looks at the copy after it got its name.
func isLook(r sftptest.Request, renamed bool) bool {
	return renamed && r.Type == wire.TypeLstat && r.Path == "/target"
}

// Two names of one file at the target have what was copied last: the other's source stays.
func TestRemoveSourceOfHardLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testenv.Unavailable(t, "nothing shows that a file has other names, and it is replaced")
	}
	for _, direction := range []way{download, local} {
		for _, tree := range []bool{true, false} {
			dir := t.TempDir()
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			in := func(name string) string { return filepath.Join(src, name) }
			if err := errors.Join(os.Mkdir(src, 0o755), os.Mkdir(dst, 0o755),
				os.WriteFile(in("a"), []byte("a"), 0o644), os.WriteFile(in("b"), []byte("b"), 0o644),
				os.WriteFile(filepath.Join(dst, "a"), nil, 0o644),
				os.Link(filepath.Join(dst, "a"), filepath.Join(dst, "b"))); err != nil {
				t.Fatal(err)
			}
			age(t, src)
			var o transfer.TreeOptions
			o.RemoveSource, o.NoTargetDirectory = true, true
			var err error
			for _, name := range []string{"a", "b"} {
				far := sftpServer(t)
				to, from := direction.endpoints(far, far, in(name), filepath.Join(dst, name), nil, nil)
				if !tree {
					_, err = transfer.Copy(t.Context(), to, from, o.Options)
				} else if name == "a" {
					to, from = direction.endpoints(far, far, src, dst, nil, nil)
					_, err = transfer.CopyTree(t.Context(), to, from, o)
				}
				if err == nil || !strings.Contains(err.Error(), "has other names (hard links)") {
					t.Errorf("%v, tree %v: %v", direction, tree, err)
				}
			}
			for _, name := range []string{"a", "b"} {
				if _, err := os.Stat(in(name)); err != nil {
					t.Errorf("%v, tree %v: %v", direction, tree, err)
				}
			}
		}
	}
}

// A source that stays has been copied all the same: it counts, and its hash is told. A file that is
// copied as a tree counts as one of a directory does.
func TestRemoveSourceThatStays(t *testing.T) {
	t.Parallel()
	data := random(1000)
	for _, source := range []string{"/src", "/src/file"} {
		for _, stays := range []bool{true, false} {
			var b *bench
			b = newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				if stays && r.Type == wire.TypeLstat && r.Path == "/src/file" {
					b.server.Files.Append("/src/file", data)
				}
				return nil
			}}, sftptest.LinkConfig{})
			b.server.Files.WriteFile("/src/file", data)
			b.server.Files.SetModTime("/src/file", time.Now().Add(-time.Hour))
			s, err := b.tree(download, source, filepath.Join(b.dir, "dst"), func(j *treeJob) {
				j.Options.RemoveSource, j.Options.Hash = true, checksum.SHA256
			})
			want := transfer.Totals{Files: 1, Bytes: 1000, Removed: 1}
			want.PlannedFiles, want.PlannedBytes, want.Complete = 1, 1000, true
			kind := transfer.Done
			if stays {
				want.Removed, want.Failed, kind = 0, 1, transfer.Failed
			}
			if want.Directories = 1; source == "/src/file" {
				want.Directories = 0
			}
			if (err != nil) != stays || !reflect.DeepEqual(s.Totals, want) {
				t.Errorf("%s: %v, %+v", source, err, s.Totals)
			}
			told := 0
			for _, e := range b.events {
				if e.Kind == kind && e.Hash.Equal(hashOf(checksum.SHA256, data)) && e.Name != "" {
					told++
				}
			}
			if told != 1 {
				t.Errorf("%s: its hash was told %d times", source, told)
			}
		}
	}
}

// A file that is copied to itself, which two hosts do not show, stays.
func TestRemoveSourceThatIsItsCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	age(t, dir)
	o := transfer.Options{}
	o.RemoveSource, o.Preserve = true, true
	result, err := relayFile(t.Context(), sftpServer(t), name, sftpServer(t), name, o)
	if err == nil || result.Removed || !strings.Contains(err.Error(), "the source is the copy itself") {
		t.Errorf("%v, %+v", err, result)
	}
	if left := files(t, dir); !slices.Equal(left, []string{"file"}) {
		t.Errorf("left are %q", left)
	}
}

// A file that replaces another in its own directory is no copy of itself.
func TestRemoveSourceBesideItsCopy(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download, relay, local} {
		dir := t.TempDir()
		source, target := filepath.Join(dir, "new"), filepath.Join(dir, "old")
		for _, name := range []string{source, target} {
			if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		age(t, dir)
		j := copyJob{Host: sftpServer(t), From: sftpServer(t), Direction: direction, Source: source,
			Target: target}
		j.Options.RemoveSource = true
		if result, err := j.Run(t.Context()); err != nil || !result.Removed {
			t.Errorf("%v: %v, %+v", direction, err, result)
		}
		if left := files(t, dir); !slices.Equal(left, []string{"old"}) {
			t.Errorf("%v: left are %q", direction, left)
		}
		if data, err := os.ReadFile(target); string(data) != source {
			t.Errorf("%v: it has %q, %v", direction, data, err)
		}
	}
}

// A link that takes the place of a directory leads to nothing that is removed, not even to another
// name of the same file.
func TestRemoveSourceBeneath(t *testing.T) {
	t.Parallel()
	testenv.Symlink(t, "nothing", filepath.Join(t.TempDir(), "link"))
	var b *bench
	var swapped atomic.Bool
	b = newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if isRename(r, false) && !swapped.Swap(true) {
			dir, outside := filepath.Join(b.dir, "src/d"), filepath.Join(b.dir, "outside")
			if err := errors.Join(os.Mkdir(outside, 0o755),
				os.Link(filepath.Join(dir, "file"), filepath.Join(outside, "file")),
				os.Rename(dir, filepath.Join(b.dir, "moved")), os.Symlink(outside, dir)); err != nil {
				t.Error(err)
			}
		}
		return nil
	}}, sftptest.LinkConfig{})
	src := filepath.Join(b.dir, "src")
	if err := errors.Join(os.MkdirAll(filepath.Join(src, "d"), 0o755),
		os.WriteFile(filepath.Join(src, "d/file"), []byte("data"), 0o644)); err != nil {
		t.Fatal(err)
	}
	s, err := b.tree(upload, src, "/dst", func(j *treeJob) { j.Options.RemoveSource = true })
	if err == nil || s.Removed > 0 || !swapped.Load() {
		t.Errorf("%v, %+v", err, s.Totals)
	}
	for _, name := range []string{"outside/file", "moved/file"} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// What cannot be proved is refused before anything is copied.
func TestRemoveSourceRefused(t *testing.T) {
	t.Parallel()
	src := listedTree(t)
	dst := filepath.Join(t.TempDir(), "dst")
	o := transfer.Options{}
	o.RemoveSource = true
	if _, err := transfer.Copy(t.Context(), transfer.Local(dst),
		transfer.Reader(strings.NewReader("x")), o); err == nil {
		t.Error("a stream was taken")
	}
	for name, change := range map[string]func(o *transfer.SyncOptions){
		"links":  func(o *transfer.SyncOptions) { o.Links = transfer.LinksFollow },
		"delete": func(o *transfer.SyncOptions) { o.Delete = true },
		"merged": func(o *transfer.SyncOptions) { o.KeepDirLinks = true },
	} {
		var s transfer.SyncOptions
		s.Options = o
		change(&s)
		if _, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Local(src), s); err == nil {
			t.Errorf("%s: it was done", name)
		}
	}
	if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was copied: %v", err)
	}
}

// TestProbeThatStays: the file that shows whether a source is its own copy is named if the host does
// not remove it.
func TestProbeThatStays(t *testing.T) {
	for _, tree := range []bool{false, true} {
		b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRemove,
			Do: sftptest.Refuse(wire.PermissionDenied, "")}}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/source/file", []byte("old"))
		source := filepath.Join(b.dir, "source")
		fill(t, source, "file")
		age(t, source)
		var err error
		if tree {
			_, err = b.tree(upload, source, "/", func(j *treeJob) { j.Options.RemoveSource = true })
		} else {
			_, err = b.job(upload, filepath.Join(source, "file"), "/source/file",
				func(j *copyJob) { j.Options.RemoveSource = true })
		}
		if _, there := os.Stat(filepath.Join(source, "file")); err != nil || there == nil {
			t.Errorf("tree %v: %v", tree, err)
		}
		left := b.temporaries()
		if notes := strings.Join(b.notes(), "; "); len(left) != 1 ||
			!strings.Contains(notes, left[0]) {
			t.Errorf("tree %v: left %q, notes %q", tree, left, notes)
		}
	}
}
