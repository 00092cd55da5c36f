//go:build unix

package transfer_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// With Owners, files, directories and links get the numbers of the source's owner and group. If
// nothing else differs, the owner is given as the reason and nothing is copied. Without Owners they
// are left alone. Only root can give files away, so for others the test ends after a second run
// that does nothing.
func TestSyncOwners(t *testing.T) {
	root := os.Getuid() == 0
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "file", "deep/file")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(os.Symlink("file", filepath.Join(src, "link")))
		names := []string{".", "file", "deep", "deep/file", "link"}
		own := func(where string, from int) {
			t.Helper()
			for i, name := range names {
				if root {
					must(os.Lchown(filepath.Join(where, name), from+i, from+100+i))
				}
			}
		}
		same := func() {
			t.Helper()
			for _, name := range names {
				a, err := os.Lstat(filepath.Join(src, name))
				must(err)
				b, err := os.Lstat(filepath.Join(dst, name))
				must(err)
				ours, theirs := a.Sys().(*syscall.Stat_t), b.Sys().(*syscall.Stat_t)
				if ours.Uid != theirs.Uid || ours.Gid != theirs.Gid {
					t.Errorf("%s belongs to %d:%d, want %d:%d", name, theirs.Uid, theirs.Gid,
						ours.Uid, ours.Gid)
				}
			}
		}
		own(src, 4711)
		j := &syncJob{direction: direction, far: far, src: src, dst: dst}
		j.options.Owners = true
		j.must(t)
		same()
		if s := j.must(t); s.Files+s.Attrs > 0 {
			t.Errorf("again: %+v", s.Totals)
		}
		if !root {
			return
		}
		own(dst, 5711)
		j.options.Owners = false
		if s := j.must(t); s.Files+s.Attrs > 0 {
			t.Errorf("without Owners: %+v", s.Totals)
		}
		j.options.Owners = true
		s := j.must(t)
		told := j.told(transfer.Done)
		if s.Files > 0 || s.Attrs != 2 || told["file"] != transfer.ReasonOwner ||
			told["deep/file"] != transfer.ReasonOwner {
			t.Errorf("%+v, told %v", s.Totals, told)
		}
		same()
	})
}
