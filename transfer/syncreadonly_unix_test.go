//go:build unix

package transfer_test

import (
	"errors"
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

// Directories that their owner may not write to, or may not even list, are synced like others: what
// has changed in them is copied, what is gone is deleted, and they keep their permissions.
func TestSyncReadOnlyDirectories(t *testing.T) {
	test := func(t *testing.T, direction way, far pool.Host, own func(name string) error) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "closed/file", "closed/sub/file", "hidden/file", "closed/type/file", "open/file")
		set := func(mode fs.FileMode, names ...string) {
			t.Helper()
			for _, name := range names {
				if err := os.Chmod(filepath.Join(src, name), mode); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Cleanup(func() { // else nobody but root could remove them
			for _, root := range []string{src, dst} {
				exec.Command("chmod", "-R", "u+rwx", root).Run()
			}
		})
		close := func() {
			t.Helper()
			set(0o555, "closed/sub", "closed", ".")
			if os.Getuid() == 0 { // the source can be read
				set(0o000, "hidden")
			}
		}
		close()
		if err := errors.Join(os.Mkdir(dst, 0o755), own(dst)); err != nil {
			t.Fatal(err)
		}
		j := &syncJob{direction: direction, far: far, src: src, dst: dst, options: transfer.SyncOptions{Delete: true}}
		for _, noLock := range []bool{false, true} {
			j.options.NoLock = noLock
			j.must(t)
			sameTrees(t, src, dst)
			if s := j.must(t); s.Files+s.Deleted+s.Attrs > 0 {
				t.Errorf("again: %+v", s.Totals)
			}
			set(0o755, ".", "closed", "closed/sub", "hidden")
			fill(t, src, "new", "closed/new", "closed/sub/new", "closed/fresh/new", "hidden/new")
			if err := errors.Join(os.Remove(filepath.Join(src, "closed/file")), os.Remove(filepath.Join(src, "closed/sub/file")),
				os.RemoveAll(filepath.Join(src, "closed/type")), os.Symlink("file", filepath.Join(src, "closed/type"))); err != nil {
				t.Fatal(err)
			}
			close()
			j.must(t)
			sameTrees(t, src, dst)
			if noLock {
				break
			}
			set(0o755, ".", "closed", "closed/sub", "hidden")
			if err := errors.Join(os.Remove(filepath.Join(src, "closed/type")), os.Remove(filepath.Join(src, "closed/new")),
				os.RemoveAll(filepath.Join(src, "closed/fresh"))); err != nil {
				t.Fatal(err)
			}
			fill(t, src, "closed/file", "closed/sub/file", "closed/type/file")
			close()
		}
	}
	if os.Getuid() != 0 {
		everyWay(t, func(t *testing.T, direction way, far pool.Host) {
			test(t, direction, far, func(string) error { return nil })
		})
		return
	}
	const nobody = 65534
	t.Run("upload", func(t *testing.T) { // root may write everywhere, so the server is somebody else
		test(t, upload, serverOf(t, nobody), func(name string) error {
			return errors.Join(os.Chown(name, nobody, nobody), os.Chmod(filepath.Dir(filepath.Dir(name)), 0o755))
		})
	})
}

// serverOf is sftpServer for a process of another user.
func serverOf(t *testing.T, user uint32) pool.Host {
	t.Helper()
	cmd := exec.Command(opensshd.Find(t, "sftp-server"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	return started(t, cmd)
}
