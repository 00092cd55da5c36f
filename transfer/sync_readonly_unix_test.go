//go:build linux || darwin || freebsd

package transfer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
)

// modes sets the modes of directories, and makes sure that they can be removed after the test.
func modes(t *testing.T, mode fs.FileMode, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, dir := range dirs {
			os.Chmod(dir, 0o755)
		}
	})
}

// forModes returns a host to which modes apply: far, unless we are root. Then it runs as another
// user, who gets the tree dst in a directory of t.TempDir.
func forModes(t *testing.T, far pool.Host, dst string) pool.Host {
	t.Helper()
	if os.Getuid() != 0 {
		return far
	}
	const nobody = 65534
	cmd := exec.Command(opensshd.Find(t, "sftp-server"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
		Uid: nobody, Gid: nobody}}
	err := errors.Join(os.Chmod(filepath.Join(dst, "../.."), 0o755),
		filepath.WalkDir(dst, func(name string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chown(name, nobody, nobody))
		}))
	if err != nil {
		t.Fatal(err)
	}
	return started(t, cmd)
}

// What is extra is deleted from read-only directories of our own, such as those of Go's module
// cache: both from one that stays, and from one that goes.
func TestSyncDeletesFromReadOnlyDirectories(t *testing.T) {
	t.Parallel()
	for _, backup := range []string{"", ".old"} {
		t.Run("backup="+backup, func(t *testing.T) {
			everyWay(t, func(t *testing.T, direction way, far pool.Host) {
				dir := t.TempDir()
				src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
				fill(t, src, "stays/file")
				fill(t, dst, "stays/file", "stays/old", "stays/sub/old", "goes/sub/old")
				far = forModes(t, far, dst)
				old := filepath.Join(src, "stays/file")
				if info, err := os.Stat(old); err != nil {
					t.Fatal(err)
				} else if err := os.WriteFile(filepath.Join(dst, "stays/file"), []byte(old),
					0o644); err != nil {
					t.Fatal(err)
				} else if err := os.Chtimes(filepath.Join(dst, "stays/file"), info.ModTime(),
					info.ModTime()); err != nil {
					t.Fatal(err)
				}
				modes(t, 0o555, filepath.Join(src, "stays"))
				modes(t, 0o555, filepath.Join(dst, "goes/sub"), filepath.Join(dst, "goes"),
					filepath.Join(dst, "stays/sub"), filepath.Join(dst, "stays"))
				j := &syncJob{direction: direction, far: far, src: src, dst: dst,
					options: transfer.SyncOptions{Delete: true, BackupDir: backup}}
				if s := j.must(t); s.Deleted != 6 || s.Files != 0 {
					t.Errorf("%+v", s.Totals)
				}
				if backup != "" {
					kept := filepath.Join(dst, backup)
					for _, name := range []string{"stays/old", "stays/sub/old", "goes/sub/old"} {
						if _, err := os.Stat(filepath.Join(kept, name)); err != nil {
							t.Error(err)
						}
					}
					if err := os.RemoveAll(kept); err != nil {
						t.Fatal(err)
					}
					if err := os.Chtimes(dst, oldTime, oldTime); err != nil {
						t.Fatal(err)
					}
					if err := os.Chtimes(src, oldTime, oldTime); err != nil {
						t.Fatal(err)
					}
				}
				sameTrees(t, src, dst)
			})
		})
	}
}

// A file or a link takes the name of read-only directories. They are gone by then, so nothing gives
// them their modes back.
func TestSyncReplacesReadOnlyDirectories(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "in/file")
		fill(t, dst, "in/file/sub/old", "link/sub/old")
		if err := os.Symlink("in", filepath.Join(src, "link")); err != nil {
			t.Fatal(err)
		}
		far = forModes(t, far, dst)
		modes(t, 0o555, filepath.Join(src, "in"))
		modes(t, 0o555, filepath.Join(dst, "in/file/sub"), filepath.Join(dst, "in/file"),
			filepath.Join(dst, "in"), filepath.Join(dst, "link/sub"), filepath.Join(dst, "link"))
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true}}
		if s := j.must(t); s.Deleted != 6 || s.Files != 1 || s.Links != 1 {
			t.Errorf("%+v", s.Totals)
		}
		sameTrees(t, src, dst)
	})
}

// An extra read-only directory that stays, since it contains something excluded, has its mode
// afterwards.
func TestSyncKeepsModesOfExtraDirectories(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "file")
		fill(t, dst, "file", "extra/old", "extra/excluded", "extra/sub/old", "extra/sub/excluded")
		const many = 40 // directories whose deletions open extra/many at the same time
		for i := range many {
			fill(t, dst, fmt.Sprintf("extra/many/%d/old", i))
		}
		fill(t, dst, "extra/many/excluded")
		far = forModes(t, far, dst)
		sub, extra := filepath.Join(dst, "extra/sub"), filepath.Join(dst, "extra")
		within := filepath.Join(extra, "many")
		modes(t, 0o510, sub)
		modes(t, 0o555|fs.ModeSetgid, within)
		modes(t, 0o555, extra)
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true, MaxDelete: 1000,
				TreeOptions: transfer.TreeOptions{Filter: rules("excluded")}}}
		if s := j.must(t); s.Deleted != 2+2*many {
			t.Errorf("%+v", s.Totals)
		}
		for name, want := range map[string]fs.FileMode{sub: 0o510, extra: 0o555,
			within: 0o555 | fs.ModeSetgid} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode() &^ fs.ModeType; got != want {
				t.Errorf("%s has mode %v, had %v", name, got, want)
			}
		}
	})
}

// Without permissions, a read-only directory in which something was copied or deleted has its own
// mode afterwards, as with rsync, and not the one with which it could be written in.
func TestSyncWithoutModesKeepsReadOnlyDirectories(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for _, noLock := range []bool{false, true} {
			dir := t.TempDir()
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			fill(t, src, "file", "copied/file", "both/file", "lost/file")
			fill(t, dst, "old", "copied/sub/file", "both/old", "lost/old")
			was, err := os.ReadFile(filepath.Join(src, "lost/file"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dst, "lost/file"), was, 0o644); err != nil {
				t.Fatal(err)
			}
			far := forModes(t, far, dst)
			kept := map[string]fs.FileMode{"copied": 0o555, "both": 0o510, "lost": 0o500, "": 0o555}
			for name, mode := range kept {
				modes(t, mode, filepath.Join(dst, name))
			}
			j := &syncJob{direction: direction, far: far, src: src, dst: dst,
				options: transfer.SyncOptions{Delete: true, NoLock: noLock}}
			j.options.NoModes, j.options.NoTimes = true, true
			if s := j.must(t); s.Files != 3 || s.Deleted != 5 {
				t.Errorf("%+v", s.Totals)
			}
			for name, want := range kept {
				info, err := os.Stat(filepath.Join(dst, name))
				if err != nil {
					t.Fatal(err)
				}
				if got := info.Mode().Perm(); got != want {
					t.Errorf("%q has mode %v, had %v", name, got, want)
				}
			}
		}
	})
}
