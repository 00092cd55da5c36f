//go:build unix

package transfer_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// replacements makes trees in which everything is replaced by everything, and in which dst has more
// of each kind than src.
func replacements(t *testing.T, src, dst string) {
	t.Helper()
	makers := map[string]func(name string) error{
		"file": func(name string) error { return os.WriteFile(name, []byte(name), 0o644) },
		"link": func(name string) error { return os.Symlink("to "+name, name) },
		"dir":  func(name string) error { return os.Mkdir(name, 0o755) },
		"tree": func(name string) error {
			return errors.Join(os.MkdirAll(name+"/deep", 0o755),
				os.WriteFile(name+"/deep/file", []byte(name), 0o644),
				os.Symlink("file", name+"/deep/link"))
		},
		"fifo": func(name string) error { return syscall.Mkfifo(name, 0o644) },
	}
	for _, dir := range []string{src, dst} {
		if err := errors.Join(os.MkdirAll(dir+"/below", 0o755),
			os.WriteFile(dir+"/kept", nil, 0o644), os.MkdirAll(dir+"/private/deep", 0o700),
			os.Chmod(dir+"/private/deep", 0o750)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dst+"/private/deep/extra", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for old, makeOld := range makers {
		for _, in := range []string{"", "below"} {
			if err := makeOld(filepath.Join(dst, in, "extra "+old)); err != nil {
				t.Fatal(err)
			}
		}
		for new, makeNew := range makers {
			if new == "fifo" {
				continue
			}
			name := new + " for " + old
			if err := errors.Join(makeOld(filepath.Join(dst, "below", name)),
				makeNew(filepath.Join(src, "below", name))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Whatever is replaced or deleted gets into the backup directory, as with rsync.
func TestSyncBackupAsRsync(t *testing.T) {
	t.Parallel()
	rsync := testenv.Program(t, "rsync")
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for _, placement := range []transfer.Placement{transfer.PlaceAuto, transfer.PlaceDirect} {
			dir := t.TempDir()
			src, ours, theirs := filepath.Join(dir, "src"), filepath.Join(dir, "ours"),
				filepath.Join(dir, "theirs")
			replacements(t, src, ours)
			ask(t, dir, rsync, "-aD", "ours/", "theirs")
			cmd := exec.Command(rsync, "-rlpt", "--delete-after", "--backup-dir=.old",
				"--exclude=/.old", "src/", "theirs")
			cmd.Dir = dir
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			j := &syncJob{direction: direction, far: far, src: src, dst: ours,
				options: transfer.SyncOptions{Delete: true, BackupDir: ".old", MaxDelete: 1000}}
			j.options.Placement = placement
			j.must(t)
			if a, b := census(t, ours, false), census(t, theirs, false); !slices.Equal(a, b) {
				t.Errorf("placement %v: only ours has\n%s\nonly rsync's has\n%s", placement,
					lacking(a, b), lacking(b, a))
			}
			if s := j.must(t); s.Files+s.Links+s.Deleted > 0 {
				t.Errorf("placement %v: again %+v", placement, s.Totals)
			}
		}
	})
}

// Who could not reach what is kept before the sync cannot reach it afterwards, although the sync
// opens the directory where it was: neither what is deleted nor what is replaced.
func TestSyncBackupKeepsTheOldMode(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "closed/deep/kept", "replaced/file", "opened/kept")
		fill(t, dst, "closed/deep/extra", "replaced/file", "opened/extra")
		if err := errors.Join(os.Chmod(dst+"/closed", 0o700), os.Chmod(dst+"/replaced", 0o710),
			os.Chmod(src+"/opened", 0o700), os.WriteFile(src+"/replaced/file", nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true, BackupDir: ".old"}}
		j.must(t)
		for name, want := range map[string]os.FileMode{"closed": 0o755, ".old/closed": 0o700,
			".old/closed/deep": 0o755, "replaced": 0o755, ".old/replaced": 0o710,
			"opened": 0o700, ".old/opened": 0o755} {
			if is, err := os.Stat(filepath.Join(dst, name)); err != nil || is.Mode().Perm() != want {
				t.Errorf("%s: %v, %v; want %v", name, is.Mode(), err, want)
			}
		}
	})
}

// On a host with neither hard links nor posix-rename what is replaced is moved, and gets its name
// back if the new file cannot have it.
func TestSyncBackupOnAPoorHost(t *testing.T) {
	for name, refuse := range map[string]bool{"replaced": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			script := sftptest.Script{Extensions: []wire.ExtensionPair{}}
			if refuse {
				script.Intercept = func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeRename && strings.Contains(r.Path, ".usftp-") ||
						r.Type == wire.TypeSymlink {
						return []sftptest.Action{sftptest.Refuse(wire.Failure, "no")}
					}
					return nil
				}
			}
			b := newTreeBench(t, script, sftptest.LinkConfig{})
			src := filepath.Join(b.dir, "src")
			fill(t, src, "file")
			if err := os.Symlink("new", filepath.Join(src, "link")); err != nil {
				t.Fatal(err)
			}
			b.server.Files.WriteFile("/dst/file", []byte("old file"))
			b.server.Files.WriteFile("/dst/link", []byte("old file for a link"))
			j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
				options: transfer.SyncOptions{BackupDir: ".old", TreeOptions: transfer.TreeOptions{
					Options: transfer.Options{Placement: transfer.PlaceAtomic}}}}
			_, err := j.run(t)
			if (err != nil) != refuse {
				t.Errorf("it ends with %v", err)
			}
			at := "/dst/.old/"
			if refuse {
				at = "/dst/"
			}
			if file, link := b.remote(at+"file"), b.remote(at+"link"); string(file) != "old file" ||
				string(link) != "old file for a link" {
				t.Errorf("%s has %q and %q", at, file, link)
			}
			if to, err := b.host.Client.ReadLink("/dst/link"); !refuse && (to != "new" || err != nil) {
				t.Errorf("the link leads to %q, %v", to, err)
			}
		})
	}
}

// What earlier runs kept stays where RENAME replaces files, as on servers that pass it on to
// rename(2).
func TestSyncBackupsStayWhereRenameReplaces(t *testing.T) {
	var files *sftptest.Files
	b := newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
		Intercept: func(q sftptest.Request) []sftptest.Action {
			if q.Type == wire.TypeRename {
				files.Remove(q.Path2)
			}
			return nil
		}}, sftptest.LinkConfig{})
	files = b.server.Files
	src := filepath.Join(b.dir, "src")
	fill(t, src, "kept", "replaced")
	files.WriteFile("/dst/replaced", []byte("second"))
	files.WriteFile("/dst/deleted", []byte("second"))
	files.WriteFile("/dst/.old/replaced", []byte("first"))
	files.WriteFile("/dst/.old/deleted", []byte("first"))
	j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
		options: transfer.SyncOptions{Delete: true, BackupDir: ".old"}}
	if _, err := j.run(t); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"replaced": "first", "replaced.~1~": "second",
		"deleted": "first", "deleted.~1~": "second"} {
		if got := b.remote("/dst/.old/" + name); string(got) != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// Somebody removes the backup directory while the sync runs. It is made again, since nothing is
// replaced or deleted that is not kept.
func TestSyncMakesItsBackupDirectoryAgain(t *testing.T) {
	for name, hardlinks := range map[string]bool{"linked": true, "moved": false} {
		var files *sftptest.Files
		var replaced []string // in the order in which the file system lists them
		script := sftptest.Script{Intercept: func(q sftptest.Request) []sftptest.Action {
			if q.Type == wire.TypeRename || q.Extension == wire.ExtPosixRename {
				if name, ok := strings.CutPrefix(q.Path2, "/dst/d/"); ok {
					if replaced = append(replaced, "d/"+name); len(replaced) < 3 {
						files.Remove("/dst/.old")
					}
				}
			}
			return nil
		}}
		if !hardlinks {
			script.Extensions = []wire.ExtensionPair{}
		}
		b := newTreeBench(t, script, sftptest.LinkConfig{})
		files = b.server.Files
		src := filepath.Join(b.dir, "src")
		all := []string{"d/first", "d/second", "d/third"}
		fill(t, src, all...)
		for _, name := range append(all, "d/extra") {
			files.WriteFile("/dst/"+name, []byte("old"))
		}
		j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
			options: transfer.SyncOptions{Delete: true, BackupDir: ".old"}}
		j.options.MaxFiles = 1
		if _, err := j.run(t); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(replaced) != len(all) {
			t.Fatalf("%s: replaced %q", name, replaced)
		}
		for _, of := range []string{replaced[2], "d/extra"} {
			if old, err := files.ReadFile("/dst/.old/" + of); string(old) != "old" {
				t.Errorf("%s: what was %s is %q, %v", name, of, old, err)
			}
		}
	}
}
