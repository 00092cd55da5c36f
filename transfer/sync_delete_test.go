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
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// fill makes files that each contain their own name.
func fill(t *testing.T, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		name := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(name), 0o644),
			os.Chtimes(name, oldTime, oldTime)); err != nil {
			t.Fatal(err)
		}
	}
}

func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%d", prefix, i))
	}
	return names
}

// filesIn returns the paths of everything in a directory.
func filesIn(root string) (names []string) {
	filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, name); err == nil && rel != "." {
			names = append(names, rel)
		}
		return nil
	})
	return names
}

// With Delete the target ends up equal whatever happens to the source, including directories
// replaced by files and the reverse. A dry run announces the same.
func TestSyncDeletes(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for seed := range uint64(4) {
			dir := t.TempDir()
			g := newGrove(t, seed, filepath.Join(dir, "src"))
			j := &syncJob{direction: direction, far: far, src: g.root,
				dst:     filepath.Join(dir, "dst"),
				options: transfer.SyncOptions{Delete: true, MaxDelete: 1000}}
			for round := range 8 {
				j.options.DryRun = true
				planned := j.must(t)
				plan := j.doings(transfer.Planned)
				j.options.DryRun = false
				done := j.must(t)
				sameTrees(t, j.src, j.dst)
				if planned.Deleted != done.Deleted ||
					planned.PlannedFiles-planned.Kept != done.Files {
					t.Errorf("seed %d, round %d: planned %+v, done %+v", seed, round,
						planned.Totals,
						done.Totals)
				}
				for _, did := range j.doings(transfer.Deleted) {
					if !slices.Contains(plan, did) {
						t.Errorf("%q was deleted and is not in the plan", did.name)
					}
				}
				if again := j.must(t); again.Files+again.Deleted+again.Attrs > 0 {
					t.Errorf("seed %d, round %d: again %+v", seed, round, again.Totals)
				}
				sameTrees(t, j.src, j.dst)
				for range 12 {
					g.change(true)
				}
			}
		}
	})
}

// A directory becomes a link to one that has the same names. They can be looked up in the source
// through the link, but it does not have them there. Where a link leads to itself, looking fails.
func TestSyncReplacesADirectoryByALinkToItsLike(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "new/file", "new/sub/file", "file")
		fill(t, dst, "current/file", "current/sub/file", "self/file", "self/new/sub/file",
			"loop/sub/file")
		for name, to := range map[string]string{"current": "new", "self": ".", "loop": "loop"} {
			testenv.Symlink(t, to, filepath.Join(src, name))
		}
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true}}
		if s := j.must(t); s.Deleted != 12 || s.Links != 3 {
			t.Errorf("%+v", s.Totals)
		}
		sameTrees(t, src, dst)
	})
}

// Nothing is deleted if that was not asked for, would be too much, or may be wrong.
func TestSyncDeletesNothing(t *testing.T) {
	t.Parallel()
	many, few := numbered("many", 30), numbered("few", 10)
	for name, test := range map[string]struct {
		source, target []string
		options        transfer.SyncOptions
		deleted        int64
		refused        bool
	}{
		"by default": {source: many, target: slices.Concat(many, few)},
		"as many as half": {source: many, target: slices.Concat(many, numbered("x", 30)),
			options: transfer.SyncOptions{Delete: true}, deleted: 30},
		"more than half": {source: many, target: slices.Concat(many, numbered("x", 31)),
			options: transfer.SyncOptions{Delete: true}, refused: true},
		"no more than few": {source: few[:1], target: slices.Concat(few[:1], numbered("x", 10)),
			options: transfer.SyncOptions{Delete: true}, deleted: 10},
		"more than few": {source: few[:1], target: slices.Concat(few[:1], numbered("x", 11)),
			options: transfer.SyncOptions{Delete: true}, refused: true},
		"in directories": {source: few[:1], target: slices.Concat(few[:1], numbered("x/y/z", 11)),
			options: transfer.SyncOptions{Delete: true}, refused: true},
		"allowed": {source: few[:1], target: slices.Concat(few[:1], numbered("x/y/z", 11)),
			options: transfer.SyncOptions{Delete: true, MaxDelete: 11}, deleted: 13},
		"over the limit": {source: many, target: slices.Concat(many, numbered("x", 3)),
			options: transfer.SyncOptions{Delete: true, MaxDelete: 2}, refused: true},
		"empty source": {source: nil, target: few[:1],
			options: transfer.SyncOptions{Delete: true, MaxDelete: 100}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, direction way, far pool.Host) {
				dir := t.TempDir()
				src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
				os.Mkdir(src, 0o755)
				fill(t, src, test.source...)
				fill(t, dst, test.target...)
				j := &syncJob{direction: direction, far: far, src: src, dst: dst,
					options: test.options}
				s, err := j.run(t)
				if refused := errors.Is(err,
					transfer.ErrDeletionRefused); refused != test.refused ||
					(err != nil) != test.refused {
					t.Error(err)
				}
				if s.Deleted != test.deleted {
					t.Errorf("%d are deleted, want %d", s.Deleted, test.deleted)
				}
				if left := filesIn(dst); test.deleted == 0 {
					for _, name := range test.target {
						if !slices.Contains(left, name) {
							t.Errorf("%s is gone", name)
						}
					}
				}
			})
		})
	}
}

// If a source cannot be listed or read completely, nothing is deleted, whichever reply failed.
func TestSyncSourceFails(t *testing.T) {
	for name, fault := range map[string]func(r sftptest.Request) bool{
		"directory not opened": func(r sftptest.Request) bool {
			return r.Type == wire.TypeOpendir && r.Path == "/src/d"
		},
		"root not opened": func(r sftptest.Request) bool {
			return r.Type == wire.TypeOpendir && r.Path == "/src"
		},
		"listing broken off": func(r sftptest.Request) bool {
			return r.Type == wire.TypeReaddir
		},
		"file not opened": func(r sftptest.Request) bool {
			return r.Type == wire.TypeOpen && r.Path == "/src/a"
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if fault(r) {
						return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "no")}
					}
					return nil
				}}, sftptest.LinkConfig{})
			b.server.Files.WriteFile("/src/a", []byte("data"))
			b.server.Files.WriteFile("/src/d/b", []byte("data"))
			dst := filepath.Join(b.dir, "dst")
			fill(t, dst, "extra", "d/extra")
			j := &syncJob{direction: download, far: b.host, src: "/src", dst: dst,
				options: transfer.SyncOptions{Delete: true}}
			s, err := j.run(t)
			if err == nil || s.Deleted > 0 {
				t.Errorf("%+v, %v", s.Totals, err)
			}
			for _, name := range []string{"extra", "d/extra"} {
				if _, err := os.Stat(filepath.Join(dst, name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// With a backup directory nothing is lost, least of all what an earlier run moved there.
func TestSyncBackup(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "kept")
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true, BackupDir: ".old/of today"}}
		for range 2 {
			fill(t, dst, "kept", "extra", "d/e/extra")
			if s := j.must(t); s.Deleted != 4 {
				t.Errorf("%+v", s.Totals)
			}
		}
		want := []string{".old", ".old/of today", ".old/of today/d", ".old/of today/d/e",
			".old/of today/d/e/extra", ".old/of today/d/e/extra.~1~", ".old/of today/extra",
			".old/of today/extra.~1~", "kept"}
		if got := filesIn(dst); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
		if s := j.must(t); s.Deleted+s.Files > 0 {
			t.Errorf("again %+v", s.Totals)
		}
	})
}

// A backup directory into which nothing can be moved is refused before anything is done. A link is
// not followed, wherever it leads.
func TestSyncBackupRefused(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for name, hinder := range map[string]func(dst, outside string) error{
			"is a symbolic link": func(dst, outside string) error {
				return os.Symlink(outside, filepath.Join(dst, ".old"))
			},
			"is not a directory": func(dst, _ string) error {
				return os.WriteFile(filepath.Join(dst, ".old"), nil, 0o644)
			},
		} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				src, dst, outside := filepath.Join(dir, "src"), filepath.Join(dir, "dst"),
					filepath.Join(dir, "outside")
				fill(t, src, "new")
				fill(t, dst, "extra")
				if err := errors.Join(os.Mkdir(outside, 0o755), hinder(dst, outside)); err != nil {
					t.Fatal(err)
				}
				j := &syncJob{direction: direction, far: far, src: src, dst: dst,
					options: transfer.SyncOptions{Delete: true, BackupDir: ".old/today"}}
				for _, dry := range []bool{true, false} {
					j.options.DryRun = dry
					if _, err := j.run(t); err == nil ||
						!strings.Contains(err.Error(), filepath.Join(dst, ".old")+" "+name) {
						t.Errorf("dry run %v: %v", dry, err)
					}
				}
				if got := filesIn(dst); !slices.Equal(got, []string{".old", "extra"}) ||
					len(filesIn(outside)) > 0 {
					t.Errorf("there are %q, and outside %q", got, filesIn(outside))
				}
			})
		}
	})
}

// What an earlier run moved to the backup directory is neither followed nor in the way: not a link
// to a directory, and not a file, where there is a directory now.
func TestSyncBackupOfWhatWasNoDirectory(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst, outside := filepath.Join(dir, "src"), filepath.Join(dir, "dst"),
			filepath.Join(dir, "outside")
		fill(t, src, "kept")
		fill(t, dst, "kept", "file")
		if err := errors.Join(os.Mkdir(outside, 0o755),
			os.Symlink(outside, filepath.Join(dst, "link"))); err != nil {
			t.Fatal(err)
		}
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true, BackupDir: ".old"}}
		j.must(t)
		fill(t, dst, "file/a/b", "link/c")
		j.must(t)
		want := []string{".old", ".old/file", ".old/file.~1~", ".old/file.~1~/a",
			".old/file.~1~/a/b",
			".old/link", ".old/link.~1~", ".old/link.~1~/c", "kept"}
		if got := filesIn(dst); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
		if got := filesIn(outside); len(got) > 0 {
			t.Errorf("outside there are %q", got)
		}
	})
}

// How many files the target has is not counted twice if a connection is lost while they are listed:
// more than half of them would be deleted.
func TestSyncDeletesNothingAfterARelisting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		b := newTreeBench(t, sftptest.Script{ReaddirNames: 10,
			Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeReaddir && asked.Add(1) == 8 {
					return []sftptest.Action{sftptest.Hangup()}
				}
				return nil
			}}, sftptest.LinkConfig{})
		connections := b.redials(sftptest.LinkConfig{}, nil)
		src := filepath.Join(b.dir, "src")
		fill(t, src, numbered("kept", 40)...)
		for _, name := range slices.Concat(numbered("kept", 40), numbered("extra", 60)) {
			b.server.Files.WriteFile("/dst/"+name, nil)
		}
		j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
			options: transfer.SyncOptions{Delete: true}}
		j.options.Retries = 3
		s, err := j.run(t)
		if !errors.Is(err, transfer.ErrDeletionRefused) || s.Deleted > 0 || *connections != 2 {
			t.Errorf("over %d connections: %+v, %v", *connections, s.Totals, err)
		}
	})
}

// If a listed directory has become a link by the time its files are deleted, nothing is deleted
// where the link leads.
func TestSyncDeletesInNoLink(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst, outside := filepath.Join(dir, "src"), filepath.Join(dir, "dst"),
			filepath.Join(dir, "outside")
		fill(t, src, "d/kept", "late")
		fill(t, dst, "d/kept", "d/extra", "d/deep/extra")
		fill(t, outside, "extra", "deep/extra", "kept")
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true}}
		j.options.Events = nil
		swapped := false
		dstEnd, srcEnd := direction.endpoints(far, far, src, dst, nil, nil)
		o := j.options
		o.Events = func(e transfer.Event) {
			// Everything has been listed by now, or soon will be; in both cases nothing outside may
			// be touched.
			if e.Kind == transfer.Done && !swapped {
				swapped = true
				os.Rename(filepath.Join(dst, "d"), filepath.Join(dir, "was"))
				os.Symlink(outside, filepath.Join(dst, "d"))
			}
		}
		transfer.Sync(t.Context(), dstEnd, srcEnd, o)
		if !swapped {
			t.Fatal("nothing was copied")
		}
		for _, name := range []string{"extra", "deep/extra", "kept"} {
			if _, err := os.Stat(filepath.Join(outside, name)); err != nil {
				t.Error(err)
			}
		}
	})
}

// A sync interrupted at any moment makes the target equal when run again.
func TestSyncInterrupted(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		g := newGrove(t, 7, filepath.Join(dir, "src"))
		dst := filepath.Join(dir, "dst")
		o := transfer.SyncOptions{Delete: true, MaxDelete: 1000}
		for at := 1; ; at++ {
			for range 6 {
				g.change(true)
			}
			ctx, cancel := withCancel(t)
			events := 0
			o.Events = func(transfer.Event) {
				if events++; events == at {
					cancel()
				}
			}
			to, from := direction.endpoints(far, far, g.root, dst, nil, nil)
			_, err := transfer.Sync(ctx, to, from, o)
			if err == nil && at > events+5 || at > 40 {
				break
			}
			o.Events = nil
			if _, err := transfer.Sync(t.Context(), to, from, o); err != nil {
				t.Fatalf("after an interruption at event %d: %v", at, err)
			}
			sameTrees(t, g.root, dst)
			if t.Failed() {
				t.Fatalf("at event %d", at)
			}
		}
	})
}

// A hostile server's listing with names that lead elsewhere deletes nothing.
func TestSyncHostileTarget(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	b.server.Files.WriteFile(`/dst/..\..\secret`, []byte("data"))
	src := filepath.Join(b.dir, "src")
	fill(t, src, "a")
	j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
		options: transfer.SyncOptions{Delete: true}}
	if s, err := j.run(t); err == nil || s.Deleted > 0 ||
		!strings.Contains(err.Error(), "invalid file name") {
		t.Errorf("%+v, %v", s.Totals, err)
	}
}

// A dry run announces no deletion of a directory that will not be empty, and no file in its place.
func TestSyncDryRunOfExcludedInExtra(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		j := &syncJob{direction: direction, far: far, src: filepath.Join(dir, "src"),
			dst: filepath.Join(dir, "dst"), options: transfer.SyncOptions{Delete: true,
				TreeOptions: transfer.TreeOptions{Filter: rules("*.o")}}}
		fill(t, j.src, "file", "stays", "goes")
		fill(t, j.dst, "sub/a.o", "sub/b", "deep/sub/c.o", "deep/empty/d", "stays/e.o", "goes/f")
		j.options.DryRun = true
		planned, planErr := j.run(t)
		plan, warned := j.doings(transfer.Planned), j.doings(transfer.Warning)
		j.options.DryRun = false
		done, err := j.run(t)
		if planErr == nil || err == nil || planErr.Error() != err.Error() {
			t.Errorf("planned %v, done %v", planErr, err)
		}
		if planned.Deleted != done.Deleted || planned.Failed != done.Failed {
			t.Errorf("planned %+v, done %+v", planned.Totals, done.Totals)
		}
		if did := j.doings(transfer.Deleted, transfer.Done); !slices.Equal(plan, did) {
			t.Errorf("planned %v, did %v", plan, did)
		}
		if now := j.doings(transfer.Warning); !slices.Equal(warned, now) || len(now) == 0 {
			t.Errorf("the dry run warns of %v, the run of %v", warned, now)
		}
	})
}

// What a sync deletes is counted once, also if the connection is lost while it is listed.
func TestSyncCountsExtrasOnce(t *testing.T) {
	const extras = 20
	var lists, reads atomic.Int32
	b := newTreeBench(t, sftptest.Script{ReaddirNames: 3,
		Intercept: func(r sftptest.Request) []sftptest.Action {
			switch {
			case r.Path != "/dst":
			case r.Type == wire.TypeOpendir:
				lists.Add(1)
			case r.Type == wire.TypeReaddir && lists.Load() == 2 && reads.Add(1) == 4:
				return []sftptest.Action{sftptest.Hangup()}
			}
			return nil
		}}, sftptest.LinkConfig{})
	src := filepath.Join(b.dir, "src")
	fill(t, src, "there")
	for _, name := range append(numbered("extra", extras), "there") {
		b.server.Files.WriteFile("/dst/"+name, []byte(name))
	}
	count := b.redials(sftptest.LinkConfig{ToServer: time.Millisecond,
		ToClient: time.Millisecond}, nil)
	j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
		options: transfer.SyncOptions{Delete: true, MaxDelete: extras}}
	j.options.Retry = onceMore
	if s, err := j.run(t); err != nil || s.Deleted != extras || *count != 2 {
		t.Errorf("%d were deleted over %d connections, %v", s.Deleted, *count, err)
	}
}

// A directory in which something could not be deleted stays, as do those above it, and is not said
// to contain what nobody has excluded.
func TestSyncSaysWhyADirectoryStays(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeRemove && r.Path == "/dst/failed/deep/refused" {
			return []sftptest.Action{sftptest.Refuse(wire.Failure, "no")}
		}
		return nil
	}}, sftptest.LinkConfig{})
	src := filepath.Join(b.dir, "src")
	fill(t, src, "there")
	for _, name := range []string{"there", "failed/deep/refused", "failed/extra",
		"excluded/deep/a.o"} {
		b.server.Files.WriteFile("/dst/"+name, []byte(name))
	}
	j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
		options: transfer.SyncOptions{Delete: true,
			TreeOptions: transfer.TreeOptions{Filter: rules("*.o")}}}
	if s, err := j.run(t); err == nil || s.Failed != 1 || s.Deleted != 1 {
		t.Errorf("%+v, %v", s.Totals, err)
	}
	for name, want := range map[string]string{
		"failed/deep": "something in it could not be deleted",
		"failed":      "something in it could not be deleted",
		"excluded":    "it contains excluded or new files",
	} {
		said := ""
		for _, e := range j.events {
			if e.Kind == transfer.Warning && e.Target == "/dst/"+name {
				said += e.Message
			}
		}
		if said != "the directory is not deleted: "+want {
			t.Errorf("%s: %q", name, said)
		}
	}
}
